//! Streams with another owner.

use super::{Ownership, Stream};
use crate::context::{Context, device_of};
use crate::error::{Result, ResultExt};
use crate::instance::Instance;
use anabranch_core::context::ContextCore;
use anabranch_hal::{BackendKind, Live, StreamHandle};
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
    /// If the driver does not know the handle;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, unless this library already knows the stream.
    pub unsafe fn from_raw(context: &Context, handle: StreamHandle) -> Result<Self> {
        // SAFETY: the caller keeps the stream for as long as `'a`, which is longer than the result.
        unsafe { Stream::open(context, handle, Ownership::Foreign) }.map(Self::new)
    }

    fn new(stream: Stream) -> Self {
        Self { stream, lifetime: PhantomData }
    }

    pub(super) fn of(stream: &'a Stream) -> Self {
        Self::new(stream.same())
    }
}

impl Instance {
    /// Wraps the handle of a stream that another library owns, like [`BorrowedStream::from_raw`], where only the handle is
    /// known: the driver says which context and device the stream belongs to. A default stream belongs to the context that
    /// is current on the thread.
    ///
    /// ```
    /// # use anabranch::BackendKind;
    /// # let instance = anabranch::Instance::new()?;
    /// # let owner = instance.device("host")?.context()?.create_stream()?;
    /// // `owner` stands for the object of another library that keeps the stream alive.
    /// let handle = owner.as_raw();
    /// // SAFETY: the handle is a live stream of the software device for as long as `owner` is not dropped.
    /// let stream = unsafe { instance.stream_from_raw(BackendKind::Host, handle)? };
    /// assert_eq!(stream.context(), owner.context());
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Safety
    /// As for [`BorrowedStream::from_raw`], and `handle` is a stream of the driver that the instance uses for `backend`.
    ///
    /// # Errors
    /// Same as [`BorrowedStream::from_raw`]. [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the
    /// instance has no device of that back end, or not the stream's device.
    /// [`CUDA_ERROR_INVALID_CONTEXT (201)`](crate::Status::INVALID_CONTEXT) if another library has made the stream's
    /// context, so that nothing keeps it alive: open it with [`Context::from_raw`] first. The same for a default stream
    /// if no context is current; with drivers before CUDA 13.0, this may be so for any stream.
    pub unsafe fn stream_from_raw<'a>(&self, backend: BackendKind, handle: StreamHandle) -> Result<BorrowedStream<'a>> {
        let operation = "looking for the context of a stream";
        let first = self.device(&format!("{backend}:0"))?;
        let driver = first.core().driver();
        // SAFETY: the caller promises that the stream exists, and belongs to this driver.
        let owner = driver.stream_owner(unsafe { Live::new(handle) }).during(operation, || first.to_string())?;
        // SAFETY: a stream exists no longer than its context, and a default stream is that of the current context.
        let ordinal = driver.context_device(unsafe { Live::new(owner) }).during(operation, || first.to_string())?;
        let device = device_of(self, &first, ordinal, operation)?;
        let context = Context::from_core(ContextCore::find(device.core(), owner)?);
        // SAFETY: the caller keeps the stream for as long as `'a`.
        unsafe { BorrowedStream::from_raw(&context, handle) }
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
