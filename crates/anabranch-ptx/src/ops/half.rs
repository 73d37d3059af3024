//! Arithmetic of floats of 16 bits. Each is computed in `f64`, so that it is rounded once.

use std::marker::PhantomData;

use super::real::Real;
use super::{Fn1, Fn2, Fn3, functions, plain_functions};
use crate::float;

/// A format of 16 bits.
pub(crate) trait Short: 'static {
    fn wide(bits: u16) -> f64;
    fn narrow(value: f64) -> u16;
    fn single(bits: u16) -> f32;
    fn narrow_single(value: f32) -> u16;
    /// The least magnitude of a normal number.
    const NORMAL: u16;

    /// The bits of a normal number's fraction, with the first one.
    const PRECISION: u32;

    /// A result, or zero if it is less than every normal number when it is rounded to as many bits as those have.
    #[inline(always)]
    fn narrow_flushed(value: f64) -> u16 {
        let narrow = Self::narrow(value);
        let below = 1.0 / f64::from(1u32 << (Self::PRECISION + 1));
        if value.abs() < Self::wide(Self::NORMAL) * (1.0 - below) { narrow & 0x8000 } else { narrow }
    }
}

/// IEEE 754 half precision.
pub(crate) struct Half;
/// The upper half of a single.
pub(crate) struct Brain;

impl Short for Half {
    const NORMAL: u16 = 0x0400;
    const PRECISION: u32 = 11;
    #[inline(always)]
    fn wide(bits: u16) -> f64 {
        f64::from(float::f16_to_f32(bits))
    }
    #[inline(always)]
    fn narrow(value: f64) -> u16 {
        float::f64_to_f16(value)
    }
    #[inline(always)]
    fn single(bits: u16) -> f32 {
        float::f16_to_f32(bits)
    }
    #[inline(always)]
    fn narrow_single(value: f32) -> u16 {
        float::f32_to_f16(value)
    }
}

impl Short for Brain {
    const NORMAL: u16 = 0x0080;
    const PRECISION: u32 = 8;
    #[inline(always)]
    fn wide(bits: u16) -> f64 {
        f64::from(float::bf16_to_f32(bits))
    }
    #[inline(always)]
    fn narrow(value: f64) -> u16 {
        float::f64_to_bf16(value)
    }
    #[inline(always)]
    fn single(bits: u16) -> f32 {
        float::bf16_to_f32(bits)
    }
    #[inline(always)]
    fn narrow_single(value: f32) -> u16 {
        float::f32_to_bf16(value)
    }
}

functions! {
    Absolute<H: Short>(a: u16) -> u16 { a & 0x7fff }
    Negate<H: Short>(a: u16) -> u16 { a ^ 0x8000 }
    Saturate<H: Short>(a: u16) -> u16 { H::narrow_single(H::single(a).saturated()) }
    Flush<H: Short>(a: u16) -> u16 { if a & 0x7fff < H::NORMAL { a & 0x8000 } else { a } }
    /// Zero for negative numbers; NaN stays.
    Relu<H: Short>(a: u16) -> u16 { { let value = H::single(a); if value.is_nan() { 0x7fff } else if value > 0.0 { a } else { 0 } } }
    PowerOfTwo<H: Short>(a: u16) -> u16 { H::narrow(H::wide(a).exp2()) }
    Tangent<H: Short>(a: u16) -> u16 { H::narrow(H::wide(a).tanh()) }
    ToSingle<H: Short>(a: u16) -> f32 { H::single(a) }
}

functions! {
    Add<H: Short>(a: u16, b: u16) -> u16 { H::narrow(H::wide(a) + H::wide(b)) }
    Sub<H: Short>(a: u16, b: u16) -> u16 { H::narrow(H::wide(a) - H::wide(b)) }
    Mul<H: Short>(a: u16, b: u16) -> u16 { H::narrow(H::wide(a) * H::wide(b)) }
    /// With `.ftz`.
    MulFlush<H: Short>(a: u16, b: u16) -> u16 { H::narrow_flushed(H::wide(a) * H::wide(b)) }
    Min<H: Short>(a: u16, b: u16) -> u16 { H::narrow_single(H::single(a).least(H::single(b))) }
    Max<H: Short>(a: u16, b: u16) -> u16 { H::narrow_single(H::single(a).most(H::single(b))) }
    MinNan<H: Short>(a: u16, b: u16) -> u16 { H::narrow_single(H::single(a).least_nan(H::single(b))) }
    MaxNan<H: Short>(a: u16, b: u16) -> u16 { H::narrow_single(H::single(a).most_nan(H::single(b))) }
    CopySign<H: Short>(a: u16, b: u16) -> u16 { b & 0x7fff | a & 0x8000 }
}

functions! {
    Fused<H: Short>(a: u16, b: u16, c: u16) -> u16 { H::narrow(float::fused_odd(H::wide(a), H::wide(b), H::wide(c))) }
    FusedFlush<H: Short>(a: u16, b: u16, c: u16) -> u16 {
        H::narrow_flushed(float::fused_odd(H::wide(a), H::wide(b), H::wide(c)))
    }
}

functions! {
    /// `f32` to a short float, to the nearest.
    FromSingle<H: Short>(a: f32) -> u16 { H::narrow_single(a) }
}

/// A function of short floats, or of integers of 16 bits, for both halves of a register of 32 bits.
pub(crate) struct Packed<F>(PhantomData<F>);

#[inline(always)]
fn halves(value: u32) -> [u16; 2] {
    [value as u16, (value >> 16) as u16]
}

#[inline(always)]
fn joined(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

impl<F: Fn1<A = u16, D = u16>> Fn1 for Packed<F> {
    type A = u32;
    type D = u32;
    #[inline(always)]
    fn apply(a: u32) -> u32 {
        let [low, high] = halves(a);
        joined(F::apply(low), F::apply(high))
    }
}

impl<F: Fn2<A = u16, B = u16, D = u16>> Fn2 for Packed<F> {
    type A = u32;
    type B = u32;
    type D = u32;
    #[inline(always)]
    fn apply(a: u32, b: u32) -> u32 {
        let ([al, ah], [bl, bh]) = (halves(a), halves(b));
        joined(F::apply(al, bl), F::apply(ah, bh))
    }
}

impl<F: Fn3<A = u16, B = u16, C = u16, D = u16>> Fn3 for Packed<F> {
    type A = u32;
    type B = u32;
    type C = u32;
    type D = u32;
    #[inline(always)]
    fn apply(a: u32, b: u32, c: u32) -> u32 {
        let ([al, ah], [bl, bh], [cl, ch]) = (halves(a), halves(b), halves(c));
        joined(F::apply(al, bl, cl), F::apply(ah, bh, ch))
    }
}

/// A function of signed integers of 16 bits, as one of their bits.
pub(crate) struct Signed<F>(PhantomData<F>);

impl<F: Fn2<A = i16, B = i16, D = i16>> Fn2 for Signed<F> {
    type A = u16;
    type B = u16;
    type D = u16;
    #[inline(always)]
    fn apply(a: u16, b: u16) -> u16 {
        F::apply(a.cast_signed(), b.cast_signed()).cast_unsigned()
    }
}

plain_functions! {
    /// Two halves of 16 bits, the low one first.
    Pair(a: u16, b: u16) -> u32 { joined(a, b) }
    /// Two words of 32 bits, the low one first.
    PairWords(a: u32, b: u32) -> u64 { u64::from(b) << 32 | u64::from(a) }
}

plain_functions! {
    LowHalf(a: u32) -> u16 { a as u16 }
    HighHalf(a: u32) -> u16 { (a >> 16) as u16 }
    LowWord(a: u64) -> u32 { a as u32 }
    HighWord(a: u64) -> u32 { (a >> 32) as u32 }
    Quarter0(a: u64) -> u16 { a as u16 }
    Quarter1(a: u64) -> u16 { (a >> 16) as u16 }
    Quarter2(a: u64) -> u16 { (a >> 32) as u16 }
    Quarter3(a: u64) -> u16 { (a >> 48) as u16 }
}
