//! How a host thread waits: it runs what it waits for, as far as that is ready, and sleeps only behind other threads.
//!
//! Work that is queued and then waited for thus runs without a change of thread. A waiting thread runs the awaited stream and
//! the streams that this one waits for, however many, and nothing that comes behind what is awaited: anything else could keep it
//! for long after its wait is over, or for ever, where it waits for what the thread does next. This holds also while no worker can
//! be started.

use super::context::WaitStrategy;
use super::core::{Engine, Pace};
use super::queue::Inspection;
use super::stream::{ContextCore, Entry, ParkedOn, Position, StreamState, Waiter};
use anabranch_hal::{Call, Helping};
use anabranch_sync::{Rank, require_none_held};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The pause of a waiting thread behind a wait for a value, which no other thread may be looking after.
const VALUE_PAUSE: Duration = Duration::from_micros(50);

/// The longest pause of a waiting thread, after which it looks again for what it can run.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// After so many entries of a stream a thread that puts in more looks whether it is full.
const LOOK_EVERY: u64 = 64;

/// What a thread found when it wanted to help.
enum Help {
    /// Something was run, or came true.
    Progress,
    /// Other threads are at it.
    Taken,
    /// It all hangs on a value in memory.
    Value,
}

impl StreamState {
    /// Enqueues work, and returns its place. Where the stream is full, half of it is run or waited for.
    #[inline]
    pub(crate) fn enqueue(self: &Arc<Self>, entry: Entry) -> u64 {
        let sequence = self.put(entry);
        self.drain_if_full(sequence);
        sequence
    }

    /// Enqueues work of a call that is to wait for it, or that may: this thread runs it where nothing comes before it. Returns
    /// its place.
    #[inline]
    pub(crate) fn enqueue_and_run(self: &Arc<Self>, entry: Entry) -> u64 {
        let sequence = self.put_and_run(entry);
        self.drain_if_full(sequence);
        sequence
    }

    /// Runs or waits for half of what the stream may hold, if an entry was enqueued that fills it.
    #[inline]
    pub(crate) fn drain_if_full(self: &Arc<Self>, sequence: u64) {
        let limit = self.core.engine.queue_limit;
        // Seldom, because each look slows down the thread that runs the stream. A call may have put in several entries.
        if limit >= 2 * LOOK_EVERY {
            if sequence < self.next_look.load(Ordering::Relaxed) {
                return;
            }
            self.next_look.store(sequence + LOOK_EVERY, Ordering::Relaxed);
        }
        if sequence >= self.completion.completed() + limit {
            self.core.engine.wait_for(self, sequence - limit / 2, WaitStrategy::Auto);
        }
    }
}

impl ContextCore {
    /// Waits for all that is queued in any stream of the context. Returns the streams' ends.
    pub(crate) fn wait_for_all(&self) -> Vec<Position> {
        let end = |stream: Arc<StreamState>| Position { sequence: stream.end_in_order(), stream };
        let ends: Vec<Position> = self.streams().into_iter().map(end).collect();
        ends.iter().for_each(|end| self.engine.wait(end, self.strategy()));
        ends
    }

    /// Waits for all that is queued in any stream of the context, unless no work uses what the call gives back.
    pub(crate) fn wait_to_give_back(&self, call: &Call<'_>) {
        if !call.is_of_unused {
            self.wait_for_all();
        }
    }
}

impl Engine {
    /// Returns when the place is reached.
    pub(crate) fn wait(&self, position: &Position, strategy: WaitStrategy) {
        self.wait_for(&position.stream, position.sequence, strategy);
    }

    /// Returns when the entry of that number is complete.
    pub(crate) fn wait_for(&self, stream: &Arc<StreamState>, sequence: u64, strategy: WaitStrategy) {
        let is_complete = || stream.completion.is_complete(sequence);
        if is_complete() {
            return;
        }
        if self.is_deterministic() {
            return self.wait_stepping(is_complete);
        }
        let mut looks = strategy.looks();
        let mut registered = false;
        let mut path = SmallVec::new();
        while !is_complete() {
            let help = self.help(stream, sequence, &mut path);
            if matches!(help, Help::Progress) {
                continue;
            }
            if looks > 0 {
                for _ in 0..looks.min(64) {
                    if is_complete() {
                        return;
                    }
                    if strategy == WaitStrategy::Yield {
                        std::thread::yield_now();
                    } else {
                        std::hint::spin_loop();
                    }
                }
                looks = looks.saturating_sub(64);
                continue;
            }
            if !registered {
                let waiter = Waiter::Thread(std::thread::current());
                registered = stream.completion.register(sequence, waiter).is_none();
                // Once more before sleeping, in case there was something to help with meanwhile.
                continue;
            }
            std::thread::park_timeout(match help {
                Help::Value => VALUE_PAUSE,
                _ => LONGEST_PAUSE,
            });
        }
    }

    /// Runs the awaited stream, or the stream that keeps it from running. `path` leads there from the awaited stream, each
    /// place waiting for the next, and is kept between calls, so that a chain is not followed anew for each of its streams.
    fn help(&self, stream: &Arc<StreamState>, sequence: u64, path: &mut SmallVec<[Position; 4]>) -> Help {
        loop {
            while path.last().is_some_and(Position::is_complete) {
                path.pop();
            }
            let (stream, sequence) = path.last().map_or((stream, sequence), |last| (&last.stream, last.sequence));
            let inspection = stream.queue.claim_or_inspect();
            if !matches!(inspection, Inspection::Claimed(_)) && stream.completion.is_complete(sequence) {
                // What the stream is at may be what comes behind.
                return Help::Progress;
            }
            let next = match inspection {
                Inspection::Claimed(claim) => {
                    self.run(stream, claim, Pace::Until(sequence));
                    return Help::Progress;
                }
                Inspection::Taken => return Help::Taken,
                Inspection::Parked(ParkedOn::Stream(next)) => next,
                Inspection::Parked(ParkedOn::Work(work)) => {
                    return if work.help(self, stream, sequence) { Help::Progress } else { Help::Taken };
                }
                Inspection::Parked(ParkedOn::Value) => {
                    return if self.values.poll() { Help::Progress } else { Help::Value };
                }
            };
            path.push(next);
        }
    }

    /// What a query does for the work that it asks after, if whoever asks holds no lock: where the engine is deterministic, it runs
    /// one entry or node that is ready, chosen by the seed.
    #[inline]
    pub(crate) fn help_with_query(&self) {
        if self.is_deterministic() && Helping::is_entered() {
            require_none_held(Rank::LOWEST);
            self.step();
        }
    }

    /// Runs one entry of a stream, or one node of a graph, that is ready, chosen by the seed. `false`: none is ready.
    fn step(&self) -> bool {
        if !self.values.is_empty() {
            self.values.poll();
        }
        while let Some(task) = self.scheduler.take(|count| self.choose(count)) {
            if task.run(self, Pace::Single) {
                return true;
            }
        }
        false
    }

    fn wait_stepping(&self, is_complete: impl Fn() -> bool) {
        while !is_complete() {
            if !self.step() {
                // Another thread runs what is awaited, or it hangs on a value.
                std::thread::park_timeout(VALUE_PAUSE);
            }
        }
    }
}

impl WaitStrategy {
    fn looks(self) -> usize {
        match self {
            Self::Auto => 128,
            Self::Spin => 4096,
            Self::Yield => 256,
            Self::Sleep => 0,
        }
    }
}
