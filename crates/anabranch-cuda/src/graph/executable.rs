//! Executable graphs.

use super::replace;
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::{executable_handle, node_handle, raw_executable, raw_graph, raw_node, raw_stream};
use anabranch_hal::{
    Call, Detail, ExecutableGraphHandle, ExecutableGraphs, Failure, GraphHandle, GraphInstantiateResult,
    GraphNodeHandle, GraphUpdateResult, InstantiateFlags, Live, NodeParameters, Result, StreamHandle,
};
use std::ffi::c_uint;
use std::ptr;

impl ExecutableGraphs for CudaDriver {
    fn graph_instantiate(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        flags: InstantiateFlags,
        upload: Option<Live<'_, StreamHandle>>,
    ) -> Result<ExecutableGraphHandle> {
        let _bound = self.bind(call.context)?;
        let graph = raw_graph(graph);
        let mut parameters = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: u64::from(flags.bits()),
            hUploadStream: raw_stream(upload.unwrap_or(Live::<StreamHandle>::NULL)),
            ..CUDA_GRAPH_INSTANTIATE_PARAMS::zeroed()
        };
        let mut executable = ptr::null_mut();
        let made =
            // SAFETY: graph and stream are live, as their types say.
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
        // SAFETY: the caller promises that the executable graph exists, and that this is the last use of it.
        check(unsafe { self.functions.cuGraphExecDestroy(raw_executable(executable)) })
    }

    fn executable_flags(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
    ) -> Result<InstantiateFlags> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut flags = 0;
        // SAFETY: the executable graph is live, as its type says.
        check(unsafe { self.functions.cuGraphExecGetFlags(raw_executable(executable), &mut flags) })?;
        // The driver has fewer flags than the contract has bits.
        Ok(InstantiateFlags::from_bits_retain(flags as u32))
    }

    fn executable_upload(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(call.context, stream)?;
        // SAFETY: executable graph and stream are live, as their types say.
        check(unsafe { self.functions.cuGraphUpload(raw_executable(executable), raw_stream(stream)) })
    }

    #[inline]
    unsafe fn executable_launch(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        self.call_on_stream(call.context, stream, move || {
            let (executable, stream) = (raw_executable(executable), raw_stream(stream));
            // SAFETY: executable graph and stream are live, as their types say, and the caller promises that what the
            // nodes do is sound until the launch is complete.
            check(unsafe { self.functions.cuGraphLaunch(executable, stream) })
        })
    }

    unsafe fn executable_update(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        graph: Live<'_, GraphHandle>,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        let mut info = CUgraphExecUpdateResultInfo::zeroed();
        let (executable, graph) = (raw_executable(executable), raw_graph(graph));
        // SAFETY: both are live, as their types say, and the caller promises that what the nodes do is sound.
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
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that the objects that the parameters name exist, and that the node is sound.
        unsafe { replace::in_executable(self, call.context, executable, node, parameters) }
    }

    unsafe fn executable_set_node_enabled(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        enabled: bool,
    ) -> Result<()> {
        let _bound = self.bind_for_handle(call.context)?;
        let (executable, node) = (raw_executable(executable), raw_node(node));
        // SAFETY: both are live, as their types say, and the caller promises that what the nodes then do is sound.
        check(unsafe { self.functions.cuGraphNodeSetEnabled(executable, node, c_uint::from(enabled)) })
    }

    fn executable_node_enabled(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
    ) -> Result<bool> {
        let _bound = self.bind_for_handle(call.context)?;
        let mut enabled = 0;
        let (executable, node) = (raw_executable(executable), raw_node(node));
        // SAFETY: both are live, as their types say.
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
