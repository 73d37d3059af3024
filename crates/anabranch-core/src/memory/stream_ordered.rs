//! Freeing memory in stream order.

use crate::access::{AccessHistory, LastUse};
use crate::context::ContextCore;
use crate::driver_context::LegacyRecording;
use crate::drop_error;
use crate::error::Result;
use crate::graph_frees::GraphFrees;
use crate::idle_memory::attempt_behind;
use crate::memory_pool::MemoryPoolCore;
use crate::stream::{PendingWork, StreamCore, SyncEvent};
use anabranch_hal::{DevicePointer, Status, StreamFlags};
use std::ops::Range;
use std::sync::Arc;

/// Memory that was allocated in stream order, and whose owner is gone.
#[derive(Clone, Copy)]
pub(super) struct StreamOrdered<'a> {
    pub(super) context: &'a Arc<ContextCore>,
    pub(super) address: DevicePointer,
    /// The stream that it was allocated in.
    pub(super) home: &'a Arc<StreamCore>,
    pub(super) pool: Option<&'a Arc<MemoryPoolCore>>,
    /// Those of the graph of which a launch has left it allocated.
    pub(super) frees: Option<&'a Arc<GraphFrees>>,
}

impl StreamOrdered<'_> {
    /// Frees it in the stream that it was allocated in, after its uses in all streams.
    pub(super) fn free(self, history: AccessHistory) -> Result<()> {
        // As most memory: used by the stream that it was allocated on.
        let recording = recording_in(self.home);
        if history.is_only_of(self.home)
            && !self.home.is_barred_by_a_capture()
            && let Some(freed) = self.free_in(self.home, &[])
            && !is_refused_for_a_capture(&freed)
        {
            return freed;
        }
        drop(recording);
        let uses = history.into_pending();
        // The stream may have ended and have been opened again.
        let home = uses.iter().map(|last| &last.stream).find(|stream| stream.is_same(self.home)).unwrap_or(self.home);
        let memory = StreamOrdered { home, ..self };
        // Locked before the records in the legacy stream are: whoever holds this lock may record there.
        let is_elsewhere = uses.iter().any(|last| !last.stream.context().is_same(self.context));
        let host_bound = home.submit_host_bound_if(is_elsewhere);
        let streams = || std::iter::once(home).chain(uses.iter().map(|last| &last.stream));
        let recording = streams().find_map(|stream| recording_in(stream));
        let is_barred = streams().any(|stream| stream.is_barred_by_a_capture());
        let freed = if is_barred { None } else { memory.free_behind_uses(&uses) };
        drop((recording, host_bound));
        freed.unwrap_or_else(|| {
            memory.free_when_unused(&uses);
            Ok(())
        })
    }

    /// Frees it in the order of its stream, or of a stream of its own if that has ended, behind the uses in all streams.
    /// `None`: a capture that was begun in the meantime keeps it from being freed, or the context is lost, which has no new
    /// events, streams and waits.
    ///
    /// For uses in other contexts, the caller holds [`submit_host_bound_if`](StreamCore::submit_host_bound_if).
    fn free_behind_uses(self, uses: &[LastUse]) -> Option<Result<()>> {
        let home = self.home;
        let add = |mut events: Vec<SyncEvent>, last: &LastUse| -> Result<Vec<SyncEvent>> {
            SyncEvent::add_to(&mut events, &last.stream, last.value)?;
            Ok(events)
        };
        let mut later = uses.iter().filter(|last| !home.is_after(&last.stream, last.value));
        let in_order = later.try_fold(Vec::new(), add).ok().and_then(|events| self.free_in(home, &events));
        let freed = match in_order {
            Some(freed) => freed,
            None => {
                // The stream has ended. Any other will do, behind the end of that one, and behind all other uses: what this
                // object of the stream came after at its end is not what the stream has followed since under another.
                let end = home.sync_event().ok()?.into_iter().collect();
                let events = uses.iter().try_fold(end, add).ok()?;
                self.free_elsewhere(&events)?
            }
        };
        Some(freed).filter(|freed| !is_refused_for_a_capture(freed))
    }

    /// Frees it in a stream of its own, behind the events. `None`: there is no stream to be had.
    fn free_elsewhere(self, events: &[SyncEvent]) -> Option<Result<()>> {
        let stream = StreamCore::create(self.context, StreamFlags::NON_BLOCKING, 0).ok()?;
        self.free_in(stream.core(), events)
    }

    /// Frees it in the order of a stream, as [`StreamCore::free_behind`] says.
    fn free_in(self, stream: &Arc<StreamCore>, events: &[SyncEvent]) -> Option<Result<()>> {
        if let Some(pool) = self.pool {
            pool.is_freed_in(stream);
        }
        if let Some(frees) = self.frees {
            frees.are_in(stream);
        }
        stream.free_behind(events, self.address)
    }

    /// Frees it when its uses are over. For where a capture keeps a stream from being asked, or from being used, and for
    /// where there is no event or stream to be had.
    #[cold]
    fn free_when_unused(self, uses: &[LastUse]) {
        let mut work = PendingWork::default();
        work.add(self.home);
        uses.iter().for_each(|last| work.add(&last.stream));
        let (context, home, pool) = (self.context.clone(), self.home.clone(), self.pool.cloned());
        let (address, frees) = (self.address, self.frees.cloned());
        let late = frees.as_ref().map(GraphFrees::is_late);
        attempt_behind(work, move || {
            let memory =
                StreamOrdered { context: &context, address, home: &home, pool: pool.as_ref(), frees: frees.as_ref() };
            let recording = recording_in(&home);
            let freed = if home.is_barred_by_a_capture() { None } else { memory.free_in(&home, &[]) };
            drop(recording);
            let freed = freed.filter(|freed| !is_refused_for_a_capture(freed));
            match freed.or_else(|| memory.free_elsewhere(&[])) {
                Some(freed) => {
                    drop_error::report(freed);
                    drop(late);
                }
                // Nothing uses it, so that it can be freed in no order. It is no plain memory, which others could take.
                None => context.free_apart_when_idle(address, (pool, late)),
            }
        });
    }
}

/// Frees memory that a launch of a graph has left allocated, behind that launch. The graph's frees are told in which stream.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE (1)` if it was freed before; otherwise any error that the driver returns.
pub fn free_behind_launch(stream: &Arc<StreamCore>, memory: &Range<u64>, frees: &Arc<GraphFrees>) -> Result<()> {
    let address = DevicePointer(memory.start);
    let freed = StreamOrdered { context: stream.context(), address, home: stream, pool: None, frees: Some(frees) };
    freed.free(AccessHistory::default())
}

/// Held from the question whether a capture bars a stream until something is queued there, if it is the legacy stream.
fn recording_in(stream: &StreamCore) -> Option<LegacyRecording<'_>> {
    stream.is_legacy().then(|| stream.context().record_in_legacy_stream())
}

/// Whether a capture that was begun since the streams were asked has kept memory from being freed.
fn is_refused_for_a_capture(freed: &Result<()>) -> bool {
    freed.as_ref().is_err_and(|error| error.status() == Status::STREAM_CAPTURE_IMPLICIT)
}
