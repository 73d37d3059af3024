//! Pinned host memory.

use super::slice::buffer_methods;
use crate::context::Context;
use crate::error::Result;
use anabranch_core::memory::{Allocation, byte_size};
use anabranch_hal::{Access, PinnedFlags};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::sync::Arc;

const WRITING: &str = "writing memory from the host";

/// Host memory that devices access directly, so that copies between it and a device are fully asynchronous.
///
/// It is memory of the driver, from [`Context::allocate_pinned`], or of the program, from [`Context::register_pinned`].
///
/// It tracks the work that uses it: reading it from the host waits for the last work that writes it, and writing it
/// waits for all work that uses it. Dropping it never waits.
///
/// ```
/// # let context = anabranch::Instance::new()?.device("host")?.context()?;
/// # let stream = context.create_stream()?;
/// let buffer = stream.upload(&[1.0f32, 2.0, 3.0])?;
/// let mut result = context.allocate_pinned::<f32>(3)?;
/// stream.copy(&mut result, &buffer)?; // returns at once
/// assert_eq!(result.as_slice()?, [1.0, 2.0, 3.0]); // waits for the copy
/// # Ok::<(), anabranch::Error>(())
/// ```
pub struct PinnedBuffer<T> {
    memory: Arc<Allocation>,
    length: usize,
    element: PhantomData<T>,
}

buffer_methods!(PinnedBuffer);

impl Context {
    /// Allocates pinned host memory, filled with zeros. Every context of the driver can access it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if not enough memory can be pinned.
    #[track_caller]
    pub fn allocate_pinned<T: Pod>(&self, length: usize) -> Result<PinnedBuffer<T>> {
        self.allocate_pinned_with_flags(length, PinnedFlags::empty())
    }

    /// Like [`allocate_pinned`](Self::allocate_pinned), with flags in addition to `PORTABLE` and `DEVICE_MAP`, which
    /// are always set.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if not enough memory can be pinned;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for flags that the driver does not know.
    #[track_caller]
    pub fn allocate_pinned_with_flags<T: Pod>(&self, length: usize, flags: PinnedFlags) -> Result<PinnedBuffer<T>> {
        let bytes = byte_size::<T>(length, "allocating pinned memory")?;
        let flags = flags | PinnedFlags::PORTABLE | PinnedFlags::DEVICE_MAP;
        let memory = Arc::new(Allocation::pinned(self.core(), bytes, flags)?);
        let buffer = PinnedBuffer::<T> { memory, length, element: PhantomData };
        if bytes > 0 {
            // SAFETY: the memory was just allocated with that many bytes, and nobody else has its address.
            unsafe { std::ptr::write_bytes(buffer.pointer().cast::<u8>(), 0, bytes) };
        }
        Ok(buffer)
    }
}

impl<T: Pod> PinnedBuffer<T> {
    /// Memory of the program, of which there are so many elements.
    pub(super) fn of_program(memory: Allocation, length: usize) -> Self {
        Self::of_shared(Arc::new(memory), length)
    }

    pub(super) fn of_shared(memory: Arc<Allocation>, length: usize) -> Self {
        Self { memory, length, element: PhantomData }
    }

    pub(super) fn into_allocation(self) -> Arc<Allocation> {
        self.memory
    }

    fn pointer(&self) -> *mut T {
        if self.byte_len() == 0 {
            return std::ptr::NonNull::dangling().as_ptr();
        }
        self.memory.address().0 as usize as *mut T
    }

    /// The elements, for reading. Blocks until the last queued work that writes them is complete.
    ///
    /// # Errors
    /// An error of that work; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) while a graph writes the
    /// memory: see [`read`](Self::read).
    pub fn as_slice(&self) -> Result<&[T]> {
        self.memory.host_access().require_no_graph(Access::Read)?;
        self.memory.history().synchronize(Access::Read)?;
        // SAFETY: the memory is valid, aligned and initialised for the buffer's life; work that writes it is complete,
        // and none can be queued while `self` is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(self.pointer(), self.length) })
    }

    /// The elements, for writing. Blocks until all queued work that uses them is complete.
    ///
    /// # Errors
    /// An error of that work; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) while a graph uses the
    /// memory: see [`write`](Self::write); [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for memory
    /// that was registered as read-only.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.memory.require_writable(WRITING)?;
        self.memory.host_access().require_no_graph(Access::Write)?;
        self.memory.history().synchronize(Access::Write)?;
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
        self.memory.history().synchronize(Access::Read)?;
        // SAFETY: the memory is valid, aligned and initialised for the buffer's life; work that writes it is complete. None
        // can be queued while `self` is borrowed, except by launches of graphs, which the guard excludes.
        Ok(reader(unsafe { std::slice::from_raw_parts(self.pointer(), self.length) }))
    }

    /// Waits for work that uses the elements, then calls `writer` with them. Launches of graphs that use the memory are
    /// refused in the meantime, so this also works while a graph retains the memory.
    ///
    /// # Errors
    /// An error of the work that is waited for; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) inside
    /// [`read`](Self::read); [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for memory that was
    /// registered as read-only; [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function while
    /// a graph that uses the memory is being launched.
    pub fn write<R>(&mut self, writer: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        self.memory.require_writable(WRITING)?;
        let _guard = self.memory.host_access().enter(Access::Write, WRITING)?;
        self.memory.history().synchronize(Access::Write)?;
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

    /// Whether [`as_mut_slice`](Self::as_mut_slice) would return without blocking.
    ///
    /// # Errors
    /// An error of the work that uses the memory.
    pub fn is_idle(&self) -> Result<bool> {
        self.memory.history().is_over(Access::Write)
    }
}
