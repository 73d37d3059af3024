//! The command `anabranch`.

mod arguments;
mod conformance;
mod devices;
mod fault;
mod fuzz;
mod isolation;
mod output;
mod progress;

use arguments::{Arguments, Command};
use clap::Parser;
use output::Failure;
use std::io::Write;
use std::process::ExitCode;

/// What the CUDA driver reads when it is loaded: as many hardware queues as it can have, so that a stream that is held
/// up does not hold up another, and kernels loaded at once, so that no launch has to wait for the device.
const ENVIRONMENT: [(&str, &str); 2] = [("CUDA_DEVICE_MAX_CONNECTIONS", "32"), ("CUDA_MODULE_LOADING", "EAGER")];

fn main() -> ExitCode {
    for (variable, value) in ENVIRONMENT {
        if std::env::var_os(variable).is_none() {
            // SAFETY: this is the first thing that the process does. It has no other thread that could read or change
            // the environment at the same time.
            unsafe { std::env::set_var(variable, value) };
        }
    }
    let result = match Arguments::parse().command {
        Command::Devices(options) => devices::run(&options),
        Command::Conformance(options) => conformance::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
    };
    let (message, code) = match result {
        Ok(code) => return code,
        // The reader of the output has seen enough.
        Err(Failure::OutputClosed) => return ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => (message, 2),
        Err(Failure::Failed(message)) => (message, 1),
    };
    // Where standard error is closed too, the exit status has to do.
    let _ = writeln!(std::io::stderr(), "anabranch: {message}");
    ExitCode::from(code)
}
