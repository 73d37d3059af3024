//! The state of one stream.

mod entry;
mod position;

pub(crate) use entry::{Entry, JointWork, Outcome, Turn, Work, work};
pub(crate) use position::{ParkedOn, Position, ValueWait, Waiter};

use super::completion::Completion;
use super::context::{Context, WaitStrategy};
use super::core::Pace;
use super::legacy::{BlockingStream, LegacyOrder};
use super::partition::Partition;
use super::queue::{self, Padded, Queue};
use super::scheduler;
use crate::error::StreamFailure;
use crate::ranks;
use anabranch_hal::{Failure, InsideWorkBefore, KernelFault, StreamFlags, SynchronizationPolicy};
use anabranch_sync::Mutex;
use anabranch_sync::modelled;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What the streams of a context share.
pub(crate) type ContextCore = Context<StreamState>;

/// The right to run a stream.
pub(crate) type Claim<'a> = queue::Claim<'a, Entry, ParkedOn>;

/// Numbers for streams: one counter for all drivers, because numbers are unique in the process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Whether a stream is ordered with the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is the legacy stream.
    Legacy,
    /// It waits for the legacy stream, and is waited for.
    Blocking,
    /// Neither.
    NonBlocking,
}

/// The state of one stream. It lives as long as its handle, or anything that waits for it, or its work.
pub(crate) struct StreamState {
    pub(super) queue: Queue<Entry, ParkedOn>,
    pub(crate) completion: Padded<Completion<Waiter>>,
    pub(crate) core: Arc<ContextCore>,
    pub(crate) id: u64,
    pub(crate) priority: i32,
    pub(crate) role: Role,
    /// The part of the workers that runs it, in a green context.
    pub(crate) partition: Option<Arc<Partition>>,
    /// What a higher layer keeps with the stream.
    pub(crate) attachment: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Whether it is a member of a capture; on a legacy stream, how many blocking streams are.
    captures: AtomicU32,
    policy: AtomicU8,
    /// The newest legacy entry that it waits for.
    legacy_seen: modelled::AtomicU64,
    /// Up to which entry the legacy stream waits for it.
    legacy_waits: AtomicU64,
    /// The entry behind which a thread looks next whether the stream is full.
    pub(super) next_look: AtomicU64,
    /// The first entry that was not done, or not to its end, because a context was lost, and how that was lost.
    undone: OnceLock<(u64, KernelFault)>,
    failed: AtomicBool,
    failure: Mutex<Option<StreamFailure>>,
}

impl StreamState {
    pub(crate) fn new(core: &Arc<ContextCore>, role: Role, priority: i32) -> Arc<Self> {
        Self::new_in(None, core, role, priority)
    }

    /// A stream that a part of the workers runs.
    pub(crate) fn new_in(
        partition: Option<Arc<Partition>>,
        core: &Arc<ContextCore>,
        role: Role,
        priority: i32,
    ) -> Arc<Self> {
        let stream = Arc::new(Self {
            queue: Queue::new(),
            completion: Padded(Completion::new()),
            core: Arc::clone(core),
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            priority,
            role,
            partition,
            attachment: OnceLock::new(),
            captures: AtomicU32::new(0),
            policy: AtomicU8::new(0),
            legacy_seen: modelled::AtomicU64::new(0),
            legacy_waits: AtomicU64::new(0),
            next_look: AtomicU64::new(0),
            undone: OnceLock::new(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(ranks::FAILURE, None),
        });
        core.register_stream(&stream, role == Role::Legacy);
        stream
    }

    /// Whether a capture must be looked for before anything is enqueued. It is a hint, to be confirmed under the
    /// captures' lock.
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

    /// The scheduler's level of the stream's priority.
    pub(crate) fn level(&self) -> usize {
        scheduler::level(self.priority)
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

    /// How a thread waits for the stream.
    pub(crate) fn strategy(&self) -> WaitStrategy {
        self.core.wait_strategy_of(self.policy())
    }

    /// Enqueues work after what it must wait for, however full the stream is. Returns its place.
    #[inline]
    pub(crate) fn put(self: &Arc<Self>, entry: Entry) -> u64 {
        self.put_by(|| self.push(entry))
    }

    /// As [`put`](Self::put), and if nothing that is queued comes before the work, this thread runs it: it would wait for
    /// a worker for longer than the work takes.
    pub(crate) fn put_and_run(self: &Arc<Self>, entry: Entry) -> u64 {
        let engine = &self.core.engine;
        if engine.is_deterministic() {
            return self.put(entry);
        }
        let mut is_first = false;
        let sequence = self.put_by(|| {
            let pushed = self.queue.push(entry);
            is_first = pushed.token;
            pushed.sequence
        });
        // The token is this thread's instead of the scheduler's. Where another thread was faster, that one runs the work.
        if is_first && let Some(claim) = self.queue.claim_by_token() {
            engine.run(self, claim, Pace::Until(sequence));
        }
        sequence
    }

    /// Has `push` enqueue an entry after what it must wait for.
    #[inline]
    fn put_by(self: &Arc<Self>, push: impl FnOnce() -> u64) -> u64 {
        match self.role {
            Role::NonBlocking => {}
            Role::Blocking => {
                self.core.legacy_order.before_blocking(&self.legacy_seen, |last| self.wait_for_legacy(last))
            }
            Role::Legacy => {
                return self.core.legacy_order.put_legacy(|| self.wait_for_blocking_streams(), push);
            }
        }
        push()
    }

    /// The stream's end as an operation sees it that leaves no entry of its own, such as the record of an event. What
    /// the operation must wait for is enqueued.
    #[inline]
    pub(crate) fn mark(self: &Arc<Self>) -> u64 {
        match self.role {
            Role::NonBlocking => {}
            Role::Blocking => {
                self.core.legacy_order.before_blocking(&self.legacy_seen, |last| self.wait_for_legacy(last))
            }
            Role::Legacy => {
                let end = || self.queue.enqueued_in_order();
                return self.core.legacy_order.put_legacy(|| self.wait_for_blocking_streams(), end);
            }
        }
        self.queue.enqueued_in_order()
    }

    /// As [`mark`](Self::mark), as a place to wait for.
    pub(crate) fn mark_position(self: &Arc<Self>) -> Position {
        Position { sequence: self.mark(), stream: Arc::clone(self) }
    }

    #[inline]
    fn push(self: &Arc<Self>, entry: Entry) -> u64 {
        let pushed = self.queue.push(entry);
        if pushed.token {
            self.schedule();
        } else if self.core.engine.scheduler.lacks_workers() {
            self.core.engine.retry_worker();
        }
        pushed.sequence
    }

    /// Puts a wait for the legacy stream into this one.
    #[cold]
    fn wait_for_legacy(self: &Arc<Self>, sequence: u64) {
        // The legacy stream is dropped with its context, once its work is complete.
        if let Some(stream) = self.core.legacy_stream() {
            let position = Position { stream, sequence };
            if !position.is_complete() {
                self.push(Entry::WaitFor(position));
            }
        }
    }

    /// Puts waits for all busy blocking streams into the legacy one.
    fn wait_for_blocking_streams(self: &Arc<Self>) {
        for stream in self.core.streams() {
            if stream.role == Role::Blocking {
                LegacyOrder::wait_for_blocking(stream, |stream, sequence| {
                    self.push(Entry::WaitFor(Position { stream, sequence }));
                });
            }
        }
    }

    /// The number of entries that are not complete.
    pub(crate) fn backlog(&self) -> u64 {
        // The count of completed entries is read first, so that it is never the larger one.
        let completed = self.completion.completed();
        self.queue.enqueued().saturating_sub(completed)
    }

    /// Whether everything that was enqueued is complete.
    pub(crate) fn is_idle(&self) -> bool {
        self.backlog() == 0
    }

    /// The number of the last entry enqueued so far.
    pub(crate) fn end(&self) -> u64 {
        self.queue.enqueued()
    }

    /// As [`end`](Self::end), in one order with everything that is enqueued in the stream, for a thread that waits for
    /// it.
    pub(crate) fn end_in_order(&self) -> u64 {
        self.queue.enqueued_in_order()
    }

    /// Hands a token for the stream to the scheduler.
    #[cold]
    pub(super) fn schedule(self: &Arc<Self>) {
        self.core.engine.push(self.level(), Arc::clone(self) as _);
    }

    pub(crate) fn unpark(self: &Arc<Self>, satisfied: bool) {
        if self.queue.unpark(satisfied) {
            self.schedule();
        }
    }

    /// Notes that the entry of that number was not done because of a fault, before it counts as complete.
    #[cold]
    pub(crate) fn note_undone(&self, sequence: u64, fault: &KernelFault) {
        self.undone.get_or_init(|| (sequence, fault.clone()));
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

    /// Drops what is queued, when no thread runs the stream any more. Streams that wait for each other hold each other by
    /// their entries, and would otherwise never go.
    pub(crate) fn drop_queued(&self) {
        let entries = self.queue.drain();
        // Some hold closures of the user.
        // SAFETY: it is a variable of this function.
        let _scope = unsafe { InsideWorkBefore::enter() };
        for mut entry in entries {
            if let Entry::Work(work) = &mut entry {
                work.abandon();
            }
        }
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        self.core.stream_goes();
        self.drop_queued();
        self.core.stream_gone(self.failure.get_mut().take());
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
