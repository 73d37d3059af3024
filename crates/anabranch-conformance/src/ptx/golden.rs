//! Kernels that are written in CUDA C++.
//!
//! Those of floats that use approximations are compared with a tolerance: 2^-20 of a result in single precision, which is
//! several times what the manual allows `ex2.approx`, `rsqrt.approx` and `rcp.approx` (2^-22) in the sums they are part of.
//! In double precision, approximations only start an iteration, so that the last bits may differ.

mod cases;
mod model;
mod table;

pub(crate) use cases::CASES;

use super::element::Element;
use super::subject::{Argument, Family, Output, Subject, Text};
use crate::programs::Numbers;
use table::TABLE;

/// What tells the numbers of this family from others.
const FAMILY: u64 = 43;

const INTEGERS: &str = include_str!("golden/integers.ptx");
const COOPERATIVE: &str = include_str!("golden/cooperative.ptx");
const REALS: &str = include_str!("golden/reals.ptx");

/// A kernel, with its launch.
pub(super) struct Golden {
    name: &'static str,
    module: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    arguments: fn(&mut Given),
}

/// The arguments of a kernel.
pub(super) struct Given {
    numbers: Numbers,
    arguments: Vec<Argument>,
    outputs: Vec<Output>,
}

impl Given {
    /// Memory that is read.
    fn input<T: bytemuck::NoUninit>(&mut self, values: &[T]) {
        self.arguments.push(Argument::Memory(bytemuck::cast_slice(values).to_vec()));
    }

    /// Memory that is written, with these contents before.
    fn output<T: bytemuck::NoUninit>(&mut self, values: &[T], element: Element) {
        let label = format!("argument {}", self.arguments.len());
        let range = 0..size_of_val(values);
        self.outputs.push(Output { label, argument: self.arguments.len(), range, element, keeps: true });
        self.input(values);
    }

    /// Memory of zeros that is written.
    fn zeros(&mut self, count: usize, element: Element) {
        self.output(&vec![0u8; count * element.bytes], element);
    }

    fn value<T: bytemuck::NoUninit>(&mut self, value: T) {
        self.arguments.push(Argument::Value(bytemuck::bytes_of(&value).to_vec()));
    }

    /// Random words, each below this.
    fn words(&mut self, count: usize, below: usize) -> Vec<u32> {
        (0..count).map(|_| self.numbers.below(below) as u32).collect()
    }

    fn bits32(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.numbers.bits() as u32).collect()
    }

    fn bits64(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.numbers.bits()).collect()
    }

    fn bytes(&mut self, count: usize, below: usize) -> Vec<u8> {
        (0..count).map(|_| self.numbers.below(below) as u8).collect()
    }

    /// Random numbers from -4 to 4.
    fn doubles(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| (self.numbers.bits() >> 11) as f64 / (1u64 << 50) as f64 - 4.0).collect()
    }

    fn singles(&mut self, count: usize) -> Vec<f32> {
        self.doubles(count).into_iter().map(|value| value as f32).collect()
    }
}

/// How many there are.
pub(super) fn count() -> usize {
    TABLE.len()
}

/// The kernel of that number.
pub(super) fn subject(number: usize) -> Option<Subject> {
    let golden = TABLE.get(number)?;
    let name = golden.name.bytes().fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let mut given = Given { numbers: Numbers::new(FAMILY, name), arguments: Vec::new(), outputs: Vec::new() };
    (golden.arguments)(&mut given);
    Some(Subject {
        family: Family::Golden,
        seed: number as u64,
        name: Some(golden.name),
        text: Text::Module(golden.module),
        entry: golden.name.to_owned(),
        grid: golden.grid,
        block: golden.block,
        shared: golden.shared,
        arguments: given.arguments,
        outputs: given.outputs,
    })
}
