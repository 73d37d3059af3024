//! Kernels composed of many instructions.
//!
//! The registers are in pools by size. A step is a form of the sweeps whose operands are registers of the pools, or one of the
//! forms that only make sense among others: calls, exchanges, sums of all threads, lanes that work together in a part of their
//! warp. Steps are alone, guarded by a predicate, in branches, loops and switches, also in each other.
//!
//! A result is written to an output right after its step. Before that it is *settled*, so that everything that reads it later
//! reads the same on every device (see [`settle`](settle::settled)).

mod compose;
mod functions;
mod render;
mod settle;
mod together;

use super::operand;
use super::subject::Subject;
use crate::programs::Numbers;
use compose::Composer;
pub(super) use render::{EVENT, EVENTS, Style};
use std::collections::BTreeSet;

/// What tells the numbers of this family from others.
const FAMILY: u64 = 71;
/// Steps of a kernel.
const STEPS: usize = 40;
/// Registers of each pool.
const POOL: usize = 6;
/// Bytes of shared memory of each thread, and of its own global memory.
const OWN: usize = 32;

/// The pools, by the letter of what they have.
const POOLS: [(char, &str, &str); 5] =
    [('h', "b16", "h"), ('w', "b32", "r"), ('l', "b64", "l"), ('D', "f64", "f"), ('p', "pred", "p")];

/// The name of the pool of a letter.
fn pool(letter: char) -> &'static str {
    match (letter, operand::width(letter)) {
        ('D', _) => "f",
        (_, 1) => "p",
        (_, 16) => "h",
        (_, 32) => "r",
        _ => "l",
    }
}

/// Instructions that give a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The number of its output.
    pub(super) id: usize,
    text: String,
    /// What makes the result the same for every reader.
    settled: String,
    pub(super) result: String,
    /// The registers that are read, with the guard, and the result if it may stay what it was.
    pub(super) operands: Vec<String>,
    pub(super) label: String,
}

/// A part of the text of a kernel.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Step(Step),
    /// Control flow around steps.
    Flow(String),
}

/// A kernel, as the statements it is composed of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    seed: u64,
    block: u32,
    blocks: u32,
    functions: String,
    /// The pieces, with the number of the statement they belong to. Where all pieces of a statement are left out, the others
    /// still make a kernel.
    pieces: Vec<(usize, Piece)>,
    /// The initial values of the registers.
    inputs: Vec<u8>,
    /// The operations of all threads on places that they share.
    sums: Vec<together::Sum>,
}

impl Program {
    pub(super) fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(FAMILY, seed);
        let (block, blocks) = (numbers.one_of([32u32, 64, 96, 128]), numbers.one_of([1u32, 2, 3]));
        let mut composer = Composer::new(numbers, seed, block);
        composer.compose();
        let functions = functions::text(seed, composer.numbers());
        let inputs = render::inputs((block * blocks) as usize, composer.numbers());
        let (pieces, sums) = composer.finish();
        Self { seed, block, blocks, functions, pieces, inputs, sums }
    }

    pub(super) fn threads(&self) -> usize {
        (self.block * self.blocks) as usize
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.pieces.iter().filter_map(|(_, piece)| match piece {
            Piece::Step(step) => Some(step),
            Piece::Flow(_) => None,
        })
    }

    /// The number of the statement that a step is in.
    pub(super) fn statement(&self, id: usize) -> usize {
        let is_it = |piece: &Piece| matches!(piece, Piece::Step(step) if step.id == id);
        self.pieces.iter().find(|(_, piece)| is_it(piece)).map_or(0, |&(statement, _)| statement)
    }

    /// The same with these steps alone, and the control flow of the statements they are in.
    pub(super) fn keep(&self, steps: &BTreeSet<usize>) -> Self {
        let statements: BTreeSet<usize> = steps.iter().map(|&id| self.statement(id)).collect();
        let is_kept = |statement: &usize, piece: &Piece| match piece {
            Piece::Step(step) => steps.contains(&step.id),
            Piece::Flow(_) => statements.contains(statement),
        };
        let pieces = self.pieces.iter().filter(|(statement, piece)| is_kept(statement, piece)).cloned().collect();
        Self { pieces, ..self.clone() }
    }

    /// A step without the control flow around it, for which registers have these values.
    pub(super) fn alone(&self, id: usize, values: &[(String, Vec<u64>)]) -> Self {
        let is_it = |piece: &Piece| matches!(piece, Piece::Step(step) if step.id == id);
        let pieces = self.pieces.iter().filter(|(_, piece)| is_it(piece)).cloned().collect();
        let mut alone = Self { pieces, ..self.clone() };
        for (register, values) in values {
            render::set(&mut alone.inputs, register, values);
        }
        alone
    }
}

pub(super) fn subject(seed: u64) -> Subject {
    Program::new(seed).subject(Style::Outputs)
}
