//! Copies between two pieces of pinned memory, by a thread of the driver's.
//!
//! A driver that is asked for such a copy makes the caller wait for it, which a task must not.

use crate::error::Result;
use crate::memory::{BufferSlice, BufferSliceMut, check_both, stamp_both};
use crate::stream::Stream;
use anabranch_hal::Access;
use bytemuck::Pod;

/// An address for a closure that is sent elsewhere.
struct Address(*mut u8);

// SAFETY: it is an address and nothing else; who follows it argues there.
unsafe impl Send for Address {}

impl Address {
    fn get(&self) -> *mut u8 {
        self.0
    }
}

/// Copies pinned memory to pinned memory in stream order. The lengths are equal.
pub(crate) fn copy<T: Pod>(stream: &Stream, to: BufferSliceMut<'_, T>, from: BufferSlice<'_, T>) -> Result<()> {
    let core = stream.core();
    let (read, written) = (from.allocation(), to.allocation());
    read.require_context(core, "copying")?;
    written.require_context(core, "copying")?;
    if to.byte_len() == 0 {
        return Ok(());
    }
    let operation = core.operation("copying");
    check_both(core, read, written, operation.name)?;
    read.order(core, Access::Read, &operation)?;
    written.order(core, Access::Write, &operation)?;
    // SAFETY: the memory is freed behind its uses, of which this is one; both are of one length.
    unsafe { queue(stream, to.device_pointer().0 as usize as *mut u8, &from) }?;
    core.queued(&operation, || stamp_both(core, read, written))
}

/// Copies pinned memory to host memory in stream order.
///
/// # Safety
/// From now until the copy has run, `to` is valid for writes of as many bytes as `from` has, and nobody else uses it, except
/// for work that is ordered before or behind.
pub(super) unsafe fn copy_from<T: Pod>(stream: &Stream, to: *mut u8, from: BufferSlice<'_, T>) -> Result<()> {
    let core = stream.core();
    from.allocation().require_context(core, "copying")?;
    let (operation, memory) = (core.operation("copying"), from.allocation());
    memory.order(core, Access::Read, &operation)?;
    // SAFETY: the caller's word; the source was just ordered.
    unsafe { queue(stream, to, &from) }?;
    core.queued(&operation, || memory.stamp(core, Access::Read))
}

/// Queues the copy.
///
/// # Safety
/// As for [`copy_from`], and the source is ordered as read by work of the stream that is being queued.
unsafe fn queue<T: Pod>(stream: &Stream, to: *mut u8, from: &BufferSlice<'_, T>) -> Result<()> {
    let bytes = from.byte_len();
    let (to, from) = (Address(to), Address(from.device_pointer().0 as usize as *mut u8));
    stream.launch_host_func(move || {
        // SAFETY: the source is within pinned memory, which the host reaches; it is freed behind its uses, and not written
        // before them, of which this is one. The destination is the caller's word. They are not the same memory: one is
        // borrowed exclusively, or staging memory.
        unsafe { std::ptr::copy_nonoverlapping(from.get(), to.get(), bytes) };
    })
}
