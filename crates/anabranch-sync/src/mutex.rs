//! Mutexes with ranks.

use crate::Rank;
use crate::held::{Access, Position, Token};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A mutex of `parking_lot` with a [`Rank`]. A panic while it is held does not poison it.
pub struct Mutex<T: ?Sized> {
    position: Position,
    raw: parking_lot::Mutex<T>,
}

/// Unlocks the mutex when it is dropped.
#[must_use = "the mutex is unlocked at once unless the guard is kept"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(crate) raw: parking_lot::MutexGuard<'a, T>,
    #[allow(dead_code, reason = "held for its drop")]
    token: Token,
}

impl<T> Mutex<T> {
    /// A mutex of that rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self::with_order(rank, 0, value)
    }

    /// A mutex of a rank that a thread takes several of at the same time, in ascending order of `order`.
    pub const fn with_order(rank: Rank, order: u64, value: T) -> Self {
        Self { position: Position::new(rank, order), raw: parking_lot::Mutex::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.raw.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex.
    ///
    /// # Panics
    /// In builds with debug assertions, when the thread holds a lock that has to be taken later.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.position.check(Access::Exclusive);
        MutexGuard { raw: self.raw.lock(), token: self.position.enter(Access::Exclusive) }
    }

    /// Locks the mutex unless somebody holds it. It does not wait, so that it may be taken in any order.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        Some(MutexGuard { raw: self.raw.try_lock()?, token: self.position.enter(Access::Exclusive) })
    }

    /// The value, which nobody else can lock meanwhile.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.raw.get_mut()
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(formatter)
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::Mutex;

    crate::ranks! { from 1;
        /// Taken first.
        LOW,
        /// Taken second.
        HIGH,
    }

    fn panics(body: impl FnOnce()) -> String {
        let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).expect_err("it panics");
        payload.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn locks_are_taken_in_the_order_of_their_ranks_and_released_in_any() {
        let (low, high) = (Mutex::new(LOW, 1), Mutex::new(HIGH, 2));
        let first = low.lock();
        let second = high.lock();
        drop(first);
        drop(second);
        drop(high.lock());
        drop(low.lock());
        assert_eq!((low.into_inner(), high.into_inner()), (1, 2));
    }

    #[test]
    fn the_wrong_order_panics_with_both_places() {
        let (low, high) = (Mutex::new(LOW, ()), Mutex::new(HIGH, ()));
        let message = panics(|| {
            let _second = high.lock();
            let _first = low.lock();
        });
        assert!(message.contains("LOW") && message.contains("HIGH") && message.contains("mutex.rs"), "{message}");
        // Both were released while the panic unwound.
        let _first = low.lock();
        let _second = high.lock();
    }

    #[test]
    fn locks_of_one_rank_are_taken_in_ascending_order() {
        let (first, second) = (Mutex::with_order(LOW, 1, ()), Mutex::with_order(LOW, 2, ()));
        let (one, two) = (first.lock(), second.lock());
        drop((one, two));
        let message = panics(|| {
            let _two = second.lock();
            let _one = first.lock();
        });
        assert!(message.contains("LOW"), "{message}");
        assert!(
            !panics(|| {
                let _one = first.lock();
                let _again = first.lock();
            })
            .is_empty(),
            "it would wait for itself"
        );
    }

    #[test]
    fn trying_does_not_wait_and_so_needs_no_order() {
        let (low, high) = (Mutex::new(LOW, ()), Mutex::new(HIGH, ()));
        let _second = high.lock();
        assert!(low.try_lock().is_some());
    }
}
