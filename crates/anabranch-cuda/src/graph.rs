//! Graphs (Driver API, group GRAPH).
//!
//! Making, changing and reading nodes, and making executable graphs, binds the context, as for all where the time does not
//! matter. What asks for no more than the graph's structure does not, where the driver can do without.

pub(crate) mod edges;
mod executable;
mod kernel;
mod memory;
mod node;
mod parameters;
mod replace;

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::cuda_types::*;
use crate::handles::{graph_handle, node_handle, raw_context, raw_graph, raw_node};
use anabranch_hal::{
    AddedNode, Call, ConditionalHandle, Dependency, DeviceOrdinal, Edge, GraphHandle, GraphMemoryAttribute,
    GraphNodeHandle, GraphNodeKind, Graphs, Live, NodeParameters, Result,
};
use std::ptr;

impl Graphs for CudaDriver {
    fn graph_create(&self, call: &Call<'_>) -> Result<GraphHandle> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut graph = ptr::null_mut();
        // SAFETY: the result is written to a variable that outlives the call. There are no flags yet.
        check(unsafe { self.functions.cuGraphCreate(&mut graph, 0) })?;
        Ok(graph_handle(graph))
    }

    unsafe fn graph_destroy(&self, call: &Call<'_>, graph: GraphHandle) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        // SAFETY: the caller promises that the graph exists, and that this is the last use of it.
        check(unsafe { self.functions.cuGraphDestroy(raw_graph(graph)) })
    }

    fn graph_clone(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<GraphHandle> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut clone = ptr::null_mut();
        // SAFETY: the graph is live, as its type says.
        check(unsafe { self.functions.cuGraphClone(&mut clone, raw_graph(graph)) })?;
        Ok(graph_handle(clone))
    }

    fn graph_find_in_clone(
        &self,
        call: &Call<'_>,
        original: Live<'_, GraphNodeHandle>,
        clone: Live<'_, GraphHandle>,
    ) -> Result<GraphNodeHandle> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut node = ptr::null_mut();
        let (original, clone) = (raw_node(original), raw_graph(clone));
        // SAFETY: node and graph are live, as their types say.
        check(unsafe { self.functions.cuGraphNodeFindInClone(&mut node, original, clone) })?;
        Ok(node_handle(node))
    }

    unsafe fn graph_add_node(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        dependencies: &[Dependency],
        parameters: &NodeParameters,
    ) -> Result<AddedNode> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that nodes and objects that the parameters name exist, and that the node is
        // sound.
        unsafe { node::add(self, call.context, graph, dependencies, parameters) }
    }

    unsafe fn graph_destroy_node(&self, call: &Call<'_>, node: GraphNodeHandle) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        // SAFETY: the caller promises that the node exists, and that this is the last use of it.
        check(unsafe { self.functions.cuGraphDestroyNode(raw_node(node)) })
    }

    fn graph_node_kind(&self, call: &Call<'_>, node: Live<'_, GraphNodeHandle>) -> Result<GraphNodeKind> {
        let _bound = self.bind_for_handle(call.context)?;
        parameters::kind(self, node)
    }

    fn graph_node_parameters(&self, call: &Call<'_>, node: Live<'_, GraphNodeHandle>) -> Result<NodeParameters> {
        let _bound = self.bind(call.context)?;
        parameters::read(self, node)
    }

    unsafe fn graph_node_set_parameters(
        &self,
        call: &Call<'_>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that the objects that the parameters name exist, and that the node is sound.
        unsafe { replace::in_graph(self, call.context, node, parameters) }
    }

    fn graph_nodes(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<GraphNodeHandle>> {
        let _bound = self.bind_for_handle(call.context)?;
        list(|nodes, count| {
            // SAFETY: the graph is live, as its type says; there is room for as many nodes as stated, or none is asked
            // for.
            check(unsafe { self.functions.cuGraphGetNodes(raw_graph(graph), nodes, count) })
        })
    }

    fn graph_root_nodes(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<GraphNodeHandle>> {
        let _bound = self.bind_for_handle(call.context)?;
        let graph = raw_graph(graph);
        list(|nodes, count| {
            // SAFETY: the graph is live, as its type says; there is room for as many nodes as stated, or none is asked
            // for.
            check(unsafe { self.functions.cuGraphGetRootNodes(graph, nodes, count) })
        })
    }

    fn graph_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<Vec<Edge>> {
        let _bound = self.bind_for_handle(call.context)?;
        edges::all(self, graph)
    }

    unsafe fn graph_add_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        // SAFETY: the caller promises that the nodes of the edges exist.
        unsafe { edges::add(self, graph, edges) }
    }

    unsafe fn graph_remove_edges(&self, call: &Call<'_>, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        // SAFETY: the caller promises that the nodes of the edges exist.
        unsafe { edges::remove(self, graph, edges) }
    }

    fn graph_conditional_create(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        default: Option<u32>,
    ) -> Result<ConditionalHandle> {
        let _bound = self.bind(call.context)?;
        let flags = if default.is_some() { CU_GRAPH_COND_ASSIGN_DEFAULT } else { 0 };
        let (graph, ctx, default) = (raw_graph(graph), raw_context(call.context), default.unwrap_or(0));
        let mut handle = 0;
        // SAFETY: graph and context are live, as their types say.
        check(unsafe { self.functions.cuGraphConditionalHandleCreate(&mut handle, graph, ctx, default, flags) })?;
        Ok(ConditionalHandle(handle))
    }

    fn graph_memory_attribute(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<u64> {
        memory::attribute(self, device, attribute)
    }

    fn graph_memory_reset(&self, device: DeviceOrdinal, attribute: GraphMemoryAttribute) -> Result<()> {
        memory::reset(self, device, attribute)
    }

    fn graph_memory_trim(&self, device: DeviceOrdinal) -> Result<()> {
        memory::trim(self, device)
    }
}

/// Nodes that the driver lists: asked how many there are, then which.
fn list(ask: impl Fn(*mut CUgraphNode, &mut usize) -> Result<()>) -> Result<Vec<GraphNodeHandle>> {
    let mut count = 0;
    ask(ptr::null_mut(), &mut count)?;
    let mut nodes = vec![ptr::null_mut(); count];
    if count > 0 {
        ask(nodes.as_mut_ptr(), &mut count)?;
    }
    Ok(nodes.into_iter().take(count).map(node_handle).collect())
}

#[cfg(test)]
mod tests {
    use super::list;
    use crate::ffi::cuda_types::CUgraphNode;
    use anabranch_hal::{Failure, GraphNodeHandle, Status};
    use std::ptr;

    #[test]
    fn no_more_nodes_are_listed_than_the_driver_gives() {
        let nodes = list(|room: *mut CUgraphNode, count| {
            if room.is_null() {
                *count = 3;
            } else {
                // SAFETY: there is room for the three that were announced.
                unsafe { room.write(ptr::without_provenance_mut(0x10)) };
                *count = 1;
            }
            Ok(())
        });
        assert_eq!(nodes, Ok(vec![GraphNodeHandle::from_raw(0x10)]));
        let none = list(|room, _| if room.is_null() { Ok(()) } else { Err(Failure::new(Status::INVALID_VALUE)) });
        assert_eq!(none, Ok(Vec::new()), "the driver is not asked for nothing");
    }
}
