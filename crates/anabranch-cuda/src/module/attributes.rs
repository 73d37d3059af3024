//! The attributes of launches and of kernel nodes, as the driver takes them.

use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::raw_event;
use crate::stream::raw_window;
use anabranch_hal::{
    ClusterSchedulingPolicy, DriverVersion, Failure, KernelAttributes, LaunchOverlap, MemorySyncDomain, Result, Status,
};
use std::ffi::c_uint;

/// How many attributes a launch can have.
const MOST: usize = 13;

/// The first drivers with attributes that came after CUDA 12.0.
const COMPLETION_EVENT: DriverVersion = DriverVersion { major: 12, minor: 3 };
const CARVEOUT: DriverVersion = DriverVersion { major: 12, minor: 5 };
const PREFERRED_CLUSTER: DriverVersion = DriverVersion { major: 12, minor: 8 };
const NVLINK: DriverVersion = DriverVersion { major: 13, minor: 0 };

/// Attributes in the order in which they were added.
pub(crate) struct Attributes {
    attributes: [CUlaunchAttribute; MOST],
    count: usize,
}

impl Attributes {
    fn new() -> Self {
        Self { attributes: [CUlaunchAttribute::zeroed(); MOST], count: 0 }
    }

    /// Adds an attribute. Its value is written over zeros, because the driver may read all of the union.
    fn add(&mut self, id: CUlaunchAttributeID, write: impl FnOnce(&mut CUlaunchAttributeValue)) {
        if let Some(attribute) = self.attributes.get_mut(self.count) {
            attribute.id = id;
            write(&mut attribute.value);
            self.count += 1;
        }
    }

    /// Adds the attributes that only launches in streams have.
    pub(super) fn add_overlap(&mut self, version: DriverVersion, overlap: &LaunchOverlap<'_>) -> Result<()> {
        if overlap.programmatic_serialization {
            self.add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, |value| {
                value.programmaticStreamSerializationAllowed = 1;
            });
        }
        if let Some(programmatic) = overlap.programmatic_event {
            self.add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, |value| {
                value.programmaticEvent = CUlaunchAttributeValue_union__bindgen_ty_2 {
                    event: raw_event(programmatic.event),
                    flags: 0,
                    triggerAtBlockStart: programmatic.at_block_start.into(),
                };
            });
        }
        if let Some(event) = overlap.completion_event {
            require(version, COMPLETION_EVENT, "events that are reached when all blocks of a launch have begun")?;
            self.add(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, |value| {
                value.launchCompletionEvent =
                    CUlaunchAttributeValue_union__bindgen_ty_3 { event: raw_event(event), flags: 0 };
            });
        }
        Ok(())
    }

    /// How many there are.
    pub(crate) fn count(&self) -> c_uint {
        self.count as c_uint
    }

    /// For a call that takes as many as [`count`](Self::count) says.
    pub(super) fn as_mut_ptr(&mut self) -> *mut CUlaunchAttribute {
        self.attributes.as_mut_ptr()
    }

    /// The attributes.
    pub(crate) fn as_slice(&self) -> &[CUlaunchAttribute] {
        self.attributes.get(..self.count).unwrap_or_default()
    }
}

/// The attributes that launches in streams and kernel nodes have.
pub(crate) fn kernel_attributes(
    version: DriverVersion,
    cluster: Option<[u32; 3]>,
    cooperative: bool,
    priority: Option<i32>,
    others: &KernelAttributes,
) -> Result<Attributes> {
    let mut attributes = Attributes::new();
    if let Some([x, y, z]) = cluster {
        attributes.add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, |value| {
            value.clusterDim = CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        });
    }
    if cooperative {
        attributes.add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, |value| value.cooperative = 1);
    }
    if let Some(priority) = priority {
        attributes.add(CU_LAUNCH_ATTRIBUTE_PRIORITY, |value| value.priority = priority);
    }
    if let Some(window) = &others.access_policy_window {
        let window = raw_window(window)?;
        attributes.add(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, |value| value.accessPolicyWindow = window);
    }
    if let Some(policy) = others.cluster_scheduling_policy {
        let policy = raw_policy(policy)?;
        attributes.add(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, |value| {
            value.clusterSchedulingPolicyPreference = policy;
        });
    }
    if let Some(domain) = others.memory_sync_domain {
        let domain = raw_domain(domain)?;
        attributes.add(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, |value| value.memSyncDomain = domain);
    }
    if let Some(map) = others.memory_sync_domain_map {
        let map = CUlaunchMemSyncDomainMap { default_: map.default, remote: map.remote };
        attributes.add(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, |value| value.memSyncDomainMap = map);
    }
    if let Some([x, y, z]) = others.preferred_cluster {
        require(version, PREFERRED_CLUSTER, "preferred clusters")?;
        attributes.add(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, |value| {
            value.preferredClusterDim = CUlaunchAttributeValue_union__bindgen_ty_4 { x, y, z };
        });
    }
    if let Some(percent) = others.preferred_shared_memory_carveout {
        require(version, CARVEOUT, "shares of shared memory for a launch")?;
        attributes.add(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, |value| value.sharedMemCarveout = percent);
    }
    if let Some(is_on) = others.nvlink_centric_scheduling {
        require(version, NVLINK, "scheduling for NVLink")?;
        attributes.add(CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, |value| {
            value.nvlinkUtilCentricScheduling = is_on.into();
        });
    }
    Ok(attributes)
}

/// Older drivers answer an attribute that they do not know like a wrong value, or ignore it.
fn require(version: DriverVersion, first: DriverVersion, what: &str) -> Result<()> {
    if version >= first {
        return Ok(());
    }
    let message = format!("the driver is of CUDA {version}, and drivers before CUDA {first} have no {what}");
    Err(Failure::argument(Status::NOT_SUPPORTED, message))
}

fn raw_policy(policy: ClusterSchedulingPolicy) -> Result<CUclusterSchedulingPolicy> {
    match policy {
        ClusterSchedulingPolicy::Default => Ok(CU_CLUSTER_SCHEDULING_POLICY_DEFAULT),
        ClusterSchedulingPolicy::Spread => Ok(CU_CLUSTER_SCHEDULING_POLICY_SPREAD),
        ClusterSchedulingPolicy::LoadBalancing => Ok(CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING),
        other => Err(unknown(&other)),
    }
}

fn raw_domain(domain: MemorySyncDomain) -> Result<CUlaunchMemSyncDomain> {
    match domain {
        MemorySyncDomain::Default => Ok(CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT),
        MemorySyncDomain::Remote => Ok(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE),
        other => Err(unknown(&other)),
    }
}

/// A newer contract has a value that this back end does not know.
#[cold]
fn unknown(value: &dyn std::fmt::Debug) -> Failure {
    Failure::argument(Status::NOT_SUPPORTED, format!("the CUDA back end knows no attribute {value:?} of launches"))
}

#[cfg(test)]
mod tests {
    use super::{Attributes, MOST, kernel_attributes};
    use crate::ffi::cuda_types::*;
    use anabranch_hal::{
        AccessPolicyWindow, AccessProperty, ClusterSchedulingPolicy, DevicePointer, DriverVersion, EventHandle,
        KernelAttributes, LaunchOverlap, Live, MemorySyncDomain, MemorySyncDomainMap, ProgrammaticEvent, Status,
    };

    const NEWEST: DriverVersion = DriverVersion { major: 13, minor: 0 };

    fn all() -> KernelAttributes {
        let (hit, miss) = (AccessProperty::Persisting, AccessProperty::Streaming);
        KernelAttributes {
            access_policy_window: Some(AccessPolicyWindow {
                address: DevicePointer(0x1000),
                bytes: 64,
                hit_ratio: 0.5,
                hit,
                miss,
            }),
            cluster_scheduling_policy: Some(ClusterSchedulingPolicy::LoadBalancing),
            memory_sync_domain: Some(MemorySyncDomain::Remote),
            memory_sync_domain_map: Some(MemorySyncDomainMap { default: 1, remote: 2 }),
            preferred_cluster: Some([4, 5, 6]),
            preferred_shared_memory_carveout: Some(50),
            nvlink_centric_scheduling: Some(true),
        }
    }

    #[test]
    fn only_what_is_asked_for_becomes_an_attribute() {
        let none = KernelAttributes::NONE;
        assert_eq!(kernel_attributes(NEWEST, None, false, None, &none).ok().map(|found| found.count()), Some(0));
        let found = kernel_attributes(NEWEST, None, false, Some(-3), &none).ok().unwrap();
        assert_eq!((found.as_slice()[0].id, found.count()), (CU_LAUNCH_ATTRIBUTE_PRIORITY, 1));
        // SAFETY: the attribute of this number has this member.
        assert_eq!(unsafe { found.as_slice()[0].value.priority }, -3);
    }

    #[test]
    fn all_attributes_fit() {
        let mut found = kernel_attributes(NEWEST, Some([2, 3, 4]), true, Some(0), &all()).ok().unwrap();
        // SAFETY: nobody uses the event.
        let event = unsafe { Live::new(EventHandle::from_raw(0x50)) };
        let overlap = LaunchOverlap {
            programmatic_serialization: true,
            programmatic_event: Some(ProgrammaticEvent { event, at_block_start: true }),
            completion_event: Some(event),
        };
        assert_eq!(found.add_overlap(NEWEST, &overlap), Ok(()));
        assert_eq!(found.as_slice().len(), MOST);
        let value = |id| found.as_slice().iter().find(|attribute| attribute.id == id).unwrap().value;
        // SAFETY: the attribute of each number has this member.
        unsafe {
            assert_eq!(value(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim.z, 4);
            assert_eq!(value(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION).preferredClusterDim.y, 5);
            assert_eq!(value(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow.num_bytes, 64);
            let map = value(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP).memSyncDomainMap;
            assert_eq!((map.default_, map.remote), (1, 2));
            assert_eq!(value(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain, CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
            let programmatic = value(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT).programmaticEvent;
            assert_eq!((programmatic.event.addr(), programmatic.flags, programmatic.triggerAtBlockStart), (0x50, 0, 1));
            assert_eq!(value(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT).launchCompletionEvent.event.addr(), 0x50);
            assert_eq!(value(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT).sharedMemCarveout, 50);
            assert_eq!(value(CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING).nvlinkUtilCentricScheduling, 1);
        }
    }

    #[test]
    fn what_a_driver_does_not_know_is_refused() {
        let refused = |version, attributes: &KernelAttributes| {
            kernel_attributes(version, None, false, None, attributes).err().map(|failure| failure.status)
        };
        let old = DriverVersion { major: 12, minor: 4 };
        for attributes in [
            KernelAttributes { preferred_shared_memory_carveout: Some(1), ..KernelAttributes::NONE },
            KernelAttributes { preferred_cluster: Some([1; 3]), ..KernelAttributes::NONE },
            KernelAttributes { nvlink_centric_scheduling: Some(true), ..KernelAttributes::NONE },
        ] {
            assert_eq!(refused(old, &attributes), Some(Status::NOT_SUPPORTED));
            assert_eq!(refused(NEWEST, &attributes), None);
        }
        // SAFETY: nobody uses the event.
        let event = unsafe { Live::new(EventHandle::from_raw(0x50)) };
        let overlap = LaunchOverlap { completion_event: Some(event), ..LaunchOverlap::default() };
        let oldest = DriverVersion { major: 12, minor: 2 };
        let failure = Attributes::new().add_overlap(oldest, &overlap).unwrap_err();
        assert_eq!(failure.status, Status::NOT_SUPPORTED);
        assert!(failure.to_string().contains("12.3"));
    }
}
