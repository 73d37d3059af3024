//! From tokens to statements.
//!
//! Limits, so that no text takes more memory or stack than it should: [`TEXT_LIMIT`] bytes of text, [`NESTING_LIMIT`]
//! braces and parentheses within each other, and names of [`NAME_LIMIT`](crate::lex::NAME_LIMIT) bytes. What is parsed
//! takes at most about 200 bytes for each token.

mod body;
mod declare;
mod directive;
mod expression;

use crate::lex::{Lexer, Token};
use crate::position::{ParseError, Parsed, Position};
use crate::syntax::{Alias, File, Function, Linkage};
use crate::types::Space;
use directive::Carrier;

/// The longest text that is accepted, in bytes.
pub const TEXT_LIMIT: usize = 1 << 28;

/// How deep braces and parentheses may be nested.
pub const NESTING_LIMIT: u32 = 64;

/// Reads a whole text.
pub(crate) fn parse(text: &str) -> Parsed<File<'_>> {
    if text.len() > TEXT_LIMIT {
        return Err(ParseError::new(Position { line: 1, column: 1 }, format!("more than {TEXT_LIMIT} bytes of text")));
    }
    let mut parser = Parser::new(text)?;
    parser.file()
}

/// A cursor over the tokens.
pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    at: Position,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parsed<Parser<'a>> {
        let mut lexer = Lexer::new(text);
        let (token, at) = lexer.next()?;
        Ok(Parser { lexer, token, at, depth: 0 })
    }

    fn advance(&mut self) -> Parsed<Token<'a>> {
        let token = self.token;
        (self.token, self.at) = self.lexer.next()?;
        Ok(token)
    }

    fn error<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.token {
            Token::Word(word) => format!("`{word:.60}`"),
            Token::Dot(word) => format!("`.{word:.60}`"),
            Token::Integer(value) => format!("{value}"),
            Token::Single(_) | Token::Double(_) => "a floating-point number".to_owned(),
            Token::Text(_) => "a string".to_owned(),
            Token::Mark(mark) => format!("`{}`", char::from(mark)),
            Token::End => "the end of the text".to_owned(),
        };
        Err(ParseError::new(self.at, format!("{expected} was expected, and here is {found}")))
    }

    fn is(&self, mark: u8) -> bool {
        self.token == Token::Mark(mark)
    }

    fn accept(&mut self, mark: u8) -> Parsed<bool> {
        let found = self.is(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, mark: u8) -> Parsed<()> {
        if !self.accept(mark)? {
            return self.error(&format!("`{}`", char::from(mark)));
        }
        Ok(())
    }

    /// The comma before the next one of a list, or nothing before its end. No list ends with a comma.
    fn separator(&mut self, end: u8) -> Parsed<()> {
        if self.is(end) {
            return Ok(());
        }
        self.expect(b',')?;
        if self.is(end) { self.error("what follows the comma") } else { Ok(()) }
    }

    fn accept_dot(&mut self, word: &str) -> Parsed<bool> {
        let found = self.token == Token::Dot(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn word(&mut self, what: &str) -> Parsed<&'a str> {
        let Token::Word(word) = self.token else { return self.error(what) };
        self.advance()?;
        Ok(word)
    }

    fn number(&mut self, what: &str) -> Parsed<u64> {
        let Token::Integer(value) = self.token else { return self.error(what) };
        self.advance()?;
        Ok(value)
    }

    /// Runs `inside` one level deeper.
    fn nested<T>(&mut self, inside: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == NESTING_LIMIT {
            return Err(ParseError::new(
                self.at,
                format!("braces or parentheses nested more than {NESTING_LIMIT} deep"),
            ));
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn file(&mut self) -> Parsed<File<'a>> {
        let mut file = File { address_size: 64, ..File::default() };
        if !self.accept_dot("version")? {
            return self.error("`.version`, with which PTX begins,");
        }
        file.version = self.version()?;
        if !self.accept_dot("target")? {
            return self.error("`.target`, which follows `.version`,");
        }
        file.targets.push(self.word("a target")?);
        while self.accept(b',')? {
            file.targets.push(self.word("a target")?);
        }
        let at = self.at;
        if self.accept_dot("address_size")? && self.number("64")? != 64 {
            return Err(ParseError::new(at, "addresses of another size than 64 bits, which no GPU of today has"));
        }
        while self.token != Token::End {
            self.item(&mut file)?;
        }
        Ok(file)
    }

    /// `8.0`: the lexer reads it as a fraction, whose text counts.
    fn version(&mut self) -> Parsed<(u32, u32)> {
        let at = self.at;
        let value = match self.advance()? {
            Token::Double(bits) => f64::from_bits(bits),
            _ => return Err(ParseError::new(at, "a version such as 8.0 was expected")),
        };
        let tenths = (value * 10.0).round();
        if !(10.0..1000.0).contains(&tenths) {
            return Err(ParseError::new(at, "a version such as 8.0 was expected"));
        }
        Ok((tenths as u32 / 10, tenths as u32 % 10))
    }

    fn item(&mut self, file: &mut File<'a>) -> Parsed<()> {
        let Token::Dot(directive) = self.token else {
            return self.error("a directive");
        };
        match directive {
            "file" => {
                self.advance()?;
                let at = self.at;
                let number = self.number("the number of a file")?;
                let Token::Text(name) = self.token else { return self.error("the name of a file") };
                self.advance()?;
                while self.accept(b',')? {
                    self.number("a time or a size")?;
                }
                if file.sources.insert(number, name).is_some() {
                    return Err(ParseError::new(at, format!("a second file of the number {number}")));
                }
                Ok(())
            }
            "section" => self.section(),
            "pragma" => self.skip_statement(),
            "alias" => {
                self.advance()?;
                let (at, name) = (self.at, self.word("a name")?);
                self.expect(b',')?;
                file.aliases.push(Alias { at, name, target: self.word("a function")? });
                self.expect(b';')
            }
            "loc" => self.location().map(|_| ()),
            _ => self.declaration(file),
        }
    }

    /// `.visible .entry …`, or a variable.
    fn declaration(&mut self, file: &mut File<'a>) -> Parsed<()> {
        let linkage = match self.token {
            Token::Dot("visible") => Linkage::Visible,
            Token::Dot("extern") => Linkage::Extern,
            Token::Dot("weak") => Linkage::Weak,
            Token::Dot("common") => Linkage::Common,
            _ => Linkage::Internal,
        };
        if linkage != Linkage::Internal {
            self.advance()?;
        }
        let Token::Dot(kind) = self.token else { return self.error("a directive") };
        if (kind == "entry" || kind == "func") && linkage != Linkage::Common {
            self.advance()?;
            let function = self.function(linkage, kind == "entry")?;
            file.functions.push(function);
            return Ok(());
        }
        if Space::from_name(kind).is_none() {
            return self.error("`.entry`, `.func`, or the space of a variable");
        }
        self.variables(linkage, &mut |variable| file.variables.push(variable))
    }

    fn function(&mut self, linkage: Linkage, kernel: bool) -> Parsed<Function<'a>> {
        while self.accept_dot("attribute")? {
            self.attribute()?;
        }
        let results = if !kernel && self.is(b'(') { self.parameters()? } else { Vec::new() };
        let at = self.at;
        let name = self.word("the name of a function")?;
        let parameters = if self.is(b'(') { self.parameters()? } else { Vec::new() };
        let directives = self.directives()?;
        let defined = !self.is(b';');
        let carrier = match kernel {
            true => Carrier::Kernel { defined },
            false => Carrier::Function { returns: !results.is_empty() },
        };
        directive::check(&directives, carrier)?;
        let directives = directives.into_iter().map(|directive| (directive.name, directive.numbers)).collect();
        if defined && linkage == Linkage::Extern {
            return Err(ParseError::new(at, format!("`{name:.60}` is `.extern` and has a body")));
        }
        let body = if self.accept(b';')? {
            None
        } else {
            self.expect(b'{')?;
            Some(self.nested(Self::statements)?)
        };
        Ok(Function { at, name, linkage, kernel, results, parameters, directives, body })
    }

    /// `.section .debug_info { … }`: skipped.
    fn section(&mut self) -> Parsed<()> {
        let start = self.at;
        while !self.is(b'{') {
            if self.token == Token::End {
                return self.error("`{`");
            }
            self.advance()?;
        }
        let mut depth = 0u32;
        loop {
            match self.token {
                Token::Mark(b'{') => depth += 1,
                Token::Mark(b'}') => depth -= 1,
                Token::End => return Err(ParseError::new(start, "this section has no end")),
                _ => {}
            }
            self.advance()?;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn skip_statement(&mut self) -> Parsed<()> {
        while !self.accept(b';')? {
            if self.token == Token::End {
                return self.error("`;`");
            }
            self.advance()?;
        }
        Ok(())
    }

    /// `.loc 1 11 16, function_name $L__info_string0, inlined_at 1 7 3`: the file and the line.
    fn location(&mut self) -> Parsed<(u32, u32)> {
        self.advance()?;
        let file = self.number("the number of a file")?;
        let line = self.number("a line")?;
        while let Token::Integer(_) = self.token {
            self.advance()?;
        }
        while self.accept(b',')? {
            let what = self.word("`function_name` or `inlined_at`")?;
            if what == "function_name" {
                self.word("a label")?;
                if self.accept(b'+')? {
                    self.number("an offset")?;
                }
            } else {
                while let Token::Integer(_) = self.token {
                    self.advance()?;
                }
            }
        }
        Ok((u32::try_from(file).unwrap_or(u32::MAX), u32::try_from(line).unwrap_or(u32::MAX)))
    }
}
