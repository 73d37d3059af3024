//! Events: points in the work of streams.

use crate::capture::{CaptureState, Clock};
use crate::completion::RecordSlot;
use crate::context::{Context, ContextCore};
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::reaper;
use crate::stream::{Stream, StreamCore};
use crate::trace;
use anabranch_hal::{EventFlags, EventHandle, EventRecordFlags, InterprocessEventHandle, Status};
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// An event captures the work of a stream at the moment it is recorded. Others wait for that work, ask whether it is
/// done, or measure the time between two such moments.
///
/// An event that was never recorded counts as complete. A wait, query or synchronisation means the last record before
/// the call, whatever is recorded later. Dropping an event never blocks, and waits that are queued keep their meaning.
///
/// Follows the Driver API's group *Event Management*. `cuda.core` and CuPy call it `Event`, Mojo `DeviceEvent`.
pub struct Event {
    raw: Arc<RawEvent>,
    flags: EventFlags,
    captured: CapturedIn,
    awaited: RecordSlot,
}

/// The capture that an event was last recorded in, if it was recorded in one.
#[derive(Default)]
struct CapturedIn {
    any: AtomicBool,
    state: Mutex<(Weak<CaptureState>, Clock)>,
}

/// An event's handle, owned.
pub(crate) struct RawEvent {
    context: Arc<ContextCore>,
    handle: EventHandle,
}

impl RawEvent {
    pub(crate) fn create(context: &Arc<ContextCore>, flags: EventFlags) -> Result<Self> {
        // SAFETY: the context's handle is live as long as its core.
        let handle = unsafe { context.driver().event_create(context.handle(), flags) }
            .during("creating an event", || context.place())?;
        Ok(Self { context: context.clone(), handle })
    }

    pub(crate) fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    #[inline(always)]
    pub(crate) fn handle(&self) -> EventHandle {
        self.handle
    }

    pub(crate) fn query(&self) -> Result<bool> {
        // SAFETY: the event is live until `self` is dropped.
        match unsafe { self.context.driver().event_query(self.context.handle(), self.handle) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.status == Status::NOT_READY => Ok(false),
            Err(failure) => Err(failure).during("querying an event", || self.context.place()),
        }
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        trace::span!("synchronising an event", event = ?self.handle, device = %self.context.device());
        // SAFETY: the event is live until `self` is dropped.
        unsafe { self.context.driver().event_synchronize(self.context.handle(), self.handle) }
            .during("synchronising an event", || self.context.place())
    }

    /// Whether the work is complete, or will never run because the context is lost.
    pub(crate) fn is_over(&self) -> bool {
        self.query().unwrap_or(true)
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        let (context, handle) = (self.context.clone(), self.handle);
        reaper::now_or_later(move || {
            // SAFETY: the handle was owned by the value being dropped, so this is its last use.
            let result = unsafe { context.driver().event_destroy(context.handle(), handle) };
            drop_error::report(result.during("destroying an event", || context.place()));
        });
    }
}

impl Event {
    pub(crate) fn create(context: &Context, flags: EventFlags) -> Result<Self> {
        Ok(Self::from_raw(RawEvent::create(context.core(), flags)?, flags))
    }

    /// Opens an event that another process has exported. Until that process records it, it counts as complete.
    ///
    /// # Errors
    /// 801 where the device cannot; 201 or 304 when the event was exported by this very process or is gone.
    pub fn open(context: &Context, exported: &InterprocessEventHandle) -> Result<Self> {
        let core = context.core();
        // SAFETY: the context's handle is live as long as its core.
        let handle = unsafe { core.driver().event_open(core.handle(), exported) }
            .during("opening an event of another process", || core.place())?;
        let flags = EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING;
        Ok(Self::from_raw(RawEvent { context: core.clone(), handle }, flags))
    }

    fn from_raw(raw: RawEvent, flags: EventFlags) -> Self {
        Self { raw: Arc::new(raw), flags, captured: CapturedIn::default(), awaited: RecordSlot::default() }
    }

    /// Captures the work of `stream` at this moment, in place of what was captured before.
    ///
    /// # Errors
    /// 400 when the event and the stream are of different contexts.
    #[inline]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.record_with_flags(self, EventRecordFlags::empty())
    }

    /// Whether the work captured last is complete. A true answer is a synchronisation: what the work wrote can be read.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[inline]
    pub fn query(&self) -> Result<bool> {
        self.raw.query()
    }

    /// Blocks until the work captured last is complete. With [`EventFlags::BLOCKING_SYNC`] the thread sleeps.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn synchronize(&self) -> Result<()> {
        self.raw.synchronize()
    }

    /// Milliseconds from what `start` captured to what this event captured; negative when `start` came later.
    ///
    /// # Errors
    /// 400 when either was never recorded or takes no time, 600 when either is not complete.
    pub fn elapsed_since(&self, start: &Event) -> Result<f32> {
        let context = &self.raw.context;
        let operation = "measuring between two events";
        context.require_same_driver(&start.raw.context, operation)?;
        // SAFETY: both events are live while they are borrowed.
        unsafe { context.driver().event_elapsed(context.handle(), start.raw.handle, self.raw.handle) }
            .during(operation, || context.place())
    }

    /// The event as another process can [open](Self::open) it. It must have been made with
    /// [`EventFlags::INTERPROCESS`].
    ///
    /// # Errors
    /// 801 where the device cannot, 1 or 400 when the event was not made for it.
    pub fn export(&self) -> Result<InterprocessEventHandle> {
        let context = &self.raw.context;
        // SAFETY: the event is live while it is borrowed.
        unsafe { context.driver().event_export(context.handle(), self.raw.handle) }
            .during("exporting an event", || context.place())
    }

    /// The flags it was made with.
    pub fn flags(&self) -> EventFlags {
        self.flags
    }

    /// The context it was made in.
    pub fn context(&self) -> Context {
        Context::from_core(self.raw.context.clone())
    }

    /// The driver's handle. It is valid as long as this event.
    #[inline]
    pub fn as_raw(&self) -> EventHandle {
        self.raw.handle
    }

    #[inline(always)]
    pub(crate) fn context_core(&self) -> &Arc<ContextCore> {
        &self.raw.context
    }

    pub(crate) fn raw(&self) -> &Arc<RawEvent> {
        &self.raw
    }

    /// The futures that wait for what was captured last.
    #[inline(always)]
    pub(crate) fn awaited(&self) -> &RecordSlot {
        &self.awaited
    }

    /// Whether its last record was in a capture.
    #[inline(always)]
    pub(crate) fn is_captured(&self) -> bool {
        self.captured.any.load(Ordering::Acquire)
    }

    /// The capture that its last record belongs to, if that goes on, and how far the stream had followed others in it.
    pub(crate) fn capture(&self) -> Option<(Arc<CaptureState>, Clock)> {
        if self.is_captured() { self.captured.get() } else { None }
    }

    /// Notes which capture, if any, the event was just recorded in, on which stream.
    pub(crate) fn recorded_in(&self, capture: Option<&Arc<CaptureState>>, stream: &StreamCore) {
        if capture.is_some() || self.is_captured() {
            self.captured.set(capture, stream);
        }
    }
}

impl CapturedIn {
    #[cold]
    fn get(&self) -> Option<(Arc<CaptureState>, Clock)> {
        let state = self.state.lock();
        Some((state.0.upgrade()?, state.1.clone()))
    }

    #[cold]
    fn set(&self, capture: Option<&Arc<CaptureState>>, stream: &StreamCore) {
        let state = capture.map(|capture| (Arc::downgrade(capture), capture.clock(stream)));
        *self.state.lock() = state.unwrap_or_default();
        self.any.store(capture.is_some(), Ordering::Release);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Event({}, {:?}, {:?})", self.raw.context.place(), self.raw.handle, self.flags)
    }
}
