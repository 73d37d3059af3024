//! What the small examples share: their only argument.

use anabranch::{Device, Instance};
use std::error::Error;
use std::process::ExitCode;

/// Calls `body` with the device that the argument `--device` names, or else with the host device.
pub(crate) fn run(body: impl FnOnce(&Device) -> Result<(), Box<dyn Error>>) -> ExitCode {
    let result = match device() {
        Ok(device) => body(&device),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn device() -> Result<Device, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, ..) => "host".to_owned(),
        (Some("--device"), Some(name), None) => name,
        _ => return Err("the only argument is --device NAME, such as --device cuda:0".into()),
    };
    Ok(Instance::new()?.device(&name)?)
}
