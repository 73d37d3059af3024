//! Exact arithmetic of binary floating-point numbers in every rounding mode.
//!
//! A number is a sign, an integer of up to 128 bits and a power of two, and whether something smaller than its last bit was
//! left out. Each operation computes that without error, and rounds once. It serves the rounding modes that processors do
//! not have, and as a reference for those that they have. Numbers of 16 bits have fast conversions of their own.

/// How results are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rounding {
    /// To the nearest, and to the even one of two: `.rn`.
    Nearest,
    /// Towards zero: `.rz`.
    Zero,
    /// Downwards: `.rm`.
    Down,
    /// Upwards: `.rp`.
    Up,
    /// To the nearest, and away from zero of two: `.rna`.
    NearestAway,
}

impl Rounding {
    /// Whether a magnitude of which something was cut off is rounded away from zero: whether it is odd, whether the half of its
    /// last bit was cut off, and whether anything else was.
    fn is_up(self, negative: bool, odd: bool, half: bool, rest: bool) -> bool {
        match self {
            Rounding::Nearest => half && (rest || odd),
            Rounding::NearestAway => half,
            Rounding::Zero => false,
            Rounding::Down => negative && (half || rest),
            Rounding::Up => !negative && (half || rest),
        }
    }
}

/// Cuts bits off: what is left, the half of its last bit, and whether there was anything else.
fn cut(integer: u128, shift: i32, sticky: bool) -> (u128, bool, bool) {
    match shift {
        ..=0 => (integer << (-shift).min(127), false, sticky),
        1..=127 => {
            let below = integer & ((1 << shift) - 1);
            let half = 1 << (shift - 1);
            (integer >> shift, below & half != 0, below & (half - 1) != 0 || sticky)
        }
        128 => (0, integer >> 127 != 0, integer << 1 != 0 || sticky),
        _ => (0, false, true),
    }
}

/// A format of IEEE 754, by the bits of its fraction and of its exponent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    fraction: u32,
    exponent: u32,
}

pub(crate) const F16: Format = Format { fraction: 10, exponent: 5 };
pub(crate) const BF16: Format = Format { fraction: 7, exponent: 8 };
pub(crate) const F32: Format = Format { fraction: 23, exponent: 8 };
pub(crate) const F64: Format = Format { fraction: 52, exponent: 11 };

/// A number, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Number {
    Nan,
    Infinity(bool),
    /// Negative, the integer, the power of two of its last bit, and whether something smaller was left out. Zero is one.
    Finite(bool, u128, i32, bool),
}

use Number::{Finite, Infinity, Nan};

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    fn sign(self, negative: bool) -> u64 {
        u64::from(negative) << (self.fraction + self.exponent)
    }

    /// The NaN that operations return: that of hardware for 16 and 32 bits, and a quiet one for 64.
    pub(crate) fn nan(self) -> u64 {
        match self {
            F64 => 0xfff8_0000_0000_0000,
            _ => (1 << (self.fraction + self.exponent)) - 1,
        }
    }

    /// Takes bits apart.
    pub(crate) fn read(self, bits: u64) -> Number {
        let negative = bits >> (self.fraction + self.exponent) & 1 != 0;
        let exponent = (bits >> self.fraction & ((1 << self.exponent) - 1)) as i32;
        let fraction = bits & ((1 << self.fraction) - 1);
        let least = 1 - self.bias() - self.fraction as i32;
        if exponent == (1 << self.exponent) - 1 {
            if fraction != 0 { Nan } else { Infinity(negative) }
        } else if exponent == 0 {
            Finite(negative, u128::from(fraction), least, false)
        } else {
            Finite(negative, u128::from(fraction | 1 << self.fraction), least + exponent - 1, false)
        }
    }

    /// Whether a number is not zero, and less than every normal one when it is rounded to as many bits as those have.
    pub(crate) fn is_tiny(self, number: Number, rounding: Rounding) -> bool {
        let Finite(negative, integer, power, sticky) = number else { return false };
        let (top, least) = (power + 127 - integer.leading_zeros() as i32, 1 - self.bias());
        if integer == 0 {
            return sticky;
        }
        if top != least - 1 {
            return top < least;
        }
        // Just below: it may be rounded to the least normal number.
        let (quotient, half, rest) = cut(integer, top - self.fraction as i32 - power, sticky);
        quotient + u128::from(rounding.is_up(negative, quotient & 1 != 0, half, rest)) < 2 << self.fraction
    }

    /// The sign of a number, and nothing else.
    pub(crate) fn zero(self, number: Number) -> u64 {
        match number {
            Nan => 0,
            Infinity(negative) | Finite(negative, ..) => self.sign(negative),
        }
    }

    /// A NaN of 64 bits in a narrower format, quiet, with its sign and the upper bits of its fraction.
    pub(crate) fn narrow_nan(self, bits: u64) -> u64 {
        let fraction = (bits & ((1 << 52) - 1)) >> (52 - self.fraction);
        self.sign(bits >> 63 != 0) | self.infinity() | fraction | 1 << (self.fraction - 1)
    }

    /// Rounds a number.
    pub(crate) fn round(self, number: Number, rounding: Rounding) -> u64 {
        let (negative, integer, power, sticky) = match number {
            Nan => return self.nan(),
            Infinity(negative) => return self.sign(negative) | self.infinity(),
            Finite(negative, 0, _, false) => return self.sign(negative),
            Finite(negative, integer, power, sticky) => (negative, integer, power, sticky),
        };
        let sign = self.sign(negative);
        let least = 1 - self.bias();
        // The power of two of the highest bit. What is only sticky is smaller than every number of the format.
        let top = if integer == 0 { least - 1000 } else { power + 127 - integer.leading_zeros() as i32 };
        let last = top.max(least) - self.fraction as i32;
        let (mut quotient, half, rest) = cut(integer, last - power, sticky);
        quotient += u128::from(rounding.is_up(negative, quotient & 1 != 0, half, rest));
        // The carry of a fraction that overflows goes into the exponent, which is what it should do.
        let magnitude = if top < least {
            quotient as u64
        } else {
            let biased = (top + self.bias()) as u64;
            if top > self.bias() { self.infinity() } else { ((biased - 1) << self.fraction) + quotient as u64 }
        };
        if magnitude < self.infinity() {
            return sign | magnitude;
        }
        let infinite = match rounding {
            Rounding::Nearest | Rounding::NearestAway => true,
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
        };
        sign | (if infinite { self.infinity() } else { self.infinity() - 1 })
    }
}

/// The sum of two numbers. Of two zeros or opposites, the sign is that of the rounding mode.
pub(crate) fn add(a: Number, b: Number, rounding: Rounding) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinity(a), Infinity(b)) => {
            if a == b {
                Infinity(a)
            } else {
                Nan
            }
        }
        (Infinity(a), _) => Infinity(a),
        (_, Infinity(b)) => Infinity(b),
        (Finite(an, 0, ..), Finite(bn, 0, ..)) => {
            let negative = if an == bn { an } else { rounding == Rounding::Down };
            Finite(negative, 0, 0, false)
        }
        (Finite(_, 0, ..), b) => b,
        (a, Finite(_, 0, ..)) => a,
        (Finite(an, am, ap, _), Finite(bn, bm, bp, _)) => {
            let top = |integer: u128, power: i32| power - integer.leading_zeros() as i32;
            let swapped = top(bm, bp) > top(am, ap);
            let ((hn, hm, hp), (ln, lm, lp)) =
                if swapped { ((bn, bm, bp), (an, am, ap)) } else { ((an, am, ap), (bn, bm, bp)) };
            // The larger one gets two bits above it, for a carry.
            let shift = hm.leading_zeros() as i32 - 2;
            let (hm, power) = if shift >= 0 { (hm << shift, hp - shift) } else { (hm, hp) };
            let distance = power - lp;
            let (lm, sticky) = match distance {
                ..=0 => (lm << (-distance).min(127), false),
                1..=127 => (lm >> distance, lm & ((1 << distance) - 1) != 0),
                _ => (0, true),
            };
            if hn == ln {
                return Finite(hn, hm + lm, power, sticky);
            }
            let lm = lm + u128::from(sticky);
            let (negative, difference) = if hm >= lm { (hn, hm - lm) } else { (ln, lm - hm) };
            if difference == 0 && !sticky {
                return Finite(rounding == Rounding::Down, 0, 0, false);
            }
            Finite(negative, difference, power, sticky)
        }
    }
}

/// The negative.
pub(crate) fn negate(a: Number) -> Number {
    match a {
        Nan => Nan,
        Infinity(negative) => Infinity(!negative),
        Finite(negative, integer, power, sticky) => Finite(!negative, integer, power, sticky),
    }
}

/// The product of two numbers of at most 64 bits.
pub(crate) fn multiply(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinity(_), Finite(_, 0, ..)) | (Finite(_, 0, ..), Infinity(_)) => Nan,
        (Infinity(a), Infinity(b) | Finite(b, ..)) | (Finite(a, ..), Infinity(b)) => Infinity(a != b),
        (Finite(an, am, ap, _), Finite(bn, bm, bp, _)) => Finite(an != bn, am * bm, ap + bp, false),
    }
}

/// The quotient.
pub(crate) fn divide(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) | (Infinity(_), Infinity(_)) | (Finite(_, 0, ..), Finite(_, 0, ..)) => Nan,
        (Infinity(a), Finite(b, ..)) | (Finite(a, ..), Finite(b, 0, ..)) => Infinity(a != b),
        (Finite(a, ..), Infinity(b)) => Finite(a != b, 0, 0, false),
        (Finite(an, 0, ..), Finite(bn, ..)) => Finite(an != bn, 0, 0, false),
        (Finite(an, am, ap, _), Finite(bn, bm, bp, _)) => {
            let shift = am.leading_zeros() as i32;
            let high = am << shift;
            Finite(an != bn, high / bm, ap - shift - bp, !high.is_multiple_of(bm))
        }
    }
}

/// The square root.
pub(crate) fn square_root(a: Number) -> Number {
    match a {
        Nan | Infinity(true) => Nan,
        Infinity(false) => Infinity(false),
        Finite(negative, 0, ..) => Finite(negative, 0, 0, false),
        Finite(true, ..) => Nan,
        Finite(false, integer, power, _) => {
            let mut shift = integer.leading_zeros() as i32;
            if (power - shift) % 2 != 0 {
                shift -= 1;
            }
            let high = integer << shift;
            let root = high.isqrt();
            Finite(false, root, (power - shift) / 2, root * root != high)
        }
    }
}

/// Rounds to an integer. NaN is none; what does not fit saturates to `i128`'s ends, which no caller's range has.
#[cfg(test)]
pub(crate) fn to_integer(a: Number, rounding: Rounding) -> Option<i128> {
    match a {
        Nan => None,
        Infinity(negative) => Some(if negative { i128::MIN } else { i128::MAX }),
        Finite(negative, integer, power, _) => {
            let magnitude = if integer == 0 {
                0
            } else if power >= 0 {
                if integer.leading_zeros() as i32 - 1 < power {
                    return Some(if negative { i128::MIN } else { i128::MAX });
                }
                integer << power
            } else if power < -127 {
                u128::from(matches!((rounding, negative), (Rounding::Down, true) | (Rounding::Up, false)))
            } else {
                let shift = -power;
                let below = integer & ((1 << shift) - 1);
                let half = 1u128 << (shift - 1);
                let quotient = integer >> shift;
                let up = match rounding {
                    Rounding::Nearest => below > half || below == half && quotient & 1 != 0,
                    Rounding::NearestAway => below >= half,
                    Rounding::Zero => false,
                    Rounding::Down => negative && below != 0,
                    Rounding::Up => !negative && below != 0,
                };
                quotient + u128::from(up)
            };
            let magnitude = i128::try_from(magnitude).unwrap_or(i128::MAX);
            Some(if negative { -magnitude } else { magnitude })
        }
    }
}

/// An integer as a number.
pub(crate) fn from_integer(value: i128) -> Number {
    Finite(value < 0, value.unsigned_abs(), 0, false)
}

/// `f16` to `f32`, without error. A NaN stays one.
#[inline(always)]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    let sign = u32::from(bits & 0x8000) << 16;
    // The exponent moves from bias 15 to bias 127 in a product, which is exact for subnormal numbers too.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23);
    let finite = scaled.to_bits();
    let special = 0x7f80_0000 | magnitude << 13;
    f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { finite })
}

/// `bf16` to `f32`, without error.
#[inline(always)]
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `f32` to `f16`, to the nearest even.
#[inline(always)]
pub(crate) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 16) as u16 & 0x8000;
    // Normal results: the exponent changes its bias, and half of the last bit is added, a little less for an even one.
    let odd = magnitude >> 13 & 1;
    let normal = (magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd)) >> 13;
    // Subnormal results: adding a half aligns the last bit with that of 2^-24, and the addition rounds.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < 113 << 23 { small } else { normal };
    let rounded = if magnitude >= 0x477f_f000 { 0x7c00 } else { finite };
    if magnitude > 0x7f80_0000 { 0x7fff } else { sign | rounded as u16 }
}

/// `f32` to `bf16`, to the nearest even.
#[inline(always)]
pub(crate) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff } else { rounded }
}

/// `f64` to `f32`, so that rounding the result again to fewer bits gives what rounding once would: the last bit is set
/// where something was left out.
#[inline(always)]
pub(crate) fn f64_to_f32_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    if back == value || value.is_nan() || bits & 1 != 0 {
        return near;
    }
    // Towards the value, which is on one side of an even neighbour.
    if near.is_infinite() {
        return f32::from_bits(bits - 1);
    }
    let outward = value.abs() > back.abs();
    if near == 0.0 {
        return f32::from_bits(((value.to_bits() >> 32) as u32 & 0x8000_0000) | 1);
    }
    f32::from_bits(if outward { bits + 1 } else { bits - 1 })
}

/// `f64` to `f16`, to the nearest even.
#[inline(always)]
pub(crate) fn f64_to_f16(value: f64) -> u16 {
    f32_to_f16(f64_to_f32_odd(value))
}

/// `f64` to `bf16`, to the nearest even.
#[inline(always)]
pub(crate) fn f64_to_bf16(value: f64) -> u16 {
    f32_to_bf16(f64_to_f32_odd(value))
}

/// `a * b + c` for numbers of 16 bits, which are exact in `f64`: the result has the last bit set where it is not exact, so
/// that rounding it again is right.
#[inline(always)]
pub(crate) fn fused_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    if error == 0.0 || error.is_nan() || !sum.is_finite() || bits & 1 != 0 || sum == 0.0 {
        return sum;
    }
    f64::from_bits(if (error > 0.0) == (sum > 0.0) { bits + 1 } else { bits - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Rounding; 4] = [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up];

    fn same(found: u32, expected: f32) -> bool {
        found == expected.to_bits() || expected.is_nan() && f32::from_bits(found).is_nan()
    }

    fn same64(found: u64, expected: f64) -> bool {
        found == expected.to_bits() || expected.is_nan() && f64::from_bits(found).is_nan()
    }

    /// Bits with many edge cases.
    fn bits32() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (any::<bool>(), 0u32..256, prop::sample::select(vec![0u32, 1, 2, 0x7f_ffff, 0x7f_fffe, 0x40_0000]))
                .prop_map(|(sign, exponent, fraction)| u32::from(sign) << 31 | exponent << 23 | fraction),
        ]
    }

    fn bits64() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (any::<bool>(), 0u64..2048, prop::sample::select(vec![0u64, 1, 2, (1 << 52) - 1, 1 << 51]))
                .prop_map(|(sign, exponent, fraction)| u64::from(sign) << 63 | exponent << 52 | fraction),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn to_the_nearest_is_what_the_processor_does(a in bits32(), b in bits32(), c in bits32()) {
            let [x, y, z] = [a, b, c].map(f32::from_bits);
            let [p, q, r] = [a, b, c].map(|bits| F32.read(bits.into()));
            let near = |number| F32.round(number, Rounding::Nearest) as u32;
            prop_assert!(same(near(add(p, q, Rounding::Nearest)), x + y));
            prop_assert!(same(near(multiply(p, q)), x * y));
            prop_assert!(same(near(divide(p, q)), x / y));
            prop_assert!(same(near(square_root(p)), x.sqrt()));
            prop_assert!(same(near(add(multiply(p, q), r, Rounding::Nearest)), x.mul_add(y, z)));
        }

        #[test]
        fn doubles_too(a in bits64(), b in bits64(), c in bits64()) {
            let [x, y, z] = [a, b, c].map(f64::from_bits);
            let [p, q, r] = [a, b, c].map(|bits| F64.read(bits));
            let near = |number| F64.round(number, Rounding::Nearest);
            prop_assert!(same64(near(add(p, q, Rounding::Nearest)), x + y));
            prop_assert!(same64(near(multiply(p, q)), x * y));
            prop_assert!(same64(near(divide(p, q)), x / y));
            prop_assert!(same64(near(square_root(p)), x.sqrt()));
            prop_assert!(same64(near(add(multiply(p, q), r, Rounding::Nearest)), x.mul_add(y, z)));
            prop_assert!(same(F32.round(p, Rounding::Nearest) as u32, x as f32));
        }

        #[test]
        fn directed_results_enclose_the_exact_one(a in bits32(), b in bits32()) {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let exact = f64::from(x) * f64::from(y);
            prop_assume!(!exact.is_nan() && exact.is_finite());
            let product = multiply(F32.read(a.into()), F32.read(b.into()));
            let [_, zero, down, up] = ALL.map(|rounding| f32::from_bits(F32.round(product, rounding) as u32));
            prop_assert!(f64::from(down) <= exact && exact <= f64::from(up));
            prop_assert!(f64::from(zero).abs() <= exact.abs());
            prop_assert!(zero == down || zero == up);
            prop_assert_eq!(down == up, f64::from(down) == exact);
            if down != up && down.is_finite() && up.is_finite() && down != 0.0 && up != 0.0 {
                prop_assert_eq!(down.to_bits().abs_diff(up.to_bits()), 1);
            }
        }

        #[test]
        fn integers_are_rounded_in_each_mode(value in any::<f64>(), integer in any::<i64>()) {
            let number = F64.read(value.to_bits());
            if value.is_finite() && value.abs() < 1e18 {
                let expected = [value.round_ties_even(), value.trunc(), value.floor(), value.ceil()];
                for (rounding, expected) in ALL.into_iter().zip(expected) {
                    prop_assert_eq!(to_integer(number, rounding), Some(expected as i128));
                }
            }
            prop_assert_eq!(F32.round(from_integer(integer.into()), Rounding::Nearest) as u32, (integer as f32).to_bits());
            prop_assert_eq!(F64.round(from_integer(integer.into()), Rounding::Nearest), (integer as f64).to_bits());
        }

        #[test]
        fn short_numbers_are_converted_exactly(bits in bits32(), wide in bits64()) {
            let value = f32::from_bits(bits);
            prop_assert_eq!(u64::from(f32_to_f16(value)), F16.round(F32.read(bits.into()), Rounding::Nearest));
            prop_assert_eq!(u64::from(f32_to_bf16(value)), BF16.round(F32.read(bits.into()), Rounding::Nearest));
            let value = f64::from_bits(wide);
            prop_assert_eq!(u64::from(f64_to_f16(value)), F16.round(F64.read(wide), Rounding::Nearest));
            prop_assert_eq!(u64::from(f64_to_bf16(value)), BF16.round(F64.read(wide), Rounding::Nearest));
        }

        #[test]
        fn short_numbers_are_fused_exactly(a in any::<u16>(), b in any::<u16>(), c in any::<u16>()) {
            for (format, wide, narrow) in [
                (F16, f16_to_f32 as fn(u16) -> f32, f64_to_f16 as fn(f64) -> u16),
                (BF16, bf16_to_f32, f64_to_bf16),
            ] {
                let exact = add(
                    multiply(format.read(a.into()), format.read(b.into())),
                    format.read(c.into()),
                    Rounding::Nearest,
                );
                let [x, y, z] = [a, b, c].map(|bits| f64::from(wide(bits)));
                prop_assert_eq!(u64::from(narrow(fused_odd(x, y, z))), format.round(exact, Rounding::Nearest));
            }
        }
    }

    #[test]
    fn every_short_number_is_read_exactly() {
        for bits in 0..=u16::MAX {
            for (format, value) in [(F16, f16_to_f32(bits)), (BF16, bf16_to_f32(bits))] {
                let expected = F32.round(format.read(bits.into()), Rounding::Nearest) as u32;
                assert!(same(expected, value), "{bits:#x}");
            }
        }
    }
}
