//! Queueing work that uses memory which graphs keep.
//!
//! Work is queued in two steps: its memory is ordered behind its earlier uses, and the driver is called. Between the two no
//! other use of the memory may come, or the two are not ordered at all. The borrow checker sees to that, because conflicting
//! uses borrow the memory in turns; but a launch of a graph does not borrow the memory in it, and may be made by another
//! thread at the same time. So who uses memory that a graph keeps is alone while it queues. Launches that find their memory
//! as their own stream left it have nothing to order, and queue beside each other.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static QUEUEING: RwLock<()> = RwLock::new(());

/// Nobody else queues work that uses memory which a graph keeps, until this is dropped.
pub(crate) struct Exclusion(#[allow(dead_code, reason = "held for its drop")] RwLockWriteGuard<'static, ()>);

impl Exclusion {
    pub(crate) fn of_all() -> Self {
        Self(QUEUEING.write())
    }
}

/// Nobody changes the order of memory that a graph keeps, until this is dropped.
pub(crate) struct Sharing(#[allow(dead_code, reason = "held for its drop")] RwLockReadGuard<'static, ()>);

impl Sharing {
    #[inline]
    pub(crate) fn begin() -> Self {
        Self(QUEUEING.read())
    }
}
