//! Staging memory: pinned blocks through which asynchronous transfers from and to plain memory go.
//!
//! A driver that is given plain memory copies it piece by piece, and blocks meanwhile. Pinned memory is accessed by the device,
//! but pinning takes long and may block too, so a context has blocks to use again. They are addresses only, without a reference
//! to the context: an idle block is freed with the context, a block in use keeps it open.

mod block;

pub use block::StagingBlock;

use crate::context::ContextCore;
use crate::error::Result;
use crate::extensions::{ClosingContext, Extension};
use crate::ranks;
use anabranch_hal::Call;
use anabranch_sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The smallest block, in bytes.
const SMALLEST: usize = 4096;
/// How many bytes of idle blocks a context has, unless it is told otherwise.
const DEFAULT_LIMIT: usize = 64 << 20;

/// A block's memory, owned by whoever has this.
struct RawBlock {
    address: usize,
    capacity: usize,
}

impl RawBlock {
    fn pointer(&self) -> *mut u8 {
        self.address as *mut u8
    }
}

/// The blocks of a context that nobody uses.
struct StagingCache {
    idle: Mutex<Idle>,
}

struct Idle {
    limit: usize,
    bytes: usize,
    /// The one that was used longest ago comes first.
    blocks: VecDeque<RawBlock>,
}

impl Default for StagingCache {
    fn default() -> Self {
        Self {
            idle: Mutex::new(ranks::STAGING_MEMORY, Idle { limit: DEFAULT_LIMIT, bytes: 0, blocks: VecDeque::new() }),
        }
    }
}

impl Idle {
    fn remove(&mut self, index: usize) -> Option<RawBlock> {
        let block = self.blocks.remove(index)?;
        self.bytes -= block.capacity;
        Some(block)
    }

    /// Removes what is too much, the blocks first that were used longest ago.
    fn trim(&mut self) -> Vec<RawBlock> {
        let mut surplus = Vec::new();
        while self.bytes > self.limit
            && let Some(block) = self.remove(0)
        {
            surplus.push(block);
        }
        surplus
    }
}

impl StagingCache {
    /// How large a block is to be made for so many bytes: of a size that serves others too, unless it is too large to be
    /// kept.
    fn capacity(&self, bytes: usize) -> usize {
        let shared = bytes.max(SMALLEST).checked_next_power_of_two();
        shared.filter(|&capacity| capacity <= self.idle.lock().limit).unwrap_or(bytes.max(1))
    }

    /// An idle block of that size, the one that was used last.
    fn take(&self, capacity: usize) -> Option<RawBlock> {
        let mut idle = self.idle.lock();
        let index = idle.blocks.iter().rposition(|block| block.capacity == capacity)?;
        idle.remove(index)
    }

    /// The smallest idle block with room for so many bytes.
    fn take_any(&self, bytes: usize) -> Option<RawBlock> {
        let mut idle = self.idle.lock();
        let fitting = idle.blocks.iter().enumerate().filter(|(_, block)| block.capacity >= bytes);
        let (index, _) = fitting.min_by_key(|(_, block)| block.capacity)?;
        idle.remove(index)
    }

    /// Stores a block that nobody uses any more. Returns what is to be freed.
    fn put(&self, block: RawBlock) -> Vec<RawBlock> {
        let mut idle = self.idle.lock();
        if block.capacity > idle.limit {
            return vec![block];
        }
        idle.bytes += block.capacity;
        idle.blocks.push_back(block);
        idle.trim()
    }

    fn set_limit(&self, limit: usize) -> Vec<RawBlock> {
        let mut idle = self.idle.lock();
        idle.limit = limit;
        idle.trim()
    }
}

impl Extension for StagingCache {
    fn close(&mut self, context: &ClosingContext<'_>) {
        let call = Call::new(context.handle, "freeing staging memory");
        for block in std::mem::take(&mut self.idle.get_mut().blocks) {
            // SAFETY: blocks in use hold a reference to the context, so nobody uses these.
            let _ = unsafe { context.driver.free_pinned(&call, block.pointer()) };
        }
    }
}

impl ContextCore {
    fn staging(&self) -> &StagingCache {
        self.extension()
    }

    /// How many bytes of staging memory the context has for later transfers when they are idle.
    pub fn staging_limit(&self) -> usize {
        self.staging().idle.lock().limit
    }

    /// Chooses how many bytes of staging memory the context has for later transfers when they are idle. The excess is freed in
    /// the background.
    pub fn set_staging_limit(self: &Arc<Self>, bytes: usize) {
        let surplus = self.staging().set_limit(bytes);
        block::free(self, surplus);
    }

    /// How many bytes of staging memory are idle at the moment.
    pub fn idle_staging(&self) -> usize {
        self.staging().idle.lock().bytes
    }

    /// Pins staging memory ahead of its use.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY (2)` when there is not enough memory that can be pinned.
    pub fn reserve_staging(self: &Arc<Self>, bytes: usize, count: usize) -> Result<()> {
        // All are taken before any is given back, so that none is counted twice.
        let blocks = (0..count).map(|_| StagingBlock::take(self, bytes)).collect::<Result<Vec<_>>>();
        blocks?.into_iter().for_each(StagingBlock::give_back);
        Ok(())
    }

    /// Stores a block for later use, or frees the excess.
    fn store_staging(self: &Arc<Self>, block: RawBlock) {
        let surplus = self.staging().put(block);
        block::free(self, surplus);
    }
}
