//! Stream capture: work submitted to a stream becomes nodes of a graph instead of running (Driver API, group STREAM).

use crate::{Call, Dependency, EdgeData, GraphHandle, GraphNodeHandle, Live, RecaptureRecord, Result, StreamHandle};

/// Which threads a capture prohibits from making potentially unsafe calls (`CUstreamCaptureMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaptureMode {
    /// A thread may not make such calls while it has a capture that is not relaxed, or while any other thread has a
    /// capture in this mode.
    #[default]
    Global,
    /// A thread may not make such calls while it has a capture of its own that is not relaxed. Captures of other
    /// threads do not matter.
    ThreadLocal,
    /// No call is prohibited.
    Relaxed,
}

/// Whether a stream is capturing (`CUstreamCaptureStatus`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaptureStatus {
    /// The stream is not capturing.
    #[default]
    None,
    /// The stream is capturing.
    Active,
    /// The stream is part of a capture that was invalidated by an error. The capture must still be ended.
    Invalidated,
}

/// The state of a capture, as seen from one of its streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Whether the stream is capturing. The other fields are empty unless this is [`CaptureStatus::Active`].
    pub status: CaptureStatus,
    /// The id of the capture. Ids are unique in the process and are never reused.
    pub id: u64,
    /// The graph that is being captured. The capture owns it: the caller must not destroy it, and it no longer exists
    /// if the capture fails.
    pub graph: Option<GraphHandle>,
    /// The nodes that the next node captured in this stream will depend on.
    pub dependencies: Vec<GraphNodeHandle>,
    /// The data of the edges from each of these nodes, if it was requested.
    pub edge_data: Option<Vec<EdgeData>>,
}

/// How to change the dependencies of a capturing stream (`CUstreamUpdateCaptureDependencies_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DependencyUpdate {
    /// Adds nodes to the dependencies.
    #[default]
    Add,
    /// Replaces the dependencies.
    Set,
}

/// Stream capture.
pub trait Captures {
    /// Begins a capture in a stream (`cuStreamBeginCapture`).
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is the legacy default stream.
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if the stream is already capturing.
    fn stream_begin_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>, mode: CaptureMode) -> Result<()>;

    /// Begins a capture in a stream that adds its nodes to an existing graph (`cuStreamBeginCaptureToGraph`). The first
    /// node depends on `dependencies`.
    ///
    /// # Safety
    ///
    /// Until the capture ends, the graph must not be destroyed or used in any other way, and no longer exists afterwards
    /// if [`stream_end_capture`](Self::stream_end_capture) fails. The nodes of `dependencies` exist until
    /// then.
    unsafe fn stream_begin_capture_to_graph(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        mode: CaptureMode,
    ) -> Result<()>;

    /// Begins a capture in a stream that replaces the parameters of the nodes of a graph
    /// (`cuStreamBeginRecaptureToGraph`). The work that is captured must make the same nodes in the same order, with the
    /// same edges, and allocate and free the same memory: a call that captures something else fails, and so does a change
    /// that `record` refuses. Then the recapture has failed: later calls that capture work in its streams fail too, and no
    /// graph comes of it. Nodes that change are noted in `record`.
    ///
    /// # Errors
    ///
    /// As for [`stream_begin_capture`](Self::stream_begin_capture); `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver is
    /// older than CUDA 13.3.
    ///
    /// # Safety
    ///
    /// Until the capture ends, the graph must not be destroyed or used in any other way, and the record must exist. If
    /// [`stream_end_capture`](Self::stream_end_capture) fails, the graph must not be used or destroyed afterwards either.
    ///
    /// # Portability
    ///
    /// NVIDIA says that the graph of a recapture that has failed should be destroyed, and not whether ending the capture
    /// has done so. The CUDA back end does not destroy it.
    unsafe fn stream_begin_recapture_to_graph(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        graph: Live<'_, GraphHandle>,
        mode: CaptureMode,
        record: &RecaptureRecord,
    ) -> Result<()>;

    /// Ends the capture that began in this stream, and returns its graph (`cuStreamEndCapture`). The caller owns the
    /// graph, or already owned it if the capture added to an existing graph.
    ///
    /// # Errors
    ///
    /// If this fails, the capture has ended all the same and its graph is destroyed, even if the graph existed before
    /// the capture. The exceptions are `CUDA_ERROR_STREAM_CAPTURE_UNMATCHED (903)` and
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`, which end no capture.
    fn stream_end_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<GraphHandle>;

    /// Returns whether the stream is capturing.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` if the stream is the legacy default stream and a blocking stream of
    /// the context is capturing.
    fn stream_capture_status(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<CaptureStatus>;

    /// Returns the state of the stream's capture.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_LOSSY_QUERY (402)` if `with_edge_data` is false and an edge has data that would be lost.
    fn stream_capture_info(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        with_edge_data: bool,
    ) -> Result<CaptureInfo>;

    /// Adds to or replaces the nodes that the next node captured in this stream will depend on.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if the stream is not capturing.
    ///
    /// # Safety
    ///
    /// The nodes of `dependencies` exist until the capture ends.
    unsafe fn stream_update_capture_dependencies(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> Result<()>;

    /// Sets the capture mode of the calling thread, and returns the previous one. The mode determines which captures
    /// prohibit calls of this thread. It is [`CaptureMode::Global`] initially.
    fn thread_exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode>;
}
