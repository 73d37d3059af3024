//! Tokens of PTX text.

use crate::position::{ParseError, Parsed, Position};

/// A token. Words and strings are parts of the text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Token<'a> {
    /// An identifier, with the `%`, `$` or `_` that it may begin with.
    Word(&'a str),
    /// A dot and the word after it, without the dot: `version`, `v4`, `shared::cta`.
    Dot(&'a str),
    /// An integer.
    Integer(u64),
    /// `0f3F800000`: the bits of a float of 32 bits.
    Single(u32),
    /// `0d3FF0000000000000`, or a decimal fraction: the bits of a float of 64 bits.
    Double(u64),
    /// A string, without its quotes; escapes are left as they are.
    Text(&'a str),
    /// One character of punctuation.
    Mark(u8),
    /// The end of the text.
    End,
}

/// The longest identifier that is accepted, in bytes.
pub(crate) const NAME_LIMIT: usize = 1 << 16;

/// Reads tokens from left to right.
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    /// The integer that was read last has the mark of those without signs.
    unsigned: bool,
}

fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        // Some compilers end the text with a zero byte, as C does.
        Lexer { text: text.trim_end_matches('\0'), at: 0, line: 1, line_start: 0, unsigned: false }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn position(&self) -> Position {
        let column = u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX);
        Position { line: self.line, column }
    }

    /// The byte directly after the token that was read last.
    pub(crate) fn following(&self) -> u8 {
        self.byte(0)
    }

    /// Whether the integer that was read last is marked as one without a sign: `12U`.
    pub(crate) fn is_unsigned(&self) -> bool {
        self.unsigned
    }

    /// Whether a name that begins here, perhaps behind spaces, is what comes next. A number and an operator are none.
    pub(crate) fn is_before_name(&self) -> bool {
        let rest = self.text.as_bytes()[self.at..].iter();
        let next = rest.copied().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        next.is_none_or(|byte| begins_word(byte) || matches!(byte, b'/' | b';'))
    }

    fn newline(&mut self) {
        self.line = self.line.saturating_add(1);
        self.line_start = self.at;
    }

    fn skip_space(&mut self) -> Parsed<()> {
        loop {
            match self.byte(0) {
                b'\n' => {
                    self.at += 1;
                    self.newline();
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'/' if self.byte(1) == b'/' => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                b'/' if self.byte(1) == b'*' => {
                    let start = self.position();
                    self.at += 2;
                    loop {
                        if self.at >= self.text.len() {
                            return Err(ParseError::new(start, "this comment has no end"));
                        }
                        let byte = self.byte(0);
                        self.at += 1;
                        if byte == b'\n' {
                            self.newline();
                        } else if byte == b'*' && self.byte(0) == b'/' {
                            self.at += 1;
                            break;
                        }
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    fn word(&mut self, extra: fn(u8) -> bool) -> &'a str {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|&byte| !continues_word(byte) && !extra(byte)).unwrap_or(rest.len());
        let word = &self.text[self.at..self.at + length];
        self.at += length;
        word
    }

    /// The next token, and where it begins.
    pub(crate) fn next(&mut self) -> Parsed<(Token<'a>, Position)> {
        self.skip_space()?;
        let position = self.position();
        if self.at >= self.text.len() {
            return Ok((Token::End, position));
        }
        let first = self.byte(0);
        let token = if begins_word(first) {
            let start = self.at;
            self.at += 1;
            self.word(|_| false);
            Token::Word(&self.text[start..self.at])
        } else if first.is_ascii_digit() {
            self.number(position)?
        } else if first == b'.' && continues_word(self.byte(1)) {
            self.at += 1;
            Token::Dot(self.dotted())
        } else if first == b'"' {
            self.at += 1;
            let rest = &self.text.as_bytes()[self.at..];
            let end = rest.iter().position(|&byte| byte == b'"' || byte == b'\n');
            let Some(length) = end.filter(|&end| rest[end] == b'"') else {
                return Err(ParseError::new(position, "this string has no end on its line"));
            };
            let text = &self.text[self.at..self.at + length];
            self.at += length + 1;
            Token::Text(text)
        } else if first.is_ascii_graphic() {
            self.at += 1;
            Token::Mark(first)
        } else {
            let shown = self.text[self.at..].chars().next().unwrap_or(' ');
            return Err(ParseError::new(position, format!("{shown:?} is not part of PTX")));
        };
        if let Token::Word(word) | Token::Dot(word) = token
            && word.len() > NAME_LIMIT
        {
            return Err(ParseError::new(position, format!("a name of more than {NAME_LIMIT} bytes")));
        }
        Ok((token, position))
    }

    /// The rest of a dotted word. It goes on after `::`, as in `.L2::128B`.
    fn dotted(&mut self) -> &'a str {
        let start = self.at;
        self.word(|_| false);
        while self.byte(0) == b':' && self.byte(1) == b':' && continues_word(self.byte(2)) {
            self.at += 2;
            self.word(|_| false);
        }
        &self.text[start..self.at]
    }

    fn number(&mut self, position: Position) -> Parsed<Token<'a>> {
        let error = |message: &str| Err(ParseError::new(position, message));
        let start = self.at;
        if self.byte(0) == b'0' && matches!(self.byte(1), b'f' | b'F' | b'd' | b'D') {
            self.at += 2;
            let digits = self.word(|_| false);
            let single = matches!(self.text.as_bytes()[start + 1], b'f' | b'F');
            let expected = if single { 8 } else { 16 };
            if digits.len() != expected || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return error("0f needs 8 hexadecimal digits after it, and 0d 16");
            }
            let bits = u64::from_str_radix(digits, 16).unwrap_or(0);
            return Ok(if single { Token::Single(bits as u32) } else { Token::Double(bits) });
        }
        if self.is_fraction() {
            self.word(|byte| byte == b'.');
            if matches!(self.byte(0), b'+' | b'-') && matches!(self.text.as_bytes()[self.at - 1], b'e' | b'E') {
                self.at += 1;
                self.word(|_| false);
            }
            let Ok(value) = self.text[start..self.at].parse::<f64>() else { return error("this is no number") };
            return Ok(Token::Double(value.to_bits()));
        }
        let word = self.word(|_| false);
        let digits = word.strip_suffix('U').unwrap_or(word);
        self.unsigned = digits.len() < word.len();
        let (radix, digits) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
            [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
            [b'0', _, ..] => (8, &digits[1..]),
            _ => (10, digits),
        };
        match u64::from_str_radix(digits, radix) {
            Ok(value) => Ok(Token::Integer(value)),
            Err(_) => error("this is no integer of 64 bits"),
        }
    }

    /// Whether the number here has a point or an exponent.
    fn is_fraction(&self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        match rest.get(digits) {
            Some(b'.') => rest.get(digits + 1).is_none_or(|byte| !begins_word(*byte) || matches!(byte, b'e' | b'E')),
            Some(b'e' | b'E') => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lexer, Token};

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text);
        let mut found = Vec::new();
        loop {
            match lexer.next().unwrap().0 {
                Token::End => return found,
                token => found.push(token),
            }
        }
    }

    #[test]
    fn an_instruction_is_words_dots_and_marks() {
        use Token::{Dot, Integer, Mark, Word};
        let expected = [Word("ld"), Dot("global"), Dot("L2::128B"), Dot("u32"), Word("%r1"), Mark(b','), Mark(b'[')];
        assert_eq!(tokens("ld.global.L2::128B.u32 %r1, [%rd2+-4]; // x")[..7], expected);
        assert_eq!(tokens("[%rd2+-4]")[2..4], [Mark(b'+'), Mark(b'-')]);
        assert_eq!(tokens("4;")[0], Integer(4));
    }

    #[test]
    fn numbers_have_their_bits() {
        assert_eq!(tokens("0f3F800000"), [Token::Single(0x3f80_0000)]);
        assert_eq!(tokens("0d3FF0000000000000 1.5 2e3"), [1f64, 1.5, 2e3].map(|value| Token::Double(value.to_bits())));
        assert_eq!(tokens("0x1F 017 0b101 12U"), [31, 15, 5, 12].map(Token::Integer));
    }

    #[test]
    fn errors_have_line_and_column() {
        let mut lexer = Lexer::new("a\n  \u{1}");
        lexer.next().unwrap();
        let error = lexer.next().unwrap_err();
        assert_eq!((error.position.line, error.position.column), (2, 3));
        assert!(Lexer::new("0f12").next().is_err());
        assert!(Lexer::new("99999999999999999999").next().is_err());
        assert!(Lexer::new("/* x").next().is_err());
        assert!(Lexer::new("\"x\n\"").next().is_err());
    }
}
