//! Printing, and how a command can fail.

use anabranch::ErrorKind;
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind as IoErrorKind, Write};
use std::process::ExitCode;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for makes no sense.
    Usage(String),
    /// It made sense and did not work.
    Failed(String),
    /// Nobody reads the output any more.
    OutputClosed,
}

impl From<anabranch::Error> for Failure {
    fn from(error: anabranch::Error) -> Self {
        match error.kind() {
            ErrorKind::Argument | ErrorKind::Absent => Self::Usage(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl Failure {
    fn of_output(error: &std::io::Error) -> Self {
        match error.kind() {
            IoErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Failed(format!("the output cannot be written: {error}")),
        }
    }
}

/// Prints one line to standard output.
pub(crate) fn line(text: &impl Display) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|error| Failure::of_output(&error))
}

/// Prints text to standard output as it is.
pub(crate) fn bytes(text: &[u8]) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    output.write_all(text).and_then(|()| output.flush()).map_err(|error| Failure::of_output(&error))
}

/// Prints what the parser of the command line has to say: the help, the version, or an error.
pub(crate) fn of_command_line(message: &clap::Error) -> Result<ExitCode, Failure> {
    match message.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if !message.use_stderr() => return Err(Failure::of_output(&error)),
        // Where standard error is closed, the exit status has to do.
        _ => {}
    }
    Ok(if message.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

/// Prints a value as JSON, in one line.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    line(&serde_json::to_string(value).map_err(|error| Failure::Failed(format!("the output is no JSON: {error}")))?)
}

/// Prints a value as JSON, for people to read too.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    line(&text.map_err(|error| Failure::Failed(format!("the output is no JSON: {error}")))?)
}
