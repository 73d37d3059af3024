//! A stream's sync event: how others wait for the work that is in a stream at a given time, even after the stream has
//! ended.

use super::{OpenStream, StreamCore, is_any_capturing};
use crate::error::{Error, Result, ResultExt};
use crate::helping::helping;
use crate::host_work;
use crate::raw_event::RawEvent;
use crate::reaper;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use crate::timeline::TimelinePoint;
use crate::trace;
use anabranch_hal::{DevicePointer, EventFlags, EventRecordFlags, EventWaitFlags, Live, Status, StreamHandle};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

const RECORDING: &str = "recording an event to order streams";

/// How others wait for all work that is in a stream now.
pub(super) enum SyncState {
    /// By recording an event now. The event is made at its first use, and recorded again each time unless it is still
    /// held elsewhere. While the stream is capturing, the record stays at the point where the stream joined, because
    /// captured work does not run. The stream is not destroyed before this changes.
    Live(StreamHandle, LastRecord),
    /// By what was recorded when the stream ended.
    Ended(LastRecord),
}

/// What was recorded of a stream's work last.
pub(super) enum LastRecord {
    /// Nothing. There is no work to wait for.
    Nothing,
    /// All work at that time.
    Event(SyncEvent),
    /// The record has failed with that error, or has unwound. Whoever waits for the work gets an error, unless the host has
    /// waited for the point of the stream's timeline with that value.
    Failed { error: Option<Error>, value: u64 },
}

impl SyncState {
    /// The state of a stream that exists until the state is another one.
    pub(super) fn new(handle: StreamHandle) -> Self {
        Self::Live(handle, LastRecord::Nothing)
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Live(..))
    }

    /// The handle, with the record, unless the stream has ended. It does not end while the state is borrowed.
    pub(super) fn live(&mut self) -> Option<(Live<'_, StreamHandle>, &mut LastRecord)> {
        let Self::Live(handle, last) = self else { return None };
        // SAFETY: whoever ends a stream changes this state before it is destroyed. It also changes before the life ends for which
        // somebody promised that a stream of another owner exists: `OpenStream` has not been dropped.
        Some((unsafe { Live::new(*handle) }, last))
    }

    fn last_record(&self) -> &LastRecord {
        let (Self::Live(_, last) | Self::Ended(last)) = self;
        last
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

    /// Whether the work is complete, or will never run because the context is lost, and does not run on there.
    pub fn is_over(&self) -> bool {
        (self.point.value() != 0 && self.point.timeline().is_reached(self.point.value())) || self.event.is_over()
    }

    /// Returns when the work [is over](Self::is_over), whatever the driver answers meanwhile.
    pub fn outlast(&self) {
        let wait = || {
            // What a lost context still has in its streams may have nobody else to take it out.
            let _helping = helping();
            while self.synchronize().is_err() && !self.is_over() {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        if !host_work::is_inside() {
            return wait();
        }
        // On this thread, the driver refuses to wait.
        std::thread::scope(|scope| {
            if std::thread::Builder::new().spawn_scoped(scope, wait).is_err() {
                wait();
            }
        });
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

    /// Adds an event after the work of `stream` with that timeline value, unless the last existing events cover it.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn add_to(events: &mut Vec<Self>, stream: &StreamCore, value: u64) -> Result<()> {
        // Of very many, those before are not worth the search: a wait too many does no harm.
        const SEARCHED: usize = 32;
        if !events.iter().rev().take(SEARCHED).any(|event| event.point.covers(stream.shared.timeline(), value)) {
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
    pub(super) fn can_record(&self) -> bool {
        self.is_on_own_thread() && !self.is_capturing()
    }

    /// Records the work that is in the stream now. A new event is made if there is none, or if the existing one is held
    /// elsewhere, for what it captured before.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` in the legacy stream beside the capture of a blocking stream: the earlier record
    /// stays, which covers earlier work only. Otherwise any error that the driver returns. The earlier record is gone then: it does not
    /// cover the work.
    pub(super) fn record_into(&self, handle: Live<'_, StreamHandle>, last: &mut LastRecord) -> Result<()> {
        if self.is_barred_by_a_capture() {
            *last = LastRecord::Event(self.record_in_event_of(handle, LastRecord::Nothing)?);
            return Ok(());
        }
        // Nobody takes the earlier record for a later one, even if the driver unwinds.
        let before = std::mem::replace(last, self.no_record(None));
        match self.record_in_event_of(handle, before) {
            Ok(event) => *last = LastRecord::Event(event),
            Err(error) => {
                *last = self.no_record(Some(&error));
                return Err(error);
            }
        }
        Ok(())
    }

    /// The state after a record that has failed, or has unwound.
    pub(super) fn no_record(&self, error: Option<&Error>) -> LastRecord {
        // The work of now has smaller values than the next point.
        LastRecord::Failed { error: error.cloned(), value: self.shared.timeline().value() + 1 }
    }

    fn record_in_event_of(&self, handle: Live<'_, StreamHandle>, before: LastRecord) -> Result<SyncEvent> {
        let timeline = self.shared.timeline();
        let mut sync = match before {
            LastRecord::Event(sync) if Arc::strong_count(&sync.event) == 1 => sync,
            _ => SyncEvent {
                event: Arc::new(RawEvent::create(&self.context, EventFlags::DISABLE_TIMING)?),
                point: TimelinePoint::unknown(timeline),
            },
        };
        let value = sync.point.begin(timeline);
        self.record_sync(handle, &sync.event)?;
        if !self.is_captured_by_others(handle) {
            sync.point.put(value);
        }
        Ok(sync)
    }

    /// What was recorded last, or `None` if there is no work.
    ///
    /// # Errors
    /// That of the record, if the work may not be complete.
    pub(super) fn recorded<'a>(&self, last: &'a LastRecord) -> Result<Option<&'a SyncEvent>> {
        match last {
            LastRecord::Nothing => Ok(None),
            LastRecord::Event(event) => Ok(Some(event)),
            LastRecord::Failed { value, .. } if self.shared.timeline().is_reached(*value) => Ok(None),
            LastRecord::Failed { error, .. } => Err(self.not_recorded(error.as_ref())),
        }
    }

    #[cold]
    fn not_recorded(&self, error: Option<&Error>) -> Error {
        let unwound = || Error::argument(Status::ILLEGAL_STATE, RECORDING, "the driver has unwound").at(self.place());
        let error = error.cloned().unwrap_or_else(unwound);
        error.with_hint(
            "wait for the work: synchronize with the context, or with the stream on a thread that can use it",
        )
    }

    fn record_sync(&self, handle: Live<'_, StreamHandle>, event: &RawEvent) -> Result<()> {
        let call = self.context.call(RECORDING);
        self.context
            .driver()
            .event_record(&call, event.live(), handle, EventRecordFlags::empty())
            .during(RECORDING, || self.place())
    }

    fn wait_for_raw(&self, handle: Live<'_, StreamHandle>, event: &RawEvent) -> Result<()> {
        let operation = "ordering a stream behind another";
        let call = self.context.call(operation);
        self.context
            .driver()
            .stream_wait_event(&call, handle, event.live(), EventWaitFlags::empty())
            .during(operation, || self.place())
            .map_err(Error::of_an_ended_capture)
    }

    /// Another thread cannot record in this thread's default stream, so this is done after each use of tracked memory,
    /// and after each submission that others may have to wait for. If it fails, those who wait get the error: the work is
    /// queued.
    #[cold]
    pub fn record_sync_now(&self) {
        if let Some((handle, last)) = self.sync.lock().live()
            && !self.is_capturing()
        {
            let _ = self.record_into(handle, last);
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

    /// Records for a question, which has queued nothing. Inside a host function the earlier record stays: the driver may not be
    /// called, and of another thread's default stream there may never be another record.
    fn record_if_possible(&self, sync: &mut SyncState) -> Result<()> {
        match sync.live() {
            Some((handle, last)) if self.can_record() => {
                host_work::refuse_inside(RECORDING).map_err(|error| error.at(self.place()))?;
                self.record_into(handle, last)
            }
            _ => Ok(()),
        }
    }

    /// An event that is reached when the work that is in the stream now is complete, or `None` if there is no work. For
    /// another thread's default stream, that is the work that was recorded there.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn sync_event(&self) -> Result<Option<SyncEvent>> {
        if reaper::is_here() {
            return self.sync_event_beside_captures();
        }
        self.record_sync_event()
    }

    fn record_sync_event(&self) -> Result<Option<SyncEvent>> {
        let mut sync = self.sync.lock();
        self.record_if_possible(&mut sync)?;
        Ok(self.recorded(sync.last_record())?.cloned())
    }

    /// Like [`sync_event`](Self::sync_event), but returns an error where recording would invalidate a capture: in the legacy
    /// stream beside the capture of a blocking stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` in that case; otherwise any error that the driver returns.
    pub fn sync_event_beside_captures(&self) -> Result<Option<SyncEvent>> {
        self.context.may_record_in_legacy_stream();
        if !self.handle.is_legacy() {
            return self.record_sync_event();
        }
        // No capture begins between the question and the record.
        let _recording = self.context.record_in_legacy_stream();
        self.check_legacy()?;
        self.record_sync_event()
    }

    /// Like [`sync_event`](Self::sync_event), for a use of the timeline value. In the legacy stream, where nothing can be
    /// recorded beside the capture of a blocking stream, an earlier record may cover it.
    ///
    /// # Errors
    /// Same as [`sync_event`](Self::sync_event).
    pub fn sync_event_behind(&self, value: u64) -> Result<Option<SyncEvent>> {
        if !self.is_barred_by_a_capture() {
            return self.sync_event();
        }
        if let LastRecord::Event(event) = self.sync.lock().last_record()
            && event.point.covers(self.shared.timeline(), value)
        {
            return Ok(Some(event.clone()));
        }
        // It fails, unless the capture has ended, and leaves the capture valid.
        self.sync_event_beside_captures()
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

    /// An event behind the work of the stream, if it has any and one can be recorded.
    pub(super) fn pending_event(&self) -> Option<SyncEvent> {
        if !self.shared.work().is_pending() {
            return None;
        }
        self.sync_event_beside_captures().ok().flatten()
    }

    /// Whether the stream is known to have no work now. In a lost context, what still runs is for the context to know.
    pub(super) fn is_idle(&self) -> bool {
        if !self.shared.work().is_pending() {
            return true;
        }
        match self.sync_event_beside_captures() {
            Ok(event) => event.is_none_or(|event| event.is_over()),
            Err(error) => self.context.is_lost_by(&error),
        }
    }

    /// Frees memory in this stream's order, after the events, or returns `None` if the stream has ended, is capturing,
    /// belongs to another thread, or cannot wait for the events because its context is lost.
    ///
    /// For events of other contexts, the caller holds [`submit_host_bound_if`](Self::submit_host_bound_if).
    pub fn free_behind(&self, events: &[SyncEvent], address: DevicePointer) -> Option<Result<()>> {
        let mut sync = self.sync.lock();
        let (handle, _) = sync.live().filter(|_| self.can_record())?;
        let operation = "freeing in stream order";
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
        self.shared.work().note();
        drop(sync);
        // Those who free memory may hold locks.
        trace::queued_elsewhere!(stream = self.id; ?address, stream, "freeing in stream order");
        freed
    }

    /// Whether the driver says that all work of the stream is complete. `false` also where it cannot be asked without an effect
    /// on a capture.
    pub fn is_known_to_be_idle(&self) -> bool {
        let (driver, call) = (self.context.driver(), self.context.call("querying"));
        !self.is_capturing()
            && !self.is_barred_by_a_capture()
            && self.while_live(|handle| with_relaxed_capture_mode(driver, || driver.stream_query(&call, handle)))
                == Some(Ok(()))
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
        let _joining = self.context.join_capture();
        let mut sync = self.sync.lock();
        let Some((handle, last)) = sync.live() else { return Ok(()) };
        if !self.is_capturing() {
            self.record_into(handle, last)?;
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
        let Some(recorded) = earlier.sync_event()? else { return Ok(false) };
        // Work that is being submitted holds locks.
        trace::queued_elsewhere!(stream = self.id, behind = earlier.id; stream, behind, "ordering a stream behind another");
        let handle = self.handle("ordering a stream behind another")?;
        let is_elsewhere = !earlier.context.is_same(&self.context);
        let _host_bound = self.submit_host_bound_if(is_elsewhere);
        // Nothing of the earlier stream is locked: this stream may have no room, and wait until the program makes some.
        self.wait_for_raw(handle, &recorded.event)?;
        self.has_waited_for(&recorded.point);
        self.shared.work().note();
        Ok(true)
    }
}
