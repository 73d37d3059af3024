//! Copies between plain host memory and memory that a graph retains, through pinned memory.
//!
//! A driver that copies from or to plain memory may block until the copy is complete. A submission that uses memory of
//! a graph excludes others while it calls the driver, and must not block there: it might wait for work that needs one
//! of them.

use super::{BufferSlice, BufferSliceMut, on_host, require_equal_lengths};
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::memory::MemoryAccess;
use anabranch_core::staging::StagingBlock;
use anabranch_core::stream::SyncEvent;
use anabranch_hal::{Access, Copy3d, CopyPlace};
use bytemuck::Pod;

/// Copies from host memory. It may return before the copy is complete.
///
/// # Safety
/// The source is neither freed nor changed until the copy has run.
pub(super) unsafe fn copy_from_host<T: Pod>(
    stream: &Stream,
    destination: BufferSliceMut<'_, T>,
    source: &[T],
) -> Result<()> {
    require_equal_lengths(destination.len(), source.len())?;
    let (from, to) = (source.as_ptr().expose_provenance() as u64, destination.device_pointer().0);
    // SAFETY: the destination is within its memory, and as long as the source, which the caller keeps unchanged until the copy
    // has run.
    unsafe { copy_row(stream, MemoryAccess::write(destination.allocation()), to, from, destination.byte_len()) }
}

/// Copies to host memory. It may return before the copy is complete.
///
/// # Safety
/// The destination is neither freed nor used until the copy has run.
pub(super) unsafe fn copy_to_host<T: Pod>(
    stream: &Stream,
    destination: &mut [T],
    source: BufferSlice<'_, T>,
) -> Result<()> {
    require_equal_lengths(destination.len(), source.len())?;
    let (from, to) = (source.device_pointer().0, destination.as_mut_ptr().expose_provenance() as u64);
    // SAFETY: the source is within its memory, and as long as the destination, which nobody uses until the copy has run, as the
    // caller promises.
    unsafe { copy_row(stream, MemoryAccess::read(source.allocation()), to, from, source.byte_len()) }
}

/// # Safety
/// As for [`copy_region`].
unsafe fn copy_row(stream: &Stream, access: MemoryAccess<'_>, to: u64, from: u64, bytes: usize) -> Result<()> {
    if bytes == 0 {
        return access.memory.require_context(stream.core(), on_host::OPERATION);
    }
    let (mut source, mut destination) = (on_host::row(from, bytes), on_host::row(to, bytes));
    match access.access {
        Access::Read => source.host = access.memory.is_pinned(),
        Access::Write => destination.host = access.memory.is_pinned(),
    }
    // SAFETY: the caller promises that the one range is within the memory, and keeps the other valid until the copy has run.
    unsafe { copy_region(stream, on_host::OPERATION, access, &Copy3d { source, destination, extent: [bytes, 1, 1] }) }
}

/// Copies a region between memory, which is read or written, and plain host memory, for a call that does what `operation` says.
/// It may return before the copy is complete.
///
/// # Safety
/// The one region is within the memory. The other is valid until the copy has run, and until then nobody else uses it,
/// except for reading the source.
pub(super) unsafe fn copy_region(
    stream: &Stream,
    operation: &'static str,
    access: MemoryAccess<'_>,
    copy: &Copy3d,
) -> Result<()> {
    if access.memory.is_pinned() {
        // SAFETY: the caller promises that the one region is within the memory, and keeps the other valid until the copy has run.
        // Plain memory is no pinned memory, so they do not overlap.
        return unsafe { on_host::copy_region(stream, operation, &[access], *copy) };
    }
    let [width, rows, slices] = copy.extent;
    let block = StagingBlock::take(stream.core().context(), width * rows * slices)?;
    let address = block.pointer(width * rows * slices, 1, 1)?.expose_provenance() as u64;
    // The region alone.
    let staged = CopyPlace { pitch: width, height: rows, ..on_host::row(address, width) };
    let (to_staged, from_staged) = (Copy3d { destination: staged, ..*copy }, Copy3d { source: staged, ..*copy });
    if access.access == Access::Write {
        // SAFETY: the caller keeps the source valid; the block has room for the region, and is used by nobody else.
        unsafe { on_host::copy_rows(&to_staged) };
        // SAFETY: the destination is within the memory. The block is freed, or used by somebody else, only when the copy is
        // over.
        unsafe { stream.core().copy_3d(operation, &[access], &from_staged) }?;
    } else {
        // SAFETY: the source is within the memory. The block is freed, or used by somebody else, only when the copy is over.
        unsafe { stream.core().copy_3d(operation, &[access], &to_staged) }?;
    }
    // A panic of earlier work is left for later calls on the stream to report.
    stream.core().sync_event()?.as_ref().map_or(Ok(()), SyncEvent::synchronize)?;
    if access.access == Access::Read {
        // SAFETY: the copy to the block is complete, and the caller keeps the destination valid, which nobody else uses.
        unsafe { on_host::copy_rows(&from_staged) };
    }
    block.give_back();
    Ok(())
}
