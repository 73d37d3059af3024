//! The configuration of a launch: grid, block, cluster, shared memory, attributes.

use anabranch_core::work::LaunchShape;

/// An extent in x, y and z, made from one, two or three numbers.
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

/// The configuration of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LaunchConfig {
    pub(crate) shape: LaunchShape,
}

impl LaunchConfig {
    /// A grid of blocks, and blocks of threads.
    pub fn new(grid: impl Into<Dimensions>, block: impl Into<Dimensions>) -> Self {
        Self {
            shape: LaunchShape {
                grid: grid.into().0,
                block: block.into().0,
                cluster: None,
                dynamic_shared_bytes: 0,
                cooperative: false,
                priority: None,
            },
        }
    }

    /// One thread for each of `count` elements, in blocks of 256 threads, and at least one block. The last block may
    /// have surplus threads, so the kernel must compare with the count.
    pub fn for_elements(count: u32) -> Self {
        Self::new(count.div_ceil(256).max(1), 256)
    }

    /// Groups blocks in clusters of that extent. Needs `Capabilities::CLUSTER_LAUNCH`.
    pub fn cluster(mut self, cluster: impl Into<Dimensions>) -> Self {
        self.shape.cluster = Some(cluster.into().0);
        self
    }

    /// Sets the dynamic shared memory of each block, in bytes. More than 48 KiB must first be allowed by an
    /// [attribute](crate::FunctionAttribute::MaxDynamicSharedBytes) of the kernel.
    pub fn dynamic_shared_bytes(mut self, bytes: u32) -> Self {
        self.shape.dynamic_shared_bytes = bytes;
        self
    }

    /// Makes all blocks run at the same time, so that they can wait for each other. Needs
    /// `Capabilities::COOPERATIVE_LAUNCH`.
    pub fn cooperative(mut self) -> Self {
        self.shape.cooperative = true;
        self
    }

    /// A priority for this launch, which overrides that of the stream. Lower is more urgent.
    pub fn priority(mut self, priority: i32) -> Self {
        self.shape.priority = Some(priority);
        self
    }

    /// Blocks in x, y and z.
    pub fn grid(&self) -> [u32; 3] {
        self.shape.grid
    }

    /// Threads of a block in x, y and z.
    pub fn block(&self) -> [u32; 3] {
        self.shape.block
    }
}
