//! Transfers from and to plain memory through staging memory.

use crate::error::{Error, Result};
use crate::memory::{Buffer, BufferSlice, copy_from_on_host, uncaptured, zeroed_vector};
use crate::stream::Stream;
use anabranch_core::completion::Completion;
use anabranch_core::memory::byte_size;
use anabranch_core::staging::StagingBlock;
use anabranch_core::submission::refuse_captured_memory;
use anabranch_hal::Status;
use bytemuck::Pod;
use futures_core::FusedFuture;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

const OPERATION: &str = "transferring";

/// Staging memory, and the work that uses it.
struct Transfer {
    completion: Completion,
    /// `None` if nothing is transferred, or the block was returned.
    block: Option<StagingBlock>,
    terminated: bool,
}

impl Transfer {
    /// Waits for the work that was just queued, which uses the block.
    fn new(stream: &Stream, block: Option<StagingBlock>) -> Self {
        let completion = Completion::of_stream(stream.core(), true);
        // If it is not known when the work is over, the block is not used again.
        let block = block.filter(|_| !completion.is_over());
        Self { completion, block, terminated: false }
    }

    fn failed(error: Error) -> Self {
        Self { completion: Completion::failed(error), block: None, terminated: false }
    }

    /// When the work is complete, returns what `finish` makes of the block, if there is one.
    fn poll<R>(
        &mut self,
        task: &mut TaskContext<'_>,
        finish: impl FnOnce(Option<&StagingBlock>) -> Result<R>,
    ) -> Poll<Result<R>> {
        let result = ready!(Pin::new(&mut self.completion).poll(task));
        self.terminated = true;
        let block = self.block.take();
        Poll::Ready(result.and_then(|()| {
            let result = finish(block.as_ref());
            if let Some(block) = block {
                block.give_back();
            }
            result
        }))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Some(block) = self.block.take()
            && let Some(work) = self.completion.abandon()
        {
            block.give_back_after(work);
        }
    }
}

/// The result was already returned.
#[cold]
fn given_out() -> Error {
    Error::argument(Status::ILLEGAL_STATE, OPERATION, "the result was given out before")
        .with_hint("do not poll a future again when it was ready")
}

/// A block for that many elements, and the address of the elements in it, or `None` if there is nothing to transfer.
fn stage<T: Pod>(stream: &Stream, length: usize) -> Result<Option<(StagingBlock, *mut T)>> {
    let bytes = byte_size::<T>(length, OPERATION)?;
    if bytes == 0 {
        return Ok(None);
    }
    let block = StagingBlock::take(stream.core().context(), bytes)?;
    match block.pointer(length, size_of::<T>(), align_of::<T>()) {
        Ok(pointer) => Ok(Some((block, pointer.cast()))),
        Err(error) => {
            block.give_back();
            Err(error)
        }
    }
}

/// A future that returns a buffer when the upload is complete. See
/// [`Stream::upload_async`](crate::Stream::upload_async).
///
/// It behaves like [`Completion`], but returns its buffer only once. Polled again, it returns the error that it ended
/// with, or otherwise [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE). Dropping the future frees the
/// buffer after the copy.
#[must_use = "a future says nothing unless it is awaited"]
pub struct Upload<T> {
    transfer: Transfer,
    buffer: Option<Buffer<T>>,
}

/// Nothing of it is pinned.
impl<T> Unpin for Upload<T> {}

impl<T: Pod> Upload<T> {
    pub(super) fn queue(stream: &Stream, source: &[T]) -> Self {
        match uncaptured(stream, "uploading", || Self::queue_copy(stream, source)) {
            Ok((block, buffer)) => Self { transfer: Transfer::new(stream, block), buffer: Some(buffer) },
            Err(error) => Self { transfer: Transfer::failed(error), buffer: None },
        }
    }

    fn queue_copy(stream: &Stream, source: &[T]) -> Result<(Option<StagingBlock>, Buffer<T>)> {
        // SAFETY: whatever else is done with the buffer comes behind the copy. If that is not queued, nobody gets the buffer.
        let mut buffer = unsafe { stream.allocate_uninitialized(source.len()) }?;
        let Some((block, pointer)) = stage::<T>(stream, source.len())? else { return Ok((None, buffer)) };
        // SAFETY: the block has room for so many elements, and is used by nobody else.
        unsafe { pointer.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
        // SAFETY: the elements were just written.
        let staged = unsafe { std::slice::from_raw_parts(pointer, source.len()) };
        // SAFETY: the block is freed, or used by somebody else, only when the copy is over.
        unsafe { stream.copy_from_host_unchecked(&mut buffer, staged) }?;
        Ok((Some(block), buffer))
    }
}

impl<T> Future for Upload<T> {
    type Output = Result<Buffer<T>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<Buffer<T>>> {
        let this = &mut *self;
        let result = ready!(this.transfer.poll(task, |_| Ok(())));
        let buffer = this.buffer.take();
        Poll::Ready(result.and_then(|()| buffer.ok_or_else(given_out)))
    }
}

impl<T> FusedFuture for Upload<T> {
    fn is_terminated(&self) -> bool {
        self.transfer.terminated
    }
}

impl<T> fmt::Debug for Upload<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Upload({:?})", self.transfer.completion)
    }
}

/// A future that returns the elements of a buffer. See [`Stream::download_async`](crate::Stream::download_async).
///
/// It behaves like [`Completion`], but returns its vector only once. Polled again, it returns the error that it ended
/// with, or otherwise [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE).
#[must_use = "a future says nothing unless it is awaited"]
pub struct Download<T> {
    transfer: Transfer,
    /// The number of elements, until they are returned.
    length: Option<usize>,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> Download<T> {
    pub(super) fn queue(stream: &Stream, source: BufferSlice<'_, T>) -> Self {
        let length = Some(source.len());
        let transfer = match uncaptured(stream, "downloading", || Self::queue_copy(stream, source)) {
            Ok(block) => Transfer::new(stream, block),
            Err(error) => Transfer::failed(error),
        };
        Self { transfer, length, element: PhantomData }
    }

    fn queue_copy(stream: &Stream, source: BufferSlice<'_, T>) -> Result<Option<StagingBlock>> {
        let operation = "downloading";
        source.allocation().require_context(stream.core(), operation)?;
        refuse_captured_memory(source.allocation(), stream.core(), operation)?;
        let Some((block, pointer)) = stage::<T>(stream, source.len())? else { return Ok(None) };
        if source.allocation().is_pinned() {
            // SAFETY: the block has room for so many elements. It is freed, or used by somebody else, only when the copy is
            // over.
            unsafe { copy_from_on_host(stream, pointer.cast(), source) }?;
        } else {
            // SAFETY: blocks are initialised, this one has room for so many elements, and nobody else uses it.
            let staged = unsafe { std::slice::from_raw_parts_mut(pointer, source.len()) };
            // SAFETY: the block is freed, or used by somebody else, only when the copy is over.
            unsafe { stream.copy_to_host_unchecked(staged, source) }?;
        }
        Ok(Some(block))
    }
}

impl<T: Pod> Future for Download<T> {
    type Output = Result<Vec<T>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Result<Vec<T>>> {
        let this = &mut *self;
        let length = &mut this.length;
        this.transfer.poll(task, |block| {
            let length = length.take().ok_or_else(given_out)?;
            let mut elements = zeroed_vector::<T>(length, OPERATION)?;
            let Some(block) = block else { return Ok(elements) };
            let pointer = block.pointer(length, size_of::<T>(), align_of::<T>())?.cast::<T>();
            // SAFETY: the copy that has written the elements is complete, and nobody else uses the block.
            elements.copy_from_slice(unsafe { std::slice::from_raw_parts(pointer, length) });
            Ok(elements)
        })
    }
}

impl<T: Pod> FusedFuture for Download<T> {
    fn is_terminated(&self) -> bool {
        self.transfer.terminated
    }
}

impl<T> fmt::Debug for Download<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Download({:?})", self.transfer.completion)
    }
}
