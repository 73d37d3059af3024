//! What launches of graphs do to memory.

use super::node::Action;
use super::state::Contents;
use crate::memory::{Blocks, GraphBlock, HostMemory};
use anabranch_hal::{EdgeData, Failure, Result, Status};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a launch does to memory.
#[derive(Debug, Default)]
pub(crate) struct LaunchMemory {
    /// The blocks that it allocates, and whether it leaves them allocated.
    allocated: Vec<(Arc<GraphBlock>, bool)>,
    /// The blocks of other graphs that it frees.
    freed: Vec<Arc<GraphBlock>>,
}

/// What the nodes of a graph do to blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockUses {
    /// By address. A graph keeps nodes that use memory, and these their blocks.
    uses: HashMap<u64, BlockUse>,
    /// The blocks that the graph allocates and frees, with the node that frees it, by device, size and address.
    free: BTreeMap<(u32, usize, u64), (u64, Arc<GraphBlock>)>,
}

/// What the nodes of a graph do to a block.
#[derive(Clone, Copy, Debug, Default)]
struct BlockUse {
    allocated: bool,
    /// Whether the last of the nodes frees it.
    freed: bool,
}

impl BlockUses {
    /// Notes what a new node does.
    pub(super) fn note(&mut self, number: u64, action: &Action) {
        let (block, freed) = match action {
            Action::Allocate(allocate) => (&allocate.block, false),
            Action::Free(free) => (&free.block, true),
            _ => return,
        };
        let known = self.uses.entry(block.address()).or_default();
        *known = BlockUse { allocated: known.allocated || !freed, freed };
        let key = (block.device(), block.bytes(), block.address());
        // What another graph allocates is not this one's to use again.
        if freed && known.allocated {
            self.free.insert(key, (number, Arc::clone(block)));
        } else {
            self.free.remove(&key);
        }
    }

    fn of(&self, block: &GraphBlock) -> BlockUse {
        self.uses.get(&block.address()).copied().unwrap_or_default()
    }

    /// Whether the graph frees a block already.
    pub(super) fn is_freed(&self, block: &GraphBlock) -> bool {
        self.of(block).freed
    }

    /// Whether a node of the graph allocates a block.
    pub(super) fn allocates(&self, block: &GraphBlock) -> bool {
        self.of(block).allocated
    }
}

impl Contents {
    /// Notes that an executable graph allocates what the nodes allocate.
    pub(crate) fn note_instance(&self) {
        for node in self.nodes.values() {
            if let Action::Allocate(allocate) = &*node.action {
                allocate.block.note_instance();
            }
        }
    }

    /// The smallest of the large enough blocks that are free wherever a node runs that depends on the given ones.
    pub(super) fn reusable_block(
        &mut self,
        before: &[(u64, EdgeData)],
        device: u32,
        bytes: usize,
    ) -> Option<Arc<GraphBlock>> {
        let fitting = (device, bytes, 0)..=(device, usize::MAX, u64::MAX);
        let mut free = self.blocks.free.range(fitting).map(|(_, free)| free).peekable();
        free.peek()?;
        let earlier = self.ancestors.find(before, &self.nodes)?;
        free.find(|(number, _)| earlier.contains(*number)).map(|(_, block)| Arc::clone(block))
    }

    /// What a launch does to memory. The graphs of nodes have no part in it.
    pub(crate) fn launch_memory(&self) -> LaunchMemory {
        let mut memory = LaunchMemory::default();
        if !self.marks.memory {
            return memory;
        }
        // Where each block is in the list, by address.
        let mut places: HashMap<u64, usize> = HashMap::new();
        for node in self.nodes.values() {
            match &*node.action {
                Action::Allocate(allocate) => {
                    let place = *places.entry(allocate.block.address()).or_insert(memory.allocated.len());
                    match memory.allocated.get_mut(place) {
                        Some((_, left)) => *left = true,
                        None => memory.allocated.push((Arc::clone(&allocate.block), true)),
                    }
                }
                Action::Free(free) => {
                    let place = places.get(&free.block.address());
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
    /// Changes the memory as a launch does, or refuses a launch whose memory is still allocated, or cannot be had. Nothing
    /// else changes it in between.
    pub(crate) fn launch(&self, memory: &HostMemory, auto_free: bool) -> Result<()> {
        if self.allocated.is_empty() && self.freed.is_empty() {
            return Ok(());
        }
        let mut blocks = memory.graphs.lock();
        if !auto_free && self.allocated.iter().any(|(block, _)| blocks.is_live(block)) {
            return Err(Failure::argument(Status::INVALID_VALUE, "memory of the graph's last launch is not freed"));
        }
        if self.freed.iter().any(|block| !blocks.is_live(block)) {
            return Err(Failure::argument(Status::INVALID_VALUE, "the graph frees memory that is not allocated"));
        }
        // All of it, before any is allocated.
        self.map_all(&mut blocks, memory)?;
        self.allocated.iter().try_for_each(|(block, _)| blocks.allocate(block, memory))?;
        let freed_inside = self.allocated.iter().filter(|(_, left)| !left).map(|(block, _)| block);
        for block in freed_inside.chain(&self.freed) {
            // Dropped under the lock, because the launch has a share of its own.
            drop(blocks.free(block));
        }
        Ok(())
    }

    /// Sees to it that the memory can be had.
    pub(crate) fn map(&self, memory: &HostMemory) -> Result<()> {
        self.map_all(&mut memory.graphs.lock(), memory)
    }

    fn map_all(&self, blocks: &mut Blocks, memory: &HostMemory) -> Result<()> {
        self.allocated.iter().try_for_each(|(block, _)| blocks.map(block, memory))
    }
}
