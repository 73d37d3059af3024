//! Running the entries of a stream.

use super::core::{BlockedWorker, Engine, Pace, Task};
use super::levels::has_more_urgent;
use super::observer::{Moment, Operation};
use super::partition::Partition;
use super::stream::{Claim, Entry, JointWork, Outcome, ParkedOn, Position, StreamState, Turn, ValueWait, Waiter};
use super::value::Condition;
use crate::error::enter_work;
use anabranch_hal::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After so long a worker lets another stream have its turn, at the end of the entry.
const SLICE: Duration = Duration::from_micros(150);

/// How often a worker looks whether an empty queue fills again before it leaves it.
const LINGER: usize = 4;

/// So many entries have come in quick succession, that more are to be expected.
const SEVERAL: u64 = 4;

/// How long it pauses between the looks.
const PAUSES: usize = 32;

/// Why an entry cannot run yet.
enum Reason {
    Stream(Position),
    Value(Condition),
    Work(Arc<dyn JointWork>),
}

impl Task for StreamState {
    fn run(self: Arc<Self>, engine: &Engine, pace: Pace) -> bool {
        let Some(claim) = self.queue.claim_by_token() else { return false };
        engine.run(&self, claim, pace);
        true
    }

    fn partition(&self) -> Option<(&Arc<Partition>, usize)> {
        Some((self.partition.as_ref()?, self.level()))
    }
}

/// Lets others have a stream, of which the rest is ready.
fn give_back(stream: &Arc<StreamState>, claim: Claim<'_>) {
    if claim.give_back() {
        stream.schedule();
    }
}

impl Engine {
    /// Runs a claimed stream until it is empty, parked, or its time is up.
    pub(super) fn run<'a>(&self, stream: &'a Arc<StreamState>, mut claim: Claim<'a>, pace: Pace) {
        let level = stream.level();
        let begin = (pace == Pace::Worker).then(Instant::now);
        let mut blocked = None;
        let mut sequence = stream.completion.completed();
        let mut lingered = sequence;
        loop {
            // What a waiting thread is to run may be complete before it has the claim, and what comes behind may wait for that
            // thread.
            if matches!(pace, Pace::Until(last) if sequence >= last) {
                return give_back(stream, claim);
            }
            let Some(entry) = claim.take() else {
                blocked = None;
                // Not behind single entries, which the thread that enqueues them may want to run itself.
                let several = sequence >= lingered + SEVERAL;
                lingered = sequence;
                if pace == Pace::Worker && several && self.linger(&mut claim) {
                    continue;
                }
                match claim.leave() {
                    Ok(()) => return,
                    Err(more) => claim = more,
                }
                continue;
            };
            if begin.is_some() {
                // One blocked for all host work in succession.
                if !matches!(entry, Entry::HostFunction(_) | Entry::Callback(_)) {
                    blocked = None;
                } else if blocked.is_none() {
                    blocked = Some(BlockedWorker::new(self, stream.partition.as_ref()));
                }
            }
            let turn = Turn { engine: self, stream, sequence: sequence + 1 };
            let is_order = matches!(entry, Entry::WaitFor(_) | Entry::TimeStamp(_) | Entry::Callback(_));
            match entry {
                Entry::HostFunction(work) if !stream.core.is_lost() => {
                    // SAFETY: it is a variable of this block, in which nothing else marks the thread for longer.
                    let _scope = unsafe { enter_work() };
                    work.run();
                }
                entry => {
                    if let Some((entry, reason)) = self.execute(&turn, entry, claim.take_satisfied()) {
                        claim.hold(entry);
                        match self.park(stream, claim, reason) {
                            Some(again) => claim = again,
                            None => return,
                        }
                        continue;
                    }
                }
            }
            sequence += 1;
            if let Some(fault) = stream.core.fault()
                && !is_order
            {
                stream.note_undone(sequence, fault);
            }
            stream.completion.advance();
            let over = match (pace, begin) {
                (Pace::Worker, Some(begin)) => {
                    self.look_after_values();
                    let others =
                        self.scheduler.occupied() | stream.partition.as_ref().map_or(0, |part| part.occupied());
                    others != 0 && (has_more_urgent(others, level) || begin.elapsed() >= SLICE)
                }
                (Pace::Until(_), _) => false,
                _ => true,
            };
            if over {
                drop(blocked);
                return give_back(stream, claim);
            }
        }
    }

    /// Looks on for a moment whether an empty queue fills again. Work that comes in at the pace at which it is run would
    /// make the stream ready, and give it to the scheduler, for every single entry.
    fn linger(&self, claim: &mut Claim<'_>) -> bool {
        for _ in 0..LINGER {
            // Seldom, because each look slows down the thread that enqueues entries.
            for _ in 0..PAUSES {
                std::hint::spin_loop();
            }
            if claim.has_next() {
                return true;
            }
            if self.scheduler.has_work() {
                break;
            }
        }
        false
    }

    /// Parks a stream whose first entry has to wait. The claim again: it need not wait any more.
    fn park<'a>(&self, stream: &'a Arc<StreamState>, claim: Claim<'a>, reason: Reason) -> Option<Claim<'a>> {
        match reason {
            Reason::Stream(position) => {
                claim.park(ParkedOn::Stream(position.clone()));
                let waiter = Waiter::Stream(Arc::clone(stream));
                // A waiter that is given back is nobody else's, so nobody else unparks the stream.
                position.stream.completion.register(position.sequence, waiter).map(|_| stream.queue.resume())
            }
            Reason::Value(condition) => {
                claim.park(ParkedOn::Value);
                self.values.add(Box::new(ValueWait(Arc::clone(stream))), condition);
                self.ensure_poller();
                None
            }
            Reason::Work(work) => {
                claim.park(ParkedOn::Work(Arc::clone(&work)));
                // Where its last part was done meanwhile, nobody unparks the stream.
                (!work.park()).then(|| stream.queue.resume())
            }
        }
    }

    /// Runs an entry, or gives it back with what it waits for. `satisfied`: that has been seen to come true.
    fn execute(&self, turn: &Turn<'_>, mut entry: Entry, satisfied: bool) -> Option<(Entry, Reason)> {
        if turn.stream.core.is_lost() {
            return self.skip(turn, entry);
        }
        let operation = if self.observer.is_some() { operation(&entry) } else { None };
        if !self.check(turn, operation.as_ref(), Moment::Before) {
            return self.skip(turn, entry);
        }
        match &mut entry {
            Entry::HostFunction(_) => {}
            Entry::Callback(_) => return self.skip(turn, entry),
            Entry::WaitFor(position) => {
                if !position.is_complete() {
                    let reason = Reason::Stream(position.clone());
                    return Some((entry, reason));
                }
                if let Some(fault) = position.undone() {
                    turn.stream.core.lose_behind(fault);
                    return self.skip(turn, entry);
                }
            }
            Entry::WaitValue(condition) => {
                if !satisfied && self.values.is_satisfied(condition) != Some(true) {
                    let reason = Reason::Value(Condition::Value(*condition));
                    return Some((entry, reason));
                }
            }
            Entry::WaitNumber(condition) => {
                if !satisfied && !condition.is_satisfied() {
                    let reason = Reason::Value(Condition::Number(condition.clone()));
                    return Some((entry, reason));
                }
            }
            Entry::TimeStamp(cell) => cell.store(self.now(), Ordering::Release),
            Entry::Work(work) => {
                if let Outcome::Parked(work) = work.run(turn) {
                    return Some((entry, Reason::Work(work)));
                }
            }
        }
        self.check(turn, operation.as_ref(), Moment::After);
        None
    }

    /// Looks at the memory that work uses, if anybody does. `false`: it must not, and the context is lost.
    pub(crate) fn check(&self, turn: &Turn<'_>, operation: Option<&Operation>, moment: Moment) -> bool {
        let (Some(observer), Some(operation)) = (&self.observer, operation) else { return true };
        let stream = turn.stream;
        let wrong = observer.check(operation, stream.id, stream.core.device, moment).err();
        let allowed = wrong.is_none();
        if let Some(fault) = wrong {
            stream.core.lose(fault);
        }
        allowed
    }

    /// What an entry still does when the context is lost; what a callback does in any case.
    #[cold]
    fn skip(&self, turn: &Turn<'_>, mut entry: Entry) -> Option<(Entry, Reason)> {
        match &mut entry {
            // What follows may free memory that the other stream uses, where a kernel of the lost context may still run.
            Entry::WaitFor(position) if !position.is_complete() => {
                let reason = Reason::Stream(position.clone());
                return Some((entry, reason));
            }
            Entry::WaitFor(position) => {
                if let Some(fault) = position.undone() {
                    turn.stream.note_undone(turn.sequence, fault);
                }
            }
            Entry::TimeStamp(cell) => cell.store(self.now(), Ordering::Release),
            Entry::Work(work) => {
                if let Outcome::Parked(work) = work.skip(turn) {
                    return Some((entry, Reason::Work(work)));
                }
            }
            _ => {}
        }
        // Closures that are not run are dropped under the same rules.
        // SAFETY: it is a variable of this block, in which nothing else marks the thread for longer.
        let _scope = unsafe { enter_work() };
        if let Entry::Callback(callback) = entry {
            callback(turn.stream.core.check().err().map_or(Status::SUCCESS, |failure| failure.status));
        }
        None
    }
}

fn operation(entry: &Entry) -> Option<Operation> {
    match entry {
        Entry::Work(work) => work.operation(),
        Entry::WaitValue(condition) => Some(condition.operation()),
        _ => None,
    }
}
