//! Constant expressions.

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

impl Parser<'_> {
    /// Whether a constant expression begins here.
    pub(super) fn at_constant(&self) -> bool {
        matches!(self.token, Token::Integer(_) | Token::Single(_) | Token::Double(_))
            || matches!(self.token, Token::Mark(b'-' | b'+' | b'~' | b'!' | b'('))
            || self.token == Token::Word("WARP_SZ")
    }

    /// A constant expression.
    pub(super) fn constant(&mut self) -> Parsed<Constant> {
        self.level(0)
    }

    /// A constant expression whose value is an integer.
    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let at = self.at;
        match self.constant()? {
            Constant::Integer(value) => Ok(value),
            _ => Err(ParseError::new(at, "an integer was expected")),
        }
    }

    fn level(&mut self, level: usize) -> Parsed<Constant> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            let at = self.at;
            let Some(operator) = self.operator(operators, level)? else { return Ok(left) };
            let right = self.level(level + 1)?;
            let (Constant::Integer(a), Constant::Integer(b)) = (left, right) else {
                return Err(ParseError::new(at, "operators are for integers"));
            };
            let truth = |value: bool| Some(i64::from(value));
            let value = match operator {
                "||" => truth(a != 0 || b != 0),
                "&&" => truth(a != 0 && b != 0),
                "|" => Some(a | b),
                "^" => Some(a ^ b),
                "&" => Some(a & b),
                "==" => truth(a == b),
                "!=" => truth(a != b),
                "<=" => truth(a <= b),
                ">=" => truth(a >= b),
                "<" => truth(a < b),
                ">" => truth(a > b),
                "<<" => Some(a.wrapping_shl(b as u32)),
                ">>" => Some(a.wrapping_shr(b as u32)),
                "+" => Some(a.wrapping_add(b)),
                "-" => Some(a.wrapping_sub(b)),
                "*" => Some(a.wrapping_mul(b)),
                "/" => a.checked_div(b),
                _ => a.checked_rem(b),
            };
            let Some(value) = value else { return Err(ParseError::new(at, "a division by zero")) };
            left = Constant::Integer(value);
        }
    }

    /// Reads the operator here if it is one of this level. Operators of one character that begin one of two are told
    /// apart by the character behind them, which the lexer knows.
    fn operator(&mut self, operators: &[&'static str], level: usize) -> Parsed<Option<&'static str>> {
        let Token::Mark(first) = self.token else { return Ok(None) };
        let second = self.lexer.following();
        let double = matches!(
            (first, second),
            (b'|', b'|') | (b'&', b'&') | (b'=', b'=') | (b'!', b'=') | (b'<', b'=' | b'<') | (b'>', b'=' | b'>')
        );
        // A single bar separates the two results of an instruction.
        if level == 2 {
            return Ok(None);
        }
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

    fn unary(&mut self) -> Parsed<Constant> {
        let at = self.at;
        match self.token {
            Token::Integer(value) => {
                self.advance()?;
                Ok(Constant::Integer(value as i64))
            }
            Token::Single(bits) => {
                self.advance()?;
                Ok(Constant::Single(bits))
            }
            Token::Double(bits) => {
                self.advance()?;
                Ok(Constant::Double(bits))
            }
            Token::Word("WARP_SZ") => {
                self.advance()?;
                Ok(Constant::Integer(32))
            }
            Token::Mark(mark @ (b'-' | b'+' | b'~' | b'!')) => {
                self.advance()?;
                let value = self.nested(Self::unary)?;
                match (mark, value) {
                    (b'-', Constant::Integer(value)) => Ok(Constant::Integer(value.wrapping_neg())),
                    (b'-', Constant::Single(bits)) => Ok(Constant::Single(bits ^ 1 << 31)),
                    (b'-', Constant::Double(bits)) => Ok(Constant::Double(bits ^ 1 << 63)),
                    (b'+', value) => Ok(value),
                    (b'~', Constant::Integer(value)) => Ok(Constant::Integer(!value)),
                    (b'!', Constant::Integer(value)) => Ok(Constant::Integer(i64::from(value == 0))),
                    _ => Err(ParseError::new(at, "this operator is for integers")),
                }
            }
            Token::Mark(b'(') => {
                self.advance()?;
                // A cast: `(.s64)` and `(.u64)` change nothing here.
                if let Token::Dot("s64" | "u64") = self.token {
                    self.advance()?;
                    self.expect(b')')?;
                    return self.nested(Self::unary);
                }
                let value = self.nested(Self::constant)?;
                self.expect(b')')?;
                Ok(value)
            }
            _ => self.error("a number"),
        }
    }
}
