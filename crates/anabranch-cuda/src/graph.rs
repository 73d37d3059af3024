//! Graphs.

use crate::driver::CudaDriver;
use anabranch_hal::{
    AddedNode, ConditionalHandle, ContextHandle, Dependency, DeviceOrdinal, Edge, ExecutableGraphHandle,
    ExecutableGraphs, Failure, GraphHandle, GraphMemoryAttribute, GraphNodeHandle, GraphNodeKind, Graphs,
    InstantiateFlags, NodeParameters, Result, Retained, Status, StreamHandle,
};

impl Graphs for CudaDriver {
    unsafe fn graph_create(&self, _: ContextHandle) -> Result<GraphHandle> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_destroy(&self, _: ContextHandle, _: GraphHandle) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_clone(&self, _: ContextHandle, _: GraphHandle) -> Result<GraphHandle> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_find_in_clone(
        &self,
        _: ContextHandle,
        _: GraphNodeHandle,
        _: GraphHandle,
    ) -> Result<GraphNodeHandle> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_retain(&self, _: ContextHandle, _: GraphHandle, _: Retained) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_add_node(
        &self,
        _: ContextHandle,
        _: GraphHandle,
        _: &[Dependency],
        _: &NodeParameters,
    ) -> Result<AddedNode> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_destroy_node(&self, _: ContextHandle, _: GraphNodeHandle) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_node_kind(&self, _: ContextHandle, _: GraphNodeHandle) -> Result<GraphNodeKind> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_node_parameters(&self, _: ContextHandle, _: GraphNodeHandle) -> Result<NodeParameters> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_node_set_parameters(&self, _: ContextHandle, _: GraphNodeHandle, _: &NodeParameters) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_nodes(&self, _: ContextHandle, _: GraphHandle) -> Result<Vec<GraphNodeHandle>> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_root_nodes(&self, _: ContextHandle, _: GraphHandle) -> Result<Vec<GraphNodeHandle>> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_edges(&self, _: ContextHandle, _: GraphHandle) -> Result<Vec<Edge>> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_add_edges(&self, _: ContextHandle, _: GraphHandle, _: &[Edge]) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_remove_edges(&self, _: ContextHandle, _: GraphHandle, _: &[Edge]) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn graph_conditional_create(
        &self,
        _: ContextHandle,
        _: GraphHandle,
        _: Option<u32>,
    ) -> Result<ConditionalHandle> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    fn graph_memory_attribute(&self, _: DeviceOrdinal, _: GraphMemoryAttribute) -> Result<u64> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    fn graph_memory_reset(&self, _: DeviceOrdinal, _: GraphMemoryAttribute) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    fn graph_memory_trim(&self, _: DeviceOrdinal) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }
}

impl ExecutableGraphs for CudaDriver {
    unsafe fn graph_instantiate(
        &self,
        _: ContextHandle,
        _: GraphHandle,
        _: InstantiateFlags,
        _: Option<StreamHandle>,
    ) -> Result<ExecutableGraphHandle> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn executable_destroy(&self, _: ContextHandle, _: ExecutableGraphHandle) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn executable_flags(&self, _: ContextHandle, _: ExecutableGraphHandle) -> Result<InstantiateFlags> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn executable_upload(&self, _: ContextHandle, _: ExecutableGraphHandle, _: StreamHandle) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn executable_launch(&self, _: ContextHandle, _: ExecutableGraphHandle, _: StreamHandle) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn executable_update(&self, _: ContextHandle, _: ExecutableGraphHandle, _: GraphHandle) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn executable_set_node_parameters(
        &self,
        _: ContextHandle,
        _: ExecutableGraphHandle,
        _: GraphNodeHandle,
        _: &NodeParameters,
    ) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn executable_set_node_enabled(
        &self,
        _: ContextHandle,
        _: ExecutableGraphHandle,
        _: GraphNodeHandle,
        _: bool,
    ) -> Result<()> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn executable_node_enabled(
        &self,
        _: ContextHandle,
        _: ExecutableGraphHandle,
        _: GraphNodeHandle,
    ) -> Result<bool> {
        Err(Failure::new(Status::NOT_SUPPORTED))
    }
}
