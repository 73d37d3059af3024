//! What a graph refers to and retains.
//!
//! A graph retains every buffer, event, module and host function that its nodes refer to, and releases what a node referred
//! to when the node is removed or gets other work. An executable graph does so too, and releases it when its last launch is
//! complete. What was captured belongs to no node in particular, and is released with the graph and what was made from it.

mod by_node;

pub use by_node::RetainedByNode;

use crate::host_work::RepeatableHostWork;
use crate::memory::Allocation;
use anabranch_hal::Access;
use smallvec::SmallVec;
use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Something that a graph retains.
pub type Object = Arc<dyn Any + Send + Sync>;

/// The memory that a graph's nodes use, each piece once with its strongest access, and what else the graph retains. It
/// counts how often each is referred to.
#[derive(Clone, Default)]
pub struct Retained {
    /// In ascending order of the ids.
    memory: Vec<CountedMemory>,
    /// By their addresses.
    objects: HashMap<usize, (Object, usize)>,
    host_work: Vec<Arc<RepeatableHostWork>>,
    /// How often each host function is referred to, in the order of `host_work`.
    host_work_counts: Vec<usize>,
    /// The place of each host function in `host_work`, by its address.
    host_work_places: HashMap<usize, usize>,
}

/// Memory with the numbers of references that read it and that write it.
#[derive(Clone)]
struct CountedMemory {
    /// With the strongest access.
    strongest: RetainedMemory,
    readers: usize,
    writers: usize,
}

/// A reference of a graph, or of work for one, to a piece of memory. It excludes plain host references to the memory.
/// It is made while the memory is borrowed for the work, because others may borrow it afterwards.
pub struct RetainedMemory {
    memory: Arc<Allocation>,
    access: Access,
}

/// What the work of one node refers to.
#[derive(Default)]
pub struct References {
    memory: SmallVec<[(Arc<Allocation>, Access); 3]>,
    objects: SmallVec<[Object; 1]>,
    host_work: SmallVec<[Arc<RepeatableHostWork>; 1]>,
}

/// What nothing refers to any more. It is dropped outside of locks, because it contains code of the program.
#[derive(Default)]
#[must_use = "it is dropped outside of locks"]
pub struct Released {
    memory: Vec<RetainedMemory>,
    objects: Vec<Object>,
    host_work: Vec<Arc<RepeatableHostWork>>,
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

impl Clone for RetainedMemory {
    fn clone(&self) -> Self {
        Self::new(&self.memory, self.access)
    }
}

impl Drop for RetainedMemory {
    fn drop(&mut self) {
        if self.memory.is_host_visible() {
            self.memory.host_access().graph_releases(self.access);
        }
    }
}

impl CountedMemory {
    fn new(memory: &Arc<Allocation>, access: Access) -> Self {
        let mut counted = Self { strongest: RetainedMemory::new(memory, access), readers: 0, writers: 0 };
        *counted.count(access) += 1;
        counted
    }

    fn count(&mut self, access: Access) -> &mut usize {
        match access {
            Access::Read => &mut self.readers,
            Access::Write => &mut self.writers,
        }
    }

    fn add(&mut self, access: Access) {
        *self.count(access) += 1;
        if access == Access::Write && self.strongest.access == Access::Read {
            self.strongest = RetainedMemory::new(&self.strongest.memory, access);
        }
    }

    /// Takes a reference back. Returns whether it was the last one.
    fn remove(&mut self, access: Access) -> bool {
        *self.count(access) -= 1;
        if self.writers == 0 && self.readers > 0 && self.strongest.access == Access::Write {
            self.strongest = RetainedMemory::new(&self.strongest.memory, Access::Read);
        }
        self.readers + self.writers == 0
    }
}

impl References {
    /// Refers to memory too.
    pub fn add_memory(&mut self, memory: &Arc<Allocation>, access: Access) {
        self.memory.push((memory.clone(), access));
    }

    /// Refers to an object too.
    pub fn add_object(&mut self, object: &Object) {
        self.objects.push(object.clone());
    }

    /// Refers to a host function too.
    pub fn add_host_work(&mut self, work: &Arc<RepeatableHostWork>) {
        self.host_work.push(work.clone());
    }

    /// Refers to everything that is retained there too.
    pub fn add_all(&mut self, retained: &Retained) {
        self.memory.extend(retained.memory().map(|(memory, access)| (memory.clone(), access)));
        self.objects.extend(retained.objects().cloned());
        self.host_work.extend(retained.host_work.iter().cloned());
    }

    /// The objects.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Whether there are host functions.
    pub(crate) fn has_host_work(&self) -> bool {
        !self.host_work.is_empty()
    }

    /// Whether the host accesses some of the memory too.
    pub fn has_host_visible_memory(&self) -> bool {
        self.memory.iter().any(|(memory, _)| memory.is_host_visible())
    }
}

impl Retained {
    /// Where memory is, or belongs.
    fn place(&self, memory: &Allocation) -> Result<usize, usize> {
        self.memory.binary_search_by_key(&memory.label().id(), |known| known.strongest.memory.label().id())
    }

    /// Retains a piece of memory.
    pub fn add_memory(&mut self, memory: &Arc<Allocation>, access: Access) {
        match self.place(memory) {
            Err(place) => self.memory.insert(place, CountedMemory::new(memory, access)),
            Ok(place) => self.memory[place].add(access),
        }
    }

    /// Retains an object.
    pub fn add<T: Any + Send + Sync>(&mut self, object: &Arc<T>) {
        let object: Object = object.clone();
        self.add_object(&object);
    }

    /// As [`add`](Self::add), of an object whose type is not known.
    pub fn add_object(&mut self, object: &Object) {
        self.objects.entry(address_of(object)).or_insert_with(|| (object.clone(), 0)).1 += 1;
    }

    /// Retains a host function.
    pub fn add_host_work(&mut self, work: &Arc<RepeatableHostWork>) {
        match self.host_work_places.entry(Arc::as_ptr(work).addr()) {
            Entry::Occupied(place) => self.host_work_counts[*place.get()] += 1,
            Entry::Vacant(place) => {
                place.insert(self.host_work.len());
                self.host_work.push(work.clone());
                self.host_work_counts.push(1);
            }
        }
    }

    /// Takes [`add_host_work`](Self::add_host_work) back. Returns the host function if nothing refers to it any more.
    fn remove_host_work(&mut self, work: &Arc<RepeatableHostWork>) -> Option<Arc<RepeatableHostWork>> {
        let place = *self.host_work_places.get(&Arc::as_ptr(work).addr())?;
        self.host_work_counts[place] -= 1;
        if self.host_work_counts[place] > 0 {
            return None;
        }
        self.host_work_places.remove(&Arc::as_ptr(work).addr());
        self.host_work_counts.swap_remove(place);
        let removed = self.host_work.swap_remove(place);
        if let Some(moved) = self.host_work.get(place) {
            self.host_work_places.insert(Arc::as_ptr(moved).addr(), place);
        }
        Some(removed)
    }

    /// The memory, each piece once, in ascending order of the ids.
    pub fn memory(&self) -> impl ExactSizeIterator<Item = (&Arc<Allocation>, Access)> + Clone {
        self.memory.iter().map(|counted| (&counted.strongest.memory, counted.strongest.access))
    }

    /// The objects, each once.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.values().map(|(object, _)| object)
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
        other.objects().for_each(|object| self.add_object(object));
        for work in &other.host_work {
            self.add_host_work(work);
        }
    }

    /// Retains what work refers to.
    pub fn hold(&mut self, references: &References) {
        references.memory.iter().for_each(|(memory, access)| self.add_memory(memory, *access));
        references.objects.iter().for_each(|object| self.add_object(object));
        references.host_work.iter().for_each(|work| self.add_host_work(work));
    }

    /// Takes [`hold`](Self::hold) back, which was called with the same references.
    pub fn release(&mut self, references: &References) -> Released {
        let mut released = Released::default();
        for (memory, access) in &references.memory {
            if let Ok(place) = self.place(memory)
                && self.memory[place].remove(*access)
            {
                released.memory.push(self.memory.remove(place).strongest);
            }
        }
        for object in &references.objects {
            if let Some((_, count)) = self.objects.get_mut(&address_of(object)) {
                *count -= 1;
                if *count == 0 {
                    released.objects.extend(self.objects.remove(&address_of(object)).map(|(object, _)| object));
                }
            }
        }
        for work in &references.host_work {
            released.host_work.extend(self.remove_host_work(work));
        }
        released
    }

    /// Takes the memory out.
    pub fn take_memory(&mut self) -> Vec<RetainedMemory> {
        std::mem::take(&mut self.memory).into_iter().map(|counted| counted.strongest).collect()
    }

    /// Whether it retains nothing.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.objects.is_empty() && self.host_work.is_empty()
    }
}

/// The address of an object, by which it is known.
fn address_of(object: &Object) -> usize {
    Arc::as_ptr(object).cast::<()>() as usize
}

impl Released {
    /// Takes the memory out.
    pub fn take_memory(&mut self) -> Vec<RetainedMemory> {
        std::mem::take(&mut self.memory)
    }

    /// Whether it has nothing.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.objects.is_empty() && self.host_work.is_empty()
    }
}
