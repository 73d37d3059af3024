//! The thread that looks after what futures wait for. There is one of a context, from the first future that has to wait
//! to the end of the context.

use super::diagnostics::Counters;
use super::interest::Point;
use super::lanes::Lanes;
use super::pace::{self, Pace};
use super::registry::{Arrivals, Registry, Sleep};
use crate::error::{Error, ErrorKind};
use anabranch_hal::{CaptureMode, Driver, Status};
use std::sync::Arc;

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
    let mut sleep = Sleep::UntilSomethingComes;
    loop {
        match registry.collect(&mut lanes, sleep) {
            Arrivals::Some => pace.restart(),
            Arrivals::None => {}
            Arrivals::Closed => break,
        }
        if lanes.look() {
            pace.restart();
        } else if matches!(sleep, Sleep::For(_)) {
            // An error that no front of a lane has met, because work that will never run is ahead of it.
            lanes.check_context();
        }
        lanes.wake_early();
        registry.sweep(&mut lanes);
        counters.add_looks(lanes.take_looks());
        sleep = pace.sleep(!lanes.is_empty());
        if lanes.is_shared() && !lanes.is_empty() {
            pace::make_way();
        }
    }
    // Whoever waits keeps the context, so nobody does.
    lanes.fail(&closed());
}

/// The error of a wait in a context that is no more.
pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Driver, Status::CONTEXT_IS_DESTROYED, "awaiting completion")
}
