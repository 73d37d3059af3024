//! Whether a stream has work that the host has not waited for.

use anabranch_sync::modelled::AtomicU64;
use std::sync::atomic::Ordering;

/// The host has waited for all work.
const IDLE: u64 = 0;
/// Work was submitted since the host last began to wait for the stream.
const BUSY: u64 = 1;
const FIRST_WAIT: u64 = 2;

/// Whether the host has waited for all work that was submitted to a stream.
pub struct SubmittedWork {
    /// [`IDLE`], [`BUSY`], or the number of the wait that began last, if nothing was submitted since.
    state: AtomicU64,
    /// The number of the next wait.
    waits: AtomicU64,
}

impl Default for SubmittedWork {
    fn default() -> Self {
        Self { state: AtomicU64::new(IDLE), waits: AtomicU64::new(FIRST_WAIT) }
    }
}

impl SubmittedWork {
    /// Notes that work was submitted. It is called after the driver was, so that a thread that waits for the stream at
    /// the same time either waits for that work too, or finds this noted afterwards.
    #[inline(always)]
    pub fn note(&self) {
        if self.state.load(Ordering::Relaxed) != BUSY {
            self.state.store(BUSY, Ordering::Relaxed);
        }
    }

    /// Called before the host waits for all work. `None`: there is none. Otherwise, what to call
    /// [`has_waited`](Self::has_waited) with.
    pub fn begins_to_wait(&self) -> Option<u64> {
        self.is_pending().then(|| {
            let wait = self.waits.fetch_add(1, Ordering::Relaxed);
            self.state.store(wait, Ordering::Relaxed);
            wait
        })
    }

    /// The host has waited, and what was submitted before is complete. There may still be work that was submitted since, and
    /// others may wait for that.
    pub fn has_waited(&self, wait: u64) {
        let _ = self.state.compare_exchange(wait, IDLE, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether there may be work that is not complete. If not, whoever asks sees what the work has written, as the thread does
    /// that has waited for it.
    #[inline(always)]
    pub fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) != IDLE
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::SubmittedWork;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::thread;

    /// A thread that finds no work has not waited for any, and may still read what the work wrote.
    #[test]
    fn loom_what_work_has_written_is_seen_by_a_thread_that_finds_none() {
        loom::model(|| {
            let (work, written) = (Arc::new(SubmittedWork::default()), Arc::new(AtomicBool::new(false)));
            work.note();
            let wait = work.begins_to_wait().unwrap();
            let waits = {
                let (work, written) = (work.clone(), written.clone());
                thread::spawn(move || {
                    // The work, whose end the thread has seen.
                    written.store(true, Ordering::Relaxed);
                    work.has_waited(wait);
                })
            };
            assert!(work.is_pending() || written.load(Ordering::Relaxed));
            waits.join().unwrap();
            assert!(!work.is_pending());
        });
    }
}
