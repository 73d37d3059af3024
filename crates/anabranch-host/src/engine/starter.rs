//! Workers that could not be started are started as soon as they can be.
//!
//! The operating system may refuse a thread for a while. Work that is queued for it must not wait until the program calls
//! the device again, which it may never do. So one thread of the process, the *starter*, tries again. It is started
//! before there is a context to queue work in, because nobody could start it later.

use super::core::Engine;
use crate::ranks;
use anabranch_sync::{Condvar, Mutex};
use std::io;
use std::sync::Weak;
use std::time::Duration;

/// How long the starter leaves it at that after a worker could not be started.
const PAUSE: Duration = Duration::from_millis(2);

struct Starter {
    is_running: bool,
    /// The engines that lack workers.
    lacking: Vec<Weak<Engine>>,
}

static STARTER: Mutex<Starter> = Mutex::new(ranks::STARTER, Starter { is_running: false, lacking: Vec::new() });

static SOMETHING_LACKS: Condvar = Condvar::new();

/// Starts the starter, unless it runs.
pub(super) fn start() -> io::Result<()> {
    let mut starter = STARTER.lock();
    if !starter.is_running {
        std::thread::Builder::new().name("anabranch-host-starter".to_owned()).spawn(run)?;
        starter.is_running = true;
    }
    Ok(())
}

/// Has the starter get a worker for an engine that could not start one, if there is still work for it.
pub(super) fn try_later(engine: Weak<Engine>) {
    let mut starter = STARTER.lock();
    if !starter.lacking.iter().any(|lacking| lacking.ptr_eq(&engine)) {
        starter.lacking.push(engine);
        SOMETHING_LACKS.notify_one();
    }
}

fn run() {
    loop {
        let mut starter = STARTER.lock();
        while starter.lacking.is_empty() {
            starter = SOMETHING_LACKS.wait(starter);
        }
        drop(starter);
        std::thread::sleep(PAUSE);
        let lacking = std::mem::take(&mut STARTER.lock().lacking);
        for engine in lacking.iter().filter_map(Weak::upgrade) {
            // If it cannot be started again, the engine is among those that lack one again.
            engine.restart_worker();
        }
    }
}
