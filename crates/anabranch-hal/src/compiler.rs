//! Compilers of kernel source, such as NVRTC. A compiler needs neither a device nor a driver.

use crate::{Absence, Failure};

/// What to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileRequest<'a> {
    /// CUDA C++.
    pub source: &'a str,
    /// The name that the source has in messages.
    pub name: &'a str,
    /// The compiler's own options, one a string.
    pub options: &'a [String],
    /// C++ names, such as those of template instances, whose mangled names are wanted.
    pub name_expressions: &'a [String],
    /// What to make.
    pub output: OutputKind,
}

/// What a compiler makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputKind {
    /// PTX text, which a driver assembles for any device that is not older.
    Ptx,
    /// Machine code for one architecture. Needs a `--gpu-architecture=sm_…` among the options.
    Binary,
}

/// What came of compiling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileOutput {
    /// The PTX text without a terminator, or the machine code.
    pub image: Vec<u8>,
    /// Warnings and remarks.
    pub log: String,
    /// The mangled name of each name expression, in order.
    pub lowered_names: Vec<String>,
}

/// A compiler of CUDA C++ or HIP C++.
pub trait Compiler: std::fmt::Debug + Send + Sync {
    /// Name and version, such as `NVRTC 13.0`. Outputs of different versions are never taken for one another.
    fn identity(&self) -> String;

    /// What tells builds of one version apart, where that can be known. Outputs of different builds are never taken for
    /// one another either.
    fn build(&self) -> Option<String> {
        None
    }

    /// The version's two numbers.
    fn version(&self) -> (u32, u32);

    /// The architectures that it makes code for, such as 90 for `sm_90`.
    fn architectures(&self) -> Result<Vec<u32>, Failure>;

    /// Compiles. On failure the failure's detail is the compiler's log.
    fn compile(&self, request: &CompileRequest<'_>) -> Result<CompileOutput, Failure>;
}

/// The compiler, or why there is none.
pub type FoundCompiler = Result<std::sync::Arc<dyn Compiler>, Absence>;
