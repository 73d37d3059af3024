//! The handle of an event, with ownership.

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::extensions::{Extension, Extensions};
use crate::keeper::Keeper;
use crate::label::Label;
use crate::lost_context::is_lost;
use crate::reaper;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use crate::trace;
use anabranch_hal::{
    Call, Driver, EventFlags, EventHandle, EventRecordFlags, EventWaitFlags, Live, ObjectHandle, Status, StreamFlags,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An event of the driver, which is destroyed when this is dropped, unless another library owns it.
pub struct RawEvent {
    context: Arc<ContextCore>,
    handle: EventHandle,
    label: Label,
    /// Whether it can be recorded outside this library's calls: by another process or library, or by launches of a graph.
    shared: AtomicBool,
    /// What keeps the event of another library.
    keeper: Option<Keeper>,
    /// `None`: another library has made it, and drivers do not tell.
    flags: Option<EventFlags>,
    /// What higher modules know of its records, which is the same for everything that has this.
    extensions: Extensions,
}

impl RawEvent {
    /// Creates an event.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[track_caller]
    pub fn create(context: &Arc<ContextCore>, flags: EventFlags) -> Result<Self> {
        let operation = "creating an event";
        let handle =
            context.driver().event_create(&context.call(operation), flags).during(operation, || context.place())?;
        Ok(Self::from_handle(context, handle, flags))
    }

    /// Takes ownership of an event that was just made in the context.
    #[track_caller]
    pub(crate) fn from_handle(context: &Arc<ContextCore>, handle: EventHandle, flags: EventFlags) -> Self {
        Self::new(context, handle, None, Some(flags))
    }

    /// An event of another library, which can record it at any time, and which exists until `keeper` is dropped.
    ///
    /// # Safety
    /// The event belongs to the context, and exists until `keeper` is dropped.
    #[track_caller]
    pub unsafe fn foreign(context: &Arc<ContextCore>, handle: EventHandle, keeper: Keeper) -> Self {
        let event = Self::new(context, handle, Some(keeper), None);
        event.share();
        event
    }

    #[track_caller]
    fn new(context: &Arc<ContextCore>, handle: EventHandle, keeper: Option<Keeper>, flags: Option<EventFlags>) -> Self {
        Self {
            context: context.clone(),
            handle,
            label: Label::new(context, ObjectHandle::Event(handle)),
            shared: AtomicBool::new(false),
            keeper,
            flags,
            extensions: Extensions::new(),
        }
    }

    /// The flags that it was created with. `None`: another library has made it, and drivers do not tell.
    pub fn flags(&self) -> Option<EventFlags> {
        self.flags
    }

    /// What higher modules know of its records.
    pub(crate) fn extension<T: Extension + Default>(&self) -> &T {
        self.extensions.get()
    }

    /// Whether another library owns it.
    #[inline(always)]
    pub fn is_foreign(&self) -> bool {
        self.keeper.is_some()
    }

    /// The context.
    #[inline(always)]
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The driver's handle, which is valid as long as this.
    #[inline(always)]
    pub fn handle(&self) -> EventHandle {
        self.handle
    }

    /// The driver's handle, for calls of the context's driver.
    #[inline(always)]
    pub(crate) fn live(&self) -> Live<'_, EventHandle> {
        // SAFETY: the event is destroyed when this is dropped, or by its owner when the keeper is.
        unsafe { Live::new(self.handle) }
    }

    /// Its number and name.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// From now on, the event can be recorded outside this library's calls. Nothing is known of its records then.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Release);
    }

    /// Whether it can be recorded outside this library's calls. Whoever asks the driver for a record of this library asks here
    /// afterwards: the answer may be about another record.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// Whether the work captured last is complete.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[inline]
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        let operation = "querying an event";
        match self.context.driver().event_query(&self.context.call(operation), self.live()) {
            Ok(()) => Ok(true),
            Err(failure) if failure.status == Status::NOT_READY => Ok(false),
            Err(failure) => Err(failure).during(operation, || self.context.place()),
        }
    }

    /// Blocks until the work captured last is complete.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let operation = "synchronizing an event";
        trace::span!("synchronizing an event", event = ?self.handle, device = %self.context.device());
        self.context
            .driver()
            .event_synchronize(&self.context.call(operation), self.live())
            .during(operation, || self.context.place())
    }

    /// Makes another event that is reached when what this one has captured is complete. The caller must destroy it.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn copy_record(&self, operation: &'static str) -> Result<EventHandle> {
        let (driver, call) = (self.context.driver(), self.context.call(operation));
        let flags = EventFlags::DISABLE_TIMING;
        // A stream of its own waits for the one event, and the other is recorded behind that. No capture can depend on it.
        let copied = with_relaxed_capture_mode(driver, || {
            let copy = driver.event_create(&call, flags)?;
            let recorded = driver.stream_create(&call, StreamFlags::NON_BLOCKING, 0).and_then(|stream| {
                // SAFETY: event and stream were just made, and nobody else knows them.
                let (live_copy, live_stream) = unsafe { (Live::new(copy), Live::new(stream)) };
                let waited = driver.stream_wait_event(&call, live_stream, self.live(), EventWaitFlags::empty());
                let recorded =
                    waited.and_then(|()| driver.event_record(&call, live_copy, live_stream, EventRecordFlags::empty()));
                // SAFETY: the stream is used here only, and what is queued in it still runs.
                unsafe { driver.stream_destroy(&call, stream) }.and(recorded)
            });
            match recorded {
                Ok(()) => Ok(copy),
                Err(failure) => {
                    // SAFETY: nobody has got the event.
                    let _ = unsafe { driver.event_destroy(&call, copy) };
                    Err(failure)
                }
            }
        });
        copied.during(operation, || self.context.place())
    }

    /// Whether the work is complete, or will never run because the context is lost, and does not run on there.
    pub fn is_over(&self) -> bool {
        let call = self.context.call("querying an event");
        !is_pending(self.context.driver(), &call, self.live())
    }
}

/// Whether the work that an event has captured may not be complete, or may still run in a lost context. No capture is
/// invalidated.
pub fn is_pending(driver: &dyn Driver, call: &Call<'_>, event: Live<'_, EventHandle>) -> bool {
    match with_relaxed_capture_mode(driver, || driver.event_query(call, event)) {
        Ok(()) => false,
        Err(failure) if failure.status == Status::NOT_READY => true,
        // The work will never run: its context is destroyed, or it was captured.
        Err(failure)
            if matches!(
                failure.status,
                Status::CONTEXT_IS_DESTROYED | Status::DEINITIALIZED | Status::CAPTURED_EVENT
            ) =>
        {
            false
        }
        // Nothing new runs.
        Err(failure) if is_lost(driver, call, &failure) => driver.lost_context_is_running(call),
        // Of any other status, such as that of a call that a layer has refused or not returned from, nothing follows.
        Err(_) => true,
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        if self.is_foreign() {
            return;
        }
        let handle = self.handle;
        let destroy = move |context: &ContextCore| {
            let operation = "destroying an event";
            // SAFETY: the handle was owned by the value being dropped, so this is its last use.
            let result = unsafe { context.driver().event_destroy(&context.call(operation), handle) };
            drop_error::report(result.during(operation, || context.place()));
        };
        if crate::host_work::is_inside() {
            let context = self.context.clone();
            reaper::later(move || destroy(&context));
        } else {
            destroy(&self.context);
        }
    }
}
