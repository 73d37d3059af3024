//! Mutexes that are unlocked by a plain store.

use crate::Rank;
use crate::held::{Access, Position, Token};
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// After so many looks a waiting thread lets others run between them.
const YIELD_AFTER: u32 = 64;

/// After so many looks it sleeps between them.
const SLEEP_AFTER: u32 = 80;

/// How long it sleeps.
const PAUSE: Duration = Duration::from_micros(50);

/// A mutex with a [`Rank`] for what is locked on every call and where threads hardly ever meet.
///
/// Unlocking is a plain store, where other mutexes need an atomic read-modify-write operation to find out whether somebody
/// sleeps. So threads that do meet are not woken: they spin, then yield, then look every 50 microseconds. A panic while it is
/// held does not poison it.
pub struct SpinMutex<T> {
    position: Position,
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, and there is one guard at a time, so that threads take turns with it.
unsafe impl<T: Send> Sync for SpinMutex<T> {}

/// Unlocks the mutex when it is dropped.
#[must_use = "the mutex is unlocked at once unless the guard is kept"]
pub struct SpinMutexGuard<'a, T> {
    mutex: &'a SpinMutex<T>,
    #[allow(dead_code, reason = "held for its drop")]
    token: Token,
}

// SAFETY: a shared guard gives shared references to the value, and nothing else.
unsafe impl<T: Sync> Sync for SpinMutexGuard<'_, T> {}

impl<T> SpinMutex<T> {
    /// A mutex of that rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self::with_order(rank, 0, value)
    }

    /// A mutex of a rank that a thread takes several of at the same time, in ascending order of `order`.
    pub const fn with_order(rank: Rank, order: u64, value: T) -> Self {
        Self { position: Position::new(rank, order), is_locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Locks the mutex.
    ///
    /// # Panics
    /// In builds with debug assertions, when the thread holds a lock that has to be taken later.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> SpinMutexGuard<'_, T> {
        self.position.check(Access::Exclusive);
        if !self.take() {
            self.wait();
        }
        SpinMutexGuard { mutex: self, token: self.position.enter(Access::Exclusive) }
    }

    /// Locks the mutex unless somebody holds it, in any order.
    #[inline]
    pub fn try_lock(&self) -> Option<SpinMutexGuard<'_, T>> {
        self.take().then(|| SpinMutexGuard { mutex: self, token: self.position.enter(Access::Exclusive) })
    }

    #[inline(always)]
    fn take(&self) -> bool {
        self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut looks = 0;
        while self.is_locked.load(Ordering::Relaxed) || !self.take() {
            match looks {
                0..YIELD_AFTER => spin_loop(),
                YIELD_AFTER..SLEEP_AFTER => thread::yield_now(),
                _ => thread::sleep(PAUSE),
            }
            looks = looks.saturating_add(1);
        }
    }
}

impl<T> Drop for SpinMutexGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.mutex.is_locked.store(false, Ordering::Release);
    }
}

impl<T> Deref for SpinMutexGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the mutex is locked while the guard is there, so nobody else has a reference.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for SpinMutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is locked while the guard is there, which is borrowed mutably, so nobody else has a reference.
        unsafe { &mut *self.mutex.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::SpinMutex;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    crate::ranks! { from 1;
        /// The only one.
        ONLY,
        /// Another.
        LATER,
    }

    #[test]
    fn threads_take_turns() {
        let counted = SpinMutex::new(ONLY, (0u64, 0u64));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..500 {
                        let mut pair = counted.lock();
                        pair.0 += 1;
                        if turn % 100 == 0 {
                            std::thread::sleep(std::time::Duration::from_micros(200));
                        }
                        pair.1 += 1;
                        assert_eq!(pair.0, pair.1);
                    }
                });
            }
        });
        assert_eq!(*counted.lock(), (2000, 2000));
    }

    #[test]
    fn a_panic_unlocks_it() {
        let value = SpinMutex::new(ONLY, 1);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            *value.lock() = 2;
            let _held = value.lock();
            panic!("on purpose");
        }));
        assert!(unwound.is_err());
        assert_eq!(*value.lock(), 2);
    }

    #[cfg(debug_assertions)]
    #[test]
    fn its_rank_is_checked() {
        let (first, second) = (SpinMutex::new(ONLY, ()), SpinMutex::new(LATER, ()));
        let wrong = catch_unwind(AssertUnwindSafe(|| {
            let _second = second.lock();
            let _first = first.lock();
        }));
        assert!(wrong.is_err());
    }
}
