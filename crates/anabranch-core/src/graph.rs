//! Graphs built by hand: adding, changing, removing and querying nodes and edges.

use crate::context::other_context;
use crate::error::{Error, Result, ResultExt};
use crate::graph_object::{GraphGuard, GraphObject, MOST_BODIES, next_graph_id, too_many_bodies};
use crate::graph_traits::GraphTraits;
use crate::memory::{Allocation, Origin};
use crate::node::{Node, NodeTable};
use crate::node_work::NodeWork;
use crate::raw_event::RawEvent;
use crate::retained::{References, Retained};
use anabranch_hal::{
    AddedNode, AllocationNode, Call, ConditionalHandle, ConditionalKind, ConditionalNode, Dependency, DeviceOrdinal,
    DevicePointer, Driver, Edge, EdgeData, GraphHandle, GraphNodeHandle, GraphNodeKind, Live, NodeParameters, Status,
};
use std::sync::Arc;

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

/// The error of a graph that would contain itself.
#[cold]
pub fn own_child(operation: &'static str) -> Error {
    Error::argument(Status::INVALID_VALUE, operation, "a graph cannot be a child of itself; clone it first")
}

impl GraphObject {
    /// Calls the driver with the graph. The owner of the guard has locked it.
    fn driver_call<R>(
        &self,
        guard: &GraphGuard<'_>,
        operation: &'static str,
        call: impl FnOnce(&dyn Driver, &Call<'_>, Live<'_, GraphHandle>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        call(self.context().driver(), &self.context().call(operation), guard.live()).during(operation, || self.place())
    }

    /// Adds a node.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the work is not valid on the device, or a node is named twice, was removed, or
    /// belongs to another graph; `CUDA_ERROR_INVALID_HANDLE (400)` if the work belongs to another context;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` for a child that allocates memory or has conditional nodes, and for more than
    /// [`MOST_LEVELS`](crate::graph_object::MOST_LEVELS) levels of graphs.
    #[track_caller]
    pub fn add(&self, dependencies: &[(Node, EdgeData)], work: &NodeWork) -> Result<Node> {
        let operation = "adding a node to a graph";
        let (mut guard, child, references) = self.prepare(work, operation)?;
        let added = guard
            .dependencies(dependencies, operation)
            .and_then(|dependencies| self.add_raw(&guard, operation, &dependencies, &work.parameters))
            .map(|added| guard.enter(added.node));
        if added.is_ok() {
            guard.note(edges_to(dependencies));
        }
        if let (Ok(_), NodeParameters::Free(address)) = (&added, &work.parameters) {
            guard.frees(*address);
        }
        let released = guard.retained_mut().settle(references, added.as_ref().copied());
        // What is released is dropped when nothing is locked.
        drop((guard, child));
        drop(released);
        added
    }

    /// Replaces the work of a node by other work of the same kind.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the work is of another kind, the node does not belong to this graph, or it fills
    /// memory whose allocation was captured; otherwise the same as [`add`](Self::add).
    #[track_caller]
    pub fn set_node(&self, node: Node, work: &NodeWork) -> Result<()> {
        let operation = "changing a node of a graph";
        let (mut guard, child, references) = self.prepare(work, operation)?;
        let changed = guard.node(node, operation).and_then(|handle| {
            guard.refuse_initializer(handle, false, operation)?;
            // SAFETY: the graph retains what the work refers to; a child is copied, and locked.
            self.driver_call(&guard, operation, |driver, call, _| unsafe {
                driver.graph_node_set_parameters(call, handle, &work.parameters)
            })
        });
        let released = guard.retained_mut().settle(references, changed.as_ref().map(|()| node));
        // What is released is dropped when nothing is locked.
        drop((guard, child));
        drop(released);
        changed
    }

    /// Whether work can be a node of this graph, or of an executable graph that was made from it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for work of another context; `CUDA_ERROR_INVALID_VALUE (1)` for a conditional value of
    /// another graph, and for a graph that would contain itself.
    pub(crate) fn check_work(&self, work: &NodeWork, operation: &'static str) -> Result<()> {
        if work.context.as_ref().is_some_and(|context| !context.is_same(self.context())) {
            return Err(other_context(operation, "work", self.place()));
        }
        if work.conditional.is_some_and(|(graph, _)| !self.owns(graph)) {
            let message = "the conditional value belongs to another graph";
            return Err(Error::argument(Status::INVALID_VALUE, operation, message).at(self.place()));
        }
        if work.child.as_ref().is_some_and(|child| child.shares_lock(self)) {
            return Err(own_child(operation));
        }
        Ok(())
    }

    /// Locks the graph, and a graph that becomes a child, and retains what a node's work refers to.
    fn prepare<'a>(
        &'a self,
        work: &'a NodeWork,
        operation: &'static str,
    ) -> Result<(GraphGuard<'a>, Option<GraphGuard<'a>>, References)> {
        self.check_work(work, operation)?;
        work.memory.iter().try_for_each(|memory| self.require_reach(memory.memory(), memory.access(), operation))?;
        let (mut guard, child) = self.lock_with(work.child.as_deref(), operation)?;
        if let Some(child) = &child {
            guard.add_levels(1 + child.levels_below(), operation)?;
            guard.note(child.traits());
        }
        guard.note(GraphTraits::of_node(&work.parameters));
        let references = work.references(child.as_ref().map(|child| child.retained().all()));
        guard.retained_mut().hold(&references);
        Ok((guard, child, references))
    }

    fn add_raw(
        &self,
        guard: &GraphGuard<'_>,
        operation: &'static str,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode> {
        // SAFETY: the dependencies are nodes of this graph, which retains what the parameters refer to; a child is copied, and locked.
        self.driver_call(guard, operation, |driver, call, graph| unsafe {
            driver.graph_add_node(call, graph, dependencies, parameters)
        })
    }

    /// Adds an allocation, whose contents are unspecified.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for zero bytes, or a device that does not exist; `CUDA_ERROR_OUT_OF_MEMORY (2)`
    /// if there is not enough memory; `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no such nodes.
    #[track_caller]
    pub fn add_allocation(
        &self,
        dependencies: &[(Node, EdgeData)],
        bytes: usize,
        access: &[DeviceOrdinal],
    ) -> Result<(Node, Allocation)> {
        let operation = "adding an allocation to a graph";
        let mut guard = self.lock(operation)?;
        let edges = edges_to(dependencies);
        let dependencies = guard.dependencies(dependencies, operation)?;
        let parameters = NodeParameters::Allocate(AllocationNode {
            device: self.context().device().ordinal(),
            bytes,
            access: access.to_vec(),
            address: DevicePointer::NULL,
        });
        let added = self.add_raw(&guard, operation, &dependencies, &parameters)?;
        let node = guard.enter(added.node);
        guard.note(edges);
        let address = added.address.unwrap_or(DevicePointer::NULL);
        guard.allocates(address.0..address.0 + bytes as u64);
        Ok((node, Allocation::new(self.context(), address, bytes, Origin::Graph(self.id()))))
    }

    /// Makes a value for a conditional node.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no conditional nodes.
    #[track_caller]
    pub fn create_conditional(&self, default: Option<u32>) -> Result<ConditionalHandle> {
        let operation = "creating a conditional value";
        let mut guard = self.lock(operation)?;
        let value = self.driver_call(&guard, operation, |driver, call, graph| {
            driver.graph_conditional_create(call, graph, default)
        })?;
        guard.add_value(value);
        Ok(value)
    }

    /// Adds a conditional node, whose bodies are empty at first.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the kind does not support that number of bodies, or the value belongs to
    /// another node; `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no such nodes, or for more than
    /// [`MOST_LEVELS`](crate::graph_object::MOST_LEVELS) levels of graphs.
    #[track_caller]
    pub fn add_conditional(
        &self,
        dependencies: &[(Node, EdgeData)],
        handle: ConditionalHandle,
        kind: ConditionalKind,
        bodies: u32,
    ) -> Result<Node> {
        let operation = "adding a conditional node to a graph";
        if bodies as usize > MOST_BODIES {
            return Err(too_many_bodies(operation).at(self.place()));
        }
        let mut guard = self.lock(operation)?;
        let edges = edges_to(dependencies);
        let dependencies = guard.dependencies(dependencies, operation)?;
        guard.add_levels(1, operation)?;
        let conditional = ConditionalNode { handle, kind, body_count: bodies, bodies: Vec::new() };
        let parameters = NodeParameters::Conditional(conditional.clone());
        let added = self.add_raw(&guard, operation, &dependencies, &parameters)?;
        let node = guard.enter(added.node);
        guard.note(edges);
        guard.note(GraphTraits::of_node(&parameters));
        guard.add_conditional(node, conditional, added.bodies);
        Ok(node)
    }

    /// A body of a conditional node.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the node has no such body.
    pub fn body(&self, node: Node, index: usize) -> Result<Arc<GraphObject>> {
        let operation = "opening a body of a conditional node";
        let guard = self.lock(operation)?;
        guard.node(node, operation)?;
        guard.body(node, index).ok_or_else(|| {
            let message = format!("the node has no body {index} that was added here");
            Error::argument(Status::INVALID_VALUE, operation, message).at(self.place())
        })
    }

    /// Removes a node and its edges.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph was ever asked to add an allocation or a free.
    #[track_caller]
    pub fn remove_node(&self, node: Node) -> Result<()> {
        let operation = "removing a node from a graph";
        let mut guard = self.lock(operation)?;
        let handle = guard.node(node, operation)?;
        // SAFETY: the node is of this graph, and leaves the table of its nodes.
        self.driver_call(&guard, operation, |driver, call, _| unsafe {
            driver.graph_destroy_node(call, handle.handle())
        })?;
        let released = guard.remove(node);
        drop(guard);
        drop(released);
        Ok(())
    }

    /// Adds edges. If one is refused, the edges before it that have the same data have been added, and of those before them none,
    /// unless the graph was ever asked to add an allocation or a free.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for an edge that already exists, an edge from a node to itself, or an edge with
    /// data that the nodes do not support.
    #[track_caller]
    pub fn add_edges(&self, edges: &[GraphEdge]) -> Result<()> {
        let operation = "adding edges to a graph";
        let mut guard = self.lock(operation)?;
        let edges = raw_edges(&guard, edges, operation)?;
        let mut added = 0;
        // CUDA gives all edges of one call the data of the first.
        for group in edges.chunk_by(|edge, next| edge.data == next.data) {
            // SAFETY: the nodes of the edges are of this graph.
            let result = self.driver_call(&guard, operation, |driver, call, graph| unsafe {
                driver.graph_add_edges(call, graph, group)
            });
            if let Err(refused) = result {
                // Nothing is added by one call of which the data is wrong. A graph with memory keeps what was added before.
                if let Some(before @ [_, ..]) = edges.get(..added) {
                    // SAFETY: as above.
                    let _ = self.driver_call(&guard, operation, |driver, call, graph| unsafe {
                        driver.graph_remove_edges(call, graph, before)
                    });
                }
                return Err(refused);
            }
            added += group.len();
            guard.note(GraphTraits::of_edges(group.iter().map(|edge| edge.data)));
        }
        Ok(())
    }

    /// Removes edges by their nodes, whatever the data is. If one is refused, the edges before it have been removed.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for an edge that does not exist; `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph was ever
    /// asked to add an allocation or a free.
    #[track_caller]
    pub fn remove_edges(&self, edges: &[GraphEdge]) -> Result<()> {
        let operation = "removing edges from a graph";
        let guard = self.lock(operation)?;
        let edges = raw_edges(&guard, edges, operation)?;
        // SAFETY: the nodes of the edges are of this graph.
        self.driver_call(&guard, operation, |driver, call, graph| unsafe {
            driver.graph_remove_edges(call, graph, &edges)
        })
    }

    /// Makes a copy with its own nodes, which retains everything that this graph retains.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph allocates memory or has conditional nodes.
    #[track_caller]
    pub fn try_clone(&self) -> Result<Arc<Self>> {
        let operation = "cloning a graph";
        let guard = self.lock(operation)?;
        let handle = self.driver_call(&guard, operation, |driver, call, graph| driver.graph_clone(call, graph))?;
        let mut retained = Retained::default();
        retained.merge(guard.retained().all());
        let id = next_graph_id();
        // SAFETY: the graph was just made, and what its nodes refer to is retained, as this graph retains it.
        let clone = unsafe { Self::new(self.context(), handle, id, NodeTable::new(id), retained) };
        let (levels, traits) = (guard.levels_below(), guard.traits());
        drop(guard);
        let mut cloned = clone.lock(operation)?;
        cloned.note(traits);
        cloned.add_levels(levels, operation)?;
        drop(cloned);
        Ok(clone)
    }

    /// The node of `clone` that was copied from `node`.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if there is none; `CUDA_ERROR_INVALID_HANDLE (400)` if the other graph belongs to
    /// another context.
    #[track_caller]
    pub fn find_in_clone(&self, node: Node, clone: &Self) -> Result<Node> {
        let operation = "looking for a node in a clone";
        if !self.context().is_same(clone.context()) {
            return Err(other_context(operation, "clone", self.place()));
        }
        let (guard, Some(other)) = self.lock_with(Some(clone), operation)? else {
            return Err(Error::argument(Status::INVALID_VALUE, operation, "the graph is not a clone of itself"));
        };
        let original = guard.node(node, operation)?;
        let found = self.driver_call(&guard, operation, |driver, call, _| {
            driver.graph_find_in_clone(call, original, other.live())
        })?;
        drop(guard);
        drop(other);
        Ok(clone.lock(operation)?.enter(found))
    }

    /// All nodes.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn nodes(&self) -> Result<Vec<Node>> {
        self.list_nodes("listing a graph's nodes", |driver, call, graph| driver.graph_nodes(call, graph))
    }

    /// The nodes without dependencies.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn root_nodes(&self) -> Result<Vec<Node>> {
        self.list_nodes("listing a graph's root nodes", |driver, call, graph| driver.graph_root_nodes(call, graph))
    }

    fn list_nodes(
        &self,
        operation: &'static str,
        list: impl FnOnce(&dyn Driver, &Call<'_>, Live<'_, GraphHandle>) -> anabranch_hal::Result<Vec<GraphNodeHandle>>,
    ) -> Result<Vec<Node>> {
        let mut guard = self.lock(operation)?;
        let handles = self.driver_call(&guard, operation, list)?;
        Ok(handles.into_iter().map(|handle| guard.enter(handle)).collect())
    }

    /// All edges, with their data.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn edges(&self) -> Result<Vec<GraphEdge>> {
        let operation = "listing a graph's edges";
        let mut guard = self.lock(operation)?;
        let edges = self.driver_call(&guard, operation, |driver, call, graph| driver.graph_edges(call, graph))?;
        let mut edge = |Edge { from, to, data }| GraphEdge { from: guard.enter(from), to: guard.enter(to), data };
        Ok(edges.into_iter().map(&mut edge).collect())
    }

    /// Refuses a node that is not of this graph.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)`.
    pub fn require(&self, node: Node, operation: &'static str) -> Result<()> {
        self.lock(operation)?.node(node, operation).map(drop)
    }

    /// The kind of a node.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the node does not belong to this graph.
    #[track_caller]
    pub fn node_kind(&self, node: Node) -> Result<GraphNodeKind> {
        let operation = "reading a node's kind";
        let guard = self.lock(operation)?;
        let handle = guard.node(node, operation)?;
        self.driver_call(&guard, operation, |driver, call, _| driver.graph_node_kind(call, handle))
    }

    /// The parameters of a node as the driver reports them, or what a conditional node was added with, of which drivers report
    /// nothing.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the node does not belong to this graph; `CUDA_ERROR_NOT_SUPPORTED (801)` if
    /// the driver does not report it.
    #[track_caller]
    pub fn node_parameters(&self, node: Node) -> Result<NodeParameters> {
        let operation = "reading a node's parameters";
        let guard = self.lock(operation)?;
        let handle = guard.node(node, operation)?;
        let asked = self.driver_call(&guard, operation, |driver, call, _| driver.graph_node_parameters(call, handle));
        match asked {
            Err(error) if error.status() == Status::NOT_SUPPORTED => {
                guard.conditional(node).map(NodeParameters::Conditional).ok_or(error)
            }
            asked => asked,
        }
    }

    /// The event that a node records or waits for. `None` if the graph does not keep it, as that of a node of another library, and
    /// for other nodes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the node does not belong to this graph; `CUDA_ERROR_NOT_SUPPORTED (801)` if
    /// the driver does not report its parameters.
    #[track_caller]
    pub fn node_event(&self, node: Node) -> Result<Option<Arc<RawEvent>>> {
        let operation = "reading a node's event";
        let guard = self.lock(operation)?;
        let handle = guard.node(node, operation)?;
        let asked =
            self.driver_call(&guard, operation, |driver, call, _| driver.graph_node_parameters(call, handle))?;
        let (NodeParameters::EventRecord(event) | NodeParameters::EventWait(event)) = asked else { return Ok(None) };
        // The graph is locked, so that what it keeps is not destroyed, and no other event has the handle.
        let mut kept = guard.retained().all().objects().filter_map(|object| object.clone().downcast::<RawEvent>().ok());
        Ok(kept.find(|kept| kept.handle() == event))
    }
}

/// What is true of the edges of a node that depends on these.
fn edges_to(dependencies: &[(Node, EdgeData)]) -> GraphTraits {
    GraphTraits::of_edges(dependencies.iter().map(|&(_, data)| data))
}

fn raw_edges(guard: &GraphGuard<'_>, edges: &[GraphEdge], operation: &'static str) -> Result<Vec<Edge>> {
    let raw = |edge: &GraphEdge| {
        let (from, to) = (guard.node(edge.from, operation)?.handle(), guard.node(edge.to, operation)?.handle());
        Ok(Edge { from, to, data: edge.data })
    };
    edges.iter().map(raw).collect()
}
