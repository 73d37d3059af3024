//! Streams with another owner.

use super::{Ownership, Stream};
use crate::context::Context;
use crate::error::Result;
use anabranch_hal::StreamHandle;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// A stream that another library owns, such as CuPy, PyTorch or cudarc, or that another [`Stream`] of this library
/// owns. It can be used like a [`Stream`], cannot outlive its owner, and destroys nothing when it is dropped.
pub struct BorrowedStream<'a> {
    stream: Stream,
    lifetime: PhantomData<&'a ()>,
}

impl<'a> BorrowedStream<'a> {
    /// Wraps the handle of a stream that another library owns.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let owner = context.create_stream()?;
    /// // `owner` stands for the object of another library that keeps the stream alive.
    /// let handle = owner.as_raw();
    /// // SAFETY: the handle is a live stream of this context for as long as `owner` is not dropped.
    /// let stream = unsafe { anabranch::BorrowedStream::from_raw(&context, handle)? };
    /// stream.launch_host_func(|| println!("on a stream of another library"))?;
    /// stream.synchronize()?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Safety
    /// For as long as `'a`, `handle` is a live stream of `context`, of the same driver. If the result is leaked, the caller
    /// keeps the stream live for as long as anything that was used with it exists. If a [guard](Stream::enter) of this
    /// stream is leaked, the caller keeps the stream live for as long as the thread uses its current stream.
    ///
    /// # Errors
    /// If the driver does not know the handle; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is
    /// capturing, unless this library already knows the stream.
    pub unsafe fn from_raw(context: &Context, handle: StreamHandle) -> Result<Self> {
        // SAFETY: the caller keeps the stream for as long as `'a`, which is longer than the result.
        let stream = unsafe { Stream::open(context, handle, Ownership::Foreign) }?;
        Ok(Self { stream, lifetime: PhantomData })
    }

    pub(super) fn of(stream: &'a Stream) -> Self {
        Self { stream: stream.same(), lifetime: PhantomData }
    }
}

impl Deref for BorrowedStream<'_> {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.stream
    }
}

impl fmt::Debug for BorrowedStream<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Borrowed{:?}", self.stream)
    }
}
