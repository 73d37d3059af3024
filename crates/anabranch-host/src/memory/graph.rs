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
use anabranch_sync::Mutex;
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
    capacity: usize,
    state: Mutex<BlockState>,
}

#[derive(Debug, Default)]
struct BlockState {
    /// Whether it is allocated.
    live: bool,
    /// Whether it counts against the device's memory.
    mapped: bool,
    /// Whether it has been allocated since it was mapped. Hardware counts it as used until it is trimmed away.
    used: bool,
    freeing: Freeing,
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

/// All blocks of graphs, by address.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    /// Addresses are taken from the process, and only later count against a device.
    addresses: Arc<Account>,
    blocks: Mutex<HashMap<u64, Known>>,
}

#[derive(Debug)]
struct Known {
    block: Weak<GraphBlock>,
    /// A share while it is allocated, because it outlives its graph then.
    live: Option<Arc<GraphBlock>>,
}

impl GraphMemory {
    pub(crate) fn new(observer: Option<&Arc<dyn MemoryObserver>>) -> Self {
        Self {
            addresses: Arc::new(Account::new(u64::MAX, observer)),
            blocks: Mutex::new(ranks::GRAPH_BLOCKS, HashMap::new()),
        }
    }

    /// The block that begins at an address.
    pub(crate) fn block(&self, address: u64) -> Option<Arc<GraphBlock>> {
        self.blocks.lock().get(&address)?.block.upgrade()
    }

    /// Frees what is allocated in a context that is destroyed.
    pub(crate) fn release_context(&self, context: u64) {
        let mut live: Vec<_> = self.blocks.lock().values().filter_map(|known| known.live.clone()).collect();
        live.retain(|block| block.context == context);
        for block in live {
            block.free();
        }
    }

    /// Gives memory that is not allocated back to the device.
    pub(crate) fn trim(&self, device: &DeviceMemory) {
        let blocks: Vec<_> = self.blocks.lock().values().filter_map(|known| known.block.upgrade()).collect();
        for block in blocks.iter().filter(|block| block.device == device.ordinal) {
            let mut state = block.state.lock();
            if !state.live {
                block.unmap(&mut state, device);
            }
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
        let block = Arc::new(Self {
            memory: Arc::downgrade(memory),
            context,
            device,
            address,
            bytes,
            capacity,
            state: Mutex::new(ranks::GRAPH_BLOCK, BlockState::default()),
        });
        memory.graphs.blocks.lock().insert(address, Known { block: Arc::downgrade(&block), live: None });
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
        self.state.lock().freeing = Freeing::Open;
    }

    /// Notes that an executable graph allocates it.
    pub(crate) fn note_instance(&self) {
        let mut state = self.state.lock();
        if state.freeing == Freeing::Open {
            state.freeing = Freeing::Outside;
        }
    }

    /// Whether a node can free it: one of the graph that allocates it if `inside`.
    pub(crate) fn can_be_freed(&self, inside: bool) -> bool {
        self.state.lock().freeing != if inside { Freeing::Outside } else { Freeing::Inside }
    }

    /// Notes that a node frees it.
    pub(crate) fn note_free(&self, inside: bool) {
        self.state.lock().freeing = if inside { Freeing::Inside } else { Freeing::Outside };
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state.lock().live
    }

    /// Sees to it that it counts against the device's memory; `CUDA_ERROR_OUT_OF_MEMORY (2)` when there is not enough.
    pub(crate) fn map(&self) -> Result<()> {
        let Some(memory) = self.memory.upgrade() else { return Ok(()) };
        let device = memory.device(self.device)?;
        let mut state = self.state.lock();
        if state.mapped {
            return Ok(());
        }
        let bytes = self.capacity as u64;
        if !device.account.take(bytes) {
            device.give_all_idle_memory_back(bytes);
            if !device.account.take(bytes) {
                return Err(Failure::new(Status::OUT_OF_MEMORY));
            }
        }
        state.mapped = true;
        device.graphs.change(|counts| counts.reserved += bytes);
        Ok(())
    }

    fn unmap(&self, state: &mut BlockState, device: &DeviceMemory) {
        if std::mem::take(&mut state.mapped) {
            device.account.give_back(self.capacity as u64);
            let used = if std::mem::take(&mut state.used) { self.bytes as u64 } else { 0 };
            device.graphs.change(|counts| {
                counts.reserved -= self.capacity as u64;
                counts.used -= used;
            });
        }
    }

    /// Notes that a launch allocates it.
    pub(crate) fn allocate(self: &Arc<Self>) {
        let Some(memory) = self.memory.upgrade() else { return };
        // Held throughout, so that a free at the same time comes wholly before or after.
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.live, true) {
            return;
        }
        if let Ok(device) = memory.device(self.device)
            && !std::mem::replace(&mut state.used, true)
        {
            device.graphs.change(|counts| counts.used += self.bytes as u64);
        }
        if let Some(known) = memory.graphs.blocks.lock().get_mut(&self.address) {
            known.live = Some(Arc::clone(self));
        }
    }

    /// Notes that it is freed. `false`: it was not allocated.
    pub(crate) fn free(&self) -> bool {
        let Some(memory) = self.memory.upgrade() else { return false };
        let mut state = self.state.lock();
        if !std::mem::take(&mut state.live) {
            return false;
        }
        let share = memory.graphs.blocks.lock().get_mut(&self.address).and_then(|known| known.live.take());
        drop(state);
        // Without the locks, in case nobody else has one.
        drop(share);
        true
    }
}

impl Drop for GraphBlock {
    fn drop(&mut self) {
        let Some(memory) = self.memory.upgrade() else { return };
        memory.graphs.blocks.lock().remove(&self.address);
        drop(memory.table.remove(self.address, |kind| kind == MemoryKind::Graph));
        if let Ok(device) = memory.device(self.device) {
            let mut state = std::mem::take(self.state.get_mut());
            self.unmap(&mut state, device);
        }
    }
}
