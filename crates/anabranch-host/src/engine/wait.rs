//! How a host thread waits: it runs what it waits for, as far as that is ready, and sleeps only behind other threads.
//!
//! Work that is queued and then waited for thus runs without a change of thread. A waiting thread runs nothing but the
//! awaited stream and the streams that this one waits for; anything else could keep it for long after its wait is over.

use super::Engine;
use super::queue::Inspection;
use super::run::Pace;
use super::scheduler::Task;
use super::stream::{ParkedOn, Position, StreamState, Waiter};
use std::sync::Arc;
use std::time::Duration;

/// How a thread waits while others do the work (a hint).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Looks on for about as long as a change of thread takes, then sleeps.
    Auto,
    /// Looks on for longer.
    Spin,
    /// Lets other threads run while it looks on.
    Yield,
    /// Sleeps at once.
    Sleep,
}

/// The longest chain of waits that is followed for something to run.
const LONGEST_CHAIN: usize = 64;

/// The pause of a waiting thread behind a wait for a value, which no other thread may be looking after.
const VALUE_PAUSE: Duration = Duration::from_micros(50);

/// What a thread found when it wanted to help.
enum Help {
    /// Something was run, or came true.
    Progress,
    /// Other threads are at it.
    Taken,
    /// It all hangs on a value in memory.
    Value,
}

impl Engine {
    /// Returns when the place is reached.
    pub(crate) fn wait(&self, position: &Position, patience: Patience) {
        if position.is_complete() {
            return;
        }
        if self.is_deterministic() {
            self.wait_stepping(position);
            return;
        }
        let mut looks = patience.looks();
        let mut registered = false;
        while !position.is_complete() {
            let help = self.help(position);
            if matches!(help, Help::Progress) {
                continue;
            }
            if looks > 0 {
                for _ in 0..looks.min(64) {
                    if position.is_complete() {
                        return;
                    }
                    if patience == Patience::Yield {
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
                registered = position.stream.completion.register(position.sequence, waiter).is_none();
                // Once more before sleeping, in case there was something to help with meanwhile.
                continue;
            }
            match help {
                Help::Value => std::thread::park_timeout(VALUE_PAUSE),
                Help::Taken | Help::Progress => std::thread::park(),
            }
        }
    }

    /// Runs the awaited stream, or the stream that keeps it from running.
    fn help(&self, position: &Position) -> Help {
        let mut current = position.clone();
        for _ in 0..LONGEST_CHAIN {
            match current.stream.queue.claim_or_inspect() {
                Inspection::Claimed(claim) => {
                    self.run(&current.stream, claim, Pace::Until(current.sequence));
                    return Help::Progress;
                }
                Inspection::Taken => return Help::Taken,
                Inspection::Parked(ParkedOn::Stream(next)) => current = next,
                Inspection::Parked(ParkedOn::Graph(run)) => {
                    return if run.take_part(self) { Help::Progress } else { Help::Taken };
                }
                Inspection::Parked(ParkedOn::Value) => {
                    return if self.values.poll() { Help::Progress } else { Help::Value };
                }
            }
        }
        Help::Taken
    }

    /// Waits until no more than half of what a queue may hold is left.
    #[cold]
    pub(crate) fn drain_to_half(&self, stream: &Arc<StreamState>) {
        let end = stream.queue.enqueued();
        let sequence = end.saturating_sub(self.queue_limit as u64 / 2);
        self.wait(&Position { stream: Arc::clone(stream), sequence }, Patience::Auto);
    }

    /// A number below `count`, chosen by the seed.
    pub(crate) fn choose(&self, count: usize) -> usize {
        self.random.as_ref().map_or(0, |random| random.lock().below(count))
    }

    /// Runs one entry of a stream, or one node of a graph, that is ready, chosen by the seed. `false`: none is ready.
    pub(crate) fn step(&self) -> bool {
        let Some(random) = &self.random else { return false };
        if !self.values.is_empty() {
            self.values.poll();
        }
        while let Some(task) = self.scheduler.take(|count| random.lock().below(count)) {
            match task {
                Task::Stream(stream) => {
                    if let Some(claim) = stream.queue.claim_by_token() {
                        self.run(&stream, claim, Pace::Single);
                        return true;
                    }
                }
                Task::Graph(run) => {
                    if run.take_token(self) {
                        return true;
                    }
                }
                Task::Share(share) => share.take_part(),
            }
        }
        false
    }

    fn wait_stepping(&self, position: &Position) {
        while !position.is_complete() {
            if !self.step() {
                // Another thread runs what is awaited, or it hangs on a value.
                std::thread::park_timeout(VALUE_PAUSE);
            }
        }
    }
}

impl Patience {
    fn looks(self) -> usize {
        match self {
            Self::Auto => 128,
            Self::Spin => 4096,
            Self::Yield => 256,
            Self::Sleep => 0,
        }
    }
}
