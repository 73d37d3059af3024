//! What a graph refers to, and keeps.

use crate::memory::Allocation;
use anabranch_hal::{Access, Retained};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The memory that a graph's nodes use, each piece once with its strongest access, and what else the graph keeps.
#[derive(Default)]
pub(crate) struct GraphParts {
    memory: Vec<KeptMemory>,
    /// Places in `memory` by the allocation's address.
    places: BTreeMap<usize, usize>,
    kept: Vec<Retained>,
    /// The addresses of what is in `kept`.
    known: BTreeSet<usize>,
}

/// A graph's share of a piece of memory, or that of work for one: it keeps the memory, and host references out of it. It is
/// made while the memory is borrowed for the work, because afterwards others may have borrowed it.
pub(super) struct KeptMemory {
    pub(super) memory: Arc<Allocation>,
    pub(super) access: Access,
}

impl KeptMemory {
    pub(super) fn new(memory: &Arc<Allocation>, access: Access) -> Self {
        memory.kept_by_graph();
        if memory.is_host_visible() {
            memory.host_access().graph_keeps(access);
        }
        Self { memory: memory.clone(), access }
    }
}

impl Drop for KeptMemory {
    fn drop(&mut self) {
        if self.memory.is_host_visible() {
            self.memory.host_access().graph_lets_go(self.access);
        }
    }
}

impl GraphParts {
    /// Adds a piece of memory. `true`: it is new, or was only read so far and is now written.
    pub(crate) fn add(&mut self, memory: &Arc<Allocation>, access: Access) -> bool {
        let address = Arc::as_ptr(memory) as usize;
        match self.places.get(&address).and_then(|&place| self.memory.get_mut(place)) {
            Some(known) if known.access == Access::Write || known.access == access => false,
            Some(known) => {
                *known = KeptMemory::new(memory, access);
                true
            }
            None => {
                self.places.insert(address, self.memory.len());
                self.memory.push(KeptMemory::new(memory, access));
                true
            }
        }
    }

    /// Keeps an object.
    pub(crate) fn keep(&mut self, object: Retained) {
        if self.known.insert(Arc::as_ptr(&object).cast::<()>() as usize) {
            self.kept.push(object);
        }
    }

    /// The memory, each piece once.
    pub(crate) fn memory(&self) -> impl ExactSizeIterator<Item = (&Arc<Allocation>, Access)> {
        self.memory.iter().map(|kept| (&kept.memory, kept.access))
    }

    /// Adds all of another's.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (memory, access) in other.memory() {
            self.add(memory, access);
        }
        for object in &other.kept {
            self.keep(object.clone());
        }
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.kept.is_empty()
    }
}
