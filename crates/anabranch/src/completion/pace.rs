//! How often the reactor looks while something is awaited.

use super::registry::Sleep;
use std::time::{Duration, Instant};

/// For as long as this after the last event the reactor looks without a pause.
const BUSY: Duration = Duration::from_micros(20);
/// For as long as this it lets other threads run between looks. One of them may be what it waits for.
const YIELDING: Duration = Duration::from_micros(150);
/// Then it sleeps, each time for this part of what was waited so far, so that it comes late by that part at most.
const PART: u32 = 8;
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
/// Who was woken is likely to be back soon. For as long as this the reactor stays awake with nothing to look at.
const LINGERING: Duration = Duration::from_micros(50);

/// While tasks take turns in queueing and awaiting work, so long between looks: what is asked often hinders who queues.
const WAY: Duration = Duration::from_micros(10);

/// Lets the threads that queue work have the driver for a moment.
pub(crate) fn make_way() {
    let since = Instant::now();
    while since.elapsed() < WAY {
        std::thread::yield_now();
    }
}

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

    /// How long to sleep before the next look, when there is something to look at or nothing. Short waits are not slept
    /// through: then this itself lets a moment pass.
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
