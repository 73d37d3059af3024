//! `printf`.

use super::Hooks;
use super::field::Field;
use super::provided::{Builtin, Outcome, TEXT_LIMIT};
use super::warp::failure_of;
use crate::fault::{Detail, FaultCode};

/// How many bytes one call prints at most, but for the end of its last value.
const TOTAL_LIMIT: usize = 1 << 20;

/// What ends a conversion.
const CONVERSIONS: &[u8] = b"diuxXopcsfFeEgGaA";

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
            let begin = format.len() - left.len() - 1;
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
            let conversion = left.next().unwrap_or_default();
            if conversion == b'%' {
                text.push(b'%');
                continue;
            }
            // What is no conversion is printed as it is, as by the C library.
            if !CONVERSIONS.contains(&conversion) {
                text.extend(&format[begin..format.len() - left.len()]);
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
                    field.integer(&mut text, value < 0, value.unsigned_abs(), conversion);
                }
                b'u' | b'x' | b'X' | b'o' | b'p' => field.integer(&mut text, false, bits, conversion),
                b'c' => field.text(&mut text, &[bits as u8]),
                b's' => {
                    // A text of that many bytes need not have an end.
                    let value = match bits {
                        0 => b"(null)".to_vec(),
                        _ => self.text(lane, bits, field.precision.unwrap_or(TEXT_LIMIT))?,
                    };
                    field.text(&mut text, &value);
                }
                _ => field.real(&mut text, f64::from_bits(bits), conversion),
            }
        }
        Ok((text, count))
    }
}
