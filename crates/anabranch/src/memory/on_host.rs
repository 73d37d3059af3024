//! Copies between two pieces of pinned memory, by a thread of the driver.
//!
//! The driver's own copy between them blocks the caller, which a task must not do.

use super::{BufferSlice, BufferSliceMut};
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::memory::MemoryAccess;
use bytemuck::Pod;

/// An address for a closure that runs on another thread.
struct Address(*mut u8);

// SAFETY: it is only an address; each access through it has its own argument.
unsafe impl Send for Address {}

impl Address {
    fn get(&self) -> *mut u8 {
        self.0
    }
}

/// Copies pinned memory to pinned memory in stream order. The lengths are equal.
#[track_caller]
pub(crate) fn copy<T: Pod>(stream: &Stream, to: BufferSliceMut<'_, T>, from: BufferSlice<'_, T>) -> Result<()> {
    let accesses = [MemoryAccess::read(from.allocation()), MemoryAccess::write(to.allocation())];
    let address = to.device_pointer().0 as usize as *mut u8;
    // SAFETY: the destination is one of the accesses, and as long as the source.
    unsafe { queue(stream, &accesses, address, &from) }
}

/// Copies pinned memory to host memory in stream order.
///
/// # Safety
/// From now until the copy has run, `to` is valid for writes of as many bytes as `from` has, and nobody else uses it,
/// except for work that is ordered before or after the copy.
#[track_caller]
pub(crate) unsafe fn copy_from<T: Pod>(stream: &Stream, to: *mut u8, from: BufferSlice<'_, T>) -> Result<()> {
    // SAFETY: the caller's word.
    unsafe { queue(stream, &[MemoryAccess::read(from.allocation())], to, &from) }
}

/// # Safety
/// Same as for [`copy_from`], and the source is one of the accesses.
#[track_caller]
unsafe fn queue<T: Pod>(
    stream: &Stream,
    accesses: &[MemoryAccess<'_>],
    to: *mut u8,
    from: &BufferSlice<'_, T>,
) -> Result<()> {
    let bytes = from.byte_len();
    if bytes == 0 {
        return accesses.iter().try_for_each(|access| access.memory.require_context(stream.core(), "copying"));
    }
    let (to, from) = (Address(to), Address(from.device_pointer().0 as usize as *mut u8));
    stream.core().host_function_using(accesses, move || {
        // SAFETY: the source is within pinned memory, which the host can access; it is freed behind its uses, and not written
        // before them, of which this is one. The destination is the caller's word. They are not the same memory: one is
        // borrowed exclusively, or staging memory.
        unsafe { std::ptr::copy_nonoverlapping(from.get(), to.get(), bytes) };
    })
}
