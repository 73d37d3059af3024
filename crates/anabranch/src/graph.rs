//! Graphs: work that is described once and launched many times.

mod conditional;
mod describe;
mod executable;
mod picture;
mod query;
mod work;

pub use conditional::{BodyGraph, Conditional};
pub use describe::{EdgeDescription, GraphDescription, NodeDescription};
pub use executable::{ExecutableGraph, UpdateError};
pub use work::NodeWork;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::kernel::{Kernel, KernelArguments, LaunchConfig};
use crate::memory::Buffer;
use crate::stream::Stream;
use anabranch_core::graph::GraphEdge;
use anabranch_core::graph_object::{GraphObject, next_graph_id};
use anabranch_core::memory::byte_size;
use anabranch_core::node::{Dependencies, Node, NodeTable};
use anabranch_core::retained::Retained;
use anabranch_hal::{DeviceOrdinal, GraphHandle, InstantiateFlags, Status};
use bytemuck::Pod;
use std::fmt;
use std::sync::Arc;

/// A description of work: nodes, and edges that order them. A graph is captured from streams ([`Stream::capture`]) or
/// built by hand, as here, and then [instantiated](Self::instantiate).
///
/// A graph retains every buffer, event, module and closure that its nodes refer to. They are released when the graph
/// and everything made from it are dropped, and the last launch is complete.
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
        Self::from_object(GraphObject::new(context.core(), handle, id, NodeTable::new(id), Retained::default()))
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

    /// Adds a node that depends on others.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the work is not valid on the device, or a node is named twice, was removed, or
    /// belongs to another graph; `CUDA_ERROR_INVALID_HANDLE (400)` if the work belongs to another context;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` for a child that allocates memory or has conditional nodes.
    #[track_caller]
    pub fn add(&mut self, dependencies: impl Dependencies, work: NodeWork<'_>) -> Result<Node> {
        self.object.add(&dependencies.list(), &work.core)
    }

    /// Adds a kernel launch: [`NodeWork::kernel`].
    ///
    /// # Safety
    /// Same as for [`NodeWork::kernel`].
    ///
    /// # Errors
    /// Same as [`NodeWork::kernel`] and [`add`](Self::add).
    pub unsafe fn add_kernel<A: KernelArguments>(
        &mut self,
        dependencies: impl Dependencies,
        kernel: &Kernel,
        config: &LaunchConfig,
        arguments: A,
    ) -> Result<Node> {
        // SAFETY: the caller's word.
        self.add(dependencies, unsafe { NodeWork::kernel(kernel, config, arguments) }?)
    }

    /// Adds an allocation of `length` elements, whose contents are unspecified. The memory has the same address at
    /// every launch. Nodes of this graph that follow the allocation can use it. Unless the graph
    /// [frees](Self::add_free) it, the memory remains allocated after a launch, and the graph cannot be launched again
    /// unless it was instantiated with [`InstantiateFlags::AUTO_FREE_ON_LAUNCH`]. Follows `cuGraphAddMemAllocNode`.
    ///
    /// # Safety
    /// Nodes that read an element follow nodes that have written it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if `length` is 0; `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is not enough memory;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no such nodes.
    pub unsafe fn add_allocation<T: Pod>(
        &mut self,
        dependencies: impl Dependencies,
        length: usize,
    ) -> Result<(Node, Buffer<T>)> {
        // SAFETY: the caller's word.
        unsafe { self.add_allocation_with_access(dependencies, length, &[]) }
    }

    /// Like [`add_allocation`](Self::add_allocation), but other devices can use the memory too.
    ///
    /// # Safety
    /// Same as for [`add_allocation`](Self::add_allocation).
    ///
    /// # Errors
    /// Same as [`add_allocation`](Self::add_allocation); `CUDA_ERROR_INVALID_VALUE (1)` or
    /// `CUDA_ERROR_INVALID_DEVICE (101)` for a device that does not exist.
    pub unsafe fn add_allocation_with_access<T: Pod>(
        &mut self,
        dependencies: impl Dependencies,
        length: usize,
        access: &[DeviceOrdinal],
    ) -> Result<(Node, Buffer<T>)> {
        let operation = "adding an allocation to a graph";
        let bytes = byte_size::<T>(length, operation)?;
        let (node, memory) = self.object.add_allocation(&dependencies.list(), bytes, access)?;
        Ok((node, Buffer::of_graph(memory, length)))
    }

    /// Adds a free of memory that this graph allocates.
    ///
    /// # Safety
    /// No node that uses the memory runs after this one or concurrently with it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the memory does not belong to this graph, is already freed, or the node does
    /// not follow the allocation.
    pub unsafe fn add_free<T: Pod>(&mut self, dependencies: impl Dependencies, memory: Buffer<T>) -> Result<Node> {
        if memory.allocation().graph() != Some(self.object.id()) {
            return Err(Error::argument(
                Status::INVALID_VALUE,
                "adding a free to a graph",
                "the buffer was not allocated by this graph; drop it instead",
            )
            .at(self.object.place()));
        }
        // SAFETY: the caller's word.
        self.add(dependencies, unsafe { NodeWork::free(memory.device_pointer()) })
    }

    /// Replaces the work of a node by other work of the same kind. Existing executable graphs do not change.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the work is of another kind, or the node does not belong to this graph;
    /// otherwise the same as [`add`](Self::add).
    pub fn set_node(&mut self, node: Node, work: NodeWork<'_>) -> Result<()> {
        self.object.set_node(node, &work.core)
    }

    /// Removes a node and its edges.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` for allocations, frees and conditional nodes.
    #[track_caller]
    pub fn remove_node(&mut self, node: Node) -> Result<()> {
        self.object.remove_node(node)
    }

    /// Adds edges. If one is refused, the edges before it have been added.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for an edge that already exists, an edge from a node to itself, or an edge with
    /// data that the nodes do not support. A cycle is detected when the graph is [instantiated](Self::instantiate).
    #[track_caller]
    pub fn add_edges(&mut self, edges: &[GraphEdge]) -> Result<()> {
        self.object.add_edges(edges)
    }

    /// Removes edges. If one is refused, the edges before it have been removed.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for an edge that does not exist.
    #[track_caller]
    pub fn remove_edges(&mut self, edges: &[GraphEdge]) -> Result<()> {
        self.object.remove_edges(edges)
    }

    /// Makes a copy with its own nodes, which retains everything that this graph retains.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph allocates memory or has conditional nodes.
    #[track_caller]
    pub fn try_clone(&self) -> Result<Graph> {
        self.object.try_clone().map(Self::from_object)
    }

    /// The node of `clone`, a clone of this graph, that was copied from `node`.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if there is none.
    #[track_caller]
    pub fn find_in_clone(&self, node: Node, clone: &Graph) -> Result<Node> {
        self.object.find_in_clone(node, &clone.object)
    }

    /// Instantiates the graph, so that it can be launched. Later changes of the graph do not affect the executable
    /// graph.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for a cycle, or a conditional value that no node uses;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph allocates memory and already has an executable graph, or if a node
    /// is not supported in its place.
    pub fn instantiate(&self) -> Result<ExecutableGraph> {
        self.instantiate_with_flags(InstantiateFlags::empty())
    }

    /// Like [`instantiate`](Self::instantiate), with flags.
    ///
    /// # Errors
    /// Same as [`instantiate`](Self::instantiate); `CUDA_ERROR_INVALID_VALUE (1)` for flags that the driver does not
    /// know.
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
