//! Attributes of kernel launches beyond their extents (Driver API, `CUlaunchAttributeID`).

use crate::{AccessPolicyWindow, EventHandle, Live};

/// How the blocks of a cluster are distributed over the device (`CUclusterSchedulingPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterSchedulingPolicy {
    /// As the device does by default.
    Default,
    /// Over as many multiprocessors as possible.
    Spread,
    /// Where there is room.
    LoadBalancing,
}

/// A logical domain for the fences of a kernel (`CUlaunchMemSyncDomain`). A fence at the scope of the device waits for
/// writes of its own domain only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemorySyncDomain {
    /// That of kernels that name none.
    Default,
    /// That of kernels whose writes go to other devices.
    Remote,
}

/// The domain of the device that each logical domain stands for (`CUlaunchMemSyncDomainMap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySyncDomainMap {
    /// The domain that [`MemorySyncDomain::Default`] stands for.
    pub default: u8,
    /// The domain that [`MemorySyncDomain::Remote`] stands for.
    pub remote: u8,
}

/// Attributes of a kernel that both launches and nodes of graphs have. An attribute that is `None` is not passed to the
/// driver. None of them changes what a kernel computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelAttributes {
    /// The memory that the kernel should find in the cache.
    pub access_policy_window: Option<AccessPolicyWindow>,
    /// How the blocks of a cluster are distributed.
    pub cluster_scheduling_policy: Option<ClusterSchedulingPolicy>,
    /// The logical domain of the kernel's fences.
    pub memory_sync_domain: Option<MemorySyncDomain>,
    /// What the logical domains stand for.
    pub memory_sync_domain_map: Option<MemorySyncDomainMap>,
    /// The extents of larger clusters that the device may form instead, in blocks: multiples of the cluster's in x and y, equal
    /// to it in z, and divisors of the grid's. Ignored without a cluster. Drivers since CUDA 12.8.
    pub preferred_cluster: Option<[u32; 3]>,
    /// The share of the cache that is used as shared memory, in percent. Drivers since CUDA 12.5.
    pub preferred_shared_memory_carveout: Option<u32>,
    /// Whether the blocks are placed so that NVLink is used evenly. Drivers since CUDA 13.0.
    pub nvlink_centric_scheduling: Option<bool>,
}

impl KernelAttributes {
    /// No attributes.
    pub const NONE: Self = Self {
        access_policy_window: None,
        cluster_scheduling_policy: None,
        memory_sync_domain: None,
        memory_sync_domain_map: None,
        preferred_cluster: None,
        preferred_shared_memory_carveout: None,
        nvlink_centric_scheduling: None,
    };

    /// The same attributes, where those that are set to their default are `None`. The default of the map of
    /// memory-synchronization domains depends on the device, so it remains.
    #[must_use]
    pub fn without_defaults(&self) -> Self {
        Self {
            access_policy_window: self.access_policy_window.filter(|window| window.bytes != 0),
            cluster_scheduling_policy: self
                .cluster_scheduling_policy
                .filter(|&policy| policy != ClusterSchedulingPolicy::Default),
            memory_sync_domain: self.memory_sync_domain.filter(|&domain| domain != MemorySyncDomain::Default),
            nvlink_centric_scheduling: self.nvlink_centric_scheduling.filter(|&is_on| is_on),
            ..*self
        }
    }

    /// These attributes, and those of `others` where none is given here.
    #[must_use]
    pub fn or(&self, others: &Self) -> Self {
        Self {
            access_policy_window: self.access_policy_window.or(others.access_policy_window),
            cluster_scheduling_policy: self.cluster_scheduling_policy.or(others.cluster_scheduling_policy),
            memory_sync_domain: self.memory_sync_domain.or(others.memory_sync_domain),
            memory_sync_domain_map: self.memory_sync_domain_map.or(others.memory_sync_domain_map),
            preferred_cluster: self.preferred_cluster.or(others.preferred_cluster),
            preferred_shared_memory_carveout: self
                .preferred_shared_memory_carveout
                .or(others.preferred_shared_memory_carveout),
            nvlink_centric_scheduling: self.nvlink_centric_scheduling.or(others.nvlink_centric_scheduling),
        }
    }

    /// What is to be set so that these attributes become `wanted`: those, and the defaults of what is set here and not there. An
    /// attribute without a default that is a value remains.
    #[must_use]
    pub fn replaced_by(&self, wanted: &Self) -> Self {
        let no_window = |window: AccessPolicyWindow| AccessPolicyWindow { bytes: 0, hit_ratio: 0.0, ..window };
        Self {
            access_policy_window: wanted.access_policy_window.or(self.access_policy_window.map(no_window)),
            cluster_scheduling_policy: wanted
                .cluster_scheduling_policy
                .or(self.cluster_scheduling_policy.map(|_| ClusterSchedulingPolicy::Default)),
            memory_sync_domain: wanted
                .memory_sync_domain
                .or(self.memory_sync_domain.map(|_| MemorySyncDomain::Default)),
            nvlink_centric_scheduling: wanted
                .nvlink_centric_scheduling
                .or(self.nvlink_centric_scheduling.map(|_| false)),
            ..*wanted
        }
    }
}

/// An event that a launch records, and that its kernel triggers (`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT`).
#[derive(Clone, Copy, Debug)]
pub struct ProgrammaticEvent<'a> {
    /// The event.
    pub event: Live<'a, EventHandle>,
    /// Whether each block triggers the event when it begins. Otherwise the kernel does, or the end of its blocks.
    pub at_block_start: bool,
}

/// How a launch overlaps with other work. Nodes of graphs have edges instead.
///
/// The events are of the context of the launch, do not measure time, and are not interprocess events: drivers answer
/// `CUDA_ERROR_INVALID_VALUE (1)` for others. They may be reached before the kernel is complete, so they show only that it has
/// begun, or has triggered the event.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaunchOverlap<'a> {
    /// Whether the kernel may begin when all blocks of the kernel before it in the stream have triggered that or are complete.
    /// The kernel waits for the end of the earlier one itself (`griddepcontrol.wait`).
    pub programmatic_serialization: bool,
    /// An event that is reached when all blocks have triggered it.
    pub programmatic_event: Option<ProgrammaticEvent<'a>>,
    /// An event that is reached when all blocks have begun. Drivers since CUDA 12.3.
    pub completion_event: Option<Live<'a, EventHandle>>,
}
