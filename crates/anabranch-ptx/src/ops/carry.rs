//! Sums of more words than one: the carry is a predicate of the frame.

use std::marker::PhantomData;

use crate::machine::{Body, Form, LANES, Lanes, Op, Step, Use, Vectors, Width};

/// Reads the carry, of `e`.
pub(crate) const CARRY_IN: u32 = 1;
/// Writes the carry.
pub(crate) const CARRY_OUT: u32 = 2;
/// Takes the high part of the product.
pub(crate) const HIGH: u32 = 4;

/// An unsigned integer with carries.
pub(crate) trait Word: Copy + Default {
    fn sum(self, other: Self, carry: bool) -> (Self, bool);
    fn difference(self, other: Self, borrow: bool) -> (Self, bool);
    fn product(self, other: Self, signed: bool) -> (Self, Self);
}

macro_rules! word {
    ($($type:ident $signed:ident $wide:ident $signed_wide:ident)*) => {$(
        impl Word for $type {
            #[inline(always)]
            fn sum(self, other: $type, carry: bool) -> ($type, bool) {
                let (sum, first) = self.overflowing_add(other);
                let (sum, second) = sum.overflowing_add($type::from(carry));
                (sum, first | second)
            }
            #[inline(always)]
            fn difference(self, other: $type, borrow: bool) -> ($type, bool) {
                let (difference, first) = self.overflowing_sub(other);
                let (difference, second) = difference.overflowing_sub($type::from(borrow));
                (difference, first | second)
            }
            #[inline(always)]
            fn product(self, other: $type, signed: bool) -> ($type, $type) {
                let product = if signed {
                    (self as $signed as $signed_wide * other as $signed as $signed_wide) as $wide
                } else {
                    self as $wide * other as $wide
                };
                (product as $type, (product >> $type::BITS) as $type)
            }
        }
    )*};
}
word!(u32 i32 u64 i64 u64 i64 u128 i128);

macro_rules! with_carry {
    ($(#[$attribute:meta])* $name:ident, |$op:ident, $a:ident, $b:ident, $c:ident, $carry:ident| $body:expr) => {
        $(#[$attribute])*
        pub(crate) struct $name<T>(PhantomData<T>);
        impl<T: Word> Body for $name<T> {
            const FORM: Form = Form { e: Use::Change(Width::Predicate), ..Form::three(Width::of_type::<T>(), Width::of_type::<T>(), Width::of_type::<T>(), Width::of_type::<T>()) };

            #[inline(always)]
            unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, $op: &Op) -> Step {
                // SAFETY: `a`, `b`, `c` and `d` are planes of this type, and `e` is a predicate.
                unsafe {
                    let carries = if $op.flags & CARRY_IN != 0 { lanes.predicate($op.e) } else { 0 };
                    let [a, b, c] = [$op.a, $op.b, $op.c].map(|slot| *lanes.plane::<T>(slot));
                    let mut values = [T::default(); LANES];
                    let mut out = 0u32;
                    for lane in 0..LANES {
                        let ($a, $b, $c) = (a[lane], b[lane], c[lane]);
                        let $carry = carries >> lane & 1 != 0;
                        let (value, carried) = $body;
                        values[lane] = value;
                        out |= u32::from(carried) << lane;
                    }
                    lanes.set_plane($op.d, &values);
                    if $op.flags & CARRY_OUT != 0 {
                        lanes.set_predicate($op.e, out);
                    }
                }
                Step::Next
            }
        }
    };
}

with_carry!(
    /// `add.cc`, `addc`. `c` is any plane of the type.
    AddCarry,
    |op, a, b, _c, carry| a.sum(b, carry)
);
with_carry!(
    /// `sub.cc`, `subc`: the carry is that of `a + !b + 1`, which is set if nothing was borrowed. The manual calls it a
    /// borrow; code of NVIDIA's compilers, such as that of 128-bit division, reads it with `addc`.
    SubCarry,
    |op, a, b, _c, carry| {
        let (value, borrow) = a.difference(b, op.flags & CARRY_IN != 0 && !carry);
        (value, !borrow)
    }
);
with_carry!(
    /// `mad.cc`, `madc`, of unsigned values.
    MulAddCarryUnsigned,
    |op, a, b, c, carry| {
        let (low, high) = a.product(b, false);
        (if op.flags & HIGH != 0 { high } else { low }).sum(c, carry)
    }
);
with_carry!(
    /// `mad.cc`, `madc`, of signed values.
    MulAddCarrySigned,
    |op, a, b, c, carry| {
        let (low, high) = a.product(b, true);
        (if op.flags & HIGH != 0 { high } else { low }).sum(c, carry)
    }
);
