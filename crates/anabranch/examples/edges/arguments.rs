//! The command line.

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use std::path::PathBuf;

/// Find the edges in a picture, on several streams.
#[derive(Debug, Parser)]
#[command(name = "edges")]
pub(crate) struct Arguments {
    /// The picture, PNG or JPEG, of at most 2147483647 pixels; without it, one of 3840 by 2160 pixels is drawn
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// The most memory that decoding the picture may take, in MiB; what takes more is refused
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) memory: u64,

    /// Where the edges go, PNG or JPEG
    #[arg(long, value_name = "FILE", default_value = "edges.png")]
    pub(crate) output: PathBuf,

    /// The device, such as host or cuda:0; without it, what ANABRANCH_DEVICE names, or the first there is
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,

    /// Streams that share the bands; no more than there are bands are used
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = positive())]
    pub(crate) streams: usize,

    /// Bands that the picture is cut into; no more than it has rows
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = positive())]
    pub(crate) bands: usize,

    /// Compare with a serial computation on the processor, byte for byte
    #[arg(long)]
    pub(crate) verify: bool,

    /// Run the PTX of the kernels on the software device too, and not their twins in Rust
    #[arg(long)]
    pub(crate) ptx: bool,

    /// Runs that the median is taken of, after one that does not count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive())]
    pub(crate) repeat: usize,
}

fn positive() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=4096)
}
