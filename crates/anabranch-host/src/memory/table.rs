//! Which addresses are memory of which kind.
//!
//! Device addresses are addresses of this process, so one table serves all devices. Every copy looks into it, most of them
//! for the same few allocations; each thread therefore remembers what it found last. A generation, which every removal
//! changes, shows whether that still holds.

use super::block::Block;
use super::pool::PoolState;
use crate::ranks;
use anabranch_hal::{DeviceOrdinal, DevicePointer, MemoryRange};
use anabranch_sync::RwLock;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT_TABLE: AtomicU64 = AtomicU64::new(1);

/// What memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    Device,
    Managed,
    Pinned,
    /// Host memory of the program that is registered.
    Registered,
    Pooled,
    /// A global variable of a module.
    Global,
    /// Memory that a graph allocates.
    Graph,
    /// A file that is mapped, which other processes use too.
    External,
}

impl MemoryKind {
    /// Whether others allocate and free it, and what lies around it is theirs.
    pub(crate) fn is_of_others(self) -> bool {
        matches!(self, Self::Registered | Self::External)
    }
}

/// A piece of memory that a caller has.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) block: Block,
    pub(crate) kind: MemoryKind,
    /// The device that it was allocated for.
    pub(crate) device: u32,
    /// The context that owns it, by number; none for memory from pools.
    pub(crate) owner: Option<u64>,
    pub(crate) pool: Option<Arc<PoolState>>,
}

/// What a range of addresses is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// No memory of the driver's: host memory, or nothing.
    Unknown,
    /// Inside of one allocation.
    Inside(MemoryKind),
    /// It begins in an allocation and ends outside of it.
    Overrun,
}

#[derive(Clone, Copy)]
struct Found {
    table: u64,
    generation: u64,
    begin: u64,
    end: u64,
    kind: MemoryKind,
}

thread_local! {
    static LAST_FOUND: Cell<[Option<Found>; 2]> = const { Cell::new([None; 2]) };
}

/// All allocations of a driver, by address.
#[derive(Debug)]
pub(crate) struct AllocationTable {
    id: u64,
    generation: AtomicU64,
    allocations: RwLock<BTreeMap<u64, Allocation>>,
}

impl AllocationTable {
    pub(crate) fn new() -> Self {
        Self {
            id: NEXT_TABLE.fetch_add(1, Ordering::Relaxed),
            generation: AtomicU64::new(0),
            allocations: RwLock::new(ranks::ALLOCATIONS, BTreeMap::new()),
        }
    }

    /// Enters an allocation and returns its address.
    pub(crate) fn insert(&self, allocation: Allocation) -> u64 {
        let address = allocation.block.address();
        self.allocations.write().insert(address, allocation);
        address
    }

    /// Enters an allocation, unless a part of its range is in another, whose kind is returned.
    pub(crate) fn insert_apart(&self, allocation: Allocation) -> Result<(), MemoryKind> {
        let (begin, bytes) = (allocation.block.address(), allocation.block.bytes() as u64);
        let mut allocations = self.allocations.write();
        // No two overlap, so of those that begin before the end the last one ends last.
        let before = allocations.range((Bound::Unbounded, Bound::Excluded(begin.saturating_add(bytes)))).next_back();
        if let Some((&other, known)) = before
            && other + known.block.bytes() as u64 > begin
        {
            return Err(known.kind);
        }
        allocations.insert(begin, allocation);
        Ok(())
    }

    /// Takes the allocation out that begins at `address`, if it is of a kind that is wanted.
    pub(crate) fn remove(&self, address: u64, wanted: impl FnOnce(MemoryKind) -> bool) -> Option<Allocation> {
        let mut allocations = self.allocations.write();
        if !wanted(allocations.get(&address)?.kind) {
            return None;
        }
        self.generation.fetch_add(1, Ordering::Release);
        allocations.remove(&address)
    }

    /// The kind of the allocation that begins at `address`.
    pub(crate) fn kind_at(&self, address: u64) -> Option<MemoryKind> {
        self.allocations.read().get(&address).map(|allocation| allocation.kind)
    }

    /// The device whose memory an address is in. `None` for memory that belongs to no one device.
    pub(crate) fn device_of(&self, address: u64) -> Option<u32> {
        self.with_allocation(address, |allocation, _| {
            let is_of_device =
                !matches!(allocation.kind, MemoryKind::Managed | MemoryKind::Pinned | MemoryKind::Registered);
            is_of_device.then_some(allocation.device)
        })?
    }

    /// The context that the memory at an address belongs to, if it is of one.
    pub(crate) fn owner_of(&self, address: u64) -> Option<u64> {
        self.with_allocation(address, |allocation, _| allocation.owner)?
    }

    /// Whether the memory at two addresses belongs to one context, or to none both, as memory from pools does. Variables and
    /// memory of graphs count as memory of any.
    pub(crate) fn have_one_owner(&self, first: u64, second: u64) -> bool {
        let owner = |address| {
            self.with_allocation(address, |allocation, _| {
                let is_of_any = matches!(allocation.kind, MemoryKind::Global | MemoryKind::Graph);
                (!is_of_any).then_some(allocation.owner)
            })?
        };
        match (owner(first), owner(second)) {
            (Some(first), Some(second)) => first == second,
            _ => true,
        }
    }

    /// The allocation that an address is in.
    pub(crate) fn range_of(&self, address: u64) -> Option<MemoryRange> {
        let device = self.device_of(address).map(DeviceOrdinal);
        self.with_allocation(address, |allocation, offset| MemoryRange {
            address: DevicePointer(address - offset),
            bytes: allocation.block.bytes() as u64,
            device,
        })
    }

    /// How many bytes there are from an address to the end of its allocation. `None`: it is in no allocation.
    pub(crate) fn bytes_from(&self, address: u64) -> Option<u64> {
        self.with_allocation(address, |allocation, offset| allocation.block.bytes() as u64 - offset)
    }

    /// What is to be known of the allocation that an address is in, and of where it is in there.
    fn with_allocation<R>(&self, address: u64, ask: impl FnOnce(&Allocation, u64) -> R) -> Option<R> {
        let allocations = self.allocations.read();
        let (&begin, allocation) = allocations.range((Bound::Unbounded, Bound::Included(address))).next_back()?;
        let offset = address - begin;
        (offset < allocation.block.bytes() as u64).then(|| ask(allocation, offset))
    }

    /// Takes out all allocations of a context.
    pub(crate) fn remove_owned_by(&self, owner: u64) -> BTreeMap<u64, Allocation> {
        let mut allocations = self.allocations.write();
        self.generation.fetch_add(1, Ordering::Release);
        let (gone, kept) = std::mem::take(&mut *allocations)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, allocation)| allocation.owner == Some(owner));
        *allocations = kept;
        gone
    }

    /// Drops all allocations.
    pub(crate) fn clear(&self) {
        let mut allocations = self.allocations.write();
        self.generation.fetch_add(1, Ordering::Release);
        let all = std::mem::take(&mut *allocations);
        drop(allocations);
        drop(all);
    }

    /// What a range is.
    #[inline]
    pub(crate) fn find(&self, address: u64, bytes: usize) -> Lookup {
        let generation = self.generation.load(Ordering::Acquire);
        let last = LAST_FOUND.try_with(Cell::get).unwrap_or_default();
        let hit = last.iter().flatten().find(|found| {
            found.table == self.id && found.generation == generation && found.begin <= address && address < found.end
        });
        match hit {
            Some(found) => found.lookup(address, bytes),
            None => self.find_anew(address, bytes, generation, last[0]),
        }
    }

    fn find_anew(&self, address: u64, bytes: usize, generation: u64, last: Option<Found>) -> Lookup {
        let allocations = self.allocations.read();
        let before = allocations.range((Bound::Unbounded, Bound::Included(address))).next_back();
        let Some((&begin, allocation)) = before else { return Lookup::Unknown };
        let end = begin + allocation.block.bytes() as u64;
        if address >= end {
            return Lookup::Unknown;
        }
        let found = Found { table: self.id, generation, begin, end, kind: allocation.kind };
        let _ = LAST_FOUND.try_with(|kept| kept.set([Some(found), last]));
        found.lookup(address, bytes)
    }
}

impl Found {
    fn lookup(&self, address: u64, bytes: usize) -> Lookup {
        match address.checked_add(bytes as u64) {
            Some(end) if end <= self.end => Lookup::Inside(self.kind),
            _ => Lookup::Overrun,
        }
    }
}
