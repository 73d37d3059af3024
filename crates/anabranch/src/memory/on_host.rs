//! Copies between pinned memory and other host memory, by a thread of the driver.

use super::{BufferSlice, BufferSliceMut};
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::memory::MemoryAccess;
use anabranch_core::on_host::copy_of_row;
use bytemuck::Pod;

/// What copies of a single row say they do.
pub(super) const OPERATION: &str = "copying";

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
/// From now until the copy has run, both ranges are valid, and nobody else uses the destination, except for work that is ordered
/// before or after the copy. This holds for pinned memory that is among the accesses.
#[track_caller]
unsafe fn copy_range(stream: &Stream, accesses: &[MemoryAccess<'_>], to: u64, from: u64, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return accesses.iter().try_for_each(|access| access.memory.require_context(stream.core(), OPERATION));
    }
    // SAFETY: the caller promises what this asks for.
    unsafe { stream.core().copy_on_host(OPERATION, accesses, &copy_of_row(to, from, bytes)) }
}
