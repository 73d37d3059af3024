//! Graphs: work that is described once and launched many times (Driver API, group GRAPH).

mod edge;
mod executable;
mod node;

pub use edge::{Dependency, Edge, EdgeData, EdgeKind};
pub use executable::{ExecutableGraphs, InstantiateFlags};
pub use node::{
    AddedNode, AllocationNode, ConditionalKind, ConditionalNode, FillNode, GraphNodeKind, KernelNode, NodeParameters,
    ValueOperation,
};

use crate::{Call, ConditionalHandle, DeviceOrdinal, GraphHandle, GraphNodeHandle, Result};

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
/// the graphs inside its child nodes and conditional nodes. The requirement is part of the handle rule for every method
/// of this trait. Clones of a graph and executable graphs made from it count as separate graphs.
pub trait Graphs: ExecutableGraphs {
    /// Creates an empty graph.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_create(&self, call: &Call<'_>) -> Result<GraphHandle>;

    /// Destroys a graph and its nodes. Clones of the graph and executable graphs made from it remain valid.
    ///
    /// # Safety
    ///
    /// The handle rule applies. The graph must not belong to a node or to a capture.
    unsafe fn graph_destroy(&self, call: &Call<'_>, graph: GraphHandle) -> Result<()>;

    /// Clones a graph.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph allocates or frees memory, or has conditional nodes.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_clone(&self, call: &Call<'_>, graph: GraphHandle) -> Result<GraphHandle>;

    /// Returns the node of `clone` that was copied from `original`. `original` must be a node of the graph that was
    /// cloned.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if there is no such node.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_find_in_clone(
        &self,
        call: &Call<'_>,
        original: GraphNodeHandle,
        clone: GraphHandle,
    ) -> Result<GraphNodeHandle>;

    /// Adds a node to a graph. The node depends on the given nodes.
    ///
    /// # Safety
    ///
    /// The handle rule applies, also to handles and addresses in the parameters. What the node does must be sound at
    /// every launch.
    unsafe fn graph_add_node(
        &self,
        call: &Call<'_>,
        graph: GraphHandle,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode>;

    /// Removes a node and its edges.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_destroy_node(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<()>;

    /// Returns the kind of a node.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_node_kind(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<GraphNodeKind>;

    /// Returns the parameters of a node. The arguments of a kernel are empty if the driver does not know their number.
    /// The memory ranges of a kernel are empty if the driver does not store them.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver cannot report the parameters.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_node_parameters(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<NodeParameters>;

    /// Replaces the parameters of a node with others of the same kind. Existing executable graphs do not change.
    ///
    /// # Safety
    ///
    /// The requirements of [`graph_add_node`](Self::graph_add_node) apply.
    unsafe fn graph_node_set_parameters(
        &self,
        call: &Call<'_>,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()>;

    /// Returns all nodes, in unspecified order.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_nodes(&self, call: &Call<'_>, graph: GraphHandle) -> Result<Vec<GraphNodeHandle>>;

    /// Returns the nodes that depend on no other node.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_root_nodes(&self, call: &Call<'_>, graph: GraphHandle) -> Result<Vec<GraphNodeHandle>>;

    /// Returns all edges and their data.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_edges(&self, call: &Call<'_>, graph: GraphHandle) -> Result<Vec<Edge>>;

    /// Adds edges.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if an edge already exists, leads from a node to itself, or leads to a node of
    /// another graph. Longer cycles are reported when the graph is instantiated.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_add_edges(&self, call: &Call<'_>, graph: GraphHandle, edges: &[Edge]) -> Result<()>;

    /// Removes edges.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if an edge does not exist.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_remove_edges(&self, call: &Call<'_>, graph: GraphHandle, edges: &[Edge]) -> Result<()>;

    /// Creates a value for a conditional node of the graph. If `default` is given, every launch of the graph starts by
    /// setting the value to it.
    ///
    /// # Safety
    ///
    /// The handle rule applies.
    unsafe fn graph_conditional_create(
        &self,
        call: &Call<'_>,
        graph: GraphHandle,
        default: Option<u32>,
    ) -> Result<ConditionalHandle>;

    /// Reads an attribute of the memory that the graphs of a device own.
    fn graph_memory_attribute(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<u64>;

    /// Resets one of the two high-water marks.
    fn graph_memory_reset(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<()>;

    /// Returns memory to the device that graphs own but do not use.
    fn graph_memory_trim(&self, device: DeviceOrdinal) -> Result<()>;
}
