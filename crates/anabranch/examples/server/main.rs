//! A server that finds the edges in pictures, and a load that it must bear.
//!
//! Each request has a stream to itself while it is worked on: it uploads, launches, downloads, and awaits that on
//! whichever thread of tokio is free. A client that cancels, a connection that breaks, or a deadline that passes drops the
//! request's future, and that is all there is to giving it up: memory and stream are given back behind the work. A client
//! that has sent its last request, and closes that half of the connection, still gets its answer. A request whose work
//! fails is answered with the reason; one that loses the context costs others that are in it, and the next one gets a
//! new context.
//!
//! ```text
//! cargo run --release --example server -- load --device host
//! cargo run --release --example server -- load --device host --ptx
//! cargo run --release --example server -- serve --listen 127.0.0.1:7878
//! ```

mod arguments;
mod engine;
#[path = "../edges/kernels.rs"]
mod kernels;
mod load;
mod measured;
#[path = "../support/output.rs"]
mod output;
#[allow(dead_code, reason = "what only `edges` uses")]
#[path = "../edges/picture.rs"]
mod picture;
mod protocol;
#[path = "../edges/serial.rs"]
mod serial;
mod service;
mod statistics;

use anabranch::{BackendKind, Device, Instance};
use arguments::{Arguments, Command, LoadArguments, ServiceArguments};
use clap::CommandFactory;
use load::{Failure, Load};
use service::{Options, Service};
use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;

fn main() -> ExitCode {
    output::run(Arguments::command(), |arguments| run(arguments).map_err(|error| error as Box<dyn Error>))
}

#[tokio::main]
async fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Serve { listen, service } => serve(*listen, service).await,
        Command::Load { service, load } => put_load(service, load).await,
    }
}

fn open(arguments: &ServiceArguments, allow_injection: bool) -> Result<(Device, Options), Failure> {
    let instance = Instance::new()?;
    let device = match &arguments.device {
        Some(name) => instance.device(name)?,
        None => instance.default_device()?,
    };
    let (streams, deadline) = (usize::from(arguments.streams), Duration::from_millis(arguments.deadline));
    Ok((device, Options { streams, deadline, largest: arguments.largest, allow_injection, ptx: arguments.ptx }))
}

async fn serve(listen: SocketAddr, arguments: &ServiceArguments) -> Result<(), Failure> {
    let (device, options) = open(arguments, false)?;
    let listener = TcpListener::bind(listen).await?;
    output::line(format_args!("serving on {} with {device}", listener.local_addr()?))?;
    let service = Service::open(&device, options)?;
    let serving = tokio::spawn(service.clone().serve(listener));
    tokio::signal::ctrl_c().await?;
    service.close().await;
    serving.await?;
    output::line(format_args!("{:?}", service.statistics().counts()))?;
    Ok(())
}

async fn put_load(service: &ServiceArguments, arguments: &LoadArguments) -> Result<(), Failure> {
    if u64::from(arguments.side).pow(2) > u64::from(service.largest) {
        return Err(format!(
            "pictures of {0} by {0} pixels have more than {1}, which --largest allows",
            arguments.side, service.largest
        )
        .into());
    }
    let (device, options) = open(service, true)?;
    let load = Load {
        requests: arguments.requests,
        clients: arguments.clients,
        side: arguments.side,
        trouble: arguments.trouble,
        // Hardware loses all contexts of the process, for good.
        faults: device.backend() == BackendKind::Host,
        seed: arguments.seed,
    };
    let measured = measured::run(&device, options, &load).await?;
    let rate = measured.counts.received as f64 / measured.taken.as_secs_f64();
    output::line(format_args!(
        "{device}: {} requests in {:.2?}, {rate:.0} a second",
        measured.counts.received, measured.taken
    ))?;
    output::line(format_args!("{}", measured.outcome))?;
    output::line(format_args!(
        "{} pictures were right; {} requests failed that nobody had made fail",
        measured.outcome.right(),
        measured.outcome.unlucky()
    ))?;
    output::line(format_args!("every request was answered or failed with a reason, nothing leaked, nothing hung"))?;
    Ok(())
}
