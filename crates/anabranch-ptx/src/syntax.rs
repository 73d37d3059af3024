//! The statements of PTX text, as they are written: nothing is looked up yet, and names are parts of the text.

use std::collections::HashMap;

use crate::position::Position;
use crate::types::{Scalar, Space};

/// A whole text.
#[derive(Debug, Default)]
pub(crate) struct File<'a> {
    pub(crate) version: (u32, u32),
    pub(crate) targets: Vec<&'a str>,
    pub(crate) address_size: u32,
    /// Files of `.file`, by their number.
    pub(crate) sources: HashMap<u64, &'a str>,
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
    pub(crate) aliases: Vec<Alias<'a>>,
}

/// `.alias`: another name of a function.
#[derive(Debug)]
pub(crate) struct Alias<'a> {
    pub(crate) at: Position,
    pub(crate) name: &'a str,
    /// The function that it names.
    pub(crate) target: &'a str,
}

/// How a name is seen by other modules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum Linkage {
    #[default]
    Internal,
    Visible,
    Extern,
    Weak,
    Common,
}

/// A function or a kernel. Without a body, it is a declaration.
#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub(crate) at: Position,
    pub(crate) name: &'a str,
    pub(crate) linkage: Linkage,
    pub(crate) kernel: bool,
    pub(crate) results: Vec<Variable<'a>>,
    pub(crate) parameters: Vec<Variable<'a>>,
    /// Performance directives and the like, with their numbers.
    pub(crate) directives: Vec<(&'a str, Vec<u64>)>,
    pub(crate) body: Option<Vec<Statement<'a>>>,
}

/// A variable of any space, registers included.
#[derive(Debug, Clone)]
pub(crate) struct Variable<'a> {
    pub(crate) at: Position,
    pub(crate) space: Space,
    pub(crate) linkage: Linkage,
    pub(crate) alignment: Option<u32>,
    pub(crate) vector: u32,
    pub(crate) scalar: Scalar,
    pub(crate) name: &'a str,
    /// `%r<10>` declares `%r0` to `%r9`.
    pub(crate) count: Option<u64>,
    /// The numbers in brackets. `[]` is 0.
    pub(crate) dimensions: Vec<u64>,
    pub(crate) initial: Option<Initial<'a>>,
    /// `.ptr` of a parameter: the space, if one was named, and the alignment.
    pub(crate) pointer: Option<(Option<Space>, Option<u32>)>,
}

/// What a variable contains at first.
#[derive(Debug, Clone)]
pub(crate) enum Initial<'a> {
    Constant(Constant),
    /// The address of a variable or a function, as a generic address or as one of its space. The bits of `mask` are
    /// used, shifted to the lowest.
    Address {
        at: Position,
        name: &'a str,
        generic: bool,
        offset: i64,
        mask: u64,
    },
    List(Vec<Initial<'a>>),
}

/// A number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Constant {
    Integer(i64),
    Single(u32),
    Double(u64),
}

/// A statement of a function.
#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Label(Position, &'a str),
    Instruction(Box<Instruction<'a>>),
    Variable(Box<Variable<'a>>),
    /// `.loc`: what follows is from this line of a file.
    Source {
        file: u32,
        line: u32,
    },
    /// `{ … }`: names declared inside exist only there.
    Block(Vec<Statement<'a>>),
    /// `.branchtargets`, with the label before it.
    Targets(Position, &'a str, Vec<&'a str>),
    /// `.calltargets`, with the label before it.
    Callees(Position, &'a str, Vec<&'a str>),
    /// `.callprototype`, with the label before it.
    Prototype(Box<Prototype<'a>>),
}

/// What functions take and return that are called indirectly.
#[derive(Debug)]
pub(crate) struct Prototype<'a> {
    pub(crate) at: Position,
    pub(crate) name: &'a str,
    pub(crate) results: Vec<Variable<'a>>,
    pub(crate) parameters: Vec<Variable<'a>>,
}

/// An instruction.
#[derive(Debug)]
pub(crate) struct Instruction<'a> {
    pub(crate) at: Position,
    /// `@%p` or `@!%p`: the predicate, and whether it is negated.
    pub(crate) guard: Option<(&'a str, bool)>,
    pub(crate) opcode: &'a str,
    pub(crate) modifiers: Vec<&'a str>,
    pub(crate) operands: Vec<Operand<'a>>,
}

/// An operand.
#[derive(Debug, Clone)]
pub(crate) enum Operand<'a> {
    /// A register, a variable, a label or a function, plus a number of bytes.
    Name(&'a str, i64),
    /// `%tid.x`: a register and a part of it.
    Part(&'a str, &'a str),
    Constant(Constant),
    /// `a[3]`: an element of an array, counted from 0.
    Element(&'a str, u64),
    /// `[base+offset]`. With no base it is an absolute address.
    Address(Option<&'a str>, i64),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `a|b`.
    Pair(Box<(Operand<'a>, Operand<'a>)>),
    /// `!p`, or `-a`.
    Not(&'a str),
    /// `_`: the result is not wanted.
    Sink,
    /// `(a, b)`: of calls.
    List(Vec<Operand<'a>>),
    /// `[a, {b, c}]`: of textures and tensors, and so of instructions that are refused.
    Complex,
}

impl Operand<'_> {
    /// Whether it names a register, or has an operand that does.
    pub(crate) fn names(&self, register: &str) -> bool {
        match self {
            Operand::Name(name, _) | Operand::Not(name) => *name == register,
            Operand::Vector(operands) | Operand::List(operands) => {
                operands.iter().any(|operand| operand.names(register))
            }
            Operand::Pair(both) => both.0.names(register) || both.1.names(register),
            _ => false,
        }
    }
}
