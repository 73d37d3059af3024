//! Staging memory: pinned blocks by way of which asynchronous transfers from and to plain memory go.
//!
//! A driver that is given plain memory copies it piece by piece, and blocks meanwhile. Pinned memory it reaches by itself,
//! but pinning takes long and may block too, so a context keeps blocks for use again. What it keeps are addresses only,
//! which keep no context: an idle block goes with the context, a block in use keeps it.

mod block;

pub(crate) use block::StagingBlock;

use crate::context::{Context, ContextCore};
use crate::error::Result;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The smallest block, in bytes.
const SMALLEST: usize = 4096;
/// How many bytes of idle blocks a context keeps, unless it is told otherwise.
const USUAL_LIMIT: usize = 64 << 20;

/// A block's memory, owned by whoever has this.
pub(crate) struct RawBlock {
    address: usize,
    capacity: usize,
}

impl RawBlock {
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.address as *mut u8
    }
}

/// The blocks of a context that nobody uses.
pub(crate) struct StagingCache {
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
        Self { idle: Mutex::new(Idle { limit: USUAL_LIMIT, bytes: 0, blocks: VecDeque::new() }) }
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

    /// Keeps a block that nobody uses any more. Returns what is to be freed.
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

    /// Returns the blocks, which are to be freed before the context is closed.
    pub(crate) fn close(&mut self) -> impl Iterator<Item = RawBlock> + Send + use<> {
        std::mem::take(&mut self.idle.get_mut().blocks).into_iter()
    }
}

impl Context {
    /// How many bytes of pinned staging memory the context keeps for later transfers when they are idle: 64 MiB unless it
    /// was [set](Self::set_staging_limit).
    pub fn staging_limit(&self) -> usize {
        self.core().staging().idle.lock().limit
    }

    /// Chooses how many bytes of pinned staging memory the context keeps for later transfers when they are idle.
    /// Transfers that need more memory get it, and give it back to the driver when they are over. What is idle and too much
    /// is given back now, in the background; with 0 that is all of it.
    pub fn set_staging_limit(&self, bytes: usize) {
        let surplus = self.core().staging().set_limit(bytes);
        block::free(self.core(), surplus);
    }

    /// How many bytes of staging memory are idle at the moment.
    pub fn idle_staging(&self) -> usize {
        self.core().staging().idle.lock().bytes
    }

    /// Pins staging memory ahead of its use, for `count` transfers of up to `bytes` bytes at a time. Pinning takes long and
    /// may block, so a program does it before its tasks run: as long as the limit is not exceeded, later transfers of that
    /// size by [`Stream::upload_async`](crate::Stream::upload_async) and
    /// [`Stream::download_async`](crate::Stream::download_async) pin nothing.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// context.set_staging_limit(16 << 20);
    /// context.reserve_staging(1 << 20, 4)?;
    /// assert_eq!(context.idle_staging(), 4 << 20);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// 2 when there is not enough memory that can be pinned.
    pub fn reserve_staging(&self, bytes: usize, count: usize) -> Result<()> {
        // All are taken before any is given back, so that none is counted twice.
        let blocks = (0..count).map(|_| StagingBlock::take(self.core(), bytes)).collect::<Result<Vec<_>>>();
        blocks?.into_iter().for_each(StagingBlock::give_back);
        Ok(())
    }
}

impl ContextCore {
    /// Keeps a block for later use, or frees what is too much.
    fn keep_staging(self: &Arc<Self>, block: RawBlock) {
        let surplus = self.staging().put(block);
        block::free(self, surplus);
    }
}
