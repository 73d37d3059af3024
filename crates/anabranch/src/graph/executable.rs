//! Executable graphs.

use super::{Graph, NodeWork};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::stream::Stream;
use anabranch_core::executable::{ExecutableCore, RefusedUpdate};
use anabranch_core::node::Node;
use anabranch_hal::{ExecutableGraphHandle, GraphUpdateResult, InstantiateFlags};
use std::fmt;
use std::sync::Arc;

/// A graph that was instantiated and can be launched any number of times, in any stream of its driver. It runs one
/// launch at a time: each launch follows the earlier work of its stream and all earlier launches of the same executable
/// graph. Any thread may launch and change it. Dropping it while a launch is queued or running is allowed and never
/// waits.
///
/// As for all other work, a launch is ordered after earlier uses of its buffers, and later uses are ordered after the
/// launch.
///
/// Follows the Driver API's group *Graph Management* (`CUgraphExec`).
pub struct ExecutableGraph {
    core: Arc<ExecutableCore>,
}

/// Why a [whole-graph update](ExecutableGraph::update) was refused.
#[derive(Clone, Debug)]
pub struct UpdateError(RefusedUpdate);

impl UpdateError {
    /// The error: [`CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)`](crate::Status::GRAPH_EXEC_UPDATE_FAILURE) if the
    /// update is not possible.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// The reason.
    pub fn result(&self) -> GraphUpdateResult {
        self.0.result
    }

    /// The node that the error refers to, if any. It belongs to the graph that the update came from: there is none if the driver
    /// names one within a child.
    pub fn node(&self) -> Option<Node> {
        self.0.node
    }
}

impl fmt::Display for UpdateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.error, formatter)?;
        match self.0.node {
            Some(node) => write!(formatter, " (node {})", node.number()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UpdateError {}

impl From<UpdateError> for Error {
    fn from(error: UpdateError) -> Self {
        error.0.error
    }
}

impl ExecutableGraph {
    #[track_caller]
    pub(super) fn new(graph: &Graph, flags: InstantiateFlags, upload: Option<&Stream>) -> Result<Self> {
        let upload = upload.map(|stream| stream.core());
        Ok(Self { core: ExecutableCore::instantiate(graph.object(), flags, upload)? })
    }

    /// Launches the graph in the order of `stream`, and returns at once. On NVIDIA GPUs, the launch of a graph that allocates memory
    /// waits in the driver for an earlier launch in another stream, if other graphs of the device allocate memory, too: its memory
    /// has to be mapped anew. Launch such a graph in one stream where the calling thread must not wait.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if memory that the graph allocated in its last
    /// launch is still allocated; [`CUDA_ERROR_ILLEGAL_STATE (401)`](crate::Status::ILLEGAL_STATE) while the host
    /// accesses pinned or managed memory of the graph, or [`Stream::submit_foreign`](crate::Stream::submit_foreign) has
    /// another library use its memory, and if the graph waits for an event that a call has last recorded in a capture that
    /// has not ended; [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the stream belongs to another driver;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, which invalidates the capture, or a capture that has not ended uses memory of the graph. To make a graph
    /// part of another one, use [`NodeWork::child`] or [`Stream::capture_child`](crate::Stream::capture_child).
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) on NVIDIA GPUs if a node has been
    /// [disabled](Self::set_node_enabled) and the device has another context or a green context.
    #[inline]
    #[track_caller]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.core.launch(stream.core())
    }

    /// Prepares a launch in the order of `stream`, so that the next launch does not have to.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the stream belongs to another driver;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) if the stream is
    /// capturing, which invalidates the capture.
    #[track_caller]
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        self.core.upload(stream.core())
    }

    /// Replaces the work of all nodes by that of a graph with the same structure, from the next launch on.
    ///
    /// ```
    /// use anabranch::CaptureMode;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let mut buffer = stream.allocate_zeroed::<u32>(2)?;
    /// let mut captured = |value| stream.capture(CaptureMode::Global, |scope| scope.fill(&mut buffer, value));
    /// let executable = captured(1)?.instantiate()?;
    /// executable.update(&captured(2)?)?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&buffer)?, [2, 2]);
    ///
    /// // Another structure is refused, with the reason.
    /// let empty = stream.capture(CaptureMode::Global, |_| Ok(()))?;
    /// println!("{}", executable.update(&empty).unwrap_err());
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// What the nodes referred to before is released when the launches before the update are complete. The graph that this
    /// executable graph was made from is kept, with what it retains. An update that is refused changes nothing.
    ///
    /// # Errors
    /// [`CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)`](crate::Status::GRAPH_EXEC_UPDATE_FAILURE) if the structure
    /// differs or a node cannot be changed in this way, with the reason and the node.
    #[track_caller]
    pub fn update(&self, graph: &Graph) -> Result<(), UpdateError> {
        self.core.update(graph.object()).map_err(UpdateError)
    }

    /// Replaces the work of a node by other work of the same kind, from the next launch on. The node is a node of the
    /// graph that this executable graph was made from. That graph does not change. What the node
    /// referred to before is released when the launches before are complete, except that what was captured stays retained until
    /// the next [`update`](Self::update), as does what came with an update from a graph with other nodes or edges.
    ///
    /// ```
    /// use anabranch::NodeWork;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// # let stream = context.create_stream()?;
    /// let mut buffer = stream.allocate_zeroed::<u32>(2)?;
    /// let mut graph = context.create_graph()?;
    /// let node = graph.add((), NodeWork::fill(&mut buffer, 1)?)?;
    /// let executable = graph.instantiate()?;
    /// executable.set_node(node, NodeWork::fill(&mut buffer, 2)?)?;
    /// executable.launch(&stream)?;
    /// assert_eq!(stream.download(&buffer)?, [2, 2]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the work is of another kind or differs too
    /// much, or the node does not belong to that graph or fills memory whose allocation was captured.
    #[track_caller]
    pub fn set_node(&self, node: Node, work: NodeWork<'_>) -> Result<()> {
        self.core.set_node(node, &work.core)
    }

    /// Disables or enables a kernel, copy or fill node, from the next launch on. A disabled node does nothing.
    ///
    /// NVIDIA's driver may run a graph of which a node has been disabled before work of other contexts that it comes behind. On its
    /// devices, which lack [`DISABLED_NODES_BESIDE_CONTEXTS`](crate::Capabilities::DISABLED_NODES_BESIDE_CONTEXTS), the graph can be
    /// launched only while the process has no other context of the device and no green context, also when the node is enabled again.
    /// Fill nodes are not disabled there, because a graph that is left runs before events that its stream waits for. Neither are nodes
    /// of graphs with conditional nodes, whose launches could fail and end the context.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for other kinds of nodes, for nodes that fill
    /// memory whose allocation was captured, and if the node does not belong to the graph that this executable graph
    /// was made from; [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) to disable a fill node, or any
    /// node of a graph with conditional nodes, on NVIDIA's devices.
    #[track_caller]
    pub fn set_node_enabled(&self, node: Node, enabled: bool) -> Result<()> {
        self.core.set_node_enabled(node, enabled)
    }

    /// Whether a kernel, copy or fill node is enabled.
    ///
    /// # Errors
    /// Same as [`set_node_enabled`](Self::set_node_enabled).
    #[track_caller]
    pub fn is_node_enabled(&self, node: Node) -> Result<bool> {
        self.core.is_node_enabled(node)
    }

    /// The flags that it was instantiated with.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn flags(&self) -> Result<InstantiateFlags> {
        self.core.flags()
    }

    /// An id that is unique among all objects of this process and never reused.
    pub fn id(&self) -> u64 {
        self.core.label().id().get()
    }

    /// Names the executable graph, for layers of the driver. Only the first name is kept. Returns whether this is the
    /// first.
    #[track_caller]
    pub fn set_name(&self, name: &str) -> bool {
        self.core.label().set_name(self.core.context(), name)
    }

    /// The [id](Graph::id) of the graph that it was made from, which its nodes contain.
    pub fn graph_id(&self) -> u64 {
        self.core.source().id()
    }

    /// The context of the graph that it was made from.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context().clone())
    }

    /// The driver's handle, which is valid as long as this executable graph. Drivers do not synchronize executable
    /// graphs: code that calls the driver with the handle must ensure that no other thread uses this one at the same
    /// time.
    pub fn as_raw(&self) -> ExecutableGraphHandle {
        self.core.handle()
    }
}

impl fmt::Debug for ExecutableGraph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ExecutableGraph(of graph {}, {:?})", self.core.source().id(), self.core.handle())
    }
}
