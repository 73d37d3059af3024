//! Streams: queues of work that runs in order.

mod borrowed;
mod current;
mod external_semaphore;
mod host_functions;
mod value;

pub use borrowed::BorrowedStream;
pub use current::CurrentStreamGuard;
pub use external_semaphore::ExternalSemaphore;
pub use host_functions::CallbackStream;
pub use value::{Signal, SignalOperation, WaitCondition};

use crate::context::Context;
use crate::device::Device;
use crate::error::Result;
use anabranch_core::capture_state::give_up_abandoned;
use anabranch_core::stream::{OpenStream, Ownership, StreamCore};
use anabranch_hal::{Live, Status, StreamFlags, StreamHandle};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// A stream. Work in one stream runs in order; work in different streams may overlap.
///
/// A [`Context`] creates streams. To share a stream between threads or tasks, use a reference or an [`Arc`]. Dropping a
/// stream never blocks: queued work still runs. Two streams are equal if they are the same stream of the driver,
/// however they were obtained.
///
/// Follows the Driver API's group *Stream Management*. Warp, `cuda.core` and CuPy call it `Stream`, Mojo
/// `DeviceStream`.
///
/// ```
/// let device = anabranch::Instance::new()?.device("host")?;
/// let stream = device.context()?.create_stream()?;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// stream.launch_host_func(move || sender.send("hello from the stream").unwrap())?;
/// stream.synchronize()?;
/// assert_eq!(receiver.recv().unwrap(), "hello from the stream");
/// # Ok::<(), anabranch::Error>(())
/// ```
pub struct Stream {
    open: Arc<OpenStream>,
}

impl Context {
    /// Creates a non-blocking stream of the default priority. It and the legacy default stream do not wait for each
    /// other.
    ///
    /// NVIDIA's driver may wait for work of the context meanwhile, of other streams too. If that work waits for this thread,
    /// create the streams first.
    ///
    /// # Errors
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if the device does not support it create another
    /// stream.
    #[track_caller]
    pub fn create_stream(&self) -> Result<Stream> {
        self.create_stream_with_priority(StreamFlags::NON_BLOCKING, 0)
    }

    /// Creates a stream of the default priority, as [`create_stream`](Self::create_stream) does. It is a blocking stream
    /// unless the flags include [`StreamFlags::NON_BLOCKING`].
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for flags that the driver does not know.
    #[track_caller]
    pub fn create_stream_with_flags(&self, flags: StreamFlags) -> Result<Stream> {
        self.create_stream_with_priority(flags, 0)
    }

    /// Creates a stream with a priority, as [`create_stream`](Self::create_stream) does. Lower is more urgent. A priority outside the device's
    /// [range](Device::stream_priority_range) is clamped, and [`Stream::priority`] returns the clamped value.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for flags that the driver does not know.
    #[track_caller]
    pub fn create_stream_with_priority(&self, flags: StreamFlags, priority: i32) -> Result<Stream> {
        Ok(Stream::from_open(StreamCore::create(self.core(), flags, priority)?))
    }

    /// The legacy default stream, a barrier for all blocking streams of the context: it waits for their earlier work,
    /// and their later work waits for it.
    ///
    /// While a blocking stream captures, calls in the legacy stream are refused. One that queues work and waits for it, such as
    /// [`Stream::copy_from_host`] or a scope, may be refused for the wait alone, if the capture begins between the two: the
    /// work has been done then.
    ///
    /// # Errors
    /// [`CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)`](crate::Status::STREAM_CAPTURE_IMPLICIT) if a blocking stream of the
    /// context is capturing, which invalidates the capture.
    #[track_caller]
    pub fn legacy_stream(&self) -> Result<Stream> {
        Stream::open_default(self, Live::LEGACY)
    }

    /// The calling thread's default stream of this context. Using it on another thread returns
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE).
    ///
    /// On CUDA, a thread that ends waits for the work of its default streams, for a second at most. Work that takes longer, or that
    /// waits for the host, should be waited for before: NVIDIA's driver (seen with 580.159.04) may never return from the end of a thread
    /// whose default stream has work, if the legacy stream or other threads' default streams free memory that was allocated in
    /// stream order.
    ///
    /// # Errors
    /// An error of earlier asynchronous work, or [`CUDA_ERROR_DEINITIALIZED (4)`](crate::Status::DEINITIALIZED) in destructors
    /// of `thread_local!` variables that were first used before the thread's first default stream, which is gone then.
    #[track_caller]
    pub fn per_thread_stream(&self) -> Result<Stream> {
        match Stream::open_default(self, Live::PER_THREAD) {
            Err(error) if error.status() == Status::STREAM_CAPTURE_UNSUPPORTED && give_up_abandoned(self.core()) => {
                Stream::open_default(self, Live::PER_THREAD)
            }
            opened => opened,
        }
    }
}

impl Stream {
    pub(crate) fn from_open(open: OpenStream) -> Self {
        Self { open: Arc::new(open) }
    }

    #[track_caller]
    fn open_default(context: &Context, stream: Live<'static, StreamHandle>) -> Result<Self> {
        Ok(Self::from_open(StreamCore::open_default(context.core(), stream)?))
    }

    /// # Safety
    /// Same as for [`StreamCore::open`].
    #[track_caller]
    unsafe fn open(context: &Context, handle: StreamHandle, ownership: Ownership) -> Result<Self> {
        // SAFETY: the caller keeps the stream for as long as the result, and leaves it to this library if it is owned.
        Ok(Self::from_open(unsafe { StreamCore::open(context.core(), handle, ownership) }?))
    }

    /// Another object for the same stream, which does not end before this object is dropped.
    fn same(&self) -> Self {
        Self { open: self.open.clone() }
    }

    /// A reference that does not keep the stream open.
    fn downgrade(&self) -> Weak<OpenStream> {
        Arc::downgrade(&self.open)
    }

    /// Another object for the same stream, which does not end before this object is dropped, or `None` if it has ended.
    fn upgrade(open: &Weak<OpenStream>) -> Option<Self> {
        open.upgrade().map(|open| Self { open })
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &OpenStream {
        &self.open
    }

    /// Takes ownership of an existing stream of the driver.
    ///
    /// # Safety
    /// `handle` is a live stream of `context`, of the same driver, and nobody else uses or destroys it from now on.
    ///
    /// # Errors
    /// If the driver does not know the handle.
    pub unsafe fn from_raw(context: &Context, handle: StreamHandle) -> Result<Self> {
        // SAFETY: the caller promises that the stream exists, and that nobody else uses or destroys it.
        unsafe { Self::open(context, handle, Ownership::Owned) }
    }

    /// Returns the stream's handle without destroying the stream. Buffers that the stream has used can still be used
    /// and dropped safely. If the stream is current in a running [`with_current`](Self::with_current), it goes on until that
    /// returns, and must not be destroyed before.
    #[must_use = "the handle is the caller's to destroy"]
    pub fn into_raw(self) -> StreamHandle {
        OpenStream::release(self.open)
    }

    /// The driver's handle, which is valid as long as this stream.
    ///
    /// Another library that receives the handle may capture the stream. Therefore calls that must not be captured query
    /// the driver from now on.
    #[inline]
    pub fn as_raw(&self) -> StreamHandle {
        self.core().expose_raw()
    }

    /// A second handle for this stream, which cannot outlive it.
    pub fn to_borrowed(&self) -> BorrowedStream<'_> {
        BorrowedStream::of(self)
    }

    /// Blocks until all work queued so far is complete.
    ///
    /// # Errors
    /// An error of any of that work: a lost context, or a panic of a host function or kernel, which is reported once.
    ///
    /// During a capture of this stream, on any thread and in every capture mode:
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED), which invalidates
    /// the capture. The same error, with the same effect, if this thread's [capture
    /// mode](Context::exchange_capture_mode) prohibits potentially unsafe calls because of a capture in another stream.
    /// For the legacy default stream during a capture of a blocking stream of the context:
    /// [`CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)`](crate::Status::STREAM_CAPTURE_IMPLICIT), which invalidates that
    /// capture.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.core().synchronize()
    }

    /// Whether all work queued so far is complete. If so, the call is a synchronization: the results of the work can be
    /// read. The library does not use the result to omit later waits of other streams for that work. After
    /// [`synchronize`](Self::synchronize), it does.
    ///
    /// # Errors
    /// Same as [`synchronize`](Self::synchronize), including during a capture.
    #[inline]
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        self.core().query()
    }

    /// Same as [`query`](Self::query). Warp uses this name, and CuPy `done`.
    ///
    /// # Errors
    /// Same as [`synchronize`](Self::synchronize), including during a capture.
    #[track_caller]
    pub fn is_complete(&self) -> Result<bool> {
        self.core().query()
    }

    /// Waits for the stream's work, destroys the stream, and returns an error of either. The stream is destroyed even
    /// if waiting failed. If the stream is current in a running [`with_current`](Self::with_current), it is destroyed
    /// when that returns.
    ///
    /// # Errors
    /// An error of waiting, otherwise an error of destroying.
    #[track_caller]
    pub fn shutdown(self) -> Result<()> {
        match Arc::try_unwrap(self.open) {
            Ok(open) => open.shut_down(),
            Err(shared) => shared.synchronize(),
        }
    }

    /// The flags that the stream was created with.
    ///
    /// # Errors
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, which invalidates the capture; otherwise only an error of earlier asynchronous work.
    #[track_caller]
    pub fn flags(&self) -> Result<StreamFlags> {
        self.core().flags()
    }

    /// Whether this is a non-blocking stream, which is not ordered with the legacy default stream.
    ///
    /// # Errors
    /// Same as [`flags`](Self::flags).
    #[track_caller]
    pub fn is_non_blocking(&self) -> Result<bool> {
        Ok(self.flags()?.contains(StreamFlags::NON_BLOCKING))
    }

    /// The priority after clamping. Lower is more urgent.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn priority(&self) -> Result<i32> {
        self.core().priority()
    }

    /// The number of orders that the library has inserted so that later work of this stream follows work of other
    /// streams. Each is an event recorded in the other stream and a wait for it here, or, in a capture, edges. Waits
    /// that the program adds are not counted, and the library does not repeat them. All handles of the stream that live
    /// at the same time share one count.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let (producer, consumer) = (context.create_stream()?, context.create_stream()?);
    /// let mut buffer = producer.allocate_zeroed::<u32>(4)?;
    /// consumer.fill(&mut buffer, 7)?; // waits for the producer
    /// consumer.fill(&mut buffer, 8)?;
    /// assert_eq!(consumer.orders_inserted(), 1);
    ///
    /// producer.wait(&consumer.record_event()?)?;
    /// producer.fill(&mut buffer, 9)?; // comes after the event
    /// assert_eq!(producer.orders_inserted(), 0);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    pub fn orders_inserted(&self) -> u64 {
        self.core().shared().orders_inserted()
    }

    /// The driver's id of the stream, which is unique in this process and never reused.
    pub fn id(&self) -> u64 {
        self.core().id()
    }

    /// The stream's device.
    pub fn device(&self) -> Device {
        Device::from_core(self.core().context().device().clone())
    }

    /// The stream's context.
    pub fn context(&self) -> Context {
        Context::from_core(self.core().context().clone())
    }

    /// Names the stream, for errors and for layers of the driver. Only the first name is kept. Returns whether this is
    /// the first.
    #[track_caller]
    pub fn set_name(&self, name: &str) -> bool {
        self.core().label().set_name(self.core().context(), name)
    }

    /// The name, if one was set.
    pub fn name(&self) -> Option<&str> {
        self.core().label().name()
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.core().is_same(other.core())
    }
}

impl Eq for Stream {}

impl Hash for Stream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.core().id().hash(state);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core().fmt(formatter)
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use crate::Instance;
    use anabranch_hal::InsideWork;

    /// Otherwise the context counts as busy for ever, since nobody can record in the stream again: class 190 of `docs/safety.md`.
    #[test]
    #[allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
    fn a_question_inside_of_a_host_function_loses_no_record_of_a_default_stream() {
        let instance = Instance::builder().cuda(false).isolated().build().unwrap();
        let context = instance.device("host").unwrap().context().unwrap();
        let other = context.clone();
        let own = std::thread::spawn(move || {
            let own = other.per_thread_stream().unwrap();
            let _buffer = own.upload(&[7u32; 64]).unwrap();
            own.core().sync_event().unwrap();
            let mark = InsideWork::enter();
            own.core().sync_event().unwrap_err();
            drop(mark);
            own
        });
        let own = own.join().unwrap();
        assert!(own.core().sync_event().unwrap().is_some(), "its thread has ended, and the record is lost");
    }
}
