//! Graphs: work described once, and launched many times.

mod conditional;
mod conditional_setter;
mod describe;
mod executable;
mod node;
mod object;
mod parts;
mod picture;
mod query;
mod work;

pub use conditional::{BodyGraph, Conditional};
pub use describe::{EdgeDescription, GraphDescription, NodeDescription};
pub use executable::{ExecutableGraph, UpdateError};
pub use node::{Dependencies, Node};
pub use work::NodeWork;

pub(crate) use conditional_setter::{ConditionalSetter, setting_kernel};
pub(crate) use node::NodeTable;
pub(crate) use object::{GraphObject, GraphState, next_graph_number};
pub(crate) use parts::GraphParts;

use crate::context::Context;
use crate::error::{Error, Result, ResultExt};
use crate::kernel::{Kernel, KernelArguments, LaunchConfig};
use crate::memory::{Allocation, Buffer, byte_size};
use crate::stream::Stream;
use anabranch_hal::{
    AddedNode, AllocationNode, Dependency, DeviceOrdinal, DevicePointer, Edge, EdgeData, GraphHandle, InstantiateFlags,
    NodeParameters, Status,
};
use bytemuck::Pod;
use std::fmt;
use std::sync::Arc;

/// A description of work: nodes, and edges that say which comes after which. It is captured from streams
/// ([`Stream::capture`]) or built by hand, as here, and then made [executable](Self::instantiate).
///
/// A graph keeps every buffer, event, module and closure that its nodes refer to. They stay until the graph, everything
/// made from it, and the last launch of that are gone.
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

/// An edge between two nodes of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphEdge {
    /// The earlier node.
    pub from: Node,
    /// The node that depends on it.
    pub to: Node,
    /// The edge's data.
    pub data: EdgeData,
}

impl Context {
    /// An empty graph.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn create_graph(&self) -> Result<Graph> {
        let core = self.core();
        let handle =
            // SAFETY: the context's handle is live as long as its core.
            unsafe { core.driver().graph_create(core.handle()) }.during("creating a graph", || core.place())?;
        Ok(Graph::from_object(GraphObject::new(core, handle, next_graph_number(), GraphParts::default())))
    }
}

impl Graph {
    pub(crate) fn from_object(object: Arc<GraphObject>) -> Self {
        Self { object }
    }

    pub(crate) fn object(&self) -> &Arc<GraphObject> {
        &self.object
    }

    /// Takes ownership of a graph that was made elsewhere.
    ///
    /// # Safety
    /// `handle` is a graph of the context's driver that nobody else uses or destroys from now on, and what its nodes refer
    /// to lives as long as the graph, and all that is made from it, can run.
    pub unsafe fn from_raw(context: &Context, handle: GraphHandle) -> Self {
        Self::from_object(GraphObject::new(context.core(), handle, next_graph_number(), GraphParts::default()))
    }

    /// The driver's handle. It is valid as long as this graph. Drivers do not synchronise graphs: whoever uses the handle
    /// sees to it that no other thread uses the graph meanwhile.
    pub fn as_raw(&self) -> GraphHandle {
        self.object.handle()
    }

    /// The context that it was made in.
    pub fn context(&self) -> Context {
        Context::from_core(self.object.context().clone())
    }

    /// Adds a node that depends on others.
    ///
    /// # Errors
    /// 1 when the work does not fit the device, or a node is named twice, was removed, or belongs to another graph; 400
    /// when the work is of another context; 801 for a child that allocates memory or has conditional nodes.
    pub fn add(&mut self, dependencies: impl Dependencies, work: NodeWork<'_>) -> Result<Node> {
        let operation = "adding a node to a graph";
        let mut state = self.object.lock();
        let added = self.add_locked(&mut state, operation, &dependencies.list(), &work)?;
        Ok(state.nodes.enter(added.node))
    }

    fn add_locked(
        &self,
        state: &mut GraphState,
        operation: &'static str,
        dependencies: &[(Node, EdgeData)],
        work: &NodeWork<'_>,
    ) -> Result<AddedNode> {
        let dependencies = self.object.dependencies(state, dependencies, operation)?;
        let object = &self.object;
        prepare(object, state, work, operation)?;
        self.with_child(work, operation, || add_raw(object, operation, &dependencies, &work.parameters))
    }

    /// Calls `action` while the graph that becomes a child, if one does, is locked.
    fn with_child<R>(
        &self,
        work: &NodeWork<'_>,
        operation: &'static str,
        action: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        match &work.child {
            None => action(),
            Some(child) if Arc::ptr_eq(child, &self.object) => Err(own_child(operation)),
            Some(child) => {
                let _lock = child.lock();
                action()
            }
        }
    }

    /// Adds a kernel launch: [`NodeWork::kernel`].
    ///
    /// # Safety
    /// As for [`NodeWork::kernel`].
    ///
    /// # Errors
    /// As [`NodeWork::kernel`] and [`add`](Self::add).
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

    /// Adds an allocation of `length` elements, whose contents are unspecified. The memory has the same address at every
    /// launch, and is used by nodes of this graph that come after the allocation. Unless the graph
    /// [frees](Self::add_free) it, it stays allocated after a launch, and the graph cannot be launched again unless it was
    /// instantiated with [`InstantiateFlags::AUTO_FREE_ON_LAUNCH`]. Follows `cuGraphAddMemAllocNode`.
    ///
    /// # Safety
    /// Nodes that read an element come after nodes that have written it.
    ///
    /// # Errors
    /// 1 for no elements; 2 when there is not enough memory; 801 where the device has no such nodes.
    pub unsafe fn add_allocation<T: Pod>(
        &mut self,
        dependencies: impl Dependencies,
        length: usize,
    ) -> Result<(Node, Buffer<T>)> {
        // SAFETY: the caller's word.
        unsafe { self.add_allocation_with_access(dependencies, length, &[]) }
    }

    /// As [`add_allocation`](Self::add_allocation), of memory that other devices can use too.
    ///
    /// # Safety
    /// As for [`add_allocation`](Self::add_allocation).
    ///
    /// # Errors
    /// As [`add_allocation`](Self::add_allocation); 1 or 101 for a device that there is not.
    pub unsafe fn add_allocation_with_access<T: Pod>(
        &mut self,
        dependencies: impl Dependencies,
        length: usize,
        access: &[DeviceOrdinal],
    ) -> Result<(Node, Buffer<T>)> {
        let operation = "adding an allocation to a graph";
        let bytes = byte_size::<T>(length, operation)?;
        let mut state = self.object.lock();
        let context = self.object.context();
        let dependencies = self.object.dependencies(&state, &dependencies.list(), operation)?;
        let parameters = NodeParameters::Allocate(AllocationNode {
            device: context.device().ordinal(),
            bytes,
            access: access.to_vec(),
            address: DevicePointer::NULL,
        });
        let added = add_raw(&self.object, operation, &dependencies, &parameters)?;
        let node = state.nodes.enter(added.node);
        let address = added.address.unwrap_or(DevicePointer::NULL);
        let memory = Allocation::of_graph(context, address, bytes, self.object.number());
        Ok((node, Buffer::of_graph(memory, length)))
    }

    /// Adds a free of memory that this graph allocates.
    ///
    /// # Safety
    /// No node that uses the memory runs after this one, or beside it.
    ///
    /// # Errors
    /// 1 when the memory is not of this graph, is freed already, or the node does not come after the allocation.
    pub unsafe fn add_free<T: Pod>(&mut self, dependencies: impl Dependencies, memory: Buffer<T>) -> Result<Node> {
        if memory.allocation().graph() != Some(self.object.number()) {
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

    /// Replaces what a node does by other work of the same kind. Executable graphs made before are untouched.
    ///
    /// # Errors
    /// 1 when the work is of another kind, or the node is not of this graph; else as [`add`](Self::add).
    pub fn set_node(&mut self, node: Node, work: NodeWork<'_>) -> Result<()> {
        let operation = "changing a node of a graph";
        let mut state = self.object.lock();
        let handle = self.object.node(&state, node, operation)?;
        prepare(&self.object, &mut state, &work, operation)?;
        let context = self.object.context();
        self.with_child(&work, operation, || {
            // SAFETY: the node is of this graph, which is locked; what the work refers to was retained.
            unsafe { context.driver().graph_node_set_parameters(context.handle(), handle, &work.parameters) }
                .during(operation, || self.object.place())
        })
    }

    /// Removes a node and its edges.
    ///
    /// # Errors
    /// 801 for allocations, frees and conditional nodes.
    pub fn remove_node(&mut self, node: Node) -> Result<()> {
        let operation = "removing a node from a graph";
        let mut state = self.object.lock();
        let handle = self.object.node(&state, node, operation)?;
        let context = self.object.context();
        // SAFETY: the node is of this graph, which is locked.
        unsafe { context.driver().graph_destroy_node(context.handle(), handle) }
            .during(operation, || self.object.place())?;
        state.nodes.remove(node);
        Ok(())
    }

    /// Adds edges. On an error the edges before the one that it is about have been added.
    ///
    /// # Errors
    /// 1 for an edge that is there already, from a node to itself, or with data that the nodes cannot have. A circle is
    /// found when the graph is [instantiated](Self::instantiate).
    pub fn add_edges(&mut self, edges: &[GraphEdge]) -> Result<()> {
        let operation = "adding edges to a graph";
        let state = self.object.lock();
        let edges = self.raw_edges(&state, edges, operation)?;
        let context = self.object.context();
        // SAFETY: the graph is live and locked, and the nodes are its own.
        unsafe { context.driver().graph_add_edges(context.handle(), self.as_raw(), &edges) }
            .during(operation, || self.object.place())
    }

    /// Removes edges. On an error the edges before the one that it is about have been removed.
    ///
    /// # Errors
    /// 1 for an edge that is not there.
    pub fn remove_edges(&mut self, edges: &[GraphEdge]) -> Result<()> {
        let operation = "removing edges from a graph";
        let state = self.object.lock();
        let edges = self.raw_edges(&state, edges, operation)?;
        let context = self.object.context();
        // SAFETY: the graph is live and locked, and the nodes are its own.
        unsafe { context.driver().graph_remove_edges(context.handle(), self.as_raw(), &edges) }
            .during(operation, || self.object.place())
    }

    fn raw_edges(&self, state: &GraphState, edges: &[GraphEdge], operation: &'static str) -> Result<Vec<Edge>> {
        let raw = |edge: &GraphEdge| {
            Ok(Edge {
                from: self.object.node(state, edge.from, operation)?,
                to: self.object.node(state, edge.to, operation)?,
                data: edge.data,
            })
        };
        edges.iter().map(raw).collect()
    }

    /// A copy with nodes of its own, and all that this graph keeps.
    ///
    /// # Errors
    /// 801 when the graph allocates memory or has conditional nodes.
    pub fn try_clone(&self) -> Result<Graph> {
        let operation = "cloning a graph";
        let state = self.object.lock();
        let context = self.object.context();
        // SAFETY: the graph is live and locked.
        let handle = unsafe { context.driver().graph_clone(context.handle(), self.as_raw()) }
            .during(operation, || self.object.place())?;
        let mut parts = GraphParts::default();
        parts.merge(&state.parts);
        Ok(Self::from_object(GraphObject::new(context, handle, next_graph_number(), parts)))
    }

    /// The node of `clone`, a clone of this graph, that was copied from `node`.
    ///
    /// # Errors
    /// 1 when there is none.
    pub fn find_in_clone(&self, node: Node, clone: &Graph) -> Result<Node> {
        let operation = "looking for a node in a clone";
        let state = self.object.lock();
        let original = self.object.node(&state, node, operation)?;
        if Arc::ptr_eq(&self.object, &clone.object) {
            return Err(Error::argument(Status::INVALID_VALUE, operation, "the graph is not a clone of itself"));
        }
        // Released first: two threads may look in opposite directions.
        drop(state);
        let mut state = clone.object.lock();
        let context = clone.object.context();
        // SAFETY: both graphs are borrowed, so that neither is changed meanwhile; the clone is locked.
        let found = unsafe { context.driver().graph_find_in_clone(context.handle(), original, clone.as_raw()) }
            .during(operation, || clone.object.place())?;
        Ok(state.nodes.enter(found))
    }

    /// Makes the graph ready to be launched. Later changes of the graph do not reach the executable.
    ///
    /// # Errors
    /// 1 for a circle, or a conditional value that no node uses; 801 when the graph allocates memory and has an executable
    /// already, or a node cannot be where it is.
    pub fn instantiate(&self) -> Result<ExecutableGraph> {
        self.instantiate_with_flags(InstantiateFlags::empty())
    }

    /// As [`instantiate`](Self::instantiate), with flags.
    ///
    /// # Errors
    /// As [`instantiate`](Self::instantiate); 1 for flags that the driver does not know.
    pub fn instantiate_with_flags(&self, flags: InstantiateFlags) -> Result<ExecutableGraph> {
        ExecutableGraph::new(self, flags, None)
    }

    /// As [`instantiate_with_flags`](Self::instantiate_with_flags), and uploads it in the order of `stream`, so that the
    /// first launch need not.
    ///
    /// # Errors
    /// As [`instantiate_with_flags`](Self::instantiate_with_flags).
    pub fn instantiate_and_upload(&self, flags: InstantiateFlags, stream: &Stream) -> Result<ExecutableGraph> {
        ExecutableGraph::new(self, flags | InstantiateFlags::UPLOAD, Some(stream))
    }
}

fn own_child(operation: &'static str) -> Error {
    Error::argument(Status::INVALID_VALUE, operation, "a graph cannot be a child of itself; clone it first")
}

/// Keeps what a node's work refers to.
fn prepare(object: &GraphObject, state: &mut GraphState, work: &NodeWork<'_>, operation: &'static str) -> Result<()> {
    if let Some(context) = &work.context
        && context.handle() != object.context().handle()
    {
        return Err(crate::context::other_context(operation, "work", object.place()));
    }
    if let Some(conditional) = work.conditional
        && !object.owns(conditional.graph)
    {
        return Err(Error::argument(
            Status::INVALID_VALUE,
            operation,
            "the conditional value belongs to another graph",
        )
        .at(object.place()));
    }
    for kept in &work.memory {
        object.keep_memory(state, &kept.memory, kept.access, operation)?;
    }
    for kept in &work.kept {
        object.keep(state, kept.clone());
    }
    if let Some(child) = work.child.as_ref().filter(|child| !std::ptr::eq(&raw const ***child, object)) {
        object.keep_parts(state, &child.lock().parts);
    }
    Ok(())
}

fn add_raw(
    object: &GraphObject,
    operation: &'static str,
    dependencies: &[Dependency],
    parameters: &NodeParameters,
) -> Result<AddedNode> {
    let context = object.context();
    // SAFETY: the graph is live and its lock is held, its nodes are its own, and what the parameters refer to was
    // retained.
    unsafe { context.driver().graph_add_node(context.handle(), object.handle(), dependencies, parameters) }
        .during(operation, || object.place())
}

impl fmt::Debug for Graph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Graph({}, {:?})", self.object.number(), self.object.handle())
    }
}
