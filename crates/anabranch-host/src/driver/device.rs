//! Devices, and their primary contexts.

use super::{ContextState, HostDriver, Shared};
use crate::engine::ContextCore;
use crate::error::permitted;
use crate::limits::{
    MAX_BLOCK_DIMENSIONS, MAX_GRID_DIMENSIONS, MAX_SHARED_BYTES, MAX_SHARED_BYTES_OPTIN, MAX_THREADS_PER_BLOCK,
    PRIORITY_RANGE,
};
use crate::ranks;
use anabranch_hal::{
    Capabilities, ContextFlags, ContextHandle, DeviceOrdinal, DeviceProperties, Devices, Failure, Result, Status,
};
use anabranch_sync::Mutex;
use std::sync::Arc;

/// What every host device can do.
const CAPABILITIES: Capabilities = Capabilities::MEMORY_POOLS
    .union(Capabilities::MANAGED_MEMORY)
    .union(Capabilities::CONCURRENT_MANAGED_ACCESS)
    .union(Capabilities::COOPERATIVE_LAUNCH)
    .union(Capabilities::CLUSTER_LAUNCH)
    .union(Capabilities::STREAM_VALUE_64)
    .union(Capabilities::STREAM_WAIT_VALUE_NOR)
    .union(Capabilities::CONCURRENT_BLOCKING_CALLS)
    .union(Capabilities::HOST_FUNCTIONS)
    .union(Capabilities::UNIFIED_ADDRESSING)
    .union(Capabilities::PARAMETER_INFO)
    .union(Capabilities::CONTEXT_RECOVERY)
    .union(Capabilities::GREEN_CONTEXTS)
    .union(Capabilities::REGISTERED_HOST_ADDRESS)
    .union(Capabilities::RECAPTURE)
    .union(Capabilities::DISABLED_NODES_BESIDE_CONTEXTS)
    .union(Capabilities::ATOMIC_REDUCTION)
    .union(Capabilities::TENSOR_MAPS)
    .union(Capabilities::PTX_MODULES);

/// The primary context of a device, while it is retained.
#[derive(Debug)]
pub(super) struct Primary {
    ordinal: u32,
    /// With its number of retains.
    context: Mutex<Option<(Arc<ContextState>, usize)>>,
}

impl Primary {
    pub(super) fn new(ordinal: u32) -> Self {
        Self { ordinal, context: Mutex::new(ranks::PRIMARY, None) }
    }

    pub(super) fn retain(&self, shared: &Shared) -> Result<ContextHandle> {
        let mut primary = self.context.lock();
        let new = || (ContextState::new(shared, self.ordinal, ContextFlags::empty()), 0);
        let (context, count) = primary.get_or_insert_with(new);
        *count += 1;
        Ok(context.core.handle())
    }

    /// Whether anybody retains it.
    pub(super) fn is_active(&self) -> bool {
        self.context.lock().is_some()
    }

    /// Releases it once. The context, if it was the last time.
    pub(super) fn release(&self) -> Result<Option<Arc<ContextState>>> {
        let mut primary = self.context.lock();
        let (_, count) = primary.as_mut().ok_or(Failure::new(Status::INVALID_CONTEXT))?;
        *count -= 1;
        Ok(primary.take_if(|(_, count)| *count == 0).map(|(context, _)| context))
    }

    /// What the streams of the context share, while it is retained.
    pub(super) fn core(&self) -> Option<Arc<ContextCore>> {
        self.context.lock().as_ref().map(|(context, _)| Arc::clone(&context.core))
    }

    /// The context, however often it is retained.
    pub(super) fn take(&self) -> Option<Arc<ContextState>> {
        self.context.lock().take().map(|(context, _)| context)
    }
}

impl Devices for HostDriver {
    fn device_count(&self) -> Result<u32> {
        permitted()?;
        Ok(self.shared.memory.devices.len() as u32)
    }

    fn device_properties(&self, device: DeviceOrdinal) -> Result<DeviceProperties> {
        permitted()?;
        let state = self.shared.memory.device(device.0)?;
        let workers = u32::try_from(self.shared.engine.workers()).unwrap_or(u32::MAX);
        let mut capabilities = CAPABILITIES;
        capabilities.set(Capabilities::BACKGROUND_PROGRESS, workers > 0);
        // Files are known by descriptors.
        capabilities.set(Capabilities::EXTERNAL_MEMORY | Capabilities::EXTERNAL_SEMAPHORES, cfg!(unix));
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
        self.shared.memory.device(device.0)?;
        self.shared.memory.device(peer.0)?;
        // All memory is memory of this process. A device is no peer of its own.
        Ok(device != peer)
    }
}
