//! Four values of 8 or 16 bits in one register, and moves between registers of different sizes.

use crate::machine::{Body, Form, LANES, Lanes, Op, Step, Vectors, Width};

/// Four halves of 16 bits to 64 bits: `a`, `b`, `c`, `e`, the lowest first.
pub(crate) struct Quad;
impl Body for Quad {
    const FORM: Form = Form::three(Width::W64, Width::W16, Width::W16, Width::W16).with(Width::W16);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the sources are planes of 16 bits, and `d` is one of 64.
        unsafe {
            let parts = [op.a, op.b, op.c, op.e].map(|slot| *lanes.plane::<u16>(slot));
            let mut values = [0u64; LANES];
            for lane in 0..LANES {
                for (place, part) in parts.iter().enumerate() {
                    values[lane] |= u64::from(part[lane]) << (16 * place);
                }
            }
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// `cvt.pack`: `a` and `b`, saturated to integers of `bytes` bits, with the signs of `flags`; the rest is from `c`.
pub(crate) struct Pack;
impl Body for Pack {
    const FORM: Form = Form::three(Width::W32, Width::W32, Width::W32, Width::W32);

    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let bits = op.bytes;
        let (low, high) =
            if op.flags & 1 != 0 { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
        // SAFETY: the slots are planes of 32 bits.
        unsafe {
            let [a, b, c] = [op.a, op.b, op.c].map(|slot| *lanes.plane::<u32>(slot));
            let values: [u32; LANES] = std::array::from_fn(|lane| {
                let [a, b] = [a[lane], b[lane]].map(|value| i64::from(value.cast_signed()).clamp(low, high) as u32);
                let mask = if bits == 32 { !0 } else { (1u32 << bits) - 1 };
                let both = (a & mask) << bits | (b & mask);
                if bits < 16 { c[lane] << (2 * bits) | both } else { both }
            });
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}
