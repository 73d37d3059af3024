//! The example `server` bears its load on the host device: every request is answered or fails with a reason, nothing leaks,
//! nothing hangs.
#![cfg(feature = "host")]

use anabranch::Instance;
use load::{Failure, Load};
use service::Options;
use std::time::Duration;

#[path = "../examples/server/engine.rs"]
mod engine;
#[path = "../examples/edges/kernels.rs"]
mod kernels;
#[path = "../examples/server/load.rs"]
#[allow(dead_code, reason = "the example also prints what came of it")]
mod load;
#[path = "../examples/server/measured.rs"]
#[allow(dead_code, reason = "as above")]
mod measured;
#[path = "../examples/edges/picture.rs"]
#[allow(dead_code, reason = "the example also loads and saves pictures")]
mod picture;
#[path = "../examples/server/protocol.rs"]
mod protocol;
#[path = "../examples/edges/serial.rs"]
mod serial;
#[path = "../examples/server/service.rs"]
mod service;
#[path = "../examples/server/statistics.rs"]
mod statistics;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_with_cancellations_and_failures_is_borne() -> Result<(), Failure> {
    let device = Instance::new()?.device("host")?;
    let options = Options { streams: 4, deadline: Duration::from_millis(1500), allow_injection: true };
    let load = Load { requests: 300, clients: 12, side: 60, trouble: 40, faults: true, seed: 7 };
    let measured = measured::run(&device, options, &load).await?;
    assert!(measured.outcome.right() > 0);
    assert_eq!(measured.counts.open(), 0);
    Ok(())
}

#[tokio::test]
async fn requests_that_are_left_in_peace_are_all_answered() -> Result<(), Failure> {
    let device = Instance::new()?.device("host")?;
    let options = Options { streams: 2, deadline: Duration::from_secs(300), allow_injection: false };
    let load = Load { requests: 100, clients: 5, side: 40, trouble: 0, faults: false, seed: 1 };
    let measured = measured::run(&device, options, &load).await?;
    assert_eq!((measured.outcome.right(), measured.outcome.unlucky()), (100, 0));
    Ok(())
}
