//! Several copies of regions in one call.
//!
//! Plain host memory is never seen by the driver: a source is copied to staging memory during the call, one region behind the
//! other, and a destination from there when the copies have run, for which the call waits.

use super::super::{Region, Volume, VolumeMut, region_copy, region_from_host, region_to_host, uncaptured};
use super::{CopyHints, gathered};
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_core::batch::{self, give_back_behind};
use anabranch_core::memory::{Allocation, MemoryAccess};
use anabranch_core::on_host::{copy_rows, row};
use anabranch_core::staging::StagingBlock;
use anabranch_core::stream::SyncEvent;
use anabranch_core::submission::refuse_captured_memory;
use anabranch_hal::{ALLOCATION_ALIGNMENT, Access, Copy3d, CopyPlace, CopySourceOrder, Status};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::sync::Arc;

/// A copy of a region for [`Stream::copy_region_batch`]. It borrows its destination exclusively, so that copies of a batch do not
/// race.
#[derive(Debug)]
#[must_use = "nothing is copied before the batch is submitted"]
pub struct BatchRegion<'a> {
    /// `None`: plain host memory.
    destination: Option<&'a Arc<Allocation>>,
    /// `None`: plain host memory.
    source: Option<&'a Arc<Allocation>>,
    /// `None` if there is nothing to copy.
    copy: Option<Copy3d>,
    hints: CopyHints,
    exclusive: PhantomData<&'a mut [u8]>,
}

impl<'a> BatchRegion<'a> {
    /// A copy of a region of rows and slices between device, pinned and managed memory.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the region is not within either volume.
    pub fn new<T: Pod>(destination: VolumeMut<'a, T>, source: Volume<'a, T>, region: &Region) -> Result<Self> {
        let copy = region_copy(&destination, &source, region)?;
        Ok(Self::of(Some(destination.allocation()), Some(source.allocation()), copy))
    }

    /// A copy from plain host memory, viewed as slices of `rows` rows of `row_length` elements. The region is read by
    /// [`Stream::copy_region_batch`], which need not wait for the copy.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the region is not within either volume.
    pub fn from_host<T: Pod>(
        destination: VolumeMut<'a, T>,
        source: &'a [T],
        row_length: usize,
        rows: usize,
        region: &Region,
    ) -> Result<Self> {
        let copy = region_from_host(&destination, source, row_length, rows, region)?;
        Ok(Self::of(Some(destination.allocation()), None, copy))
    }

    /// A copy to plain host memory, viewed as slices of `rows` rows of `row_length` elements. A batch with such a copy
    /// returns when its copies have run.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the region is not within either volume.
    pub fn to_host<T: Pod>(
        destination: &'a mut [T],
        row_length: usize,
        rows: usize,
        source: Volume<'a, T>,
        region: &Region,
    ) -> Result<Self> {
        let copy = region_to_host(destination, row_length, rows, &source, region)?;
        Ok(Self::of(None, Some(source.allocation()), copy))
    }

    fn of(destination: Option<&'a Arc<Allocation>>, source: Option<&'a Arc<Allocation>>, copy: Option<Copy3d>) -> Self {
        Self { destination, source, copy, hints: CopyHints::default(), exclusive: PhantomData }
    }

    /// Sets the hints.
    pub fn with_hints(self, hints: CopyHints) -> Self {
        Self { hints, ..self }
    }

    fn memory(&self) -> impl Iterator<Item = &'a Arc<Allocation>> {
        self.source.into_iter().chain(self.destination)
    }

    /// The access to the one memory of a copy whose other end is plain host memory.
    fn access_beside_host(&self) -> Option<MemoryAccess<'a>> {
        match (self.source, self.destination) {
            (None, Some(destination)) => Some(MemoryAccess::write(destination)),
            (Some(source), None) => Some(MemoryAccess::read(source)),
            _ => None,
        }
    }
}

/// Staging memory for the plain host memory of a batch.
struct Staged {
    block: StagingBlock,
    /// For each copy, the region alone in the block.
    places: Vec<Option<CopyPlace>>,
}

impl Staged {
    /// With the regions that are read. `None` if there is no plain host memory.
    fn new(stream: &Stream, copies: &[BatchRegion<'_>]) -> Result<Option<Self>> {
        let bytes = |copy: &Copy3d| copy.extent.into_iter().try_fold(1usize, usize::checked_mul);
        let room = |copy: &Copy3d| bytes(copy).and_then(|bytes| bytes.checked_next_multiple_of(ALLOCATION_ALIGNMENT));
        let staged = |one: &BatchRegion<'_>| one.copy.filter(|_| one.access_beside_host().is_some());
        let add = |total: usize, copy: Copy3d| total.checked_add(room(&copy)?);
        let total = copies.iter().filter_map(staged).try_fold(0, add).ok_or_else(|| {
            Error::argument(Status::INVALID_VALUE, "staging a batch", "the regions are larger than the address space")
        })?;
        if total == 0 {
            return Ok(None);
        }
        let block = StagingBlock::take(stream.core().context(), total)?;
        let mut address = block.pointer(total, 1, 1)?.expose_provenance() as u64;
        let places = copies.iter().map(|one| {
            let copy = staged(one)?;
            let place = CopyPlace { pitch: copy.extent[0], height: copy.extent[1], ..row(address, 0) };
            address += room(&copy).unwrap_or_default() as u64;
            if one.source.is_none() {
                // SAFETY: the source is borrowed by the copy; the block has room for all regions, and nobody else uses it.
                unsafe { copy_rows(&Copy3d { destination: place, ..copy }) };
            }
            Some(place)
        });
        let places = places.collect();
        Ok(Some(Self { block, places }))
    }

    /// Waits for the copies, and copies what they have read to plain host memory.
    fn finish(self, copies: &[BatchRegion<'_>], copied: Option<&SyncEvent>) -> Result<()> {
        // A panic of earlier work is left for later calls on the stream to report.
        copied.map_or(Ok(()), SyncEvent::synchronize)?;
        for (one, place) in copies.iter().zip(&self.places) {
            if let (None, Some(copy), Some(place)) = (one.destination, one.copy, place) {
                // SAFETY: the copies to the block are complete, and the destination is borrowed exclusively by the copy.
                unsafe { copy_rows(&Copy3d { source: *place, ..copy }) };
            }
        }
        self.block.give_back();
        Ok(())
    }
}

impl Stream {
    /// Makes several copies of regions in one call (`cuMemcpy3DBatchAsync`), as [`copy_batch`](Self::copy_batch) does. It returns
    /// at once, unless a copy writes plain host memory.
    ///
    /// ```
    /// use anabranch::{BatchRegion, Region, Volume, VolumeMut};
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// // The columns 0 and 2 of a picture of 3 rows and 4 columns.
    /// let picture = stream.upload(&(0..12).collect::<Vec<u32>>())?;
    /// let (mut left, mut right) = (stream.allocate_zeroed::<u32>(3)?, [0; 3]);
    /// let column = |x| Region { source_origin: [x, 0, 0], extent: [1, 3, 1], ..Region::default() };
    /// stream.copy_region_batch([
    ///     BatchRegion::new(VolumeMut::new(&mut left, 1, 3), Volume::new(&picture, 4, 3), &column(0))?,
    ///     BatchRegion::to_host(&mut right, 1, 3, Volume::new(&picture, 4, 3), &column(2))?,
    /// ])?;
    /// assert_eq!(right, [2, 6, 10]);
    /// assert_eq!(stream.download(&left)?, [0, 4, 8]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same as [`copy_batch`](Self::copy_batch).
    #[track_caller]
    pub fn copy_region_batch<'a>(&self, copies: impl IntoIterator<Item = BatchRegion<'a>>) -> Result<()> {
        let copies = gathered(copies);
        self.submit_regions("copying a batch of regions", &copies)
    }

    /// Like [`copy_region`](Self::copy_region), with hints (`cuMemcpy3DWithAttributesAsync`).
    ///
    /// # Errors
    /// Same as [`copy_region`](Self::copy_region); [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE)
    /// for hints that name no device.
    #[track_caller]
    pub fn copy_region_with_hints<'a, T: Pod>(
        &self,
        destination: VolumeMut<'a, T>,
        source: Volume<'a, T>,
        region: &Region,
        hints: CopyHints,
    ) -> Result<()> {
        self.submit_regions("copying a region", &[BatchRegion::new(destination, source, region)?.with_hints(hints)])
    }

    #[track_caller]
    fn submit_regions(&self, operation: &'static str, copies: &[BatchRegion<'_>]) -> Result<()> {
        let core = self.core();
        let mut memory = copies.iter().flat_map(BatchRegion::memory);
        memory.try_for_each(|memory| memory.require_context(core, operation))?;
        if copies.iter().all(|copy| copy.access_beside_host().is_none()) {
            return self.queue_regions(operation, copies, None);
        }
        let writes_host = copies.iter().any(|one| one.copy.is_some() && one.destination.is_none());
        // Captured work would use plain memory at each launch.
        let waiting = uncaptured(self, operation, || {
            let mut memory = copies.iter().flat_map(BatchRegion::memory);
            memory.try_for_each(|memory| refuse_captured_memory(memory, core, operation))?;
            let staged = Staged::new(self, copies)?;
            self.queue_regions(operation, copies, staged.as_ref())?;
            match staged {
                Some(staged) if writes_host => Ok(Some((staged, core.sync_event()?))),
                Some(staged) => {
                    give_back_behind(staged.block, core);
                    Ok(None)
                }
                None => Ok(None),
            }
        })?;
        waiting.map_or(Ok(()), |(staged, copied)| staged.finish(copies, copied.as_ref()))
    }

    #[track_caller]
    fn queue_regions(
        &self,
        operation: &'static str,
        copies: &[BatchRegion<'_>],
        staged: Option<&Staged>,
    ) -> Result<()> {
        let described = copies.iter().enumerate().filter_map(|(index, one)| {
            let mut copy = one.copy?;
            let place = staged.and_then(|staged| staged.places[index]);
            match one.access_beside_host().zip(place).map(|(access, place)| (access.access, place)) {
                Some((Access::Write, place)) => copy.source = place,
                Some((Access::Read, place)) => copy.destination = place,
                None => {}
            }
            let attributes = one.hints.attributes(CopySourceOrder::Stream);
            Some(batch::BatchRegion { to: one.destination, from: one.source, copy, attributes })
        });
        let described: Vec<_> = described.collect();
        if described.is_empty() {
            return Ok(());
        }
        // SAFETY: all regions are within their memory, and the destinations are borrowed exclusively. Staging memory is used again
        // when the copies have run.
        unsafe { self.core().copy_region_batch(operation, &described) }
    }
}
