//! Captures that replace what the nodes of a graph do.

use super::scope::{CaptureScope, OwnGraph};
use crate::error::Result;
use crate::graph::Graph;
use crate::stream::Stream;
use anabranch_core::capture_state::{CaptureEnd, RecapturedNode};
use anabranch_hal::{CaptureMode, RecaptureChanges};

impl Stream {
    /// Captures a graph again: what `body` captures replaces what the nodes of the graph do, and returns the nodes that do
    /// something else than before, in the order in which they were captured. Nodes stay the same, so that [`Node`]s and
    /// executable graphs made from the graph remain valid; an executable graph does the same as before until it is
    /// [updated](crate::ExecutableGraph::update).
    ///
    /// The body must make the same nodes in the same order, with the same edges; `changes` says what they may do
    /// differently. If it makes others, or fewer, the recapture fails, and a new, empty graph is in the place of the graph
    /// afterwards. If the body fails behind the last node, the graph is captured again all the same. Allocations,
    /// conditions and child graphs are not captured again. The graph retains what its nodes used before, too, until it is dropped.
    ///
    /// ```
    /// use anabranch::{CaptureMode, RecaptureChanges};
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let stream = context.create_stream()?;
    /// let mut word = stream.allocate_zeroed::<u32>(1)?;
    /// let mut graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut word, 1u32))?;
    /// let executable = graph.instantiate()?;
    ///
    /// let (any, mode) = (RecaptureChanges::Any, CaptureMode::Global);
    /// let changed = stream.recapture(&mut graph, any, mode, |scope| scope.fill(&mut word, 2u32))?;
    /// assert!(changed.len() == 1 && changed[0].is_updatable);
    /// executable.update(&graph)?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&word)?, [2]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// Follows `cuStreamBeginRecaptureToGraph`. A driver's callback for each node is not called: `changes` says what it would
    /// decide, and the result what it would be told.
    ///
    /// [`Node`]: crate::Node
    ///
    /// # Errors
    /// Same as [`capture`](Self::capture); [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE), from the call
    /// that captures it or from the end of the capture, for other nodes or edges than those of the graph, and for a change
    /// that `changes` forbids; [`CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    /// (901)`](crate::Status::STREAM_CAPTURE_INVALIDATED) for work behind such a call;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver is older than CUDA 13.3, which
    /// [`Capabilities::RECAPTURE`](crate::Capabilities::RECAPTURE) says, or if the graph allocates memory or has conditional
    /// nodes, and then the graph stays as it was. The same status is that of a child graph that the body captures, which makes
    /// other nodes than the graph has, as above.
    #[track_caller]
    pub fn recapture<F>(
        &self,
        graph: &mut Graph,
        changes: RecaptureChanges,
        mode: CaptureMode,
        body: F,
    ) -> Result<Vec<RecapturedNode>>
    where
        F: for<'scope> FnOnce(&CaptureScope<'scope>) -> Result<()>,
    {
        let capture = self.core().begin_recapture(graph.object(), changes, mode, CaptureEnd::Closure)?;
        let _own = OwnGraph { graph, capture: capture.clone() };
        self.run_body_as_part(capture.clone(), mode, body)?;
        capture.recaptured("capturing a graph again")
    }
}
