//! Staging memory: pinned blocks for asynchronous transfers from and to plain memory.
//!
//! A driver copies plain memory in pieces, and blocks in the meantime. The device can access pinned memory directly,
//! but pinning takes long and may block too, so a context keeps blocks for reuse. They are addresses only, without a
//! reference to the context: an idle block is freed with the context, and a block in use keeps the context open.

mod block;

pub use block::StagingBlock;

use crate::context::ContextCore;
use crate::error::{Error, Result};
use crate::extensions::{ClosingContext, Extension};
use crate::ranks;
use anabranch_hal::{Call, Status};
use anabranch_sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The smallest block, in bytes.
const SMALLEST: usize = 4096;
/// How many bytes of idle blocks a context keeps by default.
const DEFAULT_LIMIT: usize = 64 << 20;

/// The memory of a block. The holder of this value owns it.
struct RawBlock {
    address: usize,
    capacity: usize,
}

impl RawBlock {
    fn pointer(&self) -> *mut u8 {
        self.address as *mut u8
    }
}

/// The blocks of a context that are not in use.
struct StagingCache {
    idle: Mutex<Idle>,
}

struct Idle {
    limit: usize,
    bytes: usize,
    /// The least recently used block comes first.
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

    /// Removes the excess, least recently used blocks first.
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
    /// The size of a new block for so many bytes. It is rounded so that the block suits other transfers too, unless it
    /// is too large to be kept.
    fn capacity(&self, bytes: usize) -> usize {
        let shared = bytes.max(SMALLEST).checked_next_power_of_two();
        shared.filter(|&capacity| capacity <= self.idle.lock().limit).unwrap_or(bytes.max(1))
    }

    /// The idle block of that size that was used last.
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

    /// Stores a block that is not in use any more. Returns the blocks to free.
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
        let call = Call::new(context.context, "freeing staging memory");
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

    /// The number of bytes of idle staging memory that the context keeps for later transfers.
    pub fn staging_limit(&self) -> usize {
        self.staging().idle.lock().limit
    }

    /// Sets the number of bytes of idle staging memory that the context keeps for later transfers. The excess is freed
    /// in the background.
    pub fn set_staging_limit(self: &Arc<Self>, bytes: usize) {
        let surplus = self.staging().set_limit(bytes);
        block::free_unused(self, surplus);
    }

    /// The number of bytes of staging memory that are currently idle.
    pub fn idle_staging(&self) -> usize {
        self.staging().idle.lock().bytes
    }

    /// Pins staging memory in advance.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for more than the limit; `CUDA_ERROR_OUT_OF_MEMORY (2)` if not enough memory can be
    /// pinned.
    pub fn reserve_staging(self: &Arc<Self>, bytes: usize, count: usize) -> Result<()> {
        if bytes == 0 || count == 0 {
            return Ok(());
        }
        let limit = self.staging_limit();
        if self.staging().capacity(bytes).checked_mul(count).is_none_or(|total| total > limit) {
            let message = format!("{count} times {bytes} bytes are more than the limit of {limit} bytes");
            return Err(Error::argument(Status::INVALID_VALUE, "reserving staging memory", message)
                .with_hint("raise the limit by Context::set_staging_limit, or reserve less")
                .at(self.place()));
        }
        // All are taken before any is given back, so that none is counted twice.
        let mut blocks = Vec::new();
        if blocks.try_reserve_exact(count).is_err() {
            let message = format!("there is no memory to keep account of {count} pieces");
            return Err(Error::argument(Status::OUT_OF_MEMORY, "reserving staging memory", message)
                .with_hint("reserve fewer and larger ones")
                .at(self.place()));
        }
        for _ in 0..count {
            blocks.push(StagingBlock::take(self, bytes)?);
        }
        blocks.into_iter().for_each(StagingBlock::give_back);
        Ok(())
    }

    /// Stores a block for later use, or frees the excess.
    fn store_staging(self: &Arc<Self>, block: RawBlock) {
        let surplus = self.staging().put(block);
        block::free_unused(self, surplus);
    }
}
