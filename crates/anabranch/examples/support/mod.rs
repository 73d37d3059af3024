//! What the small examples share: their only argument.

mod output;

use anabranch::{Device, Instance};
use clap::{CommandFactory, Parser};
use std::error::Error;
use std::process::ExitCode;

pub(crate) use output::line;

#[derive(Debug, Parser)]
struct Arguments {
    /// The device, such as host or cuda:0
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    device: String,
}

/// Calls `body` with the device that the argument `--device` names, or else with the host device. The help says what the
/// example is `about`.
pub(crate) fn run(about: &'static str, body: impl FnOnce(&Device) -> Result<(), Box<dyn Error>>) -> ExitCode {
    output::run(Arguments::command().about(about), |arguments: &Arguments| {
        body(&Instance::new()?.device(&arguments.device)?)
    })
}
