//! Chores of the repository that need more than cargo: `cargo xtask help` lists them.

mod bindings;
mod cuda_symbols;
mod formatting;
mod headers;
mod kernels;
mod render;
mod signature;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

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
    /// Write, or check, the PTX of the kernels that are kept in the repository. NVRTC is found at run time, or through
    /// ANABRANCH_NVRTC.
    Kernels {
        /// Write nothing; exit with 1 if a PTX is not of its source as it is now.
        #[arg(long, conflicts_with = "force")]
        check: bool,
        /// Write with whichever NVRTC there is, also if older drivers do not load what it makes.
        #[arg(long)]
        force: bool,
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
        Chore::Kernels { check: true, .. } => kernels::check(),
        Chore::Kernels { check: false, force } => kernels::write(force),
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
