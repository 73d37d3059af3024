//! Constant expressions, with the types that PTX gives them: integers of 64 bits with and without signs, and floats of 64 bits.

use super::Parser;
use crate::lex::Token;
use crate::position::{ParseError, Parsed};
use crate::syntax::Constant;

/// The operators, from those that bind least. Each level has those of two characters first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// A number within an expression. PTX has integers with signs and without, and the operators depend on which they have.
#[derive(Clone, Copy)]
enum Number {
    Signed(i64),
    Unsigned(u64),
    /// The bits of a float of 32 bits, which only stands alone.
    Single(u32),
    Double(f64),
}

impl Number {
    fn constant(self) -> Constant {
        match self {
            Number::Signed(value) => Constant::Integer(value),
            Number::Unsigned(value) => Constant::Integer(value.cast_signed()),
            Number::Single(bits) => Constant::Single(bits),
            Number::Double(value) => Constant::Double(value.to_bits()),
        }
    }

    /// The bits of an integer.
    fn bits(self) -> Option<u64> {
        match self {
            Number::Signed(value) => Some(value.cast_unsigned()),
            Number::Unsigned(value) => Some(value),
            Number::Single(_) | Number::Double(_) => None,
        }
    }

    fn truth(holds: bool) -> Number {
        Number::Signed(holds.into())
    }
}

impl Parser<'_> {
    /// Whether a constant expression begins here.
    pub(super) fn at_constant(&self) -> bool {
        matches!(self.token, Token::Integer(_) | Token::Single(_) | Token::Double(_))
            || matches!(self.token, Token::Mark(b'-' | b'+' | b'~' | b'!' | b'('))
            || self.token == Token::Word("WARP_SZ")
            || matches!(self.token, Token::Dot(word) if word.starts_with(|first: char| first.is_ascii_digit()))
    }

    /// A constant expression.
    pub(super) fn constant(&mut self) -> Parsed<Constant> {
        Ok(self.conditional()?.constant())
    }

    /// A constant expression whose value is an integer.
    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let at = self.at;
        match self.constant()? {
            Constant::Integer(value) => Ok(value),
            _ => Err(ParseError::new(at, "an integer was expected")),
        }
    }

    fn conditional(&mut self) -> Parsed<Number> {
        let at = self.at;
        let condition = self.level(0)?;
        if !self.accept(b'?')? {
            return Ok(condition);
        }
        let Some(condition) = condition.bits() else {
            return Err(ParseError::new(at, "a condition is an integer"));
        };
        let first = self.nested(Self::conditional)?;
        self.expect(b':')?;
        let second = self.nested(Self::conditional)?;
        // With its own type, whatever the other is.
        Ok(if condition != 0 { first } else { second })
    }

    fn level(&mut self, level: usize) -> Parsed<Number> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            let at = self.at;
            let Some(operator) = self.operator(operators)? else { return Ok(left) };
            let right = self.level(level + 1)?;
            let value = match (left, right) {
                (Number::Double(a), Number::Double(b)) => {
                    of_doubles(operator, a, b).ok_or_else(|| format!("the operator {operator} is for integers"))
                }
                (Number::Signed(a), Number::Signed(b)) => of_signed(operator, a, b),
                _ => match (left.bits(), right.bits()) {
                    // The second operand of a shift does not change what the first one is.
                    (Some(_), Some(b)) if matches!(left, Number::Signed(_)) && matches!(operator, "<<" | ">>") => {
                        let Number::Signed(a) = left else { return Ok(left) };
                        of_signed(operator, a, b.cast_signed())
                    }
                    (Some(a), Some(b)) => of_unsigned(operator, a, b),
                    _ => Err("operators are for two integers or two numbers with fractions, not for 0f".to_owned()),
                },
            };
            left = value.map_err(|message| ParseError::new(at, message))?;
        }
    }

    /// Reads the operator here if it is one of this level. Operators of one character that begin one of two are told
    /// apart by the character behind them, which the lexer knows.
    fn operator(&mut self, operators: &[&'static str]) -> Parsed<Option<&'static str>> {
        let first = match self.token {
            Token::Mark(first) => first,
            // With a space behind it: `%4` is a register, to assemblers too.
            Token::Word("%") => b'%',
            _ => return Ok(None),
        };
        let second = self.lexer.following();
        let double = matches!(
            (first, second),
            (b'|', b'|') | (b'&', b'&') | (b'=', b'=') | (b'!', b'=') | (b'<', b'=' | b'<') | (b'>', b'=' | b'>')
        );
        let found = operators.iter().find(|operator| match operator.as_bytes() {
            [only] => *only == first && !double,
            both => double && *both == [first, second],
        });
        if found.is_some() {
            self.advance()?;
            if double {
                self.advance()?;
            }
        }
        Ok(found.copied())
    }

    /// Whether a cast goes on here, behind its parenthesis.
    fn at_cast(&self) -> bool {
        matches!(self.token, Token::Dot("s64" | "u64"))
    }

    /// `(.s64)`, `(.u64)`: the parenthesis has been read.
    fn cast(&mut self) -> Parsed<Number> {
        let at = self.at;
        let signed = self.advance()? == Token::Dot("s64");
        self.expect(b')')?;
        match self.nested(Self::unary)?.bits() {
            Some(bits) if signed => Ok(Number::Signed(bits.cast_signed())),
            Some(bits) => Ok(Number::Unsigned(bits)),
            None => Err(ParseError::new(at, "casts are for integers")),
        }
    }

    fn unary(&mut self) -> Parsed<Number> {
        let at = self.at;
        match self.token {
            Token::Integer(value) => {
                let unsigned = self.lexer.is_unsigned();
                self.advance()?;
                Ok(match i64::try_from(value) {
                    Ok(value) if !unsigned => Number::Signed(value),
                    _ => Number::Unsigned(value),
                })
            }
            Token::Single(bits) => {
                self.advance()?;
                Ok(Number::Single(bits))
            }
            Token::Double(bits) => {
                self.advance()?;
                Ok(Number::Double(f64::from_bits(bits)))
            }
            // `.5`: a dot and a word elsewhere.
            Token::Dot(word) if word.starts_with(|first: char| first.is_ascii_digit()) => {
                self.advance()?;
                match format!("0.{word}").parse() {
                    Ok(value) => Ok(Number::Double(value)),
                    Err(_) => Err(ParseError::new(at, format!("`.{word:.60}` is no number"))),
                }
            }
            Token::Word("WARP_SZ") => {
                self.advance()?;
                Ok(Number::Signed(32))
            }
            Token::Mark(mark @ (b'-' | b'+' | b'~' | b'!')) => {
                self.advance()?;
                let value = self.nested(Self::unary)?;
                match (mark, value) {
                    (b'-', Number::Signed(value)) => Ok(Number::Signed(value.wrapping_neg())),
                    (b'-', Number::Unsigned(value)) => Ok(Number::Unsigned(value.wrapping_neg())),
                    (b'-', Number::Single(bits)) => Ok(Number::Single(bits ^ 1 << 31)),
                    (b'-', Number::Double(value)) => Ok(Number::Double(-value)),
                    (b'+', value) => Ok(value),
                    (mark, value) => match (mark, value.bits()) {
                        (b'~', Some(bits)) => Ok(Number::Unsigned(!bits)),
                        (b'!', Some(bits)) => Ok(Number::truth(bits == 0)),
                        _ => Err(ParseError::new(at, "this operator is for integers")),
                    },
                }
            }
            Token::Mark(b'(') => {
                self.advance()?;
                if self.at_cast() {
                    return self.cast();
                }
                let value = self.nested(Self::conditional)?;
                self.expect(b')')?;
                Ok(value)
            }
            _ => self.error("a number"),
        }
    }
}

/// What an operator makes of integers with signs. The result of `%` has none. That of bitwise operators has one, which NVIDIA's
/// assembler has otherwise than its manual.
fn of_signed(operator: &str, a: i64, b: i64) -> Result<Number, String> {
    Ok(match operator {
        "<" => Number::truth(a < b),
        ">" => Number::truth(a > b),
        "<=" => Number::truth(a <= b),
        ">=" => Number::truth(a >= b),
        "<<" => Number::Signed(u32::try_from(b).ok().and_then(|by| a.checked_shl(by)).unwrap_or(0)),
        ">>" => Number::Signed(a >> b.cast_unsigned().min(63)),
        "+" => Number::Signed(a.wrapping_add(b)),
        "-" => Number::Signed(a.wrapping_sub(b)),
        "*" => Number::Signed(a.wrapping_mul(b)),
        "/" if b == 0 => return Err("a division by zero".to_owned()),
        "/" => Number::Signed(a.wrapping_div(b)),
        "|" => Number::Signed(a | b),
        "^" => Number::Signed(a ^ b),
        "&" => Number::Signed(a & b),
        _ => return of_unsigned(operator, a.cast_unsigned(), b.cast_unsigned()),
    })
}

/// What an operator makes of integers of which one at least has no sign.
fn of_unsigned(operator: &str, a: u64, b: u64) -> Result<Number, String> {
    let by = u32::try_from(b).ok();
    Ok(match operator {
        "||" => Number::truth(a != 0 || b != 0),
        "&&" => Number::truth(a != 0 && b != 0),
        "==" => Number::truth(a == b),
        "!=" => Number::truth(a != b),
        "<=" => Number::truth(a <= b),
        ">=" => Number::truth(a >= b),
        "<" => Number::truth(a < b),
        ">" => Number::truth(a > b),
        "|" => Number::Unsigned(a | b),
        "^" => Number::Unsigned(a ^ b),
        "&" => Number::Unsigned(a & b),
        "<<" => Number::Unsigned(by.and_then(|by| a.checked_shl(by)).unwrap_or(0)),
        ">>" => Number::Unsigned(by.and_then(|by| a.checked_shr(by)).unwrap_or(0)),
        "+" => Number::Unsigned(a.wrapping_add(b)),
        "-" => Number::Unsigned(a.wrapping_sub(b)),
        "*" => Number::Unsigned(a.wrapping_mul(b)),
        _ if b == 0 => return Err("a division by zero".to_owned()),
        "/" => Number::Unsigned(a / b),
        _ => Number::Unsigned(a % b),
    })
}

/// What an operator makes of numbers with fractions.
fn of_doubles(operator: &str, a: f64, b: f64) -> Option<Number> {
    Some(match operator {
        "==" => Number::truth(a == b),
        "!=" => Number::truth(a != b),
        "<=" => Number::truth(a <= b),
        ">=" => Number::truth(a >= b),
        "<" => Number::truth(a < b),
        ">" => Number::truth(a > b),
        "+" => Number::Double(a + b),
        "-" => Number::Double(a - b),
        "*" => Number::Double(a * b),
        "/" => Number::Double(a / b),
        _ => return None,
    })
}
