//! Turns of threads that submit work which uses the same memory.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How work uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Memory that one thread at a time writes, or any number of threads read: work is submitted meanwhile, and not run. Who submits may wait
/// for room in a stream, so that others wait here for a limited time. A thread that is to write comes before those that come later and
/// read.
#[derive(Default)]
pub(crate) struct Turn {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    readers: usize,
    is_written: bool,
    /// The threads that wait, and those of them that are to write. A turn that nobody waits for ends without a call of the system.
    waiting: usize,
    writers: usize,
}

impl State {
    fn is_free_for(&self, access: Access) -> bool {
        match access {
            Access::Read => !self.is_written && self.writers == 0,
            Access::Write => !self.is_written && self.readers == 0,
        }
    }
}

impl Turn {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn, which ends when the result is dropped. `None` if others have had it for so long.
    pub(crate) fn take(&self, access: Access, at_most: Duration) -> Option<Taken<'_>> {
        let mut state = self.lock();
        if !state.is_free_for(access) {
            let is_writer = usize::from(access == Access::Write);
            state.waiting += 1;
            state.writers += is_writer;
            let waited = self.ended.wait_timeout_while(state, at_most, |state| !state.is_free_for(access));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
            state.writers -= is_writer;
            if !state.is_free_for(access) {
                drop(state);
                // Those who read may have waited for this thread only.
                self.ended.notify_all();
                return None;
            }
        }
        match access {
            Access::Read => state.readers += 1,
            Access::Write => state.is_written = true,
        }
        Some(Taken { turn: self, access })
    }
}

/// A turn that a thread has.
pub(crate) struct Taken<'a> {
    turn: &'a Turn,
    access: Access,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.turn.lock();
        match self.access {
            Access::Read => state.readers -= 1,
            Access::Write => state.is_written = false,
        }
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.turn.ended.notify_all();
        }
    }
}
