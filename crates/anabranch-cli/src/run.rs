//! `anabranch run`.

mod argument;
mod array;
mod check;
mod element;
mod launch;
mod program;
mod report;
mod results;

pub(crate) use argument::Argument;

use crate::arguments::RunOptions;
use crate::output::{self, Failure};
use anabranch::{BackendKind, Device, Instance};
use array::Array;
use launch::Prepared;
use program::Program;
use report::Report;
use results::Results;
use std::process::ExitCode;

pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, Failure> {
    let arguments = options.arguments.iter().map(|text| text.parse()).collect::<Result<Vec<Argument>, _>>();
    let arguments = arguments.map_err(Failure::Usage)?;
    let device = device(options)?;
    check::shape(&device, options).map_err(Failure::Usage)?;
    let program = Program::read(&device, options)?;
    if let Some(parameters) = program.parameters() {
        check::arguments(program.kernel(), parameters, &arguments).map_err(Failure::Usage)?;
    }
    let results = Results::new(&arguments).map_err(Failure::Usage)?;
    let arrays = arguments.iter().map(array_of).collect::<Result<Vec<_>, _>>().map_err(Failure::Usage)?;
    check::memory(&device, &arrays).map_err(Failure::Usage)?;

    let mut prepared = Prepared::new(&device, &program, options, &arguments, arrays)?;
    let milliseconds = (0..options.repeat).map(|_| prepared.launch()).collect::<Result<Vec<f64>, _>>()?;
    let arrays = prepared.results()?;
    results.write(&arrays).map_err(Failure::Failed)?;

    let report =
        Report { device: &device, options, kernel: program.kernel(), arguments: &arguments, arrays, milliseconds };
    if options.json {
        output::json_line(&report.as_json())?;
    } else {
        output::line(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The device that was asked for.
fn device(options: &RunOptions) -> Result<Device, Failure> {
    let mut instance = Instance::builder();
    if options.check {
        instance = instance.host_check_memory(true);
    }
    let instance = instance.build()?;
    let device = match &options.device {
        Some(name) => instance.device(name)?,
        None => instance.default_device()?,
    };
    if options.check && device.backend() != BackendKind::Host {
        return Err(Failure::Usage(format!(
            "--check is for the software device, and this is {device}; add --device host, or use NVIDIA's compute-sanitizer"
        )));
    }
    Ok(device)
}

/// What an array contains before the launch.
fn array_of(argument: &Argument) -> Result<Option<Array>, String> {
    match argument {
        Argument::Read { file } | Argument::Changed { file, .. } => Array::read(file).map(Some),
        // Its data is made on the device.
        Argument::Written { element, shape, .. } => {
            Ok(Some(Array { element: *element, shape: shape.clone(), data: Vec::new() }))
        }
        Argument::Number { .. } => Ok(None),
    }
}
