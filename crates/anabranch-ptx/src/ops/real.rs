//! Arithmetic of floats of 32 and 64 bits, rounded to the nearest.

use super::{functions, plain_functions};
use crate::machine::{Body, Form, LANES, Lanes, Op, Slot, Step, Vectors, When, Width};

/// A float.
pub(crate) trait Real: Copy + Default {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn fused(self, b: Self, c: Self) -> Self;
    fn root(self) -> Self;
    fn absolute(self) -> Self;
    fn negated(self) -> Self;
    fn least(self, other: Self) -> Self;
    fn most(self, other: Self) -> Self;
    fn least_nan(self, other: Self) -> Self;
    fn most_nan(self, other: Self) -> Self;
    /// Between zero and one; NaN becomes zero.
    fn saturated(self) -> Self;
    /// Subnormal numbers become zero of the same sign.
    fn flushed(self) -> Self;
    fn copy_sign(self, sign: Self) -> Self;
    const ONE: Self;
}

macro_rules! real {
    ($($type:ident $bits:ident $nan:expr;)*) => {$(
        impl Real for $type {
            const ONE: $type = 1.0;
            #[inline(always)]
            fn add(self, other: $type) -> $type { $nan(self + other) }
            #[inline(always)]
            fn sub(self, other: $type) -> $type { $nan(self - other) }
            #[inline(always)]
            fn mul(self, other: $type) -> $type { $nan(self * other) }
            #[inline(always)]
            fn div(self, other: $type) -> $type { $nan(self / other) }
            #[inline(always)]
            fn fused(self, b: $type, c: $type) -> $type { $nan(self.mul_add(b, c)) }
            #[inline(always)]
            fn root(self) -> $type { $nan(self.sqrt()) }
            #[inline(always)]
            fn absolute(self) -> $type { self.abs() }
            #[inline(always)]
            fn negated(self) -> $type { -self }
            #[inline(always)]
            fn least(self, other: $type) -> $type {
                // Of two zeros, the negative one is less.
                let both = $type::from_bits(self.to_bits() | other.to_bits());
                let least = if self == other { both } else if self < other { self } else { other };
                if self.is_nan() { $nan(other) } else if other.is_nan() { self } else { least }
            }
            #[inline(always)]
            fn most(self, other: $type) -> $type {
                let both = $type::from_bits(self.to_bits() & other.to_bits());
                let most = if self == other { both } else if self > other { self } else { other };
                if self.is_nan() { $nan(other) } else if other.is_nan() { self } else { most }
            }
            #[inline(always)]
            fn least_nan(self, other: $type) -> $type {
                if self.is_nan() || other.is_nan() { $nan($type::NAN) } else { self.least(other) }
            }
            #[inline(always)]
            fn most_nan(self, other: $type) -> $type {
                if self.is_nan() || other.is_nan() { $nan($type::NAN) } else { self.most(other) }
            }
            #[inline(always)]
            fn saturated(self) -> $type {
                let low = if self > 0.0 { self } else { 0.0 };
                if low < 1.0 { low } else { 1.0 }
            }
            #[inline(always)]
            fn flushed(self) -> $type {
                if self.abs() < $type::MIN_POSITIVE { $type::from_bits(self.to_bits() & (1 << ($bits::BITS - 1))) } else { self }
            }
            #[inline(always)]
            fn copy_sign(self, sign: $type) -> $type { self.copysign(sign) }
        }
    )*};
}

/// The only NaN of 32 bits that hardware's arithmetic returns.
#[inline(always)]
pub(crate) fn canonical(value: f32) -> f32 {
    // By its bits: compilers may take a NaN that an operation has just made for any other.
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { bits })
}

#[inline(always)]
fn unchanged(value: f64) -> f64 {
    value
}

real! {
    f32 u32 canonical;
    f64 u64 unchanged;
}

functions! {
    Absolute<T: Real>(a: T) -> T { a.absolute() }
    Negate<T: Real>(a: T) -> T { a.negated() }
    Root<T: Real>(a: T) -> T { a.root() }
    Reciprocal<T: Real>(a: T) -> T { T::ONE.div(a) }
    ReciprocalRoot<T: Real>(a: T) -> T { T::ONE.div(a.root()) }
    Saturate<T: Real>(a: T) -> T { a.saturated() }
    Flush<T: Real>(a: T) -> T { a.flushed() }
}

functions! {
    Add<T: Real>(a: T, b: T) -> T { a.add(b) }
    Sub<T: Real>(a: T, b: T) -> T { a.sub(b) }
    Mul<T: Real>(a: T, b: T) -> T { a.mul(b) }
    Div<T: Real>(a: T, b: T) -> T { a.div(b) }
    Min<T: Real>(a: T, b: T) -> T { a.least(b) }
    Max<T: Real>(a: T, b: T) -> T { a.most(b) }
    MinNan<T: Real>(a: T, b: T) -> T { a.least_nan(b) }
    MaxNan<T: Real>(a: T, b: T) -> T { a.most_nan(b) }
    /// `copysign` takes the sign of its first operand.
    CopySign<T: Real>(a: T, b: T) -> T { b.copy_sign(a) }
}

functions! {
    Fused<T: Real>(a: T, b: T, c: T) -> T { a.fused(b, c) }
}

/// Two multiply-adds, of which the second one takes the result of the first. A NaN within stays one, so that it becomes the
/// canonical one at the end.
macro_rules! fused_pair {
    ($(#[$attribute:meta])* $name:ident |$first:ident, $e:ident, $last:ident| $body:expr) => {
        $(#[$attribute])*
        pub(crate) struct $name;
        impl Body for $name {
            const FORM: Form =
                Form::three(Width::W32, Width::W32, Width::W32, Width::W32).with(Width::W32).when(When::Pair);

            #[inline(always)]
            unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
                let mut values = [0f32; LANES];
                // SAFETY: the slots are planes of 32 bits, and `target` is one. The shared references end before the write.
                unsafe {
                    let a = &*lanes.plane::<f32>(op.a);
                    let b = &*lanes.plane::<f32>(op.b);
                    let c = &*lanes.plane::<f32>(op.c);
                    let e = &*lanes.plane::<f32>(op.e);
                    let last = &*lanes.plane::<f32>(Slot(op.target));
                    for lane in 0..LANES {
                        let ($first, $e, $last) = (a[lane].mul_add(b[lane], c[lane]), e[lane], last[lane]);
                        values[lane] = canonical($body);
                    }
                    super::write(lanes.mask, lanes.plane::<f32>(op.d), &values);
                }
                Step::Next
            }
        }
    };
}

fused_pair!(
    /// `(a * b + c) * e + target`.
    FusedProduct |first, e, last| first.mul_add(e, last)
);
fused_pair!(
    /// `e * target + (a * b + c)`.
    FusedSum |first, e, last| e.mul_add(last, first)
);

/// Less than this, an exact result is less than every normal number when it is rounded to as many bits as those have. From
/// there on it is rounded to the least of them, as it is a little below too where numbers have fewer bits.
const LEAST: f64 = f32::MIN_POSITIVE as f64 * (1.0 - 1.0 / (1 << 25) as f64);

/// A result, or zero if it is flushed.
#[inline(always)]
fn unless_tiny(result: f32, is_tiny: bool) -> f32 {
    if is_tiny { 0f32.copysign(result) } else { result }
}

/// Whether the exact `a * b + c` is flushed. The product is exact in `f64`.
#[inline(always)]
fn is_tiny_fused(a: f32, b: f32, c: f32) -> bool {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    sum.abs() < LEAST || sum.abs() == LEAST && error != 0.0 && (error > 0.0) != (sum > 0.0)
}

plain_functions! {
    /// With `.ftz`.
    MulFlush(a: f32, b: f32) -> f32 {
        unless_tiny(a.mul(b), (f64::from(a) * f64::from(b)).abs() < LEAST)
    }
    DivFlush(a: f32, b: f32) -> f32 {
        unless_tiny(a.div(b), f64::from(a.abs()) < LEAST * f64::from(b.abs()))
    }
}

plain_functions! {
    FusedFlush(a: f32, b: f32, c: f32) -> f32 { unless_tiny(a.fused(b, c), is_tiny_fused(a, b, c)) }
}

plain_functions! {
    ReciprocalFlush(a: f32) -> f32 { unless_tiny(1f32.div(a), 1.0 < LEAST * f64::from(a.abs())) }
    Canonical(a: f32) -> f32 { canonical(a) }
}

plain_functions! {
    /// Within 2 units in the last place, as documented; that of the host's library is closer.
    PowerOfTwo(a: f32) -> f32 { canonical(a.exp2()) }
    Logarithm(a: f32) -> f32 { canonical(a.log2()) }
    Sine(a: f32) -> f32 { canonical(f64::from(a).sin() as f32) }
    Cosine(a: f32) -> f32 { canonical(f64::from(a).cos() as f32) }
    Tangent(a: f32) -> f32 { canonical(a.tanh()) }
    /// `rcp.approx.ftz.f64`: the upper 32 bits of the result, of the upper 32 bits of the operand.
    ReciprocalHigh(a: f64) -> f64 { high(1.0 / high(a.flushed())).flushed() }
    ReciprocalRootHigh(a: f64) -> f64 { high(1.0 / high(a.flushed()).sqrt()).flushed() }
}

#[inline(always)]
fn high(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & 0xffff_ffff_0000_0000)
}
