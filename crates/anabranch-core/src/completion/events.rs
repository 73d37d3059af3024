//! The events that futures query, which are reused.

use super::OPERATION;
use super::context_part::ContextCompletion;
use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Result, ResultExt};
use crate::helping::helping;
use crate::ranks;
use crate::reaper;
use crate::stream::OpenStream;
use crate::submission::Submission;
use anabranch_hal::{EventFlags, EventHandle, EventRecordFlags, Live, Status};
use anabranch_sync::Mutex;
use std::panic::Location;
use std::sync::Arc;

/// Events that nobody uses at the moment.
pub struct EventPool {
    idle: Mutex<Vec<EventHandle>>,
}

impl Default for EventPool {
    fn default() -> Self {
        Self { idle: Mutex::new(ranks::EVENT_POOL, Vec::new()) }
    }
}

/// More are destroyed.
const MOST_IDLE: usize = 4096;

impl EventPool {
    /// All idle events, to be destroyed when the context is closed.
    pub fn take_all(&mut self) -> Vec<EventHandle> {
        std::mem::take(self.idle.get_mut())
    }
}

/// An event of the pool, in use. It measures no time. Dropping it does not call the driver; what it captured is
/// forgotten when it is recorded again.
pub(crate) struct PooledEvent {
    context: Arc<ContextCore>,
    handle: EventHandle,
}

impl PooledEvent {
    fn pool(context: &ContextCore) -> &EventPool {
        context.extension::<ContextCompletion>().events()
    }

    /// Takes ownership of an event of the context.
    pub(crate) fn from_handle(context: &Arc<ContextCore>, handle: EventHandle) -> Self {
        Self { context: context.clone(), handle }
    }

    /// Takes an event of the pool, or a new one.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub(crate) fn take(context: &Arc<ContextCore>) -> Result<Self> {
        let operation = "creating an event";
        let idle = Self::pool(context).idle.lock().pop();
        let handle = match idle {
            Some(handle) => handle,
            None => context
                .driver()
                .event_create(&context.call(operation), EventFlags::DISABLE_TIMING)
                .during(operation, || context.place())?,
        };
        Ok(Self::from_handle(context, handle))
    }

    fn live(&self) -> Live<'_, EventHandle> {
        // SAFETY: an event of the pool is destroyed when this is dropped, or by the context when it is closed.
        unsafe { Live::new(self.handle) }
    }

    /// Records it in a stream of its context.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub(crate) fn record(&self, stream: &OpenStream, operation: &'static str) -> Result<()> {
        Submission::put_at(stream, operation, Location::caller(), |call, handle| {
            self.context.driver().event_record(call, self.live(), handle, EventRecordFlags::empty())
        })
    }

    /// Whether what was captured is complete. Called with no lock held.
    #[inline]
    pub(crate) fn check(&self) -> Option<Result<()>> {
        let _helping = helping();
        match self.context.driver().event_query(&self.context.call(OPERATION), self.live()) {
            Ok(()) => Some(Ok(())),
            Err(failure) if failure.status == Status::NOT_READY => None,
            Err(failure) => Some(Err(failure).during(OPERATION, || self.context.place())),
        }
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        {
            let mut idle = Self::pool(&self.context).idle.lock();
            if idle.len() < MOST_IDLE {
                idle.push(self.handle);
                return;
            }
        }
        let (context, handle) = (self.context.clone(), self.handle);
        reaper::now_or_later(move || {
            let operation = "destroying an event";
            // SAFETY: the handle was owned by the value being dropped, so this is its last use.
            let result = unsafe { context.driver().event_destroy(&context.call(operation), handle) };
            drop_error::report(result.during(operation, || context.place()));
        });
    }
}
