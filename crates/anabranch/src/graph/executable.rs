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

/// A graph made ready to be launched, any number of times, on any stream of its driver. It runs one launch at a time: each
/// follows the earlier work of its stream, and all earlier launches of the same executable. Any thread may launch and
/// change it. Dropping it while a launch is queued or runs is fine, and never waits.
///
/// A launch is ordered behind the earlier uses of the buffers in it, and later uses behind it, as for any other work.
///
/// Follows the Driver API's group *Graph Management* (`CUgraphExec`).
pub struct ExecutableGraph {
    core: Arc<ExecutableCore>,
}

/// Why a [whole-graph update](ExecutableGraph::update) was refused.
#[derive(Clone, Debug)]
pub struct UpdateError(RefusedUpdate);

impl UpdateError {
    /// The error: `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)` when the graphs do not fit.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// The reason.
    pub fn result(&self) -> GraphUpdateResult {
        self.0.result
    }

    /// The node, of the graph that the update came from, that it is about, where there is one.
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
        let upload = upload.map(|stream| &**stream.core());
        Ok(Self { core: ExecutableCore::instantiate(graph.object(), flags, upload)? })
    }

    /// Launches it in the order of `stream`, and returns at once.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` when memory that the graph allocated in its last launch is still allocated;
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` while the host accesses pinned or managed memory of the graph;
    /// `CUDA_ERROR_INVALID_DEVICE (101)` when the stream is of another driver; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` while the
    /// stream captures, which invalidates the capture: [`NodeWork::child`] puts a graph into another.
    #[inline]
    #[track_caller]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        self.core.launch(stream.core())
    }

    /// Makes resources ready in the order of `stream`, so that the next launch need not.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)` when the stream is of another driver.
    #[track_caller]
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        self.core.upload(stream.core())
    }

    /// Takes over what all nodes do from a graph of the same structure, from the next launch on.
    ///
    /// # Errors
    /// `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)` when the structure differs or a node cannot be changed so, with the reason and
    /// the node.
    #[track_caller]
    pub fn update(&self, graph: &Graph) -> Result<(), UpdateError> {
        self.core.update(graph.object()).map_err(UpdateError)
    }

    /// Replaces what a node does by other work of the same kind, from the next launch on. The node is that of the graph
    /// that this was made from, which is not changed.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` when the work is of another kind or differs too much, or the node is not of that graph.
    #[track_caller]
    pub fn set_node(&self, node: Node, work: NodeWork<'_>) -> Result<()> {
        self.core.set_node(node, &work.core)
    }

    /// Lets a kernel, copy or fill do nothing, or do its work again, from the next launch on.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for other kinds of node, and when the node is not of the graph that this was made from.
    #[track_caller]
    pub fn set_node_enabled(&self, node: Node, enabled: bool) -> Result<()> {
        self.core.set_node_enabled(node, enabled)
    }

    /// Whether a kernel, copy or fill does its work.
    ///
    /// # Errors
    /// As [`set_node_enabled`](Self::set_node_enabled).
    #[track_caller]
    pub fn is_node_enabled(&self, node: Node) -> Result<bool> {
        self.core.is_node_enabled(node)
    }

    /// The flags that it was made with.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn flags(&self) -> Result<InstantiateFlags> {
        self.core.flags()
    }

    /// A number that is unique among all objects of this process, and never used again.
    pub fn id(&self) -> u64 {
        self.core.label().id().get()
    }

    /// Names the executable, for layers of the driver. It keeps its first name. Whether this is it.
    #[track_caller]
    pub fn set_name(&self, name: &str) -> bool {
        self.core.label().set_name(self.core.context(), name)
    }

    /// The [number](Graph::id) of the graph that it was made from, which its nodes carry.
    pub fn graph_id(&self) -> u64 {
        self.core.source().id()
    }

    /// The context of the graph that it was made from.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context().clone())
    }

    /// The driver's handle. It is valid as long as this executable. Drivers do not synchronize executable graphs: whoever
    /// uses the handle makes sure that no other thread uses this meanwhile.
    pub fn as_raw(&self) -> ExecutableGraphHandle {
        self.core.handle()
    }
}

impl fmt::Debug for ExecutableGraph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ExecutableGraph(of graph {}, {:?})", self.core.source().id(), self.core.handle())
    }
}
