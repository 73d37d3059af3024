//! What a graph refers to and retains.
//!
//! A graph retains every buffer, event, module and host function that its nodes refer to. When nodes are removed or
//! changed, the graph continues to retain what they referred to, because a launch may still use it. Everything is
//! released with the graph and what was made from it, when the last launch is complete.

use crate::host_work::RepeatableHostWork;
use crate::memory::Allocation;
use anabranch_hal::Access;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Something that a graph retains.
pub type Object = Arc<dyn Any + Send + Sync>;

/// The memory that a graph's nodes use, each piece once with its strongest access, and what else the graph retains.
#[derive(Default)]
pub struct Retained {
    /// In ascending order of the ids.
    memory: Vec<RetainedMemory>,
    objects: Vec<Object>,
    host_work: Vec<Arc<RepeatableHostWork>>,
    /// The addresses of what is in `objects` and `host_work`.
    known: BTreeSet<usize>,
}

/// A reference of a graph, or of work for one, to a piece of memory. It excludes plain host references to the memory.
/// It is made while the memory is borrowed for the work, because others may borrow it afterwards.
pub struct RetainedMemory {
    memory: Arc<Allocation>,
    access: Access,
}

impl RetainedMemory {
    /// Retains memory.
    pub fn new(memory: &Arc<Allocation>, access: Access) -> Self {
        memory.retained_by_graph();
        if memory.is_host_visible() {
            memory.host_access().graph_retains(access);
        }
        Self { memory: memory.clone(), access }
    }

    /// The memory.
    pub fn memory(&self) -> &Arc<Allocation> {
        &self.memory
    }

    /// How the work uses it.
    pub fn access(&self) -> Access {
        self.access
    }
}

impl Drop for RetainedMemory {
    fn drop(&mut self) {
        if self.memory.is_host_visible() {
            self.memory.host_access().graph_releases(self.access);
        }
    }
}

impl Retained {
    /// Retains a piece of memory.
    pub fn add_memory(&mut self, memory: &Arc<Allocation>, access: Access) {
        match self.memory.binary_search_by_key(&memory.label().id(), |known| known.memory.label().id()) {
            Err(place) => self.memory.insert(place, RetainedMemory::new(memory, access)),
            Ok(place) if access == Access::Write && self.memory[place].access == Access::Read => {
                self.memory[place] = RetainedMemory::new(memory, access);
            }
            Ok(_) => {}
        }
    }

    /// Retains an object.
    pub fn add<T: Any + Send + Sync>(&mut self, object: &Arc<T>) {
        if self.known.insert(Arc::as_ptr(object).cast::<()>() as usize) {
            self.objects.push(object.clone());
        }
    }

    /// As [`add`](Self::add), of an object whose type is not known.
    pub fn add_object(&mut self, object: &Object) {
        if self.known.insert(Arc::as_ptr(object).cast::<()>() as usize) {
            self.objects.push(object.clone());
        }
    }

    /// Retains a host function.
    pub fn add_host_work(&mut self, work: &Arc<RepeatableHostWork>) {
        if self.known.insert(Arc::as_ptr(work) as usize) {
            self.host_work.push(work.clone());
        }
    }

    /// The memory, each piece once, in ascending order of the ids.
    pub fn memory(&self) -> impl ExactSizeIterator<Item = (&Arc<Allocation>, Access)> + Clone {
        self.memory.iter().map(|retained| (&retained.memory, retained.access))
    }

    /// The host functions.
    pub fn host_work(&self) -> &[Arc<RepeatableHostWork>] {
        &self.host_work
    }

    /// Retains everything that another one retains.
    pub fn merge(&mut self, other: &Self) {
        for (memory, access) in other.memory() {
            self.add_memory(memory, access);
        }
        for object in &other.objects {
            self.add_object(object);
        }
        for work in &other.host_work {
            self.add_host_work(work);
        }
    }

    /// Whether it retains nothing.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.objects.is_empty() && self.host_work.is_empty()
    }
}
