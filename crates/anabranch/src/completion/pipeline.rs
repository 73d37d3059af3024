//! Chunks of work, of which a limited number is in flight.

use super::enqueued::Enqueued;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::Stream;
use anabranch_hal::{Status, contain};
use futures_core::{FusedStream, Stream as Chunks};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::iter::Fuse;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

/// The results of chunks of work, in order, as an asynchronous stream (of the crate `futures-core`). See
/// [`Stream::pipeline`].
///
/// At most `depth` chunks are in flight or waiting to be taken: the next input is taken after a result was taken. Work
/// is queued only by polling. The pipeline ends after the first error, which follows the results of the earlier chunks.
/// If the closure or the iterator panics while the pipeline is polled, the panic propagates, and no more inputs are
/// taken. Polled again, the pipeline returns the results of the earlier chunks, and then the error
/// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) in place of the chunk that is missing. Dropping the
/// pipeline drops the results that were not taken. Work in flight continues.
#[must_use = "a pipeline does nothing unless it is polled"]
pub struct Pipeline<S, I: Iterator, F, T> {
    stream: S,
    depth: usize,
    inputs: Fuse<I>,
    enqueue: F,
    flying: VecDeque<Enqueued<T>>,
    state: State,
}

/// Whether a pipeline takes more inputs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// No: the program's code is running, or it has unwound, and the error that stands for its input is still to come.
    Interrupted,
    /// No: a chunk has failed.
    Ended,
}

/// Nothing of it is pinned.
impl<S, I: Iterator, F, T> Unpin for Pipeline<S, I, F, T> {}

impl<S, I, F, T> Pipeline<S, I, F, T>
where
    S: Deref<Target = Stream>,
    I: Iterator,
    F: FnMut(&Stream, I::Item) -> Result<T>,
{
    /// Like [`Stream::pipeline`], for a stream in an [`Arc`](std::sync::Arc), so that the pipeline can be moved to a
    /// spawned task.
    pub fn new(stream: S, depth: usize, inputs: impl IntoIterator<IntoIter = I>, enqueue: F) -> Self {
        let depth = depth.max(1);
        let flying = VecDeque::with_capacity(depth.min(64));
        Self { stream, depth, inputs: inputs.into_iter().fuse(), enqueue, flying, state: State::Open }
    }

    /// Queues as many chunks as may be in flight.
    fn fill(&mut self) {
        while self.state == State::Open && self.flying.len() < self.depth {
            // So it stays if the iterator or the closure unwinds.
            self.state = State::Interrupted;
            let input = self.inputs.next();
            let chunk = input.map(|input| self.stream.enqueue_async(|stream| (self.enqueue)(stream, input)));
            self.state = State::Open;
            let Some(chunk) = chunk else { return };
            // After work that could not be queued nothing is, so that no result is missing between others.
            if chunk.has_failed() {
                self.state = State::Ended;
            }
            self.flying.push_back(chunk);
        }
    }
}

impl<S, I, F, T> Chunks for Pipeline<S, I, F, T>
where
    S: Deref<Target = Stream>,
    I: Iterator,
    F: FnMut(&Stream, I::Item) -> Result<T>,
{
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Option<Result<T>>> {
        self.fill();
        let Some(first) = self.flying.front_mut() else {
            let interrupted = self.state == State::Interrupted;
            if interrupted {
                self.state = State::Ended;
            }
            return Poll::Ready(interrupted.then(|| Err(unwound())));
        };
        let result = ready!(Pin::new(first).poll(task));
        self.flying.pop_front();
        if result.is_err() {
            self.state = State::Ended;
            // The error is returned even if later results unwind when they are dropped.
            for chunk in std::mem::take(&mut self.flying) {
                let _ = contain(|| drop(chunk));
            }
        }
        Poll::Ready(Some(result))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let most = match self.state {
            State::Open => self.inputs.size_hint().1,
            State::Interrupted => Some(1),
            State::Ended => Some(0),
        };
        (0, most.and_then(|most| most.checked_add(self.flying.len())))
    }
}

impl<S, I, F, T> FusedStream for Pipeline<S, I, F, T>
where
    S: Deref<Target = Stream>,
    I: Iterator,
    F: FnMut(&Stream, I::Item) -> Result<T>,
{
    /// Whether the pipeline has ended with an error. The end of the inputs is noticed only by polling.
    fn is_terminated(&self) -> bool {
        self.state == State::Ended && self.flying.is_empty()
    }
}

/// The error in place of a chunk whose input was taken.
#[cold]
fn unwound() -> Error {
    Error::new(ErrorKind::Panicked, Status::ILLEGAL_STATE, "queueing a chunk")
        .with_message("the iterator or the closure of the pipeline panicked, and an input is missing")
        .with_hint("make another pipeline for the inputs from there on")
}

impl<S, I: Iterator, F, T> fmt::Debug for Pipeline<S, I, F, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pipeline({} of {} in flight)", self.flying.len(), self.depth)
    }
}
