//! Whether it pays to look on for a moment before a task goes to sleep.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How long a first poll looks on, unless the context is told otherwise.
pub(super) const USUAL: Duration = Duration::from_micros(20);

/// How long was lately waited for a stream.
#[derive(Default)]
pub(crate) struct WaitHistory {
    /// In nanoseconds, with a quarter of it the latest wait.
    average: AtomicU64,
    /// How many waits are not foretold any more, because one was foretold badly.
    distrust: AtomicU32,
}

/// Waits that are noted as long as this, in spins, were at least so long.
const LONGEST: u32 = 8;
/// How many waits are not foretold after one that was foretold badly.
const DISTRUST: u32 = 16;

impl WaitHistory {
    /// Whether a wait is likely to be over within the time.
    pub(super) fn promises(&self, within: Duration) -> bool {
        Duration::from_nanos(self.average.load(Ordering::Relaxed)) <= within
    }

    /// When to begin to look on, in the middle of a wait that is too long to be looked on for from its beginning: so that the
    /// time at which such waits are usually over is within the time of looking on, with room before it for waking the task.
    pub(super) fn look_again_after(&self, spin: Duration) -> Option<Duration> {
        if self.distrust.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let average = Duration::from_nanos(self.average.load(Ordering::Relaxed));
        // Of the longest it is not known how long they are.
        (average > spin && average < spin * (LONGEST - 1)).then(|| average - spin * 3 / 4)
    }

    /// A wait was foretold badly.
    pub(super) fn distrust(&self) {
        self.distrust.store(DISTRUST, Ordering::Relaxed);
    }

    /// Notes a wait, as no longer than eight times what is looked on for, so that a long one is soon forgotten.
    pub(super) fn note(&self, waited: Duration, spin: Duration) {
        let nanoseconds = u64::try_from(waited.min(spin * LONGEST).as_nanos()).unwrap_or(u64::MAX);
        let distrust = self.distrust.load(Ordering::Relaxed);
        if distrust > 0 {
            self.distrust.store(distrust - 1, Ordering::Relaxed);
        }
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
    fn waits_of_the_same_length_are_foretold_until_one_is_foretold_badly() {
        let (history, spin) = (WaitHistory::default(), USUAL);
        let fifty = Duration::from_micros(50);
        assert_eq!(history.look_again_after(spin), None);
        for _ in 0..30 {
            history.note(fifty, spin);
        }
        let after = history.look_again_after(spin).unwrap();
        assert!(after < fifty && after + spin > fifty, "{after:?}");
        history.distrust();
        for _ in 0..DISTRUST {
            assert_eq!(history.look_again_after(spin), None);
            history.note(fifty, spin);
        }
        assert!(history.look_again_after(spin).is_some());
        for _ in 0..30 {
            history.note(Duration::from_secs(1), spin);
        }
        assert_eq!(history.look_again_after(spin), None, "nobody knows how long");
        assert_eq!(history.look_again_after(Duration::ZERO), None);
    }

    #[test]
    fn nothing_is_promised_within_no_time_once_something_was_waited_for() {
        let history = WaitHistory::default();
        history.note(Duration::from_micros(3), USUAL);
        assert!(!history.promises(Duration::ZERO));
    }
}
