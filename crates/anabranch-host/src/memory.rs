//! Memory: where it is, whose it is, and work that uses it.

mod block;
mod copy;
mod device;
mod fill;
mod graph;
mod heap;
mod idle;
mod leaving;
mod observer;
mod piece;
mod pool;
mod racing;
mod table;
mod value;
mod work;

pub(crate) use block::{Account, Block, StagedBytes};
pub(crate) use copy::{VolumeCopy, address, volume_range};
pub(crate) use device::DeviceMemory;
pub(crate) use fill::{check_alignment, check_fill, fill_operation};
pub(crate) use graph::{Blocks, GraphBlock};
pub(crate) use heap::DeviceHeap;
pub(crate) use observer::{FreedBy, MemoryObserver, Origin, ZONE};
pub(crate) use piece::RawPiece;
pub(crate) use pool::PoolState;
pub(crate) use racing::{copy_racing, fill_racing, store_racing};
pub(crate) use table::{Allocation, AllocationTable, Lookup, MemoryKind};
pub(crate) use value::{ValueStep, check_value_write, value_condition, value_step, value_write_operation};
pub(crate) use work::{Arrival, Copy, Fill, FreeGraphBlock, SMALL_COPY, SmallCopy, StagedCopy, ValueWrite};
pub(crate) use work::{release, retire};

use crate::ranks;
use anabranch_hal::{Failure, Result, Status};
use anabranch_sync::Mutex;
use graph::GraphMemory;
use leaving::Leaving;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The memory of a driver.
#[derive(Debug)]
pub(crate) struct HostMemory {
    pub(crate) table: AllocationTable,
    pub(crate) leaving: Leaving,
    pub(crate) graphs: GraphMemory,
    /// Pinned memory is memory of the host, and counts against no device.
    pub(crate) pinned: Arc<Account>,
    /// Bytes of uploads that were copied when they were enqueued, and have not run.
    pub(crate) staged_bytes: Arc<AtomicU64>,
    pub(crate) devices: Vec<DeviceMemory>,
    /// The observer of allocations, if there is one.
    pub(crate) observer: Option<Arc<dyn MemoryObserver>>,
    /// The heaps of contexts whose kernels allocate memory.
    heaps: Mutex<HashMap<u64, Arc<DeviceHeap>>>,
}

impl HostMemory {
    /// The memory of as many devices, of which each has as many bytes.
    pub(crate) fn new(devices: u32, bytes: u64, observer: Option<Arc<dyn MemoryObserver>>) -> Arc<Self> {
        let (follow, leaving) = (observer.as_ref(), Leaving::default());
        Arc::new(Self {
            table: AllocationTable::new(),
            graphs: GraphMemory::new(follow),
            pinned: Arc::new(Account::new(u64::MAX, follow)),
            staged_bytes: Arc::new(AtomicU64::new(0)),
            devices: (0..devices).map(|ordinal| DeviceMemory::new(ordinal, bytes, follow, &leaving)).collect(),
            leaving,
            observer,
            heaps: Mutex::new(ranks::HEAPS, HashMap::new()),
        })
    }

    /// The device of that number; `CUDA_ERROR_INVALID_DEVICE (101)` where there is none.
    pub(crate) fn device(&self, ordinal: u32) -> Result<&DeviceMemory> {
        self.devices.get(ordinal as usize).ok_or(Failure::new(Status::INVALID_DEVICE))
    }

    /// The heap of a context, from which its kernels allocate.
    pub(crate) fn heap(&self, context: u64, device: u32) -> Result<Arc<DeviceHeap>> {
        let account = &self.device(device)?.account;
        let mut heaps = self.heaps.lock();
        let new = || Arc::new(DeviceHeap::new(account, self.observer.is_some()));
        Ok(Arc::clone(heaps.entry(context).or_insert_with(new)))
    }

    /// Notifies the observer of allocations, if there is one.
    #[inline]
    pub(crate) fn notify(&self, notify: impl FnOnce(&dyn MemoryObserver)) {
        if let Some(observer) = &self.observer {
            notify(&**observer);
        }
    }

    /// Frees what a context owns.
    pub(crate) fn release_context(&self, context: u64) {
        self.graphs.release_context(context);
        let heap = self.heaps.lock().remove(&context);
        drop(heap);
        let gone = self.table.remove_owned_by(context);
        for address in gone.iter().filter(|(_, known)| known.kind.is_of_others()).map(|(&address, _)| address) {
            self.notify(|observer| observer.unregistered(address));
        }
    }

    /// The memory that an address is in, if its free is queued, and not reached yet.
    pub(crate) fn range_freed_later(&self, address: u64) -> Option<Range<u64>> {
        let pools = || self.devices.iter().flat_map(|device| device.pools.all());
        self.leaving.range_of(address).or_else(|| pools().find_map(|pool| pool.freed_later(address)))
    }

    /// Forgets all memory, when no work runs any more.
    pub(crate) fn clear(&self) {
        for device in &self.devices {
            device.pools.take_those(|_| true).iter().for_each(|pool| pool.clear());
        }
        self.heaps.lock().clear();
        self.table.clear();
    }
}
