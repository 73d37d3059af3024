//! Pools of streams.

use crate::context::Context;
use crate::error::{Error, Result};
use crate::ranks;
use crate::stream::Stream;
use anabranch_core::host_work::is_inside;
use anabranch_core::stream::SyncEvent;
use anabranch_hal::{Status, contain};
use anabranch_sync::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const MAKING: &str = "making a pool of streams";

/// How many streams a pool makes. A driver that knows no limit would make streams until there is no memory left.
const MAX_STREAMS: usize = 1 << 16;

/// How a [`StreamPool`] chooses a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamPolicy {
    /// One after the other.
    RoundRobin,
    /// The one with the fewest operations that are not complete, of those that were run on the pool. For that, an event is
    /// recorded behind each of them. Streams with equally many take turns.
    LeastLoaded,
}

/// Streams of one context, of which each [`Operation`](crate::Operation) gets one. It has no threads: whoever runs an operation
/// queues its work.
///
/// Dropping a pool never blocks: queued work still runs.
pub struct StreamPool {
    slots: Box<[Slot]>,
    policy: StreamPolicy,
    /// Where the next choice begins.
    next: AtomicUsize,
}

/// A stream of a pool.
struct Slot {
    stream: Stream,
    /// How many threads are queueing an operation here.
    queueing: AtomicUsize,
    /// Events behind the operations that may not be complete, in their order.
    pending: Mutex<VecDeque<SyncEvent>>,
}

impl Slot {
    fn new(stream: Stream) -> Self {
        let pending = Mutex::new(ranks::POOL_PENDING, VecDeque::new());
        Self { stream, queueing: AtomicUsize::new(0), pending }
    }

    /// How many operations are being queued or are not complete.
    fn load(&self) -> usize {
        // There nothing is queued, and whoever waits for the function may hold locks.
        if is_inside() {
            return self.queueing.load(Ordering::Relaxed);
        }
        // The driver is asked without the lock.
        while let Some(first) = self.first_pending() {
            if !first.is_over() {
                break;
            }
            drop(self.take_pending(&first));
        }
        self.pending.lock().len() + self.queueing.load(Ordering::Relaxed)
    }

    fn first_pending(&self) -> Option<SyncEvent> {
        self.pending.lock().front().cloned()
    }

    /// Takes the first event, unless another thread has taken it.
    fn take_pending(&self, first: &SyncEvent) -> Option<SyncEvent> {
        let mut pending = self.pending.lock();
        let is_first = pending.front().is_some_and(|event| Arc::ptr_eq(event.event(), first.event()));
        if is_first { pending.pop_front() } else { None }
    }
}

impl StreamPool {
    /// A pool of so many non-blocking streams of the default priority, at most 65,536.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for no streams, and for more; otherwise the same as
    /// [`create_stream`](Context::create_stream).
    pub fn new(context: &Context, count: usize, policy: StreamPolicy) -> Result<Self> {
        if count > MAX_STREAMS {
            let message = format!("{count} streams are too many; a pool makes at most {MAX_STREAMS}");
            return Err(Error::argument(Status::INVALID_VALUE, MAKING, message));
        }
        Self::from_streams((0..count).map(|_| context.create_stream()).collect::<Result<Vec<_>>>()?, policy)
    }

    /// A pool of these streams, such as streams of a priority.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for no streams;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for streams of several contexts.
    pub fn from_streams(streams: Vec<Stream>, policy: StreamPolicy) -> Result<Self> {
        let Some(first) = streams.first() else {
            return Err(Error::argument(Status::INVALID_VALUE, MAKING, "a pool has at least one stream"));
        };
        let context = first.core().context();
        if let Some(other) = streams.iter().find(|stream| !stream.core().context().is_same(context)) {
            let message = format!("{other:?} is a stream of another context than {first:?}");
            return Err(
                Error::argument(Status::INVALID_HANDLE, MAKING, message).with_hint("make a pool for each context")
            );
        }
        let slots = streams.into_iter().map(Slot::new).collect();
        Ok(Self { slots, policy, next: AtomicUsize::new(0) })
    }

    /// A stream, by the policy. Work that is queued in it directly does not count as load.
    pub fn stream(&self) -> &Stream {
        let slot = self.choose_slot(|_| false).unwrap_or(&self.slots[0]);
        &slot.stream
    }

    /// All streams.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &Stream> {
        self.slots.iter().map(|slot| &slot.stream)
    }

    /// How streams are chosen.
    pub fn policy(&self) -> StreamPolicy {
        self.policy
    }

    /// The stream for an operation.
    pub(super) fn lane(&self) -> Lane<'_> {
        self.choose(|_| false).unwrap_or_else(|| Lane::new(self, &self.slots[0]))
    }

    /// A stream that is not taken, if there is one.
    pub(super) fn choose(&self, is_taken: impl Fn(&Stream) -> bool) -> Option<Lane<'_>> {
        self.choose_slot(is_taken).map(|slot| Lane::new(self, slot))
    }

    fn choose_slot(&self, is_taken: impl Fn(&Stream) -> bool) -> Option<&Slot> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let (earlier, later) = self.slots.split_at(first);
        let mut free = later.iter().chain(earlier).filter(|slot| !is_taken(&slot.stream));
        match self.policy {
            StreamPolicy::RoundRobin => free.next(),
            StreamPolicy::LeastLoaded => free.min_by_key(|slot| slot.load()),
        }
    }
}

/// A stream of a pool while an operation is queued in it.
pub(super) struct Lane<'p> {
    pool: &'p StreamPool,
    slot: &'p Slot,
}

impl<'p> Lane<'p> {
    fn new(pool: &'p StreamPool, slot: &'p Slot) -> Self {
        slot.queueing.fetch_add(1, Ordering::Relaxed);
        Self { pool, slot }
    }

    pub(super) fn stream(&self) -> &'p Stream {
        &self.slot.stream
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        if self.pool.policy == StreamPolicy::LeastLoaded && !is_inside() {
            // Where nothing can be recorded, such as in a lost context, the work does not count.
            let event = contain(|| self.slot.stream.core().sync_event()).ok().and_then(Result::ok).flatten();
            self.slot.pending.lock().extend(event);
        }
        self.slot.queueing.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for StreamPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StreamPool({} streams, {:?})", self.slots.len(), self.policy)
    }
}
