//! What a stream is underneath: a handle, its identity, and a way to wait for it after it is gone.

mod captured;

use super::shared::{Operation, Reached, StreamShared};
use crate::capture::{CaptureState, unprohibited};
use crate::clock::Clock;
use crate::completion::StreamCompletion;
use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::event::RawEvent;
use crate::host_work;
use crate::reaper;
use crate::trace;
use anabranch_hal::{CaptureStatus, DevicePointer, EventFlags, EventRecordFlags, EventWaitFlags, Status, StreamHandle};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::ThreadId;

/// Who owns a stream's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// This library: it is destroyed at the end.
    Owned,
    /// Somebody else: another library, or the driver itself for default streams.
    Foreign,
}

/// A stream, shared by whoever uses it or has to wait for it.
pub(crate) struct StreamCore {
    context: Arc<ContextCore>,
    handle: StreamHandle,
    id: u64,
    /// The only thread that may use it, for a per-thread default stream.
    thread: Option<ThreadId>,
    ownership: Ownership,
    tail: Mutex<Tail>,
    shared: Arc<StreamShared>,
    completion: StreamCompletion,
}

/// How others wait for all the work that a stream has at the moment.
enum Tail {
    /// By recording an event at that moment; the event is made when first needed, and recorded again each time, unless
    /// somebody holds it. While the stream captures, the event stays at the work before: captured work does not run.
    Live { event: Option<TailEvent> },
    /// By the event recorded when the stream ended, if there was anything to wait for.
    Ended { event: Option<TailEvent> },
}

/// An event with what it has captured.
struct TailEvent {
    event: Arc<RawEvent>,
    /// The number of the mark, or 0 if the event is not known to be one.
    number: u64,
    /// What the stream had followed before.
    clock: Clock,
}

/// An event that is complete when a stream's work is.
pub(crate) struct Checkpoint {
    pub(crate) event: Arc<RawEvent>,
    pub(crate) reached: Reached,
    /// What the stream had followed before.
    followed: Clock,
}

impl Checkpoint {
    /// Whether work of `stream` with that stamp is complete when the event is.
    pub(crate) fn covers(&self, stream: &StreamCore, stamp: u64) -> bool {
        let key = stream.shared.key();
        let number = if key == self.reached.stream.key() { self.reached.number } else { self.followed.get(key) };
        number > stamp
    }

    /// Adds one behind a stream's work with that stamp, unless those that there are cover it.
    pub(crate) fn add_to(checkpoints: &mut Vec<Self>, stream: &StreamCore, stamp: u64) -> Result<()> {
        if !checkpoints.iter().any(|checkpoint| checkpoint.covers(stream, stamp)) {
            checkpoints.extend(stream.checkpoint()?);
        }
        Ok(())
    }
}

impl StreamCore {
    pub(crate) fn new(context: &Arc<ContextCore>, handle: StreamHandle, id: u64, ownership: Ownership) -> Arc<Self> {
        let known = || context.streams().into_iter().find(|stream| stream.id == id);
        let shared = match ownership {
            Ownership::Owned => None,
            Ownership::Foreign => known().map(|stream| stream.shared.clone()),
        };
        let core = Arc::new(Self {
            context: context.clone(),
            handle,
            id,
            thread: handle.is_per_thread().then(|| std::thread::current().id()),
            ownership,
            tail: Mutex::new(Tail::Live { event: None }),
            shared: shared.unwrap_or_else(StreamShared::new),
            completion: StreamCompletion::default(),
        });
        context.remember(&core);
        core
    }

    #[inline(always)]
    pub(crate) fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn raw(&self) -> StreamHandle {
        self.handle
    }

    pub(crate) fn place(&self) -> String {
        format!("stream {} of {}", self.id, self.context.place())
    }

    /// The handle, for use at this place: on this thread, and not inside of a host function. Some drivers answer 800
    /// there, some calls of some drivers deadlock.
    #[inline(always)]
    pub(crate) fn handle(&self, operation: &'static str) -> Result<StreamHandle> {
        if host_work::is_inside() || self.thread.is_some() { self.handle_here(operation) } else { Ok(self.handle) }
    }

    #[cold]
    #[inline(never)]
    fn handle_here(&self, operation: &'static str) -> Result<StreamHandle> {
        if host_work::is_inside() {
            return Err(Error::driver(operation, Status::NOT_PERMITTED.into()).at(self.place()));
        }
        if self.on_own_thread() { Ok(self.handle) } else { Err(self.other_thread(operation)) }
    }

    fn on_own_thread(&self) -> bool {
        self.thread.is_none_or(|thread| thread == std::thread::current().id())
    }

    #[cold]
    fn other_thread(&self, operation: &'static str) -> Error {
        Error::new(ErrorKind::Argument, Status::INVALID_HANDLE, operation)
            .with_message("it is the default stream of another thread")
            .with_hint("ask the context for this thread's own with per_thread_stream")
            .at(self.place())
    }

    /// Whether this thread can record how far the stream's work has come, and not some capture's.
    fn records_tail(&self) -> bool {
        self.on_own_thread() && !self.is_capturing()
    }

    /// Whether the stream takes part in a capture that was begun through this library.
    #[inline(always)]
    pub(crate) fn is_capturing(&self) -> bool {
        self.shared.capture().is_active()
    }

    /// The capture that the stream takes part in.
    #[inline(always)]
    pub(crate) fn capture(&self) -> Option<Arc<CaptureState>> {
        if self.is_capturing() { self.shared.capture().get() } else { None }
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &Arc<StreamShared> {
        &self.shared
    }

    /// Begins an operation, before any memory that it uses is looked at.
    #[inline(always)]
    pub(crate) fn operation(&self, name: &'static str) -> Operation<'_> {
        Operation::new(name, &self.shared)
    }

    /// The library has made the stream wait for others.
    pub(crate) fn count_inserted(&self, count: u64) {
        self.shared.count_inserted(count);
        self.context.count_inserted(count);
    }

    /// What strict order answers for a use that does not come after one of `earlier`.
    #[cold]
    pub(crate) fn refuse_order(&self, earlier: &str, operation: &'static str) -> Error {
        let message = format!("stream {} does not come after the work of {earlier} that uses the same memory", self.id);
        Error::argument(Status::ILLEGAL_STATE, operation, message)
            .with_hint(
                "before, record an event on that stream and wait for it on this one, or turn strict order off \
                 (Context::set_strict_order)",
            )
            .at(self.place())
    }

    /// Whether another library captures the stream, so that what is recorded in it may never run.
    #[inline(always)]
    pub(crate) fn is_captured_elsewhere(&self) -> bool {
        self.shared.may_be_captured() && self.asks_whether_captured()
    }

    #[cold]
    fn asks_whether_captured(&self) -> bool {
        // SAFETY: the caller uses the stream, or holds the tail's lock and found it live.
        let status = unsafe { self.context.driver().stream_capture_status(self.context.handle(), self.handle) };
        !matches!(status, Ok(CaptureStatus::None))
    }

    /// Called after work that uses tracked memory was queued. `stamp` stamps all of that memory anew
    /// ([`Allocation::stamp`](crate::memory::Allocation::stamp)), with the position that is found now, because a mark was
    /// put meanwhile, or as used in a capture.
    #[inline(always)]
    pub(crate) fn queued(&self, operation: &Operation<'_>, stamp: impl FnOnce()) -> Result<()> {
        if self.is_capturing() {
            if !operation.was_captured {
                // One piece of memory has drawn the stream in, and those before it were not known to be captured.
                stamp();
            }
            if self.shared.capture().is_pending() {
                self.settle_captured();
            }
            return Ok(());
        }
        if self.shared.position() != operation.position {
            stamp();
        }
        if self.thread.is_some() { self.record_tail_now() } else { Ok(()) }
    }

    /// Called when a use of memory stands for the uses that it comes after, but nothing is queued yet. If that is refused,
    /// others who wait for the use still come after those.
    pub(crate) fn ordered(&self) -> Result<()> {
        if self.thread.is_some() && !self.is_capturing() { self.record_tail_now() } else { Ok(()) }
    }

    /// Another thread cannot record on this thread's default stream, so it is done after each use of tracked memory.
    #[cold]
    fn record_tail_now(&self) -> Result<()> {
        match &mut *self.tail.lock() {
            Tail::Live { event } => self.record_into(event).map(|_| ()),
            Tail::Ended { .. } => Ok(()),
        }
    }

    /// Records the stream's work at this moment in the slot's event. A new one is made if there is none, or if somebody
    /// holds it, who means what it captured before.
    fn record_into<'a>(&self, slot: &'a mut Option<TailEvent>) -> Result<&'a TailEvent> {
        let free = slot.take_if(|tail| Arc::strong_count(&tail.event) == 1);
        let tail = match free {
            Some(tail) => tail,
            None => {
                let event = Arc::new(RawEvent::create(&self.context, EventFlags::DISABLE_TIMING)?);
                TailEvent { event, number: 0, clock: Clock::default() }
            }
        };
        let tail = slot.insert(tail);
        tail.number = 0;
        let number = self.shared.mark(&mut tail.clock);
        self.record(&tail.event)?;
        if !self.is_captured_elsewhere() {
            tail.number = number;
        }
        Ok(tail)
    }

    fn record(&self, event: &RawEvent) -> Result<()> {
        let (driver, context) = (self.context.driver(), self.context.handle());
        // SAFETY: the caller holds the tail's lock and found the stream live; the event is borrowed.
        unsafe { driver.event_record(context, event.handle(), self.handle, EventRecordFlags::empty()) }
            .during("recording an event to order streams", || self.place())
    }

    /// Makes later work of this stream wait for the work that `earlier` has at this moment. Where that captures, this stream
    /// is drawn in.
    pub(crate) fn wait_for(&self, earlier: &StreamCore) -> Result<()> {
        match earlier.capture() {
            Some(capture) if !self.is_same(earlier) => self.follow_captured(earlier, &capture),
            _ => self.follow(earlier).map(drop),
        }
    }

    /// Makes later work of this stream wait for the work that `earlier` has at this moment, captured work excepted. `false`:
    /// there is nothing to wait for.
    pub(crate) fn follow(&self, earlier: &StreamCore) -> Result<bool> {
        if self.is_same(earlier) {
            return Ok(false);
        }
        let mut tail = earlier.tail.lock();
        let recorded = match &mut *tail {
            Tail::Live { event } if earlier.records_tail() => Some(earlier.record_into(event)?),
            Tail::Live { event } | Tail::Ended { event } => event.as_ref(),
        };
        let Some(recorded) = recorded else { return Ok(false) };
        trace::queued!(stream = self.id, behind = earlier.id, "ordering a stream behind another");
        let handle = self.handle("ordering a stream behind another")?;
        let (driver, context) = (self.context.driver(), self.context.handle());
        // SAFETY: this stream is in use by the caller, and the event is kept by the tail's lock until the wait is bound.
        unsafe { driver.stream_wait_event(context, handle, recorded.event.handle(), EventWaitFlags::empty()) }
            .during("ordering a stream behind another", || self.place())?;
        self.has_waited_for(&earlier.shared, recorded.number, &recorded.clock);
        Ok(true)
    }

    /// The stream was made to wait for a mark of another, or, if the number is 0, for what is not known to be one.
    #[inline]
    pub(crate) fn has_waited_for(&self, earlier: &StreamShared, number: u64, followed: &Clock) {
        if number == 0 {
            self.shared.suspect_capture();
        } else {
            self.shared.follow(earlier.key(), number, followed);
        }
    }

    /// Whether later work of this stream comes after work of `earlier` with that stamp, or need not because it is complete.
    pub(crate) fn comes_after(&self, earlier: &StreamCore, stamp: u64) -> bool {
        self.is_same(earlier) || self.shared.has_followed(&earlier.shared, stamp)
    }

    /// An event that is complete when the work that the stream has at this moment is, or `None` when there is none. Of
    /// another thread's default stream, that is the work which uses tracked memory.
    pub(crate) fn checkpoint(&self) -> Result<Option<Checkpoint>> {
        let mut tail = self.tail.lock();
        match &mut *tail {
            Tail::Live { event } if self.records_tail() => _ = self.record_into(event)?,
            Tail::Live { .. } | Tail::Ended { .. } => {}
        }
        let (Tail::Live { event } | Tail::Ended { event }) = &*tail;
        Ok(event.as_ref().map(|tail| Checkpoint {
            event: tail.event.clone(),
            reached: Reached { stream: self.shared.clone(), number: tail.number },
            followed: tail.clock.clone(),
        }))
    }

    /// Frees memory in this stream's order, behind the checkpoints, or returns `None` when the stream has ended, captures, or
    /// is another thread's.
    pub(crate) fn free_behind(&self, checkpoints: &[Checkpoint], address: DevicePointer) -> Option<Result<()>> {
        let tail = self.tail.lock();
        if !matches!(*tail, Tail::Live { .. }) || !self.records_tail() {
            return None;
        }
        trace::queued!(?address, stream = self.id, device = %self.context.device(), "freeing in stream order");
        let (driver, context) = (self.context.driver(), self.context.handle());
        // The tail's lock keeps the stream from ending while these calls use its handle.
        let waits = checkpoints.iter().try_for_each(|Checkpoint { event, reached, followed }| {
            // SAFETY: the stream is live, the event is borrowed.
            unsafe { driver.stream_wait_event(context, self.handle, event.handle(), EventWaitFlags::empty()) }?;
            self.count_inserted(1);
            self.has_waited_for(&reached.stream, reached.number, followed);
            Ok(())
        });
        let freed = waits.and_then(|()| {
            // SAFETY: the stream is live; all uses of the memory are in this stream or behind the events just waited for.
            unprohibited(driver, || unsafe { driver.free_async(context, address, self.handle) })
        });
        Some(freed.during("freeing in stream order", || self.place()))
    }

    /// Whether both are the same live stream, though perhaps under two handles.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.id == other.id && self.context.device() == other.context.device())
    }

    /// Whether the handle means this stream, which has not ended, on this thread.
    pub(crate) fn is_known_by(&self, handle: StreamHandle) -> bool {
        self.handle == handle && self.on_own_thread() && self.is_live()
    }

    /// Ends the stream: destroys it if it is owned. Work that is queued still runs, and who has to wait for it still
    /// can. `pending` says whether anybody may have to.
    pub(crate) fn end(&self, pending: bool) -> Result<()> {
        // Before the lock, because what the capture kept may be dropped, and be this stream's to free.
        let captured = self.capture().inspect(|capture| capture.stream_ends(self, self.ownership)).is_some();
        let mut tail = self.tail.lock();
        let Tail::Live { event } = &mut *tail else { return Ok(()) };
        let mut event = event.take();
        if !captured && self.on_own_thread() {
            // Where recording fails the context is lost, and there is nothing left to wait for.
            if !pending || self.record_into(&mut event).is_err() {
                event = None;
            }
        }
        *tail = Tail::Ended { event };
        if self.ownership == Ownership::Foreign {
            return Ok(());
        }
        trace::rare!(stream = self.id, device = %self.context.device(), "destroying a stream");
        // SAFETY: the tail says that the stream has ended, so nobody uses the handle after this.
        unsafe { self.context.driver().stream_destroy(self.context.handle(), self.handle) }
            .during("destroying a stream", || self.place())
    }

    /// Gives the handle up without destroying the stream.
    pub(crate) fn release(&self) -> StreamHandle {
        if let Some(capture) = self.capture() {
            capture.stream_ends(self, Ownership::Owned);
        }
        let mut tail = self.tail.lock();
        let mut event = None;
        if !self.records_tail() || self.record_into(&mut event).is_err() {
            event = None;
        }
        *tail = Tail::Ended { event };
        self.handle
    }

    /// What it has for futures.
    #[inline(always)]
    pub(crate) fn completion(&self) -> &StreamCompletion {
        &self.completion
    }

    /// Reports a panic of the stream's host work that has run, once. There is none to report where the stream cannot be
    /// asked any more, or not by this thread.
    pub(crate) fn take_failure(&self, operation: &'static str) -> Result<()> {
        let tail = self.tail.lock();
        if !matches!(*tail, Tail::Live { .. }) || !self.on_own_thread() || host_work::is_inside() {
            return Ok(());
        }
        // SAFETY: the stream is live while the tail is locked.
        unsafe { self.context.driver().stream_take_failure(self.context.handle(), self.handle) }
            .during(operation, || self.place())
    }

    /// Whether the handle may still be used.
    pub(crate) fn is_live(&self) -> bool {
        matches!(*self.tail.lock(), Tail::Live { .. })
    }
}

/// Ends a stream in the drop of its owner, whose reference is one of the core's.
pub(super) fn end_in_drop(core: &Arc<StreamCore>) {
    // Any reference beside the owner's belongs to memory that the stream has used.
    let pending = Arc::strong_count(core) > 1;
    let core = core.clone();
    reaper::now_or_later(move || drop_error::report(core.end(pending)));
}
