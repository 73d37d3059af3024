//! Events: points in the work of streams; streams behind events and behind each other.

use crate::context::Context;
use crate::error::Result;
use crate::stream::{BorrowedStream, Stream};
use anabranch_core::capture_state::wait_for_stream;
use anabranch_core::completion::Completion;
use anabranch_core::event::EventCore;
use anabranch_hal::{EventFlags, EventHandle, EventRecordFlags, EventWaitFlags, InterprocessEventHandle};
use std::fmt;

/// An event captures the work of a stream at the moment it is recorded. Others wait for that work, ask whether it is
/// done, or measure the time between two such moments.
///
/// An event that was never recorded counts as complete. A wait, query or synchronization means the last record before
/// the call, whatever is recorded later. Dropping an event never blocks, and waits that are queued keep their meaning.
///
/// Follows the Driver API's group *Event Management*. `cuda.core` and CuPy call it `Event`, Mojo `DeviceEvent`.
pub struct Event {
    core: EventCore,
}

impl Context {
    /// An event that takes time when it is recorded.
    ///
    /// # Errors
    /// As [`create_event_with_flags`](Self::create_event_with_flags).
    #[track_caller]
    pub fn create_event(&self) -> Result<Event> {
        self.create_event_with_flags(EventFlags::empty())
    }

    /// An event with flags.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not know, and for an interprocess event that takes time.
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

    /// Opens an event that another process has exported. Until that process records it, it counts as complete.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` where the device cannot; `CUDA_ERROR_INVALID_CONTEXT (201)` or
    /// `CUDA_ERROR_OPERATING_SYSTEM (304)` when the event was exported by this very process or is gone.
    #[track_caller]
    pub fn open(context: &Context, exported: &InterprocessEventHandle) -> Result<Self> {
        Ok(Self { core: EventCore::open(context.core(), exported)? })
    }

    /// Captures the work of `stream` at this moment, in place of what was captured before.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` when the event and the stream are of different contexts.
    #[inline]
    #[track_caller]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.record_with_flags(self, EventRecordFlags::empty())
    }

    /// Whether the work captured last is complete. A true answer is a synchronization: what the work wrote can be read.
    ///
    /// # Errors
    /// `CUDA_ERROR_CAPTURED_EVENT (907)` when it was last recorded in a capture, which is invalidated by that; else only an error
    /// of earlier asynchronous work.
    #[inline]
    #[track_caller]
    pub fn query(&self) -> Result<bool> {
        self.core.query()
    }

    /// Blocks until the work captured last is complete. With [`EventFlags::BLOCKING_SYNC`] the thread sleeps.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.core.synchronize()
    }

    /// Milliseconds from what `start` captured to what this event captured; negative when `start` came later.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` when either was never recorded or takes no time, `CUDA_ERROR_NOT_READY (600)` when either
    /// is not complete.
    #[track_caller]
    pub fn elapsed_since(&self, start: &Event) -> Result<f32> {
        self.core.elapsed_since(&start.core)
    }

    /// The event as another process can [open](Self::open) it. It must have been made with [`EventFlags::INTERPROCESS`].
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` where the device cannot, `CUDA_ERROR_INVALID_VALUE (1)` or
    /// `CUDA_ERROR_INVALID_HANDLE (400)` when the event was not made for it.
    #[track_caller]
    pub fn export(&self) -> Result<InterprocessEventHandle> {
        self.core.export()
    }

    /// A future that is ready when the work is complete that the event has captured last, whatever it captures later by
    /// [`record`](Self::record). A graph that records the event when it is launched, and a record through the driver's
    /// handle, count as what is waited for. An event that was never recorded is complete.
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
    /// The future's: an error of earlier asynchronous work; `CUDA_ERROR_CAPTURED_EVENT (907)` when the event was last recorded
    /// in a capture, which has nothing to wait for, and `CUDA_ERROR_INVALID_VALUE (1)` when that capture has ended.
    pub fn completed(&self) -> Completion {
        Completion::of_event(&self.core)
    }

    /// The flags it was made with.
    pub fn flags(&self) -> EventFlags {
        self.core.flags()
    }

    /// The context it was made in.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context().clone())
    }

    /// A number that is unique among all objects of this process, and never used again.
    pub fn id(&self) -> u64 {
        self.core.raw().label().id().get()
    }

    /// Names the event, for layers of the driver. An event keeps its first name. Whether this is it.
    #[track_caller]
    pub fn set_name(&self, name: &str) -> bool {
        self.core.raw().label().set_name(self.core.context(), name)
    }

    /// The driver's handle. It is valid as long as this event.
    ///
    /// Whoever records the event by its handle, and then makes a stream of this library wait for it through this object, has
    /// to order the memory that the stream uses: the library takes the last record that it was asked for to be the one that
    /// is waited for, and does not make that order again.
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
    /// As [`Stream::wait_event`] or [`Stream::wait_stream`].
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
    /// Captures this stream's work at this moment in `event`.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` when the event is of another context.
    #[inline]
    #[track_caller]
    pub fn record(&self, event: &Event) -> Result<()> {
        self.record_with_flags(event, EventRecordFlags::empty())
    }

    /// As [`record`](Self::record), with flags.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` when the event is of another context; `CUDA_ERROR_ILLEGAL_STATE (401)` for an external
    /// record outside of a capture; `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not know.
    #[inline]
    #[track_caller]
    pub fn record_with_flags(&self, event: &Event, flags: EventRecordFlags) -> Result<()> {
        self.core().record(&event.core, flags)
    }

    /// Makes an event and records it. The event takes time; see
    /// [`record_event_with_flags`](Self::record_event_with_flags) for one that does not.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    #[track_caller]
    pub fn record_event(&self) -> Result<Event> {
        self.record_event_with_flags(EventFlags::empty())
    }

    /// Makes an event with flags and records it.
    ///
    /// # Errors
    /// As [`Context::create_event_with_flags`] and [`record`](Self::record).
    #[track_caller]
    pub fn record_event_with_flags(&self, flags: EventFlags) -> Result<Event> {
        let event = Event { core: EventCore::create(self.core().context(), flags)? };
        self.record(&event)?;
        Ok(event)
    }

    /// Makes later work of this stream wait for what `event` captured last before this call. The event may be of another
    /// context or device. The host does not wait.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)` when the event is of another driver.
    #[inline]
    #[track_caller]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.wait_event_with_flags(event, EventWaitFlags::empty())
    }

    /// As [`wait_event`](Self::wait_event), with flags.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` for an external wait outside of a capture; `CUDA_ERROR_INVALID_VALUE (1)` for flags that
    /// the driver does not know.
    #[inline]
    #[track_caller]
    pub fn wait_event_with_flags(&self, event: &Event, flags: EventWaitFlags) -> Result<()> {
        self.core().wait_event(&event.core, flags)
    }

    /// Makes later work of this stream wait for the work that `other` has at this moment. The host does not wait.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)` when the stream is of another driver; `CUDA_ERROR_INVALID_HANDLE (400)` when it is another
    /// thread's default stream.
    #[track_caller]
    pub fn wait_stream(&self, other: &Stream) -> Result<()> {
        let operation = "waiting for a stream in a stream";
        self.core().context().require_same_driver(other.core().context(), operation)?;
        self.core().handle(operation)?;
        other.core().handle(operation)?;
        wait_for_stream(self.core(), other.core())
    }

    /// Makes later work of this stream wait for an event, or for another stream's work at this moment.
    ///
    /// # Errors
    /// As [`wait_event`](Self::wait_event) or [`wait_stream`](Self::wait_stream).
    #[track_caller]
    pub fn wait<T: WaitTarget + ?Sized>(&self, target: &T) -> Result<()> {
        target.wait_on(self)
    }
}
