//! Host memory of the program, registered as pinned memory.

use super::{BufferSlice, BufferSliceMut, PinnedBuffer, zeroed_vector};
use crate::context::Context;
use crate::error::{Error, Result};
use anabranch_core::host_work::refuse_inside;
use anabranch_core::keeper::Keeper;
use anabranch_core::memory::{Allocation, HostRange, byte_size};
use anabranch_core::reaper::comes_about;
use anabranch_hal::{InsideWorkBefore, RegisterFlags, Status};
use bytemuck::Pod;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

const REGISTERING: &str = "registering host memory";

/// A vector whose elements others use by their address.
struct Kept<T: Pod> {
    address: NonNull<T>,
    length: usize,
    capacity: usize,
}

// SAFETY: the elements are plain data, whose drop runs no code, and only a buffer of `T` gives the vector out, which is
// itself not sent where `T` must not be.
unsafe impl<T: Pod> Send for Kept<T> {}

impl<T: Pod> Kept<T> {
    fn new(memory: Vec<T>) -> Self {
        let mut memory = ManuallyDrop::new(memory);
        let (length, capacity) = (memory.len(), memory.capacity());
        let address = NonNull::new(memory.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self { address, length, capacity }
    }

    fn into_vector(self) -> Vec<T> {
        let kept = ManuallyDrop::new(self);
        // SAFETY: these are the parts of a vector that was given up, and is put together once.
        unsafe { Vec::from_raw_parts(kept.address.as_ptr(), kept.length, kept.capacity) }
    }
}

impl<T: Pod> Drop for Kept<T> {
    fn drop(&mut self) {
        // SAFETY: these are the parts of a vector that was given up, and is put together once.
        drop(unsafe { Vec::from_raw_parts(self.address.as_ptr(), self.length, self.capacity) });
    }
}

impl Context {
    /// Registers a vector as pinned memory: nothing is copied, and copies between it and a device are fully asynchronous from
    /// now on. [`PinnedBuffer::into_vec`] returns the vector. If the buffer is dropped, the vector is unregistered and freed
    /// behind its last use, when the context is idle. For a boxed slice, use its `into_vec`, which copies nothing either.
    ///
    /// Registering takes longer than a copy of the memory, so register what is used repeatedly. Drivers pin whole pages, and may
    /// refuse memory that shares a page with other registered memory. Follows `cuMemHostRegister`.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let buffer = stream.upload(&[1.0f32, 2.0, 3.0])?;
    /// let mut result = context.register_pinned(vec![0.0f32; 3]).map_err(|(error, _)| error)?;
    /// stream.copy(&mut result, &buffer)?; // returns at once
    /// let vector = result.into_vec().map_err(|(error, _)| error)?; // waits for the copy
    /// assert_eq!(vector, [1.0, 2.0, 3.0]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// In each case the vector is returned:
    /// [`CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)`](crate::Status::HOST_MEMORY_ALREADY_REGISTERED) if the driver
    /// refuses it because of memory that is registered;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if it is memory of the driver's, such as that of a
    /// [`PinnedBuffer`];
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device uses registered memory at another
    /// address than the host; [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if the memory cannot be
    /// pinned.
    #[track_caller]
    pub fn register_pinned<T: Pod>(&self, memory: Vec<T>) -> Result<PinnedBuffer<T>, (Error, Vec<T>)> {
        self.register_pinned_with_flags(memory, RegisterFlags::empty())
    }

    /// Like [`register_pinned`](Self::register_pinned), with flags in addition to `PORTABLE` and `DEVICE_MAP`, which are always
    /// set. With `READ_ONLY`, neither work nor the host writes the memory until it is a vector again.
    ///
    /// # Errors
    /// Same as [`register_pinned`](Self::register_pinned);
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for `IO_MEMORY`, which a vector is not, and for
    /// flags that the driver does not know; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the
    /// device has no read-only memory.
    #[track_caller]
    pub fn register_pinned_with_flags<T: Pod>(
        &self,
        memory: Vec<T>,
        flags: RegisterFlags,
    ) -> Result<PinnedBuffer<T>, (Error, Vec<T>)> {
        if let Err(error) = refuse_io_memory(self, flags) {
            return Err((error, memory));
        }
        let length = memory.len();
        let bytes = match byte_size::<T>(length, REGISTERING) {
            Ok(bytes) => bytes,
            Err(error) => return Err((error, memory)),
        };
        let kept = Kept::new(memory);
        let range = HostRange { address: kept.address.as_ptr().cast(), bytes, flags };
        let keeper = Keeper::new(kept);
        // SAFETY: the keeper has the memory, which is used only through the buffer.
        match unsafe { Allocation::registered(self.core(), range, keeper) } {
            Ok(memory) => Ok(PinnedBuffer::of_program(memory, length)),
            Err((error, keeper)) => Err((error, vector(keeper.into_kept()).unwrap_or_default())),
        }
    }

    /// Registers memory that is neither a vector nor borrowed for a scope, such as a file or device that is mapped to memory.
    /// `keeper` is whatever keeps it allocated. It is dropped when the memory is not registered any more, on a thread of this
    /// library.
    ///
    /// # Safety
    /// The elements are initialised, and stay allocated until `keeper` is dropped; others use them only in work that is
    /// complete, or that [`Stream::submit_foreign`](crate::Stream::submit_foreign) orders. They can be written, unless
    /// `flags` contain `READ_ONLY`. With `IO_MEMORY`, they are memory of another device, which the host accesses as any memory.
    ///
    /// # Errors
    /// Same as [`register_pinned`](Self::register_pinned), and `keeper` is dropped;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the address is not aligned for the elements;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) or
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) if the system cannot register such memory.
    #[track_caller]
    pub unsafe fn register_pinned_raw_parts<T: Pod>(
        &self,
        address: NonNull<T>,
        length: usize,
        flags: RegisterFlags,
        keeper: impl Send + 'static,
    ) -> Result<PinnedBuffer<T>> {
        let bytes = byte_size::<T>(length, REGISTERING)?;
        if !address.is_aligned() {
            let message = format!("{address:?} is not aligned to the {} bytes of the elements", align_of::<T>());
            return Err(Error::argument(Status::INVALID_VALUE, REGISTERING, message)
                .with_hint("register elements of another type, or an aligned part of the memory")
                .at(self.core().place()));
        }
        let range = HostRange { address: address.as_ptr().cast(), bytes, flags };
        // SAFETY: the caller promises that the keeper keeps the memory allocated, and who uses it.
        let memory = unsafe { Allocation::registered(self.core(), range, Keeper::new(keeper)) };
        memory.map(|memory| PinnedBuffer::of_program(memory, length)).map_err(|(error, _)| error)
    }

    /// Registers a slice as pinned memory for as long as `body` runs. Work that `body` submits may read and write the memory.
    /// However `body` is left, including by a panic, the call waits for that work and unregisters the memory before it returns;
    /// for the latter, the driver may wait for all work of the context. The memory cannot be captured, nor used in graphs.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let mut samples = vec![1.0f32, 2.0, 3.0];
    /// context.register_scope(&mut samples, |mut samples| {
    ///     let buffer = stream.clone_buffer(samples.as_slice())?;
    ///     stream.fill(samples.reborrow(), 0.0)?;
    ///     stream.copy(samples.slice(1..)?, buffer.slice(..2)?)
    /// })?;
    /// assert_eq!(samples, [0.0, 1.0, 2.0]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The body's error, otherwise an error of the work, or of unregistering the memory. Before `body` is called: the
    /// errors of [`register_pinned`](Self::register_pinned);
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function, where waiting is not
    /// permitted.
    #[track_caller]
    pub fn register_scope<T: Pod, R>(
        &self,
        memory: &mut [T],
        body: impl for<'scope> FnOnce(BufferSliceMut<'scope, T>) -> Result<R>,
    ) -> Result<R> {
        let (address, length) = (memory.as_mut_ptr(), memory.len());
        // SAFETY: the memory is borrowed exclusively until this call is over.
        unsafe { scope(self, address, length, |memory| body(BufferSliceMut::whole(memory, length))) }
    }

    /// Like [`register_scope`](Self::register_scope), for memory that work only reads, and that others may read meanwhile.
    ///
    /// # Errors
    /// Same as [`register_scope`](Self::register_scope).
    #[track_caller]
    pub fn register_scope_for_reading<T: Pod, R>(
        &self,
        memory: &[T],
        body: impl for<'scope> FnOnce(BufferSlice<'scope, T>) -> Result<R>,
    ) -> Result<R> {
        let (address, length) = (memory.as_ptr().cast_mut(), memory.len());
        // SAFETY: the memory is borrowed until this call is over, and the body has a slice that work only reads.
        unsafe { scope(self, address, length, |memory| body(BufferSlice::whole(memory, length))) }
    }
}

impl<T: Pod> PinnedBuffer<T> {
    /// Waits for all work that uses the elements, and returns them as a vector: the one that was
    /// [registered](Context::register_pinned), which is unregistered, or else a copy. To unregister it,
    /// the driver may wait for all work of the context.
    ///
    /// # Errors
    /// In each case the buffer is returned: an error of the work, or of unregistering;
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) while a graph retains memory that was registered;
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function;
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is no host memory for a copy.
    pub fn into_vec(self) -> Result<Vec<T>, (Error, Self)> {
        let length = self.len();
        if !self.allocation().keeps::<Kept<T>>() {
            let copied = zeroed_vector(length, "copying pinned memory").and_then(|mut copy| {
                self.read(|elements| copy.copy_from_slice(elements))?;
                Ok(copy)
            });
            return copied.map_err(|error| (error, self));
        }
        // The reaper releases the memory of a graph that is gone.
        comes_about(|| Arc::strong_count(self.allocation()) == 1);
        let memory = Arc::try_unwrap(self.into_allocation());
        let mut memory = match memory {
            Ok(memory) => memory,
            Err(memory) => {
                let message = "a graph, or a part of one, retains the memory";
                let error = Error::argument(Status::ILLEGAL_STATE, "unregistering host memory", message)
                    .with_hint("drop what uses the memory first, and wait for its launches")
                    .at(memory.context().place());
                return Err((error, Self::of_shared(memory, length)));
            }
        };
        match memory.take_kept() {
            Ok(kept) => Ok(vector(kept).unwrap_or_default()),
            Err(error) => Err((error, Self::of_program(memory, length))),
        }
    }
}

/// The vector that was kept, if one was.
fn vector<T: Pod>(kept: Option<Box<dyn Any + Send>>) -> Option<Vec<T>> {
    kept?.downcast::<Kept<T>>().ok().map(|kept| kept.into_vector())
}

fn refuse_io_memory(context: &Context, flags: RegisterFlags) -> Result<()> {
    if !flags.contains(RegisterFlags::IO_MEMORY) {
        return Ok(());
    }
    Err(Error::argument(Status::INVALID_VALUE, REGISTERING, "a vector is memory of the host, and of no other device")
        .with_hint("register memory of another device with register_pinned_raw_parts")
        .at(context.core().place()))
}

/// Registers memory while `body` runs.
///
/// # Safety
/// Until the call is over, the elements stay allocated, and nobody uses them except by work that `body` submits; others may read
/// them if that work only reads.
#[track_caller]
unsafe fn scope<T: Pod, R>(
    context: &Context,
    address: *mut T,
    length: usize,
    body: impl FnOnce(&Arc<Allocation>) -> Result<R>,
) -> Result<R> {
    refuse_inside(REGISTERING).map_err(|error| error.at(context.core().place()))?;
    let bytes = byte_size::<T>(length, REGISTERING)?;
    let range = HostRange { address: address.cast(), bytes, flags: RegisterFlags::empty() };
    // SAFETY: the memory stays allocated until this call is over. Before that it is given back, also if the body unwinds, and what
    // could submit uses of it is borrowed from this function, which the body does not outlive.
    let memory = unsafe { Allocation::borrowed(context.core(), range) }?;
    // SAFETY: it is dropped when the body has ended, in this function.
    let inside = unsafe { InsideWorkBefore::note() };
    let end = GiveBackOnDrop { memory: &memory, inside: Some(inside) };
    let result = body(&memory);
    let given_back = end.finish();
    let value = result?;
    given_back.map(|()| value)
}

/// Gives borrowed memory back at the end of a scope, also if its body panics.
struct GiveBackOnDrop<'a> {
    memory: &'a Arc<Allocation>,
    /// The body may mark the thread, and keep the mark, with which nothing could be waited for.
    inside: Option<InsideWorkBefore>,
}

impl GiveBackOnDrop<'_> {
    fn finish(mut self) -> Result<()> {
        drop(self.inside.take());
        let memory = self.memory;
        std::mem::forget(self);
        memory.give_back()
    }
}

impl Drop for GiveBackOnDrop<'_> {
    fn drop(&mut self) {
        drop(self.inside.take());
        let _ = self.memory.give_back();
    }
}
