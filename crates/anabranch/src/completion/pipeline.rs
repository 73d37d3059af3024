//! Chunks of work, of which a limited number is in flight.

use super::enqueued::Enqueued;
use crate::error::Result;
use crate::stream::Stream;
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
/// Dropping the pipeline drops the results that were not taken. Work in flight continues.
#[must_use = "a pipeline does nothing unless it is polled"]
pub struct Pipeline<S, I: Iterator, F, T> {
    stream: S,
    depth: usize,
    inputs: Fuse<I>,
    enqueue: F,
    flying: VecDeque<Enqueued<T>>,
    failed: bool,
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
        Self { stream, depth, inputs: inputs.into_iter().fuse(), enqueue, flying, failed: false }
    }

    /// Queues as many chunks as may be in flight.
    fn fill(&mut self) {
        while !self.failed && self.flying.len() < self.depth {
            let Some(input) = self.inputs.next() else { return };
            let chunk = self.stream.enqueue_async(|stream| (self.enqueue)(stream, input));
            // After work that could not be queued nothing is, so that no result is missing between others.
            self.failed = chunk.has_failed();
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
        let Some(first) = self.flying.front_mut() else { return Poll::Ready(None) };
        let result = ready!(Pin::new(first).poll(task));
        self.flying.pop_front();
        if result.is_err() {
            self.failed = true;
            self.flying.clear();
        }
        Poll::Ready(Some(result))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.failed {
            return (0, Some(self.flying.len()));
        }
        let (_, most) = self.inputs.size_hint();
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
        self.failed && self.flying.is_empty()
    }
}

impl<S, I: Iterator, F, T> fmt::Debug for Pipeline<S, I, F, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pipeline({} of {} in flight)", self.flying.len(), self.depth)
    }
}
