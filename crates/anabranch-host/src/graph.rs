//! Graphs.

mod add;
mod clone;
mod conditional;
mod edges;
mod memory;
mod node;
mod parameters;
mod retain;
mod state;

pub(crate) use add::{can_be_in_body, locate};
pub(crate) use memory::{GraphBlock, GraphMemory, GraphMemoryCounters, LaunchMemory};
pub(crate) use node::{Action, Node, NodeState, ValueStep};
pub(crate) use state::{Contents, GraphState, Place};

use crate::driver::HostDriver;
use crate::engine::host_work::permitted;
use crate::handles;
use anabranch_hal::{
    AddedNode, ConditionalHandle, ContextHandle, Dependency, DeviceOrdinal, Edge, Failure, GraphHandle,
    GraphMemoryAttribute, GraphNodeHandle, GraphNodeKind, Graphs, NodeParameters, Result, Retained, Status,
};
use std::sync::Arc;

/// Checks that a call on a graph of the context may be made.
///
/// # Safety
/// The handle rule.
unsafe fn check(context: ContextHandle) -> Result<()> {
    permitted()?;
    // SAFETY: the caller's word.
    unsafe { handles::context(context) }?.core.check()
}

impl Graphs for HostDriver {
    unsafe fn graph_create(&self, context: ContextHandle) -> Result<GraphHandle> {
        permitted()?;
        // SAFETY: the handle rule.
        let core = &unsafe { handles::context(context) }?.core;
        core.check()?;
        Ok(GraphHandle::from_raw(core.graphs.insert(GraphState::new(core))))
    }

    unsafe fn graph_destroy(&self, context: ContextHandle, graph: GraphHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?;
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { handles::graph(graph) }?.core);
        let removed = core.graphs.remove(graph.as_raw()).ok_or(Failure::new(Status::INVALID_VALUE))?;
        drop(removed);
        core.check()
    }

    unsafe fn graph_clone(&self, context: ContextHandle, graph: GraphHandle) -> Result<GraphHandle> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        let graph = unsafe { handles::graph(graph) }?;
        let clone = graph.clone_graph()?;
        Ok(GraphHandle::from_raw(graph.core.graphs.insert(clone)))
    }

    unsafe fn graph_find_in_clone(
        &self,
        context: ContextHandle,
        original: GraphNodeHandle,
        clone: GraphHandle,
    ) -> Result<GraphNodeHandle> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        let (original, clone) = unsafe { (handles::node(original)?, handles::graph(clone)?) };
        clone.find_copy(original.number, original.id)
    }

    unsafe fn graph_retain(&self, context: ContextHandle, graph: GraphHandle, object: Retained) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        unsafe { handles::graph(graph) }?.retain(object);
        Ok(())
    }

    unsafe fn graph_add_node(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule, and the caller's word for the parameters.
        unsafe { handles::graph(graph)?.add_node(dependencies, parameters.clone()) }
    }

    unsafe fn graph_destroy_node(&self, context: ContextHandle, node: GraphNodeHandle) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        let (graph, number) = unsafe { locate(node) }?;
        graph.remove_node(number)
    }

    unsafe fn graph_node_kind(&self, context: ContextHandle, node: GraphNodeHandle) -> Result<GraphNodeKind> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        let (graph, number) = unsafe { locate(node) }?;
        let contents = graph.lock();
        Ok(contents.node(number)?.kind())
    }

    unsafe fn graph_node_parameters(&self, context: ContextHandle, node: GraphNodeHandle) -> Result<NodeParameters> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        let (graph, number) = unsafe { locate(node) }?;
        let contents = graph.lock();
        Ok(contents.node(number)?.action.parameters())
    }

    unsafe fn graph_node_set_parameters(
        &self,
        context: ContextHandle,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule, and the caller's word for the parameters.
        unsafe {
            let (graph, number) = locate(node)?;
            graph.set_parameters(number, parameters.clone())
        }
    }

    unsafe fn graph_nodes(&self, context: ContextHandle, graph: GraphHandle) -> Result<Vec<GraphNodeHandle>> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        let contents = unsafe { handles::graph(graph) }?.lock();
        Ok(contents.nodes.values().map(|node| node.state.handle()).collect())
    }

    unsafe fn graph_root_nodes(&self, context: ContextHandle, graph: GraphHandle) -> Result<Vec<GraphNodeHandle>> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        let contents = unsafe { handles::graph(graph) }?.lock();
        let roots = contents.nodes.values().filter(|node| node.before.is_empty());
        Ok(roots.map(|node| node.state.handle()).collect())
    }

    unsafe fn graph_edges(&self, context: ContextHandle, graph: GraphHandle) -> Result<Vec<Edge>> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        Ok(unsafe { handles::graph(graph) }?.lock().edges())
    }

    unsafe fn graph_add_edges(&self, context: ContextHandle, graph: GraphHandle, edges: &[Edge]) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        unsafe { handles::graph(graph)?.add_edges(edges) }
    }

    unsafe fn graph_remove_edges(&self, context: ContextHandle, graph: GraphHandle, edges: &[Edge]) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        unsafe { handles::graph(graph)?.remove_edges(edges) }
    }

    unsafe fn graph_conditional_create(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        default: Option<u32>,
    ) -> Result<ConditionalHandle> {
        // SAFETY: the handle rule.
        unsafe { check(context) }?;
        // SAFETY: the handle rule.
        Ok(unsafe { handles::graph(graph) }?.create_conditional(default))
    }

    fn graph_memory_attribute(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<u64> {
        permitted()?;
        self.shared.device(device.0)?.graph_memory.attribute(attribute)
    }

    fn graph_memory_reset(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<()> {
        permitted()?;
        self.shared.device(device.0)?.graph_memory.reset(attribute)
    }

    fn graph_memory_trim(&self, device: DeviceOrdinal) -> Result<()> {
        permitted()?;
        self.shared.graph_memory.trim(self.shared.device(device.0)?);
        Ok(())
    }
}
