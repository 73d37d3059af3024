//! Running the entries of a stream.

use super::entry::Entry;
use super::queue::Claim;
use super::spares::Collected;
use super::stream::{ParkedOn, StreamState, Waiter};
use super::value::{ValueCondition, ValueWaiter, write_value};
use super::{Engine, level, worker};
use crate::checker::{FreedBy, Operation};
use crate::error::panic_message;
use crate::executable::{Retired, Run};
use crate::memory::{run_copy, run_copy_3d, run_fill};
use anabranch_hal::{Failure, InsideWork, Status};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// After so many entries a worker lets another stream of the same priority have its turn.
const TURN: usize = 64;

/// How often a worker looks whether an empty queue fills again before it leaves it.
const LINGER: usize = 4;

/// How long it pauses between the looks.
const PAUSES: usize = 32;

/// How long a thread keeps to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A worker: as long as nothing else is due.
    Worker,
    /// A thread that synchronises: up to the entry that it waits for.
    Until(u64),
    /// One entry.
    Single,
}

/// What became of an entry.
enum Outcome {
    Done,
    /// It has to wait, and is to be looked at again.
    Blocked(Entry, Reason),
}

enum Reason {
    Stream(super::stream::Position),
    Value(ValueCondition),
    Graph(Arc<Run>),
}

impl Engine {
    /// Runs a claimed stream until it is empty, parked, or its time is up.
    pub(crate) fn run(&self, stream: &Arc<StreamState>, claim: Claim, pace: Pace) {
        let mut retired = Retired::default();
        self.run_claimed(stream, claim, pace, &mut retired);
        if !retired.is_empty() {
            self.let_go(retired);
        }
    }

    /// Drops what launches of graphs left behind. It may call the driver, and so be blocked, as host work may.
    #[cold]
    fn let_go(&self, retired: Retired) {
        let on_worker = worker::is_worker();
        if on_worker {
            self.scheduler.enter_host_work(self);
        }
        drop(retired);
        if on_worker {
            self.scheduler.leave_host_work();
        }
    }

    fn run_claimed(&self, stream: &Arc<StreamState>, claim: Claim, pace: Pace, retired: &mut Retired) {
        let level = level(stream.priority);
        let mut front_satisfied = claim.front_satisfied;
        let mut done = 0;
        let mut collected = Collected::new(&stream.spares);
        let mut batch = stream.batch.lock();
        loop {
            if batch.is_empty() && !self.refill(stream, &mut batch, pace) {
                return;
            }
            let Some(entry) = batch.pop_front() else { continue };
            let sequence = stream.completion.completed() + 1;
            match self.execute(stream, sequence, entry, front_satisfied, &mut collected, retired) {
                Outcome::Done => {}
                Outcome::Blocked(entry, reason) => {
                    batch.push_front(entry);
                    drop(batch);
                    if self.park(stream, reason) {
                        return;
                    }
                    batch = stream.batch.lock();
                    continue;
                }
            }
            front_satisfied = false;
            stream.completion.advance(sequence);
            done += 1;
            let over = match pace {
                Pace::Worker => {
                    self.scheduler.has_more_urgent(level) || (done % TURN == 0 && self.scheduler.has_as_urgent(level))
                }
                Pace::Until(last) => sequence >= last,
                Pace::Single => true,
            };
            if over {
                let more = !batch.is_empty();
                drop(batch);
                if stream.queue.give_back(more) {
                    stream.schedule();
                }
                return;
            }
        }
    }

    /// Takes more entries out. `false`: there were none, and the stream is no longer this thread's.
    fn refill(&self, stream: &StreamState, batch: &mut VecDeque<Entry>, pace: Pace) -> bool {
        if pace == Pace::Worker {
            // Work that comes in at the pace at which it is run would make the stream ready, and give it to the scheduler,
            // for every single entry.
            let completed = stream.completion.completed();
            for _ in 0..LINGER {
                // Seldom, because each look slows down the thread that puts entries in.
                for _ in 0..PAUSES {
                    std::hint::spin_loop();
                }
                if stream.queue.enqueued() > completed || self.scheduler.has_work() {
                    break;
                }
            }
        }
        stream.queue.refill(batch)
    }

    /// Parks a stream whose first entry has to wait. `false`: it need not any more, and is still this thread's to run.
    fn park(&self, stream: &Arc<StreamState>, reason: Reason) -> bool {
        match reason {
            Reason::Stream(position) => {
                stream.queue.park(ParkedOn::Stream(position.clone()));
                let waiter = Waiter::Stream(Arc::clone(stream));
                if position.stream.completion.register(position.sequence, waiter).is_some() {
                    // Nobody else has the waiter, so nobody else unparks the stream. All entries before this one ran
                    // without a claim's promise, so there is none to keep.
                    let Claim { .. } = stream.queue.resume();
                    return false;
                }
            }
            Reason::Value(condition) => {
                stream.queue.park(ParkedOn::Value);
                self.values.add(ValueWaiter::Stream(Arc::clone(stream)), condition);
                self.scheduler.ensure_poller(self);
            }
            Reason::Graph(run) => {
                stream.queue.park(ParkedOn::Graph(Arc::clone(&run)));
                if !run.park() {
                    // Its last node was done meanwhile, so nobody unparks the stream.
                    let Claim { .. } = stream.queue.resume();
                    return false;
                }
            }
        }
        true
    }

    fn execute(
        &self,
        stream: &Arc<StreamState>,
        sequence: u64,
        entry: Entry,
        satisfied: bool,
        collected: &mut Collected<'_>,
        retired: &mut Retired,
    ) -> Outcome {
        // A graph skips its own nodes, because some may be running.
        if stream.core.is_lost() && !matches!(entry, Entry::Graph(_)) {
            self.skip(stream, sequence, entry);
            return Outcome::Done;
        }
        // What the work uses, if that is looked at, and may be freed meanwhile.
        let mut operation = None;
        if let Some(checker) = &self.checker {
            operation = Operation::of_entry(&entry);
            if operation.as_ref().is_some_and(|operation| !checker.may_run(operation, stream)) {
                self.skip(stream, sequence, entry);
                return Outcome::Done;
            }
        }
        match entry {
            Entry::Kernel(work) => {
                let _scope = InsideWork::enter();
                if let Err(error) = self.run_kernel(&work, level(stream.priority)) {
                    error.note(stream, sequence);
                }
                collected.push(work);
            }
            Entry::Copy { destination, source, bytes, .. } => {
                // SAFETY: whoever enqueued the copy vouched for both ranges until it has run.
                unsafe { run_copy(destination, source, bytes) }
            }
            Entry::SmallCopy { destination, length, source } => {
                // SAFETY: as above; the source is the entry's own, and at least as long.
                unsafe { run_copy(destination, source.as_ptr() as u64, usize::from(length)) }
            }
            Entry::StagedCopy { destination, source } => {
                let source = source.data();
                // SAFETY: as above; the source is the entry's own.
                unsafe { run_copy(destination, source.as_ptr() as u64, source.len()) }
            }
            Entry::Copy3d(copy) => {
                // SAFETY: as above.
                unsafe { run_copy_3d(&copy) }
            }
            Entry::Fill { address, pattern, count } => {
                // SAFETY: as above; that the address is aligned was checked when the fill was enqueued.
                unsafe { run_fill(address, pattern, count) }
            }
            Entry::HostFunction(work) => self.run_host_work(stream, sequence, || work.run()),
            Entry::Callback(callback) => self.run_host_work(stream, sequence, || callback(Status::SUCCESS)),
            Entry::WaitFor(position) => {
                if !position.is_complete() {
                    return Outcome::Blocked(Entry::WaitFor(position.clone()), Reason::Stream(position));
                }
            }
            Entry::WaitValue(condition) => {
                if !satisfied && self.values.is_satisfied(&condition) != Some(true) {
                    return Outcome::Blocked(entry, Reason::Value(condition));
                }
            }
            Entry::WriteValue { address, value } => {
                // SAFETY: whoever enqueued the write vouched for the address; its alignment was checked then.
                unsafe { write_value(address, value) }
                self.values.written();
            }
            Entry::TimeStamp(cell) => cell.store(self.now(), Ordering::Release),
            Entry::Arrive(address) => self.arrive(address),
            Entry::Release(block) => drop(block),
            Entry::Retire(piece) => drop(piece),
            Entry::ReleaseShare(block) => {
                if let Some(checker) = &self.checker {
                    checker.graph_freed(block.address(), FreedBy::Stream(stream.id));
                }
                drop(block);
            }
            Entry::Graph(mut launch) => {
                if !launch.run(self, stream, sequence) {
                    let run = launch.share_run();
                    return Outcome::Blocked(Entry::Graph(launch), Reason::Graph(run));
                }
                retired.add(launch);
            }
        }
        if let (Some(checker), Some(operation)) = (&self.checker, operation) {
            checker.has_run(&operation, stream);
        }
        Outcome::Done
    }

    /// Memory is allocated from here on.
    #[cold]
    fn arrive(&self, address: u64) {
        if let Some(checker) = &self.checker {
            checker.arrived(address);
        }
    }

    /// What an entry still does when the context is lost.
    #[cold]
    fn skip(&self, stream: &Arc<StreamState>, sequence: u64, entry: Entry) {
        match entry {
            Entry::Callback(callback) => {
                let status = stream.core.check().err().map_or(Status::SUCCESS, |failure: Failure| failure.status);
                self.run_host_work(stream, sequence, || callback(status));
            }
            Entry::TimeStamp(cell) => cell.store(self.now(), Ordering::Release),
            Entry::Arrive(address) => self.arrive(address),
            // Closures that are not run are dropped under the same rules.
            other => {
                let _scope = InsideWork::enter();
                drop_caught(stream, sequence, other);
            }
        }
    }

    pub(crate) fn run_host_work(&self, stream: &StreamState, sequence: u64, work: impl FnOnce()) {
        let on_worker = worker::is_worker();
        if on_worker {
            self.scheduler.enter_host_work(self);
        }
        {
            let _scope = InsideWork::enter();
            if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
                stream.fail(sequence, panic_message(payload));
            }
        }
        if on_worker {
            self.scheduler.leave_host_work();
        }
    }
}

/// Drops what may hold closures of the caller's. A panic in it is an error of the stream.
fn drop_caught<T>(stream: &StreamState, sequence: u64, value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        stream.fail(sequence, panic_message(payload));
    }
}
