//! A stream's sync event: how others wait for the work that is in a stream at a given time, even after the stream has
//! ended.

use super::membership::PATIENCE;
use super::registry::StreamRegistry;
use super::{OpenStream, Ownership, StreamCore, is_any_capturing};
use crate::capture_mode::with_relaxed_capture_mode;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::raw_event::RawEvent;
use crate::reaper::{self, Attempt};
use crate::timeline::TimelinePoint;
use crate::trace;
use anabranch_hal::{DevicePointer, EventFlags, EventRecordFlags, EventWaitFlags, Live, Status, StreamHandle};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How others wait for all work that is in a stream now.
pub(super) enum SyncState {
    /// By recording an event now. The event is made at its first use, and recorded again each time unless it is still
    /// held elsewhere. While the stream is capturing, the event stays at the point where the stream joined, because
    /// captured work does not run. The stream is not destroyed before this changes.
    Live(StreamHandle, Option<SyncEvent>),
    /// By the event that was recorded when the stream ended, if there was anything to wait for. The error of recording it
    /// stands for work that may run on in a context that is lost.
    Ended(Result<Option<SyncEvent>>),
}

impl SyncState {
    /// The state of a stream that exists until the state is another one.
    pub(super) fn new(handle: StreamHandle) -> Self {
        Self::Live(handle, None)
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Live(..))
    }

    /// The handle, with the event, unless the stream has ended. It does not end while the state is borrowed.
    pub(super) fn live(&mut self) -> Option<(Live<'_, StreamHandle>, &mut Option<SyncEvent>)> {
        let Self::Live(handle, event) = self else { return None };
        // SAFETY: whoever ends a stream changes this state before it is destroyed. It also changes before the life ends for which
        // somebody promised that a stream of another owner exists: `OpenStream` has not been dropped.
        Some((unsafe { Live::new(*handle) }, event))
    }

    /// # Errors
    /// The stream has ended, and its work could not be recorded.
    fn event(&self) -> Result<Option<&SyncEvent>> {
        match self {
            Self::Live(_, event) | Self::Ended(Ok(event)) => Ok(event.as_ref()),
            Self::Ended(Err(error)) => Err(error.clone()),
        }
    }
}

/// An event that was recorded at a point of a stream's timeline.
#[derive(Clone)]
pub struct SyncEvent {
    event: Arc<RawEvent>,
    point: TimelinePoint,
}

impl SyncEvent {
    /// The event.
    pub fn event(&self) -> &Arc<RawEvent> {
        &self.event
    }

    /// The point that it was recorded at.
    pub fn point(&self) -> &TimelinePoint {
        &self.point
    }

    /// The event and the point.
    pub fn into_parts(self) -> (Arc<RawEvent>, TimelinePoint) {
        (self.event, self.point)
    }

    /// Whether the work is complete, or will never run because the context is lost.
    pub fn is_over(&self) -> bool {
        (self.point.value() != 0 && self.point.timeline().is_reached(self.point.value())) || self.event.is_over()
    }

    /// Blocks until the work is complete. No capture can depend on it, so none is affected.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn synchronize(&self) -> Result<()> {
        if self.point.value() != 0 && self.point.timeline().is_reached(self.point.value()) {
            return Ok(());
        }
        with_relaxed_capture_mode(self.event.context().driver(), || self.event.synchronize())?;
        self.point.reached();
        Ok(())
    }

    /// Adds an event after the work of `stream` with that timeline value, unless the existing events cover it.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn add_to(events: &mut Vec<Self>, stream: &StreamCore, value: u64) -> Result<()> {
        if !events.iter().any(|event| event.point.covers(stream.shared.timeline(), value)) {
            events.extend(stream.sync_event()?);
        }
        Ok(())
    }
}

impl fmt::Debug for SyncEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SyncEvent({:?})", self.event.handle())
    }
}

impl StreamCore {
    /// Whether this thread can record how far the stream's work has come, outside captures.
    fn can_record(&self) -> bool {
        self.is_on_own_thread() && !self.is_capturing()
    }

    /// Records the work that is in the stream now in the slot's event. A new event is made if there is none, or if the
    /// existing one is held elsewhere, for what it captured before.
    fn record_into<'a>(
        &self,
        handle: Live<'_, StreamHandle>,
        slot: &'a mut Option<SyncEvent>,
    ) -> Result<&'a SyncEvent> {
        let timeline = self.shared.timeline();
        let free = slot.take_if(|sync| Arc::strong_count(&sync.event) == 1);
        let sync = match free {
            Some(sync) => sync,
            None => SyncEvent {
                event: Arc::new(RawEvent::create(&self.context, EventFlags::DISABLE_TIMING)?),
                point: TimelinePoint::unknown(timeline),
            },
        };
        let sync = slot.insert(sync);
        let value = sync.point.begin(timeline);
        self.record_sync(handle, &sync.event)?;
        if !self.is_captured_by_others(handle) {
            sync.point.put(value);
        }
        Ok(sync)
    }

    fn record_sync(&self, handle: Live<'_, StreamHandle>, event: &RawEvent) -> Result<()> {
        let operation = "recording an event to order streams";
        let call = self.context.call(operation);
        self.context
            .driver()
            .event_record(&call, event.live(), handle, EventRecordFlags::empty())
            .during(operation, || self.place())
    }

    fn wait_for_raw(&self, handle: Live<'_, StreamHandle>, event: &RawEvent) -> Result<()> {
        let operation = "ordering a stream behind another";
        let call = self.context.call(operation);
        self.context
            .driver()
            .stream_wait_event(&call, handle, event.live(), EventWaitFlags::empty())
            .during(operation, || self.place())
    }

    /// Another thread cannot record in this thread's default stream, so this is done after each use of tracked memory,
    /// and after each submission that others may have to wait for.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[cold]
    pub fn record_sync_now(&self) -> Result<()> {
        match self.sync.lock().live() {
            Some((handle, event)) if !self.is_capturing() => self.record_into(handle, event).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The stream was made to wait for a point.
    #[inline]
    pub fn has_waited_for(&self, point: &TimelinePoint) {
        if point.value() == 0 {
            self.shared.suspect_capture();
        } else {
            self.shared.timeline().follow(point);
        }
    }

    /// Whether later work of this stream follows work of `earlier` with that timeline value, or need not because that
    /// work is complete.
    pub fn is_after(&self, earlier: &StreamCore, value: u64) -> bool {
        self.is_same(earlier) || self.shared.timeline().is_after(earlier.shared.timeline(), value)
    }

    /// An event that is reached when the work that is in the stream now is complete, or `None` if there is no work. For
    /// another thread's default stream, that is the work that was recorded there.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn sync_event(&self) -> Result<Option<SyncEvent>> {
        let mut sync = self.sync.lock();
        if let Some((handle, event)) = sync.live()
            && self.can_record()
        {
            self.record_into(handle, event)?;
        }
        Ok(sync.event()?.cloned())
    }

    /// Like [`sync_event`](Self::sync_event), but returns an error where recording would invalidate a capture: in the legacy
    /// stream beside the capture of a blocking stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` in that case; otherwise any error that the driver returns.
    pub fn sync_event_beside_captures(&self) -> Result<Option<SyncEvent>> {
        self.check_legacy()?;
        self.sync_event()
    }

    /// Whether nothing may be queued now: in the legacy stream beside the capture of a blocking stream, which any call would
    /// invalidate.
    pub fn is_barred_by_a_capture(&self) -> bool {
        let is_barred = |error: Error| error.status() == Status::STREAM_CAPTURE_IMPLICIT;
        is_any_capturing() && self.check_legacy().is_err_and(is_barred)
    }

    /// For the legacy stream, returns an error beside the capture of a blocking stream. Invalidates no capture.
    fn check_legacy(&self) -> Result<()> {
        let Some(legacy) = Live::default_stream(self.handle).filter(|_| self.handle.is_legacy()) else { return Ok(()) };
        let operation = "asking for a stream's capture status";
        self.require_usable(operation)?;
        self.context
            .driver()
            .stream_capture_status(&self.context.call(operation), legacy)
            .during(operation, || self.place())
            .map(drop)
    }

    /// Whether the stream is known to have no work now. In a lost context, what still runs is for the context to know.
    pub(super) fn is_idle(&self) -> bool {
        if !self.shared.has_work() {
            return true;
        }
        match self.sync_event_beside_captures() {
            Ok(event) => event.is_none_or(|event| event.is_over()),
            Err(error) => error.is_sticky(),
        }
    }

    /// Frees memory in this stream's order, after the events, or returns `None` if the stream has ended, is capturing,
    /// belongs to another thread, or cannot wait for the events because its context is lost.
    pub fn free_behind(&self, events: &[SyncEvent], address: DevicePointer) -> Option<Result<()>> {
        let mut sync = self.sync.lock();
        let (handle, _) = sync.live().filter(|_| self.can_record())?;
        let operation = "freeing in stream order";
        trace::queued!(?address, stream = self.id, device = %self.context.device(), "freeing in stream order");
        let waits: Result<()> = events.iter().try_for_each(|earlier| {
            self.wait_for_raw(handle, &earlier.event)?;
            self.count_orders(1);
            self.has_waited_for(&earlier.point);
            Ok(())
        });
        let driver = self.context.driver();
        let freed = waits.ok().map(|()| {
            let call = self.context.call(operation);
            // SAFETY: the memory's owner was dropped, and all uses are in this stream or behind the events just waited for.
            with_relaxed_capture_mode(driver, || unsafe { driver.free_async(&call, address, handle) })
                .during(operation, || self.place())
        });
        self.shared.note_work();
        freed
    }

    /// Calls `action` with the handle. The stream cannot end in the meantime. `None`: it has ended, or is another
    /// thread's default stream.
    pub(crate) fn while_live<R>(&self, action: impl FnOnce(Live<'_, StreamHandle>) -> R) -> Option<R> {
        let mut sync = self.sync.lock();
        let (handle, _) = sync.live().filter(|_| self.is_on_own_thread())?;
        Some(action(handle))
    }

    /// Makes the stream join a capture by `join`, a call of the driver, after which `joined` makes it a member. Other
    /// streams wait for the work before.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn join_with(
        &self,
        join: impl FnOnce() -> Result<()>,
        joined: impl FnOnce(Live<'_, StreamHandle>),
    ) -> Result<()> {
        let mut sync = self.sync.lock();
        let Some((handle, event)) = sync.live() else { return Ok(()) };
        if !self.is_capturing() {
            self.record_into(handle, event)?;
        }
        self.shared.membership().joins();
        join()?;
        joined(handle);
        Ok(())
    }

    /// Records an event that is not the stream's own, unless the stream has ended.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn record_other(&self, event: &RawEvent) -> Result<bool> {
        self.while_live(|handle| self.record_sync(handle, event)).map_or(Ok(false), |recorded| recorded.map(|()| true))
    }

    /// Whether the handle may still be used.
    pub fn is_live(&self) -> bool {
        if crate::host_work::is_inside() {
            // Whoever holds the lock, perhaps this thread, calls the driver with a stream that is live.
            return self.sync.try_lock().is_none_or(|sync| sync.is_live());
        }
        self.sync.lock().is_live()
    }

    /// Ends the stream, and destroys it if it is owned. Queued work still runs, and others can still wait for it. If that cannot
    /// be done now, or here, the reaper does it later. Called for its `OpenStream` only.
    pub(super) fn end(self: &Arc<Self>) -> Result<()> {
        if crate::host_work::is_inside() {
            let core = self.clone();
            reaper::later(move || drop_error::report(core.end()));
            return Ok(());
        }
        if self.try_end(PATIENCE)? {
            return Ok(());
        }
        let core = self.clone();
        reaper::attempt(u64::MAX - self.id, move || match core.try_end(Duration::ZERO) {
            Ok(false) => Attempt::Pending,
            ended => {
                drop_error::report(ended.map(drop));
                Attempt::Done
            }
        });
        Ok(())
    }

    /// `false`: nobody could wait for the stream's work afterwards, or another thread submits work to its capture.
    fn try_end(&self, patience: Duration) -> Result<bool> {
        if !self.is_live() {
            return Ok(true);
        }
        // Before the lock, because what the capture retains may be released, and be this stream's to free.
        let capture = self.shared.membership().get().filter(|_| self.is_capturing());
        // SAFETY: the stream has not ended, and nobody else ends it: there is one `OpenStream`, whose end this is.
        let handle = unsafe { Live::new(self.handle) };
        if capture.is_some_and(|capture| !capture.stream_ends(self, handle, self.ownership, patience)) {
            return Ok(false);
        }
        let mut sync = self.sync.lock();
        let Some((handle, event)) = sync.live() else { return Ok(true) };
        let recorded = match self.record_end(handle, event) {
            Ok(()) => Ok(event.take()),
            Err(error) if error.is_sticky() => Err(error),
            // The owner may destroy the stream when it is not open any more.
            Err(error) if self.is_of_another_library() => self.wait_at_end(handle, error).map(|()| None),
            Err(_) => return Ok(false),
        };
        if let Ok(Some(pending)) = &recorded
            && !pending.is_over()
            && self.note_pending_end(handle, &pending.event).is_err_and(|error| !error.is_sticky())
            && !self.is_of_another_library()
        {
            *event = recorded.ok().flatten();
            return Ok(false);
        }
        *sync = SyncState::Ended(recorded);
        if self.ownership == Ownership::Foreign {
            return Ok(true);
        }
        let operation = "destroying a stream";
        trace::rare!(stream = self.id, device = %self.context.device(), "destroying a stream");
        // SAFETY: the state says that the stream has ended, so nobody uses the handle after this.
        unsafe { self.context.driver().stream_destroy(&self.context.call(operation), self.handle) }
            .during(operation, || self.place())?;
        Ok(true)
    }

    /// Whether somebody else decides how long the stream exists.
    fn is_of_another_library(&self) -> bool {
        self.ownership == Ownership::Foreign && !self.handle.is_legacy() && !self.handle.is_per_thread()
    }

    /// Leaves an event of all work in the slot, if there is any work.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` in the legacy stream beside the capture of a blocking stream; otherwise any
    /// error that the driver returns.
    fn record_end(&self, handle: Live<'_, StreamHandle>, slot: &mut Option<SyncEvent>) -> Result<()> {
        if !self.can_record() {
            return Ok(());
        }
        if !self.shared.has_work() {
            *slot = None;
            return Ok(());
        }
        if self.handle.is_legacy() {
            let call = self.context.call("ending a stream");
            self.context.driver().stream_capture_status(&call, handle).during("ending a stream", || self.place())?;
        }
        self.record_into(handle, slot).map(drop)
    }

    /// Waits for the work of a stream that cannot be recorded, and is not the library's any more.
    ///
    /// # Errors
    /// That of recording, if the work cannot be waited for either.
    fn wait_at_end(&self, handle: Live<'_, StreamHandle>, error: Error) -> Result<()> {
        let (driver, call) = (self.context.driver(), self.context.call("ending a stream"));
        with_relaxed_capture_mode(driver, || driver.stream_synchronize(&call, handle)).map_err(|_| error)
    }

    /// Notifies the context when the work of this stream, which ends now, is complete. The event for this cannot be an
    /// owned one, because that would keep the context open.
    ///
    /// # Errors
    /// Any error that the driver returns.
    fn note_pending_end(&self, handle: Live<'_, StreamHandle>, pending: &RawEvent) -> Result<()> {
        let operation = "ending a stream";
        let event = if !self.can_record() {
            pending.copy_record(operation)
        } else {
            let (driver, call) = (self.context.driver(), self.context.call(operation));
            let made = driver.event_create(&call, EventFlags::DISABLE_TIMING).and_then(|event| {
                // SAFETY: the event was just made, and nobody else knows it.
                let live = unsafe { Live::new(event) };
                let recorded = driver.event_record(&call, live, handle, EventRecordFlags::empty());
                if recorded.is_err() {
                    // SAFETY: nobody else knows the event, and this is its last use.
                    let _ = unsafe { driver.event_destroy(&call, event) };
                }
                recorded.map(|()| event)
            });
            made.during(operation, || self.place())
        };
        self.context.extension::<StreamRegistry>().stream_ended(&self.context, event?);
        Ok(())
    }
}

impl OpenStream {
    /// Makes later work of this stream wait for the work that is in `earlier` now, except captured work. `false`: there
    /// is nothing to wait for.
    ///
    /// # Errors
    /// Any error that the driver returns; `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function.
    pub fn follow(&self, earlier: &StreamCore) -> Result<bool> {
        if self.is_same(earlier) {
            return Ok(false);
        }
        let mut sync = earlier.sync.lock();
        let recorded = match sync.live() {
            Some((handle, event)) if earlier.can_record() => Some(earlier.record_into(handle, event)?),
            _ => sync.event()?,
        };
        let Some(recorded) = recorded else { return Ok(false) };
        trace::queued!(stream = self.id, behind = earlier.id, "ordering a stream behind another");
        let handle = self.handle("ordering a stream behind another")?;
        self.wait_for_raw(handle, &recorded.event)?;
        self.has_waited_for(&recorded.point);
        self.shared.note_work();
        Ok(true)
    }

    /// Returns the handle without destroying the stream. Whoever destroys it ensures that nobody uses the stream any more.
    pub fn release(&self) -> StreamHandle {
        let handle = self.live();
        if let Some(capture) = self.shared.membership().get().filter(|_| self.is_capturing()) {
            capture.stream_ends(self, handle, Ownership::Owned, PATIENCE);
        }
        if self.ownership == Ownership::Foreign {
            drop_error::report(self.end());
            return handle.handle();
        }
        let mut sync = self.sync.lock();
        if let Some((handle, event)) = sync.live() {
            let recorded = self.record_end(handle, event).or_else(|error| {
                *event = None;
                self.wait_at_end(handle, error)
            });
            let recorded = recorded.map(|()| event.take());
            *sync = SyncState::Ended(recorded);
        }
        handle.handle()
    }

    /// Waits for the stream's work and ends the stream.
    ///
    /// # Errors
    /// An error of waiting, otherwise an error of destroying.
    #[track_caller]
    pub fn shut_down(self) -> Result<()> {
        trace::span!("shutting a stream down", stream = self.id, device = %self.context.device());
        let waited = self.synchronize();
        waited.and(self.end())
    }
}
