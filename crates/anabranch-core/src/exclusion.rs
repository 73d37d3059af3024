//! Submissions that use memory which graphs retain.
//!
//! Work is submitted in two steps: its memory is ordered after earlier uses, and the driver is called. If a conflicting use
//! of the memory came between the two steps, the two uses would not be ordered. The borrow checker excludes that,
//! because conflicting uses borrow the memory in turns. But a launch of a graph does not borrow the memory in it, and
//! may be made by another thread at the same time. Therefore a submission that uses memory that graphs retain excludes
//! conflicting ones, while the driver may block. Those that only read the memory exclude only those that write it.
//!
//! A submission locks all of its memory before it orders anything, in ascending order of the ids. So no two of them wait
//! for each other.

use crate::memory::MemoryAccess;
use anabranch_hal::Access;
use anabranch_sync::{RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;

/// As long as this exists, nobody else submits work in conflict with uses of memory which graphs retain.
#[must_use = "others are excluded until this is dropped"]
#[derive(Default)]
pub struct Excluding<'m>(#[allow(dead_code, reason = "held for its drop")] SmallVec<[Guard<'m>; 16]>);

#[allow(dead_code, reason = "held for their drops")]
enum Guard<'m> {
    Reading(RwLockReadGuard<'m, ()>),
    Writing(RwLockWriteGuard<'m, ()>),
}

impl<'m> Guard<'m> {
    #[inline]
    fn new(MemoryAccess { memory, access }: MemoryAccess<'m>) -> Self {
        match access {
            Access::Read => Self::Reading(memory.exclusion().0.read()),
            Access::Write => Self::Writing(memory.exclusion().0.write()),
        }
    }
}

impl<'m> Excluding<'m> {
    /// Waits until no conflicting submission is in progress.
    pub fn begin(accesses: impl Iterator<Item = MemoryAccess<'m>>) -> Self {
        let mut accesses: SmallVec<[_; 4]> = accesses.filter(|access| access.memory.is_retained()).collect();
        // Of several uses of one piece, the first is one that writes it, if there is one.
        accesses.sort_unstable_by_key(|access| (access.memory.label().id().get(), access.access == Access::Read));
        accesses.dedup_by_key(|access| access.memory.label().id().get());
        Self::begin_sorted(accesses.into_iter())
    }

    /// Like [`begin`](Self::begin), for memory that graphs retain: each piece once, in ascending order of the ids.
    #[inline]
    pub fn begin_sorted(accesses: impl Iterator<Item = MemoryAccess<'m>>) -> Self {
        Self(accesses.map(Guard::new).collect())
    }
}
