//! Several copies in one call, and copies with hints.

mod region;

pub use region::BatchRegion;

use super::{BufferSlice, BufferSliceMut, require_equal_lengths};
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::batch::{self, CopySource};
use anabranch_core::memory::Allocation;
use anabranch_core::work::CopyEnd;
use anabranch_hal::{CopyAttributes, CopyFlags, CopySourceOrder, MemoryLocation};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::sync::Arc;

const OPERATION: &str = "copying a batch";

/// What an iterator of the program returns. No memory is reserved for as many items as the iterator says, which may be any number:
/// reserving too much panics or ends the process.
pub(super) fn gathered<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut gathered = Vec::new();
    // `extend` and `collect` reserve.
    items.into_iter().for_each(|item| gathered.push(item));
    gathered
}

/// Hints for a copy (`CUmemcpyAttributes`). They never change what is copied, and drivers may ignore them.
///
/// Drivers before CUDA 12.8 have no hints, and a single copy of a region has none before CUDA 13.2 unless it is in a batch.
/// Captured copies and copies in the legacy default stream have none either. They are ignored there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyHints {
    /// Whether the copy should overlap with kernels, instead of being made by one.
    pub prefer_overlap_with_compute: bool,
    /// Where the source is, if it is managed memory or pageable memory that the device can access.
    pub source: Option<MemoryLocation>,
    /// Where the destination is, if it is managed memory.
    pub destination: Option<MemoryLocation>,
}

impl CopyHints {
    fn attributes(self, source_order: CopySourceOrder) -> CopyAttributes {
        let flag = CopyFlags::PREFER_OVERLAP_WITH_COMPUTE;
        CopyAttributes {
            source_order,
            source_hint: self.source,
            destination_hint: self.destination,
            flags: if self.prefer_overlap_with_compute { flag } else { CopyFlags::empty() },
        }
    }
}

/// A copy for [`Stream::copy_batch`]. It borrows its destination exclusively, so that copies of a batch do not race.
#[derive(Debug)]
#[must_use = "nothing is copied before the batch is submitted"]
pub struct BatchCopy<'a> {
    destination: CopyEnd<'a>,
    source: Source<'a>,
    bytes: usize,
    hints: CopyHints,
    exclusive: PhantomData<&'a mut [u8]>,
}

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Memory(CopyEnd<'a>),
    Host { bytes: &'a [u8], order: CopySourceOrder },
}

impl<'a> BatchCopy<'a> {
    /// A copy between device memory, pinned memory and managed memory, in any combination.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the lengths differ.
    pub fn new<T: Pod>(
        destination: impl Into<BufferSliceMut<'a, T>>,
        source: impl Into<BufferSlice<'a, T>>,
    ) -> Result<Self> {
        let (destination, source) = (destination.into(), source.into());
        require_equal_lengths(destination.len(), source.len())?;
        Ok(Self::of(&destination, Source::Memory(source.end())))
    }

    /// A copy from plain host memory. [`Stream::copy_batch`] copies the source to staging memory, and need not wait for the copy, nor
    /// for earlier work of the stream.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the lengths differ.
    pub fn from_host<T: Pod>(destination: impl Into<BufferSliceMut<'a, T>>, source: &'a [T]) -> Result<Self> {
        Self::reading_host(destination.into(), source, CopySourceOrder::DuringCall)
    }

    /// Like [`from_host`](Self::from_host), for a source that is read at any time until the copy has run, which some devices do
    /// faster.
    ///
    /// # Safety
    /// From [`Stream::copy_batch`] on and until the copy has run, `source` is neither freed nor changed, not by earlier work of
    /// the stream either.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the lengths differ.
    pub unsafe fn from_host_unchecked<T: Pod>(
        destination: impl Into<BufferSliceMut<'a, T>>,
        source: &'a [T],
    ) -> Result<Self> {
        Self::reading_host(destination.into(), source, CopySourceOrder::Any)
    }

    /// Sets the hints.
    pub fn with_hints(self, hints: CopyHints) -> Self {
        Self { hints, ..self }
    }

    fn reading_host<T: Pod>(
        destination: BufferSliceMut<'a, T>,
        source: &'a [T],
        order: CopySourceOrder,
    ) -> Result<Self> {
        require_equal_lengths(destination.len(), source.len())?;
        // Elements of no size have no bytes.
        let bytes = bytemuck::try_cast_slice(source).unwrap_or_default();
        Ok(Self::of(&destination, Source::Host { bytes, order }))
    }

    /// The lengths are equal.
    fn of<T: Pod>(destination: &BufferSliceMut<'a, T>, source: Source<'a>) -> Self {
        let (bytes, destination) = (destination.byte_len(), destination.end());
        Self { destination, source, bytes, hints: CopyHints::default(), exclusive: PhantomData }
    }

    fn memory(&self) -> impl Iterator<Item = &'a Arc<Allocation>> {
        let read = match self.source {
            Source::Memory(source) => Some(source.memory),
            Source::Host { .. } => None,
        };
        read.into_iter().chain([self.destination.memory])
    }

    fn is_from_host(&self) -> bool {
        matches!(self.source, Source::Host { .. })
    }

    fn describe(&self) -> batch::BatchCopy<'a> {
        let (from, order) = match self.source {
            Source::Memory(source) => (CopySource::Memory(source), CopySourceOrder::Stream),
            Source::Host { bytes, order } => (CopySource::Host(bytes), order),
        };
        batch::BatchCopy { to: self.destination, from, bytes: self.bytes, attributes: self.hints.attributes(order) }
    }
}

impl Stream {
    /// Makes several copies in one call (`cuMemcpyBatchAsync`), and returns at once. All of them come behind the earlier work of
    /// the stream and before its later work, and they have no order among each other. Other streams' uses of the memory are
    /// ordered as by [`copy`](Self::copy), for all copies together. Copies between two pinned buffers may block.
    ///
    /// If the stream is capturing, each copy becomes a node. Drivers before CUDA 12.8, and the legacy default stream, make one copy
    /// after the other. Plain host memory is copied to staging memory first, as by [`upload_async`](Self::upload_async).
    ///
    /// ```
    /// use anabranch::BatchCopy;
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let source = stream.upload(&[1u32, 2, 3, 4])?;
    /// let (mut words, mut bytes) = (stream.allocate_zeroed::<u32>(4)?, stream.allocate_zeroed::<u8>(3)?);
    /// let (head, tail) = words.slice_mut(..)?.split_at(2)?;
    /// stream.copy_batch([
    ///     BatchCopy::new(head, source.slice(2..)?)?,
    ///     BatchCopy::new(tail, source.slice(..2)?)?,
    ///     BatchCopy::from_host(&mut bytes, &[7, 8, 9])?,
    /// ])?;
    /// assert_eq!(stream.download(&words)?, [3, 4, 1, 2]);
    /// assert_eq!(stream.download(&bytes)?, [7, 8, 9]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if a buffer belongs to another context;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) for plain host memory
    /// if the stream is capturing, or a capture uses one of the buffers;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for hints that name no device;
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is no memory to copy plain host memory to
    /// first. Nothing is copied then. If a driver without batches refuses a copy, others may have been made.
    #[track_caller]
    pub fn copy_batch<'a>(&self, copies: impl IntoIterator<Item = BatchCopy<'a>>) -> Result<()> {
        let copies = gathered(copies);
        self.submit_batch(OPERATION, &copies)
    }

    /// Like [`copy`](Self::copy), with hints (`cuMemcpyWithAttributesAsync`).
    ///
    /// # Errors
    /// Same as [`copy`](Self::copy); [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for hints that
    /// name no device.
    #[track_caller]
    pub fn copy_with_hints<'a, T: Pod>(
        &self,
        destination: impl Into<BufferSliceMut<'a, T>>,
        source: impl Into<BufferSlice<'a, T>>,
        hints: CopyHints,
    ) -> Result<()> {
        self.submit_batch("copying", &[BatchCopy::new(destination, source)?.with_hints(hints)])
    }

    #[track_caller]
    fn submit_batch(&self, operation: &'static str, copies: &[BatchCopy<'_>]) -> Result<()> {
        let core = self.core();
        let mut memory = copies.iter().flat_map(BatchCopy::memory);
        memory.try_for_each(|memory| memory.require_context(core, operation))?;
        if copies.iter().any(BatchCopy::is_from_host) {
            core.refuse_while_capturing(operation)?;
        }
        let described: Vec<_> = copies.iter().filter(|copy| copy.bytes > 0).map(BatchCopy::describe).collect();
        if described.is_empty() {
            return Ok(());
        }
        // SAFETY: all ranges are within their memory, the destinations are borrowed exclusively, and plain memory is borrowed until
        // this returns, or left alone for as long as its copy may read it.
        unsafe { core.copy_batch(operation, &described) }
    }
}
