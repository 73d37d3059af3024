//! Graphs made ready to be launched.

use super::host_node::HOST_NODES;
use super::kept::{self, Lent};
use super::replace;
use crate::driver::CudaDriver;
use crate::dropping::DROPS;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::{executable_handle, node_handle, raw_executable, raw_graph, raw_node, raw_stream};
use crate::panics::Place;
use anabranch_hal::{
    ContextHandle, Detail, ExecutableGraphHandle, ExecutableGraphs, Failure, GraphHandle, GraphInstantiateResult,
    GraphNodeHandle, GraphUpdateResult, InstantiateFlags, NodeParameters, Result, StreamHandle, Streams,
};
use std::ffi::c_uint;
use std::ptr;

impl ExecutableGraphs for CudaDriver {
    unsafe fn graph_instantiate(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        flags: InstantiateFlags,
        upload: Option<StreamHandle>,
    ) -> Result<ExecutableGraphHandle> {
        let _bound = self.bind(context)?;
        let graph = raw_graph(graph);
        let mut parameters = CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags: u64::from(flags.bits()),
            hUploadStream: raw_stream(upload.unwrap_or(StreamHandle::NULL)),
            ..CUDA_GRAPH_INSTANTIATE_PARAMS::zeroed()
        };
        // SAFETY: by the handle rule the graph is live.
        let lent = unsafe { Lent::new(self, graph) }?;
        let mut executable = ptr::null_mut();
        let made =
            // SAFETY: by the handle rule graph and stream are live; the results are written to variables that outlive the
            // call.
            check(unsafe { self.functions.cuGraphInstantiateWithParams(&mut executable, graph, &mut parameters) });
        made.map_err(|failure| {
            let result = GraphInstantiateResult(parameters.result_out);
            let node = some_node(parameters.hErrNode_out);
            detailed(failure, result != GraphInstantiateResult::SUCCESS, Detail::Instantiate { result, node })
        })?;
        let executable = executable_handle(executable);
        if let Some(lent) = lent {
            // SAFETY: no other thread uses the graph, and nothing was done to it since.
            unsafe { lent.belongs_to(self, executable) };
        }
        Ok(executable)
    }

    unsafe fn executable_destroy(&self, context: ContextHandle, executable: ExecutableGraphHandle) -> Result<()> {
        let _bound = self.bind_for_handle(context)?;
        kept::forget(executable);
        // SAFETY: by the handle rule it is live, and this is the last use of it.
        let destroyed = check(unsafe { self.functions.cuGraphExecDestroy(raw_executable(executable)) });
        DROPS.drop_unattended();
        destroyed
    }

    unsafe fn executable_flags(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
    ) -> Result<InstantiateFlags> {
        let _bound = self.bind_for_handle(context)?;
        let mut flags = 0;
        // SAFETY: by the handle rule it is live; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuGraphExecGetFlags(raw_executable(executable), &mut flags) })?;
        // The driver has fewer flags than the contract has bits.
        Ok(InstantiateFlags::from_bits_retain(flags as u32))
    }

    unsafe fn executable_upload(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        let _bound = self.bind_for_stream(context, stream)?;
        // SAFETY: by the handle rule executable graph and stream are live.
        check(unsafe { self.functions.cuGraphUpload(raw_executable(executable), raw_stream(stream)) })
    }

    #[inline]
    unsafe fn executable_launch(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        self.call_on_stream(context, stream, move || {
            // Before the launch, because a host node may run and panic at once. Without a number, a panic is reported to
            // the context.
            if HOST_NODES.any() {
                // SAFETY: the caller keeps the handle rule.
                if let Ok(id) = unsafe { self.stream_id(context, stream) } {
                    kept::launched(executable, Place { context, stream: Some(id) });
                }
            }
            let (executable, stream) = (raw_executable(executable), raw_stream(stream));
            // SAFETY: by the handle rule executable graph and stream are live, and the caller vouches for what the nodes
            // do.
            check(unsafe { self.functions.cuGraphLaunch(executable, stream) })
        })
    }

    unsafe fn executable_update(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        graph: GraphHandle,
    ) -> Result<()> {
        let _bound = self.bind(context)?;
        let graph = raw_graph(graph);
        let mut info = CUgraphExecUpdateResultInfo::zeroed();
        let update =
            // SAFETY: by the handle rule both are live; the result is written to a variable that outlives the call, and
            // the caller vouches for what the nodes do.
            || check(unsafe { self.functions.cuGraphExecUpdate(raw_executable(executable), graph, &mut info) });
        // SAFETY: by the handle rule both are live.
        let updated = unsafe { kept::while_lent(self, executable, graph, update) };
        updated.map_err(|failure| {
            let result = GraphUpdateResult(info.result);
            let detail = Detail::Update { result, node: some_node(info.errorNode) };
            detailed(failure, result != GraphUpdateResult::SUCCESS, detail)
        })
    }

    unsafe fn executable_set_node_parameters(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()> {
        let _bound = self.bind(context)?;
        // SAFETY: the caller vouches for everything, and the context is current.
        unsafe { replace::in_executable(self, context, executable, raw_node(node), parameters) }
    }

    unsafe fn executable_set_node_enabled(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        enabled: bool,
    ) -> Result<()> {
        let _bound = self.bind_for_handle(context)?;
        let (executable, node) = (raw_executable(executable), raw_node(node));
        // SAFETY: by the handle rule both are live, and the caller vouches for what the nodes then do.
        check(unsafe { self.functions.cuGraphNodeSetEnabled(executable, node, c_uint::from(enabled)) })
    }

    unsafe fn executable_node_enabled(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
    ) -> Result<bool> {
        let _bound = self.bind_for_handle(context)?;
        let mut enabled = 0;
        let (executable, node) = (raw_executable(executable), raw_node(node));
        // SAFETY: by the handle rule both are live; the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuGraphNodeGetEnabled(executable, node, &mut enabled) })?;
        Ok(enabled != 0)
    }
}

fn some_node(node: CUgraphNode) -> Option<GraphNodeHandle> {
    (!node.is_null()).then(|| node_handle(node))
}

/// A failure with what the driver says of it, unless it says nothing, or the function is missing.
fn detailed(failure: Failure, says: bool, detail: Detail) -> Failure {
    if says && failure.detail.is_none() { Failure::with_detail(failure.status, detail) } else { failure }
}
