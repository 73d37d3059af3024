//! Printing, and how a command can fail.

use anabranch::ErrorKind;
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind as IoErrorKind, Write};

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

/// Prints one line to standard output.
pub(crate) fn line(text: &impl Display) -> Result<(), Failure> {
    let written = writeln!(std::io::stdout().lock(), "{text}");
    written.map_err(|error| match error.kind() {
        IoErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Failed(format!("the output cannot be written: {error}")),
    })
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
