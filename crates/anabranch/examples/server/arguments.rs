//! The command line.

use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;

/// How many pixels the largest picture has unless the command line says otherwise.
const LARGEST: u32 = 16 << 20;

/// Kernels count pixels in 31 bits.
const MOST: i64 = i32::MAX as i64;

/// Find edges in pictures for whoever asks over TCP.
#[derive(Debug, Parser)]
#[command(name = "server")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve until interrupted
    Serve {
        /// Where to listen
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
        listen: SocketAddr,

        #[command(flatten)]
        service: ServiceArguments,
    },
    /// Serve, and put a load on it: requests, cancellations, and failures on purpose; every answer is checked
    Load {
        #[command(flatten)]
        service: ServiceArguments,

        #[command(flatten)]
        load: LoadArguments,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ServiceArguments {
    /// The device, such as host or cuda:0; without it, what ANABRANCH_DEVICE names, or the first there is
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,

    /// How many requests are worked on at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) streams: u16,

    /// How many milliseconds a request may take, waiting for its turn included
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline: u64,

    /// How many pixels the largest picture may have; a request with more is refused
    #[arg(long, value_name = "PIXELS", default_value_t = LARGEST, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    pub(crate) largest: u32,

    /// Run the PTX of the kernels on the software device too, and not their twins in Rust
    #[arg(long)]
    pub(crate) ptx: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArguments {
    /// How many requests there are
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) requests: u64,

    /// How many clients make them at the same time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) clients: u16,

    /// The longest side of a picture, in pixels; its square may be no more than --largest
    #[arg(long, value_name = "PIXELS", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=46340))]
    pub(crate) side: u32,

    /// How many requests of a hundred are cancelled, or made to fail
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) trouble: u8,

    /// What the random choices begin with; the same again for the same choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
}
