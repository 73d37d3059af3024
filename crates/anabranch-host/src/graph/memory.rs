//! Memory that graphs allocate.
//!
//! A block's address is chosen when its node is added, and stays. Whether it is allocated is decided where launches and
//! frees are put in line, and not where they run, as the hardware's answers show. From its first launch on the block
//! counts against the device's memory, until the last graph with it is gone, or it is trimmed away while it is free.

use super::node::Action;
use super::state::Contents;
use crate::checker::{Checker, Origin};
use crate::context::ContextCore;
use crate::device::{DeviceState, Shared};
use crate::memory::{Account, Allocation, Block, MemoryKind};
use anabranch_hal::{EdgeData, Failure, GraphMemoryAttribute, Result, Status};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};

/// Blocks are multiples of this.
const GRANULARITY: usize = 512;

/// A block at an address of its own.
#[derive(Debug)]
pub(crate) struct GraphBlock {
    shared: Weak<Shared>,
    context: u64,
    device: u32,
    address: u64,
    bytes: usize,
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
}

/// How much of a device's memory graphs have.
#[derive(Debug, Default)]
pub(crate) struct GraphMemoryCounters {
    counts: Mutex<Counts>,
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
    pub(crate) fn new(checker: Option<&Arc<Checker>>) -> Self {
        Self { addresses: Arc::new(Account::new(u64::MAX, checker)), blocks: Mutex::new(HashMap::new()) }
    }

    /// The block that begins at an address.
    pub(crate) fn block(&self, address: u64) -> Option<Arc<GraphBlock>> {
        self.blocks.lock().get(&address)?.block.upgrade()
    }

    /// Forgets what is allocated in a context that goes.
    pub(crate) fn release_context(&self, context: u64) {
        let mut live: Vec<_> = self.blocks.lock().values().filter_map(|known| known.live.clone()).collect();
        live.retain(|block| block.context == context);
        for block in live {
            block.free();
        }
    }

    /// Gives memory that is not allocated back to the device.
    pub(crate) fn trim(&self, device: &DeviceState) {
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
            GraphMemoryAttribute::UsedCurrent => counts.used,
            GraphMemoryAttribute::UsedHigh => counts.used_high,
            GraphMemoryAttribute::ReservedCurrent => counts.reserved,
            GraphMemoryAttribute::ReservedHigh => counts.reserved_high,
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
    pub(super) fn reserve(core: &ContextCore, device: u32, bytes: usize) -> Result<Arc<Self>> {
        let out_of_memory = || Failure::new(Status::OUT_OF_MEMORY);
        let bytes = bytes.checked_next_multiple_of(GRANULARITY).ok_or_else(out_of_memory)?;
        if bytes as u64 > core.shared.device(device)?.account.total() {
            return Err(out_of_memory());
        }
        let memory = &core.shared.graph_memory;
        let block = Block::allocate(&memory.addresses, bytes)?;
        if let Some(checker) = &core.shared.engine.checker {
            checker.allocated(&block, Origin { kind: MemoryKind::Graph, device, bytes, stream: None });
        }
        let allocation = Allocation { block, kind: MemoryKind::Graph, owner: None, pool: None };
        let address = core.shared.table.insert(allocation);
        let block = Arc::new(Self {
            shared: Arc::downgrade(&core.shared),
            context: core.id,
            device,
            address,
            bytes,
            state: Mutex::default(),
        });
        memory.blocks.lock().insert(address, Known { block: Arc::downgrade(&block), live: None });
        Ok(block)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state.lock().live
    }

    /// Sees to it that it counts against the device's memory; 2 when there is not enough.
    pub(crate) fn map(&self) -> Result<()> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        let device = shared.device(self.device)?;
        let mut state = self.state.lock();
        if state.mapped {
            return Ok(());
        }
        let bytes = self.bytes as u64;
        if !device.account.take(bytes) {
            device.give_all_idle_memory_back();
            if !device.account.take(bytes) {
                return Err(Failure::new(Status::OUT_OF_MEMORY));
            }
        }
        state.mapped = true;
        device.graph_memory.change(|counts| counts.reserved += bytes);
        Ok(())
    }

    fn unmap(&self, state: &mut BlockState, device: &DeviceState) {
        if std::mem::take(&mut state.mapped) {
            device.account.give_back(self.bytes as u64);
            let bytes = self.bytes as u64;
            let used = if std::mem::take(&mut state.used) { bytes } else { 0 };
            device.graph_memory.change(|counts| {
                counts.reserved -= bytes;
                counts.used -= used;
            });
        }
    }

    /// Notes that a launch allocates it.
    pub(crate) fn allocate(self: &Arc<Self>) {
        let Some(shared) = self.shared.upgrade() else { return };
        // Held throughout, so that a free at the same time comes wholly before or after.
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.live, true) {
            return;
        }
        if let Ok(device) = shared.device(self.device)
            && !std::mem::replace(&mut state.used, true)
        {
            device.graph_memory.change(|counts| counts.used += self.bytes as u64);
        }
        if let Some(known) = shared.graph_memory.blocks.lock().get_mut(&self.address) {
            known.live = Some(Arc::clone(self));
        }
    }

    /// Notes that it is freed. `false`: it was not allocated.
    pub(crate) fn free(&self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let mut state = self.state.lock();
        if !std::mem::take(&mut state.live) {
            return false;
        }
        let share = shared.graph_memory.blocks.lock().get_mut(&self.address).and_then(|known| known.live.take());
        drop(state);
        // Without the locks, in case nobody else has one.
        drop(share);
        true
    }
}

impl Drop for GraphBlock {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.graph_memory.blocks.lock().remove(&self.address);
        drop(shared.table.remove(self.address, |kind| kind == MemoryKind::Graph));
        if let Ok(device) = shared.device(self.device) {
            let mut state = std::mem::take(self.state.get_mut());
            self.unmap(&mut state, device);
        }
    }
}

/// What a launch does to memory.
#[derive(Debug, Default)]
pub(crate) struct LaunchMemory {
    /// The blocks that it allocates, and whether it leaves them allocated.
    allocated: Vec<(Arc<GraphBlock>, bool)>,
    /// The blocks of other graphs that it frees.
    freed: Vec<Arc<GraphBlock>>,
}

impl Contents {
    /// Whether the graph frees a block already.
    pub(super) fn is_freed(&self, block: &Arc<GraphBlock>) -> bool {
        let last = self.nodes.values().rev().find_map(|node| match &*node.action {
            Action::Allocate(allocate) if Arc::ptr_eq(&allocate.block, block) => Some(false),
            Action::Free(free) if Arc::ptr_eq(&free.block, block) => Some(true),
            _ => None,
        });
        last == Some(true)
    }

    /// A large enough block that is free wherever a node runs that depends on the given ones.
    pub(super) fn reusable_block(
        &self,
        before: &[(u64, EdgeData)],
        device: u32,
        bytes: usize,
    ) -> Option<Arc<GraphBlock>> {
        let mut free: BTreeMap<(usize, u64), (u64, &Arc<GraphBlock>)> = BTreeMap::new();
        let mut own: HashSet<u64> = HashSet::new();
        for (&number, node) in &self.nodes {
            match &*node.action {
                Action::Free(free_node) if free_node.block.device == device && free_node.block.bytes >= bytes => {
                    let block = &free_node.block;
                    free.insert((block.bytes, block.address), (number, block));
                }
                Action::Allocate(allocate) => {
                    own.insert(allocate.block.address);
                    free.remove(&(allocate.block.bytes, allocate.block.address));
                }
                _ => {}
            }
        }
        // What another graph allocates is not this one's to use again.
        free.retain(|_, (_, block)| own.contains(&block.address));
        if free.is_empty() {
            return None;
        }
        let mut earlier: HashSet<u64> = HashSet::new();
        let mut next: Vec<u64> = before.iter().map(|(number, _)| *number).collect();
        while let Some(number) = next.pop() {
            if earlier.insert(number)
                && let Some(node) = self.nodes.get(&number)
            {
                next.extend(node.before.iter().map(|(number, _)| *number));
            }
        }
        free.into_values().find(|(number, _)| earlier.contains(number)).map(|(_, block)| Arc::clone(block))
    }

    /// What a launch does to memory. The graphs of nodes have no part in it.
    pub(crate) fn launch_memory(&self) -> LaunchMemory {
        let mut memory = LaunchMemory::default();
        if !self.has_memory_nodes {
            return memory;
        }
        // Where each block is in the list, by address.
        let mut places: HashMap<u64, usize> = HashMap::new();
        for node in self.nodes.values() {
            match &*node.action {
                Action::Allocate(allocate) => {
                    let place = *places.entry(allocate.block.address).or_insert(memory.allocated.len());
                    match memory.allocated.get_mut(place) {
                        Some((_, left)) => *left = true,
                        None => memory.allocated.push((Arc::clone(&allocate.block), true)),
                    }
                }
                Action::Free(free) => {
                    let place = places.get(&free.block.address);
                    match place.and_then(|&place| memory.allocated.get_mut(place)) {
                        Some((_, left)) => *left = false,
                        None => memory.freed.push(Arc::clone(&free.block)),
                    }
                }
                _ => {}
            }
        }
        memory
    }
}

impl LaunchMemory {
    /// Refuses a launch whose memory is still allocated, or cannot be had.
    pub(crate) fn check(&self, auto_free: bool) -> Result<()> {
        if !auto_free && self.allocated.iter().any(|(block, _)| block.is_live()) {
            return Err(Failure::argument(Status::INVALID_VALUE, "memory of the graph's last launch is not freed"));
        }
        if self.freed.iter().any(|block| !block.is_live()) {
            return Err(Failure::argument(Status::INVALID_VALUE, "the graph frees memory that is not allocated"));
        }
        self.map()
    }

    /// Sees to it that the memory can be had.
    pub(crate) fn map(&self) -> Result<()> {
        self.allocated.iter().try_for_each(|(block, _)| block.map())
    }

    /// Notes what a launch does that was checked.
    pub(crate) fn note(&self) {
        self.allocated.iter().for_each(|(block, _)| block.allocate());
        for (block, _) in self.allocated.iter().filter(|(_, left)| !left) {
            block.free();
        }
        for block in &self.freed {
            block.free();
        }
    }
}
