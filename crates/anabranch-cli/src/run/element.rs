//! The types of numbers that kernels are given.

use half::{bf16, f16};
use npyz::{Endianness, TypeChar, TypeStr};
use std::fmt;
use std::str::FromStr;

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    U8,
    I8,
    U16,
    I16,
    F16,
    Bf16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
}

/// Each type with its name, its bytes, and its name in `.npy` files. NumPy has no bfloat16: `ml_dtypes` writes it as two
/// bytes of no type.
const ALL: [(Element, &str, usize, &str); 12] = [
    (Element::U8, "u8", 1, "|u1"),
    (Element::I8, "i8", 1, "|i1"),
    (Element::U16, "u16", 2, "<u2"),
    (Element::I16, "i16", 2, "<i2"),
    (Element::F16, "f16", 2, "<f2"),
    (Element::Bf16, "bf16", 2, "<V2"),
    (Element::U32, "u32", 4, "<u4"),
    (Element::I32, "i32", 4, "<i4"),
    (Element::F32, "f32", 4, "<f4"),
    (Element::U64, "u64", 8, "<u8"),
    (Element::I64, "i64", 8, "<i8"),
    (Element::F64, "f64", 8, "<f8"),
];

/// The names of all types, for messages.
pub(super) const NAMES: &str = "u8, i8, u16, i16, f16, bf16, u32, i32, f32, u64, i64 or f64";

impl Element {
    fn row(self) -> &'static (Element, &'static str, usize, &'static str) {
        // The rows are in the order of the type.
        &ALL[self as usize]
    }

    pub(super) fn name(self) -> &'static str {
        self.row().1
    }

    pub(super) fn bytes(self) -> usize {
        self.row().2
    }

    /// Its name in `.npy` files.
    pub(super) fn descriptor(self) -> &'static str {
        self.row().3
    }

    pub(super) fn is_real(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The type of that name in a `.npy` file, or why there is none.
    pub(super) fn of_descriptor(name: &TypeStr) -> Result<Self, String> {
        if name.endianness() == Endianness::Big {
            return Err(format!("its numbers of type `{name}` are big-endian; save it with `.astype(\"{}\")`", {
                name.to_string().replace('>', "<")
            }));
        }
        let same = |(_, _, _, other): &&(_, _, _, &str)| {
            other
                .parse::<TypeStr>()
                .is_ok_and(|other| (other.type_char(), other.size_field()) == (name.type_char(), name.size_field()))
        };
        match ALL.iter().find(same) {
            Some((element, ..)) => Ok(*element),
            None if name.type_char() == TypeChar::Bool => {
                Err("its elements are bool; save it with `.astype(\"u1\")`".to_owned())
            }
            None => Err(format!("its elements are of type `{name}`, and a kernel is given {NAMES}")),
        }
    }

    /// The bytes of a number.
    pub(super) fn value(self, text: &str) -> Result<Vec<u8>, String> {
        let wrong = || format!("`{text}` is no {}", self.name());
        if self.is_real() {
            let value: f64 = text.parse().map_err(|_| wrong())?;
            let (bytes, infinite) = match self {
                Self::F16 => {
                    let value = f16::from_f32(rounded_to_odd(value));
                    (value.to_le_bytes().to_vec(), value.is_infinite())
                }
                Self::Bf16 => {
                    let value = bf16::from_f32(rounded_to_odd(value));
                    (value.to_le_bytes().to_vec(), value.is_infinite())
                }
                Self::F32 => {
                    // Not by way of 64 bits, which would round twice.
                    let value: f32 = text.parse().map_err(|_| wrong())?;
                    (value.to_le_bytes().to_vec(), value.is_infinite())
                }
                _ => (value.to_le_bytes().to_vec(), value.is_infinite()),
            };
            if infinite && !text.to_ascii_lowercase().contains("inf") {
                return Err(format!("`{text}` is too large for {}; write inf for infinity", self.name()));
            }
            return Ok(bytes);
        }
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text),
        };
        let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => i128::from_str_radix(digits, 16),
            _ if digits.bytes().all(|digit| digit.is_ascii_digit()) => digits.parse(),
            _ => return Err(wrong()),
        };
        let value = sign * magnitude.ok().filter(|value| *value < 1 << 64).ok_or_else(wrong)?;
        let bits = 8 * self.bytes();
        let signed = matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64);
        let (least, most) =
            if signed { (-(1i128 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
        if !(least..=most).contains(&value) {
            return Err(format!("{text} is out of range for {}, which is {least} to {most}", self.name()));
        }
        Ok(value.to_le_bytes()[..self.bytes()].to_vec())
    }
}

/// The number in 32 bits, of which the last one is set if it is not exact: rounded once more, to fewer bits, it is rounded as
/// the number itself would be.
fn rounded_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    let towards_zero = nearest.to_bits() - u32::from(f64::from(nearest).abs() > value.abs());
    f32::from_bits(towards_zero | 1)
}

impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Element {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = ALL.iter().find(|(_, name, ..)| *name == text);
        found.map(|(element, ..)| *element).ok_or_else(|| format!("`{text}` is no type; write {NAMES}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Element};

    #[test]
    fn rows_are_in_the_order_of_the_types() {
        for (element, name, bytes, descriptor) in ALL {
            assert_eq!((element.name(), element.bytes(), element.descriptor()), (name, bytes, descriptor));
            assert_eq!(name.parse(), Ok(element));
            assert_eq!(Element::of_descriptor(&descriptor.parse().expect("a name of NumPy's")), Ok(element));
        }
    }

    #[test]
    fn numbers_have_the_bytes_of_their_type() {
        for (element, text, bytes) in [
            (Element::U8, "255", &[255][..]),
            (Element::I8, "-128", &[128]),
            (Element::U16, "0xBeef", &[0xef, 0xbe]),
            (Element::I32, "-1", &[255; 4]),
            (Element::U64, "18446744073709551615", &[255; 8]),
            (Element::I64, "-0x8000000000000000", &[0, 0, 0, 0, 0, 0, 0, 128]),
            (Element::F16, "1", &[0, 0x3c]),
            (Element::Bf16, "-2.5", &[0x20, 0xc0]),
            (Element::F32, "1e-3", &0.001f32.to_le_bytes()),
            (Element::F32, "-inf", &f32::NEG_INFINITY.to_le_bytes()),
            (Element::F64, "0.1", &0.1f64.to_le_bytes()),
        ] {
            assert_eq!(element.value(text).as_deref(), Ok(bytes), "{element} {text}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for (element, text, words) in [
            (Element::U8, "256", "0 to 255"),
            (Element::U32, "-1", "0 to 4294967295"),
            (Element::I16, "0x8000", "-32768 to 32767"),
            (Element::I64, "99999999999999999999999999", "is no i64"),
            (Element::U32, "", "is no u32"),
            (Element::U32, "0x", "is no u32"),
            (Element::U32, "--1", "is no u32"),
            (Element::U32, "+1", "is no u32"),
            (Element::U32, "1.5", "is no u32"),
            (Element::F32, "one", "is no f32"),
            (Element::F16, "70000", "too large for f16"),
            (Element::F32, "1e39", "too large for f32"),
        ] {
            let error = element.value(text).expect_err("a number that does not fit");
            assert!(error.contains(words), "{element} {text}: {error}");
        }
    }

    #[test]
    fn short_floats_are_rounded_to_the_nearest() {
        let cases = [
            (Element::F16, "1.00048828125", 0x3c00),
            (Element::F16, "1.00048828125001", 0x3c01),
            (Element::F16, "-1.00146484374999", 0xbc01),
            (Element::F16, "2.9802322387695316e-08", 0x0001),
            (Element::F16, "-2.98e-08", 0x8000),
            (Element::F16, "65519.999999", 0x7bff),
            (Element::F16, "inf", 0x7c00),
            (Element::Bf16, "1.00390625", 0x3f80),
            (Element::Bf16, "1.00390625000001", 0x3f81),
            (Element::Bf16, "1e-300", 0x0000),
            (Element::Bf16, "-3.3e38", 0xff78),
        ];
        for (element, text, bits) in cases {
            let found = element.value(text).expect("a number");
            assert_eq!(found, u16::to_le_bytes(bits), "{text}: {found:x?}");
        }
        assert!(Element::F16.value("65520").is_err() && Element::Bf16.value("1e300").is_err());
    }
}
