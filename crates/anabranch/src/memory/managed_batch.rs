//! Managed memory: moved and discarded in batches.

use super::batch::gathered;
use super::{BufferSlice, BufferSliceMut};
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_core::managed::BatchRange;
use anabranch_core::memory::Origin;
use anabranch_hal::{ManagedRange, MemoryLocation, Status};
use bytemuck::Pod;
use std::marker::PhantomData;

/// A range of managed memory for [`Stream::prefetch_batch`].
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is moved before the batch is submitted"]
pub struct Prefetch<'a>(BatchRange<'a>);

/// A range of managed memory for [`Stream::discard_batch`]. It borrows the memory exclusively.
#[derive(Debug)]
#[must_use = "nothing is discarded before the batch is submitted"]
pub struct Discard<'a> {
    range: BatchRange<'a>,
    exclusive: PhantomData<&'a mut [u8]>,
}

fn managed<'a, T: Pod>(
    slice: BufferSlice<'a, T>,
    location: Option<MemoryLocation>,
    operation: &'static str,
) -> Result<BatchRange<'a>> {
    let memory = slice.allocation();
    // The driver knows what memory of others is.
    if !matches!(memory.origin(), Origin::Managed | Origin::Foreign(_) | Origin::Part { .. }) {
        return Err(Error::argument(Status::INVALID_VALUE, operation, "the memory is not managed")
            .with_hint("use Context::allocate_managed; other memory stays where it is"));
    }
    let range = ManagedRange { address: slice.device_pointer(), bytes: slice.byte_len() };
    Ok(BatchRange { memory, range, location })
}

impl<'a> Prefetch<'a> {
    /// Moves managed memory to a device or to the host.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the memory is not managed.
    pub fn new<T: Pod>(memory: impl Into<BufferSlice<'a, T>>, location: MemoryLocation) -> Result<Self> {
        managed(memory.into(), Some(location), "prefetching a batch").map(Self)
    }
}

impl<'a> Discard<'a> {
    /// Discards the contents of managed memory.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the memory is not managed.
    pub fn new<T: Pod>(memory: impl Into<BufferSliceMut<'a, T>>) -> Result<Self> {
        let range = managed(memory.into().into(), None, "discarding managed memory")?;
        Ok(Self { range, exclusive: PhantomData })
    }

    /// Afterwards moves the memory to a device or to the host, which copies nothing.
    pub fn then_prefetch(mut self, location: MemoryLocation) -> Self {
        self.range.location = Some(location);
        self
    }
}

/// The ranges that are not empty. All belong to the stream's context.
#[track_caller]
fn submitted<'a>(
    stream: &Stream,
    ranges: impl Iterator<Item = BatchRange<'a>>,
    operation: &'static str,
) -> Result<Vec<BatchRange<'a>>> {
    let mut ranges = gathered(ranges);
    ranges.iter().try_for_each(|range| range.memory.require_context(stream.core(), operation))?;
    ranges.retain(|range| range.range.bytes > 0);
    Ok(ranges)
}

impl Stream {
    /// Moves several ranges of managed memory in stream order, ahead of their use there (`cuMemPrefetchBatchAsync`). They have no
    /// order among each other. This is a hint and never changes results. Drivers before CUDA 13.0, and the legacy default stream,
    /// move one range after the other, and know the host as one place.
    ///
    /// ```
    /// use anabranch::{MemoryLocation, Prefetch};
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let (input, output) = (context.allocate_managed::<u32>(100)?, context.allocate_managed::<f32>(100)?);
    /// let device = MemoryLocation::Device(context.device().ordinal());
    /// stream.prefetch_batch([Prefetch::new(&input, device)?, Prefetch::new(output.slice(..50)?, MemoryLocation::Host)?])?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if a device of the system has no concurrent
    /// managed access; [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if memory belongs to another
    /// context; [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for a place that does not exist;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, or a capture uses the memory, which invalidates no capture.
    #[track_caller]
    pub fn prefetch_batch<'a>(&self, ranges: impl IntoIterator<Item = Prefetch<'a>>) -> Result<()> {
        let ranges = submitted(self, ranges.into_iter().map(|range| range.0), "prefetching a batch")?;
        if ranges.is_empty() {
            return Ok(());
        }
        // SAFETY: the ranges are those of slices, which are within their memory.
        unsafe { self.core().prefetch_batch(&ranges) }
    }

    /// Says in stream order that the contents of several ranges of managed memory are not needed any more, so that they need not
    /// be moved (`cuMemDiscardBatchAsync`, `cuMemDiscardAndPrefetchBatchAsync`). The ranges have no order among each other.
    /// Drivers before CUDA 13.0, and the legacy default stream, leave the contents as they are, and only move ranges.
    ///
    /// ```
    /// use anabranch::{Discard, MemoryLocation};
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let mut scratch = context.allocate_managed::<u32>(100)?;
    /// let device = MemoryLocation::Device(context.device().ordinal());
    /// // SAFETY: the memory is filled before it is read.
    /// unsafe { stream.discard_batch([Discard::new(&mut scratch)?.then_prefetch(device)]) }?;
    /// stream.fill(&mut scratch, 7)?;
    /// assert_eq!(scratch.as_slice()?[99], 7);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Safety
    /// The elements are not read before they are written by what comes behind this: also not by the host, and not by graphs. Who
    /// reads them finds any values, and other values each time. Being moved does not count as being written.
    ///
    /// # Errors
    /// Same as [`prefetch_batch`](Self::prefetch_batch). The contents may be discarded all the same.
    #[track_caller]
    pub unsafe fn discard_batch<'a>(&self, ranges: impl IntoIterator<Item = Discard<'a>>) -> Result<()> {
        let ranges = submitted(self, ranges.into_iter().map(|range| range.range), "discarding managed memory")?;
        if ranges.is_empty() {
            return Ok(());
        }
        // SAFETY: the ranges are those of slices, which are within their memory and borrowed exclusively. The caller promises that
        // nobody reads them before they are written.
        unsafe { self.core().discard_batch(&ranges) }
    }
}
