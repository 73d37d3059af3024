//! Finds the edges in a picture, band by band, on several streams that fork from one and join it again.
//!
//! Every band is uploaded, blurred and searched for edges on one of the streams. When all of them have come so far,
//! which takes an event each, the strongest edge of the whole picture is known on the device, and the streams fork again:
//! every band is stretched to the full range of grey, and downloaded. The same runs in one stream, to see what the others
//! gain. Kernels are CUDA C++ (`kernels.cu`), shipped as PTX. The software device runs twins of them in Rust (`kernels.rs`), which
//! take less time there, or with `--ptx` the PTX.
//!
//! ```text
//! cargo run --release --example edges -- --verify
//! cargo run --release --example edges -- --verify --ptx
//! cargo run --release --example edges -- --input photo.png --output edges.png --device cuda:0 --streams 8
//! ```

mod arguments;
mod bands;
mod kernels;
mod measure;
#[path = "../support/output.rs"]
mod output;
mod picture;
mod pipeline;
mod report;
mod serial;

use anabranch::Instance;
use arguments::Arguments;
use clap::CommandFactory;
use kernels::Kernels;
use measure::Measurements;
use picture::Picture;
use pipeline::Pipeline;
use report::Report;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    output::run(Arguments::command(), run)
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    picture::require_writable(&arguments.output)?;
    let instance = Instance::new()?;
    let device = match &arguments.device {
        Some(name) => instance.device(name)?,
        None => instance.default_device()?,
    };
    let picture = match &arguments.input {
        Some(path) => Picture::load(path, arguments.memory << 20)?,
        None => Picture::draw(3840, 2160)?,
    };
    let bands = bands::cut(picture.height(), arguments.bands);
    let streams = arguments.streams.min(bands.len());

    let context = device.context()?;
    let kernels = Kernels::load_for(&context, arguments.ptx)?;
    let mut pipeline = Pipeline::new(&context, kernels, &picture, &bands, streams)?;
    let measurements = Measurements::take(&mut pipeline, arguments.repeat)?;
    Picture::new(picture.width(), picture.height(), measurements.several.edges.clone())?.save(&arguments.output)?;
    let report = Report { arguments, device: &device, picture: &picture, bands: bands.len(), streams };
    report.print_measurements(&measurements)?;
    if arguments.verify {
        let begin = Instant::now();
        let expected = serial::edges(&picture);
        let taken = begin.elapsed();
        expected.require_equal(&measurements.one.edges, "the run in one stream")?;
        expected.require_equal(&measurements.several.edges, "the run in several streams")?;
        report.print_verified(taken)?;
    }
    report.print_written()?;
    Ok(())
}
