//! Devices and their capabilities (Driver API, group DEVICE).

use crate::{DeviceOrdinal, Result};
use bitflags::bitflags;

bitflags! {
    /// What a device can do beyond what every device can do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Capabilities: u64 {
        /// Stream-ordered allocation and memory pools.
        const MEMORY_POOLS = 1 << 0;
        /// Managed memory.
        const MANAGED_MEMORY = 1 << 1;
        /// Managed memory that the host and the device may access at the same time.
        const CONCURRENT_MANAGED_ACCESS = 1 << 2;
        /// Cooperative launches.
        const COOPERATIVE_LAUNCH = 1 << 3;
        /// Thread-block clusters.
        const CLUSTER_LAUNCH = 1 << 4;
        /// Waits for and writes of 64-bit values in streams. 32-bit values are always supported.
        const STREAM_VALUE_64 = 1 << 5;
        /// The NOR condition for value waits.
        const STREAM_WAIT_VALUE_NOR = 1 << 6;
        /// Events that other processes can open.
        const INTERPROCESS_EVENTS = 1 << 8;
        /// Access-policy windows for streams.
        const ACCESS_POLICY_WINDOW = 1 << 9;
        /// Modules from PTX, cubin or fatbin images.
        const CUDA_MODULES = 1 << 10;
        /// Modules of Rust closures.
        const HOST_FUNCTIONS = 1 << 11;
        /// Kernels can use pinned host memory at its host address.
        const UNIFIED_ADDRESSING = 1 << 12;
        /// The driver reports the parameters of kernels, so that the library can check arguments.
        const PARAMETER_INFO = 1 << 13;
        /// Queued work runs even if no thread waits for it or queries it.
        const BACKGROUND_PROGRESS = 1 << 14;
        /// A call that waits for the device, such as freeing pinned memory, does not block calls of other threads.
        const CONCURRENT_BLOCKING_CALLS = 1 << 15;
        /// Having a stream write a value to memory costs no more than recording an event, and the host sees it sooner.
        const FAST_VALUE_WRITES = 1 << 16;
        /// A process whose context is lost can open the device again.
        const CONTEXT_RECOVERY = 1 << 17;
        /// Green contexts, and streams in them.
        const GREEN_CONTEXTS = 1 << 18;
        /// Kernels can use registered host memory at its host address.
        const REGISTERED_HOST_ADDRESS = 1 << 19;
        /// Captures that replace the parameters of the nodes of a graph.
        const RECAPTURE = 1 << 20;
        /// Atomic reductions in streams.
        const ATOMIC_REDUCTION = 1 << 21;
        /// Streams can make writes of other devices visible that have reached the device.
        const FLUSH_REMOTE_WRITES = 1 << 22;
        /// Tensor maps, which describe tensors to kernels.
        const TENSOR_MAPS = 1 << 23;
        /// Modules that are PTX text.
        const PTX_MODULES = 1 << 24;
        /// Plain device memory that other processes can open.
        const INTERPROCESS_MEMORY = 1 << 25;
        /// Memory pools whose memory other processes can open, by POSIX file descriptors.
        const INTERPROCESS_POOLS = 1 << 26;
        /// Reserved addresses, and memory that is mapped there.
        const VIRTUAL_MEMORY = 1 << 27;
        /// Memory that another API or process has exported, by POSIX file descriptors.
        const EXTERNAL_MEMORY = 1 << 28;
        /// Timeline semaphores that another API or process has exported, by POSIX file descriptors.
        const EXTERNAL_SEMAPHORES = 1 << 29;
        /// A graph of which a node has been disabled runs in its turn, even behind work of other contexts, and if it has conditional
        /// nodes. Without it, the library disables no fill nodes and none of a graph with conditional nodes, and refuses to launch a
        /// graph with a disabled node while the device has other contexts or green contexts.
        const DISABLED_NODES_BESIDE_CONTEXTS = 1 << 30;
    }
}

/// The range of stream priorities that a device distinguishes. Lower numbers are more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityRange {
    /// The least urgent priority, which is the largest number. On current devices it is 0, the default.
    pub least: i32,
    /// The most urgent priority, which is the smallest number.
    pub greatest: i32,
}

impl PriorityRange {
    /// Returns the priority in the range that is closest to `priority`.
    pub fn clamp(self, priority: i32) -> i32 {
        priority.max(self.greatest).min(self.least)
    }
}

/// The properties of a device that never change.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceProperties {
    /// The product's name.
    pub name: String,
    /// A unique identifier of 16 bytes.
    pub uuid: [u8; 16],
    /// The PCI bus address, such as `0000:01:00.0`, if the device has one.
    pub pci_bus_id: Option<String>,
    /// The major and minor compute capability. The software device reports 0.0.
    pub compute_capability: (u32, u32),
    /// The total memory of the device, in bytes.
    pub total_memory: u64,
    /// The number of multiprocessors. On the software device, the number of workers.
    pub multiprocessor_count: u32,
    /// The number of threads in a warp.
    pub warp_size: u32,
    /// The maximum number of threads in a block.
    pub max_threads_per_block: u32,
    /// The maximum extents of a block in x, y and z, in threads.
    pub max_block_dimensions: [u32; 3],
    /// The maximum extents of a grid in x, y and z, in blocks.
    pub max_grid_dimensions: [u32; 3],
    /// The maximum shared memory of a block in bytes, by default.
    pub max_shared_memory_per_block: u32,
    /// The maximum shared memory of a block in bytes for kernels that opt in to more.
    pub max_shared_memory_per_block_optin: u32,
    /// The range of stream priorities.
    pub priority_range: PriorityRange,
    /// What the device can do beyond what every device can do.
    pub capabilities: Capabilities,
}

/// Enumerates devices and their properties.
pub trait Devices {
    /// Returns the number of devices of the driver.
    fn device_count(&self) -> Result<u32>;

    /// Returns the properties of a device.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_DEVICE (101)` if there is no device with that number.
    fn device_properties(&self, device: DeviceOrdinal) -> Result<DeviceProperties>;

    /// Returns whether kernels and copies of `device` can access the memory of `peer` directly.
    fn device_can_access_peer(&self, device: DeviceOrdinal, peer: DeviceOrdinal) -> Result<bool>;
}
