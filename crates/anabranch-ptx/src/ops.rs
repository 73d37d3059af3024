//! Operations: what the lowered code consists of.
//!
//! A file for each family. Most operations compute each lane on its own: they are functions of one, two or three values
//! ([`One`], [`Two`], [`Three`]), whose loops over the lanes become vector code at each level.

// Loops over lanes read as what they are, one lane of several planes at a time.
#![allow(clippy::needless_range_loop)]

pub(crate) mod atomic;
pub(crate) mod bits;
pub(crate) mod carry;
pub(crate) mod compare;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod half;
pub(crate) mod integer;
pub(crate) mod load;
pub(crate) mod packed;
pub(crate) mod phases;
pub(crate) mod quad;
pub(crate) mod real;
pub(crate) mod rounded;
pub(crate) mod rows;
pub(crate) mod special;
pub(crate) mod video;
pub(crate) mod warp;

use std::marker::PhantomData;

use crate::machine::{FULL, Form, LANES, Lanes, Op, Step, Vectors, Width};

pub(crate) use crate::machine::{body as select, body_of as select_plain, body_of_few as select_few};
pub(crate) use crate::machine::{body_and_rest, few_and_rest};

/// A function of one value.
pub(crate) trait Fn1 {
    type A: Copy;
    type D: Copy + Default;
    fn apply(a: Self::A) -> Self::D;
}

/// A function of two values.
pub(crate) trait Fn2 {
    type A: Copy;
    type B: Copy;
    type D: Copy + Default;
    fn apply(a: Self::A, b: Self::B) -> Self::D;
}

/// A function of three values.
pub(crate) trait Fn3 {
    type A: Copy;
    type B: Copy;
    type C: Copy;
    type D: Copy + Default;
    fn apply(a: Self::A, b: Self::B, c: Self::C) -> Self::D;
}

/// `d = f(a)` for each lane.
pub(crate) struct One<F>(PhantomData<F>);

/// `d = f(a, b)` for each lane.
pub(crate) struct Two<F>(PhantomData<F>);

/// `d = f(a, b, c)` for each lane.
pub(crate) struct Three<F>(PhantomData<F>);

/// Writes values, for the lanes that run.
///
/// # Safety
///
/// `place` is a plane of the frame.
#[inline(always)]
unsafe fn write<T: Copy>(mask: u32, place: *mut [T; LANES], values: &[T; LANES]) {
    // SAFETY: the plane is nobody else's now.
    let place = unsafe { &mut *place };
    if mask == FULL {
        *place = *values;
    } else {
        // All lanes are chosen before any is written, so that this is a choice of vectors.
        let mut chosen = *place;
        for lane in 0..LANES {
            chosen[lane] = if mask >> lane & 1 != 0 { values[lane] } else { chosen[lane] };
        }
        *place = chosen;
    }
}

impl<F: Fn1> crate::machine::Body for One<F> {
    const FORM: Form = Form::one(Width::of_type::<F::D>(), Width::of_type::<F::A>());

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let mut values = [F::D::default(); LANES];
        // SAFETY: the slots are planes of these types, as lowering made them. The shared reference ends before the write.
        unsafe {
            let a = &*lanes.plane::<F::A>(op.a);
            for lane in 0..LANES {
                values[lane] = F::apply(a[lane]);
            }
            write(lanes.mask, lanes.plane::<F::D>(op.d), &values);
        }
        Step::Next
    }
}

impl<F: Fn2> crate::machine::Body for Two<F> {
    const FORM: Form = Form::two(Width::of_type::<F::D>(), Width::of_type::<F::A>(), Width::of_type::<F::B>());

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let mut values = [F::D::default(); LANES];
        // SAFETY: the slots are planes of these types, as lowering made them. The shared references end before the write.
        unsafe {
            let a = &*lanes.plane::<F::A>(op.a);
            let b = &*lanes.plane::<F::B>(op.b);
            for lane in 0..LANES {
                values[lane] = F::apply(a[lane], b[lane]);
            }
            write(lanes.mask, lanes.plane::<F::D>(op.d), &values);
        }
        Step::Next
    }
}

impl<F: Fn3> crate::machine::Body for Three<F> {
    const FORM: Form = Form::three(
        Width::of_type::<F::D>(),
        Width::of_type::<F::A>(),
        Width::of_type::<F::B>(),
        Width::of_type::<F::C>(),
    );

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let mut values = [F::D::default(); LANES];
        // SAFETY: the slots are planes of these types, as lowering made them. The shared references end before the write.
        unsafe {
            let a = &*lanes.plane::<F::A>(op.a);
            let b = &*lanes.plane::<F::B>(op.b);
            let c = &*lanes.plane::<F::C>(op.c);
            for lane in 0..LANES {
                values[lane] = F::apply(a[lane], b[lane], c[lane]);
            }
            write(lanes.mask, lanes.plane::<F::D>(op.d), &values);
        }
        Step::Next
    }
}

/// Defines functions of one, two or three values of a type that is a parameter.
macro_rules! functions {
    ($($(#[$attribute:meta])* $name:ident<$t:ident: $bound:path>($a:ident: $ta:ty) -> $td:ty { $body:expr })*) => {$(
        $(#[$attribute])*
        pub(crate) struct $name<$t>(std::marker::PhantomData<$t>);
        impl<$t: $bound> crate::ops::Fn1 for $name<$t> {
            type A = $ta;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta) -> $td { $body }
        }
    )*};
    ($($(#[$attribute:meta])* $name:ident<$t:ident: $bound:path>($a:ident: $ta:ty, $b:ident: $tb:ty) -> $td:ty { $body:expr })*) => {$(
        $(#[$attribute])*
        pub(crate) struct $name<$t>(std::marker::PhantomData<$t>);
        impl<$t: $bound> crate::ops::Fn2 for $name<$t> {
            type A = $ta;
            type B = $tb;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta, $b: $tb) -> $td { $body }
        }
    )*};
    ($($(#[$attribute:meta])* $name:ident<$t:ident: $bound:path>($a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty) -> $td:ty { $body:expr })*) => {$(
        $(#[$attribute])*
        pub(crate) struct $name<$t>(std::marker::PhantomData<$t>);
        impl<$t: $bound> crate::ops::Fn3 for $name<$t> {
            type A = $ta;
            type B = $tb;
            type C = $tc;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta, $b: $tb, $c: $tc) -> $td { $body }
        }
    )*};
}
pub(crate) use functions;

/// The same for functions of fixed types.
macro_rules! plain_functions {
    ($($(#[$attribute:meta])* $name:ident($a:ident: $ta:ty) -> $td:ty { $body:expr })*) => {$(
        $(#[$attribute])*
        pub(crate) struct $name;
        impl crate::ops::Fn1 for $name {
            type A = $ta;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta) -> $td { $body }
        }
    )*};
    ($($(#[$attribute:meta])* $name:ident($a:ident: $ta:ty, $b:ident: $tb:ty) -> $td:ty { $body:expr })*) => {$(
        $(#[$attribute])*
        pub(crate) struct $name;
        impl crate::ops::Fn2 for $name {
            type A = $ta;
            type B = $tb;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta, $b: $tb) -> $td { $body }
        }
    )*};
    ($($(#[$attribute:meta])* $name:ident($a:ident: $ta:ty, $b:ident: $tb:ty, $c:ident: $tc:ty) -> $td:ty { $body:expr })*) => {$(
        $(#[$attribute])*
        pub(crate) struct $name;
        impl crate::ops::Fn3 for $name {
            type A = $ta;
            type B = $tb;
            type C = $tc;
            type D = $td;
            #[inline(always)]
            fn apply($a: $ta, $b: $tb, $c: $tc) -> $td { $body }
        }
    )*};
}
pub(crate) use plain_functions;
