//! Graphs made ready to be launched.

use crate::driver::HostDriver;
use crate::graph::GraphState;
use anabranch_hal::{
    ContextHandle, ExecutableGraphHandle, ExecutableGraphs, Failure, GraphHandle, GraphNodeHandle, InstantiateFlags,
    NodeParameters, Result, Status, StreamHandle,
};
use std::sync::Arc;

/// A graph made ready to be launched.
#[derive(Debug)]
pub(crate) struct ExecutableState {
    /// The graph as it was then.
    source: Arc<GraphState>,
}

impl ExecutableState {
    /// What a launch becomes where it is captured: a node with a copy of the graph that this was made from. The handle is
    /// valid as long as the executable graph.
    pub(crate) fn as_child(&self) -> NodeParameters {
        NodeParameters::Child(self.source.handle())
    }
}

impl ExecutableGraphs for HostDriver {
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
