//! How a kernel is launched: grid, block, cluster, shared memory, attributes.

use crate::error::Error;
use anabranch_hal::{DeviceProperties, Status};

/// An extent in x, y and z: a number, two, or three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimensions(pub [u32; 3]);

impl From<u32> for Dimensions {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Dimensions {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Dimensions {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

impl From<[u32; 3]> for Dimensions {
    fn from(extents: [u32; 3]) -> Self {
        Self(extents)
    }
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LaunchConfig {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: Option<[u32; 3]>,
    pub(crate) dynamic_shared_bytes: u32,
    pub(crate) cooperative: bool,
    pub(crate) priority: Option<i32>,
}

impl LaunchConfig {
    /// A grid of blocks, and blocks of threads.
    pub fn new(grid: impl Into<Dimensions>, block: impl Into<Dimensions>) -> Self {
        Self {
            grid: grid.into().0,
            block: block.into().0,
            cluster: None,
            dynamic_shared_bytes: 0,
            cooperative: false,
            priority: None,
        }
    }

    /// One thread for each of `count` elements, in blocks of 256, and at least one block. The last block may have
    /// threads to spare; the kernel compares with the count.
    pub fn for_elements(count: u32) -> Self {
        Self::new(count.div_ceil(256).max(1), 256)
    }

    /// Blocks in clusters of that extent. Needs `Capabilities::CLUSTER_LAUNCH`.
    pub fn cluster(mut self, cluster: impl Into<Dimensions>) -> Self {
        self.cluster = Some(cluster.into().0);
        self
    }

    /// Dynamic shared memory of each block, in bytes. Above 48 KiB the kernel has to be
    /// [told first](crate::FunctionAttribute::MaxDynamicSharedBytes).
    pub fn dynamic_shared_bytes(mut self, bytes: u32) -> Self {
        self.dynamic_shared_bytes = bytes;
        self
    }

    /// All blocks run at the same time, so that they can wait for each other. Needs
    /// `Capabilities::COOPERATIVE_LAUNCH`.
    pub fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// A priority for this launch, in place of the stream's. Lower is more urgent.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Blocks in x, y and z.
    pub fn grid(&self) -> [u32; 3] {
        self.grid
    }

    /// Threads of a block in x, y and z.
    pub fn block(&self) -> [u32; 3] {
        self.block
    }

    /// Says which part of the configuration a driver has refused.
    #[cold]
    pub(crate) fn explain(&self, error: Error, device: &DeviceProperties) -> Error {
        if error.status() != Status::INVALID_VALUE {
            return error;
        }
        let threads: u64 = self.block.iter().map(|&extent| u64::from(extent)).product();
        let beyond = |extents: &[u32; 3], limits: &[u32; 3]| (0..3).any(|axis| extents[axis] > limits[axis]);
        let message = if self.grid.contains(&0) {
            format!("the grid {:?} has no blocks; make every extent at least 1", self.grid)
        } else if self.block.contains(&0) {
            format!("the block {:?} has no threads; make every extent at least 1", self.block)
        } else if threads > u64::from(device.max_threads_per_block) || beyond(&self.block, &device.max_block_dimensions)
        {
            format!(
                "the block {:?} has {threads} threads, and the device allows {} and extents up to {:?}",
                self.block, device.max_threads_per_block, device.max_block_dimensions
            )
        } else if beyond(&self.grid, &device.max_grid_dimensions) {
            format!("the grid {:?} is beyond the device's {:?}", self.grid, device.max_grid_dimensions)
        } else if self.dynamic_shared_bytes > device.max_shared_memory_per_block_optin {
            format!(
                "{} bytes of shared memory are more than the {} that a block of this device can have",
                self.dynamic_shared_bytes, device.max_shared_memory_per_block_optin
            )
        } else if self.dynamic_shared_bytes > device.max_shared_memory_per_block {
            format!(
                "{} bytes of shared memory need Kernel::set_attribute(MaxDynamicSharedBytes) first",
                self.dynamic_shared_bytes
            )
        } else if error.message().is_some() {
            return error;
        } else {
            "the grid, the block or the shared memory is more than this kernel can have; see Kernel::info".to_owned()
        };
        error.with_message(message)
    }
}
