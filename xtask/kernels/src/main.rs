//! `cargo xtask kernels`: from the CUDA sources of the repository to the PTX beside them.
//!
//! The PTX is kept in the repository, so that neither a build nor a test needs a compiler of CUDA C++. It starts with
//! the hash of its source, which a test of the `anabranch` crate compares.

mod stamp;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use anabranch_cuda::load_compiler;
use anabranch_hal::{CompileRequest, Compiler, OutputKind};
use clap::Parser;
use stamp::Stamp;

/// What every step returns: nothing here would act on the kind of a failure, so the text of it is all that is kept.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The sources, from the root of the workspace.
const SOURCES: &[&str] = &[
    "crates/anabranch/examples/edges/kernels.cu",
    "crates/anabranch/examples/support/saxpy.cu",
    "crates/anabranch-core/src/set_conditional.cu",
    "crates/anabranch-cli/tests/data/kernels.cu",
    "crates/anabranch/tests/data/twice.cu",
    "crates/anabranch/benches/kernels.cu",
    "crates/anabranch-conformance/src/kernels.cu",
    "crates/anabranch-ptx/tests/kernels/basic.cu",
    "crates/anabranch-ptx/tests/kernels/cooperative.cu",
    "crates/anabranch-ptx/tests/kernels/device.cu",
    "crates/anabranch-conformance/src/ptx/golden/cooperative.cu",
    "crates/anabranch-conformance/src/ptx/golden/integers.cu",
    "crates/anabranch-conformance/src/ptx/golden/reals.cu",
    "crates/anabranch-conformance/src/conditional_kernels.cu",
];

/// For Volta, the oldest architecture that is of use, so that the PTX runs on every GPU since. And without a header that
/// NVRTC includes of itself, which would put a score of unused variables into every PTX.
const OPTIONS: &[&str] = &["--gpu-architecture=compute_70", "--define-macro=__NV_TARGET_H"];

/// A driver loads PTX of its own CUDA version and before, and those from 12.0 on are served.
const NEWEST_COMPILER: (u32, u32) = (12, 0);

/// Write, or check, the PTX of the kernels that are kept in the repository. NVRTC is found at run time, or through
/// ANABRANCH_NVRTC.
#[derive(Parser)]
#[command(name = "cargo xtask kernels")]
struct Arguments {
    /// Write nothing; exit with 1 if a PTX is not of its source as it is now.
    #[arg(long, conflicts_with = "force")]
    check: bool,
    /// Write with whichever NVRTC there is, also if older drivers do not load what it makes.
    #[arg(long)]
    force: bool,
    /// Write the PTX of one source to standard output, and do nothing else.
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["check", "force"])]
    print: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Arguments { check: is_check, force, print } = Arguments::parse();
    let outcome = match print {
        Some(source) => print_ptx(&source),
        None if is_check => check(),
        None => write(force),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace: cargo names the directory of the package it runs, which is two below it.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package.and_then(|path| path.ancestors().nth(2).map(Path::to_path_buf)).unwrap_or_else(|| PathBuf::from("."))
}

/// Compiles every source and writes its PTX.
fn write(force: bool) -> Outcome<bool> {
    let compiler = load_compiler().map_err(|absence| absence.to_string())?;
    if compiler.version() > NEWEST_COMPILER && !force {
        let (major, minor) = NEWEST_COMPILER;
        return Err(format!(
            "{} makes PTX that drivers of CUDA {major}.{minor} do not load; name the library of NVRTC {major}.{minor} in \
             ANABRANCH_NVRTC, or pass --force",
            compiler.identity()
        )
        .into());
    }
    for &source in SOURCES {
        let path = root().join(source);
        let ptx = compile_alone(&path)?;
        let destination = path.with_extension("ptx");
        std::fs::write(&destination, ptx).map_err(|error| format!("{}: {error}", destination.display()))?;
    }
    Ok(true)
}

/// Checks that every PTX is of its source as it is now and, where the compiler that made it is at hand, that it makes
/// the same again. False means that one differs.
fn check() -> Outcome<bool> {
    let compiler = load_compiler().ok();
    let mut agreed = true;
    for &source in SOURCES {
        let path = root().join(source);
        let text = read(&path)?;
        let ptx = std::fs::read_to_string(path.with_extension("ptx")).unwrap_or_default();
        let problem = match (Stamp::of_ptx(&ptx), &compiler) {
            (None, _) => Some("has no PTX made by this command"),
            (Some(stamp), _) if stamp.hash != stamp::hash(&text) => Some("has changed since its PTX was made"),
            (Some(stamp), Some(compiler)) if stamp.compiler == compiler.identity() => {
                (compile_alone(&path)? != ptx).then_some("gives another PTX than the one beside it")
            }
            (Some(stamp), _) => {
                eprintln!("{source}: only its hash was compared, since {} was not found", stamp.compiler);
                None
            }
        };
        if let Some(problem) = problem {
            eprintln!("{source} {problem}; run this without --check");
            agreed = false;
        }
    }
    Ok(agreed)
}

fn read(path: &Path) -> Outcome<String> {
    Ok(std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// The PTX of a source, compiled by a process of its own: NVRTC numbers calls and prototypes through all that a process
/// compiles, and the PTX is to be of its source alone.
fn compile_alone(path: &Path) -> Outcome<String> {
    let child = Command::new(std::env::current_exe()?).arg("--print").arg(path).stderr(Stdio::inherit()).output()?;
    if !child.status.success() {
        return Err(format!("{}: the compiling process ended with {}", path.display(), child.status).into());
    }
    Ok(String::from_utf8(child.stdout)?)
}

/// Compiles a source and prints its PTX.
fn print_ptx(path: &Path) -> Outcome<bool> {
    let compiler = load_compiler().map_err(|absence| absence.to_string())?;
    std::io::stdout().write_all(compile(&compiler, path)?.as_bytes())?;
    Ok(true)
}

/// The PTX of a source, with the stamp before it, compiled by this process.
fn compile(compiler: &Arc<dyn Compiler>, path: &Path) -> Outcome<String> {
    let source = read(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let options: Vec<String> = OPTIONS.iter().map(|&option| option.to_owned()).collect();
    let request = CompileRequest {
        source: &source,
        name: &name,
        options: &options,
        name_expressions: &[],
        output: OutputKind::Ptx,
    };
    let output = compiler.compile(&request).map_err(|failure| format!("{}: {failure}", path.display()))?;
    if !output.log.is_empty() {
        eprintln!("{}", output.log);
    }
    let stamp = Stamp { compiler: compiler.identity(), options: options.join(" "), hash: stamp::hash(&source) };
    Ok(stamp.text(&name) + &String::from_utf8(output.image)?)
}
