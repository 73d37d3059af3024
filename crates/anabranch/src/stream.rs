//! Streams: queues of work that runs in order.

mod attributes;
mod borrowed;
mod core;
mod current;
mod host_functions;
mod order;
mod shared;
mod value;

pub use borrowed::BorrowedStream;
pub use current::CurrentStreamGuard;
pub use order::WaitTarget;
pub use value::{Signal, WaitCondition};

pub(crate) use self::core::{Checkpoint, Ownership, StreamCore};
#[cfg(all(test, loom))]
pub(crate) use shared::Position;
pub(crate) use shared::{Operation, Reached, StreamShared};

use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result, ResultExt};
use crate::trace;
use anabranch_hal::{CaptureStatus, Status, StreamFlags, StreamHandle};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

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
    core: Arc<StreamCore>,
}

impl Stream {
    pub(crate) fn create(context: &Context, flags: StreamFlags, priority: i32) -> Result<Self> {
        let core = context.core();
        // SAFETY: the context's handle is live as long as its core.
        let handle = unsafe { core.driver().stream_create(core.handle(), flags, priority) }
            .during("creating a stream", || core.place())?;
        Self::from_handle(context, handle, Ownership::Owned)
    }

    pub(crate) fn legacy(context: &Context) -> Result<Self> {
        Self::from_handle(context, StreamHandle::LEGACY, Ownership::Foreign)
    }

    pub(crate) fn per_thread(context: &Context) -> Result<Self> {
        Self::from_handle(context, StreamHandle::PER_THREAD, Ownership::Foreign)
    }

    fn from_handle(context: &Context, handle: StreamHandle, ownership: Ownership) -> Result<Self> {
        let core = context.core();
        let operation = "asking for a stream's id";
        let known = || core.streams().into_iter().find(|stream| stream.is_known_by(handle)).map(|stream| stream.id());
        // SAFETY: the handle was just made, is a default stream, or its caller vouches for it.
        let status = || unsafe { core.driver().stream_capture_status(core.handle(), handle) };
        // Asking a stream that captures spoils the capture.
        let captures = ownership == Ownership::Foreign && status().is_ok_and(|status| status != CaptureStatus::None);
        let id = match captures.then(known) {
            None => {
                // SAFETY: as above.
                unsafe { core.driver().stream_id(core.handle(), handle) }.during(operation, || core.place())?
            }
            Some(Some(id)) => id,
            Some(None) => {
                return Err(Error::argument(Status::STREAM_CAPTURE_UNSUPPORTED, operation, "the stream captures")
                    .with_hint("make the `Stream` before the capture")
                    .at(core.place()));
            }
        };
        let core = StreamCore::new(core, handle, id, ownership);
        if ownership == Ownership::Foreign && !handle.is_legacy() {
            core.shared().suspect_capture();
        }
        Ok(Self { core })
    }

    /// Takes ownership of a stream that was made elsewhere.
    ///
    /// # Safety
    /// `handle` is a live stream of `context`, of the same driver, and nobody else uses or destroys it from now on.
    ///
    /// # Errors
    /// When the driver does not know the handle.
    pub unsafe fn from_raw(context: &Context, handle: StreamHandle) -> Result<Self> {
        Self::from_handle(context, handle, Ownership::Owned)
    }

    /// Gives the stream's handle up without destroying it. Buffers that the stream has used stay safe to use and to
    /// drop.
    #[must_use = "the handle is the caller's to destroy"]
    pub fn into_raw(self) -> StreamHandle {
        self.core.release()
    }

    /// The driver's handle. It is valid as long as this stream.
    #[inline]
    pub fn as_raw(&self) -> StreamHandle {
        self.core.raw()
    }

    /// A second handle of this stream that cannot outlive it.
    pub fn to_borrowed(&self) -> BorrowedStream<'_> {
        BorrowedStream::of(self)
    }

    /// Blocks until all work queued so far is complete.
    ///
    /// # Errors
    /// An error of any of that work: a lost context, or a panic of a host function or kernel, which is reported once.
    pub fn synchronize(&self) -> Result<()> {
        let operation = "synchronising";
        trace::span!("synchronising a stream", stream = self.core.id(), device = %self.core.context().device());
        let handle = self.core.handle(operation)?;
        let number = self.core.shared().advance();
        // SAFETY: the stream is live while it is borrowed.
        unsafe { self.core.context().driver().stream_synchronize(self.core.context().handle(), handle) }
            .during(operation, || self.core.place())?;
        self.core.shared().completed(number);
        Ok(())
    }

    /// Whether all work queued so far is complete. A true answer is a synchronisation: what the work wrote can be read. The
    /// library does not remember it; after a [`synchronize`](Self::synchronize) other streams need not wait any more.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    #[inline]
    pub fn query(&self) -> Result<bool> {
        let operation = "querying";
        let handle = self.core.handle(operation)?;
        // SAFETY: the stream is live while it is borrowed.
        match unsafe { self.core.context().driver().stream_query(self.core.context().handle(), handle) } {
            Ok(()) => Ok(true),
            Err(failure) if failure.status == Status::NOT_READY => Ok(false),
            Err(failure) => Err(failure).during(operation, || self.core.place()),
        }
    }

    /// As [`query`](Self::query), by the name that Warp (`is_complete`) and CuPy (`done`) give it.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    pub fn is_complete(&self) -> Result<bool> {
        self.query()
    }

    /// Waits for the stream's work, destroys the stream, and returns any error of either. The stream is destroyed also
    /// when the waiting failed.
    ///
    /// # Errors
    /// That of the waiting, else that of the destroying.
    pub fn shutdown(self) -> Result<()> {
        trace::span!("shutting a stream down", stream = self.core.id(), device = %self.core.context().device());
        let waited = self.synchronize();
        let failed = waited.is_err();
        waited.and(self.core.end(failed))
    }

    /// The flags that it was made with.
    ///
    /// # Errors
    /// 900 while the stream captures, which spoils the capture; else only an error of earlier asynchronous work.
    pub fn flags(&self) -> Result<StreamFlags> {
        let operation = "asking for a stream's flags";
        let handle = self.core.handle(operation)?;
        // SAFETY: the stream is live while it is borrowed.
        unsafe { self.core.context().driver().stream_flags(self.core.context().handle(), handle) }
            .during(operation, || self.core.place())
    }

    /// Whether it is a non-blocking stream, which has no order with the legacy default stream.
    ///
    /// # Errors
    /// As [`flags`](Self::flags).
    pub fn is_non_blocking(&self) -> Result<bool> {
        Ok(self.flags()?.contains(StreamFlags::NON_BLOCKING))
    }

    /// The effective priority, after clamping. Lower is more urgent.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn priority(&self) -> Result<i32> {
        let operation = "asking for a stream's priority";
        let handle = self.core.handle(operation)?;
        // SAFETY: the stream is live while it is borrowed.
        unsafe { self.core.context().driver().stream_priority(self.core.context().handle(), handle) }
            .during(operation, || self.core.place())
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
        self.core.shared().inserted()
    }

    /// A number that is unique in this process for ever.
    pub fn id(&self) -> u64 {
        self.core.id()
    }

    /// The stream's device.
    pub fn device(&self) -> Device {
        self.core.context().device().clone()
    }

    /// The stream's context.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context().clone())
    }

    #[inline(always)]
    pub(crate) fn core(&self) -> &Arc<StreamCore> {
        &self.core
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self::core::end_in_drop(&self.core);
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.core.is_same(&other.core)
    }
}

impl Eq for Stream {}

impl Hash for Stream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.core.id().hash(state);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Stream({}, {}, {:?})", self.core.id(), self.core.context().place(), self.core.raw())
    }
}
