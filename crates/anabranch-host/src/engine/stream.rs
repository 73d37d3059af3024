//! The state of one stream.

use super::barrier::BlockingStream;
use super::completion::{Completion, Wake};
use super::entry::Entry;
use super::queue::{Queue, Tail};
use super::spares::Spares;
use super::value::ValueCondition;
use crate::context::ContextCore;
use crate::error::{StreamFailure, panic_message};
use crate::executable::{NodeWait, Run};
use crate::sync::{Mutex, Padded};
use anabranch_hal::{Failure, InsideWork, StreamFlags, SynchronizationPolicy};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::thread::Thread;

/// Numbers for streams: one counter for all drivers, because numbers are unique in the process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// How a stream stands to the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is the legacy stream.
    Legacy,
    /// It waits for the legacy stream, and is waited for.
    Blocking,
    /// Neither.
    NonBlocking,
}

/// What a parked stream waits for.
#[derive(Clone, Debug)]
pub(crate) enum ParkedOn {
    Stream(Position),
    Value,
    /// The rest of a graph.
    Graph(Arc<Run>),
}

/// Who waits for a place of a stream.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A parked stream.
    Stream(Arc<StreamState>),
    /// A thread that synchronises.
    Thread(Thread),
    /// A node of a graph.
    Node(NodeWait),
}

impl Wake for Waiter {
    fn wake(self) {
        match self {
            Self::Stream(stream) => stream.unpark(false),
            Self::Thread(thread) => thread.unpark(),
            Self::Node(wait) => wait.resume(),
        }
    }
}

/// A place in a stream: the end of all entries up to a number.
#[derive(Clone)]
pub(crate) struct Position {
    pub(crate) stream: Arc<StreamState>,
    pub(crate) sequence: u64,
}

impl Position {
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.stream.completion.is_complete(self.sequence)
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of stream {}", self.sequence, self.stream.id)
    }
}

/// The state of one stream. It lives as long as its handle, or anything that waits for it, or its work.
pub(crate) struct StreamState {
    pub(crate) queue: Padded<Queue<Entry, ParkedOn>>,
    pub(crate) completion: Padded<Completion<Waiter>>,
    /// Entries taken out of the queue; locked by the thread that runs the stream.
    pub(crate) batch: Mutex<VecDeque<Entry>>,
    /// Launches to be used again.
    pub(crate) spares: Padded<Spares>,
    pub(crate) core: Arc<ContextCore>,
    pub(crate) id: u64,
    pub(crate) priority: i32,
    pub(crate) role: Role,
    /// Whether it takes part in a capture; on a legacy stream, how many blocking streams do.
    captures: AtomicU32,
    policy: AtomicU8,
    legacy_waits: AtomicU64,
    failed: AtomicBool,
    failure: parking_lot::Mutex<Option<StreamFailure>>,
}

impl StreamState {
    pub(crate) fn new(core: Arc<ContextCore>, role: Role, priority: i32) -> Arc<Self> {
        let stream = Arc::new(Self {
            queue: Padded(Queue::new()),
            completion: Padded(Completion::new()),
            batch: Mutex::new(VecDeque::new()),
            spares: Padded::default(),
            core,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            priority,
            role,
            captures: AtomicU32::new(0),
            policy: AtomicU8::new(0),
            legacy_waits: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failure: parking_lot::Mutex::new(None),
        });
        stream.core.register_stream(&stream);
        stream
    }

    /// Whether a capture must be looked for before anything is put in. It is a hint: the captures' lock tells.
    #[inline]
    pub(crate) fn meets_capture(&self) -> bool {
        self.captures.load(Ordering::Acquire) != 0
    }

    pub(crate) fn meet_capture(&self) {
        self.captures.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn leave_capture(&self) {
        self.captures.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn flags(&self) -> StreamFlags {
        match self.role {
            Role::NonBlocking => StreamFlags::NON_BLOCKING,
            Role::Legacy | Role::Blocking => StreamFlags::empty(),
        }
    }

    pub(crate) fn policy(&self) -> SynchronizationPolicy {
        match self.policy.load(Ordering::Relaxed) {
            1 => SynchronizationPolicy::Spin,
            2 => SynchronizationPolicy::Yield,
            3 => SynchronizationPolicy::BlockingSync,
            _ => SynchronizationPolicy::Auto,
        }
    }

    /// `false`: there is no such policy.
    pub(crate) fn set_policy(&self, policy: SynchronizationPolicy) -> bool {
        let number = match policy {
            SynchronizationPolicy::Auto => 0,
            SynchronizationPolicy::Spin => 1,
            SynchronizationPolicy::Yield => 2,
            SynchronizationPolicy::BlockingSync => 3,
            _ => return false,
        };
        self.policy.store(number, Ordering::Relaxed);
        true
    }

    /// The one way by which work gets into a stream. Returns its place.
    #[inline]
    pub(crate) fn enqueue(self: &Arc<Self>, entry: Entry) -> u64 {
        let engine = &self.core.shared.engine;
        let mut full = false;
        let sequence = self.append(|tail| {
            let sequence = tail.push(entry);
            full = tail.len() >= engine.queue_limit;
            sequence
        });
        if full {
            engine.drain_to_half(self);
        }
        sequence
    }

    /// The stream's end as an operation sees it that leaves no entry of its own, such as the record of an event. What
    /// the operation must wait for goes into the queue.
    #[inline]
    pub(crate) fn mark(self: &Arc<Self>) -> u64 {
        self.append(|tail| tail.sequence())
    }

    /// As [`mark`](Self::mark), as a place to wait for.
    pub(crate) fn mark_position(self: &Arc<Self>) -> Position {
        Position { sequence: self.mark(), stream: Arc::clone(self) }
    }

    #[inline]
    fn append(self: &Arc<Self>, place: impl FnOnce(&mut Tail<'_, Entry>) -> u64) -> u64 {
        let (sequence, token) = match self.role {
            Role::NonBlocking => self.queue.append(place),
            Role::Blocking => self.queue.append(|tail| {
                if let Some(sequence) = self.core.legacy_order.newer_than(tail) {
                    self.core.wait_for_legacy(tail, sequence);
                }
                place(tail)
            }),
            Role::Legacy => self.queue.append(|tail| {
                self.core.wait_for_blocking_streams(tail);
                let sequence = place(tail);
                self.core.legacy_order.publish(sequence);
                sequence
            }),
        };
        if token {
            self.schedule();
        }
        sequence
    }

    /// The number of entries that are not complete.
    pub(crate) fn backlog(&self) -> u64 {
        // The count of completed entries is read first, so that it is never the larger one.
        let completed = self.completion.completed();
        self.queue.enqueued().saturating_sub(completed)
    }

    /// Whether all that was put in is complete.
    pub(crate) fn is_idle(&self) -> bool {
        self.backlog() == 0
    }

    /// The place of the last entry put in so far.
    pub(crate) fn end(self: &Arc<Self>) -> Position {
        Position { stream: Arc::clone(self), sequence: self.queue.enqueued() }
    }

    /// As [`end`](Self::end), in one order with all that is put into the stream, for who waits for it.
    pub(crate) fn end_in_order(self: &Arc<Self>) -> Position {
        Position { stream: Arc::clone(self), sequence: self.queue.enqueued_in_order() }
    }

    #[cold]
    pub(crate) fn schedule(self: &Arc<Self>) {
        self.core.shared.engine.schedule(self);
    }

    pub(crate) fn unpark(self: &Arc<Self>, satisfied: bool) {
        if self.queue.unpark(satisfied) {
            self.schedule();
        }
    }

    /// Notes a panic in the entry of that number. Until it is reported, later ones are left out.
    pub(crate) fn fail(&self, sequence: u64, message: String) {
        let mut failure = self.failure.lock();
        if failure.is_none() {
            *failure = Some(StreamFailure { sequence, message });
            self.failed.store(true, Ordering::Release);
        }
    }

    /// Takes the failure of an entry up to that number, to report it once.
    #[inline]
    pub(crate) fn take_failure(&self, sequence: u64) -> Result<(), Failure> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut failure = self.failure.lock();
        match failure.take_if(|failure| failure.sequence <= sequence) {
            Some(failure) => {
                self.failed.store(false, Ordering::Release);
                Err(failure.into())
            }
            None => Ok(()),
        }
    }

    /// Drops what is queued, when no thread runs the stream any more and nobody is left to be told of a panic. Streams
    /// that wait for each other hold each other by their entries, and would otherwise never go.
    pub(crate) fn drop_queued(&self) {
        drop_quietly(std::mem::take(&mut *self.batch.lock()));
        drop_quietly(self.queue.drain());
    }
}

/// Drops entries under the rules for host work, each by itself, because what they hold is the caller's and may panic.
fn drop_quietly(entries: VecDeque<Entry>) {
    let _scope = InsideWork::enter();
    for entry in entries {
        if let Entry::Graph(launch) = &entry {
            launch.abandon();
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(entry))) {
            panic_message(payload);
        }
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        self.drop_queued();
        if let Some(failure) = self.failure.get_mut().take() {
            self.core.adopt_failure(failure);
        }
        self.core.stream_gone();
    }
}

impl fmt::Debug for StreamState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StreamState")
            .field("id", &self.id)
            .field("role", &self.role)
            .field("priority", &self.priority)
            .field("enqueued", &self.queue.enqueued())
            .field("completed", &self.completion.completed())
            .finish_non_exhaustive()
    }
}

impl BlockingStream for Arc<StreamState> {
    fn enqueued(&self) -> u64 {
        self.queue.enqueued()
    }

    fn is_complete(&self, sequence: u64) -> bool {
        self.completion.is_complete(sequence)
    }

    fn exchange_legacy_wait(&self, sequence: u64) -> u64 {
        self.legacy_waits.swap(sequence, Ordering::Relaxed)
    }
}

const _: () = assert!(size_of::<ValueCondition>() <= 32, "value waits are stored in place");
