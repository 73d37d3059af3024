//! Calls on graphs.

use super::{ContextState, HostDriver, usable};
use crate::error::permitted;
use crate::graph::{GraphState, NodeState, locate};
use anabranch_hal::{
    AddedNode, Call, ConditionalHandle, Dependency, DeviceOrdinal, Edge, Failure, GraphHandle, GraphMemoryAttribute,
    GraphNodeHandle, GraphNodeKind, Graphs, NodeParameters, Result, Status,
};
use std::sync::Arc;

impl Graphs for HostDriver {
    unsafe fn graph_create(&self, call: &Call<'_>) -> Result<GraphHandle> {
        // SAFETY: the handle rule.
        let core = &unsafe { usable(call) }?.core;
        Ok(GraphHandle::from_raw(self.graphs.insert(GraphState::new(core, &self.shared.memory))))
    }

    unsafe fn graph_destroy(&self, call: &Call<'_>, graph: GraphHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { ContextState::of(call.context) }?;
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { GraphState::of(graph) }?.core);
        let removed = self.graphs.remove(graph.as_raw()).ok_or(Failure::new(Status::INVALID_VALUE))?;
        drop(removed);
        core.check()
    }

    unsafe fn graph_clone(&self, call: &Call<'_>, graph: GraphHandle) -> Result<GraphHandle> {
        // SAFETY: the handle rule.
        let (_, graph) = unsafe { (usable(call)?, GraphState::of(graph)?) };
        let clone = graph.clone_graph()?;
        Ok(GraphHandle::from_raw(self.graphs.insert(clone)))
    }

    unsafe fn graph_find_in_clone(
        &self,
        call: &Call<'_>,
        original: GraphNodeHandle,
        clone: GraphHandle,
    ) -> Result<GraphNodeHandle> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule.
        let (original, clone) = unsafe { (NodeState::of(original)?, GraphState::of(clone)?) };
        clone.find_copy(original.number, original.id)
    }

    unsafe fn graph_add_node(
        &self,
        call: &Call<'_>,
        graph: GraphHandle,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule, and the caller vouches for the parameters.
        unsafe { GraphState::of(graph)?.add_node(dependencies, parameters.clone()) }
    }

    unsafe fn graph_destroy_node(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<()> {
        // SAFETY: the handle rule.
        let (_, (graph, number)) = unsafe { (usable(call)?, locate(node)?) };
        graph.remove_node(number)
    }

    unsafe fn graph_node_kind(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<GraphNodeKind> {
        // SAFETY: the handle rule.
        let (_, (graph, number)) = unsafe { (usable(call)?, locate(node)?) };
        let contents = graph.lock();
        Ok(contents.node(number)?.kind())
    }

    unsafe fn graph_node_parameters(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<NodeParameters> {
        // SAFETY: the handle rule.
        let (_, (graph, number)) = unsafe { (usable(call)?, locate(node)?) };
        let contents = graph.lock();
        Ok(contents.node(number)?.action.parameters())
    }

    unsafe fn graph_node_set_parameters(
        &self,
        call: &Call<'_>,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule, and the caller vouches for the parameters.
        unsafe {
            let (graph, number) = locate(node)?;
            graph.set_parameters(number, parameters.clone())
        }
    }

    unsafe fn graph_nodes(&self, call: &Call<'_>, graph: GraphHandle) -> Result<Vec<GraphNodeHandle>> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule.
        let contents = unsafe { GraphState::of(graph) }?.lock();
        Ok(contents.nodes.values().map(|node| node.state.handle()).collect())
    }

    unsafe fn graph_root_nodes(&self, call: &Call<'_>, graph: GraphHandle) -> Result<Vec<GraphNodeHandle>> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule.
        let contents = unsafe { GraphState::of(graph) }?.lock();
        let roots = contents.nodes.values().filter(|node| node.before.is_empty());
        Ok(roots.map(|node| node.state.handle()).collect())
    }

    unsafe fn graph_edges(&self, call: &Call<'_>, graph: GraphHandle) -> Result<Vec<Edge>> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule.
        Ok(unsafe { GraphState::of(graph) }?.lock().edges())
    }

    unsafe fn graph_add_edges(&self, call: &Call<'_>, graph: GraphHandle, edges: &[Edge]) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule.
        unsafe { GraphState::of(graph)?.add_edges(edges) }
    }

    unsafe fn graph_remove_edges(&self, call: &Call<'_>, graph: GraphHandle, edges: &[Edge]) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule.
        unsafe { GraphState::of(graph)?.remove_edges(edges) }
    }

    unsafe fn graph_conditional_create(
        &self,
        call: &Call<'_>,
        graph: GraphHandle,
        default: Option<u32>,
    ) -> Result<ConditionalHandle> {
        // SAFETY: the handle rule.
        unsafe { usable(call) }?;
        // SAFETY: the handle rule.
        Ok(unsafe { GraphState::of(graph) }?.create_conditional(default))
    }

    fn graph_memory_attribute(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<u64> {
        permitted()?;
        self.shared.memory.device(device.0)?.graphs.attribute(attribute)
    }

    fn graph_memory_reset(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<()> {
        permitted()?;
        self.shared.memory.device(device.0)?.graphs.reset(attribute)
    }

    fn graph_memory_trim(&self, device: DeviceOrdinal) -> Result<()> {
        permitted()?;
        self.shared.memory.graphs.trim(self.shared.memory.device(device.0)?);
        Ok(())
    }
}
