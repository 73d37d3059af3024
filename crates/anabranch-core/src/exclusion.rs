//! Submissions that use memory which graphs retain.
//!
//! Work is submitted in two steps: its memory is ordered after earlier uses, and the driver is called. If another use
//! of the memory came between the two steps, the two uses would not be ordered. The borrow checker excludes that,
//! because conflicting uses borrow the memory in turns. But a launch of a graph does not borrow the memory in it, and
//! may be made by another thread at the same time. Therefore a submission that uses memory that graphs retain excludes
//! others that use the same memory, while the driver may block. Launches whose memory is already ordered by earlier work
//! in their own stream have nothing to order, and may run concurrently.
//!
//! A submission locks all of its memory before it orders anything, in ascending order of the ids. So no two of them wait
//! for each other.

use crate::memory::Allocation;
use anabranch_sync::{RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;
use std::sync::Arc;

/// As long as this exists, nobody else submits work that uses some memory which graphs retain.
#[must_use = "others are excluded until this is dropped"]
#[derive(Default)]
pub struct Exclusive<'m>(#[allow(dead_code, reason = "held for its drop")] SmallVec<[RwLockWriteGuard<'m, ()>; 2]>);

impl<'m> Exclusive<'m> {
    /// Waits until no such submission is in progress.
    pub fn begin(memory: impl Iterator<Item = &'m Arc<Allocation>>) -> Self {
        let mut memory: SmallVec<[_; 4]> = memory.filter(|memory| memory.is_retained()).collect();
        memory.sort_unstable_by_key(|memory| memory.label().id().get());
        memory.dedup_by_key(|memory| memory.label().id().get());
        Self(memory.into_iter().map(|memory| memory.exclusion().0.write()).collect())
    }
}

/// As long as this exists, nobody changes the order of some memory that graphs retain.
#[must_use = "others are excluded until this is dropped"]
pub struct Shared<'m>(#[allow(dead_code, reason = "held for its drop")] SmallVec<[RwLockReadGuard<'m, ()>; 16]>);

impl<'m> Shared<'m> {
    /// Waits until no such change is in progress. `memory`: each piece once, in ascending order of the ids.
    #[inline]
    pub fn begin(memory: impl Iterator<Item = &'m Arc<Allocation>>) -> Self {
        Self(memory.map(|memory| memory.exclusion().0.read()).collect())
    }
}
