//! Events, and waits of streams for events and for other streams.

use crate::context::Context;
use crate::error::Result;
use crate::stream::{BorrowedStream, Stream};
use anabranch_core::capture_state::wait_for_stream;
use anabranch_core::completion::Completion;
use anabranch_core::event::EventCore;
use anabranch_core::keeper::Keeper;
use anabranch_core::raw_event::RawEvent;
use anabranch_hal::{EventFlags, EventHandle, EventRecordFlags, EventWaitFlags, InterprocessEventHandle};
use std::fmt;
use std::sync::Arc;

/// An event captures the work that is in a stream when the event is recorded. Streams and the host can wait for that
/// work, query it, or measure the time between two records.
///
/// An event that was never recorded is complete. A wait, a query or a synchronization refers to the last record before
/// the call; later records do not change that. Dropping an event never blocks, and queued waits remain effective.
///
/// Follows the Driver API's group *Event Management*. `cuda.core` and CuPy call it `Event`, Mojo `DeviceEvent`.
///
/// ```
/// # let context = anabranch::Instance::new()?.device("host")?.context()?;
/// let (producer, consumer) = (context.create_stream()?, context.create_stream()?);
/// let start = producer.record_event()?;
/// producer.launch_host_func(|| println!("produced"))?;
/// let end = producer.record_event()?;
/// producer.launch_host_func(|| println!("not waited for"))?;
///
/// consumer.wait(&end)?; // later work of `consumer` waits; the host does not
/// consumer.launch_host_func(|| println!("consumed"))?;
///
/// end.synchronize()?; // the host waits
/// assert!(end.query()?);
/// assert!(end.elapsed_since(&start)? >= 0.0); // milliseconds
/// # context.synchronize()?;
/// # Ok::<(), anabranch::Error>(())
/// ```
pub struct Event {
    core: EventCore,
}

impl Context {
    /// Makes an event that measures time.
    ///
    /// # Errors
    /// Same as [`create_event_with_flags`](Self::create_event_with_flags).
    #[track_caller]
    pub fn create_event(&self) -> Result<Event> {
        self.create_event_with_flags(EventFlags::empty())
    }

    /// Makes an event with flags.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for flags that the driver does not know, and for
    /// an interprocess event that measures time.
    #[track_caller]
    pub fn create_event_with_flags(&self, flags: EventFlags) -> Result<Event> {
        Ok(Event { core: EventCore::create(self.core(), flags)? })
    }
}

impl Event {
    #[inline(always)]
    pub(crate) fn core(&self) -> &EventCore {
        &self.core
    }

    pub(crate) fn of_raw(raw: Arc<RawEvent>) -> Self {
        Self { core: EventCore::of_raw(raw) }
    }

    /// Opens an event that another process has exported. It is complete until that process records it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it;
    /// [`CUDA_ERROR_INVALID_CONTEXT (201)`](crate::Status::INVALID_CONTEXT) or
    /// [`CUDA_ERROR_OPERATING_SYSTEM (304)`](crate::Status::OPERATING_SYSTEM) if this process exported the event
    /// itself, or the event no longer exists.
    #[track_caller]
    pub fn open(context: &Context, exported: &InterprocessEventHandle) -> Result<Self> {
        Ok(Self { core: EventCore::open(context.core(), exported)? })
    }

    /// Uses an event that another library has made, and that this library does not destroy. `keeper` is whatever keeps the
    /// event: it is dropped, on a thread of this library, when this object and every graph that refers to the event are
    /// gone. Pass `()` if nothing is to be done then.
    ///
    /// The other library may record the event at any time, so this library knows nothing of its records: it asks the driver,
    /// and where a stream has waited for the event, it still orders uses of memory by waits of its own. It does not know
    /// the [`flags`](Self::flags) either.
    ///
    /// ```
    /// # use anabranch::Event;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// # let theirs = stream.record_event()?;
    /// # let handle = theirs.as_raw();
    /// // SAFETY: `theirs` has the event with this handle in this context, and keeps it.
    /// let event = unsafe { Event::from_raw(&context, handle, theirs)? };
    /// context.create_stream()?.wait(&event)?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Safety
    /// `handle` is an event of `context`, of the same driver, that exists until `keeper` is dropped. If another library
    /// records it in a capture and a stream of this library then waits for it, the stream joins that capture unknown to this
    /// library: the caller keeps whatever the stream's captured work uses for as long as the graph can run.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for the null handle. `keeper` is dropped
    /// then.
    #[track_caller]
    pub unsafe fn from_raw(context: &Context, handle: EventHandle, keeper: impl Send + 'static) -> Result<Self> {
        // SAFETY: the caller promises that the event belongs to the context, and exists until the keeper is dropped.
        let core = unsafe { EventCore::from_raw(context.core(), handle, Keeper::new(keeper)) }?;
        Ok(Self { core })
    }

    /// Captures the work that is in `stream` now. This replaces the previous record.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the event and the stream belong to
    /// different contexts.
    #[inline]
    #[track_caller]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.record(self).map(drop)
    }

    /// Whether the work that was captured last is complete. If so, the call is a synchronization: the results of the
    /// work can be read.
    ///
    /// # Errors
    /// An error of earlier asynchronous work. If the event was last recorded in a capture:
    /// [`CUDA_ERROR_CAPTURED_EVENT (907)`](crate::Status::CAPTURED_EVENT), which invalidates the capture; after the
    /// capture has ended, [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE). If this thread's [capture
    /// mode](Context::exchange_capture_mode) prohibits potentially unsafe calls because of a capture:
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED), which invalidates
    /// that capture.
    #[inline]
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        self.core.query()
    }

    /// Blocks until the work that was captured last is complete. With [`EventFlags::BLOCKING_SYNC`], the thread sleeps.
    ///
    /// # Errors
    /// An error of earlier asynchronous work. If the event was last recorded in a capture:
    /// [`CUDA_ERROR_CAPTURED_EVENT (907)`](crate::Status::CAPTURED_EVENT), which invalidates the capture;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the capture was already invalidated or has
    /// ended. If this thread's [capture mode](Context::exchange_capture_mode) prohibits potentially unsafe calls
    /// because of a capture:
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED), which invalidates
    /// that capture.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.core.synchronize()
    }

    /// The time in milliseconds from the record of `start` to the record of this event. It is negative if `start` was
    /// reached later.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if either event was never recorded or does
    /// not measure time; [`CUDA_ERROR_NOT_READY (600)`](crate::Status::NOT_READY) if either is not complete;
    /// [`CUDA_ERROR_CAPTURED_EVENT (907)`](crate::Status::CAPTURED_EVENT) if either was last recorded in a capture,
    /// which remains valid, or [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if that capture has
    /// ended.
    #[track_caller]
    pub fn elapsed_since(&self, start: &Event) -> Result<f32> {
        self.core.elapsed_since(&start.core)
    }

    /// Exports the event, so that another process can [open](Self::open) it. It must have been created with
    /// [`EventFlags::INTERPROCESS`].
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device does not support it;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) or
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the event was created without that flag.
    #[track_caller]
    pub fn export(&self) -> Result<InterprocessEventHandle> {
        self.core.export()
    }

    /// A future that is ready when the work that the event captured last is complete. A later [`record`](Self::record)
    /// does not change which work that is. Records by launches of a graph, and records through the driver's handle, do:
    /// then the future waits for the latest of them. An event that was never recorded is complete.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// # futures::executor::block_on(async {
    /// let event = stream.record_event()?;
    /// event.completed().await?;
    /// assert!(event.query()?);
    /// # Ok::<(), anabranch::Error>(())
    /// # })?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future returns an error of earlier asynchronous work;
    /// [`CUDA_ERROR_CAPTURED_EVENT (907)`](crate::Status::CAPTURED_EVENT) if the last call that recorded the event was in a
    /// capture that has not ended, because there is nothing to wait for, even if the launch of a graph has recorded it since;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if it was last recorded in a capture that has ended.
    pub fn completed(&self) -> Completion {
        Completion::of_event(&self.core)
    }

    /// The flags that the event was created with, or `None` if [another library](Self::from_raw) has created it: drivers
    /// do not tell.
    pub fn flags(&self) -> Option<EventFlags> {
        self.core.flags()
    }

    /// The context that the event was created in.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context().clone())
    }

    /// An id that is unique among all objects of this process and never reused.
    pub fn id(&self) -> u64 {
        self.core.raw().label().id().get()
    }

    /// Names the event, for layers of the driver. Only the first name is kept. Returns whether this is the first.
    #[track_caller]
    pub fn set_name(&self, name: &str) -> bool {
        self.core.raw().label().set_name(self.core.context(), name)
    }

    /// The driver's handle, which is valid as long as this event.
    ///
    /// If you record the event through its handle, and then make a stream of this library wait for it through this
    /// object, you must order the memory that the stream uses yourself. The library assumes that the stream waits for
    /// the last record that the library made, and adds no second wait for that.
    #[inline]
    pub fn as_raw(&self) -> EventHandle {
        self.core.raw().handle()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (context, handle) = (self.core.context().place(), self.as_raw());
        write!(formatter, "Event({context}, {handle:?}, {:?})", self.core.flags())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What a stream can [wait](Stream::wait) for: an event or a stream.
pub trait WaitTarget: sealed::Sealed {
    /// Makes later work of `stream` wait for this.
    ///
    /// # Errors
    /// Same as [`Stream::wait_event`] or [`Stream::wait_stream`].
    fn wait_on(&self, stream: &Stream) -> Result<()>;
}

impl sealed::Sealed for Event {}

impl WaitTarget for Event {
    fn wait_on(&self, stream: &Stream) -> Result<()> {
        stream.wait_event(self)
    }
}

impl sealed::Sealed for Stream {}

impl WaitTarget for Stream {
    fn wait_on(&self, stream: &Stream) -> Result<()> {
        stream.wait_stream(self)
    }
}

impl sealed::Sealed for BorrowedStream<'_> {}

impl WaitTarget for BorrowedStream<'_> {
    fn wait_on(&self, stream: &Stream) -> Result<()> {
        stream.wait_stream(self)
    }
}

impl Stream {
    /// Captures the work that is in this stream now in `event`, and returns the event.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let (producer, consumer) = (context.create_stream()?, context.create_stream()?);
    /// let event = context.create_event()?;
    /// consumer.wait(producer.record(&event)?)?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the event belongs to another context.
    #[inline]
    #[track_caller]
    pub fn record<'e>(&self, event: &'e Event) -> Result<&'e Event> {
        self.record_with_flags(event, EventRecordFlags::empty())
    }

    /// Like [`record`](Self::record), with flags.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the event belongs to another context;
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) for an external record outside a capture, where
    /// [`record_external`](Self::record_external) is an ordinary record;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for flags that the driver does not know.
    #[inline]
    #[track_caller]
    pub fn record_with_flags<'e>(&self, event: &'e Event, flags: EventRecordFlags) -> Result<&'e Event> {
        self.core().record(&event.core, flags)?;
        Ok(event)
    }

    /// Like [`record`](Self::record). In a capture, the record becomes a node, so that each launch of the graph records
    /// the event, and streams and the host can wait for it outside the graph. Outside a capture, this is the same as
    /// [`record`](Self::record). In Warp, it is `record_event(event, external=True)`.
    ///
    /// ```
    /// use anabranch::CaptureMode;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let event = context.create_event()?;
    /// let step = |stream: &anabranch::Stream| stream.record_external(&event).map(drop);
    /// step(&stream)?; // recorded now
    /// let graph = stream.capture(CaptureMode::Global, |scope| step(scope))?; // recorded by each launch
    /// graph.instantiate()?.launch(&stream)?;
    /// event.synchronize()?;
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the event belongs to another context.
    #[track_caller]
    pub fn record_external<'e>(&self, event: &'e Event) -> Result<&'e Event> {
        self.core().record_external(&event.core)?;
        Ok(event)
    }

    /// Creates an event and records it. The event measures time; see
    /// [`record_event_with_flags`](Self::record_event_with_flags) for one that does not.
    ///
    /// # Errors
    /// Same as [`record`](Self::record).
    #[track_caller]
    pub fn record_event(&self) -> Result<Event> {
        self.record_event_with_flags(EventFlags::empty())
    }

    /// Creates an event with flags and records it.
    ///
    /// # Errors
    /// Same as [`Context::create_event_with_flags`] and [`record`](Self::record).
    #[track_caller]
    pub fn record_event_with_flags(&self, flags: EventFlags) -> Result<Event> {
        let event = Event { core: EventCore::create(self.core().context(), flags)? };
        self.record(&event)?;
        Ok(event)
    }

    /// Makes later work of this stream wait for what `event` has captured by now. The event may belong to another
    /// context or device. The host does not wait.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the event belongs to another driver.
    /// During a capture of this stream,
    /// [`CUDA_ERROR_STREAM_CAPTURE_ISOLATION (905)`](crate::Status::STREAM_CAPTURE_ISOLATION) if the event was recorded
    /// outside the capture, which invalidates the capture, and
    /// [`CUDA_ERROR_STREAM_CAPTURE_MERGE (902)`](crate::Status::STREAM_CAPTURE_MERGE) if it was recorded in another
    /// capture, which invalidates both. [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the event was
    /// last recorded in a capture that has ended, which also invalidates a capture of this stream.
    #[inline]
    #[track_caller]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.wait_event_with_flags(event, EventWaitFlags::empty())
    }

    /// Like [`wait_event`](Self::wait_event), with flags.
    ///
    /// # Errors
    /// Same as [`wait_event`](Self::wait_event); [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) for
    /// an external wait outside a capture, where [`wait_event_external`](Self::wait_event_external) is an ordinary
    /// wait; [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for flags that the driver does not know.
    #[inline]
    #[track_caller]
    pub fn wait_event_with_flags(&self, event: &Event, flags: EventWaitFlags) -> Result<()> {
        self.core().wait_event(&event.core, flags)
    }

    /// Like [`wait_event`](Self::wait_event). In a capture, the wait becomes a node, so that each launch of the graph
    /// waits for what the event has captured when the graph is launched, also outside the graph. Outside a capture, this
    /// is the same as [`wait_event`](Self::wait_event). In Warp, it is `wait_event(event, external=True)`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the event belongs to another driver;
    /// outside a capture, the same as [`wait_event`](Self::wait_event).
    #[track_caller]
    pub fn wait_event_external(&self, event: &Event) -> Result<()> {
        self.core().wait_event_external(&event.core)
    }

    /// Makes later work of this stream wait for the work that is in `other` now. The host does not wait.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the stream belongs to another driver;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if it is another thread's default stream.
    #[track_caller]
    pub fn wait_stream(&self, other: &Stream) -> Result<()> {
        let operation = "waiting for a stream in a stream";
        self.core().context().require_same_driver(other.core().context(), operation)?;
        self.core().require_usable(operation)?;
        other.core().require_usable(operation)?;
        wait_for_stream(self.core(), other.core())
    }

    /// Like [`wait_stream`](Self::wait_stream), by a record of `event` in `other`, for which this stream then waits. The
    /// event remains recorded there. It belongs to the context of `other`. If other threads record the event too, this
    /// stream waits for the last record before its wait.
    ///
    /// # Errors
    /// Same as [`record`](Self::record) and [`wait_event`](Self::wait_event).
    #[track_caller]
    pub fn wait_stream_with_event(&self, other: &Stream, event: &Event) -> Result<()> {
        self.core().context().require_same_driver(other.core().context(), "waiting for a stream in a stream")?;
        self.wait_event(other.record(event)?)
    }

    /// Like [`wait_stream_with_event`](Self::wait_stream_with_event), with an external record if `other` is capturing,
    /// and an external wait if this stream is. So neither stream joins the other's capture. In Warp, it is
    /// `wait_stream(other, event, external=True)`.
    ///
    /// # Errors
    /// Same as [`record_external`](Self::record_external) and [`wait_event_external`](Self::wait_event_external).
    #[track_caller]
    pub fn wait_stream_external(&self, other: &Stream, event: &Event) -> Result<()> {
        self.core().context().require_same_driver(other.core().context(), "waiting for a stream in a stream")?;
        self.wait_event_external(other.record_external(event)?)
    }

    /// Makes later work of this stream wait for an event, or for the work that is in another stream now.
    ///
    /// # Errors
    /// Same as [`wait_event`](Self::wait_event) or [`wait_stream`](Self::wait_stream).
    #[track_caller]
    pub fn wait<T: WaitTarget + ?Sized>(&self, target: &T) -> Result<()> {
        target.wait_on(self)
    }
}
