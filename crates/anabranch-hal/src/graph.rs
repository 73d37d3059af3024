//! Graphs: work described once, to be launched many times (Driver API, group GRAPH).

mod edge;
mod executable;
mod node;

pub use edge::{Dependency, Edge, EdgeData, EdgeKind};
pub use executable::{ExecutableGraphs, GraphInstantiateResult, GraphUpdateResult, InstantiateFlags};
pub use node::{
    AddedNode, AllocationNode, ConditionalKind, ConditionalNode, FillNode, GraphNodeKind, KernelNode, NodeParameters,
    RepeatableWork, ValueOperation,
};

use crate::{ConditionalHandle, ContextHandle, DeviceOrdinal, GraphHandle, GraphNodeHandle, Result};
use std::any::Any;
use std::sync::Arc;

/// Something that a graph keeps alive.
pub type Retained = Arc<dyn Any + Send + Sync>;

/// A number about the memory that graphs of a device own (`CUgraphMem_attribute`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GraphMemoryAttribute {
    /// Bytes in use. What is freed counts until it is trimmed, or its graph is gone.
    UsedCurrent,
    /// The most bytes ever in use; setting it to 0 starts anew.
    UsedHigh,
    /// Bytes reserved from the device.
    ReservedCurrent,
    /// The most bytes ever reserved; setting it to 0 starts anew.
    ReservedHigh,
}

/// Graphs, built and looked at.
///
/// Drivers do not synchronise graphs: **no graph is used by two threads at the same time**, the graphs inside of its child
/// and conditional nodes included. This is part of the handle rule for every method here. Executable graphs made from a
/// graph, and clones of it, count as graphs of their own.
pub trait Graphs: ExecutableGraphs {
    /// Makes an empty graph.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_create(&self, context: ContextHandle) -> Result<GraphHandle>;

    /// Destroys a graph and its nodes. Clones and executable graphs made from it live on.
    ///
    /// # Safety
    /// The handle rule; the graph does not belong to a node or to a capture.
    unsafe fn graph_destroy(&self, context: ContextHandle, graph: GraphHandle) -> Result<()>;

    /// A copy of a graph, with all that it retains. 801 when it allocates memory.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_clone(&self, context: ContextHandle, graph: GraphHandle) -> Result<GraphHandle>;

    /// The node of `clone` that was copied from `original`, a node of the graph it is a clone of. 1 when there is none.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_find_in_clone(
        &self,
        context: ContextHandle,
        original: GraphNodeHandle,
        clone: GraphHandle,
    ) -> Result<GraphNodeHandle>;

    /// Keeps something alive until the graph, all clones of it, whatever holds a copy of it as a child, and all executable
    /// graphs made from any of them are gone, and no launch of them runs. It is dropped on a thread that may call the
    /// driver.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_retain(&self, context: ContextHandle, graph: GraphHandle, object: Retained) -> Result<()>;

    /// Adds a node that depends on others of the graph.
    ///
    /// # Safety
    /// The handle rule, for the node's parameters too; what the node does at each launch is sound.
    unsafe fn graph_add_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode>;

    /// Removes a node and its edges.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_destroy_node(&self, context: ContextHandle, node: GraphNodeHandle) -> Result<()>;

    /// The kind of a node.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_node_kind(&self, context: ContextHandle, node: GraphNodeHandle) -> Result<GraphNodeKind>;

    /// The parameters of a node. 801 where the driver cannot say. A kernel's arguments are empty where the driver cannot
    /// say how many there are, and its ranges where it does not keep them.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_node_parameters(&self, context: ContextHandle, node: GraphNodeHandle) -> Result<NodeParameters>;

    /// Replaces the parameters of a node by others of the same kind. Executable graphs made before are untouched.
    ///
    /// # Safety
    /// As [`graph_add_node`](Self::graph_add_node).
    unsafe fn graph_node_set_parameters(
        &self,
        context: ContextHandle,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()>;

    /// All nodes, in no order that means anything.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_nodes(&self, context: ContextHandle, graph: GraphHandle) -> Result<Vec<GraphNodeHandle>>;

    /// The nodes that depend on none.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_root_nodes(&self, context: ContextHandle, graph: GraphHandle) -> Result<Vec<GraphNodeHandle>>;

    /// All edges, with their data.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_edges(&self, context: ContextHandle, graph: GraphHandle) -> Result<Vec<Edge>>;

    /// Adds edges. 1 when an edge is there already, would make a circle at once, or leaves the graph.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_add_edges(&self, context: ContextHandle, graph: GraphHandle, edges: &[Edge]) -> Result<()>;

    /// Removes edges. 1 when one is not there.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_remove_edges(&self, context: ContextHandle, graph: GraphHandle, edges: &[Edge]) -> Result<()>;

    /// Makes a value for a conditional node of the graph. With a default, every launch of the graph begins with it.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_conditional_create(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        default: Option<u32>,
    ) -> Result<ConditionalHandle>;

    /// Reads a number about the memory that graphs of a device own.
    fn graph_memory_attribute(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<u64>;

    /// Starts one of the two highest numbers anew.
    fn graph_memory_reset(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<()>;

    /// Gives memory that graphs own and do not use back to the device.
    fn graph_memory_trim(&self, device: DeviceOrdinal) -> Result<()>;
}
