//! The end of a stream.

use super::membership::PATIENCE;
use super::registry::StreamRegistry;
use super::sync::{LastRecord, SyncState};
use super::{OpenStream, Ownership, StreamCore};
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::raw_event::RawEvent;
use crate::reaper::{self, Attempt};
use crate::thread_capture_mode::with_relaxed_capture_mode;
use crate::trace;
use anabranch_hal::{EventFlags, EventRecordFlags, Live, StreamHandle};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl StreamCore {
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
        let has_left = capture.is_none_or(|capture| capture.stream_ends(self, handle, patience));
        if !has_left && !self.is_released() {
            return Ok(false);
        }
        let mut sync = self.sync.lock();
        let Some((handle, last)) = sync.live() else { return Ok(true) };
        if let Err(error) = self.record_end(handle, last) {
            // In a lost context work may run on, for which the error stands.
            if !self.context.is_lost_by(&error) {
                if !self.is_of_another_library() {
                    return Ok(false);
                }
                // The owner may destroy the stream when it is not open any more.
                self.wait_at_end(handle, last);
            }
        }
        if let LastRecord::Event(pending) = last
            && !pending.is_over()
            && self.note_pending_end(handle, pending.event()).is_err_and(|error| !self.context.is_lost_by(&error))
            && !self.is_of_another_library()
        {
            return Ok(false);
        }
        *sync = SyncState::Ended(std::mem::replace(last, LastRecord::Nothing));
        if self.ownership == Ownership::Foreign || self.is_released() {
            return Ok(true);
        }
        let operation = "destroying a stream";
        trace::rare_elsewhere!(stream = self.id, device = self.context.device().clone(); stream, %device, "destroying a stream");
        // SAFETY: the state says that the stream has ended, so nobody uses the handle after this.
        unsafe { self.context.driver().stream_destroy(&self.context.call(operation), self.handle) }
            .during(operation, || self.place())?;
        Ok(true)
    }

    /// Whether this object is the last one through which captures that began in the stream can be ended. Streams of other
    /// libraries are ended by their owners. The default stream of a thread stays, but its thread reaches it through its objects
    /// only; on another thread the handle is that of another stream.
    pub(crate) fn is_last_to_end_captures(&self) -> bool {
        match self.ownership {
            Ownership::Owned => true,
            Ownership::Foreign => {
                let is_another = |other: &Arc<Self>| {
                    !std::ptr::eq(&**other, self) && other.id == self.id && other.is_on_own_thread() && other.is_live()
                };
                self.is_per_thread() && self.is_on_own_thread() && !self.context.streams().iter().any(is_another)
            }
        }
    }

    /// Whether somebody else decides how long the stream exists.
    fn is_of_another_library(&self) -> bool {
        let is_default = self.handle.is_legacy() || self.handle.is_per_thread();
        self.is_released() || (self.ownership == Ownership::Foreign && !is_default)
    }

    fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Acquire)
    }

    /// Leaves a record of all work, if there is any work.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` in the legacy stream beside the capture of a blocking stream; otherwise any
    /// error that the driver returns, or has returned to the thread that this is the default stream of.
    fn record_end(&self, handle: Live<'_, StreamHandle>, last: &mut LastRecord) -> Result<()> {
        if !self.can_record() {
            return self.recorded(last).map(drop);
        }
        if !self.shared.work().is_pending() {
            *last = LastRecord::Nothing;
            return Ok(());
        }
        let is_known = if self.handle.is_legacy() {
            let call = self.context.call("ending a stream");
            let status = self.context.driver().stream_capture_status(&call, handle);
            status.during("ending a stream", || self.place()).map(drop)
        } else {
            Ok(())
        };
        let recorded = is_known.and_then(|()| self.record_into(handle, last));
        if let Err(error) = &recorded {
            // An earlier record does not cover all work.
            *last = self.no_record(Some(error));
        }
        recorded
    }

    /// Waits for the work of a stream that cannot be recorded. If that fails too, nobody can wait for the work.
    fn wait_at_end(&self, handle: Live<'_, StreamHandle>, last: &mut LastRecord) {
        let (driver, call) = (self.context.driver(), self.context.call("ending a stream"));
        if with_relaxed_capture_mode(driver, || driver.stream_synchronize(&call, handle)).is_ok() {
            *last = LastRecord::Nothing;
        }
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
    /// Returns the handle without destroying the stream. Whoever destroys it ensures that nobody uses the stream any more.
    ///
    /// The stream ends with its last object. While there are others, work comes into it, which others must find.
    pub fn release(stream: Arc<Self>) -> StreamHandle {
        match Arc::try_unwrap(stream) {
            Ok(stream) => stream.release_alone(),
            Err(shared) => {
                shared.is_released.store(true, Ordering::Release);
                shared.expose_raw()
            }
        }
    }

    fn release_alone(self) -> StreamHandle {
        let handle = self.live();
        if let Some(capture) = self.shared.membership().get().filter(|_| self.is_capturing()) {
            capture.stream_ends(&self, handle, PATIENCE);
        }
        if self.ownership == Ownership::Foreign {
            drop_error::report(self.end());
            return handle.handle();
        }
        let mut sync = self.sync.lock();
        if let Some((handle, last)) = sync.live() {
            if self.record_end(handle, last).is_err() {
                self.wait_at_end(handle, last);
            }
            *sync = SyncState::Ended(std::mem::replace(last, LastRecord::Nothing));
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
