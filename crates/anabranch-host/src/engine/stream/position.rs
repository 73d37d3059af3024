//! Places of streams, and who waits for them.

use super::{JointWork, StreamState};
use crate::engine::completion::Wake;
use crate::engine::value::Resume;
use anabranch_hal::KernelFault;
use std::fmt;
use std::sync::Arc;
use std::thread::Thread;

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

    /// The fault that has kept the work up to there from being done, if it is complete only because its context is lost.
    #[inline]
    pub(crate) fn undone(&self) -> Option<&KernelFault> {
        // Noted before the place is complete.
        let complete = self.is_complete();
        self.stream.undone.get().filter(|(first, _)| complete && *first <= self.sequence).map(|(_, fault)| fault)
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of stream {}", self.sequence, self.stream.id)
    }
}

/// What a parked stream waits for.
#[derive(Clone, Debug)]
pub(crate) enum ParkedOn {
    Stream(Position),
    Value,
    /// The rest of work that several threads run.
    Work(Arc<dyn JointWork>),
}

/// Who waits for a place of a stream.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A parked stream.
    Stream(Arc<StreamState>),
    /// A thread that synchronizes.
    Thread(Thread),
    /// Something that the engine knows nothing of.
    Other(Box<dyn Resume>),
}

impl Wake for Waiter {
    fn wake(self) {
        match self {
            Self::Stream(stream) => stream.unpark(false),
            Self::Thread(thread) => thread.unpark(),
            Self::Other(waiter) => waiter.resume(),
        }
    }
}

/// A parked stream that waits for a value.
#[derive(Debug)]
pub(crate) struct ValueWait(pub(crate) Arc<StreamState>);

impl Resume for ValueWait {
    fn resume(self: Box<Self>) {
        self.0.unpark(true);
    }

    fn is_lost(&self) -> bool {
        self.0.core.is_lost()
    }
}
