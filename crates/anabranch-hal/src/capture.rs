//! Capture: what is put into a stream becomes nodes of a graph instead of running (Driver API, group STREAM).

use crate::{ContextHandle, Dependency, EdgeData, GraphHandle, GraphNodeHandle, Result, StreamHandle};

/// Which threads a capture keeps from potentially unsafe calls (`CUstreamCaptureMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaptureMode {
    /// A thread may make none while it captures otherwise than relaxed, or any other thread captures in this mode.
    #[default]
    Global,
    /// Only the thread's own captures count.
    ThreadLocal,
    /// None is prohibited.
    Relaxed,
}

/// Whether a stream captures (`CUstreamCaptureStatus`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaptureStatus {
    /// It does not.
    #[default]
    None,
    /// It does.
    Active,
    /// A forbidden call has spoiled the capture, which has yet to be ended.
    Invalidated,
}

/// What a capture says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureInfo {
    /// Whether the stream captures. All that follows is empty unless it is [`CaptureStatus::Active`].
    pub status: CaptureStatus,
    /// A number that is unique in the process for ever.
    pub id: u64,
    /// The graph that is being made. It belongs to the capture: it must not be destroyed, and is gone when the capture
    /// fails.
    pub graph: Option<GraphHandle>,
    /// The nodes that the stream's next one will depend on.
    pub dependencies: Vec<GraphNodeHandle>,
    /// The data of the edges from each of them, where it was asked for.
    pub edge_data: Option<Vec<EdgeData>>,
}

/// What becomes of the dependencies that a capturing stream has (`CUstreamUpdateCaptureDependencies_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DependencyUpdate {
    /// Nodes are added to them.
    Add,
    /// They are replaced.
    Set,
}

/// Streams whose work is captured.
pub trait Captures {
    /// Makes the stream capture. 900 on the legacy stream, 401 when it captures already.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_begin_capture(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        mode: CaptureMode,
    ) -> Result<()>;

    /// Makes the stream capture into a graph that exists, below the given nodes of it.
    ///
    /// # Safety
    /// The handle rule. Until the capture ends, the graph is neither destroyed nor used otherwise.
    unsafe fn stream_begin_capture_to_graph(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        graph: GraphHandle,
        dependencies: &[Dependency],
        mode: CaptureMode,
    ) -> Result<()>;

    /// Ends the capture that began on this stream, and returns the graph, which is now the caller's (or was already, if
    /// it was captured into). When it fails the capture is over all the same, and the graph is destroyed, also one that was
    /// there before; except with 903 and 401.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_end_capture(&self, context: ContextHandle, stream: StreamHandle) -> Result<GraphHandle>;

    /// Whether the stream captures. 906 on the legacy stream while a blocking stream of the context captures.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_capture_status(&self, context: ContextHandle, stream: StreamHandle) -> Result<CaptureStatus>;

    /// What the capture says of itself. Without asking for edge data, 402 when some would be lost.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_capture_info(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        with_edge_data: bool,
    ) -> Result<CaptureInfo>;

    /// Adds to, or replaces, the nodes that the stream's next one will depend on. 401 when it does not capture.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn stream_update_capture_dependencies(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
        dependencies: &[Dependency],
        update: DependencyUpdate,
    ) -> Result<()>;

    /// Exchanges the calling thread's own mode, which says whether it heeds what captures prohibit, and returns the one
    /// before. A thread begins with [`CaptureMode::Global`].
    fn thread_exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode>;
}
