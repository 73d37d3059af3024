//! Chores of the repository that need more than cargo: `cargo xtask help` lists them.

mod bindings;
mod formatting;
mod forward;
mod generated;
mod headers;
mod modules;
mod packages;
mod public_api;
mod sources;
mod stream_functions;
mod workspace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

/// What every step of a chore returns: a chore has no caller that would act on the kind of a failure, so the text of
/// it is all that is kept.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the repository that need more than cargo")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write, or check, the foreign-function bindings that are kept in the repository.
    #[command(subcommand)]
    Bindings(Bindings),
    /// Write, or check, the trait that forwards every call of a driver, from the traits of the driver contract.
    Forward {
        /// Write nothing; exit with 1 if the file in the repository differs from what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Check that arrows between crates, and between the modules of each crate, point down only.
    Modules {
        /// Check this crate only; may be given several times.
        #[arg(long = "crate", value_name = "NAME")]
        crates: Vec<String>,
    },
    /// Write, or check, the listings of what the published libraries offer.
    PublicApi {
        /// Write nothing; exit with 1 if a listing in the repository differs from what would be written.
        #[arg(long)]
        check: bool,
        /// Only that of this crate; may be given several times.
        #[arg(long = "crate", value_name = "NAME")]
        crates: Vec<String>,
    },
    /// Write, or check, the list of the functions of the CUDA driver that are about streams, from NVIDIA's header.
    /// libclang is found through LIBCLANG_PATH.
    StreamFunctions {
        /// The directory that holds cuda.h.
        #[arg(long, value_name = "DIR")]
        include: PathBuf,
        /// Write nothing; exit with 1 if the file in the repository differs from what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Write, or check, the PTX of the kernels that are kept in the repository.
    #[command(disable_help_flag = true)]
    Kernels {
        /// What the package `xtask-kernels` takes; `--help` lists it.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(Subcommand)]
enum Bindings {
    /// The CUDA driver and NVRTC, from NVIDIA's headers. libclang is found through LIBCLANG_PATH.
    Cuda {
        /// The directory that holds cuda.h, cudaTypedefs.h and nvrtc.h.
        #[arg(long, value_name = "DIR")]
        include: PathBuf,
        /// Write nothing; exit with 1 if a file in the repository differs from what would be written.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Bindings(Bindings::Cuda { include, check }) => bindings::cuda(&include, check),
        Chore::Forward { check } => forward::run(check),
        Chore::Modules { crates } => modules::run(&crates),
        Chore::PublicApi { check, crates } => public_api::run(&crates, check),
        Chore::StreamFunctions { include, check } => stream_functions::run(&include, check),
        Chore::Kernels { arguments } => kernels(&arguments),
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

/// Compiling kernels needs the crates of this repository, and what generates parts of them must be built without them.
fn kernels(arguments: &[OsString]) -> Outcome<bool> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--package", "xtask-kernels", "--"]).args(arguments);
    Ok(cargo.current_dir(workspace::root()).status()?.success())
}
