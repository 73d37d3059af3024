//! Workers that could not be started are started as soon as they can be.
//!
//! The operating system may refuse a thread for a while. Work that is queued for it must not wait until the program calls
//! the device again, which it may never do. So a thread of its own, the *starter*, tries again. It is started before there is
//! a context to queue work in, because nobody could start it later.

use super::core::Engine;
use crate::ranks;
use anabranch_sync::{Condvar, Mutex};
use std::io;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the starter leaves it at that after a worker could not be started.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
struct State {
    thread: Option<JoinHandle<()>>,
    /// Whether a worker could not be started since the starter has last tried.
    is_asked: bool,
    is_stopping: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The starter of an engine.
#[derive(Debug)]
pub(super) struct Starter(Arc<Shared>);

impl Starter {
    pub(super) fn new() -> Self {
        let state = Mutex::new(ranks::STARTER, State::default());
        Self(Arc::new(Shared { state, changed: Condvar::new() }))
    }

    /// Starts the thread, unless it runs.
    pub(super) fn start(&self, engine: &Weak<Engine>) -> io::Result<()> {
        let mut state = self.0.state.lock();
        if state.thread.is_none() && !state.is_stopping {
            let (shared, engine) = (Arc::clone(&self.0), Weak::clone(engine));
            let thread = std::thread::Builder::new().name("anabranch-host-starter".to_owned());
            state.thread = Some(thread.spawn(move || shared.run(&engine))?);
        }
        Ok(())
    }

    /// Has the thread get a worker, if there is still work for one.
    pub(super) fn try_later(&self) {
        self.0.state.lock().is_asked = true;
        self.0.changed.notify_one();
    }

    /// Makes the thread end. It is waited for by whoever gets it.
    pub(super) fn stop(&self) -> Option<JoinHandle<()>> {
        let mut state = self.0.state.lock();
        state.is_stopping = true;
        self.0.changed.notify_one();
        state.thread.take()
    }
}

impl Shared {
    fn run(&self, engine: &Weak<Engine>) {
        let mut state = self.state.lock();
        while !state.is_stopping {
            if !state.is_asked {
                state = self.changed.wait(state);
                continue;
            }
            state.is_asked = false;
            state = self.changed.wait_for(state, PAUSE);
            drop(state);
            // If it cannot be started again, this is asked again.
            if let Some(engine) = engine.upgrade() {
                engine.restart_worker();
            }
            state = self.state.lock();
        }
    }
}
