//! What launches of graphs do to memory.

use super::node::Action;
use super::state::Contents;
use crate::memory::{Blocks, GraphBlock, HostMemory};
use anabranch_hal::{EdgeData, Failure, Result, Status};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

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

    /// Whether a node of the graph allocates a block.
    pub(super) fn allocates(&self, block: &Arc<GraphBlock>) -> bool {
        let allocated = |action: &Action| matches!(action, Action::Allocate(node) if Arc::ptr_eq(&node.block, block));
        self.nodes.values().any(|node| allocated(&node.action))
    }

    /// Notes that an executable graph allocates what the nodes allocate.
    pub(crate) fn note_instance(&self) {
        for node in self.nodes.values() {
            if let Action::Allocate(allocate) = &*node.action {
                allocate.block.note_instance();
            }
        }
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
                Action::Free(free_node) if free_node.block.device() == device && free_node.block.bytes() >= bytes => {
                    let block = &free_node.block;
                    free.insert((block.bytes(), block.address()), (number, block));
                }
                Action::Allocate(allocate) => {
                    own.insert(allocate.block.address());
                    free.remove(&(allocate.block.bytes(), allocate.block.address()));
                }
                _ => {}
            }
        }
        // What another graph allocates is not this one's to use again.
        free.retain(|_, (_, block)| own.contains(&block.address()));
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
