//! Managed memory.

use super::slice::buffer_methods;
use super::{Allocation, byte_size};
use crate::context::Context;
use crate::error::{Result, ResultExt};
use crate::stream::Stream;
use anabranch_hal::{Access, Capabilities};
use bytemuck::Pod;
use std::marker::PhantomData;

/// Memory that host and device reach under one address, and that moves between them by itself.
///
/// Like [`PinnedBuffer`](crate::PinnedBuffer) it knows the work that uses it, and host access waits for that work. On a
/// device without `Capabilities::CONCURRENT_MANAGED_ACCESS`, host access waits for all work of the context.
pub struct ManagedBuffer<T> {
    memory: Allocation,
    length: usize,
    element: PhantomData<T>,
}

buffer_methods!(ManagedBuffer);

impl Context {
    /// Allocates managed memory, filled with zeros.
    ///
    /// # Errors
    /// 801 where the device has none; 2 when there is not enough.
    pub fn allocate_managed<T: Pod>(&self, length: usize) -> Result<ManagedBuffer<T>> {
        let bytes = byte_size::<T>(length, "allocating managed memory")?;
        let memory = Allocation::managed(self.core(), bytes)?;
        let buffer = ManagedBuffer::<T> { memory, length, element: PhantomData };
        buffer.wait(Access::Write)?;
        if bytes > 0 {
            // SAFETY: the memory was just allocated with that many bytes, and nobody else has its address.
            unsafe { std::ptr::write_bytes(buffer.pointer().cast::<u8>(), 0, bytes) };
        }
        Ok(buffer)
    }
}

impl<T: Pod> ManagedBuffer<T> {
    fn pointer(&self) -> *mut T {
        if self.byte_len() == 0 {
            return std::ptr::NonNull::dangling().as_ptr();
        }
        self.memory.address().0 as usize as *mut T
    }

    fn wait(&self, access: Access) -> Result<()> {
        let context = self.context();
        if !context.device().capabilities().contains(Capabilities::CONCURRENT_MANAGED_ACCESS) {
            context.synchronize()?;
        }
        self.memory.uses().synchronize(access)
    }

    /// The elements, to read. Waits until the last queued work that writes them is complete.
    ///
    /// # Errors
    /// An error of that work.
    pub fn as_slice(&self) -> Result<&[T]> {
        self.wait(Access::Read)?;
        // SAFETY: the memory is valid, aligned and initialised for the buffer's life; work that writes it is complete,
        // and none can be queued while `self` is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer(), self.length) })
    }

    /// The elements, to write. Waits until all queued work that uses them is complete.
    ///
    /// # Errors
    /// An error of that work.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.wait(Access::Write)?;
        // SAFETY: the memory is valid, aligned and initialised for the buffer's life; work that uses it is complete, and
        // none can be queued while `self` is borrowed.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.length) })
    }
}

impl Stream {
    /// Moves managed memory to this stream's device, or to the host, in stream order, ahead of its use there. A hint:
    /// it never changes results.
    ///
    /// # Errors
    /// 801 where the device cannot; 400 when the memory is of another context.
    pub fn prefetch<T: Pod>(&self, memory: &ManagedBuffer<T>, to_host: bool) -> Result<()> {
        let operation = "prefetching managed memory";
        let core = self.core();
        memory.memory.require_context(core, operation)?;
        if memory.byte_len() == 0 {
            return Ok(());
        }
        memory.memory.uses().order(core, Access::Read)?;
        let device = (!to_host).then(|| core.context().device().ordinal());
        let (driver, context, handle) = (core.context().driver(), core.context().handle(), core.handle(operation)?);
        // SAFETY: the stream is live while it is borrowed; the memory is freed behind its uses, of which this is one.
        unsafe { driver.prefetch_async(context, memory.device_pointer(), memory.byte_len(), device, handle) }
            .during(operation, || core.place())?;
        core.queued()
    }
}
