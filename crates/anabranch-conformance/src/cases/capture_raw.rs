//! Streams and events that only the driver knows, for captures that the library could not follow.

use super::capture_tools::{OK, UNSUPPORTED};
use crate::case::{Failed, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{ContextHandle, Dependency, DependencyUpdate, Driver, Live};
use anabranch::{
    Buffer, CaptureMode, CaptureStatus, Context, EventFlags, EventHandle, EventRecordFlags, EventWaitFlags,
    FillPattern, Graph, Status, StreamFlags, StreamHandle,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the objects of a case are made.
#[derive(Clone, Copy)]
pub(super) struct Place<'e> {
    environment: &'e Environment,
    context: &'e Context,
}

impl<'e> Place<'e> {
    pub(super) fn new(environment: &'e Environment, context: &'e Context) -> Self {
        Self { environment, context }
    }

    /// The primary context.
    pub(super) fn primary(environment: &'e Environment) -> Self {
        Self::new(environment, environment.context())
    }

    pub(super) fn driver(self) -> &'e dyn Driver {
        &**self.environment.device().driver()
    }

    pub(super) fn context(self) -> Live<'e, ContextHandle> {
        self.context.live()
    }

    pub(super) fn stream(self, flags: StreamFlags) -> Result<RawStream<'e>, Failed> {
        let made = self.driver().stream_create(&self.context().into(), flags, 0);
        let handle = made.map_err(|failure| Failed(format!("creating a stream: {failure:?}")))?;
        Ok(RawStream { place: self, handle, makes_graph: AtomicBool::new(true) })
    }

    /// A non-blocking stream.
    pub(super) fn free_stream(self) -> Result<RawStream<'e>, Failed> {
        self.stream(StreamFlags::NON_BLOCKING)
    }

    pub(super) fn event(self, flags: EventFlags) -> Result<RawEvent<'e>, Failed> {
        let made = self.driver().event_create(&self.context().into(), flags);
        let handle = made.map_err(|failure| Failed(format!("creating an event: {failure:?}")))?;
        Ok(RawEvent { place: self, handle })
    }

    pub(super) fn wait(self, stream: Live<'_, StreamHandle>, event: &RawEvent<'_>, flags: EventWaitFlags) -> Status {
        status_of(self.driver().stream_wait_event(&self.context().into(), stream, event.live(), flags))
    }
}

/// A stream. Dropping it ends its capture.
pub(super) struct RawStream<'e> {
    place: Place<'e>,
    handle: StreamHandle,
    /// Whether its capture makes a graph of its own.
    makes_graph: AtomicBool,
}

impl RawStream<'_> {
    pub(super) fn live(&self) -> Live<'_, StreamHandle> {
        // SAFETY: the stream exists until `self` is dropped. A case gives it to the driver that it tests only, and uses a
        // capture on one thread at a time.
        unsafe { Live::new(self.handle) }
    }

    pub(super) fn begin(&self, mode: CaptureMode) -> Verdict {
        let begun = self.place.driver().stream_begin_capture(&self.place.context().into(), self.live(), mode);
        equal("beginning a capture", status_of(begun), OK)
    }

    /// The status of beginning a capture into a graph.
    pub(super) fn begin_into(&self, graph: &Graph, dependencies: &[Dependency], mode: CaptureMode) -> Status {
        let (driver, context) = (self.place.driver(), self.place.context());
        // SAFETY: the nodes of `dependencies` are nodes of graphs that outlive the capture.
        let begun = status_of(unsafe {
            driver.stream_begin_capture_to_graph(&context.into(), self.live(), graph.live(), dependencies, mode)
        });
        if begun == OK {
            self.makes_graph.store(false, Ordering::Relaxed);
        }
        begun
    }

    /// The status of ending the capture. A graph that the capture has made is destroyed.
    pub(super) fn end(&self) -> Status {
        let (driver, context) = (self.place.driver(), self.place.context());
        let makes_graph = self.makes_graph.swap(true, Ordering::Relaxed);
        match driver.stream_end_capture(&context.into(), self.live()) {
            // SAFETY: the capture made the graph, and no one else has it.
            Ok(graph) if makes_graph => status_of(unsafe { driver.graph_destroy(&context.into(), graph) }),
            ended => status_of(ended),
        }
    }

    /// The status of changing what the next node depends on.
    pub(super) fn update(&self, dependencies: &[Dependency], update: DependencyUpdate) -> Status {
        let (driver, context) = (self.place.driver(), self.place.context());
        // SAFETY: the nodes of `dependencies` are nodes of the capture, which goes on.
        status_of(unsafe {
            driver.stream_update_capture_dependencies(&context.into(), self.live(), dependencies, update)
        })
    }

    pub(super) fn status(&self) -> Result<CaptureStatus, Failed> {
        let status = self.place.driver().stream_capture_status(&self.place.context().into(), self.live());
        status.map_err(|failure| Failed(format!("querying the capture status: {failure:?}")))
    }

    pub(super) fn dependencies(&self) -> Result<Vec<Dependency>, Failed> {
        let info = self.place.driver().stream_capture_info(&self.place.context().into(), self.live(), true);
        let info = info.map_err(|failure| Failed(format!("querying the capture: {failure:?}")))?;
        let data = info.edge_data.unwrap_or_default();
        Ok(info.dependencies.into_iter().zip(data).map(|(node, data)| Dependency { node, data }).collect())
    }

    pub(super) fn query(&self) -> Status {
        status_of(self.place.driver().stream_query(&self.place.context().into(), self.live()))
    }

    /// Invalidates the capture.
    pub(super) fn invalidate(&self) -> Verdict {
        equal("querying a capturing stream", self.query(), UNSUPPORTED)
    }

    /// Checks the capture's status, and what ending it returns.
    pub(super) fn ends(&self, what: &str, status: CaptureStatus, ended: Status) -> Verdict {
        equal(&format!("the capture's status after {what}"), self.status()?, status)?;
        equal(&format!("ending after {what}"), self.end(), ended)
    }

    pub(super) fn record(&self, event: &RawEvent<'_>, flags: EventRecordFlags) -> Status {
        let (driver, context) = (self.place.driver(), self.place.context());
        status_of(driver.event_record(&context.into(), event.live(), self.live(), flags))
    }

    pub(super) fn wait(&self, event: &RawEvent<'_>) -> Status {
        self.place.wait(self.live(), event, EventWaitFlags::empty())
    }

    pub(super) fn wait_externally(&self, event: &RawEvent<'_>) -> Status {
        self.place.wait(self.live(), event, EventWaitFlags::EXTERNAL)
    }

    /// The status of filling a word with zeros.
    pub(super) fn fill(&self, word: &Buffer<u32>) -> Status {
        let (driver, context) = (self.place.driver(), self.place.context());
        // SAFETY: a case fills in captures, whose graphs are not launched.
        status_of(unsafe {
            driver.fill_async(&context.into(), word.device_pointer(), FillPattern::U32(0), 1, self.live())
        })
    }

    /// Destroys the stream, whatever it captures.
    pub(super) fn destroy(self) -> Status {
        let (place, handle) = (self.place, self.handle);
        std::mem::forget(self);
        // SAFETY: the stream exists, and nothing uses its handle any more.
        status_of(unsafe { place.driver().stream_destroy(&place.context().into(), handle) })
    }
}

impl Drop for RawStream<'_> {
    fn drop(&mut self) {
        self.end();
        let (driver, context) = (self.place.driver(), self.place.context());
        // SAFETY: the stream exists, and nothing uses its handle any more.
        let _ = unsafe { driver.stream_destroy(&context.into(), self.handle) };
    }
}

/// An event.
pub(super) struct RawEvent<'e> {
    place: Place<'e>,
    handle: EventHandle,
}

impl RawEvent<'_> {
    pub(super) fn live(&self) -> Live<'_, EventHandle> {
        // SAFETY: the event exists until `self` is dropped. A case gives it to the driver that it tests only.
        unsafe { Live::new(self.handle) }
    }

    pub(super) fn query(&self) -> Status {
        status_of(self.place.driver().event_query(&self.place.context().into(), self.live()))
    }

    pub(super) fn synchronize(&self) -> Status {
        status_of(self.place.driver().event_synchronize(&self.place.context().into(), self.live()))
    }

    /// The status of asking for the time from this event to another one.
    pub(super) fn measure(&self, end: &RawEvent<'_>) -> Status {
        status_of(self.place.driver().event_elapsed(&self.place.context().into(), self.live(), end.live()))
    }
}

impl Drop for RawEvent<'_> {
    fn drop(&mut self) {
        let (driver, context) = (self.place.driver(), self.place.context());
        // SAFETY: the event exists, and nothing uses its handle any more. Graphs that refer to it are not launched.
        let _ = unsafe { driver.event_destroy(&context.into(), self.handle) };
    }
}
