//! What protocols are made of that loom tries in every interleaving. With `--cfg loom` these are loom's, without ranks.

#[cfg(not(loom))]
mod primitives {
    #[cfg(anabranch_delays)]
    pub use crate::delayed::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub use crate::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, SpinMutex, SpinMutexGuard};
    pub use std::sync::atomic::fence;
    #[cfg(not(anabranch_delays))]
    pub use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
}

#[cfg(loom)]
mod primitives {
    use crate::Rank;
    pub use loom::sync::atomic::{
        AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    use std::sync::PoisonError;
    use std::time::Duration;

    /// loom's mutex with the interface of [`crate::Mutex`].
    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// A mutex, whose rank is not looked at.
        pub fn new(_: Rank, value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        /// A mutex, whose rank and order are not looked at.
        pub fn with_order(rank: Rank, _: u64, value: T) -> Self {
            Self::new(rank, value)
        }

        /// Locks the mutex.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Locks the mutex unless somebody holds it.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }

        /// The value, which nobody else can lock meanwhile.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }

        /// The value.
        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Locking is modelled alike, whatever unlocking costs.
    pub type SpinMutex<T> = Mutex<T>;
    /// Its guard.
    pub type SpinMutexGuard<'a, T> = MutexGuard<'a, T>;

    /// loom's reader-writer lock with the interface of [`crate::RwLock`], as far as protocols need it.
    #[derive(Debug)]
    pub struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        /// A lock, whose rank and order are not looked at.
        pub fn with_order(_: Rank, _: u64, value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        /// Locks it for reading. A model does not do so twice in one thread.
        pub fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        /// Whether somebody has locked it for writing at this moment.
        pub fn is_locked_exclusive(&self) -> bool {
            self.0.try_read().is_err()
        }

        /// Locks it for writing. The model has no time, and so waits for as long as it takes.
        #[allow(clippy::unnecessary_wraps, reason = "the interface of the other lock, which gives up")]
        pub fn try_write_for(&self, _: Duration) -> Option<RwLockWriteGuard<'_, T>> {
            Some(self.0.write().unwrap_or_else(PoisonError::into_inner))
        }
    }

    /// loom's condition variable with the interface of [`crate::Condvar`].
    #[derive(Debug)]
    pub struct Condvar(loom::sync::Condvar);

    impl Condvar {
        /// A condition variable that nobody waits for.
        #[allow(clippy::new_without_default, reason = "loom's has none")]
        pub fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        /// Unlocks the mutex, waits until somebody notifies, and locks the mutex again.
        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
        }

        /// A pause that is over at once: the model has no time.
        pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, _: Duration) -> MutexGuard<'a, T> {
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
}

pub use primitives::*;
