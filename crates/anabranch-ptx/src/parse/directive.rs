//! Directives of kernels and functions, such as `.maxntid 256, 1, 1`.

use super::Parser;
use crate::lex::Token;
use crate::position::{ParseError, Parsed, Position};
use std::collections::HashSet;

/// A directive, with its numbers.
pub(super) struct Directive<'a> {
    at: Position,
    pub(super) name: &'a str,
    pub(super) numbers: Vec<u64>,
}

/// What has directives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// A kernel, and whether it has a body.
    Kernel { defined: bool },
    /// A function or a prototype, and whether it returns something.
    Function { returns: bool },
}

/// The directives: the numbers that each may have, and whether it is one of kernels, or else of functions.
const KNOWN: &[(&str, [usize; 2], bool)] = &[
    ("maxntid", [1, 3], true),
    ("reqntid", [1, 3], true),
    ("minnctapersm", [1, 1], true),
    ("maxnreg", [1, 1], true),
    ("explicitcluster", [0, 0], true),
    ("reqnctapercluster", [1, 3], true),
    ("maxclusterrank", [1, 1], true),
    ("blocksareclusters", [0, 0], true),
    ("noreturn", [0, 0], false),
    ("abi_preserve", [1, 1], false),
    ("abi_preserve_control", [1, 1], false),
];

/// Those of which a kernel has one at most.
const EXCLUSIVE: [[&str; 2]; 2] = [["maxntid", "reqntid"], ["reqnctapercluster", "maxclusterrank"]];

impl<'a> Parser<'a> {
    /// Directives behind the parameters, with their numbers.
    pub(super) fn directives(&mut self) -> Parsed<Vec<Directive<'a>>> {
        let mut found = Vec::new();
        while let Token::Dot(name) = self.token {
            let at = self.at;
            self.advance()?;
            if name == "pragma" {
                while let Token::Text(_) = self.token {
                    self.advance()?;
                    self.accept(b',')?;
                }
                self.expect(b';')?;
                continue;
            }
            let mut numbers = Vec::new();
            if let Token::Integer(_) = self.token {
                numbers.push(self.number("a number")?);
                while self.accept(b',')? {
                    numbers.push(self.number("a number")?);
                }
            }
            found.push(Directive { at, name, numbers });
        }
        Ok(found)
    }
}

/// Checks that there are such directives, and that they do not contradict each other.
pub(super) fn check(directives: &[Directive<'_>], carrier: Carrier) -> Parsed<()> {
    let present: HashSet<&str> = directives.iter().map(|directive| directive.name).collect();
    for Directive { at, name, numbers } in directives {
        let error = |message: String| Err(ParseError::new(*at, message));
        let Some((_, [least, most], of_kernels)) = KNOWN.iter().find(|(known, ..)| known == name) else {
            return error(format!("`.{name:.60}` is no directive of kernels and functions"));
        };
        if *of_kernels != matches!(carrier, Carrier::Kernel { .. }) {
            return error(format!("`.{name}` is for {}", if *of_kernels { "kernels" } else { "functions" }));
        }
        if carrier == (Carrier::Kernel { defined: false }) {
            return error(format!("`.{name}` of a kernel that is not defined here"));
        }
        if carrier == (Carrier::Function { returns: true }) && *name == "noreturn" {
            return error("`.noreturn` of a function with results".to_owned());
        }
        if !(*least..=*most).contains(&numbers.len()) {
            return error(format!("`.{name}` with {} numbers", numbers.len()));
        }
        if numbers.iter().any(|number| *number == 0 || *number > u32::MAX.into()) && *of_kernels {
            return error(format!("`.{name}` with a number that is not between 1 and {}", u32::MAX));
        }
        let mut others = EXCLUSIVE.iter().filter(|pair| pair.contains(name)).flatten().filter(|other| *other != name);
        if let Some(other) = others.find(|other| present.contains(*other)) {
            return error(format!("both `.{name}` and `.{other}`"));
        }
    }
    Ok(())
}
