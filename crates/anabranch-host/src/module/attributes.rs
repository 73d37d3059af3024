//! Attributes of kernels, which are checked and have no effect, and events of launches.

use super::launch::invalid;
use crate::engine::ContextCore;
use crate::event::EventState;
use crate::limits::MEMORY_SYNC_DOMAINS;
use anabranch_hal::{EventFlags, Failure, KernelAttributes, LaunchOverlap, Result, Status};
use std::sync::Arc;

/// Checks the attributes of a kernel with its grid and its cluster.
pub(super) fn check_attributes(attributes: &KernelAttributes, grid: [u32; 3], cluster: Option<[u32; 3]>) -> Result<()> {
    if attributes.access_policy_window.is_some() {
        return Err(Failure::argument(Status::NOT_SUPPORTED, "the software device has no access-policy windows"));
    }
    if attributes.preferred_shared_memory_carveout.is_some_and(|percent| percent > 100) {
        return Err(invalid("the share of shared memory is more than 100 percent"));
    }
    if let Some(map) = attributes.memory_sync_domain_map
        && map.default.max(map.remote) >= MEMORY_SYNC_DOMAINS
    {
        return Err(invalid("the device has no memory-synchronization domain of that number"));
    }
    match (attributes.preferred_cluster, cluster) {
        (Some(preferred), Some(cluster)) => check_preferred_cluster(preferred, cluster, grid),
        _ => Ok(()),
    }
}

fn check_preferred_cluster(preferred: [u32; 3], cluster: [u32; 3], grid: [u32; 3]) -> Result<()> {
    let divides = |part: u32, whole: u32| part > 0 && whole.is_multiple_of(part);
    let fits = preferred[2] == cluster[2]
        && preferred.iter().zip(cluster).all(|(&preferred, cluster)| preferred > 0 && divides(cluster, preferred))
        && preferred.iter().zip(grid).all(|(&preferred, blocks)| divides(preferred, blocks));
    if fits {
        return Ok(());
    }
    let message = "the extents of a preferred cluster are multiples of the cluster's, equal to it in z, and divide those of \
                   the grid";
    Err(Failure::argument(Status::INVALID_CLUSTER_SIZE, message))
}

/// The events that a launch of a stream of that context records: the software device reaches them when the kernel is complete.
pub(crate) fn events_of<'a>(
    overlap: &LaunchOverlap<'a>,
    core: &Arc<ContextCore>,
) -> Result<[Option<&'a EventState>; 2]> {
    let mut events = [None, None];
    let given = [overlap.programmatic_event.map(|programmatic| programmatic.event), overlap.completion_event];
    for (place, event) in events.iter_mut().zip(given) {
        let Some(event) = event else { continue };
        let state = EventState::of(event)?;
        if !Arc::ptr_eq(&state.core, core) {
            return Err(Failure::new(Status::INVALID_HANDLE));
        }
        if !state.flags.contains(EventFlags::DISABLE_TIMING) {
            return Err(Failure::argument(Status::NOT_SUPPORTED, "the event measures time"));
        }
        *place = Some(state);
    }
    Ok(events)
}
