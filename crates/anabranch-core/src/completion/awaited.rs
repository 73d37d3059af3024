//! What futures wait for: points on timelines, and records of events.

use super::awaited_record::AwaitedRecord;
use super::context_part::ContextCompletion;
use super::events::PooledEvent;
use super::flags::{Flag, FlagAddress};
use super::spin::WaitHistory;
use super::waiter::Awaitable;
use crate::context::ContextCore;
use crate::error::{Error, Result};
use crate::extensions::Extension;
use crate::ranks;
use crate::stream::{OpenStream, StreamCore};
use anabranch_sync::{Mutex, Raise};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a stream has for the futures that wait for it.
pub(crate) struct StreamCompletion {
    /// The stream's flag. It is locked while a value is queued to be written, or an event recorded for it, so that the points of
    /// the stream are reached in ascending order.
    flag: Mutex<Option<Flag>>,
    history: WaitHistory,
    /// The greatest value that the reactor was asked to wait for.
    registered: AtomicU64,
}

impl Default for StreamCompletion {
    fn default() -> Self {
        Self {
            flag: Mutex::new(ranks::FLAG_WRITES, None),
            history: WaitHistory::default(),
            registered: AtomicU64::new(0),
        }
    }
}

impl Extension for StreamCompletion {}

/// How it becomes known that a point is reached.
enum Notice {
    Event(PooledEvent),
    /// The flag has the point's value, or a greater one.
    Flag(FlagAddress),
}

/// A point on a stream's timeline that a future waits for.
pub struct AwaitedPoint {
    notice: Notice,
    stream: Arc<StreamCore>,
    value: u64,
}

impl AwaitedPoint {
    /// Adds a point after the work that is in the stream now.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, which does not invalidate the capture;
    /// otherwise any error that the driver returns.
    pub fn put(stream: &OpenStream, operation: &'static str) -> Result<Self> {
        stream.handle(operation)?;
        // No capture begins from here on: one that captured the write of a flag would write it at each launch of its graph.
        let _submitting = stream.shared().membership().submitting();
        stream.refuse_while_capturing(operation)?;
        let context = stream.context();
        let mut flag = stream.extension::<StreamCompletion>().flag.lock();
        if context.extension::<ContextCompletion>().uses_flags(context) {
            if flag.is_none() {
                *flag = Flag::take(context);
            }
            if let Some(flag) = &mut *flag {
                let value = stream.shared().timeline().advance();
                flag.write(stream, value, operation).map_err(|error| error.at(stream.place()))?;
                return Ok(Self { notice: Notice::Flag(flag.address()), stream: stream.core().clone(), value });
            }
            context.extension::<ContextCompletion>().give_up_flags();
        }
        let event = PooledEvent::take(context)?;
        let value = stream.shared().timeline().advance();
        event.record(stream, operation)?;
        Ok(Self { notice: Notice::Event(event), stream: stream.core().clone(), value })
    }

    #[inline]
    fn check(&self) -> Option<Result<()>> {
        let timeline = self.stream.shared().timeline();
        if timeline.is_reached(self.value) {
            return Some(Ok(()));
        }
        let result = match &self.notice {
            Notice::Event(event) => event.check().map(|result| result.map_err(|error| error.at(self.stream.place()))),
            // A flag does not show that the context is lost; the reactor queries that.
            Notice::Flag(flag) => (flag.get() >= self.value).then_some(Ok(())),
        };
        if let Some(Ok(())) = result {
            // A thread that finds here that the work is complete can read what it wrote.
            timeline.completed(self.value);
        }
        result
    }

    fn completion(&self) -> &StreamCompletion {
        self.stream.extension()
    }

    /// Whether the reactor already waits for an earlier point of the stream that is not known to be reached.
    fn is_behind_others(&self) -> bool {
        let registered = self.completion().registered.load(Ordering::Relaxed);
        registered < self.value && registered > self.stream.shared().timeline().reached()
    }
}

/// What a future waits for.
pub enum Awaited {
    /// A point on a stream's timeline.
    Point(AwaitedPoint),
    /// What an event had captured.
    Record(Arc<AwaitedRecord>),
}

impl Awaited {
    /// The context.
    pub fn context(&self) -> &Arc<ContextCore> {
        match self {
            Self::Point(point) => point.stream.context(),
            Self::Record(record) => record.context(),
        }
    }

    /// What the context has for its futures.
    pub fn completion(&self) -> &ContextCompletion {
        self.context().extension()
    }

    /// Whether a check calls the driver.
    pub fn asks_driver(&self) -> bool {
        !matches!(self, Self::Point(AwaitedPoint { notice: Notice::Flag(_), .. }))
    }

    /// Whether a check is not worthwhile, because earlier work of the stream is already awaited.
    pub fn is_behind_others(&self) -> bool {
        match self {
            Self::Point(point) => point.is_behind_others(),
            Self::Record(_) => false,
        }
    }

    /// The reactor is asked to wait for it.
    pub fn register(&self) {
        if let Self::Point(point) = self {
            point.completion().registered.raise(point.value);
        }
    }

    /// Called by a task that was woken early and has checked itself: the wait was over then, or not.
    pub fn checked_again(&self, was_over: bool, waited: Duration) {
        self.history().checked_again(self.completion().spin(), was_over, waited);
    }

    fn history(&self) -> &WaitHistory {
        match self {
            Self::Point(point) => &point.completion().history,
            Self::Record(record) => record.history(),
        }
    }

    /// How long it pays to spin.
    pub fn spin(&self) -> Duration {
        let spin = self.completion().spin();
        if self.history().promises(spin) { spin } else { Duration::ZERO }
    }
}

impl Awaitable for Awaited {
    fn queue(&self) -> usize {
        match self {
            // The waiter holds a reference to either, so that the address is not used again while it is in the queue.
            Self::Point(point) => Arc::as_ptr(&point.stream).addr(),
            Self::Record(record) => Arc::as_ptr(record).addr(),
        }
    }

    fn value(&self) -> u64 {
        match self {
            Self::Point(point) => point.value,
            Self::Record(_) => 0,
        }
    }

    #[inline]
    fn check(&self) -> Option<Result<()>> {
        match self {
            Self::Point(point) => point.check(),
            Self::Record(record) => record.check(),
        }
    }

    fn check_context(&self) -> Result<(), Error> {
        self.completion().check(self.context(), super::OPERATION)
    }

    fn waited(&self, time: Duration) {
        self.history().note(time, self.completion().spin());
    }

    fn check_again_after(&self) -> Option<Duration> {
        self.history().check_again_after(self.completion().spin())
    }
}
