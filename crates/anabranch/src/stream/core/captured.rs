//! Streams that take part in captures.

use super::{StreamCore, Tail};
use crate::capture::CaptureState;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::event::RawEvent;
use anabranch_hal::{
    CaptureStatus, Dependency, DependencyUpdate, DevicePointer, EventFlags, EventWaitFlags, GraphNodeHandle, Status,
};
use smallvec::SmallVec;
use std::sync::Arc;

impl StreamCore {
    /// Makes the stream the origin of a capture by `begin`, a call of the driver.
    pub(crate) fn begin_capture(&self, capture: &Arc<CaptureState>, begin: impl FnOnce() -> Result<()>) -> Result<()> {
        self.enter_capture(capture, || {
            // One that another thread is ending may be over for the driver already, which would let a new one begin here
            // while the old is still the one that is known.
            if self.is_capturing() {
                return Err(Error::driver("beginning a capture", Status::ILLEGAL_STATE.into()).at(self.place()));
            }
            begin()
        })
    }

    /// Makes the stream take part in a capture by `enter`, a call of the driver. Others then wait for the work before.
    #[cold]
    pub(crate) fn join_capture(&self, capture: &Arc<CaptureState>, enter: impl FnOnce() -> Result<()>) -> Result<()> {
        self.enter_capture(capture, enter)
    }

    fn enter_capture(&self, capture: &Arc<CaptureState>, enter: impl FnOnce() -> Result<()>) -> Result<()> {
        // Before the tail is locked, which work that is being queued in other streams may need.
        let _alone = self.shared.change_part().ok_or_else(|| self.refuse_capture("taking part in a capture"))?;
        let mut tail = self.tail.lock();
        let Tail::Live { event } = &mut *tail else { return Ok(()) };
        if !self.is_capturing() {
            self.record_into(event)?;
        }
        self.shared.capture().begins();
        self.completion.between_marks(enter)?;
        capture.admit(self);
        Ok(())
    }

    #[cold]
    pub(crate) fn refuse_capture(&self, operation: &'static str) -> Error {
        let message = "another thread is queueing work in a stream of the capture, and does not come to an end";
        Error::argument(Status::ILLEGAL_STATE, operation, message)
            .with_hint(
                "let one thread at a time use the streams of a capture, and none copy from or to plain memory there",
            )
            .at(self.place())
    }

    /// Makes later work of this stream wait, within a capture, for the work that `earlier` has captured so far.
    #[cold]
    pub(super) fn follow_captured(&self, earlier: &StreamCore, capture: &Arc<CaptureState>) -> Result<()> {
        let event = RawEvent::create(&self.context, EventFlags::DISABLE_TIMING)?;
        let clock = capture.clock(earlier);
        {
            let tail = earlier.tail.lock();
            match &*tail {
                Tail::Live { .. } => earlier.record(&event)?,
                Tail::Ended { .. } => return Ok(()),
            }
        }
        let handle = self.handle("ordering a stream behind another")?;
        let (driver, context) = (self.context.driver(), self.context.handle());
        self.join_capture(capture, || {
            // SAFETY: this stream is in use by the caller, and the event is borrowed.
            unsafe { driver.stream_wait_event(context, handle, event.handle(), EventWaitFlags::empty()) }
                .during("ordering a stream behind another", || self.place())
        })?;
        capture.has_followed(self, &clock);
        Ok(())
    }

    #[cold]
    pub(super) fn settle_captured(&self) {
        if let Some(capture) = self.capture() {
            capture.settle(self);
        }
    }

    /// The nodes of the capture that the stream's next one will depend on; `None` when the capture is spoiled.
    pub(crate) fn captured_dependencies(&self) -> Option<Vec<GraphNodeHandle>> {
        let tail = self.tail.lock();
        if !matches!(*tail, Tail::Live { .. }) || !self.on_own_thread() {
            return None;
        }
        // SAFETY: the stream is live while the tail is locked.
        let info = unsafe { self.context.driver().stream_capture_info(self.context.handle(), self.handle, true) };
        info.ok().filter(|info| info.status == CaptureStatus::Active).map(|info| info.dependencies)
    }

    /// Makes the next node that the stream captures depend on these too.
    pub(crate) fn add_captured_dependencies(&self, nodes: &[GraphNodeHandle]) -> Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let tail = self.tail.lock();
        if !matches!(*tail, Tail::Live { .. }) || !self.on_own_thread() {
            return Ok(());
        }
        let dependencies: SmallVec<[Dependency; 4]> = nodes.iter().copied().map(Dependency::from).collect();
        let (driver, context) = (self.context.driver(), self.context.handle());
        // SAFETY: the stream is live while the tail is locked; the nodes are of the graph that it captures, from which none
        // can be removed.
        unsafe { driver.stream_update_capture_dependencies(context, self.handle, &dependencies, DependencyUpdate::Add) }
            .during("ordering a stream behind another", || self.place())
    }

    /// Frees, at each launch of the graph that is being captured, memory that the graph allocates.
    pub(crate) fn free_captured(&self, address: DevicePointer) {
        let tail = self.tail.lock();
        if !matches!(*tail, Tail::Live { .. }) || !self.on_own_thread() {
            return;
        }
        let (driver, context) = (self.context.driver(), self.context.handle());
        // SAFETY: the stream is live while the tail is locked, and all captured uses of the memory are before this place.
        let freed = unsafe { driver.free_async(context, address, self.handle) };
        drop_error::report(freed.during("freeing memory of a graph", || self.place()));
    }
}
