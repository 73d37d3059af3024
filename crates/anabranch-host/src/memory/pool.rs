//! Pools: memory allocated and freed in stream order.
//!
//! A freed block stays in its pool with the place of the free in its stream. The same stream may have it again at once,
//! because what it does then comes after; another stream only when that place is reached. So neither call puts anything
//! into a queue.

use super::block::{Account, Block};
use super::device::DeviceMemory;
use super::idle::{IdleBlock, IdleBlocks};
use super::leaving::Leaving;
use super::work;
use crate::engine::{ContextCore, Position, StreamState};
use crate::handles::handle;
use crate::ranks;
use anabranch_hal::{Failure, MemoryPoolAttribute, MemoryPoolHandle, Result, Status};
use anabranch_sync::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Blocks are multiples of this, so that freed ones fit again.
const GRANULARITY: usize = 512;

/// An H100 reserves memory in pieces of this size.
const RESERVED_UNIT: u64 = 32 << 20;

/// A freed block may serve a request that is smaller by this, or by half of the block.
const SMALL_WASTE: usize = 64 << 10;

#[derive(Debug, Default)]
struct Contents {
    idle: IdleBlocks,
    threshold: u64,
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
    destroyed: bool,
}

/// A memory pool.
#[derive(Debug)]
pub(crate) struct PoolState {
    this: Weak<PoolState>,
    pub(crate) device: u32,
    pub(crate) is_default: bool,
    account: Arc<Account>,
    idle_blocks: Arc<AtomicUsize>,
    leaving: Leaving,
    max_bytes: u64,
    contents: Mutex<Contents>,
}

handle!(PoolState, MemoryPoolHandle, INVALID_VALUE);

impl PoolState {
    /// `max_bytes` of 0: no limit of the pool's own.
    pub(crate) fn new(device: &DeviceMemory, is_default: bool, max_bytes: u64) -> Arc<Self> {
        let limit = match max_bytes {
            0 => u64::MAX,
            bytes => in_units(bytes),
        };
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            device: device.ordinal,
            is_default,
            account: Arc::clone(&device.account),
            idle_blocks: Arc::clone(&device.idle_blocks),
            leaving: device.leaving.clone(),
            max_bytes: limit,
            contents: Mutex::new(ranks::POOL, Contents::default()),
        })
    }

    /// A pool that a program asks for. `CUDA_ERROR_OUT_OF_MEMORY (2)` if its maximum exceeds the address space.
    pub(crate) fn create(device: &DeviceMemory, max_bytes: u64) -> Result<Arc<Self>> {
        if in_units(max_bytes) == u64::MAX {
            return Err(Failure::new(Status::OUT_OF_MEMORY));
        }
        Ok(Self::new(device, false, max_bytes))
    }

    /// Another reference to this pool. `None`: it is being dropped.
    pub(crate) fn share(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// A block that the stream may use after all that is in it now.
    pub(crate) fn allocate(&self, device: &DeviceMemory, bytes: usize, stream: &Arc<StreamState>) -> Result<Block> {
        let capacity = bytes.checked_next_multiple_of(GRANULARITY).ok_or(Failure::new(Status::OUT_OF_MEMORY))?;
        let block = match self.reuse(capacity, stream) {
            Some(block) => block,
            None => self.reserve(capacity).or_else(|_| {
                device.give_all_idle_memory_back(capacity as u64);
                self.reserve(capacity).inspect_err(|_| self.keep_idle_memory())
            })?,
        };
        self.contents.lock().use_bytes(bytes);
        Ok(block.with_bytes(bytes))
    }

    fn reuse(&self, capacity: usize, stream: &Arc<StreamState>) -> Option<Block> {
        let mut contents = self.contents.lock();
        let largest = capacity.saturating_add(capacity.max(SMALL_WASTE));
        let idle = contents.idle.remove_fitting(capacity..=largest, stream)?;
        self.idle_blocks.fetch_sub(1, Ordering::Relaxed);
        Some(idle.block)
    }

    fn reserve(&self, capacity: usize) -> Result<Block> {
        let mut contents = self.contents.lock();
        let reserved = contents.reserved.saturating_add(capacity as u64);
        if reserved > self.max_bytes {
            return Err(Failure::new(Status::OUT_OF_MEMORY));
        }
        let block = Block::allocate(&self.account, capacity)?;
        contents.reserved = reserved;
        contents.reserved_high = contents.reserved_high.max(reserved);
        Ok(block)
    }

    /// Keeps what is idle until the pool is trimmed, as hardware does after an allocation that has failed.
    fn keep_idle_memory(&self) {
        self.contents.lock().idle.keep();
    }

    /// Takes a block back that is free from `freed_at` on, or at once. A pool that is destroyed keeps nothing.
    pub(crate) fn take_back(&self, block: Block, freed_at: Option<Position>) {
        let mut contents = self.contents.lock();
        if contents.destroyed {
            drop(contents);
            return self.let_go(block, freed_at);
        }
        contents.used = contents.used.saturating_sub(block.bytes() as u64);
        self.idle_blocks.fetch_add(1, Ordering::Relaxed);
        contents.idle.insert(IdleBlock { block, freed_at, kept: false });
    }

    /// Gives a block back to the device that is free from `freed_at` on, or at once.
    pub(crate) fn let_go(&self, block: Block, freed_at: Option<Position>) {
        {
            let mut contents = self.contents.lock();
            contents.used = contents.used.saturating_sub(block.bytes() as u64);
            contents.reserved = contents.reserved.saturating_sub(block.capacity() as u64);
        }
        release(&self.leaving, IdleBlock { block, freed_at, kept: false });
    }

    /// The memory that an address is in, if it is freed behind work that has not run yet.
    pub(super) fn freed_later(&self, address: u64) -> Option<Range<u64>> {
        let contents = self.contents.lock();
        contents.idle.behind_work().find_map(|IdleBlock { block, .. }| {
            let range = block.address()..block.address() + block.capacity() as u64;
            range.contains(&address).then_some(range)
        })
    }

    /// Gives memory back that is above the threshold. Called when a thread has synchronized with work of a context.
    pub(crate) fn release_above_threshold(&self, core: &ContextCore) {
        let threshold = self.contents.lock().threshold;
        self.give_back(usize::try_from(threshold).unwrap_or(usize::MAX), |idle| idle.is_left_by(core));
    }

    /// Gives memory back that nobody uses, as long as at least `keep_bytes` remain reserved.
    pub(crate) fn trim(&self, keep_bytes: usize) {
        self.give_back(keep_bytes, |_| true);
    }

    /// Gives those of the free blocks back that are chosen.
    fn give_back(&self, keep_bytes: usize, is_chosen: impl Fn(&IdleBlock) -> bool) {
        let mut released = Vec::new();
        let mut contents = self.contents.lock();
        // The largest first, so that as few as possible go.
        let chosen = contents.idle.free().rev().filter_map(|(key, idle)| is_chosen(idle).then_some(*key));
        for key in chosen.collect::<Vec<_>>() {
            let left = contents.reserved.saturating_sub(key.0 as u64);
            if in_units(left) >= keep_bytes as u64
                && let Some(idle) = contents.idle.remove_free(key)
            {
                contents.reserved = left;
                released.push(idle);
            }
        }
        drop(contents);
        self.idle_blocks.fetch_sub(released.len(), Ordering::Relaxed);
    }

    /// Gives all memory back, at once or where it was freed, and keeps none from now on.
    pub(crate) fn destroy(&self) {
        for idle in self.close() {
            release(&self.leaving, idle);
        }
    }

    /// Forgets where blocks were freed, when no work runs any more.
    pub(crate) fn clear(&self) {
        drop(self.close());
    }

    fn close(&self) -> Vec<IdleBlock> {
        let mut contents = self.contents.lock();
        contents.destroyed = true;
        let idle = contents.idle.take();
        let bytes: u64 = idle.iter().map(|idle| idle.block.capacity() as u64).sum();
        contents.reserved = contents.reserved.saturating_sub(bytes);
        self.idle_blocks.fetch_sub(idle.len(), Ordering::Relaxed);
        idle
    }

    pub(crate) fn attribute(&self, attribute: MemoryPoolAttribute) -> Result<u64> {
        let contents = self.contents.lock();
        match attribute {
            MemoryPoolAttribute::ReleaseThreshold => Ok(contents.threshold),
            MemoryPoolAttribute::ReservedCurrent => Ok(in_units(contents.reserved)),
            MemoryPoolAttribute::ReservedHigh => Ok(in_units(contents.reserved_high)),
            MemoryPoolAttribute::UsedCurrent => Ok(contents.used),
            MemoryPoolAttribute::UsedHigh => Ok(contents.used_high),
            _ => Err(Failure::new(Status::NOT_SUPPORTED)),
        }
    }

    pub(crate) fn set_attribute(&self, attribute: MemoryPoolAttribute, value: u64) -> Result<()> {
        let mut contents = self.contents.lock();
        match (attribute, value) {
            (MemoryPoolAttribute::ReleaseThreshold, _) => contents.threshold = value,
            (MemoryPoolAttribute::ReservedHigh, 0) => contents.reserved_high = contents.reserved,
            (MemoryPoolAttribute::UsedHigh, 0) => contents.used_high = contents.used,
            _ => return Err(Failure::new(Status::INVALID_VALUE)),
        }
        Ok(())
    }
}

/// How much is reserved where so many bytes are needed.
pub(super) fn in_units(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(RESERVED_UNIT).unwrap_or(u64::MAX)
}

impl Contents {
    fn use_bytes(&mut self, bytes: usize) {
        self.used += bytes as u64;
        self.used_high = self.used_high.max(self.used);
    }
}

/// Gives a block's memory back as soon as the stream has reached the free.
fn release(leaving: &Leaving, idle: IdleBlock) {
    if idle.is_free() {
        return;
    }
    let IdleBlock { block, freed_at, .. } = idle;
    if let Some(freed_at) = freed_at {
        freed_at.stream.enqueue(work::release(leaving, block));
    }
}
