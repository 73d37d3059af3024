//! Arithmetic of integers.

use super::functions;

/// An integer of 16, 32 or 64 bits.
pub(crate) trait Integer: Copy + Default + Ord {
    /// The integer of twice the bits, for 16 and 32; of 64 bits for 64.
    type Wide: Copy + Default;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn high(self, other: Self) -> Self;
    fn wide(self, other: Self) -> Self::Wide;
    fn wide_add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn add_saturated(self, other: Self) -> Self;
    fn sub_saturated(self, other: Self) -> Self;
    /// What hardware gives for a division by zero is all ones.
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn absolute(self) -> Self;
    fn negated(self) -> Self;
    fn difference(self, other: Self) -> Self;
    fn left(self, count: u32) -> Self;
    fn right(self, count: u32) -> Self;
    const ZERO: Self;
}

macro_rules! integer {
    ($($type:ident $wide:ident $shifted:ident $signed:tt;)*) => {$(
        impl Integer for $type {
            type Wide = $wide;
            const ZERO: $type = 0;
            #[inline(always)]
            fn add(self, other: $type) -> $type { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: $type) -> $type { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: $type) -> $type { self.wrapping_mul(other) }
            #[inline(always)]
            fn high(self, other: $type) -> $type { ((self as $shifted * other as $shifted) >> $type::BITS) as $type }
            #[inline(always)]
            fn wide(self, other: $type) -> $wide { (self as $wide).wrapping_mul(other as $wide) }
            #[inline(always)]
            fn wide_add(a: $wide, b: $wide) -> $wide { a.wrapping_add(b) }
            #[inline(always)]
            fn add_saturated(self, other: $type) -> $type { self.saturating_add(other) }
            #[inline(always)]
            fn sub_saturated(self, other: $type) -> $type { self.saturating_sub(other) }
            #[inline(always)]
            fn div(self, other: $type) -> $type { if other == 0 { !0 } else { self.wrapping_div(other) } }
            #[inline(always)]
            fn rem(self, other: $type) -> $type { if other == 0 { self } else { self.wrapping_rem(other) } }
            #[inline(always)]
            fn absolute(self) -> $type { integer!(@abs self $signed) }
            #[inline(always)]
            fn negated(self) -> $type { (0 as $type).wrapping_sub(self) }
            #[inline(always)]
            fn difference(self, other: $type) -> $type {
                if self < other { other.wrapping_sub(self) } else { self.wrapping_sub(other) }
            }
            #[inline(always)]
            fn left(self, count: u32) -> $type { if count < $type::BITS { self << count } else { 0 } }
            #[inline(always)]
            fn right(self, count: u32) -> $type { self >> if count < $type::BITS { count } else { $type::BITS - 1 } }
        }
    )*};
    (@abs $value:ident signed) => { $value.wrapping_abs() };
    (@abs $value:ident unsigned) => { $value };
}

integer! {
    u16 u32 u32 unsigned;
    u32 u64 u64 unsigned;
    u64 u64 u128 unsigned;
    i16 i32 i32 signed;
    i32 i64 i64 signed;
    i64 i64 i128 signed;
}

functions! {
    Absolute<T: Integer>(a: T) -> T { a.absolute() }
    Negate<T: Integer>(a: T) -> T { a.negated() }
}

functions! {
    Add<T: Integer>(a: T, b: T) -> T { a.add(b) }
    AddSaturated<T: Integer>(a: T, b: T) -> T { a.add_saturated(b) }
    Sub<T: Integer>(a: T, b: T) -> T { a.sub(b) }
    SubSaturated<T: Integer>(a: T, b: T) -> T { a.sub_saturated(b) }
    Mul<T: Integer>(a: T, b: T) -> T { a.mul(b) }
    MulHigh<T: Integer>(a: T, b: T) -> T { a.high(b) }
    MulWide<T: Integer>(a: T, b: T) -> T::Wide { a.wide(b) }
    Div<T: Integer>(a: T, b: T) -> T { a.div(b) }
    Rem<T: Integer>(a: T, b: T) -> T { a.rem(b) }
    Min<T: Integer>(a: T, b: T) -> T { if a < b { a } else { b } }
    Max<T: Integer>(a: T, b: T) -> T { if a > b { a } else { b } }
    MinRelu<T: Integer>(a: T, b: T) -> T { { let least = if a < b { a } else { b }; if least < T::ZERO { T::ZERO } else { least } } }
    MaxRelu<T: Integer>(a: T, b: T) -> T { { let most = if a > b { a } else { b }; if most < T::ZERO { T::ZERO } else { most } } }
    ShiftLeft<T: Integer>(a: T, b: u32) -> T { a.left(b) }
}

functions! {
    MulAdd<T: Integer>(a: T, b: T, c: T) -> T { a.mul(b).add(c) }
    MulHighAdd<T: Integer>(a: T, b: T, c: T) -> T { a.high(b).add(c) }
    MulHighAddSaturated<T: Integer>(a: T, b: T, c: T) -> T { a.high(b).add_saturated(c) }
    MulWideAdd<T: Integer>(a: T, b: T, c: T::Wide) -> T::Wide { T::wide_add(a.wide(b), c) }
    AbsoluteDifferenceAdd<T: Integer>(a: T, b: T, c: T) -> T { a.difference(b).add(c) }
}

/// `shr`: of unsigned values, bits beyond all are zero.
pub(crate) struct ShiftRight<T>(std::marker::PhantomData<T>);

macro_rules! shift_right {
    ($($type:ident)*) => {$(
        impl super::Fn2 for ShiftRight<$type> {
            type A = $type;
            type B = u32;
            type D = $type;
            #[inline(always)]
            fn apply(a: $type, b: u32) -> $type {
                if $type::MIN == 0 && b >= $type::BITS { 0 } else { a.right(b) }
            }
        }
    )*};
}
shift_right!(u16 u32 u64 i16 i32 i64);
