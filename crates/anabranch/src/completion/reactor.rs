//! The thread that looks after what futures wait for. There is one of a context, from the first future that has to wait
//! to the end of the context.

use super::diagnostics::Counters;
use super::interest::Point;
use super::lanes::Lanes;
use super::pace::Pace;
use super::registry::{Arrivals, Registry};
use crate::error::{Error, ErrorKind};
use anabranch_hal::{CaptureMode, Driver, Status};
use std::sync::Arc;
use std::time::Duration;

/// Starts the thread. `None`: there is no thread to be had.
pub(super) fn start<P: Point>(driver: Arc<dyn Driver>, counters: Arc<Counters>) -> Option<Arc<Registry<P>>> {
    let registry = Arc::new(Registry::new());
    let shared = registry.clone();
    let thread = std::thread::Builder::new().name("anabranch-reactor".to_owned());
    counters.set_running(true);
    let spawned = thread.spawn({
        let counters = counters.clone();
        move || {
            // What it asks belongs to no capture, so it must spoil none. A driver too old to capture has none to spoil.
            let _ = driver.thread_exchange_capture_mode(CaptureMode::Relaxed);
            // The driver is not kept any longer: this thread may see the end of the context, and is not to prolong it.
            drop(driver);
            run(&shared, &counters);
            counters.set_running(false);
        }
    });
    if spawned.is_err() {
        counters.set_running(false);
        return None;
    }
    Some(registry)
}

/// The thread's life: sleeps while nobody waits, and looks as often as it pays while somebody does.
pub(super) fn run<P: Point>(registry: &Registry<P>, counters: &Counters) {
    let mut lanes = Lanes::new();
    let mut pace = Pace::new();
    let mut pause = Duration::ZERO;
    loop {
        match registry.collect(&mut lanes, pause) {
            Arrivals::Some => pace.restart(),
            Arrivals::None => {}
            Arrivals::Closed => break,
        }
        if lanes.look() {
            pace.restart();
        } else if !pause.is_zero() {
            // An error that no front of a lane has met, because work that will never run is ahead of it.
            lanes.check_context();
        }
        registry.sweep(&mut lanes);
        counters.add_looks(lanes.take_looks());
        pause = if lanes.is_empty() { Duration::ZERO } else { pace.pause() };
    }
    // Whoever waits keeps the context, so nobody does.
    lanes.fail(&closed());
}

/// The error of a wait in a context that is no more.
pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Driver, Status::CONTEXT_IS_DESTROYED, "awaiting completion")
}
