//! Comparisons, and what depends on predicates.

// Comparisons with NaN are neither less nor not less: the forms that are written are those that are meant.
#![allow(clippy::double_comparisons, clippy::neg_cmp_op_on_partial_ord)]

use std::marker::PhantomData;

use super::Fn2;
use crate::machine::{Body, Form, LANES, Lanes, Op, Step, Use, Vectors, When, Width};

/// `setp`: `flags` says how the predicate `c`, with `negate`, is combined; `imm` is not zero where `e` is written too.
pub(crate) struct Compare<F>(PhantomData<F>);

/// How a comparison is combined with a predicate: what is neither of these is an exclusive or.
pub(crate) const ALONE: u32 = 0;
pub(crate) const AND: u32 = 1;
pub(crate) const OR: u32 = 2;

#[inline(always)]
unsafe fn combine(lanes: &mut Lanes<'_>, op: &Op, bits: u32) {
    // SAFETY: `d`, and `c` and `e` where they are used, are predicates.
    unsafe {
        let mut positive = bits;
        let mut negative = !bits;
        if op.flags != ALONE {
            let other = lanes.predicate(op.c) ^ op.negate;
            let with = |bits| match op.flags {
                AND => bits & other,
                OR => bits | other,
                _ => bits ^ other,
            };
            positive = with(positive);
            negative = with(negative);
        }
        lanes.set_predicate(op.d, positive);
        if op.imm != 0 {
            lanes.set_predicate(op.e, negative);
        }
    }
}

impl<F: Fn2<D = bool>> Body for Compare<F> {
    const FORM: Form = Form {
        c: Use::Read(Width::Predicate),
        e: Use::Write(Width::Predicate),
        ..Form::two(Width::Predicate, Width::of_type::<F::A>(), Width::of_type::<F::B>()).when(When::Combined)
    };

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a` and `b` are planes of these types.
        unsafe {
            let a = &*lanes.plane::<F::A>(op.a);
            let b = &*lanes.plane::<F::B>(op.b);
            let mut holds = [0u8; LANES];
            for lane in 0..LANES {
                holds[lane] = u8::from(F::apply(a[lane], b[lane]));
            }
            let bits = V::mask(&holds);
            combine(lanes, op, bits);
        }
        Step::Next
    }
}

/// `setp` and a branch by its result, whose guard is `d`.
pub(crate) struct CompareBranch<F>(PhantomData<F>);

impl<F: Fn2<D = bool>> Body for CompareBranch<F> {
    const FORM: Form =
        Form::two(Width::Predicate, Width::of_type::<F::A>(), Width::of_type::<F::B>()).when(When::Branch);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a` and `b` are planes of these types, and `d` is a predicate.
        unsafe {
            let a = &*lanes.plane::<F::A>(op.a);
            let b = &*lanes.plane::<F::B>(op.b);
            let mut holds = [0u8; LANES];
            for lane in 0..LANES {
                holds[lane] = u8::from(F::apply(a[lane], b[lane]));
            }
            let bits = V::mask(&holds);
            lanes.set_predicate(op.d, bits);
            super::control::jump(lanes, bits ^ op.guard_negate)
        }
    }
}

macro_rules! comparisons {
    ($($name:ident |$a:ident, $b:ident| $body:expr;)*) => {$(
        pub(crate) struct $name<T>(PhantomData<T>);
        impl<T: Copy + PartialOrd> Fn2 for $name<T> {
            type A = T;
            type B = T;
            type D = bool;
            #[inline(always)]
            fn apply($a: T, $b: T) -> bool { $body }
        }
    )*};
}

comparisons! {
    Equal |a, b| a == b;
    NotEqual |a, b| a < b || a > b;
    Less |a, b| a < b;
    LessEqual |a, b| a <= b;
    Greater |a, b| a > b;
    GreaterEqual |a, b| a >= b;
    EqualOrNan |a, b| !(a < b || a > b);
    NotEqualOrNan |a, b| !(a == b);
    LessOrNan |a, b| !(a >= b);
    LessEqualOrNan |a, b| !(a > b);
    GreaterOrNan |a, b| !(a <= b);
    GreaterEqualOrNan |a, b| !(a < b);
    Numbers |a, b| a.partial_cmp(&b).is_some();
    SomeNan |a, b| a.partial_cmp(&b).is_none();
}

/// `selp`: `a` where the predicate `e`, with `negate`, holds, and else `b`.
pub(crate) struct Select<T>(PhantomData<T>);
impl<T: Copy + Default> Body for Select<T> {
    const FORM: Form =
        Form::two(Width::of_type::<T>(), Width::of_type::<T>(), Width::of_type::<T>()).with(Width::Predicate);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a`, `b` and `d` are planes of this type, and `e` is a predicate.
        unsafe {
            let bits = lanes.predicate(op.e) ^ op.negate;
            let a = &*lanes.plane::<T>(op.a);
            let b = &*lanes.plane::<T>(op.b);
            let mut values = [T::default(); LANES];
            for lane in 0..LANES {
                values[lane] = if bits >> lane & 1 != 0 { a[lane] } else { b[lane] };
            }
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// `mov` of a predicate, with `negate`.
pub(crate) struct MovePredicate;
impl Body for MovePredicate {
    const FORM: Form = Form::one(Width::Predicate, Width::Predicate);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are predicates.
        unsafe {
            let bits = lanes.predicate(op.a) ^ op.negate;
            lanes.set_predicate(op.d, bits);
        }
        Step::Next
    }
}

/// What `testp` asks.
pub(crate) const TESTS: [&str; 6] = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];

fn test(kind: u64, value: f64, least_normal: f64) -> bool {
    match kind {
        0 => value.is_finite(),
        1 => value.is_infinite(),
        2 => !value.is_nan(),
        3 => value.is_nan(),
        // Zero is one, as documented.
        4 => value.is_finite() && (value.abs() >= least_normal || value == 0.0),
        _ => value != 0.0 && value.abs() < least_normal,
    }
}

/// `testp` of 32 bits; `flags` is what is asked.
pub(crate) struct TestSingle;
impl Body for TestSingle {
    const FORM: Form = Form::one(Width::Predicate, Width::W32);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a` is a plane of 32 bits, and `d` is a predicate.
        unsafe {
            let a = *lanes.plane::<f32>(op.a);
            let holds = |lane: usize| test(op.imm, a[lane].into(), f32::MIN_POSITIVE.into());
            let bits = (0..LANES).fold(0, |bits, lane| bits | u32::from(holds(lane)) << lane);
            lanes.set_predicate(op.d, bits);
        }
        Step::Next
    }
}

/// `testp` of 64 bits.
pub(crate) struct TestDouble;
impl Body for TestDouble {
    const FORM: Form = Form::one(Width::Predicate, Width::W64);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: `a` is a plane of 64 bits, and `d` is a predicate.
        unsafe {
            let a = *lanes.plane::<f64>(op.a);
            let bits =
                (0..LANES).fold(0, |bits, lane| bits | u32::from(test(op.imm, a[lane], f64::MIN_POSITIVE)) << lane);
            lanes.set_predicate(op.d, bits);
        }
        Step::Next
    }
}
