//! Statements of functions.

use super::Parser;
use super::directive::{self, Carrier};
use crate::lex::Token;
use crate::position::{ParseError, Parsed, Position};
use crate::syntax::{Instruction, Linkage, Operand, Prototype, Statement};
use crate::types::Space;

impl<'a> Parser<'a> {
    /// Statements up to the closing brace, which is read too.
    pub(super) fn statements(&mut self) -> Parsed<Vec<Statement<'a>>> {
        let mut found = Vec::new();
        while !self.accept(b'}')? {
            self.statement(&mut found)?;
        }
        Ok(found)
    }

    fn statement(&mut self, found: &mut Vec<Statement<'a>>) -> Parsed<()> {
        match self.token {
            Token::Mark(b'{') => {
                self.advance()?;
                let inside = self.nested(Self::statements)?;
                found.push(Statement::Block(inside));
            }
            Token::Mark(b'@') => {
                self.advance()?;
                let negated = self.accept(b'!')?;
                let guard = (self.word("a predicate")?, negated);
                let at = self.at;
                let opcode = self.word("an instruction")?;
                let instruction = self.instruction(opcode, at, Some(guard))?;
                found.push(instruction);
            }
            Token::Word(word) => {
                let at = self.at;
                self.advance()?;
                if self.accept(b':')? {
                    return self.labelled(at, word, found);
                }
                let instruction = self.instruction(word, at, None)?;
                found.push(instruction);
            }
            Token::Dot("loc") => {
                let (file, line) = self.location()?;
                found.push(Statement::Source { file, line });
            }
            Token::Dot("pragma") => self.skip_statement()?,
            Token::Dot("file" | "section") => return self.error("a statement of a function"),
            Token::Dot("callprototype" | "branchtargets" | "calltargets") => {
                return self.error("a label before this directive,");
            }
            Token::Dot(word) if Space::from_name(word).is_some() => {
                self.variables(Linkage::Internal, &mut |variable| found.push(Statement::Variable(Box::new(variable))))?;
            }
            Token::Dot("extern" | "visible" | "weak" | "common") => {
                return self.error("a declaration without linkage, as in all functions,");
            }
            _ => return self.error("a statement"),
        }
        Ok(())
    }

    /// What follows a label, where it belongs to the label.
    fn labelled(&mut self, at: Position, name: &'a str, found: &mut Vec<Statement<'a>>) -> Parsed<()> {
        match self.token {
            Token::Dot(directive @ ("branchtargets" | "calltargets")) => {
                self.advance()?;
                let mut names = Vec::new();
                loop {
                    names.push(self.word("a name")?);
                    if !self.accept(b',')? {
                        break;
                    }
                }
                self.expect(b';')?;
                found.push(match directive {
                    "branchtargets" => Statement::Targets(at, name, names),
                    _ => Statement::Callees(at, name, names),
                });
            }
            Token::Dot("callprototype") => {
                self.advance()?;
                let results = if self.is(b'(') { self.parameters()? } else { Vec::new() };
                if self.word("`_`")? != "_" {
                    return Err(ParseError::new(at, "a prototype has `_` in place of a name"));
                }
                let parameters = if self.is(b'(') { self.parameters()? } else { Vec::new() };
                let directives = self.directives()?;
                directive::check(&directives, Carrier::Function { returns: !results.is_empty() })?;
                self.expect(b';')?;
                found.push(Statement::Prototype(Box::new(Prototype { at, name, results, parameters })));
            }
            _ => found.push(Statement::Label(at, name)),
        }
        Ok(())
    }

    fn instruction(&mut self, opcode: &'a str, at: Position, guard: Option<(&'a str, bool)>) -> Parsed<Statement<'a>> {
        let mut modifiers = Vec::new();
        while let Token::Dot(word) = self.token {
            self.advance()?;
            modifiers.push(word);
        }
        let mut operands = Vec::new();
        while !self.accept(b';')? {
            // Only calls have lists; in parentheses elsewhere is a number.
            operands.push(if opcode == "call" && self.is(b'(') { self.list()? } else { self.operand()? });
            self.separator(b';')?;
        }
        Ok(Statement::Instruction(Box::new(Instruction { at, guard, opcode, modifiers, operands })))
    }

    fn operand(&mut self) -> Parsed<Operand<'a>> {
        let first = self.single()?;
        if self.accept(b'|')? {
            let second = self.single()?;
            return Ok(Operand::Pair(Box::new((first, second))));
        }
        Ok(first)
    }

    fn single(&mut self) -> Parsed<Operand<'a>> {
        match self.token {
            Token::Word("WARP_SZ") => Ok(Operand::Constant(self.constant()?)),
            Token::Word(word) => {
                self.advance()?;
                if word == "_" {
                    return Ok(Operand::Sink);
                }
                if let Token::Dot(part) = self.token {
                    self.advance()?;
                    return Ok(Operand::Part(word, part));
                }
                if self.accept(b'[')? {
                    let at = self.at;
                    if let Token::Word(_) = self.token {
                        return self.error("the number of an element; add to an address in a register instead");
                    }
                    let Ok(index) = u64::try_from(self.integer()?) else {
                        return Err(ParseError::new(at, "the number of an element is not negative"));
                    };
                    self.expect(b']')?;
                    return Ok(Operand::Element(word, index));
                }
                let offset = self.offset()?;
                Ok(Operand::Name(word, offset))
            }
            Token::Mark(b'!') if self.lexer.is_before_name() => {
                self.advance()?;
                Ok(Operand::Not(self.word("a predicate")?))
            }
            Token::Mark(b'[') => {
                self.advance()?;
                self.address()
            }
            Token::Mark(b'{') => {
                self.advance()?;
                Ok(Operand::Vector(self.nested(|parser| parser.operands(b'}'))?))
            }
            _ if self.at_constant() => Ok(Operand::Constant(self.constant()?)),
            _ => self.error("an operand"),
        }
    }

    /// `(a, b)`.
    fn list(&mut self) -> Parsed<Operand<'a>> {
        self.expect(b'(')?;
        Ok(Operand::List(self.nested(|parser| parser.operands(b')'))?))
    }

    fn operands(&mut self, end: u8) -> Parsed<Vec<Operand<'a>>> {
        let mut found = Vec::new();
        while !self.accept(end)? {
            found.push(self.operand()?);
            self.separator(end)?;
        }
        Ok(found)
    }

    fn address(&mut self) -> Parsed<Operand<'a>> {
        let start = self.at;
        let base = match self.token {
            Token::Word(word) => {
                self.advance()?;
                Some(word)
            }
            _ => None,
        };
        let offset = match base {
            Some(_) => self.offset()?,
            None if self.at_constant() => self.integer()?,
            None => return self.error("an address"),
        };
        if self.accept(b']')? {
            return Ok(Operand::Address(base, offset));
        }
        if !self.is(b',') {
            return self.error("`]`");
        }
        // Textures and tensors have more inside. They are not executed, so that only the end matters.
        let mut depth = 1;
        while depth > 0 {
            match self.token {
                Token::Mark(b'[') => depth += 1,
                Token::Mark(b']') => depth -= 1,
                Token::End | Token::Mark(b';') => return Err(ParseError::new(start, "this address has no end")),
                _ => {}
            }
            self.advance()?;
        }
        Ok(Operand::Complex)
    }
}
