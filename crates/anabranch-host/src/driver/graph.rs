//! Calls on graphs, which need no device, and succeed in a context that is lost too.

use super::{HostDriver, present, usable};
use crate::error::permitted;
use crate::graph::{Adder, GraphState, NodeState, locate};
use anabranch_hal::{
    AddedNode, Call, ConditionalHandle, Dependency, DeviceOrdinal, Edge, Failure, GraphHandle, GraphMemoryAttribute,
    GraphNodeHandle, GraphNodeKind, Graphs, Live, NodeParameters, Result, Status,
};

impl Graphs for HostDriver {
    fn graph_create(&self, call: &Call<'_>) -> Result<GraphHandle> {
        let core = &present(call)?.core;
        Ok(GraphHandle::from_raw(self.graphs.insert(GraphState::new(core, &self.shared.memory))))
    }

    unsafe fn graph_destroy(&self, call: &Call<'_>, graph: GraphHandle) -> Result<()> {
        present(call)?;
        self.graphs.remove(graph.as_raw()).map(drop).ok_or(Failure::new(Status::INVALID_VALUE))
    }

    fn graph_clone(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<GraphHandle> {
        present(call)?;
        let graph = GraphState::of(graph)?;
        let clone = graph.clone_graph()?;
        Ok(GraphHandle::from_raw(self.graphs.insert(clone)))
    }

    fn graph_find_in_clone(
        &self,
        call: &Call<'_>,
        original: Live<'_, GraphNodeHandle>,
        clone: Live<'_, GraphHandle>,
    ) -> Result<GraphNodeHandle> {
        present(call)?;
        let (original, clone) = (NodeState::of(original)?, GraphState::of(clone)?);
        clone.find_copy(original.number, original.id)
    }

    unsafe fn graph_add_node(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode> {
        present(call)?;
        let graph = GraphState::of(graph)?;
        // SAFETY: the caller promises that the nodes and the objects of the handles exist, and that the node is sound.
        unsafe { graph.add_node(Adder::Call, dependencies, parameters.clone()) }
    }

    unsafe fn graph_destroy_node(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<()> {
        present(call)?;
        // SAFETY: the caller promises that the node exists.
        let (graph, number) = locate(unsafe { Live::new(node) })?;
        graph.remove_node(number)
    }

    fn graph_node_kind(&self, call: &Call<'_>, node: Live<'_, GraphNodeHandle>) -> Result<GraphNodeKind> {
        present(call)?;
        let (graph, number) = locate(node)?;
        let contents = graph.lock();
        Ok(contents.node(number)?.kind())
    }

    fn graph_node_parameters(&self, call: &Call<'_>, node: Live<'_, GraphNodeHandle>) -> Result<NodeParameters> {
        present(call)?;
        let (graph, number) = locate(node)?;
        let parameters = graph.lock().node(number)?.action.parameters();
        if let NodeParameters::Kernel(_) = parameters {
            // A lost context does not tell about kernels.
            usable(call)?;
        }
        Ok(parameters)
    }

    unsafe fn graph_node_set_parameters(
        &self,
        call: &Call<'_>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> Result<()> {
        present(call)?;
        let (graph, number) = locate(node)?;
        if let NodeParameters::Kernel(_) = parameters
            && graph.lock().node(number)?.kind() == GraphNodeKind::KERNEL
        {
            // As above. Those of another kind are refused for that.
            usable(call)?;
        }
        // SAFETY: the caller promises that the objects of the handles in the parameters exist, and that the node is sound.
        unsafe { graph.set_parameters(number, parameters.clone()) }
    }

    fn graph_nodes(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<GraphNodeHandle>> {
        present(call)?;
        let contents = GraphState::of(graph)?.lock();
        Ok(contents.nodes.values().map(|node| node.state.handle()).collect())
    }

    fn graph_root_nodes(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<GraphNodeHandle>> {
        present(call)?;
        let contents = GraphState::of(graph)?.lock();
        let roots = contents.nodes.values().filter(|node| node.before.is_empty());
        Ok(roots.map(|node| node.state.handle()).collect())
    }

    fn graph_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<Edge>> {
        present(call)?;
        Ok(GraphState::of(graph)?.lock().edges())
    }

    unsafe fn graph_add_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()> {
        present(call)?;
        // SAFETY: the caller promises that the nodes of the edges exist.
        unsafe { GraphState::of(graph)?.add_edges(edges) }
    }

    unsafe fn graph_remove_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()> {
        present(call)?;
        // SAFETY: the caller promises that the nodes of the edges exist.
        unsafe { GraphState::of(graph)?.remove_edges(edges) }
    }

    fn graph_conditional_create(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        default: Option<u32>,
    ) -> Result<ConditionalHandle> {
        present(call)?;
        GraphState::of(graph)?.create_conditional(default)
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
