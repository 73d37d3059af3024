//! Rust source as `cargo fmt` would leave it, so that formatting the workspace never changes a generated file.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

/// Passes `source` through rustfmt with the settings of the workspace at `root`.
pub(crate) fn format(root: &Path, source: &str) -> Outcome<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("rustfmt did not start: {error}"))?;
    // rustfmt reads all of its input before it writes, so writing first cannot block on a full pipe; taking the handle
    // closes it, which ends the input.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(source.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(format!("rustfmt failed with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
