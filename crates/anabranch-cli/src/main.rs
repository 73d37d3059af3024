//! The command `anabranch`.

mod arguments;
mod conformance;
mod date;
mod devices;
mod environment;
mod fault;
mod fuzz;
mod inspect;
mod isolation;
mod kernels;
mod output;
mod progress;
mod run;
mod shell;
mod source;

use arguments::{Arguments, Command};
use clap::Parser;
use output::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    for (variable, value) in environment::OF_THE_DRIVER {
        if !environment::is_set(variable) {
            // SAFETY: this is the first thing that the process does. It has no other thread that could read or change
            // the environment at the same time.
            unsafe { std::env::set_var(variable, value) };
        }
    }
    let (message, code) = match run() {
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

fn run() -> Result<ExitCode, Failure> {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(message) => return output::of_command_line(&message),
    };
    match arguments.command {
        Command::Devices(options) => devices::run(&options),
        Command::Conformance(options) => conformance::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Kernels(options) => kernels::run(&options),
        Command::Completions(options) => shell::completions(&options),
        Command::Man(options) => shell::manual(&options),
    }
}
