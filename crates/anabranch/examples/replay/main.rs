//! Captures the pipeline of the example `edges` once, and replays it over many pictures.
//!
//! Everything that `edges` does for a picture (uploads, kernels, downloads, on several streams that fork and join) becomes
//! one graph, which takes a single call to launch. Pictures go in and out through pinned memory, which the graph uses and
//! the host reaches in between.
//!
//! ```text
//! cargo run --release --example replay -- --verify
//! cargo run --release --example replay -- --pictures 1000 --device cuda:0 --dot pipeline.dot
//! ```

#[path = "../edges/bands.rs"]
mod bands;
#[path = "../edges/kernels.rs"]
mod kernels;
#[path = "../support/output.rs"]
mod output;
#[allow(dead_code, reason = "what only `edges` uses")]
#[path = "../edges/picture.rs"]
mod picture;
#[allow(dead_code, reason = "what only `edges` uses")]
#[path = "../edges/pipeline.rs"]
mod pipeline;
#[path = "../edges/serial.rs"]
mod serial;

use anabranch::Instance;
use clap::{CommandFactory, Parser};
use indicatif::ProgressBar;
use kernels::Kernels;
use picture::Picture;
use pipeline::{Lanes, Pipeline};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Capture a pipeline once, and replay it over many pictures.
#[derive(Debug, Parser)]
#[command(name = "replay")]
struct Arguments {
    /// How many pictures there are, each of 640 by 360 pixels; at most 4294967295
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pictures: u32,

    /// The device, such as host or cuda:0; without it, what ANABRANCH_DEVICE names, or the first there is
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,

    /// Compare every picture with a serial computation on the processor, byte for byte
    #[arg(long)]
    verify: bool,

    /// Run the PTX of the kernels on the software device too, and not their twins in Rust
    #[arg(long)]
    ptx: bool,

    /// Write the graph there, in the language of Graphviz
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
}

const WIDTH: usize = 640;
const HEIGHT: usize = 360;
const BANDS: usize = 8;
const STREAMS: usize = 4;

fn main() -> ExitCode {
    output::run(Arguments::command(), run)
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let instance = Instance::new()?;
    let device = match &arguments.device {
        Some(name) => instance.device(name)?,
        None => instance.default_device()?,
    };
    let first = Picture::draw(WIDTH, HEIGHT)?;
    let context = device.context()?;
    let kernels = Kernels::load_for(&context, arguments.ptx)?;
    let mut pipeline = Pipeline::new(&context, kernels, &first, &bands::cut(HEIGHT, BANDS), STREAMS)?;
    // The first launch of a kernel loads it, which is not to count.
    pipeline.run(Lanes::Several)?;

    let begin = Instant::now();
    let graph = pipeline.capture()?;
    let nodes = graph.nodes()?.len();
    if let Some(path) = &arguments.dot {
        std::fs::write(path, graph.to_dot()?).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let captured = graph.instantiate()?;
    output::line(format_args!("device     {device} ({})", device.properties().name))?;
    output::line(format_args!("captured   {nodes} nodes in {:.3} ms", milliseconds(begin.elapsed())))?;

    let bar = ProgressBar::new(arguments.pictures.into()); // hidden where there is no terminal
    let (mut replayed, mut queued) = (Duration::ZERO, Duration::ZERO);
    for number in 0..arguments.pictures {
        let picture = shifted(&first, number as usize)?;
        pipeline.put_in(&picture)?;
        let begin = Instant::now();
        pipeline.replay(&captured)?;
        replayed += begin.elapsed();
        let edges = pipeline.edges()?;
        if arguments.verify {
            serial::edges(&picture).require_equal(&edges, &format!("picture {number}"))?;
        }
        let begin = Instant::now();
        pipeline.run(Lanes::Several)?;
        queued += begin.elapsed();
        if pipeline.edges()? != edges {
            return Err(format!("the replay of picture {number} differs from a plain run").into());
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mean = |time: Duration| milliseconds(time) / f64::from(arguments.pictures);
    output::line(format_args!("replayed   {} pictures, {:.3} ms each", arguments.pictures, mean(replayed)))?;
    output::line(format_args!("queued     the same, call by call, {:.3} ms each", mean(queued)))?;
    if arguments.verify {
        output::line(format_args!("verified   byte for byte against a serial computation"))?;
    }
    Ok(())
}

/// The picture with its columns moved on, so that every one is another.
fn shifted(picture: &Picture, by: usize) -> Result<Picture, String> {
    let mut pixels = picture.pixels().to_vec();
    for row in pixels.chunks_exact_mut(picture.width()) {
        row.rotate_left(by * 7 % picture.width());
    }
    Picture::new(picture.width(), picture.height(), pixels)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
