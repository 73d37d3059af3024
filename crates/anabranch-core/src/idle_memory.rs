//! Memory that can only be freed by a call that blocks.
//!
//! Freeing pinned, managed and plain memory blocks until the context has completed all its work. A driver may hold a
//! lock in the meantime that other calls need, even those that the work waits for. Therefore such memory is freed at a
//! time when the context has no work. Until then, allocations of the same kind and size reuse it: a context that is
//! never idle has no more of this memory of one size than it had in use at the same time.

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::extensions::Extension;
use crate::helping::helping;
use crate::ranks;
use crate::reaper::{self, Attempt};
use crate::stream::PendingWork;
use crate::trace;
use anabranch_hal::{DevicePointer, PinnedFlags};
use anabranch_sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a piece of memory was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockKind {
    /// Plain device memory.
    Plain,
    /// Managed memory.
    Managed,
    /// Managed memory that is attached to a stream or to the host, which no other allocation takes.
    Attached,
    /// Pinned memory, with the bits of its flags.
    Pinned(u32),
}

impl BlockKind {
    /// Pinned memory with these flags.
    pub fn pinned(flags: PinnedFlags) -> Self {
        Self::Pinned(flags.bits())
    }

    fn operation(self) -> &'static str {
        match self {
            Self::Plain => "freeing",
            Self::Managed | Self::Attached => "freeing managed memory",
            Self::Pinned(_) => "freeing pinned memory",
        }
    }
}

/// The memory of a context that is not in use, and is not freed yet.
struct IdleMemory {
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    /// Addresses by kind and size in bytes.
    addresses: BTreeMap<(BlockKind, usize), Vec<u64>>,
    /// Whether the reaper has been asked to free them.
    is_to_be_freed: bool,
    /// How many more there will be when the work that uses them is over.
    awaited: usize,
    /// How many threads are freeing some.
    being_freed: usize,
}

impl Default for IdleMemory {
    fn default() -> Self {
        Self { blocks: Mutex::new(ranks::IDLE_MEMORY, Blocks::default()) }
    }
}

impl Extension for IdleMemory {}

impl ContextCore {
    /// A piece of idle memory of that kind and size, whose contents are unspecified.
    pub fn take_idle_memory(&self, kind: BlockKind, bytes: usize) -> Option<u64> {
        self.extension::<IdleMemory>().blocks.lock().addresses.get_mut(&(kind, bytes))?.pop()
    }

    /// Frees memory when the work that uses it is over and the context is idle, unless an allocation takes it before.
    pub fn free_when_idle(self: &Arc<Self>, kind: BlockKind, bytes: usize, address: u64, mut after: PendingWork) {
        if after.is_over() {
            return self.keep_until_idle(kind, bytes, address);
        }
        self.extension::<IdleMemory>().blocks.lock().awaited += 1;
        let context = self.clone();
        attempt_behind(after, move || {
            context.extension::<IdleMemory>().blocks.lock().awaited -= 1;
            context.keep_until_idle(kind, bytes, address);
        });
    }

    /// Waits a moment for memory that is to be freed. `false`: there is none, or the context does not become idle.
    pub fn is_idle_memory_freed(&self) -> bool {
        let is_left = || {
            let blocks = self.extension::<IdleMemory>().blocks.lock();
            blocks.is_to_be_freed || blocks.awaited > 0 || blocks.being_freed > 0
        };
        is_left() && reaper::comes_about(|| !is_left())
    }

    /// Frees memory that no work uses when the context is idle, and then drops what keeps its pool. No allocation takes it before.
    pub fn free_apart_when_idle(self: &Arc<Self>, address: DevicePointer, pool: impl Send + 'static) {
        let context = self.clone();
        attempt_when_idle(self, move || {
            drop_error::report(context.free_block(BlockKind::Plain, address.0));
            drop(pool);
        });
    }

    fn keep_until_idle(self: &Arc<Self>, kind: BlockKind, bytes: usize, address: u64) {
        let begins = {
            let mut blocks = self.extension::<IdleMemory>().blocks.lock();
            blocks.addresses.entry((kind, bytes)).or_default().push(address);
            !std::mem::replace(&mut blocks.is_to_be_freed, true)
        };
        if begins {
            // As long as there is something to be freed this keeps the context open.
            let context = self.clone();
            attempt_when_idle(self, move || context.free_idle_memory());
        }
    }

    /// Frees all memory that is not in use. The context is idle.
    fn free_idle_memory(&self) {
        let memory = self.extension::<IdleMemory>();
        let addresses = {
            let mut blocks = memory.blocks.lock();
            blocks.is_to_be_freed = false;
            blocks.being_freed += 1;
            std::mem::take(&mut blocks.addresses)
        };
        for ((kind, _), addresses) in addresses {
            for address in addresses {
                drop_error::report(self.free_block(kind, address));
            }
        }
        memory.blocks.lock().being_freed -= 1;
    }

    fn free_block(&self, kind: BlockKind, address: u64) -> Result<()> {
        let operation = kind.operation();
        trace::rare_elsewhere!(device = self.device().clone(); ?kind, address, %device, "freeing memory");
        let call = self.call(operation).of_unused();
        // SAFETY: all uses are complete, and the owner was dropped.
        let freed = unsafe {
            match kind {
                BlockKind::Plain | BlockKind::Managed | BlockKind::Attached => {
                    self.driver().free(&call, DevicePointer(address))
                }
                BlockKind::Pinned(_) => self.driver().free_pinned(&call, address as usize as *mut u8),
            }
        };
        freed.during(operation, || self.place())
    }
}

/// Runs `action` on the reaper's thread when the work is over.
pub fn attempt_behind(mut work: PendingWork, action: impl FnOnce() + Send + 'static) {
    let mut action = Some(action);
    reaper::attempt(work.queue(), move || {
        let queue = work.queue();
        let is_over = {
            let _helping = helping();
            work.is_over()
        };
        if !is_over {
            let next = work.queue();
            return if next == queue { Attempt::Pending } else { Attempt::PendingIn(next) };
        }
        if let Some(action) = action.take() {
            action();
        }
        Attempt::Done
    });
}

/// Runs `action`, which may block until the context is idle, on the reaper's thread at a time when it is idle.
pub fn attempt_when_idle(context: &Arc<ContextCore>, action: impl FnOnce() + Send + 'static) {
    let (context, mut action) = (context.clone(), Some(action));
    reaper::attempt(context.queue(), move || {
        // A driver may hold a lock while it blocks, and so hold up other threads, even the one that its work waits for. So the
        // action waits for a moment when there is nothing to wait for, and no such work is submitted meanwhile.
        let Some(idle) = context.try_keep_idle() else { return Attempt::Pending };
        if let Some(action) = action.take() {
            action();
        }
        drop(idle);
        Attempt::Done
    });
}
