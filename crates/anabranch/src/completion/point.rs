//! The points that futures wait for.
//!
//! That a place in a stream was reached is told by an event behind it, or by a number in pinned memory which the device
//! writes in the stream's order. Both are here so that they can be measured against each other.

use super::context_part::ContextCompletion;
use super::events::PooledEvent;
use super::interest::Point;
use super::record::AwaitedRecord;
use super::spin::WaitHistory;
use crate::context::ContextCore;
use crate::error::{Error, Result};
use crate::stream::{Signal, Stream, StreamCore};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a stream has for the futures that wait for it.
#[derive(Default)]
pub(crate) struct StreamCompletion {
    /// How many marks were put into the stream. It is locked while one is, so that their numbers are in stream order.
    marks: Mutex<Marks>,
    history: WaitHistory,
    /// The latest place that is known to be reached.
    reached: AtomicU64,
    /// The latest place that the reactor was asked to look after.
    registered: AtomicU64,
}

#[derive(Default)]
struct Marks {
    last: u64,
    /// Where the device writes the number of the mark that it has reached, if it does.
    flag: Option<Arc<Signal>>,
}

impl StreamCompletion {
    /// The stream ends. Its flag, whose memory remembers the stream, is left to the futures that look at it.
    pub(crate) fn end(&self) {
        let flag = self.marks.lock().flag.take();
        drop(flag);
    }
}

/// How it is told that a mark was reached.
enum Notice {
    Event(PooledEvent),
    /// The number of the mark, or a later one, is in memory.
    Flag(Arc<Signal>),
}

/// A place in a stream's work.
pub(crate) struct Mark {
    notice: Notice,
    place: u64,
    stream: Arc<StreamCore>,
}

impl Mark {
    /// The stream's work up to now. It must not capture.
    pub(super) fn put(stream: &Stream, operation: &'static str) -> Result<Self> {
        let core = stream.core();
        let handle = core.handle(operation)?;
        if core.context().completion().uses_flags() {
            return Self::put_flag(stream);
        }
        let event = PooledEvent::take(core.context())?;
        let mut marks = core.completion().marks.lock();
        // SAFETY: the stream is live while it is borrowed, and of the context whose event that is.
        unsafe { event.record(handle, operation) }?;
        marks.last += 1;
        Ok(Self { notice: Notice::Event(event), place: marks.last, stream: core.clone() })
    }

    #[cold]
    fn put_flag(stream: &Stream) -> Result<Self> {
        let core = stream.core();
        let mut marks = core.completion().marks.lock();
        let flag = match &marks.flag {
            Some(flag) => flag.clone(),
            None => marks.flag.insert(Arc::new(stream.context().create_signal()?)).clone(),
        };
        stream.write_signal(&flag, marks.last + 1)?;
        marks.last += 1;
        Ok(Self { notice: Notice::Flag(flag), place: marks.last, stream: core.clone() })
    }

    #[inline]
    fn look(&self) -> Option<Result<()>> {
        let reached = &self.stream.completion().reached;
        if reached.load(Ordering::Acquire) >= self.place {
            return Some(Ok(()));
        }
        let result = match &self.notice {
            Notice::Event(event) => event.look().map(|result| result.map_err(|error| error.at(self.stream.place()))),
            // That the context is lost the flag does not tell; the reactor asks for it.
            Notice::Flag(flag) => (flag.get() >= self.place).then_some(Ok(())),
        };
        if let Some(Ok(())) = result {
            // What the work wrote can be read by whoever learns here that it is complete.
            reached.fetch_max(self.place, Ordering::AcqRel);
        }
        result
    }

    /// Whether the reactor looks after an earlier place of the stream that is not known to be reached.
    fn is_behind_others(&self) -> bool {
        let completion = self.stream.completion();
        let registered = completion.registered.load(Ordering::Relaxed);
        registered < self.place && registered > completion.reached.load(Ordering::Relaxed)
    }
}

/// What a future waits for.
pub(crate) enum Awaited {
    /// A place in a stream's work.
    Mark(Mark),
    /// What an event had captured.
    Record(Arc<AwaitedRecord>),
}

impl Awaited {
    pub(super) fn context(&self) -> &Arc<ContextCore> {
        match self {
            Self::Mark(mark) => mark.stream.context(),
            Self::Record(record) => record.context(),
        }
    }

    fn completion(&self) -> &ContextCompletion {
        self.context().completion()
    }

    /// Whether a look is not worth its time, because earlier work of the stream is awaited already.
    pub(super) fn is_behind_others(&self) -> bool {
        match self {
            Self::Mark(mark) => mark.is_behind_others(),
            Self::Record(_) => false,
        }
    }

    /// The reactor is asked to look after it.
    pub(super) fn register(&self) {
        if let Self::Mark(mark) = self {
            mark.stream.completion().registered.fetch_max(mark.place, Ordering::Relaxed);
        }
    }

    /// The task was woken early for nothing.
    pub(super) fn was_too_early(&self) {
        self.history().distrust();
    }

    fn history(&self) -> &WaitHistory {
        match self {
            Self::Mark(mark) => &mark.stream.completion().history,
            Self::Record(record) => record.history(),
        }
    }

    /// How long it pays to look on.
    pub(super) fn spin(&self) -> Duration {
        let spin = self.completion().spin();
        if self.history().promises(spin) { spin } else { Duration::ZERO }
    }
}

impl Point for Awaited {
    fn lane(&self) -> usize {
        match self {
            // The interest keeps either, so that the address is not used again while there is one in the lane.
            Self::Mark(mark) => Arc::as_ptr(&mark.stream).addr(),
            Self::Record(record) => Arc::as_ptr(record).addr(),
        }
    }

    fn place(&self) -> u64 {
        match self {
            Self::Mark(mark) => mark.place,
            Self::Record(_) => 0,
        }
    }

    #[inline]
    fn look(&self) -> Option<Result<()>> {
        match self {
            Self::Mark(mark) => mark.look(),
            Self::Record(record) => record.look(),
        }
    }

    fn check_context(&self) -> Result<(), Error> {
        self.completion().check(self.context())
    }

    fn waited(&self, time: Duration) {
        self.history().note(time, self.completion().spin());
    }

    fn look_again_after(&self) -> Option<Duration> {
        self.history().look_again_after(self.completion().spin())
    }
}
