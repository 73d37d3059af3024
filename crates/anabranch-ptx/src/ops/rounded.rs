//! Arithmetic in the rounding modes that processors do not have.

use crate::float::{self, F32, F64, Format, Rounding};
use crate::machine::{Body, Form, LANES, Lanes, Op, Step, Vectors, Width};

/// What is computed.
pub(crate) const ADD: u32 = 0;
pub(crate) const SUB: u32 = 1;
pub(crate) const MUL: u32 = 2;
pub(crate) const FUSED: u32 = 3;
pub(crate) const DIV: u32 = 4;
pub(crate) const ROOT: u32 = 5;
pub(crate) const RECIPROCAL: u32 = 6;
/// With `.ftz`: a result is zero that is less than every normal number when it is rounded to as many bits as those have.
pub(crate) const FLUSH: u32 = 8;

/// The number of a rounding mode in an operation.
pub(crate) fn code(rounding: Rounding) -> u64 {
    match rounding {
        Rounding::Nearest => 0,
        Rounding::Zero => 1,
        Rounding::Down => 2,
        Rounding::Up => 3,
        Rounding::NearestAway => 4,
    }
}

/// The rounding mode of a number.
pub(crate) fn rounding(code: u64) -> Rounding {
    match code {
        0 => Rounding::Nearest,
        1 => Rounding::Zero,
        2 => Rounding::Down,
        3 => Rounding::Up,
        _ => Rounding::NearestAway,
    }
}

/// One result, from bits to bits.
pub(crate) fn compute(kind: u32, format: Format, rounding: Rounding, a: u64, b: u64, c: u64) -> u64 {
    let (a, b, c) = (format.read(a), format.read(b), format.read(c));
    let number = match kind & !FLUSH {
        ADD => float::add(a, b, rounding),
        SUB => float::add(a, float::negate(b), rounding),
        MUL => float::multiply(a, b),
        FUSED => float::add(float::multiply(a, b), c, rounding),
        DIV => float::divide(a, b),
        ROOT => float::square_root(a),
        _ => float::divide(float::from_integer(1), a),
    };
    if kind & FLUSH != 0 && format.is_tiny(number, rounding) {
        return format.zero(number);
    }
    format.round(number, rounding)
}

/// Floats of 32 bits: `flags` is the kind, `imm` the rounding mode.
pub(crate) struct Single;
impl Body for Single {
    const FORM: Form = Form::three(Width::W32, Width::W32, Width::W32, Width::W32);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are planes of 32 bits.
        unsafe {
            let [a, b, c] = [op.a, op.b, op.c].map(|slot| *lanes.plane::<u32>(slot));
            let values: [u32; LANES] = std::array::from_fn(|lane| {
                let [a, b, c] = [a, b, c].map(|plane| u64::from(plane[lane]));
                compute(op.flags, F32, rounding(op.imm), a, b, c) as u32
            });
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// Floats of 64 bits.
pub(crate) struct Double;
impl Body for Double {
    const FORM: Form = Form::three(Width::W64, Width::W64, Width::W64, Width::W64);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are planes of 64 bits.
        unsafe {
            let [a, b, c] = [op.a, op.b, op.c].map(|slot| *lanes.plane::<u64>(slot));
            let values: [u64; LANES] =
                std::array::from_fn(|lane| compute(op.flags, F64, rounding(op.imm), a[lane], b[lane], c[lane]));
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}
