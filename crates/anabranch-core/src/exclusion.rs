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

use crate::error::{Error, Result};
use crate::memory::{ForeignUses, MemoryAccess};
use anabranch_hal::{Access, Status};
use anabranch_sync::{RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;

/// As long as this exists, nobody else submits work in conflict with uses of memory which graphs retain.
#[must_use = "others are excluded until this is dropped"]
#[derive(Default)]
pub struct Excluding<'m>(SmallVec<[Guard<'m>; 4]>);

enum Guard<'m> {
    Reading(RwLockReadGuard<'m, ForeignUses>),
    Writing(RwLockWriteGuard<'m, ForeignUses>),
}

impl<'m> Guard<'m> {
    #[inline]
    fn new(MemoryAccess { memory, access }: MemoryAccess<'m>) -> Self {
        match access {
            Access::Read => Self::Reading(memory.exclusion().0.read()),
            Access::Write => Self::Writing(memory.exclusion().0.write()),
        }
    }

    /// Whether another library submits work in conflict with this use.
    #[inline]
    fn meets_foreign_use(&self) -> bool {
        match self {
            Self::Reading(uses) => uses.writing > 0,
            Self::Writing(uses) => uses.reading + uses.writing > 0,
        }
    }
}

/// While this exists, another library submits work that uses memory, by a call that no lock is held for. Graphs that use the
/// memory are not launched meanwhile.
pub struct ForeignUse<'a>(&'a [MemoryAccess<'a>]);

impl<'a> ForeignUse<'a> {
    /// Waits until no submission is in progress that conflicts.
    pub fn begin(accesses: &'a [MemoryAccess<'a>]) -> Self {
        let foreign = Self(accesses);
        foreign.each(|uses, access| match access {
            Access::Read => uses.reading += 1,
            Access::Write => uses.writing += 1,
        });
        foreign
    }

    fn each(&self, change: impl Fn(&mut ForeignUses, Access)) {
        for MemoryAccess { memory, access } in self.0 {
            change(&mut memory.exclusion().0.write(), *access);
        }
    }
}

impl Drop for ForeignUse<'_> {
    fn drop(&mut self) {
        self.each(|uses, access| match access {
            Access::Read => uses.reading -= 1,
            Access::Write => uses.writing -= 1,
        });
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

    /// Refuses to launch a graph while another library submits work that uses its memory: which of them comes first, nobody
    /// knows.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    #[inline]
    pub fn require_no_foreign_use(&self, operation: &'static str) -> Result<()> {
        if self.0.iter().any(Guard::meets_foreign_use) { Err(used_by_others(operation)) } else { Ok(()) }
    }
}

#[cold]
fn used_by_others(operation: &'static str) -> Error {
    Error::argument(Status::ILLEGAL_STATE, operation, "another library submits work that uses memory of the graph")
        .with_hint("launch it before or after Stream::submit_foreign")
}
