//! `printf`.

use std::fmt::Write;

use super::Hooks;
use super::provided::{Builtin, Outcome, TEXT_LIMIT};
use super::warp::failure_of;
use crate::fault::{Detail, FaultCode};

/// How many bytes one call prints at most, but for the end of its last value.
const TOTAL_LIMIT: usize = 1 << 20;

impl Builtin<'_, '_> {
    /// `vprintf` of a lane, which returns how many values the format has.
    pub(super) fn print(&mut self, lane: u32, hooks: &dyn Hooks) -> Outcome<()> {
        let (format, values) = (self.argument(lane, 0)?, self.argument(lane, 1)?);
        let format = self.text(lane, format, TEXT_LIMIT)?;
        let (text, count) = self.format(lane, &format, values)?;
        hooks.print(&text);
        self.answer(lane, count.into());
        Ok(())
    }

    fn number(&mut self, lane: u32, address: &mut u64, bytes: u64) -> Outcome<u64> {
        let bad = || failure_of(FaultCode::LAUNCH_FAILED, Detail::BadFormat, lane);
        *address = address.checked_next_multiple_of(bytes).ok_or_else(bad)?;
        let mut value = 0;
        for index in 0..bytes {
            value |= u64::from(self.byte(lane, address.wrapping_add(index))?) << (8 * index);
        }
        *address = address.wrapping_add(bytes);
        Ok(value)
    }

    /// What a format and its values are, and how many values it has.
    fn format(&mut self, lane: u32, format: &[u8], mut values: u64) -> Outcome<(Vec<u8>, u32)> {
        let bad = || failure_of(FaultCode::LAUNCH_FAILED, Detail::BadFormat, lane);
        let mut text = Vec::<u8>::new();
        let mut count = 0;
        let mut left = format.iter().copied().peekable();
        while let Some(next) = left.next() {
            if text.len() > TOTAL_LIMIT {
                let detail = Detail::Refused(format!("a printf of more than {TOTAL_LIMIT} bytes"));
                return Err(failure_of(FaultCode::LAUNCH_FAILED, detail, lane));
            }
            if next != b'%' {
                text.push(next);
                continue;
            }
            let mut field = Field::default();
            while let Some(flag) = left.next_if(|c| b"-+ #0".contains(c)) {
                field.flag(flag);
            }
            if left.next_if_eq(&b'*').is_some() {
                let width = self.number(lane, &mut values, 4)? as u32 as i32;
                field.left |= width < 0;
                field.width = width.unsigned_abs().min(4096) as usize;
            }
            while let Some(digit) = left.next_if(u8::is_ascii_digit) {
                field.width = (field.width * 10 + usize::from(digit - b'0')).min(4096);
            }
            if left.next_if_eq(&b'.').is_some() {
                let mut precision = 0;
                if left.next_if_eq(&b'*').is_some() {
                    precision = (self.number(lane, &mut values, 4)? as u32 as i32).clamp(-1, 4096);
                }
                while let Some(digit) = left.next_if(u8::is_ascii_digit) {
                    precision = (precision * 10 + i32::from(digit - b'0')).min(4096);
                }
                // A negative one is taken as if there were none.
                field.precision = usize::try_from(precision).ok().map(|precision| precision.min(4096));
            }
            let mut long = false;
            let mut short = 0;
            while let Some(size) = left.next_if(|c| b"hlLqjzt".contains(c)) {
                match size {
                    b'h' => short += 1,
                    _ => long = true,
                }
            }
            let conversion = left.next().ok_or_else(bad)?;
            if conversion == b'%' {
                text.push(b'%');
                continue;
            }
            count += 1;
            let bytes = if long || b"spfFeEgGaA".contains(&conversion) { 8 } else { 4 };
            let bits = self.number(lane, &mut values, bytes)?;
            let bits = match short {
                1 => bits & 0xffff,
                2 => bits & 0xff,
                _ => bits,
            };
            match conversion {
                b'd' | b'i' => {
                    let shift = [64 - 8 * bytes as u32, 48, 56][short.min(2)];
                    let value = (bits << shift).cast_signed() >> shift;
                    field.integer(&mut text, value < 0, value.unsigned_abs().to_string(), true);
                }
                b'u' => field.integer(&mut text, false, bits.to_string(), false),
                b'x' => field.integer(&mut text, false, field.prefixed("0x", format!("{bits:x}"), bits), false),
                b'X' => field.integer(&mut text, false, field.prefixed("0X", format!("{bits:X}"), bits), false),
                b'o' => field.integer(&mut text, false, field.prefixed("0", format!("{bits:o}"), bits), false),
                b'p' => field.integer(&mut text, false, format!("0x{bits:x}"), false),
                b'c' => field.pad(&mut text, &[bits as u8]),
                b's' => {
                    // A text of that many bytes need not have an end.
                    let value = self.text(lane, bits, field.precision.unwrap_or(TEXT_LIMIT))?;
                    field.pad(&mut text, &value);
                }
                b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                    field.real(&mut text, f64::from_bits(bits), conversion);
                }
                _ => return Err(bad()),
            }
        }
        Ok((text, count))
    }
}

/// How a value is written.
#[derive(Clone, Copy, Default)]
struct Field {
    left: bool,
    plus: bool,
    space: bool,
    zeros: bool,
    alternative: bool,
    width: usize,
    precision: Option<usize>,
}

impl Field {
    fn flag(&mut self, flag: u8) {
        match flag {
            b'-' => self.left = true,
            b'+' => self.plus = true,
            b' ' => self.space = true,
            b'0' => self.zeros = true,
            _ => self.alternative = true,
        }
    }

    fn prefixed(&self, prefix: &str, digits: String, bits: u64) -> String {
        if self.alternative && bits != 0 { format!("{prefix}{digits}") } else { digits }
    }

    fn pad(&self, text: &mut Vec<u8>, value: &[u8]) {
        let missing = self.width.saturating_sub(value.len());
        if !self.left {
            text.extend(std::iter::repeat_n(b' ', missing));
        }
        text.extend(value);
        if self.left {
            text.extend(std::iter::repeat_n(b' ', missing));
        }
    }

    fn sign(&self, negative: bool, signed: bool) -> &'static str {
        match (negative, signed && self.plus, signed && self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, text: &mut Vec<u8>, negative: bool, digits: String, signed: bool) {
        let sign = self.sign(negative, signed);
        let least = match self.precision {
            Some(precision) => precision,
            None if self.zeros && !self.left => self.width.saturating_sub(sign.len()),
            None => 1,
        };
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        self.pad(text, format!("{sign}{zeros}{digits}").as_bytes());
    }

    fn real(&self, text: &mut Vec<u8>, value: f64, conversion: u8) {
        let upper = conversion.is_ascii_uppercase();
        let magnitude = value.abs();
        let precision = self.precision.unwrap_or(6);
        let mut digits = match conversion.to_ascii_lowercase() {
            _ if !value.is_finite() => if value.is_nan() { "nan" } else { "inf" }.to_owned(),
            b'f' => format!("{magnitude:.precision$}"),
            b'e' => exponential(magnitude, precision),
            b'g' => general(magnitude, precision.max(1), self.alternative),
            _ => hexadecimal(magnitude),
        };
        if upper {
            digits.make_ascii_uppercase();
        }
        let sign = self.sign(value.is_sign_negative() && !value.is_nan(), true);
        if self.zeros && !self.left && value.is_finite() {
            let zeros = "0".repeat(self.width.saturating_sub(digits.len() + sign.len()));
            digits.insert_str(0, &zeros);
        }
        self.pad(text, format!("{sign}{digits}").as_bytes());
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

/// `0x1.8p+1`.
fn hexadecimal(value: f64) -> String {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = (bits >> 52) as i32;
    let mut text = String::from(if exponent == 0 { "0x0" } else { "0x1" });
    if fraction != 0 {
        let digits = format!("{fraction:013x}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    let power = if bits == 0 { 0 } else { exponent.max(1) - 1023 };
    let _ = write!(text, "p{power:+}");
    text
}
