//! Where operations are run: a stream, or a pool of streams of which parts of an operation have one each.

use super::OPERATION;
use super::pool::{Lane, StreamPool};
use crate::capture::CaptureScope;
use crate::error::Result;
use crate::stream::{BorrowedStream, Stream};
use anabranch_hal::contain;

/// The stream of an operation, and the pool that it is of.
#[derive(Clone, Copy)]
pub struct Place<'p> {
    pub(super) stream: &'p Stream,
    pub(super) pool: Option<&'p StreamPool>,
}

/// A stream that has left another one. The drop of the lane notes its work for the policy of the pool.
struct Fork<'p> {
    place: Place<'p>,
    _lane: Lane<'p>,
}

/// Streams that have left that of a place, their origin. They join it, also if queueing their work fails or unwinds.
pub(super) struct Forks<'p> {
    origin: Place<'p>,
    forks: Vec<Fork<'p>>,
}

impl<'p> Forks<'p> {
    /// None yet.
    pub(super) fn new(origin: Place<'p>) -> Self {
        Self { origin, forks: Vec::new() }
    }

    /// Up to `count` other streams of the pool leave, whose later work comes behind that of the origin.
    pub(super) fn leave(&mut self, count: usize) -> Result<()> {
        let Some(pool) = self.origin.pool else { return Ok(()) };
        while self.forks.len() < count {
            let taken = |stream: &Stream| {
                stream == self.origin.stream || self.forks.iter().any(|fork| fork.place.stream == stream)
            };
            let Some(lane) = pool.choose(taken) else { break };
            let fork = Fork { place: Place { stream: lane.stream(), pool: Some(pool) }, _lane: lane };
            fork.place.stream.core().refuse_while_capturing(OPERATION)?;
            fork.place.stream.wait_stream(self.origin.stream)?;
            self.forks.push(fork);
        }
        Ok(())
    }

    /// The place of one part. They take turns, and the first has that of the origin.
    pub(super) fn place(&self, part: usize) -> &Place<'p> {
        let turn = part % (self.forks.len() + 1);
        turn.checked_sub(1).and_then(|fork| self.forks.get(fork)).map_or(&self.origin, |fork| &fork.place)
    }

    /// The streams that have left.
    pub(super) fn streams(&self) -> impl Iterator<Item = &'p Stream> {
        self.forks.iter().map(|fork| fork.place.stream)
    }

    /// Makes later work of the stream come behind all that is in the forks.
    pub(super) fn join(mut self) -> Result<()> {
        self.join_all()
    }

    fn join_all(&mut self) -> Result<()> {
        let join = |fork: Fork<'_>| self.origin.stream.wait_stream(fork.place.stream);
        self.forks.drain(..).map(join).fold(Ok(()), Result::and)
    }
}

impl Drop for Forks<'_> {
    fn drop(&mut self) {
        // This may be the end of unwinding, and a driver that unwinds too would end the process.
        let _ = contain(|| self.join_all());
    }
}

mod sealed {
    use super::Place;

    pub trait Target {
        /// Calls `queue` with a place of the target.
        fn with_place<R>(&self, queue: impl FnOnce(&Place<'_>) -> R) -> R;
    }
}
pub(super) use sealed::Target;

/// What an [`Operation`](crate::Operation) is run on: a [`Stream`], or a [`StreamPool`]; and in a capture, its
/// [scope](CaptureScope).
pub trait RunTarget: sealed::Target {}

impl Target for Stream {
    fn with_place<R>(&self, queue: impl FnOnce(&Place<'_>) -> R) -> R {
        queue(&Place { stream: self, pool: None })
    }
}

impl RunTarget for Stream {}

impl Target for BorrowedStream<'_> {
    fn with_place<R>(&self, queue: impl FnOnce(&Place<'_>) -> R) -> R {
        Stream::with_place(self, queue)
    }
}

impl RunTarget for BorrowedStream<'_> {}

impl Target for CaptureScope<'_> {
    fn with_place<R>(&self, queue: impl FnOnce(&Place<'_>) -> R) -> R {
        Stream::with_place(self, queue)
    }
}

impl RunTarget for CaptureScope<'_> {}

impl Target for StreamPool {
    fn with_place<R>(&self, queue: impl FnOnce(&Place<'_>) -> R) -> R {
        let lane = self.lane();
        queue(&Place { stream: lane.stream(), pool: Some(self) })
    }
}

impl RunTarget for StreamPool {}
