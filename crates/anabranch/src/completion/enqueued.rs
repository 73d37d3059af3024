//! The future of work with a value.

use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_core::completion::Completion;
use anabranch_hal::Status;
use futures_core::FusedFuture;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

/// A future that returns a value when the work that was queued with it is complete. See
/// [`Stream::enqueue_async`](crate::Stream::enqueue_async).
///
/// It behaves like [`Completion`], but returns its value only once. Polled again, it returns the error that it ended
/// with, or otherwise [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE). Dropping the future drops the
/// value, and so does an error. Buffers are freed in stream order.
#[must_use = "a future says nothing unless it is awaited"]
pub struct Enqueued<T> {
    completion: Completion,
    value: Option<T>,
    terminated: bool,
}

/// The value is moved, and never pinned.
impl<T> Unpin for Enqueued<T> {}

impl<T> Enqueued<T> {
    pub(super) fn new(completion: Completion, value: Option<T>) -> Self {
        Self { completion, value, terminated: false }
    }

    /// The future also reports a panic of work of these streams, which is complete when the future is ready.
    pub(crate) fn checking<'s>(mut self, streams: impl IntoIterator<Item = &'s Stream>) -> Self {
        streams.into_iter().for_each(|stream| self.completion.check_also(stream.core()));
        self
    }

    /// Whether it is already known that there will be no value.
    pub(super) fn has_failed(&self) -> bool {
        self.value.is_none()
    }
}

impl<T> Future for Enqueued<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<T>> {
        let result = ready!(Pin::new(&mut self.completion).poll(task));
        self.terminated = true;
        let value = self.value.take();
        Poll::Ready(result.and_then(|()| {
            value.ok_or_else(|| {
                Error::argument(Status::ILLEGAL_STATE, super::OPERATION, "the value was given out before")
                    .with_hint("do not poll a future again when it was ready")
            })
        }))
    }
}

impl<T> FusedFuture for Enqueued<T> {
    fn is_terminated(&self) -> bool {
        self.terminated
    }
}

impl<T> fmt::Debug for Enqueued<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Enqueued({:?})", self.completion)
    }
}
