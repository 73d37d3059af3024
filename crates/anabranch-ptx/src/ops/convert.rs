//! Conversions. Lowering composes them: to the nearest size, rounded, limited, extended.

use std::marker::PhantomData;

use super::real::canonical;
use super::rounded::rounding;
use super::{Fn1, plain_functions};
use crate::float::{self, BF16, F16, F32, F64, Format};
use crate::machine::{Body, Form, LANES, Lanes, Op, Step, Vectors, Width};

/// Reads an integer of the type `A` from a register `R`, and extends or cuts it to a register `D`.
pub(crate) struct Extend<A, R, D>(PhantomData<(A, R, D)>);

macro_rules! extend {
    ($($a:ident: $($r:ident)*;)*) => {$($(
        extend!(@ $a $r u16);
        extend!(@ $a $r u32);
        extend!(@ $a $r u64);
    )*)*};
    (@ $a:ident $r:ident $d:ident) => {
        impl Fn1 for Extend<$a, $r, $d> {
            type A = $r;
            type D = $d;
            #[inline(always)]
            fn apply(a: $r) -> $d { a as $a as $d }
        }
    };
}
extend! {
    u8: u16 u32 u64;
    i8: u16 u32 u64;
    u16: u16 u32 u64;
    i16: u16 u32 u64;
    u32: u32 u64;
    i32: u32 u64;
    u64: u64;
    i64: u64;
}

/// A float that is already integral, to an integer of the type `I` in a register `D`. What does not fit is limited.
pub(crate) struct ToInteger<F, I, D>(PhantomData<(F, I, D)>);

macro_rules! to_integer {
    ($($i:ident $u:ident: $($d:ident)*;)*) => {$($(
        impl Fn1 for ToInteger<f32, $i, $d> {
            type A = f32;
            type D = $d;
            #[inline(always)]
            fn apply(a: f32) -> $d {
                // NaN becomes zero, or of 64 bits the highest bit.
                if $i::BITS == 64 && a.is_nan() { return ((1 as $u) << ($u::BITS - 1)) as $d; }
                a as $i as $d
            }
        }
        impl Fn1 for ToInteger<f64, $i, $d> {
            type A = f64;
            type D = $d;
            #[inline(always)]
            fn apply(a: f64) -> $d {
                if a.is_nan() { ((1 as $u) << ($u::BITS - 1)) as $i as $d } else { a as $i as $d }
            }
        }
    )*)*};
}
to_integer! {
    u8 u8: u16 u32 u64;
    i8 u8: u16 u32 u64;
    u16 u16: u16 u32 u64;
    i16 u16: u16 u32 u64;
    u32 u32: u32 u64;
    i32 u32: u32 u64;
    u64 u64: u64;
    i64 u64: u64;
}

plain_functions! {
    SignedToSingle(a: i64) -> f32 { a as f32 }
    UnsignedToSingle(a: u64) -> f32 { a as f32 }
    SignedToDouble(a: i64) -> f64 { a as f64 }
    UnsignedToDouble(a: u64) -> f64 { a as f64 }
    SignedWordToSingle(a: i32) -> f32 { a as f32 }
    UnsignedWordToSingle(a: u32) -> f32 { a as f32 }
    SignedWordToDouble(a: i32) -> f64 { f64::from(a) }
    UnsignedWordToDouble(a: u32) -> f64 { f64::from(a) }
    SingleToDouble(a: f32) -> f64 { f64::from(a) }
    /// A NaN of 64 bits keeps what it has room for, unlike others.
    DoubleToSingle(a: f64) -> f32 {
        if a.is_nan() { f32::from_bits(F32.narrow_nan(a.to_bits()) as u32) } else { a as f32 }
    }
    DoubleToHalf(a: f64) -> u16 { if a.is_nan() { F16.narrow_nan(a.to_bits()) as u16 } else { float::f64_to_f16(a) } }
    DoubleToBrain(a: f64) -> u16 { if a.is_nan() { BF16.narrow_nan(a.to_bits()) as u16 } else { float::f64_to_bf16(a) } }
    IntegralNearest(a: f32) -> f32 { canonical(a.round_ties_even()) }
    IntegralZero(a: f32) -> f32 { canonical(a.trunc()) }
    IntegralDown(a: f32) -> f32 { canonical(a.floor()) }
    IntegralUp(a: f32) -> f32 { canonical(a.ceil()) }
    IntegralNearestDouble(a: f64) -> f64 { a.round_ties_even() }
    IntegralZeroDouble(a: f64) -> f64 { a.trunc() }
    IntegralDownDouble(a: f64) -> f64 { a.floor() }
    IntegralUpDouble(a: f64) -> f64 { a.ceil() }
}

/// A format by its number in an operation.
fn format(code: u32) -> Format {
    match code {
        0 => F16,
        1 => BF16,
        2 => F32,
        _ => F64,
    }
}

/// An integer of 64 bits to a float: `imm` is the rounding mode, `flags` the format, and `bytes` one for signed integers.
/// The result is in 64 bits.
pub(crate) struct RoundedFromInteger;
impl Body for RoundedFromInteger {
    const FORM: Form = Form::one(Width::W64, Width::W64);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are planes of 64 bits.
        unsafe {
            let a = *lanes.plane::<u64>(op.a);
            let values: [u64; LANES] = std::array::from_fn(|lane| {
                let value = if op.bytes != 0 { i128::from(a[lane].cast_signed()) } else { i128::from(a[lane]) };
                format(op.flags).round(float::from_integer(value), rounding(op.imm))
            });
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// A float of 64 bits to a float of fewer, in 64 bits: `imm` is the rounding mode, `flags` the format, and `bytes` one if a
/// NaN keeps what it has room for.
pub(crate) struct RoundedNarrow;
impl Body for RoundedNarrow {
    const FORM: Form = Form::one(Width::W64, Width::W64);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are planes of 64 bits.
        unsafe {
            let a = *lanes.plane::<u64>(op.a);
            let format = format(op.flags);
            let values: [u64; LANES] = std::array::from_fn(|lane| {
                if op.bytes != 0 && f64::from_bits(a[lane]).is_nan() {
                    return format.narrow_nan(a[lane]);
                }
                format.round(F64.read(a[lane]), rounding(op.imm))
            });
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// `f32` to `tf32`: 10 bits of fraction, rounded to the nearest, away from zero (`imm` 0), to even (1), or cut (2).
pub(crate) struct Tensor;
impl Body for Tensor {
    const FORM: Form = Form::one(Width::W32, Width::W32);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are planes of 32 bits.
        unsafe {
            let a = *lanes.plane::<u32>(op.a);
            let values: [u32; LANES] = std::array::from_fn(|lane| {
                let bits = a[lane];
                if bits & 0x7fff_ffff > 0x7f80_0000 {
                    // Hardware cuts a NaN of which nothing is left to infinity.
                    return if op.imm == 0 && bits & 0x007f_e000 == 0 { bits & !0x1fff } else { 0x7fff_ffff };
                }
                let half = match op.imm {
                    0 => 0x1000,
                    1 => 0xfff + (bits >> 13 & 1),
                    _ => 0,
                };
                bits.wrapping_add(half) & !0x1fff
            });
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// An integer of 64 bits, limited to `bytes` bits; `flags` has a bit for the sign of the source and one for the result's.
pub(crate) struct Limit;
impl Body for Limit {
    const FORM: Form = Form::one(Width::W64, Width::W64);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let bits = op.bytes;
        let (low, high) = if op.flags & 2 != 0 {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        };
        // SAFETY: the slots are planes of 64 bits.
        unsafe {
            let a = *lanes.plane::<u64>(op.a);
            let values: [u64; LANES] = std::array::from_fn(|lane| {
                let value = if op.flags & 1 != 0 { i128::from(a[lane].cast_signed()) } else { i128::from(a[lane]) };
                value.clamp(low, high) as u64
            });
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}
