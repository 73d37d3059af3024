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
        let at = self.at;
        let condition = self.level(0)?;
        if !self.accept(b'?')? {
            return Ok(condition);
        }
        let Constant::Integer(condition) = condition else {
            return Err(ParseError::new(at, "a condition is an integer"));
        };
        let first = self.nested(Self::constant)?;
        self.expect(b':')?;
        let second = self.nested(Self::constant)?;
        Ok(if condition != 0 { first } else { second })
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
            let Some(operator) = self.operator(operators)? else { return Ok(left) };
            let right = self.level(level + 1)?;
            if let (Constant::Double(a), Constant::Double(b)) = (left, right) {
                left = match of_doubles(operator, f64::from_bits(a), f64::from_bits(b)) {
                    Some(value) => value,
                    None => return Err(ParseError::new(at, format!("the operator {operator} is for integers"))),
                };
                continue;
            }
            let (Constant::Integer(a), Constant::Integer(b)) = (left, right) else {
                return Err(ParseError::new(at, "operators are for two integers or two numbers with fractions"));
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
    fn operator(&mut self, operators: &[&'static str]) -> Parsed<Option<&'static str>> {
        let first = match self.token {
            Token::Mark(first) => first,
            // It may begin a name, too.
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
    pub(super) fn at_cast(&self) -> bool {
        matches!(self.token, Token::Dot("s64" | "u64"))
    }

    /// What is cast: `(.s64)` and `(.u64)` change nothing here.
    pub(super) fn cast(&mut self) -> Parsed<Constant> {
        self.advance()?;
        self.expect(b')')?;
        self.nested(Self::unary)
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
                if self.at_cast() {
                    return self.cast();
                }
                let value = self.nested(Self::constant)?;
                self.expect(b')')?;
                Ok(value)
            }
            _ => self.error("a number"),
        }
    }
}

/// What an operator makes of numbers with fractions.
fn of_doubles(operator: &str, a: f64, b: f64) -> Option<Constant> {
    let truth = |value: bool| Some(Constant::Integer(value.into()));
    let number = |value: f64| Some(Constant::Double(value.to_bits()));
    match operator {
        "==" => truth(a == b),
        "!=" => truth(a != b),
        "<=" => truth(a <= b),
        ">=" => truth(a >= b),
        "<" => truth(a < b),
        ">" => truth(a > b),
        "+" => number(a + b),
        "-" => number(a - b),
        "*" => number(a * b),
        "/" => number(a / b),
        _ => None,
    }
}
