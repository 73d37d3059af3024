//! Events in streams, and streams behind events and behind each other.

use super::Stream;
use crate::error::{Result, ResultExt};
use crate::event::Event;
use crate::trace;
use anabranch_hal::{EventFlags, EventRecordFlags, EventWaitFlags, Status};

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

impl sealed::Sealed for super::BorrowedStream<'_> {}

impl WaitTarget for super::BorrowedStream<'_> {
    fn wait_on(&self, stream: &Stream) -> Result<()> {
        stream.wait_stream(self)
    }
}

impl Stream {
    /// Captures this stream's work at this moment in `event`.
    ///
    /// # Errors
    /// 400 when the event is of another context.
    #[inline]
    pub fn record(&self, event: &Event) -> Result<()> {
        self.record_with_flags(event, EventRecordFlags::empty())
    }

    /// As [`record`](Self::record), with flags.
    ///
    /// # Errors
    /// 400 when the event is of another context; 401 for an external record outside of a capture; 1 for flags that the
    /// driver does not know.
    #[inline]
    pub fn record_with_flags(&self, event: &Event, flags: EventRecordFlags) -> Result<()> {
        let operation = "recording an event";
        trace::queued!(stream = self.core.id(), event = ?event.as_raw(), "{operation}");
        let context = self.core.context();
        context.require_same_driver(event.context_core(), operation)?;
        let handle = self.core.handle(operation)?;
        let external = flags.contains(EventRecordFlags::EXTERNAL);
        let shared = self.core.shared();
        let mut known = event.known_anew();
        if !external {
            event.awaited().part()?;
        }
        let outside = shared.capture().outside();
        let number = known.record(shared);
        // SAFETY: the stream and the event are live while they are borrowed.
        unsafe { context.driver().event_record(context.handle(), event.as_raw(), handle, flags) }
            .during(operation, || self.core.place())?;
        // Whether a capture began before the record, on another thread, cannot be told if one began meanwhile.
        if outside.is_some() && shared.capture().outside() == outside && !external && !event.is_shared() {
            known.recorded(&self.core, number);
        }
        // Before another thread can make its stream wait for the event, which draws that in.
        let is_captured = match outside {
            Some(_) if shared.capture().outside() != outside => self.was_captured(event),
            _ => self.core.is_capturing(),
        };
        if is_captured || event.is_captured() || external {
            self.note_record(event, flags);
        }
        drop(known);
        Ok(())
    }

    /// Whether the record of an event was captured, where a capture began in the stream at the same time.
    #[cold]
    #[inline(never)]
    fn was_captured(&self, event: &Event) -> bool {
        // The stream is known to take part, or not to, after this.
        drop(self.core.shared().queueing());
        let context = self.core.context();
        // SAFETY: the event is live while it is borrowed.
        let asked = unsafe { context.driver().event_query(context.handle(), event.as_raw()) };
        self.core.is_capturing() && matches!(asked, Err(failure) if failure.status == Status::CAPTURED_EVENT)
    }

    /// What a capture has to know of a record, or an event that was recorded in one before.
    #[cold]
    #[inline(never)]
    fn note_record(&self, event: &Event, flags: EventRecordFlags) {
        let capture = self.core.capture();
        if flags.contains(EventRecordFlags::EXTERNAL) {
            event.share();
            if let Some(capture) = capture {
                capture.keep(event.raw());
            }
        } else {
            event.recorded_in(capture.as_ref(), &self.core);
        }
    }

    /// Makes an event and records it. The event takes time; see
    /// [`record_event_with_flags`](Self::record_event_with_flags) for one that does not.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub fn record_event(&self) -> Result<Event> {
        self.record_event_with_flags(EventFlags::empty())
    }

    /// Makes an event with flags and records it.
    ///
    /// # Errors
    /// As [`Context::create_event_with_flags`](crate::Context::create_event_with_flags) and [`record`](Self::record).
    pub fn record_event_with_flags(&self, flags: EventFlags) -> Result<Event> {
        let event = self.context().create_event_with_flags(flags)?;
        self.record(&event)?;
        Ok(event)
    }

    /// Makes later work of this stream wait for what `event` captured last before this call. The event may be of another
    /// context or device. The host does not wait.
    ///
    /// # Errors
    /// 101 when the event is of another back end.
    #[inline]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.wait_event_with_flags(event, EventWaitFlags::empty())
    }

    /// As [`wait_event`](Self::wait_event), with flags.
    ///
    /// # Errors
    /// 401 for an external wait outside of a capture; 1 for flags that the driver does not know.
    #[inline]
    pub fn wait_event_with_flags(&self, event: &Event, flags: EventWaitFlags) -> Result<()> {
        let operation = "waiting for an event in a stream";
        trace::queued!(stream = self.core.id(), event = ?event.as_raw(), "{operation}");
        let context = self.core.context();
        context.require_same_driver(event.context_core(), operation)?;
        let handle = self.core.handle(operation)?;
        let wait = || {
            // SAFETY: the stream and the event are live while they are borrowed.
            unsafe { context.driver().stream_wait_event(context.handle(), handle, event.as_raw(), flags) }
                .during(operation, || self.core.place())
        };
        // Locked first: the event may be recorded by another thread meanwhile, and in a capture, which then draws this
        // stream in.
        let known = event.known();
        if event.is_captured() || flags.contains(EventWaitFlags::EXTERNAL) {
            self.wait_in_capture(event, flags, wait)
        } else {
            wait()?;
            if !event.is_shared() {
                known.waited_for_by(&self.core);
            }
            Ok(())
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_in_capture(&self, event: &Event, flags: EventWaitFlags, wait: impl Fn() -> Result<()>) -> Result<()> {
        if flags.contains(EventWaitFlags::EXTERNAL) {
            wait()?;
            if let Some(capture) = self.core.capture() {
                capture.keep(event.raw());
            }
            return Ok(());
        }
        match event.capture() {
            // The wait draws this stream into the capture.
            Some((capture, clock)) => {
                self.core.join_capture(&capture, wait)?;
                capture.has_followed(&self.core, &clock);
                Ok(())
            }
            None => wait(),
        }
    }

    /// Makes later work of this stream wait for the work that `other` has at this moment. The host does not wait.
    ///
    /// # Errors
    /// 101 when the stream is of another back end; 400 when it is another thread's default stream.
    pub fn wait_stream(&self, other: &Stream) -> Result<()> {
        let operation = "waiting for a stream in a stream";
        self.core.context().require_same_driver(other.core.context(), operation)?;
        self.core.handle(operation)?;
        other.core.handle(operation)?;
        self.core.wait_for(&other.core)
    }

    /// Makes later work of this stream wait for an event, or for another stream's work at this moment.
    ///
    /// # Errors
    /// As [`wait_event`](Self::wait_event) or [`wait_stream`](Self::wait_stream).
    pub fn wait<T: WaitTarget + ?Sized>(&self, target: &T) -> Result<()> {
        target.wait_on(self)
    }
}
