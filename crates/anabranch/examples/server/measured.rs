//! A server and a load on it in one process, and what must hold at the end.

use crate::load::{self, Failure, Load, Outcome};
use crate::service::{Options, Service};
use crate::statistics::Counts;
use anabranch::Device;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// What came of it.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) outcome: Outcome,
    pub(crate) counts: Counts,
    pub(crate) taken: Duration,
}

/// What no load takes, even on a slow machine.
const LONGEST: Duration = Duration::from_secs(600);

/// Serves, puts the load on it, and ends. That something hangs, a request is lost, or memory is not given back is an error.
pub(crate) async fn run(device: &Device, options: Options, load: &Load) -> Result<Measured, Failure> {
    let onlooker = device.context()?;
    anabranch::flush_deferred_drops();
    let before = onlooker.memory_info()?.free;

    let service = Service::open(device, options.clone())?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(service.clone().serve(listener));
    let since = Instant::now();
    let outcome = tokio::time::timeout(LONGEST, load::run(address, &options, load)).await??;
    let taken = since.elapsed();
    tokio::time::timeout(LONGEST, service.close()).await?;
    serving.await?;

    let counts = service.statistics().counts();
    if counts.open() != 0 || counts.received != outcome.sent() {
        return Err(format!("requests are lost: {} were sent, {counts:?}", outcome.sent()).into());
    }
    drop(service);
    // Contexts and what is in them are closed by a thread of the library, when their last work is complete.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        anabranch::flush_deferred_drops();
        // What is free in the pool stays there until somebody wants it, or it is trimmed.
        device.default_memory_pool()?.trim(0)?;
        let after = onlooker.memory_info()?.free;
        if after >= before {
            return Ok(Measured { outcome, counts, taken });
        }
        if Instant::now() > deadline {
            return Err(format!("{} bytes of the device's memory were not given back", before - after).into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
