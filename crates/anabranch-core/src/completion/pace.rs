//! How often the reactor checks while something is awaited.

use super::registry::Sleep;
use std::time::{Duration, Instant};

/// For this long after the last event, the reactor checks without a pause.
const BUSY: Duration = Duration::from_micros(20);
/// For this long, it yields to other threads between checks. One of them may be what it waits for.
const YIELDING: Duration = Duration::from_micros(150);
/// Afterwards it sleeps, each time for this fraction of the time waited so far, so that it is late by at most that
/// fraction.
const PART: u32 = 8;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
/// A task that was woken is likely to wait again soon. For this long, the reactor stays awake with nothing to wait for.
const LINGERING: Duration = Duration::from_micros(50);

/// While tasks take turns in submitting and awaiting work, the time between checks: polling the driver contends with
/// submission.
const GAP: Duration = Duration::from_micros(10);

/// Leaves the driver to the threads that submit work for a moment.
pub(crate) fn yield_driver() {
    let since = Instant::now();
    while since.elapsed() < GAP {
        std::thread::yield_now();
    }
}

/// The time since something happened, and what it means for the next check.
pub(crate) struct Pace {
    last: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { last: Instant::now() }
    }

    /// Something was reached, or came in.
    pub(crate) fn restart(&mut self) {
        self.last = Instant::now();
    }

    /// How long to sleep before the next check, depending on whether anything is awaited. For waits that are too short
    /// to sleep, this itself lets a moment pass.
    pub(crate) fn sleep(&self, is_awaited: bool) -> Sleep {
        let waited = self.last.elapsed();
        if !is_awaited && waited >= LINGERING {
            Sleep::UntilSomethingComes
        } else if waited < BUSY {
            std::hint::spin_loop();
            Sleep::No
        } else if waited < YIELDING {
            std::thread::yield_now();
            Sleep::No
        } else {
            Sleep::For((waited / PART).clamp(SHORTEST, LONGEST))
        }
    }
}
