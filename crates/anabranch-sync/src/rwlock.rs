//! Reader-writer locks with ranks.

use crate::Rank;
use crate::held::{Access, Position, Token};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// A reader-writer lock of `parking_lot` with a [`Rank`]. A panic while it is held does not poison it.
pub struct RwLock<T: ?Sized> {
    position: Position,
    raw: parking_lot::RwLock<T>,
}

/// Releases shared access when it is dropped.
#[must_use = "the lock is released at once unless the guard is kept"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    raw: parking_lot::RwLockReadGuard<'a, T>,
    #[allow(dead_code, reason = "held for its drop")]
    token: Token,
}

/// Releases exclusive access when it is dropped.
#[must_use = "the lock is released at once unless the guard is kept"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    raw: parking_lot::RwLockWriteGuard<'a, T>,
    #[allow(dead_code, reason = "held for its drop")]
    token: Token,
}

impl<T> RwLock<T> {
    /// A lock of that rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self::with_order(rank, 0, value)
    }

    /// A lock of a rank that a thread takes several of at the same time, in ascending order of `order`.
    pub const fn with_order(rank: Rank, order: u64, value: T) -> Self {
        Self { position: Position::new(rank, order), raw: parking_lot::RwLock::new(value) }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks it for reading.
    ///
    /// # Panics
    /// In builds with debug assertions, when the thread holds a lock that has to be taken later.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.position.check(Access::Exclusive);
        RwLockReadGuard { raw: self.raw.read(), token: self.position.enter(Access::Shared) }
    }

    /// Locks it for reading also where the thread, or another one, reads already and somebody waits to write.
    ///
    /// # Panics
    /// As [`read`](Self::read), except that the thread may hold this very lock for reading.
    #[inline]
    #[track_caller]
    pub fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
        self.position.check(Access::Shared);
        RwLockReadGuard { raw: self.raw.read_recursive(), token: self.position.enter(Access::Shared) }
    }

    /// Locks it for writing.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.position.check(Access::Exclusive);
        RwLockWriteGuard { raw: self.raw.write(), token: self.position.enter(Access::Exclusive) }
    }

    /// For a call that does not always lock it: finds out each time whether it could.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[inline]
    #[track_caller]
    pub fn may_be_locked(&self) {
        self.position.check(Access::Exclusive);
    }

    /// As [`may_be_locked`](Self::may_be_locked), for [`read_recursive`](Self::read_recursive).
    ///
    /// # Panics
    /// As [`read_recursive`](Self::read_recursive).
    #[inline]
    #[track_caller]
    pub fn may_be_read_recursive(&self) {
        self.position.check(Access::Shared);
    }

    /// Whether somebody has locked it for writing at this moment. If not, what was written under the lock before is seen.
    #[inline]
    pub fn is_locked_exclusive(&self) -> bool {
        let is_locked = self.raw.is_locked_exclusive();
        fence(Ordering::Acquire);
        is_locked
    }

    /// Locks it for writing unless somebody holds it. It does not wait, so that it may be taken in any order.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        Some(RwLockWriteGuard { raw: self.raw.try_write()?, token: self.position.enter(Access::Exclusive) })
    }

    /// Locks it for writing, unless that takes longer than `patience`. Because the waiting ends, it may be taken in any
    /// order.
    #[track_caller]
    pub fn try_write_for(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        Some(RwLockWriteGuard { raw: self.raw.try_write_for(patience)?, token: self.position.enter(Access::Exclusive) })
    }

    /// Locks it for reading, unless that takes longer than `patience`. Because the waiting ends, it may be taken in any
    /// order.
    #[track_caller]
    pub fn try_read_for(&self, patience: Duration) -> Option<RwLockReadGuard<'_, T>> {
        Some(RwLockReadGuard { raw: self.raw.try_read_for(patience)?, token: self.position.enter(Access::Shared) })
    }

    /// The value, which nobody else can lock meanwhile.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.raw.get_mut()
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(formatter)
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::RwLock;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    crate::ranks! { from 1;
        /// The only one.
        ONLY,
    }

    #[test]
    fn only_recursive_reading_takes_the_lock_twice() {
        let lock = RwLock::new(ONLY, ());
        let first = lock.read_recursive();
        drop((lock.read_recursive(), first));
        type Take = fn(&RwLock<()>);
        let (read, write): (Take, Take) = (|lock| drop(lock.read()), |lock| drop(lock.write()));
        let again: Take = |lock| drop(lock.read_recursive());
        for wrong in [read, write] {
            let _first = lock.read();
            assert!(catch_unwind(AssertUnwindSafe(|| wrong(&lock))).is_err());
        }
        for wrong in [read, write, again] {
            let _first = lock.try_write().expect("nobody holds it");
            assert!(catch_unwind(AssertUnwindSafe(|| wrong(&lock))).is_err());
        }
        drop(lock.write());
    }
}
