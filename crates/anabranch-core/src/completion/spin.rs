//! Whether it pays to spin for a moment before a task goes to sleep.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How long a first poll spins by default.
pub(crate) const DEFAULT: Duration = Duration::from_micros(20);

/// Recent waiting times of a stream.
pub struct WaitHistory {
    /// In nanoseconds, with a quarter of it the latest wait.
    average: AtomicU64,
    /// How many waits are not predicted, because a prediction was wrong.
    distrust: AtomicU32,
    /// Without spinning: how long, in nanoseconds, before the end of a wait its task is woken, so that it runs just
    /// after the end.
    lead: AtomicU64,
}

/// Roughly the time, in nanoseconds, that it takes to wake a thread; and how the lead changes after a task ran before
/// or after the end of its wait.
const FIRST_LEAD: u64 = 6_000;
const LATER: u64 = 500;
const SOONER: u64 = 50;

/// Waits that are noted with this time took at least as long.
fn longest(spin: Duration) -> Duration {
    if spin.is_zero() { DEFAULT * 8 } else { spin * 8 }
}

/// How many waits are not predicted after a wrong prediction.
const DISTRUST: u32 = 16;

impl Default for WaitHistory {
    fn default() -> Self {
        Self { average: AtomicU64::new(0), distrust: AtomicU32::new(0), lead: AtomicU64::new(FIRST_LEAD) }
    }
}

impl WaitHistory {
    /// Whether a wait is likely to be over within the time.
    pub fn promises(&self, within: Duration) -> bool {
        Duration::from_nanos(self.average.load(Ordering::Relaxed)) <= within
    }

    /// When, during a wait that is too long to spin from its beginning, its task is woken to check itself. If the task
    /// may spin, it is woken so that the usual end of such waits falls within the spinning time; otherwise so that it
    /// runs just after the end.
    pub fn check_again_after(&self, spin: Duration) -> Option<Duration> {
        if self.distrust.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let average = Duration::from_nanos(self.average.load(Ordering::Relaxed));
        // Of the longest it is not known how long they are.
        if average <= spin || average >= longest(spin) * 7 / 8 {
            return None;
        }
        let lead = match spin.is_zero() {
            true => Duration::from_nanos(self.lead.load(Ordering::Relaxed)),
            false => spin * 3 / 4,
        };
        Some(average.saturating_sub(lead))
    }

    /// A task that was woken early has checked itself for that long, and the wait was over or not.
    pub fn checked_again(&self, spin: Duration, was_over: bool, waited: Duration) {
        match (spin.is_zero(), was_over) {
            // When it was over is not known.
            (true, true) => _ = self.lead.fetch_add(SOONER, Ordering::Relaxed),
            (true, false) => {
                let lead = self.lead.load(Ordering::Relaxed);
                self.lead.store(lead.saturating_sub(LATER), Ordering::Relaxed);
            }
            (false, true) => self.note(waited, spin),
            (false, false) => self.distrust.store(DISTRUST, Ordering::Relaxed),
        }
    }

    /// Notes a wait, as no longer than eight times the spinning time, so that a long one is soon forgotten.
    pub fn note(&self, waited: Duration, spin: Duration) {
        let nanoseconds = u64::try_from(waited.min(longest(spin)).as_nanos()).unwrap_or(u64::MAX);
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
    fn nobody_spins_for_long_waits_until_short_ones_return() {
        let (history, spin) = (WaitHistory::default(), DEFAULT);
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
    fn waits_of_the_same_length_are_predicted_until_a_prediction_is_wrong() {
        let (history, spin) = (WaitHistory::default(), DEFAULT);
        let fifty = Duration::from_micros(50);
        assert_eq!(history.check_again_after(spin), None);
        for _ in 0..30 {
            history.note(fifty, spin);
        }
        let after = history.check_again_after(spin).unwrap();
        assert!(after < fifty && after + spin > fifty, "{after:?}");
        history.checked_again(spin, false, fifty);
        for _ in 0..DISTRUST {
            assert_eq!(history.check_again_after(spin), None);
            history.note(fifty, spin);
        }
        assert!(history.check_again_after(spin).is_some());
        for _ in 0..30 {
            history.note(Duration::from_secs(1), spin);
        }
        assert_eq!(history.check_again_after(spin), None, "nobody knows how long");
        assert_eq!(history.check_again_after(Duration::ZERO), None);
    }

    #[test]
    fn without_a_spin_tasks_are_woken_so_that_most_run_just_after_the_end() {
        let (history, no_spin) = (WaitHistory::default(), Duration::ZERO);
        let (wait, wake) = (Duration::from_micros(50), Duration::from_nanos(8_200));
        for _ in 0..30 {
            history.note(wait, no_spin);
        }
        let mut early = 0;
        for _ in 0..1000 {
            let runs = history.check_again_after(no_spin).unwrap() + wake;
            early += u32::from(runs < wait);
            history.checked_again(no_spin, runs >= wait, runs);
            assert!(runs < wait * 11 / 10);
        }
        assert!(early > 0 && early < 150, "{early}");
    }

    #[test]
    fn nothing_is_promised_within_no_time_once_something_was_waited_for() {
        let history = WaitHistory::default();
        history.note(Duration::from_micros(3), DEFAULT);
        assert!(!history.promises(Duration::ZERO));
    }
}
