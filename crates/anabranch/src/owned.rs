//! Operations that own their buffers until they are complete, as futures.

mod transfer;

pub use transfer::{Download, Upload};

use crate::completion::Enqueued;
use crate::error::Result;
use crate::kernel::{Kernel, KernelArguments, LaunchConfig};
use crate::memory::{BufferSlice, FillElement, OwnedBuffer, copy_on_host, require_equal_lengths, uncaptured};
use crate::stream::Stream;
use anabranch_core::submission::refuse_captured_memory;
use bytemuck::Pod;

impl Stream {
    /// Allocates memory in the order of this stream and copies `source` to it: [`upload`](Self::upload) for tasks. The
    /// future returns the buffer when the copy is complete.
    ///
    /// The elements are copied to pinned staging memory before this returns, so `source` is no longer needed, and the
    /// copy from there is queued. Nothing waits for the device. The context keeps staging memory for reuse. If it has
    /// none of that size, pinning takes long and may block: see
    /// [`Context::reserve_staging`](crate::Context::reserve_staging). Dropping the future frees the buffer in stream
    /// order.
    ///
    /// ```
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// # futures::executor::block_on(async {
    /// let buffer = stream.upload_async(vec![1u32, 2, 3]).await?;
    /// assert_eq!(stream.download_async(&buffer).await?, [1, 2, 3]);
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future returns [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough device
    /// memory, or not enough memory can be pinned;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing; otherwise the same as [`checked_completion_future`](Self::checked_completion_future).
    pub fn upload_async<T: Pod>(&self, source: impl AsRef<[T]>) -> Upload<T> {
        Upload::queue(self, source.as_ref())
    }

    /// Copies to a new vector: [`download`](Self::download) for tasks. The future returns the vector when the copy is
    /// complete.
    ///
    /// The copy is queued before this returns, through pinned staging memory as in
    /// [`upload_async`](Self::upload_async). The source can therefore be written or dropped at once, which is ordered
    /// after the copy. The task that receives the vector copies the elements to it from the staging memory. To avoid
    /// that copy, use a [`PinnedBuffer`](crate::PinnedBuffer), [`copy_async`](Self::copy_async), and
    /// [`as_slice_async`](crate::PinnedBuffer::as_slice_async).
    ///
    /// ```
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// # futures::executor::block_on(async {
    /// let buffer = stream.upload(&[1u32, 2, 3])?;
    /// let tail = stream.download_async(buffer.slice(1..)?);
    /// drop(buffer);
    /// assert_eq!(tail.await?, [2, 3]);
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future returns [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if not enough memory can be
    /// pinned; [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the source belongs to another
    /// context; [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the
    /// stream is capturing; otherwise the same as [`checked_completion_future`](Self::checked_completion_future).
    pub fn download_async<'b, T: Pod>(&self, source: impl Into<BufferSlice<'b, T>>) -> Download<T> {
        Download::queue(self, source.into())
    }

    /// Copies one buffer to another of the same length, and returns both when the copy is complete. Each may be a
    /// [`Buffer`](crate::Buffer), a [`PinnedBuffer`](crate::PinnedBuffer) or a [`ManagedBuffer`](crate::ManagedBuffer).
    /// This never blocks, not even where [`copy`](Self::copy) would because both are pinned: then a thread of the
    /// driver copies in stream order.
    ///
    /// Dropping the future drops both buffers, which are freed after the copy. If the copy is refused, they are dropped
    /// too.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// # futures::executor::block_on(async {
    /// let (target, source) = (context.allocate_pinned::<u8>(3)?, stream.upload_async([1, 2, 3]).await?);
    /// let (target, _source) = stream.copy_async(target, source).await?;
    /// assert_eq!(target.as_slice()?, [1, 2, 3]);
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future returns the errors of [`copy`](Self::copy) and [`enqueue_async`](Self::enqueue_async).
    pub fn copy_async<D, S>(&self, destination: D, source: S) -> Enqueued<(D, S)>
    where
        D: OwnedBuffer,
        S: OwnedBuffer<Element = D::Element>,
    {
        let mut destination = destination;
        self.enqueue_async(move |stream| {
            uncaptured(stream, "copying", || {
                let (to, from) = (destination.whole_mut(), source.whole());
                refuse_captured_memory(to.allocation(), stream.core(), "copying")?;
                refuse_captured_memory(from.allocation(), stream.core(), "copying")?;
                if to.allocation().is_pinned() && from.allocation().is_pinned() {
                    require_equal_lengths(to.len(), from.len())?;
                    copy_on_host(stream, to, from)
                } else {
                    stream.copy(to, from)
                }
            })?;
            Ok((destination, source))
        })
    }

    /// Sets every element of the buffer to `value`, and returns the buffer when the fill is complete. Dropping the
    /// future drops the buffer, which is freed after the fill. An error drops it too.
    ///
    /// # Errors
    /// The future returns the errors of [`fill`](Self::fill) and [`enqueue_async`](Self::enqueue_async).
    pub fn fill_async<B>(&self, buffer: B, value: B::Element) -> Enqueued<B>
    where
        B: OwnedBuffer<Element: FillElement>,
    {
        let mut buffer = buffer;
        self.enqueue_async(move |stream| {
            uncaptured(stream, "filling", || {
                refuse_captured_memory(buffer.whole().allocation(), stream.core(), "filling")?;
                stream.fill(buffer.whole_mut(), value)
            })?;
            Ok(buffer)
        })
    }

    /// [Launches](Self::launch) a kernel, and returns the arguments when the launch is complete. Buffers by value are
    /// memory that the kernel writes. Pass those that it only reads as [`Reads`](crate::Reads). Borrowed arguments stay
    /// borrowed until the future is dropped.
    ///
    /// Dropping the future drops the arguments, whose buffers are freed after the launch. An error drops them too.
    ///
    /// ```
    /// use anabranch::{DualModule, HostFunction, LaunchConfig, Reads};
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let double = HostFunction::new("double", &[8, 8], |block, arguments| {
    ///     let (from, to) = (arguments.slice::<f32>(0), arguments.slice::<f32>(1));
    ///     block.phase(|thread, _| to.set(thread.global_x(), 2.0 * from.get(thread.global_x())));
    /// });
    /// let kernel = DualModule::new().host_function(double).load(&context)?.kernel("double")?;
    /// # futures::executor::block_on(async {
    /// let (from, to) = (stream.upload_async([1.0f32, 2.0]).await?, stream.allocate_zeroed::<f32>(2)?);
    /// // SAFETY: the kernel reads and writes two elements, one each thread.
    /// let launched = unsafe { stream.launch_async(&kernel, &LaunchConfig::new(1, 2), (Reads(from), to)) };
    /// let (Reads(from), to) = launched.await?;
    /// assert_eq!(stream.download_async(&to).await?, [2.0, 4.0]);
    /// # drop(from);
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Safety
    /// Same as for [`launch`](Self::launch).
    ///
    /// # Errors
    /// The future returns the errors of [`launch`](Self::launch) and [`enqueue_async`](Self::enqueue_async).
    pub unsafe fn launch_async<A: KernelArguments>(
        &self,
        kernel: &Kernel,
        config: &LaunchConfig<'_>,
        arguments: A,
    ) -> Enqueued<A> {
        self.enqueue_async(move |stream| -> Result<A> {
            uncaptured(stream, "launching a kernel", || {
                arguments.with(|arguments| {
                    let mut accesses = arguments.accesses.iter();
                    accesses.try_for_each(|access| {
                        refuse_captured_memory(access.memory, stream.core(), "launching a kernel")
                    })
                })?;
                // SAFETY: the caller promises what `Stream::launch` asks for: arguments of the types that the kernel has, and a
                // kernel that stays within them. The arguments are kept until the launch is complete.
                unsafe { stream.launch_with(kernel, config, &arguments) }
            })?;
            Ok(arguments)
        })
    }
}
