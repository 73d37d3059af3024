//! Compiling CUDA C++ at run time, through a cache on disk.

mod architecture;
mod cache;
mod cache_directory;
mod compiled;
mod fingerprint;
mod included_files;
mod options;
mod regular_file;

pub use architecture::Architecture;
pub use compiled::{Compiled, CompiledImage};
pub use options::CompileOptions;

use crate::error::{Error, Result, ResultExt};
use crate::trace;
use anabranch_core::host_work::refuse_inside;
use anabranch_hal::{self as hal, Detail, Failure};
use cache::Cache;
use fingerprint::Fingerprint;
use options::Prepared;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A compiler for CUDA C++: NVRTC, or your own. Cheap to clone.
///
/// ```no_run
/// use anabranch::{CompileOptions, Compiler};
///
/// let source = r#"
///     template <typename T>
///     __global__ void scale(T *values, T by, int count) {
///         int index = blockIdx.x * blockDim.x + threadIdx.x;
///         if (index < count) values[index] *= by;
///     }
/// "#;
/// let options = CompileOptions::new().standard("c++17").name_expression("scale<float>");
/// let compiled = Compiler::find()?.compile(source, &options)?;
/// println!("{}", compiled.kernel_name("scale<float>").unwrap_or_default());
/// # Ok::<(), anabranch::Error>(())
/// ```
///
/// Follows NVRTC's groups *Error Handling*, *General Information Query* and *Compilation*.
///
/// # Finding NVRTC
///
/// [`Compiler::find`] searches for NVRTC when it is called; building this crate does not need it. If `ANABRANCH_NVRTC`
/// names the library file, only that file is tried. Otherwise the first of these that loads is used: the library search
/// path of the operating system; the CUDA toolkit that `CUDA_PATH` or `CUDA_HOME` names; `/usr/local/cuda`; the Python
/// environment that `VIRTUAL_ENV` or `CONDA_PREFIX` names, if NVIDIA's packages are installed in it. Neither a GPU nor
/// a driver is needed.
///
/// # The cache
///
/// The result of a compilation is stored on disk and read from there by all later compilations of the same user. The
/// key is a SHA-256 digest of everything that the result depends on: the source and its name, the options in order, the
/// name expressions, the kind of output, the architecture, the compiler (for NVRTC its version, and the size and time
/// of its file), and the content of the files that the source includes. Different options have different entries, and
/// no entry is ever out of date.
///
/// The cache is in the directory that `ANABRANCH_CACHE` names, or else in `anabranch` within `$XDG_CACHE_HOME` or the
/// platform's own directory for caches, such as `~/.cache`. `ANABRANCH_CACHE=off` (or `0`) disables it, as does
/// [`CompileOptions::without_cache`]. [`CompileOptions::cache_directory`] takes precedence over the environment. The
/// cache is kept below 256 MiB by removing the entries that have not been used for longest.
///
/// Because the cached code will be executed, on Unix a directory that belongs to another user, or that others may write
/// to, is not used. Entries are written as a whole or not at all, and are checked when they are read: a damaged entry
/// is compiled again and replaced. A problem with the cache never makes a compilation fail.
///
/// ## Included files
///
/// NVRTC does not report which files it read. Therefore the source is searched for the files that it includes, and
/// these files in turn, where NVRTC would look for them: next to the including file, and in the directories of
/// [`CompileOptions::include_directory`]. The search may find too many files, because it does not evaluate `#if`. A
/// file that is not found is assumed to be built into the compiler, or not to be needed. The cache is not used where
/// the search cannot be complete:
///
/// * for an `#include` or `__has_include` that names its file by a macro, and for a `__has_include` in a definition given
///   as an option, or with quotation marks in a `#define`;
/// * for `__DATE__`, `__TIME__` and `__TIMESTAMP__`, and for trigraphs;
/// * for an identifier that is the beginning of one of these words or of `__has_include`, such as `__TI` or `_`: `##` can
///   make the word of it, also in macros that are built into the compiler;
/// * for a [raw option](CompileOptions::option) that concerns files: include directories, files included up front,
///   precompiled headers, time traces of the compiler.
///
/// All of this applies to the source, the included files, the options with their definitions, and the name expressions.
#[derive(Clone)]
pub struct Compiler {
    driver: Arc<dyn hal::Compiler>,
}

impl Compiler {
    /// Finds NVRTC: the file that `ANABRANCH_NVRTC` names, or else the first that loads from the library search path, a
    /// CUDA toolkit, or the active Python environment. Needs neither a GPU nor a driver.
    ///
    /// # Errors
    /// If NVRTC is not found, or the library was built without the cargo feature `cuda`. The message lists the places
    /// that were searched, and the remedy. [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host
    /// function.
    pub fn find() -> Result<Self> {
        refuse_inside("finding the compiler")?;
        match load() {
            Ok(driver) => Ok(Self::from_driver(driver)),
            Err(absence) => Err(Error::absent("finding the compiler", &absence)),
        }
    }

    /// Wraps your own compiler.
    ///
    /// For the cache to be correct, its output may depend only on the request, its [identity] and [build], and on files
    /// that are included from the directory of the including file or from directories given as `--include-path=…`.
    /// Otherwise use [`CompileOptions::without_cache`].
    ///
    /// [identity]: hal::Compiler::identity
    /// [build]: hal::Compiler::build
    pub fn from_driver(driver: Arc<dyn hal::Compiler>) -> Self {
        Self { driver }
    }

    /// Name and version, such as `NVRTC 13.0`.
    pub fn identity(&self) -> String {
        self.driver.identity()
    }

    /// The major and the minor version.
    pub fn version(&self) -> (u32, u32) {
        self.driver.version()
    }

    /// The architectures that it makes code for, such as 90 for compute capability 9.0.
    ///
    /// # Errors
    /// The compiler's error if it cannot list them.
    pub fn architectures(&self) -> Result<Vec<u32>> {
        self.driver.architectures().during("asking the compiler for its architectures", || self.identity())
    }

    /// Compiles, or reads the result of an identical compilation from the cache.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_SOURCE (300)`](crate::Status::INVALID_SOURCE) if the source has errors, and
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for an option that the compiler does not know:
    /// the [log](Error::log) of the error is the complete output of the compiler, and its message is the first line
    /// that reports an error. [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if machine code is
    /// requested without an architecture. [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the
    /// device of [`CompileOptions::for_device`] does not run compiled code.
    pub fn compile(&self, source: &str, options: &CompileOptions) -> Result<Compiled> {
        self.compile_prepared(source, &options.prepare(&*self.driver, None)?)
    }

    /// Compiles a file. Its name is its path unless [`CompileOptions::name`] sets another. Files that are included with
    /// quotation marks are searched for in the directory of that name.
    ///
    /// # Errors
    /// Same as [`compile`](Self::compile); [`CUDA_ERROR_FILE_NOT_FOUND (301)`](crate::Status::FILE_NOT_FOUND) or
    /// [`CUDA_ERROR_OPERATING_SYSTEM (304)`](crate::Status::OPERATING_SYSTEM) if the file cannot be read, or is not
    /// UTF-8.
    pub fn compile_file(&self, path: impl AsRef<Path>, options: &CompileOptions) -> Result<Compiled> {
        let path = path.as_ref();
        let prepared = options.prepare(&*self.driver, Some(path))?;
        let source =
            std::fs::read_to_string(path).map_err(|error| Error::io("reading the source of a kernel", path, &error))?;
        self.compile_prepared(&source, &prepared)
    }

    fn compile_prepared(&self, source: &str, prepared: &Prepared) -> Result<Compiled> {
        trace::span!("compiling", name = prepared.name, bytes = source.len());
        let request = prepared.request(source);
        let compiler = format!("{}\n{}", self.identity(), self.driver.build().unwrap_or_default());
        let fingerprint = || Fingerprint::of(&compiler, &request, &prepared.include_directories);
        let entry =
            prepared.cache_directory.as_deref().and_then(|directory| Some((fingerprint()?, Cache::open(directory)?)));
        if let Some((key, cache)) = &entry
            && let Some(output) = cache.read(key)
            && let Some(compiled) = Compiled::new(&request, output, true)
        {
            trace::rare!(cached = true, "compiled before, and read from the cache");
            return Ok(compiled);
        }
        trace::rare!(cached = false, "running the compiler");
        let output = self.driver.compile(&request).map_err(|failure| refused(failure, &prepared.name))?;
        if let Some((key, cache)) = &entry
            // An included file may have changed since it was read for the key, and what was made is of either content.
            && fingerprint().as_ref() == Some(key)
        {
            cache.write(key, &output);
        }
        Compiled::new(&request, output, false).ok_or_else(|| {
            let failure = Failure::argument(hal::Status::INVALID_PTX, "the compiler's PTX is not UTF-8");
            Error::driver(OPERATION, failure).at(prepared.name.clone())
        })
    }
}

const OPERATION: &str = "running the compiler";

#[cfg(feature = "cuda")]
fn load() -> hal::FoundCompiler {
    anabranch_cuda::load_compiler()
}

#[cfg(not(feature = "cuda"))]
fn load() -> hal::FoundCompiler {
    Err(hal::Absence {
        reason: "the library was built without NVRTC".to_owned(),
        remedy: "build with the cargo feature `cuda`".to_owned(),
    })
}

/// The error for source that the compiler refused. Warnings may come first in its log and are not the cause.
fn refused(failure: Failure, name: &str) -> Error {
    let line = match failure.detail.as_deref() {
        Some(Detail::Log(log)) => first_error(log).map(str::to_owned),
        _ => None,
    };
    let error = Error::driver(OPERATION, failure).at(name);
    match line {
        Some(line) => error.with_message(line),
        None => error,
    }
}

fn first_error(log: &str) -> Option<&str> {
    log.lines().map(str::trim).find(|line| line.contains("error:") || line.contains("error #"))
}

impl fmt::Debug for Compiler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Compiler({})", self.identity())
    }
}
