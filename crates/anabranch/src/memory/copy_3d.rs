//! Copies of rows and slices: two- and three-dimensional regions.

use super::plain_copy::PlainCopy;
use super::{BufferSlice, BufferSliceMut};
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_core::memory::{Allocation, MemoryAccess};
use anabranch_hal::{Copy3d, CopyPlace, Status};
use bytemuck::Pod;
use std::sync::Arc;

const OPERATION: &str = "copying a region";

/// A buffer viewed as slices of rows. All extents are in elements, rows and slices.
///
/// ```text
/// element (x, y, z) is at (z * rows + y) * row_length + x
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Volume<'a, T> {
    memory: BufferSlice<'a, T>,
    row_length: usize,
    rows: usize,
}

/// A buffer viewed as slices of rows, for writing.
#[derive(Debug)]
pub struct VolumeMut<'a, T> {
    memory: BufferSliceMut<'a, T>,
    row_length: usize,
    rows: usize,
}

/// A region to copy: its origin in each volume, and its extent, in elements, rows and slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The origin in the source: x, y, z.
    pub source_origin: [usize; 3],
    /// The origin in the destination: x, y, z.
    pub destination_origin: [usize; 3],
    /// The extent. A two-dimensional region has a depth of 1.
    pub extent: [usize; 3],
}

impl<'a, T: Pod> Volume<'a, T> {
    /// `memory` as slices of `rows` rows of `row_length` elements. For an image, `rows` is its height.
    pub fn new(memory: impl Into<BufferSlice<'a, T>>, row_length: usize, rows: usize) -> Self {
        Self { memory: memory.into(), row_length, rows }
    }
}

impl<'a, T: Pod> VolumeMut<'a, T> {
    /// `memory` as slices of `rows` rows of `row_length` elements. For an image, `rows` is its height.
    pub fn new(memory: impl Into<BufferSliceMut<'a, T>>, row_length: usize, rows: usize) -> Self {
        Self { memory: memory.into(), row_length, rows }
    }
}

/// One end of a region copy in elements.
struct End {
    address: u64,
    host: bool,
    length: usize,
    row_length: usize,
    rows: usize,
}

impl End {
    fn region<T>(&self, origin: [usize; 3], extent: [usize; 3], name: &str) -> Result<CopyPlace> {
        let refuse = |message: String| Error::argument(Status::INVALID_VALUE, OPERATION, message);
        let fits = |axis: usize, limit: usize| origin[axis].checked_add(extent[axis]).is_some_and(|end| end <= limit);
        if !fits(0, self.row_length) || !fits(1, self.rows) {
            return Err(refuse(format!(
                "the region of {extent:?} at {origin:?} is not within the {name}'s rows of {} elements and slices of {} rows",
                self.row_length, self.rows
            )));
        }
        // The last element of the region must be within the buffer, whose last slice may be short.
        let last = |axis: usize| origin[axis] + extent[axis] - 1;
        let end = origin[2]
            .checked_add(extent[2] - 1)
            .and_then(|slice| slice.checked_mul(self.rows)?.checked_add(last(1))?.checked_mul(self.row_length))
            .and_then(|start| start.checked_add(last(0)));
        if end.is_none_or(|end| end >= self.length) {
            return Err(refuse(format!(
                "the region of {extent:?} at {origin:?} reaches beyond the {name}'s {} elements",
                self.length
            )));
        }
        let pitch = self.row_length.checked_mul(size_of::<T>());
        let pitch = pitch.ok_or_else(|| {
            refuse(format!("the {name}'s rows of {} elements are longer than the address space", self.row_length))
        })?;
        Ok(CopyPlace {
            address: self.address,
            host: self.host,
            pitch,
            height: self.rows,
            origin: [origin[0] * size_of::<T>(), origin[1], origin[2]],
        })
    }
}

fn copy_of<T>(destination: &End, source: &End, region: &Region) -> Result<Copy3d> {
    let [width, rows, slices] = region.extent;
    Ok(Copy3d {
        source: source.region::<T>(region.source_origin, region.extent, "source")?,
        destination: destination.region::<T>(region.destination_origin, region.extent, "destination")?,
        extent: [width * size_of::<T>(), rows, slices],
    })
}

/// A copy of a region between buffers, checked; `None` when there is nothing to copy.
pub(crate) fn region_copy<T: Pod>(
    destination: &VolumeMut<'_, T>,
    source: &Volume<'_, T>,
    region: &Region,
) -> Result<Option<Copy3d>> {
    if region.is_empty::<T>() {
        return Ok(None);
    }
    copy_of::<T>(&destination.end(), &source.end(), region).map(Some)
}

/// A copy of a region from plain host memory, checked; `None` when there is nothing to copy.
pub(crate) fn region_from_host<T: Pod>(
    destination: &VolumeMut<'_, T>,
    source: &[T],
    row_length: usize,
    rows: usize,
    region: &Region,
) -> Result<Option<Copy3d>> {
    if region.is_empty::<T>() {
        return Ok(None);
    }
    copy_of::<T>(&destination.end(), &host_end(source, row_length, rows), region).map(Some)
}

/// A copy of a region to plain host memory, checked; `None` when there is nothing to copy.
pub(crate) fn region_to_host<T: Pod>(
    destination: &mut [T],
    row_length: usize,
    rows: usize,
    source: &Volume<'_, T>,
    region: &Region,
) -> Result<Option<Copy3d>> {
    if region.is_empty::<T>() {
        return Ok(None);
    }
    copy_of::<T>(&host_end(&raw mut *destination, row_length, rows), &source.end(), region).map(Some)
}

impl Region {
    fn is_empty<T>(&self) -> bool {
        size_of::<T>() == 0 || self.extent.contains(&0)
    }
}

fn host_end<T>(memory: *const [T], row_length: usize, rows: usize) -> End {
    let address = memory.cast::<T>().expose_provenance() as u64;
    End { address, host: true, length: memory.len(), row_length, rows }
}

impl<'a, T: Pod> Volume<'a, T> {
    pub(crate) fn allocation(&self) -> &'a Arc<Allocation> {
        self.memory.allocation()
    }

    fn end(&self) -> End {
        let (address, host) = (self.memory.device_pointer().0, self.memory.allocation().is_pinned());
        End { address, host, length: self.memory.len(), row_length: self.row_length, rows: self.rows }
    }
}

impl<'a, T: Pod> VolumeMut<'a, T> {
    pub(crate) fn allocation(&self) -> &'a Arc<Allocation> {
        self.memory.allocation()
    }

    fn end(&self) -> End {
        let (address, host) = (self.memory.device_pointer().0, self.memory.allocation().is_pinned());
        End { address, host, length: self.memory.len(), row_length: self.row_length, rows: self.rows }
    }
}

impl Stream {
    /// Copies a region of rows and slices between device, pinned and managed memory in stream order, and returns at
    /// once. The exception is a copy between two pinned buffers, which may block. Follows `cuMemcpy3DAsync`; with a depth of 1 it
    /// corresponds to `cuMemcpy2DAsync`.
    ///
    /// ```
    /// use anabranch::{Region, Volume, VolumeMut};
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// // Column 1 of a picture of 3 rows and 4 columns.
    /// let picture = stream.upload(&(0..12).collect::<Vec<u32>>())?;
    /// let mut column = stream.allocate_zeroed::<u32>(3)?;
    /// let region = Region { source_origin: [1, 0, 0], extent: [1, 3, 1], ..Region::default() };
    /// stream.copy_region(VolumeMut::new(&mut column, 1, 3), Volume::new(&picture, 4, 3), &region)?;
    /// assert_eq!(stream.download(&column)?, [1, 5, 9]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the region is not within either volume;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if a buffer belongs to another context.
    #[track_caller]
    pub fn copy_region<T: Pod>(
        &self,
        destination: VolumeMut<'_, T>,
        source: Volume<'_, T>,
        region: &Region,
    ) -> Result<()> {
        let core = self.core();
        destination.memory.allocation().require_context(core, OPERATION)?;
        source.memory.allocation().require_context(core, OPERATION)?;
        if region.is_empty::<T>() {
            return Ok(());
        }
        let copy = copy_of::<T>(&destination.end(), &source.end(), region)?;
        let (read, written) = (source.memory.allocation(), destination.memory.allocation());
        // SAFETY: the region is within both buffers, and the destination is borrowed exclusively.
        unsafe { core.copy_3d(OPERATION, &[MemoryAccess::read(read), MemoryAccess::write(written)], &copy) }
    }

    /// Copies a region of rows and slices of memory of one context to memory of another, in stream order, and returns at once.
    /// The stream belongs to either context. Follows `cuMemcpy3DPeerAsync`.
    ///
    /// ```
    /// use anabranch::{ContextFlags, Region, Volume, VolumeMut};
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let other = context.device().create_context(ContextFlags::empty())?;
    /// let (stream, there) = (context.create_stream()?, other.create_stream()?);
    /// let picture = stream.upload(&(0..12).collect::<Vec<u32>>())?;
    /// let mut column = there.allocate_zeroed::<u32>(3)?;
    /// let region = Region { source_origin: [1, 0, 0], extent: [1, 3, 1], ..Region::default() };
    /// stream.copy_region_peer(VolumeMut::new(&mut column, 1, 3), Volume::new(&picture, 4, 3), &region)?;
    /// assert_eq!(there.download(&column)?, [1, 5, 9]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the region is not within either volume;
    /// otherwise the same as [`copy_peer`](Self::copy_peer).
    #[track_caller]
    pub fn copy_region_peer<T: Pod>(
        &self,
        destination: VolumeMut<'_, T>,
        source: Volume<'_, T>,
        region: &Region,
    ) -> Result<()> {
        let (read, written) = (source.allocation(), destination.allocation());
        let Some(copy) = region_copy(&destination, &source, region)? else {
            return written.context().require_same_driver(read.context(), OPERATION);
        };
        // SAFETY: the region is within both buffers, and the destination is borrowed exclusively.
        unsafe { self.core().copy_3d_peer(written, read, &copy) }
    }

    /// Copies a region from plain host memory, viewed as slices of `rows` rows of `row_length` elements. Returns when
    /// the copy is complete.
    ///
    /// # Errors
    /// Same as [`copy_region`](Self::copy_region);
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, or a capture uses the buffer.
    #[track_caller]
    pub fn copy_region_from_host<T: Pod>(
        &self,
        destination: VolumeMut<'_, T>,
        source: &[T],
        row_length: usize,
        rows: usize,
        region: &Region,
    ) -> Result<()> {
        let core = self.core();
        destination.memory.allocation().require_context(core, OPERATION)?;
        if region.is_empty::<T>() {
            return Ok(());
        }
        let copy = copy_of::<T>(&destination.end(), &host_end(source, row_length, rows), region)?;
        // SAFETY: the region is within the buffer, and within the source, which is borrowed until the copy is complete.
        unsafe { self.copy_region_and_wait(MemoryAccess::write(destination.memory.allocation()), copy) }
    }

    /// Copies a region to plain host memory, viewed as slices of `rows` rows of `row_length` elements. Returns when the
    /// copy is complete.
    ///
    /// # Errors
    /// Same as [`copy_region`](Self::copy_region);
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, or a capture uses the buffer.
    #[track_caller]
    pub fn copy_region_to_host<T: Pod>(
        &self,
        destination: &mut [T],
        row_length: usize,
        rows: usize,
        source: Volume<'_, T>,
        region: &Region,
    ) -> Result<()> {
        let core = self.core();
        source.memory.allocation().require_context(core, OPERATION)?;
        if region.is_empty::<T>() {
            return Ok(());
        }
        let copy = copy_of::<T>(&host_end(&raw mut *destination, row_length, rows), &source.end(), region)?;
        // SAFETY: the region is within the buffer, and within the destination, which is borrowed exclusively until the copy is
        // complete.
        unsafe { self.copy_region_and_wait(MemoryAccess::read(source.memory.allocation()), copy) }
    }

    /// # Safety
    /// Both regions are valid until this returns.
    #[track_caller]
    unsafe fn copy_region_and_wait(&self, access: MemoryAccess<'_>, copy: Copy3d) -> Result<()> {
        let plain = PlainCopy { operation: OPERATION, access: Some(access), copy };
        // SAFETY: the caller keeps both regions valid until this returns, before which the scope waits.
        self.scope_of(OPERATION, |scope| unsafe { scope.copy(&plain) })
    }
}
