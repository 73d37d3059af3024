//! Copies between pieces of memory.

use super::{BufferSlice, BufferSliceMut};
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_hal::{CopyKind, DevicePointer, Status};
use bytemuck::Pod;

const OPERATION: &str = "copying";

pub(crate) fn require_equal_lengths(destination: usize, source: usize) -> Result<()> {
    if destination == source {
        return Ok(());
    }
    Err(Error::argument(
        Status::INVALID_VALUE,
        OPERATION,
        format!("the destination has {destination} elements and the source {source}; slice one to the other's length"),
    ))
}

impl Stream {
    /// Copies in stream order between device memory, pinned memory and managed memory, in any combination, and returns
    /// at once. The exception is a copy between two pinned buffers, which blocks. For copies between devices or
    /// contexts, see [`copy_peer`](Self::copy_peer).
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let mut pinned = context.allocate_pinned::<u32>(4)?;
    /// pinned.as_mut_slice()?.copy_from_slice(&[1, 2, 3, 4]);
    /// let mut buffer = stream.allocate_zeroed::<u32>(4)?;
    /// stream.copy(&mut buffer, &pinned)?;
    /// stream.copy(buffer.slice_mut(..2)?, pinned.slice(2..)?)?; // parts of both
    /// stream.copy(&mut pinned, &buffer)?;
    /// assert_eq!(pinned.as_slice()?, [3, 4, 3, 4]); // waits for the copy
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the lengths differ;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if a buffer belongs to another context.
    #[track_caller]
    pub fn copy<'d, 's, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: impl Into<BufferSlice<'s, T>>,
    ) -> Result<()> {
        let (destination, source) = (destination.into(), source.into());
        require_equal_lengths(destination.len(), source.len())?;
        let core = self.core();
        let (read, written) = (source.allocation(), destination.allocation());
        if source.byte_len() == 0 {
            read.require_context(core, OPERATION)?;
            return written.require_context(core, OPERATION);
        }
        // SAFETY: both ranges are within their memory, and equally long. The destination is borrowed exclusively.
        unsafe { core.copy(destination.end(), source.end(), source.byte_len()) }
    }

    /// Copies device memory of one context to device memory of another, in stream order, and returns at once. The
    /// stream belongs to either context. [`Context::enable_peer_access`](crate::Context::enable_peer_access) makes it
    /// faster, but is not required.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the lengths differ;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the stream belongs to neither context;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the devices belong to different back ends;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, which invalidates the capture, or a capture that has not ended uses the memory.
    #[track_caller]
    pub fn copy_peer<'d, 's, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: impl Into<BufferSlice<'s, T>>,
    ) -> Result<()> {
        let (destination, source) = (destination.into(), source.into());
        require_equal_lengths(destination.len(), source.len())?;
        if source.byte_len() == 0 {
            return destination.allocation().context().require_same_driver(source.allocation().context(), OPERATION);
        }
        // SAFETY: both ranges are within their memory, and equally long. The destination is borrowed exclusively.
        unsafe { self.core().copy_peer(destination.end(), source.end(), source.byte_len()) }
    }

    /// Copies from plain host memory in stream order. Returns when the copy is complete, so that `source` can be
    /// changed again. For a copy that does not block, use a [`PinnedBuffer`](crate::PinnedBuffer) or a
    /// [scope](Self::sync_scope).
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the lengths differ;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the buffer belongs to another context;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, or a capture uses the buffer.
    #[track_caller]
    pub fn copy_from_host<'d, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: &[T],
    ) -> Result<()> {
        self.scope_of(OPERATION, |scope| scope.copy_from_host(destination, source))
    }

    /// Copies to plain host memory in stream order. Returns when the copy is complete.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the lengths differ;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the buffer belongs to another context;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, or a capture uses the buffer; an error of earlier work that the copy depends on.
    #[track_caller]
    pub fn copy_to_host<'s, T: Pod>(&self, destination: &mut [T], source: impl Into<BufferSlice<'s, T>>) -> Result<()> {
        self.scope_of(OPERATION, |scope| scope.copy_to_host(destination, source))
    }

    /// Queues a copy from plain host memory, and may return before it is complete.
    ///
    /// # Safety
    /// `source` is neither freed nor changed until the copy has run.
    ///
    /// # Errors
    /// Same as [`copy_from_host`](Self::copy_from_host).
    #[track_caller]
    pub unsafe fn copy_from_host_unchecked<'d, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'d, T>>,
        source: &[T],
    ) -> Result<()> {
        let destination = destination.into();
        require_equal_lengths(destination.len(), source.len())?;
        if destination.byte_len() == 0 {
            return destination.allocation().require_context(self.core(), OPERATION);
        }
        // SAFETY: the destination is within its memory, and as long as the source, which the caller keeps unchanged until the
        // copy has run.
        unsafe { self.core().copy_from_host(destination.end(), source.as_ptr().cast(), destination.byte_len()) }
    }

    /// Queues a copy to plain host memory, and may return before it is complete.
    ///
    /// # Safety
    /// `destination` is neither freed nor used until the copy has run.
    ///
    /// # Errors
    /// Same as [`copy_to_host`](Self::copy_to_host).
    #[track_caller]
    pub unsafe fn copy_to_host_unchecked<'s, T: Pod>(
        &self,
        destination: &mut [T],
        source: impl Into<BufferSlice<'s, T>>,
    ) -> Result<()> {
        let source = source.into();
        require_equal_lengths(destination.len(), source.len())?;
        if source.byte_len() == 0 {
            return source.allocation().require_context(self.core(), OPERATION);
        }
        // SAFETY: the source is within its memory, and as long as the destination, which nobody uses until the copy has run, as
        // the caller promises.
        unsafe { self.core().copy_to_host(destination.as_mut_ptr().cast(), source.end(), source.byte_len()) }
    }

    /// Copies `bytes` bytes between two addresses in stream order. The library does not order the copy with other uses
    /// of the memory.
    ///
    /// # Safety
    /// Both ranges are valid until the copy has run. The caller orders it with other uses of the memory.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[track_caller]
    pub unsafe fn copy_raw(&self, destination: DevicePointer, source: DevicePointer, bytes: usize) -> Result<()> {
        // SAFETY: the caller keeps both ranges valid until the copy has run, and orders it with other uses.
        unsafe { self.core().copy_addresses(OPERATION, &[], CopyKind::Inferred, destination.0, source.0, bytes) }
    }
}
