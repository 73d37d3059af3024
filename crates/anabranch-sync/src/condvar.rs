//! Condition variables.

use crate::MutexGuard;
use std::time::Duration;

/// A condition variable of `parking_lot`, which takes the guard and gives it back, as loom's does.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A condition variable that nobody waits for.
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Unlocks the mutex, waits until somebody notifies, and locks the mutex again.
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard.raw);
        guard
    }

    /// As [`wait`](Self::wait), for `pause` at the most.
    pub fn wait_for<'a, T>(&self, mut guard: MutexGuard<'a, T>, pause: Duration) -> MutexGuard<'a, T> {
        self.0.wait_for(&mut guard.raw, pause);
        guard
    }

    /// Wakes one of those who wait.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
