//! Copies between plain host memory and memory that a graph retains, through pinned memory.
//!
//! A driver that copies from or to plain memory may block until the copy is complete. A submission that uses memory of
//! a graph excludes others while it calls the driver, and must not block there: it might wait for work that needs one
//! of them.

use super::{BufferSlice, BufferSliceMut, require_equal_lengths};
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::staging::StagingBlock;
use anabranch_core::stream::SyncEvent;
use bytemuck::Pod;

/// Copies, and waits for the copy.
pub(super) fn copy_from_host<T: Pod>(stream: &Stream, destination: BufferSliceMut<'_, T>, source: &[T]) -> Result<()> {
    require_equal_lengths(destination.len(), source.len())?;
    if destination.byte_len() == 0 {
        return Ok(());
    }
    if destination.allocation().is_pinned() {
        let mut staging = stream.context().allocate_pinned::<T>(source.len())?;
        staging.write(|elements| elements.copy_from_slice(source))?;
        stream.copy(destination, &staging)?;
        return wait(stream);
    }
    let block = StagingBlock::take(stream.core().context(), destination.byte_len())?;
    let pointer = block.pointer(source.len(), size_of::<T>(), align_of::<T>())?.cast::<T>();
    // SAFETY: the block has room for so many elements, and is used by nobody else.
    unsafe { pointer.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
    // SAFETY: the elements were just written.
    let staged = unsafe { std::slice::from_raw_parts(pointer, source.len()) };
    // SAFETY: the block is freed, or used by somebody else, only when the copy is over.
    unsafe { stream.copy_from_host_unchecked(destination, staged) }?;
    wait(stream)?;
    block.give_back();
    Ok(())
}

/// Copies, and waits for the copy.
pub(super) fn copy_to_host<T: Pod>(stream: &Stream, destination: &mut [T], source: BufferSlice<'_, T>) -> Result<()> {
    require_equal_lengths(destination.len(), source.len())?;
    if source.byte_len() == 0 {
        return Ok(());
    }
    if source.allocation().is_pinned() {
        let mut staging = stream.context().allocate_pinned::<T>(source.len())?;
        stream.copy(&mut staging, source)?;
        return staging.read(|elements| destination.copy_from_slice(elements));
    }
    let block = StagingBlock::take(stream.core().context(), source.byte_len())?;
    let pointer = block.pointer(source.len(), size_of::<T>(), align_of::<T>())?.cast::<T>();
    {
        // SAFETY: blocks are initialised, this one has room for so many elements, and nobody else uses it.
        let staged = unsafe { std::slice::from_raw_parts_mut(pointer, source.len()) };
        // SAFETY: the block is freed, or used by somebody else, only when the copy is over.
        unsafe { stream.copy_to_host_unchecked(staged, source) }?;
    }
    wait(stream)?;
    // SAFETY: the copy that has written the elements is complete, and nobody else uses the block.
    destination.copy_from_slice(unsafe { std::slice::from_raw_parts(pointer, source.len()) });
    block.give_back();
    Ok(())
}

/// Waits for the stream's work. A panic of earlier work is left for later calls on the stream to report.
fn wait(stream: &Stream) -> Result<()> {
    stream.core().sync_event()?.as_ref().map_or(Ok(()), SyncEvent::synchronize)
}
