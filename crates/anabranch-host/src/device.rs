//! Devices.

use crate::capture::CaptureRegistry;
use crate::checker::Checker;
use crate::context::ContextState;
use crate::driver::HostDriver;
use crate::engine::host_work::permitted;
use crate::engine::{Engine, GREATEST_PRIORITY};
use crate::graph::{GraphMemory, GraphMemoryCounters};
use crate::handles::Handles;
use crate::memory::{Account, AllocationTable, PoolState};
use anabranch_hal::{
    Capabilities, ContextFlags, ContextHandle, DeviceOrdinal, DeviceProperties, Devices, Failure, PriorityRange,
    Result, Status,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Threads of a block, at most.
pub(crate) const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// Extents of a block, at most.
pub(crate) const MAX_BLOCK_DIMENSIONS: [u32; 3] = [1024, 1024, 64];
/// Extents of a grid, at most.
pub(crate) const MAX_GRID_DIMENSIONS: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Shared memory of a block in bytes, without asking for more.
pub(crate) const MAX_SHARED_BYTES: u32 = 48 << 10;
/// Shared memory of a block in bytes, when the kernel has asked for more.
pub(crate) const MAX_SHARED_BYTES_OPTIN: u32 = 227 << 10;
/// Streams' priorities.
pub(crate) const PRIORITY_RANGE: PriorityRange = PriorityRange { least: 0, greatest: GREATEST_PRIORITY };

/// What every host device can do.
const CAPABILITIES: Capabilities = Capabilities::MEMORY_POOLS
    .union(Capabilities::MANAGED_MEMORY)
    .union(Capabilities::CONCURRENT_MANAGED_ACCESS)
    .union(Capabilities::COOPERATIVE_LAUNCH)
    .union(Capabilities::CLUSTER_LAUNCH)
    .union(Capabilities::STREAM_VALUE_64)
    .union(Capabilities::STREAM_WAIT_VALUE_NOR)
    .union(Capabilities::STREAM_PRIORITIES)
    .union(Capabilities::HOST_FUNCTIONS)
    .union(Capabilities::UNIFIED_ADDRESSING)
    .union(Capabilities::PARAMETER_INFO);

/// What all contexts of a driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) table: AllocationTable,
    pub(crate) captures: CaptureRegistry,
    pub(crate) graph_memory: GraphMemory,
    pub(crate) workers: u32,
    devices: Vec<DeviceState>,
}

impl Shared {
    pub(crate) fn new(engine: Arc<Engine>, workers: usize, devices: u32, memory: u64) -> Arc<Self> {
        let checker = engine.checker.as_ref();
        Arc::new(Self {
            table: AllocationTable::new(),
            captures: CaptureRegistry::default(),
            graph_memory: GraphMemory::new(checker),
            workers: u32::try_from(workers).unwrap_or(u32::MAX),
            devices: (0..devices).map(|ordinal| DeviceState::new(ordinal, memory, checker)).collect(),
            engine,
        })
    }

    /// The device of that number; 101 where there is none.
    pub(crate) fn device(&self, ordinal: u32) -> Result<&DeviceState> {
        self.devices.get(ordinal as usize).ok_or(Failure::new(Status::INVALID_DEVICE))
    }

    pub(crate) fn devices(&self) -> &[DeviceState] {
        &self.devices
    }
}

/// The primary context and how many shares in it are held.
#[derive(Debug)]
struct Primary {
    context: Arc<ContextState>,
    shares: usize,
}

/// One device.
#[derive(Debug)]
pub(crate) struct DeviceState {
    pub(crate) ordinal: u32,
    pub(crate) account: Arc<Account>,
    primary: Mutex<Option<Primary>>,
    default_pool: OnceLock<Arc<PoolState>>,
    pub(crate) pools: Handles<PoolState>,
    /// How many freed blocks the pools keep.
    pub(crate) idle_blocks: Arc<AtomicUsize>,
    /// How much of its memory graphs have.
    pub(crate) graph_memory: GraphMemoryCounters,
}

impl DeviceState {
    fn new(ordinal: u32, memory: u64, checker: Option<&Arc<Checker>>) -> Self {
        Self {
            ordinal,
            account: Arc::new(Account::new(memory, checker)),
            primary: Mutex::new(None),
            default_pool: OnceLock::new(),
            pools: Handles::default(),
            idle_blocks: Arc::new(AtomicUsize::new(0)),
            graph_memory: GraphMemoryCounters::default(),
        }
    }

    pub(crate) fn retain_primary(&self, shared: &Arc<Shared>) -> Result<ContextHandle> {
        let mut primary = self.primary.lock();
        let primary = primary.get_or_insert_with(|| Primary {
            context: ContextState::new(shared, self.ordinal, ContextFlags::empty()),
            shares: 0,
        });
        primary.shares += 1;
        Ok(primary.context.core.handle())
    }

    /// Gives a share back. The context, if it was the last.
    pub(crate) fn release_primary(&self) -> Result<Option<Arc<ContextState>>> {
        let mut slot = self.primary.lock();
        let primary = slot.as_mut().ok_or(Failure::new(Status::INVALID_CONTEXT))?;
        primary.shares -= 1;
        if primary.shares > 0 {
            return Ok(None);
        }
        Ok(slot.take().map(|primary| primary.context))
    }

    /// The primary context, however many shares in it are held.
    pub(crate) fn take_primary(&self) -> Option<Arc<ContextState>> {
        self.primary.lock().take().map(|primary| primary.context)
    }

    pub(crate) fn default_pool(&self) -> &Arc<PoolState> {
        self.default_pool.get_or_init(|| {
            let pool = PoolState::new(self, true, 0);
            self.pools.insert(Arc::clone(&pool));
            pool
        })
    }

    /// Lets pools give memory back that is above what they are to keep. Called whenever a thread has synchronised.
    #[inline]
    pub(crate) fn give_idle_memory_back(&self) {
        if self.idle_blocks.load(Ordering::Relaxed) > 0 {
            for pool in self.pools.all() {
                pool.release_above_threshold();
            }
        }
    }

    /// Lets pools give back all memory that nobody uses, when there is not enough.
    #[cold]
    pub(crate) fn give_all_idle_memory_back(&self) {
        for pool in self.pools.all() {
            pool.trim(0);
        }
    }
}

impl Devices for HostDriver {
    fn device_count(&self) -> Result<u32> {
        permitted()?;
        Ok(self.shared.devices().len() as u32)
    }

    fn device_properties(&self, device: DeviceOrdinal) -> Result<DeviceProperties> {
        permitted()?;
        let state = self.shared.device(device.0)?;
        let workers = self.shared.workers;
        let mut capabilities = CAPABILITIES;
        capabilities.set(Capabilities::BACKGROUND_PROGRESS, workers > 0);
        let mut uuid = *b"anabranch host \0";
        uuid[15] = device.0 as u8;
        uuid[14] = (device.0 >> 8) as u8;
        Ok(DeviceProperties {
            name: match workers {
                0 => "Software device (deterministic)".to_owned(),
                1 => "Software device (1 worker)".to_owned(),
                _ => format!("Software device ({workers} workers)"),
            },
            uuid,
            pci_bus_id: None,
            compute_capability: (0, 0),
            total_memory: state.account.total(),
            multiprocessor_count: workers.max(1),
            warp_size: 32,
            max_threads_per_block: MAX_THREADS_PER_BLOCK,
            max_block_dimensions: MAX_BLOCK_DIMENSIONS,
            max_grid_dimensions: MAX_GRID_DIMENSIONS,
            max_shared_memory_per_block: MAX_SHARED_BYTES,
            max_shared_memory_per_block_optin: MAX_SHARED_BYTES_OPTIN,
            priority_range: PRIORITY_RANGE,
            capabilities,
        })
    }

    fn device_can_access_peer(&self, device: DeviceOrdinal, peer: DeviceOrdinal) -> Result<bool> {
        permitted()?;
        self.shared.device(device.0)?;
        self.shared.device(peer.0)?;
        // All memory is memory of this process. A device is no peer of its own.
        Ok(device != peer)
    }
}
