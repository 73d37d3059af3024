//! Memory that graphs allocate.
//!
//! A block's address is chosen when its node is added, and stays. Whether it is allocated is decided where launches and
//! frees are enqueued, and not where they run, as the hardware's answers show. From its first launch on the block
//! counts against the device's memory, until the last graph with it is destroyed, or it is trimmed away while it is
//! free.

use super::HostMemory;
use super::block::{Account, Block};
use super::device::DeviceMemory;
use super::observer::{MemoryObserver, Origin};
use super::pool::in_units;
use super::table::{Allocation, MemoryKind};
use crate::ranks;
use anabranch_hal::{Failure, GraphMemoryAttribute, Result, Status};
use anabranch_sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Blocks are multiples of this.
const GRANULARITY: usize = 512;

/// A block at an address of its own.
#[derive(Debug)]
pub(crate) struct GraphBlock {
    memory: Weak<HostMemory>,
    context: u64,
    device: u32,
    address: u64,
    /// How much was asked for.
    bytes: usize,
}

/// What decides which nodes can free what a node allocates: one of its graph before that is instantiated, or those of other
/// graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Freeing {
    /// Nothing yet.
    #[default]
    Open,
    /// A node of the graph frees it.
    Inside,
    /// A node of another graph frees it, or an executable graph leaves it allocated.
    Outside,
}

/// How much of a device's memory graphs have.
#[derive(Debug)]
pub(crate) struct GraphMemoryCounters {
    counts: Mutex<Counts>,
}

impl Default for GraphMemoryCounters {
    fn default() -> Self {
        Self { counts: Mutex::new(ranks::GRAPH_COUNTS, Counts::default()) }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
}

/// All blocks of graphs.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    /// Addresses are taken from the process, and only later count against a device.
    addresses: Arc<Account>,
    blocks: Mutex<Blocks>,
}

/// What is known of all blocks, by address. One lock is around all of it, because a launch changes several blocks as a whole, so
/// that none is trimmed away that it is about to allocate.
#[derive(Debug, Default)]
pub(crate) struct Blocks(HashMap<u64, Known>);

#[derive(Debug)]
struct Known {
    block: Weak<GraphBlock>,
    device: u32,
    /// How much was asked for.
    bytes: u64,
    capacity: u64,
    /// A share while it is allocated, because it outlives its graph then.
    live: Option<Arc<GraphBlock>>,
    /// Whether it counts against the device's memory. What is allocated does.
    mapped: bool,
    /// Whether it has been allocated since it was mapped. Hardware counts it as used until it is trimmed away.
    used: bool,
    freeing: Freeing,
}

impl GraphMemory {
    pub(crate) fn new(observer: Option<&Arc<dyn MemoryObserver>>) -> Self {
        Self {
            addresses: Arc::new(Account::new(u64::MAX, observer)),
            blocks: Mutex::new(ranks::GRAPH_BLOCKS, Blocks::default()),
        }
    }

    /// No share of a block may be dropped under the lock, unless somebody else has one.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock()
    }

    /// The block that begins at an address.
    pub(crate) fn block(&self, address: u64) -> Option<Arc<GraphBlock>> {
        self.lock().0.get(&address)?.block.upgrade()
    }

    /// Frees what is allocated in a context that is destroyed.
    pub(crate) fn release_context(&self, context: u64) {
        let is_of_context = |block: &mut Arc<GraphBlock>| block.context == context;
        let mut blocks = self.lock();
        let shares: Vec<_> = blocks.0.values_mut().filter_map(|known| known.live.take_if(is_of_context)).collect();
        drop(blocks);
        drop(shares);
    }

    /// Gives memory that is not allocated back to the device.
    pub(crate) fn trim(&self, device: &DeviceMemory) {
        let mut blocks = self.lock();
        for known in blocks.0.values_mut().filter(|known| known.device == device.ordinal && known.live.is_none()) {
            known.unmap(device);
        }
    }
}

impl Blocks {
    pub(crate) fn is_live(&self, block: &GraphBlock) -> bool {
        self.0.get(&block.address).is_some_and(|known| known.live.is_some())
    }

    /// Sees to it that a block counts against the device's memory; `CUDA_ERROR_OUT_OF_MEMORY (2)` when there is not enough.
    pub(crate) fn map(&mut self, block: &GraphBlock, memory: &HostMemory) -> Result<()> {
        let Some(known) = self.0.get_mut(&block.address).filter(|known| !known.mapped) else { return Ok(()) };
        let (device, bytes) = (memory.device(known.device)?, known.capacity);
        if !device.account.take(bytes) {
            device.give_all_idle_memory_back(bytes);
            if !device.account.take(bytes) {
                return Err(Failure::new(Status::OUT_OF_MEMORY));
            }
        }
        known.mapped = true;
        device.graphs.change(|counts| counts.reserved += bytes);
        Ok(())
    }

    /// Notes that a launch allocates a block, if that is not allocated already; `CUDA_ERROR_OUT_OF_MEMORY (2)` as
    /// [`map`](Self::map) says.
    pub(crate) fn allocate(&mut self, block: &Arc<GraphBlock>, memory: &HostMemory) -> Result<()> {
        self.map(block, memory)?;
        let Some(known) = self.0.get_mut(&block.address) else { return Ok(()) };
        known.live.get_or_insert_with(|| Arc::clone(block));
        if !std::mem::replace(&mut known.used, true) {
            memory.device(known.device)?.graphs.change(|counts| counts.used += known.bytes);
        }
        Ok(())
    }

    /// Notes that a block is freed, and returns the share that was there while it was allocated. `None`: it was not.
    pub(crate) fn free(&mut self, block: &GraphBlock) -> Option<Arc<GraphBlock>> {
        self.0.get_mut(&block.address)?.live.take()
    }
}

impl Known {
    fn unmap(&mut self, device: &DeviceMemory) {
        if std::mem::take(&mut self.mapped) {
            device.account.give_back(self.capacity);
            let used = if std::mem::take(&mut self.used) { self.bytes } else { 0 };
            device.graphs.change(|counts| {
                counts.reserved -= self.capacity;
                counts.used -= used;
            });
        }
    }
}

impl GraphMemoryCounters {
    pub(crate) fn attribute(&self, attribute: GraphMemoryAttribute) -> Result<u64> {
        let counts = *self.counts.lock();
        Ok(match attribute {
            GraphMemoryAttribute::UsedCurrent => in_units(counts.used),
            GraphMemoryAttribute::UsedHigh => in_units(counts.used_high),
            GraphMemoryAttribute::ReservedCurrent => in_units(counts.reserved),
            GraphMemoryAttribute::ReservedHigh => in_units(counts.reserved_high),
            _ => return Err(Failure::new(Status::NOT_SUPPORTED)),
        })
    }

    pub(crate) fn reset(&self, attribute: GraphMemoryAttribute) -> Result<()> {
        let mut counts = self.counts.lock();
        match attribute {
            GraphMemoryAttribute::UsedHigh => counts.used_high = counts.used,
            GraphMemoryAttribute::ReservedHigh => counts.reserved_high = counts.reserved,
            _ => return Err(Failure::new(Status::INVALID_VALUE)),
        }
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock();
        change(&mut counts);
        counts.used_high = counts.used_high.max(counts.used);
        counts.reserved_high = counts.reserved_high.max(counts.reserved);
    }
}

impl GraphBlock {
    /// A block that no other has the address of.
    pub(crate) fn reserve(memory: &Arc<HostMemory>, context: u64, device: u32, bytes: usize) -> Result<Arc<Self>> {
        let out_of_memory = || Failure::new(Status::OUT_OF_MEMORY);
        let capacity = bytes.checked_next_multiple_of(GRANULARITY).ok_or_else(out_of_memory)?;
        if capacity as u64 > memory.device(device)?.account.total() {
            return Err(out_of_memory());
        }
        let block = Block::allocate(&memory.graphs.addresses, capacity)?.with_bytes(bytes);
        let origin = Origin { kind: MemoryKind::Graph, device, bytes, stream: None };
        memory.notify(|observer| observer.allocated(&block, origin));
        let allocation = Allocation { block, kind: MemoryKind::Graph, device, owner: None, pool: None };
        let address = memory.table.insert(allocation);
        let block = Arc::new(Self { memory: Arc::downgrade(memory), context, device, address, bytes });
        let known = Known {
            block: Arc::downgrade(&block),
            device,
            bytes: bytes as u64,
            capacity: capacity as u64,
            live: None,
            mapped: false,
            used: false,
            freeing: Freeing::Open,
        };
        memory.graphs.lock().0.insert(address, known);
        Ok(block)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn device(&self) -> u32 {
        self.device
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Notes that a node allocates it, again if there was a node that freed it.
    pub(crate) fn note_allocation(&self) {
        self.change_freeing(|freeing| *freeing = Freeing::Open);
    }

    /// Notes that an executable graph allocates it.
    pub(crate) fn note_instance(&self) {
        self.change_freeing(|freeing| {
            if *freeing == Freeing::Open {
                *freeing = Freeing::Outside;
            }
        });
    }

    /// Whether a node can free it: one of the graph that allocates it if `inside`.
    pub(crate) fn can_be_freed(&self, inside: bool) -> bool {
        let excluded = if inside { Freeing::Outside } else { Freeing::Inside };
        self.change_freeing(|freeing| *freeing != excluded).unwrap_or(false)
    }

    /// Notes that a node frees it.
    pub(crate) fn note_free(&self, inside: bool) {
        self.change_freeing(|freeing| *freeing = if inside { Freeing::Inside } else { Freeing::Outside });
    }

    /// `None`: all memory is gone.
    fn change_freeing<R>(&self, change: impl FnOnce(&mut Freeing) -> R) -> Option<R> {
        let memory = self.memory.upgrade()?;
        memory.graphs.lock().0.get_mut(&self.address).map(|known| change(&mut known.freeing))
    }

    /// Notes that it is freed. `false`: it was not allocated.
    pub(crate) fn free(&self) -> bool {
        let Some(memory) = self.memory.upgrade() else { return false };
        let share = memory.graphs.lock().free(self);
        share.is_some()
    }
}

impl Drop for GraphBlock {
    fn drop(&mut self) {
        let Some(memory) = self.memory.upgrade() else { return };
        let known = memory.graphs.lock().0.remove(&self.address);
        drop(memory.table.remove(self.address, |kind| kind == MemoryKind::Graph));
        if let (Some(mut known), Ok(device)) = (known, memory.device(self.device)) {
            known.unmap(device);
        }
    }
}
