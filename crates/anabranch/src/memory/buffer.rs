//! Device memory.

use super::slice::buffer_methods;
use super::{BufferSlice, MemoryPool, uncaptured};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_core::host_work::refuse_inside;
use anabranch_core::memory::{Allocation, byte_size};
use anabranch_core::submission::refuse_captured_memory;
use anabranch_core::trace;
use anabranch_hal::Status;
use bytemuck::Pod;
use std::marker::PhantomData;
use std::sync::Arc;

/// Device memory for elements of `T`, a plain number or a plain structure of them.
///
/// Work in any stream of its context may use a buffer, and the library orders these uses. As long as the buffer stays
/// in one stream, this costs nothing. When another stream uses it, the library records an event and makes that stream
/// wait for it, unless the program has already ordered the streams by an event, a wait for the stream, or a wait of the
/// host. Dropping a buffer never waits: the memory is freed after its last use in every stream. It is freed in the order of the
/// stream that it was allocated in, so that later work of that stream comes behind all these uses.
///
/// [`Stream::orders_inserted`] and [`Context::orders_inserted`] count how often the library added such an order. With
/// [`Context::set_strict_order`], the library instead refuses work for which it would have to add one.
///
/// ```
/// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
/// let mut buffer = stream.upload(&[1u32, 2, 3, 4])?;
/// stream.fill(buffer.slice_mut(1..3)?, 7)?;
/// assert_eq!(stream.download(&buffer)?, [1, 7, 7, 4]);
/// # Ok::<(), anabranch::Error>(())
/// ```
pub struct Buffer<T> {
    memory: Arc<Allocation>,
    length: usize,
    element: PhantomData<T>,
}

buffer_methods!(Buffer);

impl<T: Pod> Buffer<T> {
    #[track_caller]
    fn stream_ordered(stream: &Stream, length: usize, pool: Option<&MemoryPool>) -> Result<Self> {
        if let Some(pool) = pool {
            pool.require_reach(stream)?;
        }
        let bytes = byte_size::<T>(length, "allocating in stream order")?;
        let memory = stream.core().allocate(bytes, pool.map(MemoryPool::core))?;
        Ok(Self { memory, length, element: PhantomData })
    }
}

impl<T: Pod> Buffer<T> {
    /// Memory that somebody else frees: a graph that allocates it, or another library.
    pub(crate) fn of_others(memory: impl Into<Arc<Allocation>>, length: usize) -> Self {
        Self { memory: memory.into(), length, element: PhantomData }
    }
}

impl Stream {
    /// Allocates from the device's default pool in the order of this stream, and fills the memory with zeros. The
    /// buffer can be used at once, in this stream or another.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory.
    #[track_caller]
    pub fn allocate_zeroed<T: Pod>(&self, length: usize) -> Result<Buffer<T>> {
        self.zeroed(length, |length| Buffer::stream_ordered(self, length, None))
    }

    /// Like [`allocate_zeroed`](Self::allocate_zeroed), but from another pool.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory, in the pool or on
    /// the device.
    #[track_caller]
    pub fn allocate_zeroed_from<T: Pod>(&self, pool: &MemoryPool, length: usize) -> Result<Buffer<T>> {
        self.zeroed(length, |length| Buffer::stream_ordered(self, length, Some(pool)))
    }

    /// Fills fresh memory. Both are captured, or neither is: the stream neither joins nor leaves a capture in between.
    fn zeroed<T: Pod>(&self, length: usize, allocate: impl FnOnce(usize) -> Result<Buffer<T>>) -> Result<Buffer<T>> {
        // Before the lock, which the thread may hold around the host function.
        refuse_inside("allocating in stream order").map_err(|error| error.at(self.core().place()))?;
        self.core().refuse_captured_by_another_instance("allocating in stream order")?;
        trace::queued!(
            bytes = length.saturating_mul(size_of::<T>()),
            stream = self.core().id(),
            "allocating in stream order, and filling with zeros"
        );
        let _whole = trace::Whole::begin();
        let _submitting = self.core().shared().membership().submitting();
        let mut buffer = allocate(length)?;
        self.fill_zero(&mut buffer)?;
        Ok(buffer)
    }

    /// Like [`allocate_zeroed`](Self::allocate_zeroed), but without filling.
    ///
    /// # Safety
    /// Work that reads an element follows work that has written it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory.
    #[track_caller]
    pub unsafe fn allocate_uninitialized<T: Pod>(&self, length: usize) -> Result<Buffer<T>> {
        Buffer::stream_ordered(self, length, None)
    }

    /// Like [`allocate_zeroed_from`](Self::allocate_zeroed_from), but without filling.
    ///
    /// # Safety
    /// Work that reads an element follows work that has written it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory, in the pool or on
    /// the device.
    #[track_caller]
    pub unsafe fn allocate_uninitialized_from<T: Pod>(&self, pool: &MemoryPool, length: usize) -> Result<Buffer<T>> {
        Buffer::stream_ordered(self, length, Some(pool))
    }

    /// Allocates memory and copies `source` to it. Returns when `source` can be changed again.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory.
    #[track_caller]
    pub fn upload<T: Pod>(&self, source: &[T]) -> Result<Buffer<T>> {
        // A capture that begins behind the allocation makes the copy be refused, and has nothing of it.
        refuse_inside("uploading").map_err(|error| error.at(self.core().place()))?;
        trace::queued!(bytes = size_of_val(source), stream = self.core().id(), "allocating in stream order");
        let mut buffer = {
            let _whole = trace::Whole::begin();
            let _submitting = self.core().shared().membership().submitting();
            self.core().refuse_while_capturing("uploading")?;
            Buffer::stream_ordered(self, source.len(), None)?
        };
        self.copy_from_host(&mut buffer, source)?;
        Ok(buffer)
    }

    /// Allocates memory and copies the elements of an iterator to it, by way of a vector. Returns when the copy has taken them.
    ///
    /// ```
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let squares = stream.upload_elements((0..4u32).map(|index| index * index))?;
    /// assert_eq!(stream.download(&squares)?, [0, 1, 4, 9]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory, on the device or
    /// on the host.
    #[track_caller]
    pub fn upload_elements<T: Pod>(&self, elements: impl IntoIterator<Item = T>) -> Result<Buffer<T>> {
        // The iterator is code of the program, and runs before anything is done.
        let source = collected(elements, "uploading")?;
        self.upload(&source)
    }

    /// Allocates memory from the device's default pool, and copies `source` to it, in stream order and without waiting.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for memory of another context;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) while the stream
    /// captures, or for memory that a capture uses. In a capture, copy to memory that was [allocated with
    /// zeros](Self::allocate_zeroed).
    #[track_caller]
    pub fn clone_buffer<'b, T: Pod>(&self, source: impl Into<BufferSlice<'b, T>>) -> Result<Buffer<T>> {
        let (source, operation) = (source.into(), "cloning a buffer");
        uncaptured(self, operation, || {
            refuse_captured_memory(source.allocation(), self.core(), operation)?;
            let mut clone = Buffer::stream_ordered(self, source.len(), None)?;
            self.copy(&mut clone, source)?;
            Ok(clone)
        })
    }

    /// Copies to a new vector. Returns when the copy is complete.
    ///
    /// # Errors
    /// An error of earlier work that the copy depends on;
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough host memory for the
    /// vector.
    #[track_caller]
    pub fn download<'b, T: Pod>(&self, source: impl Into<BufferSlice<'b, T>>) -> Result<Vec<T>> {
        let source = source.into();
        let mut destination = zeroed_vector(source.len(), "downloading")?;
        self.copy_to_host(&mut destination, source)?;
        Ok(destination)
    }
}

/// A vector of what an iterator returns.
fn collected<T>(elements: impl IntoIterator<Item = T>, operation: &'static str) -> Result<Vec<T>> {
    let mut elements = elements.into_iter();
    let mut collected = Vec::new();
    let full = |length: usize| {
        let message = format!("there is no host memory for more than {length} elements of {} bytes", size_of::<T>());
        Error::argument(Status::OUT_OF_MEMORY, operation, message).with_hint("upload a part at a time")
    };
    collected.try_reserve(elements.size_hint().0).map_err(|_| full(0))?;
    while let Some(element) = elements.next() {
        if collected.len() == collected.capacity() {
            collected.try_reserve(elements.size_hint().0.saturating_add(1)).map_err(|_| full(collected.len()))?;
        }
        collected.push(element);
    }
    Ok(collected)
}

/// A vector of zeros.
///
/// # Errors
/// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY).
pub(crate) fn zeroed_vector<T: Pod>(length: usize, operation: &'static str) -> Result<Vec<T>> {
    bytemuck::allocation::try_zeroed_vec(length).map_err(|()| {
        let message = format!("there is no host memory for {length} elements of {} bytes", size_of::<T>());
        Error::argument(Status::OUT_OF_MEMORY, operation, message)
            .with_hint("copy a part at a time, with copy_to_host and slices of the buffer")
    })
}

impl Context {
    /// Allocates device memory outside stream order, and fills it with zeros in `stream`. Prefer
    /// [`Stream::allocate_zeroed`]. This method is for devices without memory pools, and for memory that is shared with
    /// code that requires the driver's plain allocator.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing: the memory would exist, and would be filled by launches of the graph.
    #[track_caller]
    pub fn allocate_zeroed<T: Pod>(&self, stream: &Stream, length: usize) -> Result<Buffer<T>> {
        let bytes = byte_size::<T>(length, "allocating")?;
        uncaptured(stream, "allocating", || {
            let memory = Arc::new(Allocation::plain(self.core(), bytes)?);
            let mut buffer = Buffer { memory, length, element: PhantomData };
            stream.fill_zero(&mut buffer)?;
            Ok(buffer)
        })
    }
}
