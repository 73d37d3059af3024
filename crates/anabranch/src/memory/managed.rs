//! Managed memory.

use super::BufferSliceMut;
use super::slice::buffer_methods;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_core::memory::{Allocation, Origin, byte_size};
use anabranch_hal::{Access, Capabilities, MemoryAttachment, Status};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::sync::Arc;

/// Memory that the host and the device access at the same address, and that the driver moves between them.
///
/// Like [`PinnedBuffer`](crate::PinnedBuffer), it tracks the work that uses it, and host access waits for that work. On
/// a device without `Capabilities::CONCURRENT_MANAGED_ACCESS`, host access waits for all work of the context, unless the
/// memory is [attached](Stream::attach) to the host.
pub struct ManagedBuffer<T> {
    memory: Arc<Allocation>,
    length: usize,
    element: PhantomData<T>,
}

buffer_methods!(ManagedBuffer);

impl Context {
    /// Allocates managed memory, filled with zeros.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no managed memory;
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory.
    #[track_caller]
    pub fn allocate_managed<T: Pod>(&self, length: usize) -> Result<ManagedBuffer<T>> {
        let bytes = byte_size::<T>(length, "allocating managed memory")?;
        let memory = Arc::new(Allocation::managed(self.core(), bytes)?);
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
        let is_concurrent = context.device().capabilities().contains(Capabilities::CONCURRENT_MANAGED_ACCESS);
        if !is_concurrent && !self.memory.is_attached_to_host() {
            context.synchronize()?;
        }
        self.memory.history().synchronize(access)
    }

    /// The elements, for reading. Blocks until the last queued work that writes them is complete.
    ///
    /// # Errors
    /// An error of that work; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) while a graph writes the
    /// memory: see [`read`](Self::read).
    pub fn as_slice(&self) -> Result<&[T]> {
        self.memory.host_access().require_no_graph(Access::Read)?;
        self.wait(Access::Read)?;
        // SAFETY: the memory is valid, aligned and initialised for the buffer's life; work that writes it is complete,
        // and none can be queued while `self` is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer(), self.length) })
    }

    /// The elements, for writing. Blocks until all queued work that uses them is complete.
    ///
    /// # Errors
    /// An error of that work; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) while a graph uses the
    /// memory: see [`write`](Self::write).
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.memory.host_access().require_no_graph(Access::Write)?;
        self.wait(Access::Write)?;
        // SAFETY: the memory is valid, aligned and initialised for the buffer's life; work that uses it is complete, and
        // none can be queued while `self` is borrowed.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.length) })
    }

    /// Waits for work that writes the elements, then calls `reader` with them. Launches of graphs that write the memory
    /// are refused in the meantime, so this also works while a graph retains the memory.
    ///
    /// # Errors
    /// An error of the work that is waited for; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) inside
    /// [`write`](Self::write); [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function while a
    /// graph that writes the memory is being launched.
    pub fn read<R>(&self, reader: impl FnOnce(&[T]) -> R) -> Result<R> {
        let _guard = self.memory.host_access().enter(Access::Read, "reading memory from the host")?;
        self.wait(Access::Read)?;
        // SAFETY: the memory is valid, aligned and initialised for the buffer's life; work that writes it is complete. None
        // can be queued while `self` is borrowed, except by launches of graphs, which the guard excludes.
        Ok(reader(unsafe { std::slice::from_raw_parts(self.pointer(), self.length) }))
    }

    /// Waits for work that uses the elements, then calls `writer` with them. Launches of graphs that use the memory are
    /// refused in the meantime, so this also works while a graph retains the memory.
    ///
    /// # Errors
    /// An error of the work that is waited for; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) inside
    /// [`read`](Self::read).
    pub fn write<R>(&mut self, writer: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        let _guard = self.memory.host_access().enter(Access::Write, "writing memory from the host")?;
        self.wait(Access::Write)?;
        // SAFETY: the memory is valid, aligned and initialised for the buffer's life; work that uses it is complete. None
        // can be queued while `self` is borrowed, except by launches of graphs, which the guard excludes.
        Ok(writer(unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.length) }))
    }

    /// Waits for work that uses the elements, then sets each to what `element` returns for its index. Like
    /// [`write`](Self::write), this also works while a graph retains the memory. If `element` panics, the elements before keep
    /// what they were set to.
    ///
    /// # Errors
    /// Same as [`write`](Self::write).
    pub fn fill_with(&mut self, mut element: impl FnMut(usize) -> T) -> Result<()> {
        self.write(|elements| elements.iter_mut().enumerate().for_each(|(index, place)| *place = element(index)))
    }
}

impl Stream {
    /// Moves managed memory to this stream's device, or to the host, in stream order, ahead of its use there. This is a
    /// hint and never changes results.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the memory belongs to another context;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, which invalidates the capture, or a capture that has not ended uses the memory.
    #[track_caller]
    pub fn prefetch<T: Pod>(&self, memory: &ManagedBuffer<T>, to_host: bool) -> Result<()> {
        let core = self.core();
        if memory.byte_len() == 0 {
            return memory.memory.require_context(core, "prefetching managed memory");
        }
        core.prefetch(&memory.memory, (!to_host).then(|| core.context().device().ordinal()))
    }

    /// Says in stream order who uses managed memory from now on (`cuStreamAttachMemAsync`): all streams, only this one, or only the
    /// host. A new attachment replaces the old one. Memory is attached to all streams at first. On a device without
    /// `Capabilities::CONCURRENT_MANAGED_ACCESS`, the driver then moves less; on others this changes nothing.
    ///
    /// On every device, work of other streams that uses the memory is refused with
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE). So are launches of graphs that use it, except
    /// in the stream that it is attached to. When that stream has ended, the memory must be attached again before a
    /// stream uses it. Memory is attached as a whole, so that `memory` is a buffer, or a slice of all of it.
    ///
    /// ```
    /// use anabranch::MemoryAttachment;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let (stream, other) = (context.create_stream()?, context.create_stream()?);
    /// let mut memory = context.allocate_managed::<u32>(100)?;
    /// stream.attach(&mut memory, MemoryAttachment::Single)?;
    /// stream.fill(&mut memory, 7)?;
    /// assert!(other.fill(&mut memory, 8).is_err());
    /// other.attach(&mut memory, MemoryAttachment::Global)?;
    /// other.fill(&mut memory, 8)?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for memory that is not managed, and for a part of a
    /// buffer;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the memory belongs to another context;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, or a capture uses the memory, which invalidates no capture.
    #[track_caller]
    pub fn attach<'a, T: Pod>(
        &self,
        memory: impl Into<BufferSliceMut<'a, T>>,
        attachment: MemoryAttachment,
    ) -> Result<()> {
        let (core, slice) = (self.core(), memory.into());
        let (memory, operation) = (slice.allocation(), "attaching managed memory");
        if !matches!(memory.origin(), Origin::Managed) {
            return Err(Error::argument(Status::INVALID_VALUE, operation, "the memory is not managed")
                .with_hint("use Context::allocate_managed; other memory needs no attachment")
                .at(core.place()));
        }
        if slice.byte_len() != memory.bytes() {
            let message = format!("{} of the {} bytes of a buffer are not attached", slice.byte_len(), memory.bytes());
            return Err(Error::argument(Status::INVALID_VALUE, operation, message)
                .with_hint("attach the whole buffer")
                .at(core.place()));
        }
        if slice.byte_len() == 0 {
            return memory.require_context(core, operation);
        }
        core.attach(memory, attachment)
    }
}
