//! Elements of outputs, and when two of them are equal.

/// The size of an element, and when two are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Element {
    /// Its bytes: 1, 2, 4 or 8.
    pub(crate) bytes: usize,
    pub(crate) equality: Equality,
}

/// When two elements are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Equality {
    /// All bits are.
    Bits,
    /// All bits are, or both are NaN: the manual does not say which NaN.
    AnyNan(Float),
    /// They differ by no more than this: the manual allows each of them half of it.
    Near(Tolerance),
}

/// The type of a float, or a pair of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    Half,
    Brain,
    Single,
    Double,
    Halves,
    Brains,
}

/// How far two floats may be apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tolerance {
    pub(crate) float: Float,
    /// As a part of the greater one.
    pub(crate) relative: f64,
    /// Beside that.
    pub(crate) absolute: f64,
}

impl Element {
    pub(crate) const fn bits(bytes: usize) -> Self {
        Self { bytes, equality: Equality::Bits }
    }

    /// An element whose NaN may be any.
    pub(crate) const fn any_nan(bytes: usize, float: Float) -> Self {
        Self { bytes, equality: Equality::AnyNan(float) }
    }

    pub(crate) const fn near(bytes: usize, float: Float, relative: f64, absolute: f64) -> Self {
        Self { bytes, equality: Equality::Near(Tolerance { float, relative, absolute }) }
    }

    /// The elements in a part of memory, each equal one as the same number.
    pub(crate) fn read(self, memory: &[u8]) -> Vec<u64> {
        let number = |bytes: &[u8]| {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(all)
        };
        memory.chunks_exact(self.bytes).map(|bytes| self.canonical(number(bytes))).collect()
    }

    fn canonical(self, value: u64) -> u64 {
        match self.equality {
            Equality::AnyNan(Float::Halves) => pair(value, Float::Half),
            Equality::AnyNan(Float::Brains) => pair(value, Float::Brain),
            Equality::AnyNan(float) if float.value(value).is_nan() => float.nan(),
            _ => value,
        }
    }

    /// Whether two elements that were read are equal.
    pub(crate) fn equal(self, a: u64, b: u64) -> bool {
        match self.equality {
            Equality::Near(tolerance) => tolerance.holds(a, b),
            _ => a == b,
        }
    }

    /// The element as a float, if it is one.
    pub(crate) fn text(self, value: u64) -> String {
        match self.equality {
            Equality::AnyNan(float @ (Float::Single | Float::Double | Float::Half | Float::Brain)) => {
                format!("{value:#x} ({})", float.value(value))
            }
            Equality::Near(tolerance) => format!("{value:#x} ({})", tolerance.float.value(value)),
            _ => format!("{value:#x}"),
        }
    }
}

/// Both halves of a word.
fn pair(value: u64, float: Float) -> u64 {
    let half = |bits: u64| if float.value(bits).is_nan() { float.nan() } else { bits };
    half(value & 0xffff) | half(value >> 16 & 0xffff) << 16
}

impl Float {
    /// The value of the low bits.
    pub(crate) fn value(self, bits: u64) -> f64 {
        match self {
            Self::Double => f64::from_bits(bits),
            Self::Single => f64::from(f32::from_bits(bits as u32)),
            Self::Brain | Self::Brains => f64::from(f32::from_bits((bits as u32 & 0xffff) << 16)),
            Self::Half | Self::Halves => half(bits as u32 & 0xffff),
        }
    }

    fn nan(self) -> u64 {
        match self {
            Self::Double => 0x7ff8_0000_0000_0000,
            Self::Single => 0x7fff_ffff,
            _ => 0x7fff,
        }
    }
}

fn half(bits: u32) -> f64 {
    let sign = if bits & 0x8000 != 0 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    match bits >> 10 & 31 {
        31 if fraction != 0.0 => f64::NAN,
        31 => sign * f64::INFINITY,
        0 => sign * fraction * 2f64.powi(-24),
        exponent => sign * (1024.0 + fraction) * 2f64.powi(exponent.cast_signed() - 25),
    }
}

impl Tolerance {
    fn holds(self, a: u64, b: u64) -> bool {
        let [x, y] = [a, b].map(|bits| self.float.value(bits));
        if x.is_nan() || y.is_nan() {
            return x.is_nan() && y.is_nan();
        }
        // The part of an infinite one would be infinite.
        let both_finite = x.is_finite() && y.is_finite();
        x == y || both_finite && (x - y).abs() <= self.absolute + self.relative * x.abs().max(y.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::{Element, Float};

    #[test]
    fn elements_are_equal_as_their_type_says() {
        let single = Element::any_nan(4, Float::Single);
        assert_eq!(single.read(&[1, 0, 0xc0, 0xff, 0, 0, 0x80, 0x3f]), [0x7fff_ffff, 0x3f80_0000]);
        assert_eq!(Element::bits(2).read(&[1, 2, 3, 4]), [0x201, 0x403]);
        let halves = Element::any_nan(4, Float::Halves);
        assert_eq!(halves.read(&0xfe01_3c00u32.to_le_bytes()), [0x7fff_3c00]);
        let near = Element::near(4, Float::Single, 1e-6, 0.0);
        let bits = |value: f32| u64::from(value.to_bits());
        assert!(near.equal(bits(1.0), bits(1.000_000_1)) && !near.equal(bits(1.0), bits(1.00001)));
        assert!(near.equal(bits(f32::NAN), bits(-f32::NAN)) && !near.equal(bits(f32::INFINITY), bits(1.0)));
    }

    #[test]
    fn short_floats_are_read() {
        let values =
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2f64.powi(-24)), (0x7bff, 65504.0), (0x0400, 2f64.powi(-14))];
        for (bits, expected) in values {
            assert_eq!(Float::Half.value(bits), expected);
        }
        assert_eq!(Float::Brain.value(0x3fc0), 1.5);
    }
}
