//! Compilers of kernel source, such as NVRTC. A compiler needs neither a device nor a driver.

use crate::{Absence, Failure};

/// A request to compile a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileRequest<'a> {
    /// The source, in CUDA C++ or HIP C++.
    pub source: &'a str,
    /// The name of the source in messages of the compiler.
    pub name: &'a str,
    /// The options for the compiler, one per string.
    pub options: &'a [String],
    /// C++ names, such as those of template instances, whose mangled names the caller needs.
    pub name_expressions: &'a [String],
    /// The kind of output to produce.
    pub output: OutputKind,
}

/// The kind of output that a compiler produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputKind {
    /// PTX text. A driver assembles it for any device of the same or a newer architecture.
    Ptx,
    /// Machine code for one architecture. The options must include `--gpu-architecture=sm_…`.
    Binary,
}

/// The output of a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileOutput {
    /// The PTX text without a terminator, or the machine code.
    pub image: Vec<u8>,
    /// Warnings and remarks of the compiler.
    pub log: String,
    /// The mangled name of each name expression, in order.
    pub lowered_names: Vec<String>,
}

/// A compiler of CUDA C++ or HIP C++.
///
/// # Safety
/// [`OutputKind::Binary`] returns machine code that a driver can load: drivers do not check what is inside. The same holds for
/// what was stored earlier under the same [`identity`](Self::identity) and [`build`](Self::build), which the cache uses.
pub unsafe trait Compiler: std::fmt::Debug + Send + Sync {
    /// The name and version, such as `NVRTC 13.0`. The cache never uses the output of one version in place of
    /// another's.
    fn identity(&self) -> String;

    /// What distinguishes builds of the same version, if it is known. The cache never uses the output of one build in
    /// place of another's.
    fn build(&self) -> Option<String> {
        None
    }

    /// The major and minor version.
    fn version(&self) -> (u32, u32);

    /// The architectures that the compiler can produce code for, such as 90 for `sm_90`.
    fn architectures(&self) -> Result<Vec<u32>, Failure>;

    /// Compiles a source.
    ///
    /// # Errors
    ///
    /// The detail of the failure is the compiler's log.
    fn compile(&self, request: &CompileRequest<'_>) -> Result<CompileOutput, Failure>;
}

/// The compiler, or the reason why there is none.
pub type FoundCompiler = Result<std::sync::Arc<dyn Compiler>, Absence>;
