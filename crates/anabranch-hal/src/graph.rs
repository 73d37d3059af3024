//! Graphs: work that is described once and launched many times (Driver API, group GRAPH).

mod edge;
mod executable;
mod node;

pub use edge::{Dependency, Edge, EdgeData, EdgeKind};
pub use executable::{ExecutableGraphs, InstantiateFlags};
pub use node::{
    AddedNode, AllocationNode, ConditionalKind, ConditionalNode, FillNode, GraphNodeKind, KernelNode, NodeParameters,
};

use crate::{Call, ConditionalHandle, DeviceOrdinal, GraphHandle, GraphNodeHandle, Live, Result};

/// An attribute of the memory that the graphs of a device own (`CUgraphMem_attribute`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GraphMemoryAttribute {
    /// The number of bytes in use. Freed memory counts until it is trimmed or its graph is destroyed.
    UsedCurrent,
    /// The largest number of bytes ever in use. Setting it to 0 resets it.
    UsedHigh,
    /// The number of bytes reserved from the device.
    ReservedCurrent,
    /// The largest number of bytes ever reserved. Setting it to 0 resets it.
    ReservedHigh,
}

/// Creating, changing and inspecting graphs.
///
/// Drivers do not synchronize access to graphs. **Two threads must not use a graph at the same time.** This includes
/// the graphs inside its child nodes and conditional nodes. A [`Live`] of a graph or of a node promises it. Clones of a
/// graph and executable graphs made from it count as separate graphs.
///
/// Making a graph runs nothing, so methods are `unsafe` only where they are given handles inside of other values, or
/// destroy something. What the nodes do is promised when they are made, and when the graph is launched.
pub trait Graphs: ExecutableGraphs {
    /// Creates an empty graph.
    fn graph_create(&self, call: &Call<'_>) -> Result<GraphHandle>;

    /// Destroys a graph and its nodes. Clones of the graph and executable graphs made from it remain valid.
    ///
    /// # Safety
    ///
    /// The graph exists, nobody uses it or its nodes during the call or afterwards, and it does not belong to a node or to
    /// a capture.
    unsafe fn graph_destroy(&self, call: &Call<'_>, graph: GraphHandle) -> Result<()>;

    /// Clones a graph.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph was ever asked to add an allocation, a free or a conditional node.
    fn graph_clone(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<GraphHandle>;

    /// Returns the node of `clone` that was copied from `original`. `original` must be a node of the graph that was
    /// cloned.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if there is no such node.
    fn graph_find_in_clone(
        &self,
        call: &Call<'_>,
        original: Live<'_, GraphNodeHandle>,
        clone: Live<'_, GraphHandle>,
    ) -> Result<GraphNodeHandle>;

    /// Adds a node to a graph. The node depends on the given nodes. If the call fails, the graph has the nodes that it had.
    /// If it was asked for an allocation, a free or a conditional node, it is restricted all the same.
    ///
    /// # Safety
    ///
    /// The nodes of `dependencies` and the objects of the handles in the parameters exist. Functions and events exist as
    /// long as the node and its copies in clones and in executable graphs do. What the node does must be sound at every
    /// launch.
    unsafe fn graph_add_node(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode>;

    /// Removes a node and its edges.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph was ever asked to add an allocation or a free.
    ///
    /// # Safety
    ///
    /// The node exists, and nobody uses it during the call or afterwards.
    unsafe fn graph_destroy_node(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<()>;

    /// Returns the kind of a node.
    fn graph_node_kind(&self, call: &Call<'_>, node: Live<'_, GraphNodeHandle>) -> Result<GraphNodeKind>;

    /// Returns the parameters of a node. The memory ranges of a kernel are empty if the driver does not store them.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver cannot report the parameters, or does not know how many arguments a kernel
    /// has.
    fn graph_node_parameters(&self, call: &Call<'_>, node: Live<'_, GraphNodeHandle>) -> Result<NodeParameters>;

    /// Replaces the parameters of a node with others of the same kind. Existing executable graphs do not change. If the call
    /// fails, the node keeps its parameters, or has the new ones, if it is a kernel.
    ///
    /// # Safety
    ///
    /// The requirements of [`graph_add_node`](Self::graph_add_node) apply.
    unsafe fn graph_node_set_parameters(
        &self,
        call: &Call<'_>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> Result<()>;

    /// Returns all nodes, in unspecified order.
    fn graph_nodes(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<GraphNodeHandle>>;

    /// Returns the nodes that depend on no other node.
    fn graph_root_nodes(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<GraphNodeHandle>>;

    /// Returns all edges and their data.
    fn graph_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<Edge>>;

    /// Adds edges.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if an edge already exists, leads from a node to itself, or leads to a node of
    /// another graph. Longer cycles are reported when the graph is instantiated.
    ///
    /// # Safety
    ///
    /// The nodes of the edges exist.
    unsafe fn graph_add_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()>;

    /// Removes edges. The data of the edges is ignored.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if an edge does not exist; `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph was ever asked
    /// to add an allocation or a free.
    ///
    /// # Safety
    ///
    /// The nodes of the edges exist.
    unsafe fn graph_remove_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()>;

    /// Creates a value for a conditional node of the graph. If `default` is given, every launch of the graph starts by
    /// setting the value to it.
    fn graph_conditional_create(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        default: Option<u32>,
    ) -> Result<ConditionalHandle>;

    /// Reads an attribute of the memory that the graphs of a device own.
    fn graph_memory_attribute(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<u64>;

    /// Resets one of the two high-water marks.
    fn graph_memory_reset(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<()>;

    /// Returns memory to the device that graphs own but do not use.
    fn graph_memory_trim(&self, device: DeviceOrdinal) -> Result<()>;
}
