//! The points that futures wait for.
//!
//! That a place in a stream was reached is told by an event behind it, or by a number in pinned memory which the device
//! writes in the stream's order.

use super::context_part::ContextCompletion;
use super::events::PooledEvent;
use super::flags::{Flag, Number};
use super::interest::Point;
use super::record::AwaitedRecord;
use super::spin::WaitHistory;
use crate::context::ContextCore;
use crate::error::{Error, Result};
use crate::stream::{Stream, StreamCore};
use anabranch_hal::StreamHandle;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a stream has for the futures that wait for it.
#[derive(Default)]
pub(crate) struct StreamCompletion {
    /// How many marks were put into the stream. It is locked while one is, so that their numbers are in stream order, and
    /// while the stream begins to take part in a capture.
    marks: Mutex<Marks>,
    history: WaitHistory,
    /// The latest place that is known to be reached.
    reached: AtomicU64,
    /// The latest place that the reactor was asked to look after.
    registered: AtomicU64,
}

impl StreamCompletion {
    /// Calls `enter`, which makes the stream take part in a capture, while no mark is put.
    pub(crate) fn between_marks<R>(&self, enter: impl FnOnce() -> R) -> R {
        let _marks = self.marks.lock();
        enter()
    }
}

#[derive(Default)]
struct Marks {
    last: u64,
    /// What the device writes when it has reached a mark, if it does.
    flag: Option<Flag>,
}

/// How it is told that a mark was reached.
enum Notice {
    Event(PooledEvent),
    /// The stream's flag has this number, or a later one.
    Flag {
        flag: Number,
        number: u64,
    },
}

impl Marks {
    /// Lets the device tell by the stream's flag when it has come here. `None`: there is no memory for one.
    ///
    /// # Safety
    /// The stream is live, and the one that these marks are of.
    #[inline]
    unsafe fn write_flag(
        &mut self,
        core: &StreamCore,
        handle: StreamHandle,
        operation: &'static str,
    ) -> Result<Option<Notice>> {
        if self.flag.is_none() {
            self.flag = Flag::take(core.context());
        }
        let Some(flag) = &mut self.flag else {
            core.context().completion().give_up_flags();
            return Ok(None);
        };
        // SAFETY: the stream is the caller's word. Its flag is no other stream's.
        let written = unsafe { flag.write_next(core.context(), handle, operation) };
        let number = written.map_err(|error| error.at(core.place()))?;
        Ok(Some(Notice::Flag { flag: flag.number(), number }))
    }
}

/// A place in a stream's work.
pub(crate) struct Mark {
    notice: Notice,
    place: u64,
    stream: Arc<StreamCore>,
    /// Its number among all marks of the stream.
    number: u64,
}

impl Mark {
    /// The stream's work up to now. While it captures that is refused.
    pub(super) fn put(stream: &Stream, operation: &'static str) -> Result<Self> {
        let core = stream.core();
        let handle = core.handle(operation)?;
        let mut marks = core.completion().marks.lock();
        // No capture begins from here on: one that captured the write of a flag would write it at each launch of its graph.
        stream.refuse_while_capturing(operation)?;
        let number = core.shared().advance();
        let notice = if core.context().completion().uses_flags(core.context()) {
            // SAFETY: the stream is live while it is borrowed.
            unsafe { marks.write_flag(core, handle, operation) }?
        } else {
            None
        };
        let notice = match notice {
            Some(notice) => notice,
            None => {
                let event = PooledEvent::take(core.context())?;
                // SAFETY: the stream is live while it is borrowed, and of the context whose event that is.
                unsafe { event.record(handle, operation) }?;
                Notice::Event(event)
            }
        };
        marks.last += 1;
        Ok(Self { notice, place: marks.last, stream: core.clone(), number })
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
            Notice::Flag { flag, number } => (flag.get() >= *number).then_some(Ok(())),
        };
        if let Some(Ok(())) = result {
            // Before the other, so that who finds that this place is reached need not do it.
            self.stream.shared().completed(self.number);
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

    /// The task was woken early and has looked itself; the wait was over then, or not.
    pub(super) fn looked_again(&self, was_over: bool, waited: Duration) {
        self.history().looked_again(self.completion().spin(), was_over, waited);
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
