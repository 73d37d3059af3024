//! Streams: queues of work that runs in order.

mod borrowed;
mod current;
mod host_functions;
mod value;

pub use borrowed::BorrowedStream;
pub use current::CurrentStreamGuard;
pub use value::{Signal, WaitCondition};

use crate::context::Context;
use crate::device::Device;
use crate::error::Result;
use anabranch_core::stream::{OpenStream, Ownership, StreamCore};
use anabranch_hal::{StreamFlags, StreamHandle};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

/// A stream: work put into it runs in order; work of different streams may overlap.
///
/// Streams are made by a [`Context`]. Share one between threads or tasks with a reference or an [`Arc`]. Dropping a
/// stream never blocks: work that is queued still runs. Two streams are equal when they are the same stream of the
/// driver, whichever way they were obtained.
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
    /// A non-blocking stream of the default priority: it neither waits for the legacy default stream nor is waited for
    /// by it.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY (2)` when the device has no room for one.
    #[track_caller]
    pub fn create_stream(&self) -> Result<Stream> {
        self.create_stream_with_priority(StreamFlags::NON_BLOCKING, 0)
    }

    /// A stream of the default priority; blocking towards the legacy default stream unless the flags say otherwise.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not know.
    #[track_caller]
    pub fn create_stream_with_flags(&self, flags: StreamFlags) -> Result<Stream> {
        self.create_stream_with_priority(flags, 0)
    }

    /// A stream with a priority. Lower is more urgent; a priority outside of the device's
    /// [range](Device::stream_priority_range) is clamped, and [`Stream::priority`] returns the effective one.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not know.
    #[track_caller]
    pub fn create_stream_with_priority(&self, flags: StreamFlags, priority: i32) -> Result<Stream> {
        Ok(Stream::from_open(StreamCore::create(self.core(), flags, priority)?))
    }

    /// The legacy default stream, which waits for all blocking streams of the context, and all of them for it.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` while a blocking stream of the context captures, which invalidates the
    /// capture.
    #[track_caller]
    pub fn legacy_stream(&self) -> Result<Stream> {
        Stream::open(self, StreamHandle::LEGACY, Ownership::Foreign)
    }

    /// The calling thread's default stream of this context. Using it from another thread is an error,
    /// `CUDA_ERROR_INVALID_HANDLE (400)`.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn per_thread_stream(&self) -> Result<Stream> {
        Stream::open(self, StreamHandle::PER_THREAD, Ownership::Foreign)
    }
}

impl Stream {
    fn from_open(open: OpenStream) -> Self {
        Self { open: Arc::new(open) }
    }

    #[track_caller]
    fn open(context: &Context, handle: StreamHandle, ownership: Ownership) -> Result<Self> {
        Ok(Self::from_open(StreamCore::open(context.core(), handle, ownership)?))
    }

    /// Another object of the same stream, which does not end before this one is dropped.
    fn same(&self) -> Self {
        Self { open: self.open.clone() }
    }

    /// A reference that does not keep the stream open.
    fn downgrade(&self) -> Weak<OpenStream> {
        Arc::downgrade(&self.open)
    }

    /// Another object of the same stream, which does not end before this one is dropped. `None`: it has ended.
    fn upgrade(open: &Weak<OpenStream>) -> Option<Self> {
        open.upgrade().map(|open| Self { open })
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Arc<StreamCore> {
        self.open.core()
    }

    /// Takes ownership of a stream that was made elsewhere.
    ///
    /// # Safety
    /// `handle` is a live stream of `context`, of the same driver, and nobody else uses or destroys it from now on.
    ///
    /// # Errors
    /// When the driver does not know the handle.
    pub unsafe fn from_raw(context: &Context, handle: StreamHandle) -> Result<Self> {
        Self::open(context, handle, Ownership::Owned)
    }

    /// Gives the stream's handle up without destroying it. Buffers that the stream has used stay safe to use and to
    /// drop.
    #[must_use = "the handle is the caller's to destroy"]
    pub fn into_raw(self) -> StreamHandle {
        self.core().release()
    }

    /// The driver's handle. It is valid as long as this stream.
    ///
    /// Another library that is given it may capture the stream, so that calls which must not be captured ask the driver from
    /// now on.
    #[inline]
    pub fn as_raw(&self) -> StreamHandle {
        self.core().expose_raw()
    }

    /// A second handle of this stream that cannot outlive it.
    pub fn to_borrowed(&self) -> BorrowedStream<'_> {
        BorrowedStream::of(self)
    }

    /// Blocks until all work queued so far is complete.
    ///
    /// # Errors
    /// An error of any of that work: a lost context, or a panic of a host function or kernel, which is reported once.
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` while the stream captures, which invalidates the capture.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.core().synchronize()
    }

    /// Whether all work queued so far is complete. A true answer is a synchronization: what the work wrote can be read. The
    /// library does not remember it; after a [`synchronize`](Self::synchronize) other streams need not wait any more.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize), the invalidated capture included.
    #[inline]
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        self.core().query()
    }

    /// As [`query`](Self::query), by the name that Warp (`is_complete`) and CuPy (`done`) give it.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize), the invalidated capture included.
    #[track_caller]
    pub fn is_complete(&self) -> Result<bool> {
        self.core().query()
    }

    /// Waits for the stream's work, destroys the stream, and returns any error of either. The stream is destroyed also
    /// when the waiting failed. A stream that is current in a running [`with_current`](Self::with_current) is destroyed when that returns.
    ///
    /// # Errors
    /// That of the waiting, else that of the destroying.
    #[track_caller]
    pub fn shutdown(self) -> Result<()> {
        match Arc::try_unwrap(self.open) {
            Ok(open) => open.core().shut_down(),
            Err(shared) => shared.core().synchronize(),
        }
    }

    /// The flags that it was made with.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` while the stream captures, which invalidates the capture; else only an
    /// error of earlier asynchronous work.
    #[track_caller]
    pub fn flags(&self) -> Result<StreamFlags> {
        self.core().flags()
    }

    /// Whether it is a non-blocking stream, which has no order with the legacy default stream.
    ///
    /// # Errors
    /// As [`flags`](Self::flags).
    #[track_caller]
    pub fn is_non_blocking(&self) -> Result<bool> {
        Ok(self.flags()?.contains(StreamFlags::NON_BLOCKING))
    }

    /// The effective priority, after clamping. Lower is more urgent.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn priority(&self) -> Result<i32> {
        self.core().priority()
    }

    /// How many orders the library has inserted so that later work of this stream comes after work of other streams: each
    /// is an event recorded on the other stream and a wait for it here, or, in a capture, edges. What the user waits for is
    /// not counted, and not made again. All handles of the stream that live at the same time count together.
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

    /// A number of the driver that is unique in this process, and never used again.
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

    /// Names the stream, for errors and for layers of the driver. A stream keeps its first name. Whether this is it.
    #[track_caller]
    pub fn set_name(&self, name: &str) -> bool {
        self.core().label().set_name(self.core().context(), name)
    }

    /// The name, if it was given one.
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
