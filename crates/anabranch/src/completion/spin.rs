//! Whether it pays to look on for a moment before a task goes to sleep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a first poll looks on, unless the context is told otherwise.
pub(super) const USUAL: Duration = Duration::from_micros(20);

/// How long was lately waited for a stream.
#[derive(Default)]
pub(crate) struct WaitHistory {
    /// In nanoseconds, with a quarter of it the latest wait.
    average: AtomicU64,
}

impl WaitHistory {
    /// Whether a wait is likely to be over within the time.
    pub(super) fn promises(&self, within: Duration) -> bool {
        Duration::from_nanos(self.average.load(Ordering::Relaxed)) <= within
    }

    /// Notes a wait, as no longer than eight times what is looked on for, so that a long one is soon forgotten.
    pub(super) fn note(&self, waited: Duration, spin: Duration) {
        let nanoseconds = u64::try_from(waited.min(spin * 8).as_nanos()).unwrap_or(u64::MAX);
        let average = self.average.load(Ordering::Relaxed);
        if average == 0 && nanoseconds == 0 {
            return;
        }
        // Two waits noted at once may lose one of them, which does no harm.
        self.average.store(average - average / 4 + nanoseconds / 4, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_are_not_looked_on_for_until_short_ones_return() {
        let (history, spin) = (WaitHistory::default(), USUAL);
        assert!(history.promises(spin));
        for _ in 0..10 {
            history.note(Duration::from_secs(1), spin);
        }
        assert!(!history.promises(spin));
        for _ in 0..10 {
            history.note(Duration::from_micros(3), spin);
        }
        assert!(history.promises(spin));
    }

    #[test]
    fn nothing_is_promised_within_no_time_once_something_was_waited_for() {
        let history = WaitHistory::default();
        history.note(Duration::from_micros(3), USUAL);
        assert!(!history.promises(Duration::ZERO));
    }
}
