//! Copies between two pieces of host memory, by a thread of the driver.
//!
//! The driver's own copy between them blocks the caller, which a task must not do, and neither must a submission that
//! excludes others. Some drivers keep other threads waiting meanwhile.

use super::{BufferSlice, BufferSliceMut};
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::memory::{Allocation, MemoryAccess};
use anabranch_hal::{Copy3d, CopyPlace};
use bytemuck::Pod;

/// Memory as a single row.
pub(super) fn row(address: u64, bytes: usize) -> CopyPlace {
    CopyPlace { address, host: true, pitch: bytes, height: 1, origin: [0; 3] }
}

/// What copies of a single row say they do.
pub(super) const OPERATION: &str = "copying";

/// Whether copies between these are to be made here.
pub(super) fn is_needed(stream: &Stream, read: &Allocation, written: &Allocation) -> bool {
    let core = stream.core();
    let must_not_wait = read.is_retained() || written.is_retained() || core.context().keeps_others_waiting();
    read.is_pinned() && written.is_pinned() && must_not_wait && !core.is_capturing()
}

/// Copies pinned memory to pinned memory in stream order. The lengths are equal.
#[track_caller]
pub(crate) fn copy<T: Pod>(stream: &Stream, to: BufferSliceMut<'_, T>, from: BufferSlice<'_, T>) -> Result<()> {
    let accesses = [MemoryAccess::read(from.allocation()), MemoryAccess::write(to.allocation())];
    // SAFETY: both ends are within the accesses, and one of them is borrowed exclusively.
    unsafe { copy_range(stream, &accesses, to.device_pointer().0, from.device_pointer().0, from.byte_len()) }
}

/// Copies pinned memory to host memory in stream order.
///
/// # Safety
/// From now until the copy has run, `to` is valid for writes of as many bytes as `from` has, and nobody else uses it,
/// except for work that is ordered before or after the copy.
#[track_caller]
pub(crate) unsafe fn copy_from<T: Pod>(stream: &Stream, to: *mut u8, from: BufferSlice<'_, T>) -> Result<()> {
    let accesses = [MemoryAccess::read(from.allocation())];
    // SAFETY: the source is the access. The caller keeps the destination valid, which nobody else uses until the copy has run.
    unsafe { copy_range(stream, &accesses, to.expose_provenance() as u64, from.device_pointer().0, from.byte_len()) }
}

/// # Safety
/// As for [`copy_region`].
#[track_caller]
unsafe fn copy_range(stream: &Stream, accesses: &[MemoryAccess<'_>], to: u64, from: u64, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return accesses.iter().try_for_each(|access| access.memory.require_context(stream.core(), OPERATION));
    }
    let copy = Copy3d { source: row(from, bytes), destination: row(to, bytes), extent: [bytes, 1, 1] };
    // SAFETY: the caller keeps both ranges valid until the copy has run, and nobody else uses the destination.
    unsafe { copy_region(stream, OPERATION, accesses, copy) }
}

/// Copies a region of host memory in stream order, for a call that does what `operation` says.
///
/// # Safety
/// From now until the copy has run, both regions are valid. They do not overlap, nobody writes the source, and nobody else
/// uses the destination, except for work that is ordered before or after the copy. This holds for pinned memory that is
/// among the accesses.
#[track_caller]
pub(super) unsafe fn copy_region(
    stream: &Stream,
    operation: &'static str,
    accesses: &[MemoryAccess<'_>],
    copy: Copy3d,
) -> Result<()> {
    // SAFETY: the caller keeps both regions valid until the copy has run, and nobody else uses the destination; pinned memory is
    // freed behind its uses, of which this is one.
    stream.core().host_function_using(operation, accesses, move || unsafe { copy_rows(&copy) })
}

/// Copies a region of host memory now.
///
/// # Safety
/// Both regions are valid and do not overlap, and nobody else uses them, except for reading the source.
pub(super) unsafe fn copy_rows(copy: &Copy3d) {
    let [width, rows, slices] = copy.extent;
    let begin = |place: &CopyPlace, y: usize, z: usize| {
        let [x, first_row, first_slice] = place.origin;
        let offset = ((first_slice + z) * place.height + first_row + y) * place.pitch + x;
        std::ptr::with_exposed_provenance_mut::<u8>(place.address as usize + offset)
    };
    for (z, y) in (0..slices).flat_map(|z| (0..rows).map(move |y| (z, y))) {
        let (from, to) = (begin(&copy.source, y, z), begin(&copy.destination, y, z));
        // SAFETY: the row is within both regions, which the caller promises are valid and do not overlap.
        unsafe { to.copy_from_nonoverlapping(from, width) };
    }
}
