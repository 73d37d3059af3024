//! Capture: work put into streams becomes a graph instead of running.

mod conditional;
mod mode;
mod part;
mod scope;
mod state;
mod uses;

pub use mode::CaptureModeGuard;
pub use scope::CaptureScope;

pub(crate) use mode::unprohibited;
use part::Part;
use state::Whole;
pub(crate) use state::{CaptureSlot, CaptureState};

use crate::context::other_context;
use crate::error::{Error, Result, ResultExt};
use crate::graph::{Dependencies, Graph, GraphObject, Node, NodeTable};
use crate::stream::Stream;
use anabranch_hal::{
    CaptureMode, CaptureStatus, Dependency, DependencyUpdate, EdgeData, GraphHandle, GraphNodeHandle, Status,
};
use std::sync::Arc;

/// What a capture says of itself. See [`Stream::capture_info`].
#[derive(Clone, Debug, Default)]
pub struct CaptureInfo {
    /// Whether the stream captures. All that follows is empty unless it is [`CaptureStatus::Active`].
    pub status: CaptureStatus,
    /// A number that is unique in the process for ever.
    pub id: u64,
    /// The driver's handle of the graph that is being made. It belongs to the capture, and is gone when that fails.
    pub graph: Option<GraphHandle>,
    /// The nodes that the stream's next one will depend on, with the data of the edges. They stay nodes of the graph that
    /// the end of the capture returns.
    pub dependencies: Vec<(Node, EdgeData)>,
}

impl Stream {
    /// Makes the stream capture: what is put into it from now on becomes nodes of a graph, and does not run. Other streams
    /// that wait for events recorded here, or for this stream, are drawn into the capture, and must be waited for by this
    /// stream before its end.
    ///
    /// Prefer [`capture`](Self::capture), which ends the capture whatever happens. A capture begun here is ended by
    /// [`end_capture`](Self::end_capture) on this stream, and on this thread unless the mode is relaxed. Dropping the stream
    /// gives the capture up. Follows `cuStreamBeginCapture`; Warp calls it `capture_begin`, CuPy `begin_capture`.
    ///
    /// # Errors
    /// 900 for the legacy default stream; 401 when the stream captures already, or when another thread is queueing work in it
    /// for longer than a second, such as a copy from plain memory that waits.
    pub fn begin_capture(&self, mode: CaptureMode) -> Result<()> {
        self.begin_capture_within(mode, Whole::Itself)
    }

    /// As [`begin_capture`](Self::begin_capture), perhaps of a part of another capture.
    fn begin_capture_within(&self, mode: CaptureMode, whole: Whole) -> Result<()> {
        let operation = "beginning a capture";
        let (core, handle) = (self.core(), self.core().handle(operation)?);
        let (driver, context) = (core.context().driver(), core.context().handle());
        let state = CaptureState::new(core, None, whole);
        core.begin_capture(&state, || {
            // SAFETY: the stream is live while it is borrowed.
            unsafe { driver.stream_begin_capture(context, handle, mode) }.during(operation, || core.place())
        })
    }

    /// As [`begin_capture`](Self::begin_capture), into a graph that exists, below the given nodes of it.
    /// [`end_capture`](Self::end_capture) returns it. Prefer [`capture_into`](Self::capture_into). Follows
    /// `cuStreamBeginCaptureToGraph`.
    ///
    /// # Errors
    /// As [`begin_capture`](Self::begin_capture), with the graph given back; 1 when a node is not of the graph, 801 where
    /// the driver is too old.
    pub fn begin_capture_to_graph(
        &self,
        graph: Graph,
        dependencies: impl Dependencies,
        mode: CaptureMode,
    ) -> Result<(), (Error, Graph)> {
        match self.begin_capture_to_object(graph.object(), &dependencies.list(), mode) {
            Ok(()) => Ok(()),
            Err(error) => Err((error, graph)),
        }
    }

    fn begin_capture_to_object(
        &self,
        object: &Arc<GraphObject>,
        dependencies: &[(Node, EdgeData)],
        mode: CaptureMode,
    ) -> Result<()> {
        let operation = "beginning a capture to a graph";
        let (core, handle) = (self.core(), self.core().handle(operation)?);
        let (driver, context) = (core.context().driver(), core.context().handle());
        if object.context().handle() != context {
            return Err(other_context(operation, "graph", core.place()));
        }
        let graph_state = object.lock();
        let dependencies = object.dependencies(&graph_state, dependencies, operation)?;
        let state = CaptureState::new(core, Some(object), Whole::Itself);
        core.begin_capture(&state, || {
            // SAFETY: the stream is live while it is borrowed. The capture's state keeps the graph, which nobody else uses:
            // it was moved, or is borrowed mutably, by whoever captures into it.
            unsafe { driver.stream_begin_capture_to_graph(context, handle, object.handle(), &dependencies, mode) }
                .during(operation, || core.place())
        })
    }

    /// Ends the capture and returns the graph. Whether it succeeds or fails, the streams of the capture can be used again
    /// afterwards, except with 903 and 401.
    ///
    /// # Errors
    /// 904 when a stream that was drawn in was not waited for; 901 when a forbidden call has spoiled the capture; 903 when
    /// it began on another stream, where it then has to be ended; 908 when it began on another thread; 401 when the stream
    /// does not capture.
    pub fn end_capture(&self) -> Result<Graph> {
        self.end_capture_as_part().map(|part| part.graph)
    }

    /// Ends the capture, and returns the graph with the conditions that stand in it for conditional nodes.
    fn end_capture_as_part(&self) -> Result<Part> {
        let operation = "ending a capture";
        let core = self.core();
        let handle = core.handle(operation)?;
        let state = core.capture();
        let (driver, context) = (core.context().driver(), core.context().handle());
        let streams = state.as_ref().map(|state| state.streams()).unwrap_or_default();
        let alone: Option<Vec<_>> = streams.iter().map(|stream| stream.change_part()).collect();
        let _alone = alone.ok_or_else(|| core.refuse_capture(operation))?;
        // SAFETY: the stream is live while it is borrowed.
        let ended = unsafe { driver.stream_end_capture(context, handle) }.during(operation, || core.place());
        let over = !matches!(&ended, Err(error) if error.status() == Status::STREAM_CAPTURE_UNMATCHED);
        let Some(state) = state.filter(|_| over) else {
            // A capture that was begun through another library.
            return ended.map(|graph| {
                // SAFETY: the driver has just handed the graph over. What its nodes refer to is the business of whoever
                // began the capture through a handle, which is unsafe to have.
                let graph = unsafe { Graph::from_raw(&self.context(), graph) };
                Part { graph, conditions: Vec::new() }
            });
        };
        let finished = state.finish();
        match ended {
            Ok(graph) => Ok(finished.into_graph(core.context(), graph)),
            Err(error) => {
                finished.failed();
                Err(error)
            }
        }
    }

    /// Whether the stream captures, and whether the capture is still good.
    ///
    /// # Errors
    /// 906 for the legacy default stream while a blocking stream of its context captures.
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        let operation = "asking for a stream's capture status";
        let handle = self.core().handle(operation)?;
        let context = self.core().context();
        // SAFETY: the stream is live while it is borrowed.
        unsafe { context.driver().stream_capture_status(context.handle(), handle) }
            .during(operation, || self.core().place())
    }

    /// Whether the stream captures, be it spoiled or not.
    ///
    /// # Errors
    /// As [`capture_status`](Self::capture_status).
    pub fn is_capturing(&self) -> Result<bool> {
        Ok(self.capture_status()? != CaptureStatus::None)
    }

    /// What the capture says of itself: its id, its graph, and the nodes that this stream's next one will depend on.
    /// Follows `cuStreamGetCaptureInfo`.
    ///
    /// # Errors
    /// As [`capture_status`](Self::capture_status).
    pub fn capture_info(&self) -> Result<CaptureInfo> {
        self.capture_info_with(true)
    }

    /// As [`capture_info`](Self::capture_info), and without asking for edge data if `with_edge_data` is false: then edges
    /// that have some are an error.
    ///
    /// # Errors
    /// 402 when edge data would be lost; else as [`capture_status`](Self::capture_status).
    pub fn capture_info_with(&self, with_edge_data: bool) -> Result<CaptureInfo> {
        let info = self.raw_capture_info(with_edge_data)?;
        let mut foreign = NodeTable::new(0);
        let state = self.core().capture();
        let mut enter = |node: GraphNodeHandle| match &state {
            Some(state) => state.enter_node(node),
            None => foreign.enter(node),
        };
        let data = info.edge_data.unwrap_or_default();
        let data = data.into_iter().chain(std::iter::repeat(EdgeData::default()));
        Ok(CaptureInfo {
            status: info.status,
            id: info.id,
            graph: info.graph,
            dependencies: info.dependencies.into_iter().map(&mut enter).zip(data).collect(),
        })
    }

    fn raw_capture_info(&self, with_edge_data: bool) -> Result<anabranch_hal::CaptureInfo> {
        let operation = "asking for what a stream captures";
        let handle = self.core().handle(operation)?;
        let context = self.core().context();
        // SAFETY: the stream is live while it is borrowed.
        unsafe { context.driver().stream_capture_info(context.handle(), handle, with_edge_data) }
            .during(operation, || self.core().place())
    }

    /// Adds to, or replaces, the nodes that this stream's next one will depend on. Nodes that are replaced need not be
    /// waited for before the end. Memory that is used by tracked buffers keeps its own order only as far as the new
    /// dependencies say. Follows `cuStreamUpdateCaptureDependencies`.
    ///
    /// # Errors
    /// 401 when the stream does not capture; 1 when a node is not of this capture.
    pub fn update_capture_dependencies(&self, dependencies: impl Dependencies, update: DependencyUpdate) -> Result<()> {
        let operation = "updating what a stream captures";
        let core = self.core();
        let handle = core.handle(operation)?;
        let state = core.capture();
        let find = |(node, data): (Node, EdgeData)| {
            let found = state.as_ref().and_then(|state| state.find_node(node));
            found.map(|node| Dependency { node, data }).ok_or_else(|| {
                Error::argument(Status::INVALID_VALUE, operation, "a node does not belong to this capture")
                    .with_hint("pass nodes that capture_info returned for a stream of the same capture")
                    .at(core.place())
            })
        };
        let dependencies = dependencies.list().into_iter().map(find).collect::<Result<Vec<_>>>()?;
        let context = core.context();
        // SAFETY: the stream is live while it is borrowed; the nodes are of the graph being captured, from which none can be
        // removed.
        unsafe { context.driver().stream_update_capture_dependencies(context.handle(), handle, &dependencies, update) }
            .during(operation, || core.place())
    }
}
