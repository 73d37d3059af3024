//! The configuration of a launch: grid, block, cluster, shared memory, attributes.

use crate::event::Event;
use crate::memory::BufferSlice;
use anabranch_core::launch::{LaunchShape, Overlap};
use anabranch_hal::{
    AccessPolicyWindow, AccessProperty, ClusterSchedulingPolicy, KernelAttributes, MemorySyncDomain,
    MemorySyncDomainMap,
};
use bytemuck::Pod;

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

/// The configuration of a launch. It refers to the events that the launch records, if there are any.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct LaunchConfig<'e> {
    pub(crate) shape: LaunchShape<'e>,
}

impl LaunchConfig<'static> {
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
                attributes: None,
                overlap: None,
            },
        }
    }

    /// One thread for each of `count` elements, in blocks of 256 threads, and at least one block. The last block may
    /// have surplus threads, so the kernel must compare with the count.
    pub fn for_elements(count: u32) -> Self {
        Self::new(count.div_ceil(256).max(1), 256)
    }
}

impl<'e> LaunchConfig<'e> {
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

    /// Names the memory that the kernel should find in the cache. `hit_ratio`, from 0 to 1, is the share of accesses
    /// that are treated as `hit`. The other accesses are treated as `miss`. The window is a hint and never changes
    /// results; it does not keep the memory. It overrides [that of the
    /// stream](crate::Stream::set_access_policy_window). Needs `Capabilities::ACCESS_POLICY_WINDOW`: the launch returns
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) on the software device.
    pub fn access_policy_window<T: Pod>(
        mut self,
        memory: BufferSlice<'_, T>,
        hit_ratio: f32,
        hit: AccessProperty,
        miss: AccessProperty,
    ) -> Self {
        let (address, bytes) = (memory.device_pointer(), memory.byte_len());
        self.attributes().access_policy_window = Some(AccessPolicyWindow { address, bytes, hit_ratio, hit, miss });
        self
    }

    /// How the blocks of a cluster are distributed over the device.
    pub fn cluster_scheduling_policy(mut self, policy: ClusterSchedulingPolicy) -> Self {
        self.attributes().cluster_scheduling_policy = Some(policy);
        self
    }

    /// Lets the device group blocks in larger clusters where it can: the extents are multiples of those of the
    /// [`cluster`](Self::cluster) in x and y, equal to it in z, and divide those of the grid. A kernel that is launched
    /// so runs in clusters of both extents. Without a cluster, this has no effect. Drivers before CUDA 12.8 return
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED).
    pub fn preferred_cluster(mut self, cluster: impl Into<Dimensions>) -> Self {
        self.attributes().preferred_cluster = Some(cluster.into().0);
        self
    }

    /// The share of the cache that should be used as shared memory, from 0 to 100 percent. It overrides the
    /// [attribute](crate::FunctionAttribute) of the kernel. Drivers before CUDA 12.5 return
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED).
    pub fn preferred_shared_memory_carveout(mut self, percent: u32) -> Self {
        self.attributes().preferred_shared_memory_carveout = Some(percent);
        self
    }

    /// The logical domain of the kernel's fences. A fence at the scope of the device waits for writes of its own domain only, so
    /// kernels that write to other devices, in a domain of their own, do not slow down the fences of others. Kernels of
    /// different domains that run at the same time must order their accesses by fences at the scope of the system.
    pub fn memory_sync_domain(mut self, domain: MemorySyncDomain) -> Self {
        self.attributes().memory_sync_domain = Some(domain);
        self
    }

    /// Which domains of the device the logical domains stand for.
    pub fn memory_sync_domain_map(mut self, default: u8, remote: u8) -> Self {
        self.attributes().memory_sync_domain_map = Some(MemorySyncDomainMap { default, remote });
        self
    }

    /// Asks for blocks to be placed so that NVLink is used evenly. Drivers before CUDA 13.0 return
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED).
    pub fn nvlink_centric_scheduling(mut self) -> Self {
        self.attributes().nvlink_centric_scheduling = Some(true);
        self
    }

    /// Lets the kernel begin before the kernel before it in the stream is complete: as soon as each block of that one has
    /// executed `griddepcontrol.launch_dependents`, or is complete (*programmatic dependent launch*). On devices that cannot, and
    /// on the software device, the kernel begins afterwards. In a capture, the edge between the two kernels is
    /// [programmatic](crate::EdgeKind::PROGRAMMATIC).
    ///
    /// # What the caller of the launch promises
    /// Every thread of the kernel executes `griddepcontrol.wait` (`cudaGridDependencySynchronize`) before it accesses memory that
    /// earlier work of the stream uses, and some thread of each block does before the block ends. Then the kernel is complete
    /// only after the earlier work, as the library and later work of the stream rely on.
    pub fn programmatic_stream_serialization(mut self) -> Self {
        self.overlap().programmatic_serialization = true;
        self
    }

    /// Records `event` in the launch, as reached when all blocks of the kernel have executed
    /// `griddepcontrol.launch_dependents` or are complete. Kernels of other streams that wait for the event, and are launched with
    /// [`programmatic_stream_serialization`](Self::programmatic_stream_serialization), can wait for the rest by
    /// `griddepcontrol.wait`. [What holds for such events](Self::launch_completion_event) holds here, except in a capture: there,
    /// the next work of a stream that waits for the event must be a kernel, and gets a programmatic edge from this one. If it uses
    /// memory that this kernel uses, it waits for the end of this kernel instead.
    pub fn programmatic_event<'f>(self, event: &'f Event) -> LaunchConfig<'f>
    where
        'e: 'f,
    {
        self.with_programmatic_event(event, false)
    }

    /// Like [`programmatic_event`](Self::programmatic_event), for an event that each block triggers when it begins.
    pub fn programmatic_event_at_block_start<'f>(self, event: &'f Event) -> LaunchConfig<'f>
    where
        'e: 'f,
    {
        self.with_programmatic_event(event, true)
    }

    fn with_programmatic_event<'f>(self, event: &'f Event, at_block_start: bool) -> LaunchConfig<'f>
    where
        'e: 'f,
    {
        let mut config: LaunchConfig<'f> = self;
        config.overlap().programmatic_event = Some((event.core(), at_block_start));
        config
    }

    /// Records `event` in the launch, as reached when all blocks of the kernel have begun. Drivers before CUDA 12.3
    /// return [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED).
    ///
    /// The event is made with [`EventFlags::DISABLE_TIMING`](crate::EventFlags::DISABLE_TIMING), and not for several
    /// processes; otherwise the launch returns [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE), also if
    /// it records one event twice. It may be reached before the kernel is complete, and not before it begins: **it does
    /// not show that the kernel has run**. The library never takes it for that. Memory that the kernel uses is freed,
    /// and used by streams that have waited for the event, after the launch itself, and in [strict
    /// order](crate::Context::set_strict_order) such a use is refused. The software device reaches the event when the
    /// kernel is complete.
    ///
    /// In a capture, the next work of a stream that waits for the event gets an edge from port 2 of this kernel, which stands for
    /// the begin of all its blocks. If it uses memory that this kernel uses, it waits for the end of this kernel instead.
    pub fn launch_completion_event<'f>(self, event: &'f Event) -> LaunchConfig<'f>
    where
        'e: 'f,
    {
        let mut config: LaunchConfig<'f> = self;
        config.overlap().completion_event = Some(event.core());
        config
    }

    fn attributes(&mut self) -> &mut KernelAttributes {
        self.shape.attributes.get_or_insert_default()
    }

    fn overlap(&mut self) -> &mut Overlap<'e> {
        self.shape.overlap.get_or_insert_default()
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
