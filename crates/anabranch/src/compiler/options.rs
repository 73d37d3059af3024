//! How to compile.

use super::architecture::Architecture;
use super::cache_directory;
use crate::device::Device;
use crate::error::{Error, Result};
use anabranch_hal::{CompileRequest, Compiler, OutputKind, Status};
use std::path::{Path, PathBuf};

/// The name of a source without a name.
const DEFAULT_NAME: &str = "kernel.cu";

/// How to compile. The defaults are: PTX, the compiler's default architecture, none of the options below, and the cache
/// enabled.
#[derive(Clone, Debug)]
#[must_use]
pub struct CompileOptions {
    name: Option<String>,
    output: OutputKind,
    target: Target,
    standard: Option<String>,
    fast_math: bool,
    debug: bool,
    line_info: bool,
    max_registers: Option<u32>,
    additions: Vec<Addition>,
    name_expressions: Vec<String>,
    cache: CacheChoice,
}

/// What to compile for.
#[derive(Clone, Debug)]
enum Target {
    CompilersChoice,
    Architecture(Architecture),
    Device { name: String, compute_capability: (u32, u32) },
}

/// An option that can be given repeatedly, and whose order matters.
#[derive(Clone, Debug)]
enum Addition {
    Define(String),
    IncludeDirectory(PathBuf),
    Raw(String),
}

#[derive(Clone, Debug)]
enum CacheChoice {
    Environment,
    Directory(PathBuf),
    Off,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            name: None,
            output: OutputKind::Ptx,
            target: Target::CompilersChoice,
            standard: None,
            fast_math: false,
            debug: false,
            line_info: false,
            max_registers: None,
            additions: Vec::new(),
            name_expressions: Vec::new(),
            cache: CacheChoice::Environment,
        }
    }
}

impl CompileOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name of the source in messages, by default `kernel.cu`. Files that are included with quotation marks are
    /// searched for in the directory of this name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Defines a macro.
    pub fn define(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let definition = format!("--define-macro={}={}", name.as_ref(), value.as_ref());
        self.additions.push(Addition::Define(definition));
        self
    }

    /// A directory to include files from, after those given earlier. The files are read each time, so the cache notices
    /// when one changes.
    pub fn include_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.additions.push(Addition::IncludeDirectory(path.into()));
        self
    }

    /// The architecture to compile for. PTX runs on GPUs of this architecture and on newer ones. Machine code runs only
    /// on those of them with the same major compute capability.
    pub fn architecture(mut self, architecture: Architecture) -> Self {
        self.target = Target::Architecture(architecture);
        self
    }

    /// Compiles for the architecture of a device. If the device is newer than the compiler, PTX is made for the newest
    /// architecture that the compiler knows and that is not newer than the device.
    pub fn for_device(mut self, device: &Device) -> Self {
        let compute_capability = device.properties().compute_capability;
        self.target = Target::Device { name: device.to_string(), compute_capability };
        self
    }

    /// The C++ standard, such as `c++17`.
    pub fn standard(mut self, standard: impl Into<String>) -> Self {
        self.standard = Some(standard.into());
        self
    }

    /// Whether to trade the accuracy of floating-point arithmetic for speed.
    pub fn fast_math(mut self, enable: bool) -> Self {
        self.fast_math = enable;
        self
    }

    /// Whether to make code for debuggers, which also turns optimisations off.
    pub fn debug(mut self, enable: bool) -> Self {
        self.debug = enable;
        self
    }

    /// Whether to keep line numbers, for profilers.
    pub fn line_info(mut self, enable: bool) -> Self {
        self.line_info = enable;
        self
    }

    /// The maximum number of registers per thread.
    pub fn max_registers(mut self, registers: u32) -> Self {
        self.max_registers = Some(registers);
        self
    }

    /// Passes an option to the compiler unchanged. Results with an option that concerns files are not cached.
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.additions.push(Addition::Raw(option.into()));
        self
    }

    /// A C++ name, such as `scale<float>`, whose mangled name is requested. Naming an instance of a template also makes
    /// it part of the code.
    pub fn name_expression(mut self, expression: impl Into<String>) -> Self {
        let expression = expression.into();
        if !self.name_expressions.contains(&expression) {
            self.name_expressions.push(expression);
        }
        self
    }

    /// The kind of output, by default PTX. Machine code needs an architecture.
    pub fn output(mut self, output: OutputKind) -> Self {
        self.output = output;
        self
    }

    /// Compiles every time, and keeps nothing.
    pub fn without_cache(mut self) -> Self {
        self.cache = CacheChoice::Off;
        self
    }

    /// Keeps the cache in this directory, whatever the environment says. The directory is made if it does not exist. On
    /// Unix it is not used if it belongs to another user or others may write to it.
    pub fn cache_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = CacheChoice::Directory(path.into());
        self
    }

    /// The options in the form that the compiler takes. `path` is the path of the source, if it is a file.
    pub(super) fn prepare(&self, compiler: &dyn Compiler, path: Option<&Path>) -> Result<Prepared> {
        let name = match (&self.name, path) {
            (Some(name), _) => name.clone(),
            (None, Some(path)) => text_of(path)?.to_owned(),
            (None, None) => DEFAULT_NAME.to_owned(),
        };
        let mut options = Vec::new();
        options.extend(self.architecture_for(compiler)?.map(|architecture| architecture.option(self.output)));
        options.extend(self.standard.as_ref().map(|standard| format!("--std={standard}")));
        options.extend(self.fast_math.then(|| "--use_fast_math".to_owned()));
        options.extend(self.debug.then(|| "--device-debug".to_owned()));
        options.extend(self.line_info.then(|| "--generate-line-info".to_owned()));
        options.extend(self.max_registers.map(|registers| format!("--maxrregcount={registers}")));
        let mut include_directories = Vec::new();
        for addition in &self.additions {
            options.push(match addition {
                Addition::Define(option) | Addition::Raw(option) => option.clone(),
                Addition::IncludeDirectory(path) => {
                    include_directories.push(path.clone());
                    format!("--include-path={}", text_of(path)?)
                }
            });
        }
        let cache_directory = match &self.cache {
            _ if self.raw_options().any(concerns_files) => None,
            CacheChoice::Off => None,
            CacheChoice::Directory(path) => Some(path.clone()),
            CacheChoice::Environment => cache_directory::from_environment(),
        };
        Ok(Prepared {
            name,
            options,
            name_expressions: self.name_expressions.clone(),
            output: self.output,
            include_directories,
            cache_directory,
        })
    }

    fn architecture_for(&self, compiler: &dyn Compiler) -> Result<Option<Architecture>> {
        let operation = "choosing the architecture to compile for";
        match &self.target {
            Target::Architecture(architecture) => Ok(Some(*architecture)),
            Target::Device { name, compute_capability: (0, 0) } => {
                let message = "the device runs Rust closures and no compiled code; load a host module instead";
                Err(Error::argument(Status::NOT_SUPPORTED, operation, message).at(name.clone()))
            }
            Target::Device { compute_capability: (major, minor), .. } => {
                let known = match self.output {
                    // If the compiler cannot list its architectures, it reports an unknown one itself.
                    OutputKind::Ptx => compiler.architectures().unwrap_or_default(),
                    OutputKind::Binary => Vec::new(),
                };
                Ok(Some(Architecture::new(newest_for(major * 10 + minor, &known))))
            }
            Target::CompilersChoice
                if self.output == OutputKind::Binary && !self.raw_options().any(is_architecture) =>
            {
                let message = "machine code is made for one architecture; name it with CompileOptions::architecture \
                               or for_device";
                Err(Error::argument(Status::INVALID_VALUE, operation, message))
            }
            Target::CompilersChoice => Ok(None),
        }
    }

    fn raw_options(&self) -> impl Iterator<Item = &str> {
        self.additions.iter().filter_map(|addition| match addition {
            Addition::Raw(option) => Some(option.as_str()),
            Addition::Define(_) | Addition::IncludeDirectory(_) => None,
        })
    }
}

/// The newest of the known architectures that a device of that architecture runs, or its own if there is none.
fn newest_for(device: u32, known: &[u32]) -> u32 {
    known.iter().copied().filter(|known| *known <= device).max().unwrap_or(device)
}

/// A path as options and messages have it.
fn text_of(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        let message = format!("{}: the compiler takes paths in UTF-8 only", path.display());
        Error::argument(Status::INVALID_VALUE, "preparing to compile", message)
    })
}

/// Whether an option may make the compiler read or write files that the cache does not know. In doubt the answer is
/// yes.
fn concerns_files(option: &str) -> bool {
    let option = option.trim_start();
    // Definitions hold any text, in which the fingerprint looks for what names files.
    if option.starts_with("-D") || option.starts_with("--define-macro") {
        return false;
    }
    option.starts_with("-I")
        || ["include", "pch", "file", "time", "path", "dir"].iter().any(|word| option.contains(word))
}

fn is_architecture(option: &str) -> bool {
    let option = option.trim_start();
    option.starts_with("-arch") || option.starts_with("--gpu-architecture")
}

/// Options in the form that the compiler takes.
pub(super) struct Prepared {
    pub(super) name: String,
    pub(super) options: Vec<String>,
    pub(super) name_expressions: Vec<String>,
    pub(super) output: OutputKind,
    pub(super) include_directories: Vec<PathBuf>,
    /// Where to keep the result, or `None` to keep it nowhere.
    pub(super) cache_directory: Option<PathBuf>,
}

impl Prepared {
    pub(super) fn request<'a>(&'a self, source: &'a str) -> CompileRequest<'a> {
        CompileRequest {
            source,
            name: &self.name,
            options: &self.options,
            name_expressions: &self.name_expressions,
            output: self.output,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{concerns_files, newest_for};

    #[test]
    fn a_device_newer_than_the_compiler_gets_the_newest_code_that_it_runs() {
        assert_eq!(newest_for(90, &[75, 80, 90, 100]), 90);
        assert_eq!(newest_for(101, &[75, 80, 90, 100]), 100);
        assert_eq!(newest_for(70, &[75, 80]), 70, "which the compiler is left to refuse");
        assert_eq!(newest_for(90, &[]), 90);
    }

    #[test]
    fn options_about_files_are_told_from_others() {
        for option in
            ["-I/usr", " -I src", "--include-path=a", "-include=a.h", "--pre-include=a.h", "--use-pch=a", "-pch"]
        {
            assert!(concerns_files(option), "{option}");
        }
        for option in
            ["-DINCLUDE=include", "--define-macro=path=1", "-lineinfo", "--fmad=false", "-default-device", "-G"]
        {
            assert!(!concerns_files(option), "{option}");
        }
    }
}
