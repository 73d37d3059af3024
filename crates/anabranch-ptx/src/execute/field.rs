//! How `printf` writes a value: as the C library does, by which CUDA writes what kernels print.

use std::iter::repeat_n;

/// The flags, the width and the precision of a conversion.
#[derive(Clone, Copy, Default)]
pub(super) struct Field {
    pub(super) left: bool,
    plus: bool,
    space: bool,
    zeros: bool,
    alternative: bool,
    pub(super) width: usize,
    pub(super) precision: Option<usize>,
}

impl Field {
    pub(super) fn flag(&mut self, flag: u8) {
        match flag {
            b'-' => self.left = true,
            b'+' => self.plus = true,
            b' ' => self.space = true,
            b'0' => self.zeros = true,
            _ => self.alternative = true,
        }
    }

    /// `%c` and `%s`.
    pub(super) fn text(&self, to: &mut Vec<u8>, value: &[u8]) {
        self.put(to, "", value, false);
    }

    /// `%d`, `%i`, `%u`, `%x`, `%X`, `%o` and `%p`.
    pub(super) fn integer(&self, to: &mut Vec<u8>, negative: bool, magnitude: u64, conversion: u8) {
        if conversion == b'p' && magnitude == 0 {
            return self.text(to, b"(nil)");
        }
        let mut digits = match conversion {
            b'x' | b'p' => format!("{magnitude:x}"),
            b'X' => format!("{magnitude:X}"),
            b'o' => format!("{magnitude:o}"),
            _ => magnitude.to_string(),
        };
        if let Some(precision) = self.precision {
            if precision == 0 && magnitude == 0 {
                digits.clear();
            }
            digits.insert_str(0, &"0".repeat(precision.saturating_sub(digits.len())));
        }
        if self.alternative && conversion == b'o' && !digits.starts_with('0') {
            digits.insert(0, '0');
        }
        let base = match conversion {
            b'p' => "0x",
            b'x' if self.alternative && magnitude != 0 => "0x",
            b'X' if self.alternative && magnitude != 0 => "0X",
            _ => "",
        };
        let sign = if b"dip".contains(&conversion) { self.sign(negative) } else { "" };
        self.put(to, &format!("{sign}{base}"), digits.as_bytes(), self.precision.is_none());
    }

    /// `%f`, `%e`, `%g`, `%a`, and the same in capitals.
    pub(super) fn real(&self, to: &mut Vec<u8>, value: f64, conversion: u8) {
        let sign = self.sign(value.is_sign_negative());
        let magnitude = value.abs();
        let precision = self.precision.unwrap_or(6);
        let (mut base, mut digits) = match conversion.to_ascii_lowercase() {
            _ if value.is_nan() => ("", "nan".to_owned()),
            _ if value.is_infinite() => ("", "inf".to_owned()),
            b'f' => ("", format!("{magnitude:.precision$}")),
            b'e' => ("", exponential(magnitude, precision)),
            b'g' => ("", general(magnitude, precision.max(1), self.alternative)),
            _ => ("0x", hexadecimal(magnitude, self.precision)),
        };
        if self.alternative && value.is_finite() && !digits.contains('.') {
            digits.insert(digits.find(['e', 'p']).unwrap_or(digits.len()), '.');
        }
        if conversion.is_ascii_uppercase() {
            digits.make_ascii_uppercase();
            base = if base.is_empty() { "" } else { "0X" };
        }
        self.put(to, &format!("{sign}{base}"), digits.as_bytes(), value.is_finite());
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    /// Fills the width with spaces, or between the sign and the digits with zeros if the flag for that holds.
    fn put(&self, to: &mut Vec<u8>, before: &str, digits: &[u8], may_have_zeros: bool) {
        let missing = self.width.saturating_sub(before.len() + digits.len());
        let [mut left, mut zeros, mut right] = [0; 3];
        match (self.left, self.zeros && may_have_zeros) {
            (true, _) => right = missing,
            (_, true) => zeros = missing,
            _ => left = missing,
        }
        to.extend(repeat_n(b' ', left));
        to.extend(before.as_bytes());
        to.extend(repeat_n(b'0', zeros));
        to.extend(digits);
        to.extend(repeat_n(b' ', right));
    }
}

/// `1.5e+00`: the exponent has two digits at least.
fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// The shorter one of the two forms, without zeros at the end.
fn general(value: f64, precision: usize, keeps_zeros: bool) -> String {
    let shown = exponential(value, precision - 1);
    let exponent: i32 = shown.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let trim = |digits: &str| {
        if keeps_zeros || !digits.contains('.') {
            return digits.to_owned();
        }
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if exponent < -4 || exponent >= precision as i32 {
        let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "+00"));
        format!("{}e{exponent}", trim(digits))
    } else {
        let after = (precision as i32 - 1 - exponent).max(0) as usize;
        trim(&format!("{value:.after$}"))
    }
}

/// `1.8p+1`: as many digits as the value has, or rounded to a precision. Of two that are as near, the even one.
fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    const DIGITS: usize = 13;
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32;
    let mut significand = bits & ((1 << 52) - 1) | u64::from(exponent != 0) << 52;
    if let Some(cut) = precision.and_then(|precision| DIGITS.checked_sub(precision)).filter(|&cut| cut > 0) {
        let unit = 1u64 << (4 * cut);
        let (whole, rest) = (significand / unit, significand % unit);
        let up = rest > unit / 2 || (rest == unit / 2 && whole % 2 == 1);
        significand = (whole + u64::from(up)) * unit;
    }
    let all = format!("{:0DIGITS$x}", significand & ((1 << 52) - 1));
    let fraction = match precision {
        Some(precision) => format!("{all:0<precision$.precision$}"),
        None => all.trim_end_matches('0').to_owned(),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    let power = if bits == 0 { 0 } else { exponent.max(1) - 1023 };
    format!("{}{point}{fraction}p{power:+}", significand >> 52)
}
