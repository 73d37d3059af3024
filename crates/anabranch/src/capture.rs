//! Capture: work put into streams becomes a graph instead of running.

mod conditional;
mod scope;

pub use scope::CaptureScope;

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::stream::Stream;
use anabranch_core::capture::CaptureInfo;
use anabranch_core::capture_state::Whole;
use anabranch_core::node::Dependencies;
use anabranch_hal::{CaptureMode, CaptureStatus, DependencyUpdate};

impl Stream {
    /// Makes the stream capture: what is put into it from now on becomes nodes of a graph, and does not run. Other streams
    /// that wait for events recorded here, or for this stream, join the capture, and this stream must wait for them before its
    /// end.
    ///
    /// Prefer [`capture`](Self::capture), which ends the capture whatever happens. A capture begun here is ended by
    /// [`end_capture`](Self::end_capture) on this stream, and on this thread unless the mode is relaxed. Dropping the stream
    /// abandons the capture. Follows `cuStreamBeginCapture`; Warp calls it `capture_begin`, CuPy `begin_capture`.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` for the legacy default stream; `CUDA_ERROR_ILLEGAL_STATE (401)` when the stream
    /// captures already, or when another thread submits work to it for longer than a second, such as a copy from pageable memory
    /// that waits.
    #[track_caller]
    pub fn begin_capture(&self, mode: CaptureMode) -> Result<()> {
        self.core().begin_capture(mode, Whole::Itself)
    }

    /// As [`begin_capture`](Self::begin_capture), into a graph that exists, below the given nodes of it.
    /// [`end_capture`](Self::end_capture) returns it. Prefer [`capture_into`](Self::capture_into). Follows
    /// `cuStreamBeginCaptureToGraph`.
    ///
    /// # Errors
    /// As [`begin_capture`](Self::begin_capture), with the graph given back; `CUDA_ERROR_INVALID_VALUE (1)` when a node is not
    /// of the graph, `CUDA_ERROR_NOT_SUPPORTED (801)` where the driver is too old.
    #[track_caller]
    pub fn begin_capture_to_graph(
        &self,
        graph: Graph,
        dependencies: impl Dependencies,
        mode: CaptureMode,
    ) -> Result<(), (Error, Graph)> {
        match self.core().begin_capture_to(graph.object(), &dependencies.list(), mode) {
            Ok(()) => Ok(()),
            Err(error) => Err((error, graph)),
        }
    }

    /// Ends the capture and returns the graph. Whether it succeeds or fails, the streams of the capture can be used
    /// again afterwards, except with `CUDA_ERROR_STREAM_CAPTURE_UNMATCHED (903)` and `CUDA_ERROR_ILLEGAL_STATE (401)`.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904)` when this stream has not waited for a stream that joined the capture;
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)` when a prohibited call has invalidated the capture;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNMATCHED (903)` when it began on another stream, where it then has to be ended;
    /// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD (908)` when it began on another thread; `CUDA_ERROR_ILLEGAL_STATE (401)` when the stream
    /// does not capture.
    #[track_caller]
    pub fn end_capture(&self) -> Result<Graph> {
        Ok(Graph::from_object(self.core().end_capture()?.graph))
    }

    /// Whether the stream captures, and whether the capture is still valid.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` for the legacy default stream while a blocking stream of its context captures.
    #[track_caller]
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        self.core().capture_status()
    }

    /// Whether the stream captures, be the capture valid or invalidated.
    ///
    /// # Errors
    /// As [`capture_status`](Self::capture_status).
    #[track_caller]
    pub fn is_capturing(&self) -> Result<bool> {
        Ok(self.capture_status()? != CaptureStatus::None)
    }

    /// What the capture says of itself: its id, its graph, and the nodes that this stream's next one will depend on.
    /// Follows `cuStreamGetCaptureInfo`.
    ///
    /// # Errors
    /// As [`capture_status`](Self::capture_status).
    #[track_caller]
    pub fn capture_info(&self) -> Result<CaptureInfo> {
        self.capture_info_with(true)
    }

    /// As [`capture_info`](Self::capture_info), and without asking for edge data if `with_edge_data` is false: then edges
    /// that have some are an error.
    ///
    /// # Errors
    /// `CUDA_ERROR_LOSSY_QUERY (402)` when edge data would be lost; else as [`capture_status`](Self::capture_status).
    #[track_caller]
    pub fn capture_info_with(&self, with_edge_data: bool) -> Result<CaptureInfo> {
        self.core().capture_info(with_edge_data)
    }

    /// Adds to, or replaces, the nodes that this stream's next one will depend on. Nodes that are replaced need not be
    /// waited for before the end. What the stream used before is ordered before its later work only as far as the new
    /// dependencies say. Follows `cuStreamUpdateCaptureDependencies`.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` when the stream does not capture; `CUDA_ERROR_INVALID_VALUE (1)` when a node is not of this
    /// capture.
    #[track_caller]
    pub fn update_capture_dependencies(&self, dependencies: impl Dependencies, update: DependencyUpdate) -> Result<()> {
        self.core().update_capture_dependencies(&dependencies.list(), update)
    }
}
