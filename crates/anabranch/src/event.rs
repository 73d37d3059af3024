//! Events: points in the work of streams.

use crate::capture::CaptureState;
use crate::clock::Clock;
use crate::completion::RecordSlot;
use crate::context::{Context, ContextCore};
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::host_work;
use crate::reaper;
use crate::stream::{Reached, Stream, StreamCore, StreamShared};
use crate::trace;
use anabranch_hal::{EventFlags, EventHandle, EventRecordFlags, InterprocessEventHandle, Status};
use parking_lot::{Mutex, MutexGuard};
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
    known: Mutex<KnownRecord>,
    /// Whether it is noted that the known record is complete. Changed while that is locked.
    is_noted: AtomicBool,
    /// Whether others than this library can record the event: another process, or launches of a graph. Nothing is known of
    /// it then.
    shared: AtomicBool,
}

/// What is known of an event's last record. It is locked while the driver is called to record the event or to wait for it,
/// so that what is known here is what the driver means. It is not locked inside of host functions: another thread may have
/// it locked in a call that ends only when the host function does.
#[derive(Default)]
pub(crate) struct KnownRecord {
    /// The stream; kept to be the same again.
    stream: Option<Arc<StreamShared>>,
    /// The number of the mark, or 0 if nothing is known.
    number: u64,
    /// What the stream had followed before.
    clock: Clock,
    /// Whether another library captured the stream.
    captured_elsewhere: bool,
}

impl KnownRecord {
    /// Called before the driver is asked to record the event in `stream`. Nothing is known until [`recorded`](Self::recorded).
    #[inline(always)]
    pub(crate) fn record(&mut self, stream: &StreamShared) -> u64 {
        self.number = 0;
        self.captured_elsewhere = false;
        stream.mark(&mut self.clock)
    }

    /// The driver has recorded the event, and not in a capture.
    #[inline(always)]
    pub(crate) fn recorded(&mut self, stream: &StreamCore, number: u64) {
        if stream.is_captured_elsewhere() {
            self.captured_elsewhere = true;
            return;
        }
        if !self.stream.as_ref().is_some_and(|known| Arc::ptr_eq(known, stream.shared())) {
            self.stream = Some(stream.shared().clone());
        }
        self.number = number;
    }

    /// The driver has made `stream` wait for the record.
    #[inline(always)]
    pub(crate) fn waited_for_by(&self, stream: &StreamCore) {
        match &self.stream {
            Some(known) if self.number != 0 => stream.has_waited_for(known, self.number, &self.clock),
            _ if self.captured_elsewhere => stream.shared().suspect_capture(),
            _ => {}
        }
    }

    /// The mark that the record is.
    fn reached(&self) -> Option<Reached> {
        let stream = self.stream.as_ref().filter(|_| self.number != 0)?;
        Some(Reached { stream: stream.clone(), number: self.number })
    }
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
        let event = Self::from_raw(RawEvent { context: core.clone(), handle }, flags);
        event.share();
        Ok(event)
    }

    fn from_raw(raw: RawEvent, flags: EventFlags) -> Self {
        Self {
            raw: Arc::new(raw),
            flags,
            captured: CapturedIn::default(),
            awaited: RecordSlot::default(),
            known: Mutex::default(),
            is_noted: AtomicBool::new(false),
            shared: AtomicBool::new(false),
        }
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
        if host_work::is_inside() {
            return self.raw.query();
        }
        let complete = self.raw.query()?;
        if complete && !self.is_noted.load(Ordering::Relaxed) {
            self.note_completion()?;
        }
        Ok(complete)
    }

    /// The record that is known may be a later one than was asked for, so the driver is asked again.
    #[cold]
    fn note_completion(&self) -> Result<()> {
        let known = self.known.lock();
        if self.raw.query()? {
            if let Some(stream) = known.stream.as_ref().filter(|_| !self.is_shared()) {
                stream.completed(known.number);
            }
            self.is_noted.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Blocks until the work captured last is complete. With [`EventFlags::BLOCKING_SYNC`] the thread sleeps.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn synchronize(&self) -> Result<()> {
        if host_work::is_inside() {
            return self.raw.synchronize();
        }
        let before = self.reached();
        self.raw.synchronize()?;
        // The driver waited for this record if there was no other until after the call: no two have the same number.
        if let Some(before) = before
            && self.reached().is_some_and(|now| now == before)
        {
            before.note();
        }
        Ok(())
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
        self.share();
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
    ///
    /// Whoever records the event by its handle, and then makes a stream of this library wait for it through this object, has
    /// to order the memory that the stream uses: the library takes the last record that it was asked for to be the one that
    /// is waited for, and does not make that order again.
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

    /// What is known of the last record, for who is about to replace it. Not to be asked for inside of host functions.
    #[inline(always)]
    pub(crate) fn known_anew(&self) -> MutexGuard<'_, KnownRecord> {
        let known = self.known.lock();
        self.is_noted.store(false, Ordering::Relaxed);
        known
    }

    /// What is known of the last record. Not to be asked for inside of host functions.
    #[inline(always)]
    pub(crate) fn known(&self) -> MutexGuard<'_, KnownRecord> {
        self.known.lock()
    }

    /// The mark that the last record is, if that is known and can be asked for here.
    pub(crate) fn reached(&self) -> Option<Reached> {
        if self.is_shared() || host_work::is_inside() { None } else { self.known.lock().reached() }
    }

    /// Calls `share` with the mark that the last record is, if that is known, while the event is not recorded.
    pub(crate) fn with_reached<R>(&self, share: impl FnOnce(Option<Reached>) -> R) -> R {
        if host_work::is_inside() {
            return share(None);
        }
        let known = self.known.lock();
        share(if self.is_shared() { None } else { known.reached() })
    }

    /// Others than this library can record the event from now on.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
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
