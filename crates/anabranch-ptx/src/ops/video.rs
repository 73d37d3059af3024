//! Differences of the parts of two words.

use crate::machine::{Body, Form, LANES, Lanes, Op, Step, Vectors, Width};

/// The parts of `a` are signed.
pub(crate) const A_SIGNED: u32 = 1;
/// The parts of `b` are signed.
pub(crate) const B_SIGNED: u32 = 2;
/// The parts of the result are signed, which matters where they are saturated.
pub(crate) const D_SIGNED: u32 = 4;
pub(crate) const SATURATED: u32 = 8;
/// The sum of the parts and `c`.
pub(crate) const SUM: u32 = 16;

/// `vabsdiff2`, `vabsdiff4`: of parts of `bytes` bits.
pub(crate) struct AbsoluteDifferences;

#[inline(always)]
fn differences(a: u32, b: u32, c: u32, bits: u32, flags: u32) -> u32 {
    let part = |word: u32, index: u32, signed: bool| {
        let top = word << (32 - bits * (index + 1));
        if signed { i64::from(top.cast_signed() >> (32 - bits)) } else { i64::from(top >> (32 - bits)) }
    };
    let mut d = if flags & SUM != 0 { c } else { 0 };
    for index in 0..32 / bits {
        let difference = part(a, index, flags & A_SIGNED != 0) - part(b, index, flags & B_SIGNED != 0);
        let mut difference = difference.unsigned_abs() as u32;
        if flags & SATURATED != 0 {
            difference = difference.min((1 << (bits - u32::from(flags & D_SIGNED != 0))) - 1);
        }
        if flags & SUM != 0 {
            d = d.wrapping_add(difference);
        } else {
            d |= (difference & ((1 << bits) - 1)) << (bits * index);
        }
    }
    d
}

impl Body for AbsoluteDifferences {
    const FORM: Form = Form::three(Width::W32, Width::W32, Width::W32, Width::W32);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let (bits, flags) = (if op.bytes == 8 { 8 } else { 16 }, op.flags);
        // SAFETY: the slots are planes of 32 bits.
        unsafe {
            let [a, b, c] = [op.a, op.b, op.c].map(|slot| *lanes.plane::<u32>(slot));
            let values: [u32; LANES] = std::array::from_fn(|lane| differences(a[lane], b[lane], c[lane], bits, flags));
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}
