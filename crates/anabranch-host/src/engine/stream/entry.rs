//! What a queue holds.

use super::{Position, StreamState};
use crate::engine::core::{Engine, Task};
use crate::engine::observer::Operation;
use crate::engine::value::{NumberCondition, ValueCondition};
use anabranch_hal::{Callback, HostWork};
use smallbox::SmallBox;
use smallbox::space::S4;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// One entry of a stream's queue. Host work and work of up to 32 bytes are kept in place.
pub(crate) enum Entry {
    /// Host work, which is dropped once the context is lost.
    HostFunction(HostWork),
    /// A callback, which is given the status.
    Callback(Callback),
    /// A place of another stream that must be reached first.
    WaitFor(Position),
    /// A value in memory that must be there first.
    WaitValue(ValueCondition),
    /// A number that others share must be there first.
    WaitNumber(NumberCondition),
    /// Takes the time, in nanoseconds since the driver was made.
    TimeStamp(Arc<AtomicU64>),
    /// All other work.
    Work(SmallBox<dyn Work, S4>),
}

const _: () = assert!(size_of::<Option<Entry>>() <= 56, "an entry and its mark fill one cache line");

/// Work of a kind that the engine knows nothing of.
pub(crate) trait Work: Send {
    /// Runs it, as far as this thread can.
    fn run(&mut self, turn: &Turn<'_>) -> Outcome;

    /// What it still does when the context is lost.
    fn skip(&mut self, turn: &Turn<'_>) -> Outcome {
        let _ = turn;
        Outcome::Done
    }

    /// The memory that it uses. `None`: none that can be checked.
    fn operation(&self) -> Option<Operation> {
        None
    }

    /// Lets go of what it runs with, when no thread will run it any more.
    fn abandon(&mut self) {}
}

/// Where work runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) stream: &'a Arc<StreamState>,
    /// The number of the entry.
    pub(crate) sequence: u64,
}

/// What became of work.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// Others go on with it, and it is to be run again.
    Parked(Arc<dyn JointWork>),
}

/// Work that several threads run, while the stream that it is in may be parked.
pub(crate) trait JointWork: Task {
    /// Notes that the stream is parked until the work is done. `false`: it is done already.
    fn park(&self) -> bool;

    /// Runs parts of it until none is ready, for a thread that waits for a place of a stream: only what comes before that. `true`:
    /// it ran some.
    fn help(self: Arc<Self>, engine: &Engine, stream: &Arc<StreamState>, sequence: u64) -> bool;
}

/// An entry of work, in place where it is small.
pub(crate) fn work(work: impl Work + 'static) -> Entry {
    Entry::Work(smallbox::smallbox!(work))
}

impl fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::HostFunction(_) => "HostFunction",
            Self::Callback(_) => "Callback",
            Self::WaitFor(_) => "WaitFor",
            Self::WaitValue(_) => "WaitValue",
            Self::WaitNumber(_) => "WaitNumber",
            Self::TimeStamp(_) => "TimeStamp",
            Self::Work(_) => "Work",
        })
    }
}
