//! Green contexts. The workers are the multiprocessors.

use super::device::Primary;
use super::{HostDriver, resolve_even_if_lost};
use crate::engine::{Partition, Role, StreamState};
use crate::error::permitted;
use crate::handles::handle;
use crate::limits::PRIORITY_RANGE;
use anabranch_hal::{
    Call, DeviceOrdinal, Failure, GreenContextHandle, GreenContexts, Live, MultiprocessorResource, MultiprocessorSplit,
    RESOURCE_BYTES, Result, SplitFlags, Status, StreamFlags, StreamHandle,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers for splits. All workers of a device, and those of a green context, are the result of none.
static NEXT_SPLIT: AtomicU64 = AtomicU64::new(1);

/// Where multiprocessors are from: what the driver keeps in their representation.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Source {
    device: u32,
    /// The split that they are a result of, or 0.
    split: u64,
    /// Their number among the results of the split.
    group: u32,
}

impl Source {
    fn resource(self, count: u32) -> MultiprocessorResource {
        let mut raw = [0; RESOURCE_BYTES];
        raw[..4].copy_from_slice(&self.device.to_ne_bytes());
        raw[4..8].copy_from_slice(&self.group.to_ne_bytes());
        raw[8..16].copy_from_slice(&self.split.to_ne_bytes());
        MultiprocessorResource::new(count, 1, 1, raw)
    }

    fn of(resource: &MultiprocessorResource) -> Self {
        let (mut device, mut group) = ([0; 4], [0; 4]);
        let mut split = [0; 8];
        device.copy_from_slice(&resource.raw()[..4]);
        group.copy_from_slice(&resource.raw()[4..8]);
        split.copy_from_slice(&resource.raw()[8..16]);
        let (device, group) = (u32::from_ne_bytes(device), u32::from_ne_bytes(group));
        Self { device, split: u64::from_ne_bytes(split), group }
    }

    /// All multiprocessors of a device, or of a green context of it.
    fn whole(device: u32) -> Self {
        Self { device, split: 0, group: 0 }
    }
}

/// A green context as its handle names it.
#[derive(Debug)]
pub(super) struct GreenContextState {
    device: u32,
    partition: Arc<Partition>,
}

handle!(GreenContextState, GreenContextHandle, INVALID_CONTEXT);

impl GreenContextState {
    fn multiprocessors(&self) -> MultiprocessorResource {
        let count = u32::try_from(self.partition.workers()).unwrap_or(u32::MAX);
        Source::whole(self.device).resource(count)
    }
}

const INVALID_VALUE: Failure = Failure::new(Status::INVALID_VALUE);
const INVALID_CONFIGURATION: Failure = Failure::new(Status::INVALID_RESOURCE_CONFIGURATION);

impl HostDriver {
    fn primary_of(&self, device: u32) -> Result<&Primary> {
        self.shared.primary(device)
    }

    fn all_multiprocessors(&self, device: u32) -> Result<MultiprocessorResource> {
        self.shared.memory.device(device)?;
        let workers = u32::try_from(self.shared.engine.workers()).unwrap_or(u32::MAX);
        Ok(Source::whole(device).resource(workers.max(1)))
    }
}

impl GreenContexts for HostDriver {
    fn device_multiprocessors(&self, device: DeviceOrdinal) -> Result<MultiprocessorResource> {
        permitted()?;
        self.all_multiprocessors(device.0)
    }

    unsafe fn multiprocessors_split(
        &self,
        resource: &MultiprocessorResource,
        groups: u32,
        minimum: u32,
        flags: SplitFlags,
    ) -> Result<MultiprocessorSplit> {
        permitted()?;
        let source = Source::of(resource);
        if groups == 0 || !SplitFlags::all().contains(flags) {
            return Err(INVALID_VALUE);
        }
        if source.split != 0 || minimum > resource.count {
            return Err(INVALID_CONFIGURATION);
        }
        let size = minimum.max(1);
        let groups = groups.min(resource.count / size);
        let split = NEXT_SPLIT.fetch_add(1, Ordering::Relaxed);
        let part = |group, size| Source { split, group, ..source }.resource(size);
        let remainder = resource.count - groups * size;
        Ok(MultiprocessorSplit {
            groups: (0..groups).map(|group| part(group, size)).collect(),
            remainder: (remainder > 0).then(|| part(groups, remainder)),
        })
    }

    unsafe fn green_context_create(
        &self,
        device: DeviceOrdinal,
        resources: &[MultiprocessorResource],
    ) -> Result<GreenContextHandle> {
        permitted()?;
        let primary = self.primary_of(device.0)?;
        let first = Source::of(resources.first().ok_or(INVALID_VALUE)?);
        let of_one_split = |other: &Source| (other.device, other.split) == (device.0, first.split);
        let mut parts: Vec<Source> = resources.iter().map(Source::of).collect();
        parts.sort_unstable_by_key(|part| part.group);
        // Each part once.
        if !parts.iter().all(of_one_split) || parts.windows(2).any(|two| two[0] == two[1]) {
            return Err(INVALID_CONFIGURATION);
        }
        let workers: usize = resources.iter().map(|resource| resource.count as usize).sum();
        primary.retain(&self.shared)?;
        let partition = Partition::new(&self.shared.engine, workers);
        let green = Arc::new(GreenContextState { device: device.0, partition });
        Ok(GreenContextHandle::from_raw(self.green_contexts.insert(green)))
    }

    unsafe fn green_context_destroy(&self, green: GreenContextHandle) -> Result<()> {
        permitted()?;
        let green = self.green_contexts.remove(green.as_raw()).ok_or(Failure::new(Status::INVALID_CONTEXT))?;
        if let Some(context) = self.primary_of(green.device)?.release()? {
            self.tear_down(&context);
        }
        Ok(())
    }

    fn green_context_multiprocessors(&self, green: Live<'_, GreenContextHandle>) -> Result<MultiprocessorResource> {
        permitted()?;
        Ok(GreenContextState::of(green)?.multiprocessors())
    }

    fn green_context_stream_create(
        &self,
        green: Live<'_, GreenContextHandle>,
        flags: StreamFlags,
        priority: i32,
    ) -> Result<StreamHandle> {
        permitted()?;
        if flags != StreamFlags::NON_BLOCKING {
            return Err(INVALID_VALUE);
        }
        let green = GreenContextState::of(green)?;
        let core = self.primary_of(green.device)?.core().ok_or(Failure::new(Status::INVALID_CONTEXT))?;
        core.check()?;
        let partition = Some(Arc::clone(&green.partition));
        let stream = StreamState::new_in(partition, &core, Role::NonBlocking, PRIORITY_RANGE.clamp(priority));
        Ok(StreamHandle::from_raw(self.streams.insert(stream)))
    }

    fn stream_green_context(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<Option<GreenContextHandle>> {
        permitted()?;
        let stream = resolve_even_if_lost(&self.shared, call.context, stream)?;
        let Some(partition) = &stream.partition else { return Ok(None) };
        let greens = self.green_contexts.all();
        let green = greens.iter().find(|green| Arc::ptr_eq(&green.partition, partition));
        let green = green.ok_or(Failure::new(Status::STREAM_DETACHED))?;
        Ok(Some(GreenContextHandle::from_raw(Arc::as_ptr(green) as usize)))
    }

    fn stream_multiprocessors(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<MultiprocessorResource> {
        permitted()?;
        let stream = resolve_even_if_lost(&self.shared, call.context, stream)?;
        match &stream.partition {
            None => self.all_multiprocessors(stream.core.device),
            Some(partition) => {
                let count = u32::try_from(partition.workers()).unwrap_or(u32::MAX);
                Ok(Source::whole(stream.core.device).resource(count))
            }
        }
    }
}
