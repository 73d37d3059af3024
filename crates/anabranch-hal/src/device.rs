//! Devices and what they can do (Driver API, group DEVICE).

use crate::{DeviceOrdinal, Result};
use bitflags::bitflags;

bitflags! {
    /// What a device can do beyond the common ground.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Capabilities: u64 {
        /// Stream-ordered allocation and memory pools.
        const MEMORY_POOLS = 1 << 0;
        /// Managed memory.
        const MANAGED_MEMORY = 1 << 1;
        /// Managed memory that host and device may use at the same time.
        const CONCURRENT_MANAGED_ACCESS = 1 << 2;
        /// Cooperative launches.
        const COOPERATIVE_LAUNCH = 1 << 3;
        /// Thread-block clusters.
        const CLUSTER_LAUNCH = 1 << 4;
        /// Waits on, and writes of, 64-bit values in streams. The 32-bit ones are always there.
        const STREAM_VALUE_64 = 1 << 5;
        /// The NOR condition of value waits.
        const STREAM_WAIT_VALUE_NOR = 1 << 6;
        /// Priorities of streams that differ.
        const STREAM_PRIORITIES = 1 << 7;
        /// Events that other processes can open.
        const INTERPROCESS_EVENTS = 1 << 8;
        /// Access-policy windows of streams.
        const ACCESS_POLICY_WINDOW = 1 << 9;
        /// Modules of PTX, cubin or fatbin.
        const CUDA_MODULES = 1 << 10;
        /// Modules of host functions (Rust closures).
        const HOST_FUNCTIONS = 1 << 11;
        /// Pinned host memory can be used by kernels under its own address.
        const UNIFIED_ADDRESSING = 1 << 12;
        /// The driver reports the parameters of kernels, so that arguments are checked.
        const PARAMETER_INFO = 1 << 13;
        /// Queued work runs though no thread waits for it or asks after it.
        const BACKGROUND_PROGRESS = 1 << 14;
    }
}

/// The meaningful range of stream priorities. Lower numbers are more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRange {
    /// The least urgent, numerically the largest; the default, 0, on today's devices.
    pub least: i32,
    /// The most urgent, numerically the smallest.
    pub greatest: i32,
}

impl PriorityRange {
    /// `priority`, moved into the range.
    pub fn clamp(self, priority: i32) -> i32 {
        priority.max(self.greatest).min(self.least)
    }
}

/// What does not change about a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProperties {
    /// The product's name.
    pub name: String,
    /// The unique identifier, 16 bytes.
    pub uuid: [u8; 16],
    /// The PCI bus address, such as `0000:01:00.0`, where there is one.
    pub pci_bus_id: Option<String>,
    /// Major and minor number of the compute capability. The host device reports 0.0.
    pub compute_capability: (u32, u32),
    /// All the memory of the device, in bytes.
    pub total_memory: u64,
    /// The number of multiprocessors; on the host device, of workers.
    pub multiprocessor_count: u32,
    /// Threads in a warp.
    pub warp_size: u32,
    /// Threads in a block, at most.
    pub max_threads_per_block: u32,
    /// Extents of a block in x, y and z, at most.
    pub max_block_dimensions: [u32; 3],
    /// Extents of a grid in x, y and z, in blocks, at most.
    pub max_grid_dimensions: [u32; 3],
    /// Shared memory of a block in bytes, without asking for more.
    pub max_shared_memory_per_block: u32,
    /// Shared memory of a block in bytes, when the kernel has asked for more.
    pub max_shared_memory_per_block_optin: u32,
    /// The meaningful range of stream priorities.
    pub priority_range: PriorityRange,
    /// What the device can do beyond the common ground.
    pub capabilities: Capabilities,
}

/// Enumerates devices.
pub trait Devices {
    /// How many devices the driver serves.
    fn device_count(&self) -> Result<u32>;

    /// The properties of a device. 101 where there is no device of that number.
    fn device_properties(&self, device: DeviceOrdinal) -> Result<DeviceProperties>;

    /// Whether kernels and copies of `device` can reach the memory of `peer` directly.
    fn device_can_access_peer(&self, device: DeviceOrdinal, peer: DeviceOrdinal) -> Result<bool>;
}
