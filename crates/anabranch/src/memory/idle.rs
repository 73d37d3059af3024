//! Memory whose freeing would block.
//!
//! Freeing pinned, managed and plain memory blocks until the context has done all its work, and a driver may hold a lock
//! meanwhile which others need, even those that the work waits for. So such memory is freed at a moment when the context has
//! nothing to do. Until there is one, whoever wants memory of that kind and size has it: a context that is never idle has
//! no more of it than it had in use at once.

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::event::RawEvent;
use crate::reaper;
use crate::trace;
use anabranch_hal::{DevicePointer, PinnedFlags};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a piece of memory can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BlockKind {
    Plain,
    Managed,
    /// With the flags' bits.
    Pinned(u32),
}

impl BlockKind {
    pub(crate) fn pinned(flags: PinnedFlags) -> Self {
        Self::Pinned(flags.bits())
    }

    fn operation(self) -> &'static str {
        match self {
            Self::Plain => "freeing",
            Self::Managed => "freeing managed memory",
            Self::Pinned(_) => "freeing pinned memory",
        }
    }
}

/// The memory of a context that nobody uses, and that is not freed yet.
#[derive(Default)]
pub(crate) struct IdleMemory {
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// Addresses by kind and size in bytes.
    addresses: BTreeMap<(BlockKind, usize), Vec<u64>>,
    /// Whether the reaper was asked to free them.
    is_to_be_freed: bool,
}

impl IdleMemory {
    /// A piece of memory of that kind and size, whose contents are unspecified.
    pub(crate) fn take(&self, kind: BlockKind, bytes: usize) -> Option<u64> {
        self.blocks.lock().addresses.get_mut(&(kind, bytes))?.pop()
    }
}

impl ContextCore {
    /// Frees memory when the events are complete and the context is idle, unless somebody wants it before.
    pub(crate) fn free_when_idle(
        self: &Arc<Self>,
        kind: BlockKind,
        bytes: usize,
        address: u64,
        after: Vec<Arc<RawEvent>>,
    ) {
        let context = self.clone();
        reaper::after(after, move || context.keep_until_idle(kind, bytes, address));
    }

    fn keep_until_idle(self: &Arc<Self>, kind: BlockKind, bytes: usize, address: u64) {
        let begins = {
            let mut blocks = self.idle_memory().blocks.lock();
            blocks.addresses.entry((kind, bytes)).or_default().push(address);
            !std::mem::replace(&mut blocks.is_to_be_freed, true)
        };
        if begins {
            // As long as there is something to be freed this keeps the context.
            let context = self.clone();
            reaper::when_idle(self, move || context.free_idle_memory());
        }
    }

    /// Frees all memory that nobody uses. The context is idle.
    fn free_idle_memory(&self) {
        let addresses = {
            let mut blocks = self.idle_memory().blocks.lock();
            blocks.is_to_be_freed = false;
            std::mem::take(&mut blocks.addresses)
        };
        for ((kind, _), addresses) in addresses {
            for address in addresses {
                drop_error::report(self.free_block(kind, address));
            }
        }
    }

    fn free_block(&self, kind: BlockKind, address: u64) -> Result<()> {
        let operation = kind.operation();
        trace::span!("freeing memory", ?kind, address, device = %self.device());
        let freed = match kind {
            // SAFETY: all uses are over, and the owner is gone.
            BlockKind::Plain | BlockKind::Managed => unsafe {
                self.driver().free(self.handle(), DevicePointer(address))
            },
            // SAFETY: as above.
            BlockKind::Pinned(_) => unsafe { self.driver().free_pinned(self.handle(), address as usize as *mut u8) },
        };
        freed.during(operation, || self.place())
    }
}
