//! What a graph refers to.

use crate::memory::Allocation;
use anabranch_hal::{Access, Retained};
use std::collections::HashMap;
use std::sync::Arc;

/// The memory that a graph's nodes use, each piece once with its strongest access, and what else the graph keeps.
#[derive(Default)]
pub(crate) struct GraphParts {
    memory: Vec<(Arc<Allocation>, Access)>,
    /// Places in `memory` by the allocation's address.
    places: HashMap<usize, usize>,
    kept: Vec<Retained>,
}

/// A graph's share of a piece of memory: it keeps the memory, and host references out of it.
pub(crate) struct KeptMemory {
    memory: Arc<Allocation>,
    access: Access,
}

impl KeptMemory {
    pub(crate) fn new(memory: &Arc<Allocation>, access: Access) -> Self {
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
            Some((_, known)) if *known == Access::Write || *known == access => false,
            Some((_, known)) => {
                *known = access;
                true
            }
            None => {
                self.places.insert(address, self.memory.len());
                self.memory.push((memory.clone(), access));
                true
            }
        }
    }

    pub(crate) fn memory(&self) -> &[(Arc<Allocation>, Access)] {
        &self.memory
    }

    pub(crate) fn keep_all(&mut self, objects: impl IntoIterator<Item = Retained>) {
        self.kept.extend(objects);
    }

    /// As one object for the driver to retain, if there is anything in it.
    pub(crate) fn to_retained(&self) -> Option<Retained> {
        if self.memory.is_empty() && self.kept.is_empty() {
            return None;
        }
        let memory: Vec<KeptMemory> =
            self.memory.iter().map(|(memory, access)| KeptMemory::new(memory, *access)).collect();
        Some(Arc::new((memory, self.kept.clone())))
    }

    /// Adds another's memory.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (memory, access) in &other.memory {
            self.add(memory, *access);
        }
    }
}
