//! Graphs: work that is described once and launched many times.

mod conditional;
mod describe;
mod edit;
mod executable;
mod picture;
mod query;
mod work;

pub use conditional::{BodyGraph, Conditional};
pub use describe::{EdgeDescription, GraphDescription, NodeDescription};
pub use executable::{ExecutableGraph, UpdateError};
pub use work::NodeWork;

use crate::context::Context;
use crate::error::Result;
use crate::stream::Stream;
use anabranch_core::graph_object::{GraphObject, next_graph_id};
use anabranch_core::node::{Node, NodeTable};
use anabranch_core::retained::Retained;
use anabranch_hal::{GraphHandle, InstantiateFlags};
use std::fmt;
use std::sync::Arc;

/// A description of work: nodes, and edges that order them. A graph is captured from streams ([`Stream::capture`]) or
/// built by hand, as here, and then [instantiated](Self::instantiate).
///
/// A graph retains every buffer, event, module and closure that its nodes refer to. They are released when the graph
/// and everything made from it are dropped, and the last launch is complete, also if the nodes were replaced or removed.
///
/// ```
/// use anabranch::NodeWork;
/// # let stream = anabranch::Instance::new()?.device("host")?.context()?.create_stream()?;
/// let source = stream.upload(&[1u32, 2, 3])?;
/// let mut copy = stream.allocate_zeroed::<u32>(3)?;
///
/// let mut graph = stream.context().create_graph()?;
/// let copied = graph.add((), NodeWork::copy(&mut copy, &source)?)?;
/// graph.add(copied, NodeWork::fill(copy.slice_mut(..1)?, 9u32)?)?;
/// let executable = graph.instantiate()?;
///
/// executable.launch(&stream)?;
/// assert_eq!(stream.download(&copy)?, [9, 2, 3]);
/// # Ok::<(), anabranch::Error>(())
/// ```
///
/// Follows the Driver API's group *Graph Management*. Warp, CuPy and `cuda.core` call it `Graph`.
pub struct Graph {
    object: Arc<GraphObject>,
}

impl Context {
    /// An empty graph.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn create_graph(&self) -> Result<Graph> {
        Ok(Graph::from_object(GraphObject::create(self.core())?))
    }
}

impl Graph {
    pub(crate) fn from_object(object: Arc<GraphObject>) -> Self {
        Self { object }
    }

    pub(crate) fn object(&self) -> &Arc<GraphObject> {
        &self.object
    }

    /// Takes ownership of an existing graph of the driver.
    ///
    /// # Safety
    /// `handle` is a graph of the context's driver that nobody else uses or destroys from now on. What its nodes refer
    /// to lives as long as the graph, and everything made from it, can run.
    pub unsafe fn from_raw(context: &Context, handle: GraphHandle) -> Self {
        let id = next_graph_id();
        // SAFETY: the caller promises that nobody else uses or destroys the graph, and that what its nodes refer to lives as long as
        // it can run.
        let object = unsafe { GraphObject::new(context.core(), handle, id, NodeTable::new(id), Retained::default()) };
        object.note_unknown_nodes();
        Self::from_object(object)
    }

    /// The driver's handle, which is valid as long as this graph. Drivers do not synchronize graphs: code that calls
    /// the driver with the handle must ensure that no other thread uses the graph at the same time.
    pub fn as_raw(&self) -> GraphHandle {
        self.object.handle()
    }

    /// The context that the graph was created in.
    pub fn context(&self) -> Context {
        Context::from_core(self.object.context().clone())
    }

    /// An id that is unique among all graphs of this process and never reused. Its [nodes](Node::graph) contain it.
    pub fn id(&self) -> u64 {
        self.object.id()
    }

    /// Names the graph, for layers of the driver. Only the first name is kept. Returns whether this is the first.
    #[track_caller]
    pub fn set_name(&self, name: &str) -> bool {
        self.object.label().set_name(self.object.context(), name)
    }

    /// Makes a copy with its own nodes, which retains everything that this graph retains.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the graph allocates memory, or if a value
    /// for a conditional node was made for it.
    #[track_caller]
    pub fn try_clone(&self) -> Result<Graph> {
        self.object.try_clone().map(Self::from_object)
    }

    /// The node of `clone`, a clone of this graph, that was copied from `node`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if there is none;
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) if the other graph belongs to another
    /// context.
    #[track_caller]
    pub fn find_in_clone(&self, node: Node, clone: &Graph) -> Result<Node> {
        self.object.find_in_clone(node, &clone.object)
    }

    /// Instantiates the graph, so that it can be launched. Later changes of the graph do not affect the executable
    /// graph.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for a cycle, a conditional value that no node
    /// uses, or a node of a kind that the body of a conditional node cannot have;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the graph allocates memory and already
    /// has an executable graph, or if it has conditional nodes and already has an executable graph or a clone, also one in
    /// a node of another graph.
    pub fn instantiate(&self) -> Result<ExecutableGraph> {
        self.instantiate_with_flags(InstantiateFlags::empty())
    }

    /// Like [`instantiate`](Self::instantiate), with flags.
    ///
    /// # Errors
    /// Same as [`instantiate`](Self::instantiate); [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for
    /// flags that the driver does not know.
    pub fn instantiate_with_flags(&self, flags: InstantiateFlags) -> Result<ExecutableGraph> {
        ExecutableGraph::new(self, flags, None)
    }

    /// Like [`instantiate_with_flags`](Self::instantiate_with_flags), and uploads the executable graph in the order of
    /// `stream`, so that the first launch does not have to.
    ///
    /// # Errors
    /// Same as [`instantiate_with_flags`](Self::instantiate_with_flags).
    pub fn instantiate_and_upload(&self, flags: InstantiateFlags, stream: &Stream) -> Result<ExecutableGraph> {
        ExecutableGraph::new(self, flags | InstantiateFlags::UPLOAD, Some(stream))
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Graph({}, {:?})", self.object.id(), self.object.handle())
    }
}
