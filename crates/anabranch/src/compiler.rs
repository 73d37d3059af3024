//! Compiling CUDA C++ at run time, through a cache on disk.

mod architecture;
mod cache;
mod cache_directory;
mod compiled;
mod fingerprint;
mod included_files;
mod options;

pub use architecture::Architecture;
pub use compiled::{Compiled, CompiledImage};
pub use options::CompileOptions;

use crate::error::{Error, Result, ResultExt};
use crate::trace;
use anabranch_hal::{self as hal, Detail, Failure};
use cache::Cache;
use fingerprint::Fingerprint;
use options::Prepared;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A compiler of CUDA C++: NVRTC, or one of one's own. Cheap to clone.
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
/// [`Compiler::find`] looks for NVRTC when it is called; nothing is needed to build. `ANABRANCH_NVRTC` names the library
/// file, and then no other is tried. Otherwise the first of these that loads is used: where the operating system
/// searches; the CUDA toolkit that `CUDA_PATH` or `CUDA_HOME` names; `/usr/local/cuda`; the Python environment that
/// `VIRTUAL_ENV` or `CONDA_PREFIX` names, with NVIDIA's packages in it. Neither a GPU nor a driver is needed.
///
/// # The cache
///
/// What was compiled once is read from disk from then on, by all processes of the user. It is found by a SHA-256 over
/// everything that the result depends on: the source and its name, the options in order, the name expressions, what is
/// made, for which architecture, by which compiler (of NVRTC the version, and size and time of its file), and the content
/// of the files that the source includes. Other options ask for another entry, and no entry is ever out of date.
///
/// The cache lies in the directory that `ANABRANCH_CACHE` names, else in `anabranch` within `$XDG_CACHE_HOME` or the
/// platform's own directory for caches, such as `~/.cache`. `ANABRANCH_CACHE=off` (or `0`) turns it off, as does
/// [`CompileOptions::without_cache`]; [`CompileOptions::cache_directory`] goes before the environment. It is kept below
/// 256 MiB, and what has not been used for longest goes first.
///
/// The code in it is going to be run, so on Unix a directory that belongs to another user, or that others may write to,
/// is not used. Entries are written whole or not at all, and are checked when read: a damaged one is compiled anew and
/// replaced. No trouble with the cache ever fails a compilation.
///
/// ## Included files
///
/// NVRTC does not say which files it read, so the source is searched for what it includes, and those files in turn, where
/// NVRTC would look for them: beside the file that includes, and in the directories of
/// [`CompileOptions::include_directory`]. The search errs on the side of too many files, as it does not follow `#if`. A
/// file that is found nowhere is taken to be built into the compiler, or not to be needed. The cache is not used where
/// this cannot be made sure of:
///
/// * for an `#include` or `__has_include` that names its file by a macro;
/// * for `__DATE__`, `__TIME__` and `__TIMESTAMP__`, and for trigraphs;
/// * for a [raw option](CompileOptions::option) that has to do with files: include directories, files included up
///   front, precompiled headers, traces of the compiler's time.
#[derive(Clone)]
pub struct Compiler {
    driver: Arc<dyn hal::Compiler>,
}

impl Compiler {
    /// Finds NVRTC: the file that `ANABRANCH_NVRTC` names, else the first that loads where the operating system
    /// searches, in a CUDA toolkit, and in the Python environment that is active. Needs neither a GPU nor a driver.
    ///
    /// # Errors
    /// When there is none, or the library was built without the cargo feature `cuda`. The message says where it was
    /// looked for and what would help.
    pub fn find() -> Result<Self> {
        match load() {
            Ok(driver) => Ok(Self::from_driver(driver)),
            Err(absence) => Err(Error::absent("finding the compiler", &absence)),
        }
    }

    /// A compiler of one's own.
    ///
    /// For the cache to be right, what it makes may depend on nothing but the request, its [identity] and [build], and files that are
    /// included from beside the file that includes them or from directories given as `--include-path=…`. Otherwise use
    /// [`CompileOptions::without_cache`].
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

    /// The version's two numbers.
    pub fn version(&self) -> (u32, u32) {
        self.driver.version()
    }

    /// The architectures that it makes code for, such as 90 for compute capability 9.0.
    ///
    /// # Errors
    /// What the compiler says when it cannot tell.
    pub fn architectures(&self) -> Result<Vec<u32>> {
        self.driver.architectures().during("asking the compiler for its architectures", || self.identity())
    }

    /// Compiles, or reads from the cache what the same call made before.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_SOURCE (300)` when the source has errors, and `CUDA_ERROR_INVALID_VALUE (1)` for an option
    /// that the compiler does not know: the error's [log](Error::log) is all that the compiler said, and its message
    /// the first line that tells of an error. `CUDA_ERROR_INVALID_VALUE (1)` when machine code is asked for with no
    /// architecture. `CUDA_ERROR_NOT_SUPPORTED (801)` when the device of [`CompileOptions::for_device`] does not run
    /// compiled code.
    pub fn compile(&self, source: &str, options: &CompileOptions) -> Result<Compiled> {
        self.compile_prepared(source, &options.prepare(&*self.driver, None)?)
    }

    /// Compiles a file, which has its path for a name unless [`CompileOptions::name`] gives another. Files are included
    /// with quotation marks from the directory of that name.
    ///
    /// # Errors
    /// As [`compile`](Self::compile); `CUDA_ERROR_FILE_NOT_FOUND (301)` or `CUDA_ERROR_OPERATING_SYSTEM (304)` when the
    /// file cannot be read, or is not UTF-8.
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

/// The error for what the compiler refused. Warnings may come first in its log, and are not what is wrong.
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
