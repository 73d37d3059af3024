//! Submissions that use memory which graphs retain.
//!
//! Work is submitted in two steps: its memory is ordered behind its earlier uses, and the driver is called. Between the two no
//! other use of the memory may come, or the two are not ordered at all. The borrow checker excludes that, because conflicting
//! uses borrow the memory in turns; but a launch of a graph does not borrow the memory in it, and may be made by another thread
//! at the same time. So a submission that uses memory which graphs retain, and has something to order, is exclusive. Launches
//! that find all their memory ordered by their own stream's earlier work have nothing to order, and run beside each other.

use crate::ranks;
use anabranch_sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static SUBMITTING: RwLock<()> = RwLock::new(ranks::RETAINED_MEMORY, ());

/// Nobody else submits work that uses memory which graphs retain, until this is dropped.
pub struct Exclusive(#[allow(dead_code, reason = "held for its drop")] RwLockWriteGuard<'static, ()>);

impl Exclusive {
    /// Waits until nobody does.
    pub fn begin() -> Self {
        Self(SUBMITTING.write())
    }
}

/// Nobody changes the order of memory that graphs retain, until this is dropped.
pub struct Shared(#[allow(dead_code, reason = "held for its drop")] RwLockReadGuard<'static, ()>);

impl Shared {
    /// Waits until nobody does.
    #[inline]
    pub fn begin() -> Self {
        Self(SUBMITTING.read())
    }
}
