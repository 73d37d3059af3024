//! What an event captured at one record, for futures that mean that record whatever the event captures later.

use super::events::PooledEvent;
use super::future::Completion;
use super::point::Awaited;
use super::spin::WaitHistory;
use crate::capture::unprohibited;
use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use crate::event::{Event, RawEvent};
use crate::stream::{Checkpoint, Reached};
use anabranch_hal::{EventWaitFlags, Status, StreamFlags};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// One record of an event, shared by the futures that wait for it.
pub(crate) struct AwaitedRecord {
    context: Arc<ContextCore>,
    source: Mutex<Source>,
    history: WaitHistory,
    /// The mark that the record is, if that is known.
    reached: Option<Reached>,
}

/// Who tells whether the record is complete.
enum Source {
    /// The event, which has captured nothing else since.
    Event(Arc<RawEvent>),
    /// Another event, because that one has.
    Copy(PooledEvent),
    /// Nobody need be asked any more.
    Over(Result<()>),
}

impl Source {
    fn look(&self) -> Option<Result<()>> {
        match self {
            Self::Event(event) => match event.query() {
                Ok(true) => Some(Ok(())),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            },
            Self::Copy(event) => event.look(),
            Self::Over(result) => Some(result.clone()),
        }
    }
}

impl AwaitedRecord {
    pub(super) fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    pub(super) fn history(&self) -> &WaitHistory {
        &self.history
    }

    pub(super) fn look(&self) -> Option<Result<()>> {
        let result = self.source.lock().look();
        if let (Some(Ok(())), Some(reached)) = (&result, &self.reached) {
            reached.note();
        }
        result
    }

    /// Parts with the event, which is about to capture something else.
    fn part(&self) -> Result<()> {
        let mut source = self.source.lock();
        // No capture can depend on the record.
        unprohibited(self.context.driver(), || self.part_from(&mut source))
    }

    fn part_from(&self, source: &mut Source) -> Result<()> {
        let operation = "recording an event that is awaited";
        let Source::Event(event) = &*source else { return Ok(()) };
        if let Some(result) = source.look() {
            *source = Source::Over(result);
            return Ok(());
        }
        // A stream of its own waits for what the event has captured so far, and an event after that stands for it.
        let copy = PooledEvent::take(&self.context)?;
        let (driver, context) = (self.context.driver(), self.context.handle());
        // SAFETY: the context is live as long as its core.
        let stream = unsafe { driver.stream_create(context, StreamFlags::NON_BLOCKING, 0) }
            .during(operation, || self.context.place())?;
        // SAFETY: the stream was just made, the event is kept by `source`.
        let waited = unsafe { driver.stream_wait_event(context, stream, event.handle(), EventWaitFlags::empty()) }
            .during(operation, || self.context.place());
        // SAFETY: the stream was just made in the event's context.
        let recorded = waited.and_then(|()| unsafe { copy.record(stream, operation) });
        // SAFETY: this is the last use of the stream. What is queued in it still runs.
        let destroyed = unsafe { driver.stream_destroy(context, stream) }.during(operation, || self.context.place());
        recorded.and(destroyed)?;
        *source = Source::Copy(copy);
        Ok(())
    }
}

/// The futures of an event's last record, if there are any.
#[derive(Default)]
pub(crate) struct RecordSlot {
    any: AtomicBool,
    record: Mutex<Weak<AwaitedRecord>>,
}

impl RecordSlot {
    fn share(&self, event: &Event, reached: Option<Reached>) -> Arc<AwaitedRecord> {
        let mut slot = self.record.lock();
        if let Some(record) = slot.upgrade() {
            return record;
        }
        let source = Mutex::new(Source::Event(event.raw().clone()));
        let context = event.context_core().clone();
        let record = Arc::new(AwaitedRecord { context, source, history: WaitHistory::default(), reached });
        *slot = Arc::downgrade(&record);
        self.any.store(true, Ordering::Release);
        record
    }

    /// Called before the event captures something else.
    #[inline(always)]
    pub(crate) fn part(&self) -> Result<()> {
        if self.any.load(Ordering::Acquire) { self.part_slowly() } else { Ok(()) }
    }

    #[cold]
    fn part_slowly(&self) -> Result<()> {
        let mut slot = self.record.lock();
        if let Some(record) = slot.upgrade() {
            record.part()?;
        }
        *slot = Weak::new();
        self.any.store(false, Ordering::Release);
        Ok(())
    }
}

impl Completion {
    /// A future of what the checkpoint's event has captured. It captures nothing else as long as somebody holds it.
    pub(crate) fn of_checkpoint(Checkpoint { event, reached, .. }: Checkpoint) -> Self {
        let context = event.context().clone();
        let source = Mutex::new(Source::Event(event));
        let record = AwaitedRecord { context, source, history: WaitHistory::default(), reached: Some(reached) };
        Self::new(Ok(Awaited::Record(Arc::new(record))), None)
    }
}

impl Event {
    /// A future that is ready when the work is complete that the event has captured last, whatever it captures later by
    /// [`record`](Self::record). A graph that records the event when it is launched, and a record through the driver's
    /// handle, count as what is waited for. An event that was never recorded is complete.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// # futures::executor::block_on(async {
    /// let event = stream.record_event()?;
    /// event.completed().await?;
    /// assert!(event.query()?);
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future's: an error of earlier asynchronous work; 907 when the event was last recorded in a capture, which has
    /// nothing to wait for, and 1 when that capture is over.
    pub fn completed(&self) -> Completion {
        if self.capture().is_some() {
            let error =
                Error::argument(Status::CAPTURED_EVENT, super::OPERATION, "the event was recorded in a capture")
                    .with_hint("launch the graph, and await what comes of it")
                    .at(self.context_core().place());
            return Completion::new(Err(error), None);
        }
        let record = self.with_reached(|reached| self.awaited().share(self, reached));
        Completion::new(Ok(Awaited::Record(record)), None)
    }
}
