//! The events that futures ask, used again and again.

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::reaper;
use anabranch_hal::{EventFlags, EventHandle, EventRecordFlags, Status, StreamHandle};
use parking_lot::Mutex;
use std::sync::Arc;

/// Events that nobody uses at the moment.
#[derive(Default)]
pub(super) struct EventPool {
    idle: Mutex<Vec<EventHandle>>,
}

/// More are destroyed.
const MOST_IDLE: usize = 4096;

impl EventPool {
    pub(super) fn take_all(&mut self) -> Vec<EventHandle> {
        std::mem::take(self.idle.get_mut())
    }
}

/// An event of the pool, in use. It takes no time. Dropping it calls no driver; what it captured is forgotten when it is
/// recorded again.
pub(crate) struct PooledEvent {
    context: Arc<ContextCore>,
    handle: EventHandle,
}

impl PooledEvent {
    /// Any event of the pool, or a new one.
    pub(super) fn take(context: &Arc<ContextCore>) -> Result<Self> {
        let idle = context.completion().events().idle.lock().pop();
        let handle = match idle {
            Some(handle) => handle,
            // SAFETY: the context's handle is live as long as its core.
            None => unsafe { context.driver().event_create(context.handle(), EventFlags::DISABLE_TIMING) }
                .during("creating an event", || context.place())?,
        };
        Ok(Self { context: context.clone(), handle })
    }

    /// # Safety
    /// The stream is live, and of the event's context.
    pub(super) unsafe fn record(&self, stream: StreamHandle, operation: &'static str) -> Result<()> {
        let (driver, context) = (self.context.driver(), self.context.handle());
        // SAFETY: the event is live until `self` is dropped; the stream is the caller's word.
        unsafe { driver.event_record(context, self.handle, stream, EventRecordFlags::empty()) }
            .during(operation, || self.context.place())
    }

    /// Whether what was captured is complete.
    #[inline]
    pub(super) fn look(&self) -> Option<Result<()>> {
        // SAFETY: the event is live until `self` is dropped.
        match unsafe { self.context.driver().event_query(self.context.handle(), self.handle) } {
            Ok(()) => Some(Ok(())),
            Err(failure) if failure.status == Status::NOT_READY => None,
            Err(failure) => Some(Err(failure).during(super::OPERATION, || self.context.place())),
        }
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        {
            let mut idle = self.context.completion().events().idle.lock();
            if idle.len() < MOST_IDLE {
                idle.push(self.handle);
                return;
            }
        }
        let (context, handle) = (self.context.clone(), self.handle);
        reaper::now_or_later(move || {
            // SAFETY: the handle was owned by the value being dropped, so this is its last use.
            let result = unsafe { context.driver().event_destroy(context.handle(), handle) };
            drop_error::report(result.during("destroying an event", || context.place()));
        });
    }
}
