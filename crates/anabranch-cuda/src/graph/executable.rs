//! Executable graphs.

use super::replace;
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::{executable_handle, node_handle, raw_executable, raw_graph, raw_node, raw_stream};
use anabranch_hal::{
    Call, Detail, ExecutableGraphHandle, ExecutableGraphs, Failure, GraphHandle, GraphInstantiateResult,
    GraphNodeHandle, GraphUpdateResult, InstantiateFlags, NodeParameters, Result, StreamHandle,
};
use std::ffi::c_uint;
use std::ptr;

impl ExecutableGraphs for CudaDriver {
    unsafe fn graph_instantiate(
        &self,
        call: &Call<'_>,
        graph: GraphHandle,
        flags: InstantiateFlags,
        upload: Option<StreamHandle>,
    ) -> Result<ExecutableGraphHandle> {
        let _bound = self.bind(call.context)?;
        let graph = raw_graph(graph);
        let mut parameters = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: u64::from(flags.bits()),
            hUploadStream: raw_stream(upload.unwrap_or(StreamHandle::NULL)),
            ..CUDA_GRAPH_INSTANTIATE_PARAMS::zeroed()
        };
        let mut executable = ptr::null_mut();
        let made =
            // SAFETY: by the handle rule graph and stream are live.
            check(unsafe { self.functions.cuGraphInstantiateWithParams(&mut executable, graph, &mut parameters) });
        made.map_err(|failure| {
            let result = GraphInstantiateResult(parameters.result_out);
            let node = some_node(parameters.hErrNode_out);
            detailed(failure, result != GraphInstantiateResult::SUCCESS, Detail::Instantiate { result, node })
        })?;
        Ok(executable_handle(executable))
    }

    unsafe fn executable_destroy(&self, call: &Call<'_>, executable: ExecutableGraphHandle) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        // SAFETY: by the handle rule it is live, and this is the last use of it.
        check(unsafe { self.functions.cuGraphExecDestroy(raw_executable(executable)) })
    }

    unsafe fn executable_flags(&self, call: &Call<'_>, executable: ExecutableGraphHandle) -> Result<InstantiateFlags> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut flags = 0;
        // SAFETY: by the handle rule it is live.
        check(unsafe { self.functions.cuGraphExecGetFlags(raw_executable(executable), &mut flags) })?;
        // The driver has fewer flags than the contract has bits.
        Ok(InstantiateFlags::from_bits_retain(flags as u32))
    }

    unsafe fn executable_upload(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        // SAFETY: by the handle rule executable graph and stream are live.
        check(unsafe { self.functions.cuGraphUpload(raw_executable(executable), raw_stream(stream)) })
    }

    #[inline]
    unsafe fn executable_launch(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (executable, stream) = (raw_executable(executable), raw_stream(stream));
            // SAFETY: by the handle rule executable graph and stream are live, and the caller vouches for what the nodes
            // do.
            check(unsafe { self.functions.cuGraphLaunch(executable, stream) })
        })
    }

    unsafe fn executable_update(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        graph: GraphHandle,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        let mut info = CUgraphExecUpdateResultInfo::zeroed();
        let (executable, graph) = (raw_executable(executable), raw_graph(graph));
        // SAFETY: by the handle rule both are live, and the caller vouches for what the nodes do.
        let updated = check(unsafe { self.functions.cuGraphExecUpdate(executable, graph, &mut info) });
        updated.map_err(|failure| {
            let result = GraphUpdateResult(info.result);
            let detail = Detail::Update { result, node: some_node(info.errorNode) };
            detailed(failure, result != GraphUpdateResult::SUCCESS, detail)
        })
    }

    unsafe fn executable_set_node_parameters(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller vouches for everything, and the context is current.
        unsafe { replace::in_executable(self, call.context, executable, raw_node(node), parameters) }
    }

    unsafe fn executable_set_node_enabled(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        enabled: bool,
    ) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        let (executable, node) = (raw_executable(executable), raw_node(node));
        // SAFETY: by the handle rule both are live, and the caller vouches for what the nodes then do.
        check(unsafe { self.functions.cuGraphNodeSetEnabled(executable, node, c_uint::from(enabled)) })
    }

    unsafe fn executable_node_enabled(
        &self,
        call: &Call<'_>,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
    ) -> Result<bool> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut enabled = 0;
        let (executable, node) = (raw_executable(executable), raw_node(node));
        // SAFETY: by the handle rule both are live.
        check(unsafe { self.functions.cuGraphNodeGetEnabled(executable, node, &mut enabled) })?;
        Ok(enabled != 0)
    }
}

fn some_node(node: CUgraphNode) -> Option<GraphNodeHandle> {
    (!node.is_null()).then(|| node_handle(node))
}

/// A failure with the reason that the driver gives, where it gives one and the failure has no detail yet.
fn detailed(failure: Failure, says: bool, detail: Detail) -> Failure {
    if says && failure.detail.is_none() { Failure::with_detail(failure.status, detail) } else { failure }
}
