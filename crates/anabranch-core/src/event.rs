//! Events: recording, waiting and querying.

mod by_launch;
#[cfg(all(test, loom))]
mod loom_tests;
mod record_state;
mod waited_by_graph;

pub(crate) use by_launch::RecordsByLaunch;
pub use record_state::{RecordObserver, RecordState};
pub(crate) use waited_by_graph::WaitedByGraph;

use crate::capture_state::{CaptureState, CapturedClock, Capturing, capturing};
use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use crate::helping::helping;
use crate::host_work;
use crate::keeper::Keeper;
use crate::raw_event::RawEvent;
use crate::stream::{OpenStream, SubmittingHostBound};
use crate::submission::Submission;
use crate::timeline::TimelinePoint;
use crate::trace;
use anabranch_hal::{
    Call, EventFlags, EventHandle, EventRecordFlags, EventWaitFlags, InterprocessEventHandle, Live, Status,
    StreamHandle,
};
use anabranch_sync::modelled::SpinMutexGuard;
use record_state::Record;
use std::panic::Location;
use std::sync::Arc;

/// An event. Everything that is known of it belongs to the event itself, of which there may be several such objects.
pub struct EventCore {
    raw: Arc<RawEvent>,
    state: Arc<RecordState>,
}

impl EventCore {
    /// Creates an event.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not know, and for an interprocess event that
    /// measures time.
    #[track_caller]
    pub fn create(context: &Arc<ContextCore>, flags: EventFlags) -> Result<Self> {
        Ok(Self::of_raw(Arc::new(RawEvent::create(context, flags)?)))
    }

    /// Opens an event that another process has exported.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support it; `CUDA_ERROR_INVALID_CONTEXT (201)` or
    /// `CUDA_ERROR_OPERATING_SYSTEM (304)` if this process exported the event itself, or the event no longer exists.
    #[track_caller]
    pub fn open(context: &Arc<ContextCore>, exported: &InterprocessEventHandle) -> Result<Self> {
        let operation = "opening an event of another process";
        let handle =
            context.driver().event_open(&context.call(operation), exported).during(operation, || context.place())?;
        let flags = EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING;
        let event = Self::of_raw(Arc::new(RawEvent::from_handle(context, handle, flags)));
        event.share();
        Ok(event)
    }

    /// An event of another library, which exists until `keeper` is dropped. Nothing is known of its records.
    ///
    /// # Safety
    /// The event belongs to the context, and exists until `keeper` is dropped.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for the null handle.
    #[track_caller]
    pub unsafe fn from_raw(context: &Arc<ContextCore>, handle: EventHandle, keeper: Keeper) -> Result<Self> {
        if handle.is_null() {
            return Err(Error::argument(
                Status::INVALID_HANDLE,
                "opening an event of another library",
                "the handle is null",
            )
            .with_hint("pass the handle of an event that exists")
            .at(context.place()));
        }
        // SAFETY: the caller promises that the event belongs to the context, and exists until the keeper is dropped.
        Ok(Self::of_raw(Arc::new(unsafe { RawEvent::foreign(context, handle, keeper) })))
    }

    /// An object for an event, which it keeps.
    pub fn of_raw(raw: Arc<RawEvent>) -> Self {
        Self { state: RecordState::of(&raw), raw }
    }

    /// The handle, and what belongs to it.
    #[inline(always)]
    pub fn raw(&self) -> &Arc<RawEvent> {
        &self.raw
    }

    /// What is known of its last record. A graph with a node that waits for the event retains it.
    pub fn record_state(&self) -> &Arc<RecordState> {
        &self.state
    }

    /// The context.
    #[inline(always)]
    pub fn context(&self) -> &Arc<ContextCore> {
        self.raw.context()
    }

    /// The flags that it was created with. `None`: another library has made it, and drivers do not tell.
    pub fn flags(&self) -> Option<EventFlags> {
        self.raw.flags()
    }

    /// Whether the work captured last is complete.
    ///
    /// # Errors
    /// An error of earlier asynchronous work. If the event was last recorded in a capture:
    /// `CUDA_ERROR_CAPTURED_EVENT (907)`, which invalidates the capture; after the capture has ended,
    /// `CUDA_ERROR_INVALID_VALUE (1)`. If this thread's capture mode prohibits potentially unsafe calls because of a
    /// capture: `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`, which invalidates that capture.
    #[inline]
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        let queried = {
            let _helping = helping();
            self.raw.query()
        };
        let complete = queried.map_err(Error::of_another_capture).map_err(Error::of_an_ended_capture)?;
        if complete && !self.state.is_noted() && !host_work::is_inside() {
            self.note_completion()?;
        }
        Ok(complete)
    }

    /// The known record may be later than the one that was queried, so the driver is queried again.
    #[cold]
    fn note_completion(&self) -> Result<()> {
        // Whoever holds the lock may wait for room in a stream, or records the event again.
        let Some(record) = self.state.try_lock() else { return Ok(()) };
        if self.raw.query()? {
            if let Some(point) = record.known().filter(|_| !self.is_shared()) {
                point.reached();
            }
            self.state.note();
        }
        Ok(())
    }

    /// Blocks until the work captured last is complete.
    ///
    /// # Errors
    /// An error of earlier asynchronous work. If the event was last recorded in a capture:
    /// `CUDA_ERROR_CAPTURED_EVENT (907)`, which invalidates the capture; `CUDA_ERROR_INVALID_VALUE (1)` if the capture
    /// was already invalidated or has ended. If this thread's capture mode prohibits potentially unsafe calls because
    /// of a capture: `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`, which invalidates that capture.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let before = self.point();
        self.raw.synchronize().map_err(Error::of_another_capture).map_err(Error::of_an_ended_capture)?;
        // The driver waited for this record if there was no other until after the call: no two have the same value.
        if let Some(before) = before
            && self.point().is_some_and(|now| now.is_same(&before))
        {
            before.reached();
        }
        Ok(())
    }

    /// The time in milliseconds from the record of `start` to the record of this event.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if either event was never recorded or does not measure time;
    /// `CUDA_ERROR_NOT_READY (600)` if either is not complete; `CUDA_ERROR_CAPTURED_EVENT (907)` if either was last
    /// recorded in a capture, which remains valid, or `CUDA_ERROR_INVALID_VALUE (1)` if that capture has ended.
    #[track_caller]
    pub fn elapsed_since(&self, start: &Self) -> Result<f32> {
        let operation = "measuring between two events";
        let context = self.context();
        context.require_same_driver(start.context(), operation)?;
        context
            .driver()
            .event_elapsed(&context.call(operation), start.raw.live(), self.raw.live())
            .during(operation, || context.place())
            .map_err(|error| match error.status() {
                Status::INVALID_HANDLE => {
                    error.with_hint("record both events before, and create them without `EventFlags::DISABLE_TIMING`")
                }
                _ => error,
            })
    }

    /// Exports the event for another process.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device does not support it; `CUDA_ERROR_INVALID_VALUE (1)` or
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the event was created without that flag.
    #[track_caller]
    pub fn export(&self) -> Result<InterprocessEventHandle> {
        let operation = "exporting an event";
        let context = self.context();
        self.share();
        context.driver().event_export(&context.call(operation), self.raw.live()).during(operation, || context.place())
    }

    #[inline(always)]
    fn lock_record(&self) -> SpinMutexGuard<'_, Record> {
        self.state.lock()
    }

    /// The point of the last record, if it is known and can be queried here.
    pub fn point(&self) -> Option<TimelinePoint> {
        if self.is_shared() || host_work::is_inside() { None } else { self.lock_record().known().cloned() }
    }

    /// Attaches an observer that is notified before the event is recorded again, and that `observe` makes if there is
    /// none yet. `attach` is called with it, and with the point of the last record if that is known. The event is not
    /// recorded in the meantime.
    pub fn observe<O: RecordObserver, R>(
        &self,
        observe: impl FnOnce() -> O,
        attach: impl FnOnce(&O, Option<TimelinePoint>) -> R,
    ) -> Option<R> {
        let record = if host_work::is_inside() { None } else { Some(self.lock_record()) };
        let point = record.as_ref().and_then(|record| record.known().filter(|_| !self.is_shared()).cloned());
        self.state.observe(observe, |observer| attach(observer, point))
    }

    /// From now on, the event can be recorded outside this library's calls.
    pub fn share(&self) {
        self.raw.share();
    }

    #[inline(always)]
    fn is_shared(&self) -> bool {
        self.raw.is_shared()
    }

    #[inline(always)]
    fn is_captured(&self) -> bool {
        self.state.is_captured()
    }

    /// The capture of the last record, if that capture has not ended, and how far the stream had followed others in it.
    pub fn capture(&self) -> Option<(Arc<CaptureState>, CapturedClock)> {
        self.state.capture()
    }
}

const RECORDING: &str = "recording an event";
const WAITING: &str = "waiting for an event in a stream";

impl OpenStream {
    /// Captures the work that is in the stream now in an event.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the event belongs to another context; `CUDA_ERROR_ILLEGAL_STATE (401)` for
    /// an external record outside a capture; `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not know.
    #[inline]
    #[track_caller]
    pub fn record(&self, event: &EventCore, flags: EventRecordFlags) -> Result<()> {
        let (operation, location) = (RECORDING, Location::caller());
        trace::queued!(stream = self.id(), event = ?event.raw.handle(), "{operation}");
        self.context().require_same_driver(event.context(), operation)?;
        if host_work::is_inside() {
            return Err(Error::driver(operation, Status::NOT_PERMITTED.into()).at(self.place()).called_at(location));
        }
        let external = flags.contains(EventRecordFlags::EXTERNAL);
        let membership = self.shared().membership();
        let mut record = event.lock_record();
        event.state.before_record(!external)?;
        if external {
            // The capture does not end before it retains what the node refers to.
            let _submitting = membership.submitting();
            let capturing = capturing(self);
            let value = self.put_record(event, flags, location, &mut record)?;
            self.note_record(event, flags, &mut record, value, capturing.as_ref());
            return Ok(());
        }
        let observed = membership.observe();
        // The capture of this moment is that of the record, if the second look finds what the first one did.
        let capturing = capturing(self);
        let value = self.put_record(event, flags, location, &mut record)?;
        match observed {
            Some((_, is_captured)) if is_captured == capturing.is_some() && membership.observe() == observed => {
                self.note_record(event, flags, &mut record, value, capturing.as_ref());
                Ok(())
            }
            _ => {
                drop(capturing);
                self.record_again(event, flags, location, &mut record)
            }
        }
    }

    #[inline(always)]
    fn put_record(
        &self,
        event: &EventCore,
        flags: EventRecordFlags,
        location: &'static Location<'static>,
        record: &mut Record,
    ) -> Result<u64> {
        let value = record.begin(self);
        self.put(RECORDING, location, |call, stream| {
            self.context().driver().event_record(call, event.raw.live(), stream, flags)
        })?;
        // Until then, that of the earlier record holds.
        record.captured_elsewhere = false;
        Ok(value)
    }

    #[inline(always)]
    fn note_record(
        &self,
        event: &EventCore,
        flags: EventRecordFlags,
        record: &mut Record,
        value: u64,
        capturing: Option<&Capturing>,
    ) {
        let external = flags.contains(EventRecordFlags::EXTERNAL);
        if capturing.is_none() && !external && !event.is_shared() {
            record.recorded(self, value);
        }
        // Before another thread can make its stream wait for the event, which then joins the capture.
        if capturing.is_some() || event.is_captured() || external {
            self.note_captured_record(event, flags, capturing);
        }
    }

    /// Like [`record`](Self::record), as an external record if the stream is capturing. No other thread begins or ends a
    /// capture in the meantime.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` if the event belongs to another context.
    #[cold]
    #[track_caller]
    pub fn record_external(&self, event: &EventCore) -> Result<()> {
        let (operation, location) = (RECORDING, Location::caller());
        trace::queued!(stream = self.id(), event = ?event.raw.handle(), "{operation}");
        self.context().require_same_driver(event.context(), operation)?;
        let handle = self.handle(operation).map_err(|error| error.called_at(location))?;
        let mut record = event.lock_record();
        event.state.before_record(true)?;
        let _submitting = self.shared().membership().submitting();
        let flags = if self.captures(handle) { EventRecordFlags::EXTERNAL } else { EventRecordFlags::empty() };
        self.record_again(event, flags, location, &mut record)
    }

    /// Whether the stream captures, by this library or another.
    fn captures(&self, handle: Live<'_, StreamHandle>) -> bool {
        self.is_capturing() || (self.shared().may_be_captured_by_others() && self.asks_whether_captured(handle))
    }

    /// Another thread began or ended a capture meanwhile, and it is not known whether the record was captured. It is made again
    /// while nobody can.
    #[cold]
    #[inline(never)]
    fn record_again(
        &self,
        event: &EventCore,
        flags: EventRecordFlags,
        location: &'static Location<'static>,
        record: &mut Record,
    ) -> Result<()> {
        let _submitting = self.shared().membership().submitting();
        let capturing = capturing(self);
        let value = self.put_record(event, flags, location, record).inspect_err(|_| {
            // The first record stands, and may be in a capture. Streams that wait for the event ask the driver.
            record.captured_elsewhere = true;
        })?;
        self.note_record(event, flags, record, value, capturing.as_ref());
        Ok(())
    }

    /// Notes a captured record, or a record of an event that was captured before.
    #[cold]
    #[inline(never)]
    fn note_captured_record(&self, event: &EventCore, flags: EventRecordFlags, capturing: Option<&Capturing>) {
        if flags.contains(EventRecordFlags::EXTERNAL) {
            event.share();
            if let Some(capturing) = capturing {
                capturing.retain(&event.raw);
            }
        } else if capturing.is_some() || event.is_captured() {
            event.state.set_capture(capturing, self);
        }
    }

    /// Makes later work of this stream wait for what an event has captured by now.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)` if the event belongs to another driver; `CUDA_ERROR_ILLEGAL_STATE (401)` for
    /// an external wait outside a capture; `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not know;
    /// otherwise any error that the driver returns.
    #[inline]
    #[track_caller]
    pub fn wait_event(&self, event: &EventCore, flags: EventWaitFlags) -> Result<()> {
        let (operation, location) = (WAITING, Location::caller());
        trace::queued!(stream = self.id(), event = ?event.raw.handle(), "{operation}");
        let context = self.context();
        context.require_same_driver(event.context(), operation)?;
        if host_work::is_inside() {
            return Err(Error::driver(operation, Status::NOT_PERMITTED.into()).at(self.place()).called_at(location));
        }
        let wait = || {
            let waited = self.put(operation, location, |call, stream| {
                context.driver().stream_wait_event(call, stream, event.raw.live(), flags)
            });
            waited.map_err(|error| if flags.is_empty() { error.of_an_ended_capture() } else { error })
        };
        // Locked first: the event may be recorded by another thread meanwhile, and in a capture, which this stream then joins.
        let record = event.lock_record();
        if event.is_captured() || flags.contains(EventWaitFlags::EXTERNAL) {
            self.wait_in_capture(event, flags, wait)
        } else {
            let _host_bound = self.begin_to_wait_for(event);
            wait()?;
            if !event.is_shared() {
                record.waited_for_by(self);
            } else if event.raw.is_foreign() {
                // Another library may have recorded it in a capture.
                self.suspect_capture_of_another_library();
            }
            Ok(())
        }
    }

    /// Held while the stream is made to wait for an event, which work elsewhere may be behind.
    #[inline]
    fn begin_to_wait_for(&self, event: &EventCore) -> Option<SubmittingHostBound<'_>> {
        let is_of_context = !event.is_shared() && event.context().is_same(self.context());
        self.submit_host_bound_if(!is_of_context)
    }

    /// After a wait for an event: the stream may have joined the capture of another library.
    #[cold]
    pub(crate) fn suspect_capture_of_another_library(&self) {
        if !self.is_capturing() && self.handle(WAITING).is_ok_and(|handle| self.asks_whether_captured(handle)) {
            self.shared().suspect_capture();
        }
    }

    /// Like [`wait_event`](Self::wait_event), as an external wait if the stream is capturing. No other thread begins or
    /// ends a capture in the meantime.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)` if the event belongs to another driver; otherwise any error that the driver
    /// returns.
    #[cold]
    #[track_caller]
    pub fn wait_event_external(&self, event: &EventCore) -> Result<()> {
        let (operation, location) = (WAITING, Location::caller());
        self.context().require_same_driver(event.context(), operation)?;
        let handle = self.handle(operation).map_err(|error| error.called_at(location))?;
        {
            let record = event.lock_record();
            let _submitting = self.shared().membership().submitting();
            let wait = |flags| {
                self.put(operation, location, |call, stream| {
                    self.context().driver().stream_wait_event(call, stream, event.raw.live(), flags)
                })
            };
            if self.captures(handle) {
                return self.wait_in_capture(event, EventWaitFlags::EXTERNAL, || wait(EventWaitFlags::EXTERNAL));
            }
            if !event.is_captured() {
                let _host_bound = self.begin_to_wait_for(event);
                wait(EventWaitFlags::empty())?;
                if !event.is_shared() {
                    record.waited_for_by(self);
                }
                return Ok(());
            }
        }
        // It joins the event's capture, which changes what is held above.
        self.wait_event(event, EventWaitFlags::empty())
    }

    #[cold]
    #[inline(never)]
    fn wait_in_capture(&self, event: &EventCore, flags: EventWaitFlags, wait: impl Fn() -> Result<()>) -> Result<()> {
        if flags.contains(EventWaitFlags::EXTERNAL) {
            // The capture does not end before it retains what the node refers to.
            let _submitting = self.shared().membership().submitting();
            // Nor does another thread capture, or ask what the stream's next node depends on.
            let capture = capturing(self);
            wait()?;
            if let Some(capture) = &capture {
                capture.waits_for_host();
                capture.retain(&event.raw);
                capture.retain(&event.state);
            }
            return Ok(());
        }
        match event.capture() {
            Some((capture, clock)) => capture.join(self, &clock, wait),
            None => wait(),
        }
    }

    /// Enqueues a record or a wait, which uses no memory, and may change the stream's capture membership.
    #[inline(always)]
    fn put(
        &self,
        operation: &'static str,
        location: &'static Location<'static>,
        put: impl FnOnce(&Call<'_>, Live<'_, StreamHandle>) -> anabranch_hal::Result<()>,
    ) -> Result<()> {
        Submission::put_at(self, operation, location, put)
    }
}
