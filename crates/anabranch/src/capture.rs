//! Capture: work submitted to streams becomes a graph instead of running.

mod again;
mod conditional;
mod scope;

pub use scope::{CaptureScope, CaptureTarget};

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::stream::Stream;
use anabranch_core::capture::CaptureInfo;
use anabranch_core::capture_state::{CaptureEnd, Whole};
use anabranch_core::node::Dependencies;
use anabranch_hal::{CaptureMode, CaptureStatus, DependencyUpdate, Status};

impl Stream {
    /// Begins a capture in this stream: work submitted from now on becomes nodes of a graph and does not run. Other
    /// streams that wait for this stream, or for events recorded in it, join the capture. This stream must wait for
    /// them before the capture ends.
    ///
    /// Prefer [`capture`](Self::capture), which ends the capture in every case. End a capture that was begun here with
    /// [`end_capture`](Self::end_capture) on this stream, and on this thread unless the mode is relaxed. Dropping the
    /// stream abandons the capture; for the default stream of a thread, dropping the last object of it. If that is dropped on
    /// another thread, the capture is abandoned when its own thread asks for the stream again, or ends. Follows `cuStreamBeginCapture`; Warp calls it `capture_begin`, CuPy
    /// `begin_capture`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) for the legacy
    /// default stream; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if the stream is already
    /// capturing, or if another thread has been submitting work to it for more than a second, such as a copy from
    /// pageable memory that waits.
    #[track_caller]
    pub fn begin_capture(&self, mode: CaptureMode) -> Result<()> {
        self.core().begin_capture(mode, Whole::Itself, CaptureEnd::Call).map(drop)
    }

    /// Like [`begin_capture`](Self::begin_capture), but captures into an existing graph. The first node depends on the
    /// given nodes, by which alone the program orders what is captured behind nodes that were in the graph before.
    /// [`end_capture`](Self::end_capture) returns the graph. Prefer [`capture_into`](Self::capture_into).
    /// Follows `cuStreamBeginCaptureToGraph`.
    ///
    /// # Errors
    /// Same as [`begin_capture`](Self::begin_capture), and the graph is given back;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if a node does not belong to the graph;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver is too old.
    #[track_caller]
    pub fn begin_capture_to_graph(
        &self,
        graph: Graph,
        dependencies: impl Dependencies,
        mode: CaptureMode,
    ) -> Result<(), (Error, Graph)> {
        match self.core().begin_capture_to(graph.object(), &dependencies.list(), mode, CaptureEnd::Call) {
            Ok(_) => Ok(()),
            Err(error) => Err((error, graph)),
        }
    }

    /// What the closure of [`capture`](Self::capture) gets, for a capture that [`begin_capture`](Self::begin_capture) has begun in
    /// this mode: for conditions. For bindings of languages whose captures are not closures.
    ///
    /// ```
    /// use anabranch::CaptureMode;
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let condition = stream.upload(&[1u32])?;
    /// let mut memory = stream.upload(&[0u8; 4])?;
    /// stream.begin_capture(CaptureMode::ThreadLocal)?;
    /// let scope = stream.capture_scope(CaptureMode::ThreadLocal)?;
    /// scope.capture_if(&condition, |part| part.fill(&mut memory, 7))?;
    /// stream.end_capture()?.instantiate()?.launch(&stream)?;
    /// assert_eq!(stream.download(&memory)?, [7; 4]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if the stream is not capturing; otherwise the same as
    /// [`capture_status`](Self::capture_status).
    #[track_caller]
    pub fn capture_scope(&self, mode: CaptureMode) -> Result<CaptureScope<'_>> {
        if self.is_capturing()? {
            return Ok(CaptureScope::new(self, mode));
        }
        let error = Error::argument(Status::ILLEGAL_STATE, "capturing a condition", "the stream is not capturing");
        Err(error.with_hint("call begin_capture first").at(self.core().place()))
    }

    /// Captures another graph in this stream: a node that runs a copy of it, behind what the stream has captured so far. The new
    /// graph uses the memory that the copy uses, and retains what it retains. Follows `cuGraphAddChildGraphNode`.
    ///
    /// ```
    /// use anabranch::CaptureMode;
    /// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
    /// let mut memory = stream.upload(&[0u8; 4])?;
    /// let part = stream.capture(CaptureMode::ThreadLocal, |scope| scope.fill(&mut memory, 7))?;
    /// let condition = stream.upload(&[1u32])?;
    /// let executable = stream.capture_executable(CaptureMode::ThreadLocal, |scope| {
    ///     scope.capture_if(&condition, |branch| branch.capture_child(&part))
    /// })?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&memory)?, [7; 4]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if the stream is not capturing, or, in
    /// [strict order](crate::Context::set_strict_order), if the work of the graph is not ordered;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for a graph of another context;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) for a graph that allocates memory or has conditional
    /// nodes, after which no graph comes of the capture, for too many levels of graphs, in a [recapture](Self::recapture),
    /// and at the end of a condition's body that has a condition besides the graph.
    #[track_caller]
    pub fn capture_child(&self, graph: &Graph) -> Result<()> {
        self.core().capture_child(graph.object())
    }

    /// Ends the capture and returns the graph. Whether it succeeds or fails, the streams of the capture can be used
    /// again afterwards, except after
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNMATCHED (903)`](crate::Status::STREAM_CAPTURE_UNMATCHED) and
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE).
    ///
    /// # Errors
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNJOINED (904)`](crate::Status::STREAM_CAPTURE_UNJOINED) if this stream has not
    /// waited for a stream that joined the capture;
    /// [`CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)`](crate::Status::STREAM_CAPTURE_INVALIDATED) if a prohibited call
    /// has invalidated the capture, or a condition was captured in part only;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNMATCHED (903)`](crate::Status::STREAM_CAPTURE_UNMATCHED) if the capture began in
    /// another stream, where it must then be ended;
    /// [`CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD (908)`](crate::Status::STREAM_CAPTURE_WRONG_THREAD) if it began on
    /// another thread; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if the stream is not capturing,
    /// if the capture ends with the closure of [`capture`](Self::capture), or if another thread has been submitting
    /// work to a stream of the capture for more than a second;
    /// [`CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)`](crate::Status::STREAM_CAPTURE_IMPLICIT) in the legacy stream beside
    /// the capture of a blocking stream, which that invalidates.
    #[track_caller]
    pub fn end_capture(&self) -> Result<Graph> {
        Ok(Graph::from_object(self.core().end_capture(None)?.graph))
    }

    /// Whether the stream is capturing, and whether the capture is still valid.
    ///
    /// # Errors
    /// [`CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)`](crate::Status::STREAM_CAPTURE_IMPLICIT) for the legacy default
    /// stream while a blocking stream of its context captures.
    #[track_caller]
    pub fn capture_status(&self) -> Result<CaptureStatus> {
        self.core().capture_status()
    }

    /// Whether the stream is capturing. The capture may be valid or invalidated.
    ///
    /// # Errors
    /// Same as [`capture_status`](Self::capture_status).
    #[track_caller]
    pub fn is_capturing(&self) -> Result<bool> {
        Ok(self.capture_status()? != CaptureStatus::None)
    }

    /// The id of the capture, its graph, and the nodes that the next node of this stream will depend on. Follows
    /// `cuStreamGetCaptureInfo`.
    ///
    /// # Errors
    /// Same as [`capture_status`](Self::capture_status).
    #[track_caller]
    pub fn capture_info(&self) -> Result<CaptureInfo> {
        self.capture_info_with(true)
    }

    /// Like [`capture_info`](Self::capture_info), but does not query edge data if `with_edge_data` is false. Edges that
    /// have data are then an error.
    ///
    /// # Errors
    /// [`CUDA_ERROR_LOSSY_QUERY (402)`](crate::Status::LOSSY_QUERY) if edge data would be lost; otherwise the same as
    /// [`capture_status`](Self::capture_status).
    #[track_caller]
    pub fn capture_info_with(&self, with_edge_data: bool) -> Result<CaptureInfo> {
        self.core().capture_info(with_edge_data)
    }

    /// Adds to the nodes that the next node of this stream will depend on. Follows
    /// `cuStreamUpdateCaptureDependencies`, whose flags 0 mean the same.
    ///
    /// # Errors
    /// [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) if the stream is not capturing;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if a node does not belong to this capture.
    #[track_caller]
    pub fn update_capture_dependencies(&self, dependencies: impl Dependencies) -> Result<()> {
        self.update_capture_dependencies_with_mode(dependencies, DependencyUpdate::default())
    }

    /// Adds to, or replaces, the nodes that the next node of this stream will depend on. Replaced nodes need not be
    /// joined to the origin before the capture ends. If later work of this stream uses memory that replaced nodes of the
    /// capture use, the library makes it depend on them; it does not for nodes that were in the graph before the capture. Follows
    /// `cuStreamUpdateCaptureDependencies`.
    ///
    /// # Errors
    /// Same as [`update_capture_dependencies`](Self::update_capture_dependencies).
    #[track_caller]
    pub fn update_capture_dependencies_with_mode(
        &self,
        dependencies: impl Dependencies,
        update: DependencyUpdate,
    ) -> Result<()> {
        self.core().update_capture_dependencies(&dependencies.list(), update)
    }
}
