//! Replacing the parameters of nodes, in graphs and in executable graphs.

use super::host_node::HostNode;
use super::kernel::Attributes;
use super::node::{describe_fill, describe_host, unknown_kind};
use super::{kept, kernel, parameters, values};
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::cuda_types::*;
use crate::handles::{node_handle, raw_context, raw_event, raw_executable, raw_graph};
use crate::memory::copy;
use anabranch_hal::{
    ContextHandle, Detail, ExecutableGraphHandle, Failure, GraphNodeKind, GraphUpdateResult, NodeParameters,
    RepeatableWork, Result, Status,
};
use std::sync::Arc;

/// Replaces the parameters of a node of a graph.
///
/// # Safety
///
/// The handle rule, for the parameters too, the context is current, and what the node does at each launch is sound.
pub(super) unsafe fn in_graph(
    driver: &CudaDriver,
    context: ContextHandle,
    node: CUgraphNode,
    parameters: &NodeParameters,
) -> Result<()> {
    let functions = &driver.functions;
    match parameters {
        NodeParameters::Kernel(kernel) => {
            let raw = kernel::describe(context, kernel);
            // SAFETY: the caller vouches for the node, for the arguments and for what the kernel does; the driver copies the
            // arguments, which outlive the call, and refuses a node of another kind.
            check(unsafe { functions.cuGraphKernelNodeSetParams(node, &raw.parameters) })?;
            // SAFETY: the driver has taken the node for a kernel node.
            unsafe { kernel::change_attributes(driver, node, Attributes::of(kernel)) }
        }
        NodeParameters::Copy(copy) => {
            let copy = copy::describe(copy);
            // SAFETY: the caller vouches for the node and for what the copy does; the description outlives the call.
            check(unsafe { functions.cuGraphMemcpyNodeSetParams(node, &copy) })
        }
        NodeParameters::Fill(fill) => {
            let fill = describe_fill(fill)?;
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphMemsetNodeSetParams(node, &fill) })
        }
        // SAFETY: the caller vouches for the node.
        NodeParameters::Host(work) => unsafe { host_in_graph(driver, context, node, work) },
        // SAFETY: the caller vouches for the node.
        NodeParameters::Empty => unsafe { is_empty(driver, node) },
        NodeParameters::EventWait(event) => {
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphEventWaitNodeSetEvent(node, raw_event(*event)) })
        }
        NodeParameters::EventRecord(event) => {
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphEventRecordNodeSetEvent(node, raw_event(*event)) })
        }
        NodeParameters::ValueOperations(operations) => {
            let mut raw = values::to_raw(operations);
            let raw = values::describe(context, &mut raw)?;
            // SAFETY: as for a copy; the description says how many operations there are.
            check(unsafe { functions.cuGraphBatchMemOpNodeSetParams(node, &raw) })
        }
        NodeParameters::Child(_)
        | NodeParameters::Allocate(_)
        | NodeParameters::Free(_)
        | NodeParameters::Conditional(_) => Err(fixed(parameters)),
        other => Err(unknown_kind(other)),
    }
}

/// Replaces the parameters of a node of an executable graph.
///
/// # Safety
///
/// As for [`in_graph`].
pub(super) unsafe fn in_executable(
    driver: &CudaDriver,
    context: ContextHandle,
    executable: ExecutableGraphHandle,
    node: CUgraphNode,
    parameters: &NodeParameters,
) -> Result<()> {
    let functions = &driver.functions;
    let (raw, ctx) = (raw_executable(executable), raw_context(context));
    match parameters {
        NodeParameters::Kernel(kernel) => {
            // SAFETY: the caller vouches for the node.
            unsafe { attributes_stay(driver, node, Attributes::of(kernel)) }?;
            let kernel = kernel::describe(context, kernel);
            // SAFETY: the caller vouches for the handles, for the arguments and for what the kernel does; the driver copies
            // the arguments, which outlive the call, and refuses a node of another kind.
            check(unsafe { functions.cuGraphExecKernelNodeSetParams(raw, node, &kernel.parameters) })
        }
        NodeParameters::Copy(copy) => {
            let copy = copy::describe(copy);
            // SAFETY: the caller vouches for the handles and for what the copy does; the description outlives the call.
            check(unsafe { functions.cuGraphExecMemcpyNodeSetParams(raw, node, &copy, ctx) })
        }
        NodeParameters::Fill(fill) => {
            let fill = describe_fill(fill)?;
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphExecMemsetNodeSetParams(raw, node, &fill, ctx) })
        }
        NodeParameters::Host(work) => {
            let host = HostNode::new(context, work.clone());
            // Before the driver is given the address, because it must never have one that nothing keeps.
            kept::keep(executable, Arc::clone(&host))?;
            let host = describe_host(&host);
            // SAFETY: the caller vouches for the handles; the function takes any address, and what is at this one is kept.
            check(unsafe { functions.cuGraphExecHostNodeSetParams(raw, node, &host) })
        }
        NodeParameters::Child(child) => {
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphExecChildGraphNodeSetParams(raw, node, raw_graph(*child)) })
        }
        // SAFETY: the caller vouches for the node.
        NodeParameters::Empty => unsafe { is_empty(driver, node) },
        NodeParameters::EventWait(event) => {
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphExecEventWaitNodeSetEvent(raw, node, raw_event(*event)) })
        }
        NodeParameters::EventRecord(event) => {
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphExecEventRecordNodeSetEvent(raw, node, raw_event(*event)) })
        }
        NodeParameters::ValueOperations(operations) => {
            let mut operations = values::to_raw(operations);
            let operations = values::describe(context, &mut operations)?;
            // SAFETY: as for a copy; the description says how many operations there are.
            check(unsafe { functions.cuGraphExecBatchMemOpNodeSetParams(raw, node, &operations) })
        }
        NodeParameters::Allocate(_) | NodeParameters::Free(_) | NodeParameters::Conditional(_) => {
            Err(fixed(parameters))
        }
        other => Err(unknown_kind(other)),
    }
}

/// Puts other work into a host node. It is kept by the work that is there now, which the graph keeps.
///
/// # Safety
///
/// The node is live.
unsafe fn host_in_graph(
    driver: &CudaDriver,
    context: ContextHandle,
    node: CUgraphNode,
    work: &RepeatableWork,
) -> Result<()> {
    // SAFETY: the caller vouches for the node.
    let Some(current) = unsafe { parameters::host(driver, node) }? else {
        let message = "the host function was added by another library, and nothing would keep another in its place";
        return Err(Failure::argument(Status::NOT_SUPPORTED, message));
    };
    let successor = current.successor(context, work.clone());
    let raw = describe_host(&successor);
    current.keep(successor);
    // SAFETY: as above; the function takes any address, and what is at this one is kept.
    check(unsafe { driver.functions.cuGraphHostNodeSetParams(node, &raw) })
}

/// An executable graph keeps the attributes that its kernels had when it was made.
///
/// # Safety
///
/// The node is live.
unsafe fn attributes_stay(driver: &CudaDriver, node: CUgraphNode, wanted: Attributes) -> Result<()> {
    // SAFETY: the caller vouches for the node; what is read of a node of another kind is nothing.
    let current = unsafe { kernel::read_attributes(driver, node) };
    // A priority that is not asked for stays what it is.
    if current.agree(Attributes { priority: wanted.priority.or(current.priority), ..wanted }) {
        return Ok(());
    }
    let detail = Detail::Update { result: GraphUpdateResult::ATTRIBUTES_CHANGED, node: Some(node_handle(node)) };
    Err(Failure::with_detail(Status::GRAPH_EXEC_UPDATE_FAILURE, detail))
}

/// An empty node has no parameters to replace.
///
/// # Safety
///
/// The node is live.
unsafe fn is_empty(driver: &CudaDriver, node: CUgraphNode) -> Result<()> {
    // SAFETY: the caller vouches for the node.
    let kind = unsafe { parameters::kind(driver, node) }?;
    if kind == GraphNodeKind::EMPTY { Ok(()) } else { Err(Failure::new(Status::INVALID_VALUE)) }
}

fn fixed(parameters: &NodeParameters) -> Failure {
    let message = format!("the driver cannot change what a node of kind {} does", parameters.kind());
    Failure::argument(Status::NOT_SUPPORTED, message)
}
