//! Copies between two pieces of pinned memory, by a thread of the driver's.
//!
//! A driver that is asked for such a copy makes the caller wait for it, which a task must not.

use crate::error::Result;
use crate::memory::{BufferSlice, BufferSliceMut, check_both};
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
pub(super) fn copy<T: Pod>(stream: &Stream, to: BufferSliceMut<'_, T>, from: BufferSlice<'_, T>) -> Result<()> {
    let core = stream.core();
    to.allocation().require_context(core, "copying")?;
    if to.byte_len() == 0 {
        return Ok(());
    }
    let operation = core.operation("copying");
    check_both(core, from.allocation(), to.allocation(), operation.name)?;
    to.allocation().order(core, Access::Write, &operation)?;
    // SAFETY: the memory is freed behind its uses, of which this is one; both are of one length.
    unsafe { copy_from(stream, to.device_pointer().0 as usize as *mut u8, from) }?;
    core.queued(&operation, || to.allocation().stamp(core, Access::Write))
}

/// Copies pinned memory to host memory in stream order.
///
/// # Safety
/// From now until the copy has run, `to` is valid for writes of as many bytes as `from` has, and nobody else uses it, except
/// for work that is ordered before or behind.
pub(super) unsafe fn copy_from<T: Pod>(stream: &Stream, to: *mut u8, from: BufferSlice<'_, T>) -> Result<()> {
    let (core, bytes) = (stream.core(), from.byte_len());
    from.allocation().require_context(core, "copying")?;
    let (operation, memory) = (core.operation("copying"), from.allocation());
    memory.order(core, Access::Read, &operation)?;
    let (to, from) = (Address(to), Address(from.device_pointer().0 as usize as *mut u8));
    stream.launch_host_func(move || {
        // SAFETY: the source is within pinned memory, which the host reaches; it is freed behind its uses, and not written
        // before them, of which this is one. The destination is the caller's word. They are not the same memory: one is
        // borrowed exclusively, or staging memory.
        unsafe { std::ptr::copy_nonoverlapping(from.get(), to.get(), bytes) };
    })?;
    core.queued(&operation, || memory.stamp(core, Access::Read))
}
