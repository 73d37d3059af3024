//! The thread that waits for what futures wait for. Each context has one, from the first future that has to wait to the
//! end of the context.

use super::diagnostics::Counters;
use super::pace::{self, Pace};
use super::registry::{Arrivals, Registry, Sleep};
use super::wait_queues::WaitQueues;
use super::waiter::Awaitable;
use crate::error::{Error, ErrorKind};
use crate::process_exit;
use crate::thread_capture_mode;
use anabranch_hal::{Driver, Status};
use std::sync::Arc;

/// Starts the thread. `None`: no thread can be started.
pub(crate) fn start<P: Awaitable>(driver: Arc<dyn Driver>, counters: Arc<Counters>) -> Option<Arc<Registry<P>>> {
    process_exit::watch();
    let registry = Arc::new(Registry::new());
    let shared = registry.clone();
    let thread = std::thread::Builder::new().name("anabranch-reactor".to_owned());
    counters.set_running(true);
    let spawned = thread.spawn({
        let counters = counters.clone();
        move || {
            // What it asks belongs to no capture, so it must invalidate none.
            thread_capture_mode::relax_this_thread(&*driver);
            // The driver is released: this thread must not keep the context open.
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

/// Runs the thread: it sleeps while nobody waits, and checks as often as it pays while somebody does.
pub(crate) fn run<P: Awaitable>(registry: &Registry<P>, counters: &Counters) {
    let mut queues = WaitQueues::new();
    let mut pace = Pace::new();
    let mut sleep = Sleep::UntilSomethingComes;
    loop {
        match registry.collect(&mut queues, sleep) {
            Arrivals::Some => pace.restart(),
            Arrivals::None => {}
            Arrivals::Closed => break,
        }
        let _busy = process_exit::busy();
        if queues.check() {
            pace.restart();
        } else if matches!(sleep, Sleep::For(_)) {
            // An error that no front of a queue has met, because work that will never run is ahead of it.
            queues.check_context();
        }
        queues.wake_early();
        registry.sweep(&mut queues);
        counters.add_checks(queues.take_checks());
        sleep = pace.sleep(!queues.is_empty());
        if queues.is_shared() && !queues.is_empty() {
            pace::yield_driver();
        }
    }
    // A waiter keeps the context alive, so there is none.
    queues.fail(&closed());
}

/// The error of a wait in a context that no longer exists.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Driver, Status::CONTEXT_IS_DESTROYED, "awaiting completion")
}
