//! How often the reactor looks while something is awaited.

use std::time::{Duration, Instant};

/// For as long as this after the last event the reactor looks without a pause.
const BUSY: Duration = Duration::from_micros(20);
/// For as long as this it lets other threads run between looks. One of them may be what it waits for.
const YIELDING: Duration = Duration::from_micros(150);
/// Then it sleeps, each time for this part of what was waited so far, so that it comes late by that part at most.
const PART: u32 = 8;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

/// The time since something happened, and what it means for the next look.
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

    /// How long to sleep before the next look. Short waits are not slept through: then this itself lets a moment pass.
    pub(crate) fn pause(&self) -> Duration {
        let waited = self.last.elapsed();
        if waited < BUSY {
            std::hint::spin_loop();
            Duration::ZERO
        } else if waited < YIELDING {
            std::thread::yield_now();
            Duration::ZERO
        } else {
            (waited / PART).clamp(SHORTEST, LONGEST)
        }
    }
}
