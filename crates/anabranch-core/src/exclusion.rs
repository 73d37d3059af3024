//! Submissions that use memory which graphs retain.
//!
//! Work is submitted in two steps: its memory is ordered after earlier uses, and the driver is called. If another use
//! of the memory came between the two steps, the two uses would not be ordered. The borrow checker excludes that,
//! because conflicting uses borrow the memory in turns. But a launch of a graph does not borrow the memory in it, and
//! may be made by another thread at the same time. Therefore a submission that uses memory that graphs retain, and has
//! something to order, is exclusive. Launches whose memory is already ordered by earlier work in their own stream have
//! nothing to order, and may run concurrently.

use crate::ranks;
use anabranch_sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

static SUBMITTING: RwLock<()> = RwLock::new(ranks::RETAINED_MEMORY, ());

/// As long as this exists, nobody else submits work that uses memory that graphs retain.
pub struct Exclusive(#[allow(dead_code, reason = "held for its drop")] RwLockWriteGuard<'static, ()>);

impl Exclusive {
    /// Waits until no such submission is in progress.
    pub fn begin() -> Self {
        Self(SUBMITTING.write())
    }
}

/// As long as this exists, nobody changes the order of memory that graphs retain.
pub struct Shared(#[allow(dead_code, reason = "held for its drop")] RwLockReadGuard<'static, ()>);

impl Shared {
    /// Waits until no such change is in progress.
    #[inline]
    pub fn begin() -> Self {
        Self(SUBMITTING.read())
    }
}
