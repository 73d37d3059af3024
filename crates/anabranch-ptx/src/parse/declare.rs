//! Variables, registers and parameters.

use super::Parser;
use crate::lex::Token;
use crate::position::{ParseError, Parsed};
use crate::syntax::{Initial, Linkage, Variable};
use crate::types::{Scalar, Space};

/// Checks that there are such variables.
fn check(variable: &Variable<'_>) -> Parsed<()> {
    let is_register = variable.space == Space::Register;
    let is_one = variable.dimensions.is_empty() && variable.vector == 1;
    let what = if variable.scalar == Scalar::Pred && !(is_register && is_one) {
        "a predicate that is no single register"
    } else if is_register && !variable.dimensions.is_empty() {
        "an array of registers"
    } else if variable.count.is_some() && !is_register {
        "a number of variables that are no registers"
    } else if variable.scalar.bytes() * variable.vector > 16 && variable.vector > 1 {
        "a vector of more than 128 bits"
    } else {
        return Ok(());
    };
    Err(ParseError::new(variable.at, format!("`{:.60}` is {what}", variable.name)))
}

impl<'a> Parser<'a> {
    /// `(.param .b32 a, .param .b64 b)`.
    pub(super) fn parameters(&mut self) -> Parsed<Vec<Variable<'a>>> {
        self.expect(b'(')?;
        let mut found = Vec::new();
        while !self.accept(b')')? {
            let variable = self.qualifiers(Linkage::Internal)?;
            found.push(self.declarator(&variable)?);
            self.separator(b')')?;
        }
        Ok(found)
    }

    /// `.global .align 4 .u32 a = 5, b[3];`
    pub(super) fn variables(&mut self, linkage: Linkage, found: &mut dyn FnMut(Variable<'a>)) -> Parsed<()> {
        let base = self.qualifiers(linkage)?;
        loop {
            let mut variable = self.declarator(&base)?;
            if self.accept(b'=')? {
                variable.initial = Some(self.initial()?);
            }
            found(variable);
            if !self.accept(b',')? {
                return self.expect(b';');
            }
        }
    }

    /// Everything before the name.
    fn qualifiers(&mut self, linkage: Linkage) -> Parsed<Variable<'a>> {
        let at = self.at;
        let mut space = None;
        let mut scalar = None;
        let mut variable = Variable {
            at,
            space: Space::Register,
            linkage,
            alignment: None,
            vector: 1,
            scalar: Scalar::B8,
            name: "",
            count: None,
            dimensions: Vec::new(),
            initial: None,
            pointer: None,
        };
        while let Token::Dot(word) = self.token {
            self.advance()?;
            match word {
                "align" => {
                    let alignment = self.alignment()?;
                    match &mut variable.pointer {
                        Some((_, of_pointer)) => *of_pointer = Some(alignment),
                        None => variable.alignment = Some(alignment),
                    }
                }
                "v2" => variable.vector = 2,
                "v4" => variable.vector = 4,
                "v8" => variable.vector = 8,
                "ptr" => variable.pointer = Some((None, None)),
                "attribute" => self.attribute()?,
                _ => {
                    if let Some(named) = Space::from_name(word) {
                        match &mut variable.pointer {
                            Some((of_pointer, _)) => *of_pointer = Some(named),
                            None if space.is_none() => space = Some(named),
                            None => return Err(ParseError::new(at, "two state spaces for one variable")),
                        }
                        if let Token::Mark(b'[') = self.token {
                            // A bank of constant memory: only one is in use since long.
                            self.advance()?;
                            self.number("the number of a bank")?;
                            self.expect(b']')?;
                        }
                    } else if let Some(named) = Scalar::from_name(word) {
                        scalar = Some(named);
                    } else {
                        return Err(ParseError::new(at, format!("`.{word:.60}` is no type and no state space")));
                    }
                }
            }
        }
        let (Some(space), Some(scalar)) = (space, scalar) else { return self.error("a state space and a type") };
        variable.space = space;
        variable.scalar = scalar;
        Ok(variable)
    }

    /// What is behind `.attribute`: `(.managed)`, or `(.unified(19, 95))`.
    pub(super) fn attribute(&mut self) -> Parsed<()> {
        self.expect(b'(')?;
        let mut depth = 1u32;
        while depth > 0 {
            match self.token {
                Token::End => return self.error("`)`"),
                Token::Mark(b'(') => depth += 1,
                Token::Mark(b')') => depth -= 1,
                _ => {}
            }
            self.advance()?;
        }
        Ok(())
    }

    fn alignment(&mut self) -> Parsed<u32> {
        let at = self.at;
        let value = self.number("an alignment")?;
        if !value.is_power_of_two() || value > 1 << 20 {
            return Err(ParseError::new(at, "an alignment is a power of two, up to 1048576"));
        }
        Ok(value as u32)
    }

    fn declarator(&mut self, base: &Variable<'a>) -> Parsed<Variable<'a>> {
        let mut variable = Variable { at: self.at, ..base.clone() };
        variable.name = self.word("a name")?;
        if self.accept(b'<')? {
            variable.count = Some(self.number("the number of registers")?);
            self.expect(b'>')?;
        }
        while self.accept(b'[')? {
            if variable.dimensions.len() == 8 {
                return self.error("an array of 8 dimensions at most");
            }
            let size = if self.is(b']') { 0 } else { self.number("the size of an array, or nothing,")? };
            variable.dimensions.push(size);
            self.expect(b']')?;
        }
        check(&variable)?;
        Ok(variable)
    }

    fn initial(&mut self) -> Parsed<Initial<'a>> {
        if self.accept(b'{')? {
            let mut found = Vec::new();
            while !self.accept(b'}')? {
                found.push(self.nested(Self::initial)?);
                self.separator(b'}')?;
            }
            return Ok(Initial::List(found));
        }
        if self.at_constant() {
            // `0xFF(symbol)`: a byte of an address. A number before a parenthesis is nothing else.
            let at = self.at;
            let value = self.constant()?;
            if let crate::syntax::Constant::Integer(mask) = value
                && self.accept(b'(')?
            {
                let mut address = self.nested(Self::initial)?;
                self.expect(b')')?;
                match &mut address {
                    Initial::Address { mask: all, .. } => *all = mask as u64,
                    _ => return Err(ParseError::new(at, "a mask is for addresses")),
                }
                return Ok(address);
            }
            return Ok(Initial::Constant(value));
        }
        let at = self.at;
        let mut name = self.word("a number, a name or `{`")?;
        let generic = name == "generic" && self.is(b'(');
        if generic {
            self.advance()?;
            name = self.word("the name of a variable")?;
        }
        if generic {
            self.expect(b')')?;
        }
        let offset = self.offset()?;
        Ok(Initial::Address { at, name, generic, offset, mask: u64::MAX })
    }

    /// `+4`, `+-4`, or nothing. Assemblers do not take `-4`.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        if self.accept(b'+')? { self.integer() } else { Ok(0) }
    }
}
