//! PTX for processors: kernels of CUDA with no GPU.
//!
//! [`Module::parse`] reads PTX text as NVRTC, nvcc and Rust's nvptx target write it, of the versions 6.0 to 9.x.
//! [`Program::link`] gives its variables addresses. A [`Launch`] is a kernel with its sizes and parameters, and a
//! [`BlockRun`] runs blocks of it, on the thread that has it.
//!
//! The 32 lanes of a warp advance together: a register is a plane of 32 values, and an operation is a function whose loop
//! over a plane the compiler has turned into vector instructions, for each generation of them that the processor may have.
//! Where lanes diverge, each part of the warp runs with a mask, and parts join where they meet; every part makes progress.
//!
//! `docs/ptx.md` of the repository lists the instructions with what is supported of each, made by [`instructions`].

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

mod position;
mod types;

mod lex;
mod syntax;

mod parse;

mod fault;
mod float;
mod memory;

mod machine;
mod ops;

mod lower;

mod module;
mod program;

mod execute;

pub use execute::{
    BlockRun, CLUSTER_LIMIT, CheckedAccess, Hooks, Launch, LaunchError, NoHooks, Options, PROVIDED_FUNCTIONS, Progress,
    SHARED_LIMIT, Size, THREAD_LIMIT,
};
pub use fault::{Detail, Fault, FaultCode};
pub use lower::Refusal;
pub use machine::{LOCAL_WINDOW, Level, PARAMETER_WINDOW, SHARED_WINDOW, detect};
pub use memory::{Access, AccessKind, DirectMemory, GlobalMemory, Region};
pub use module::{
    CONSTANT_LIMIT, Function, INITIAL_LIMIT, Module, Parameter, STATIC_SHARED_LIMIT, VARIABLE_LIMIT, Variable,
};
pub use parse::{NESTING_LIMIT, TEXT_LIMIT};
pub use position::{ParseError, Position};
pub use program::Program;
pub use syntax::Linkage;
pub use types::{Scalar, Space};

/// An instruction of PTX.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Instruction {
    /// Its name, before the first dot.
    pub name: &'static str,
    /// The forms that are executed, in the notation of the PTX ISA without the name, separated by commas; or why none is.
    ///
    /// What comes before a space belongs to the name and comes first. Types are in the order of the form, other modifiers in
    /// any order, and those in braces may be left out. [`modifier_sets`] has what names such as `.rnd` stand for.
    pub support: Result<&'static str, &'static str>,
    /// What the forms do not say, as Markdown.
    pub note: &'static str,
}

/// All instructions, in the order of their names.
pub fn instructions() -> impl Iterator<Item = Instruction> {
    lower::table::TABLE.iter().map(|entry| Instruction {
        name: entry.name,
        support: entry.lower.map(|_| entry.forms),
        note: entry.note,
    })
}

/// Names in forms that stand for one of several modifiers, with these modifiers.
pub fn modifier_sets() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    lower::forms::SETS.iter().copied()
}
