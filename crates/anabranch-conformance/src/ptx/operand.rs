//! Operands: their registers and values, by a letter.
//!
//! | letter | what |
//! |---|---|
//! | `p` | a predicate |
//! | `h w l` | integers and bits of 16, 32 and 64 bits |
//! | `s` | an amount of shift, of 32 bits |
//! | `z t` | integers of 32 and 64 bits that are often equal in several lanes |
//! | `H B F D` | `f16`, `bf16`, `f32` and `f64` |
//! | `V X` | `f16x2` and `bf16x2` |
//! | `e g f v x` | as results: `f16`, `bf16`, `f32`, `f16x2` and `bf16x2` whose NaN may be any |
//! | `S E L A` | `f32` for approximations: an angle, an exponent, a positive number, one that is no subnormal |
//! | `P` | `f64` for approximations |
//! | `k` | `f16` for approximations |

use super::element::{Element, Float};
use crate::programs::Numbers;

/// The bits of a register for a letter. A predicate has one.
pub(super) fn width(letter: char) -> u32 {
    match letter {
        'p' => 1,
        'h' | 'H' | 'B' | 'e' | 'g' | 'k' => 16,
        'l' | 't' | 'D' | 'P' => 64,
        _ => 32,
    }
}

/// The declared type of a register.
pub(super) fn register(letter: char) -> &'static str {
    match width(letter) {
        1 => "pred",
        16 => "b16",
        32 => "b32",
        _ => "b64",
    }
}

/// The element of eight bytes that a result is kept in.
pub(super) fn element(letter: char) -> Element {
    match letter {
        'e' => Element::any_nan(8, Float::Half),
        'g' => Element::any_nan(8, Float::Brain),
        'f' => Element::any_nan(8, Float::Single),
        'v' => Element::any_nan(8, Float::Halves),
        'x' => Element::any_nan(8, Float::Brains),
        'D' => Element::any_nan(8, Float::Double),
        _ => Element::bits(8),
    }
}

const INTEGERS: [u64; 24] = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    0x7e,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    u64::MAX - 1,
    u64::MAX,
];

const SINGLES: [u32; 30] = [
    0,
    0x8000_0000,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x0080_0001,
    0x3f80_0000,
    0xbf80_0000,
    0x3f7f_ffff,
    0x3f80_0001,
    0x3f00_0000,
    0xbf00_0000,
    0x3fc0_0000,
    0x4020_0000,
    0x4b00_0001,
    0x4f00_0000,
    0xcf00_0000,
    0x4f80_0000,
    0x5f00_0000,
    0xdf00_0000,
    0x5f80_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0xffc1_2345,
];

const DOUBLES: [u64; 26] = [
    0,
    0x8000_0000_0000_0000,
    1,
    0x800f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3fef_ffff_ffff_ffff,
    0x3ff0_0000_0000_0001,
    0x3fe0_0000_0000_0000,
    0x4004_0000_0000_0000,
    0xc004_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0xc1e0_0000_0000_0000,
    0x41ef_ffff_ffe0_0000,
    0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x47ef_ffff_f000_0000,
    0x3690_0000_0000_0000,
    0x36a0_0000_0000_0001,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff4_0000_1234_5678,
];

const HALVES: [u32; 22] = [
    0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x0401, 0x8400, 0x3c00, 0xbc00, 0x3bff, 0x3c01, 0x3800, 0x3e00, 0x4100,
    0x6401, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfd01,
];

const BRAINS: [u32; 20] = [
    0, 0x8000, 1, 0x8001, 0x007f, 0x0080, 0x8080, 0x3f80, 0xbf80, 0x3f7f, 0x3f81, 0x3f00, 0x3fc0, 0x4020, 0x4f00,
    0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0,
];

/// A value of an operand. `near` is the operand before it, to which floats are often close.
pub(super) fn value(letter: char, numbers: &mut Numbers, near: u64) -> u64 {
    let bits = numbers.bits();
    let kind = numbers.below(8);
    match letter {
        'p' => bits & 1,
        'h' | 'w' | 'l' => integer(bits, kind, numbers),
        's' => match kind {
            0..=3 => bits % 70,
            4 => [31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257][(bits % 11) as usize],
            5 => bits & 0x3f3f,
            6 => 0xffff_ffff - bits % 4,
            _ => bits,
        },
        'z' | 't' => [1, 2, 3, 0xffff_ffff_ffff_fff0, 0x1_0000_0001, 0x8000_0000][(bits % 6) as usize],
        'F' => u64::from(single(bits, kind, numbers, near as u32)),
        'D' => double(bits, kind, numbers, near),
        'H' => u64::from(short(bits, kind, numbers, &HALVES, 10, near as u32)),
        'B' => u64::from(short(bits, kind, numbers, &BRAINS, 7, near as u32)),
        'V' | 'X' => {
            let (edges, fraction): (&[u32], _) = if letter == 'V' { (&HALVES, 10) } else { (&BRAINS, 7) };
            let low = short(bits, kind, numbers, edges, fraction, near as u32);
            let (bits, kind) = (numbers.bits(), numbers.below(8));
            let high = short(bits, kind, numbers, edges, fraction, (near >> 16) as u32);
            u64::from(low & 0xffff) | u64::from(high & 0xffff) << 16
        }
        _ => approximated(letter, bits, kind),
    }
}

fn integer(bits: u64, kind: usize, numbers: &mut Numbers) -> u64 {
    match kind {
        0 | 1 => INTEGERS[(bits % INTEGERS.len() as u64) as usize],
        2 => bits % 100,
        3 => (bits % 100).wrapping_neg(),
        4 | 5 => bits >> numbers.below(64),
        _ => bits,
    }
}

fn single(bits: u64, kind: usize, numbers: &mut Numbers, near: u32) -> u32 {
    let sign = (bits >> 40) as u32 & 0x8000_0000;
    match kind {
        0 => SINGLES[(bits % SINGLES.len() as u64) as usize],
        // Close to the other operand, often of the other sign.
        1 => near.wrapping_add((bits % 9) as u32).wrapping_sub(4) ^ sign,
        // About one.
        2 | 3 => sign | (118 + numbers.below(20) as u32) << 23 | bits as u32 & 0x7f_ffff,
        // With a short fraction.
        4 => (((bits % 4096) as f32) / 16.0 - 100.0).to_bits(),
        // Subnormal, or nearly.
        5 => sign | bits as u32 & 0x00ff_ffff,
        _ => bits as u32,
    }
}

fn double(bits: u64, kind: usize, numbers: &mut Numbers, near: u64) -> u64 {
    let sign = bits & 1 << 63;
    let fraction = bits & 0x000f_ffff_ffff_ffff;
    match kind {
        0 => DOUBLES[(bits % DOUBLES.len() as u64) as usize],
        1 => near.wrapping_add(bits % 9).wrapping_sub(4) ^ sign,
        2 | 3 => sign | (1000 + numbers.below(46) as u64) << 52 | fraction,
        4 => ((bits % 4096) as f64 / 16.0 - 100.0).to_bits(),
        5 => sign | (840 + numbers.below(320) as u64) << 52 | fraction,
        6 => sign | fraction,
        _ => bits,
    }
}

fn short(bits: u64, kind: usize, numbers: &mut Numbers, edges: &[u32], fraction: u32, near: u32) -> u32 {
    let (bits32, middle) = (bits as u32, if fraction == 10 { 15 } else { 127 });
    let word = match kind {
        0 => edges[bits32 as usize % edges.len()],
        1 => near.wrapping_add(bits32 % 5).wrapping_sub(2) ^ bits32 & 0x8000,
        2..=4 => {
            let exponent = middle - 8 + numbers.below(16) as u32;
            bits32 & 0x8000 | exponent << fraction | bits32 & ((1 << fraction) - 1)
        }
        5 => bits32 & (0x8000 | ((2 << fraction) - 1)),
        _ => bits32,
    };
    word & 0xffff
}

/// Values for which the manual states an error.
fn approximated(letter: char, bits: u64, kind: usize) -> u64 {
    let part = (bits >> 11) as f64 / (1u64 << 53) as f64;
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN][(bits % 5) as usize];
    let value = match letter {
        'S' if kind == 0 => [0.0, -0.0, 1e-30, -3.0, 6.25][(bits % 5) as usize],
        'S' => ((part * 2.0 - 1.0) * std::f64::consts::TAU) as f32,
        'E' if kind == 0 => special,
        'E' => ((part * 2.0 - 1.0) * 125.0) as f32,
        'L' if kind == 0 => special,
        'L' if kind < 5 => (0.25 + part * 4.0) as f32,
        'A' if kind == 0 => special,
        'L' | 'A' => {
            let sign = if letter == 'A' { (bits >> 63) as u32 } else { 0 };
            f32::from_bits(sign << 31 | (67 + (bits % 120) as u32) << 23 | (bits >> 20) as u32 & 0x7f_ffff)
        }
        'P' => {
            let value = f64::from_bits((900 + bits % 246) << 52 | bits >> 12);
            return if bits & 1 << 62 == 0 { value.to_bits() } else { (1.0 + part).to_bits() };
        }
        // `f16` from -8 to 8.
        'k' => return (bits & 0x8000) | ((bits >> 20) % 0x4800),
        // `bf16` in both halves, from -8 to 8.
        _ => return (bits & 0x8000_8000) | ((bits >> 20) % 0x4100) | (((bits >> 40) % 0x4100) << 16),
    };
    u64::from(value.to_bits())
}
