//! Files with kernels.

use crate::output::Failure;
use anabranch::{CompileOptions, Compiled, Compiler, Error};
use anabranch_ptx::Module;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 30;

/// What a file contains, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `.ptx`.
    Ptx,
    /// `.cubin`: machine code of one architecture.
    Binary,
    /// `.cu`: CUDA C++.
    Source,
}

impl Kind {
    pub(crate) fn of(path: &Path) -> Result<Self, Failure> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("ptx") => Ok(Self::Ptx),
            Some("cubin") => Ok(Self::Binary),
            Some("cu") => Ok(Self::Source),
            _ => Err(Failure::Usage(format!(
                "the name of a file with kernels ends in .ptx, .cubin or .cu, and not as `{}` does",
                path.display()
            ))),
        }
    }
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let name = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::Usage(format!("{name} cannot be read: {error}")))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::Usage(format!("{name} is larger than {MOST_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Reads a file of PTX.
pub(crate) fn read_ptx(path: &Path) -> Result<String, Failure> {
    let bytes = read(path)?;
    // No text has a zero byte in it.
    let zero = bytes.iter().position(|byte| *byte == 0);
    let (bytes, at) = match (String::from_utf8(bytes), zero) {
        (Ok(text), None) => return Ok(text),
        (Ok(text), Some(at)) => (text.into_bytes(), at),
        (Err(error), zero) => {
            let at = error.utf8_error().valid_up_to();
            (error.into_bytes(), zero.map_or(at, |zero| zero.min(at)))
        }
    };
    let before = &bytes[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    Err(Failure::Failed(format!("{}: line {line}, column {column}: this is no text", path.display())))
}

/// Compiles a file of CUDA C++ to PTX, with the lines of the source in it.
/// `kernel`: a name as in C++, such as `scale<float>`, whose mangled name is asked for.
pub(crate) fn compile(
    path: &Path,
    options: &CompileOptions,
    extra: &[String],
    kernel: Option<&str>,
) -> Result<Compiled, Failure> {
    // A file that is not there is the more likely mistake than a compiler that is not.
    read(path)?;
    let compiler = Compiler::find()?;
    let mut options = extra.iter().fold(options.clone().line_info(true), CompileOptions::option);
    if let Some(kernel) = kernel {
        options = options.name_expression(kernel);
    }
    compiler.compile_file(path, &options).map_err(|error| in_source(path, &error))
}

/// The compiler names the file and the line itself.
fn in_source(path: &Path, error: &Error) -> Failure {
    let message = error.message().filter(|_| error.log().is_some()).map(str::to_owned);
    match message {
        Some(message) if message.contains("error") => Failure::Failed(message),
        _ => Failure::Failed(format!("{}: {error}", path.display())),
    }
}

/// Parses PTX, whose errors have a line and a column.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Module, Failure> {
    let name = path.display();
    let module = Module::parse(text).map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
    if module.version == (0, 0) || module.targets.is_empty() {
        return Err(Failure::Failed(format!("{name}: line 1, column 1: PTX begins with .version and .target")));
    }
    Ok(module)
}
