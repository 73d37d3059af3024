//! Replacing the parameters of nodes, in graphs and in executable graphs.

use super::kernel::Attributes;
use super::node::{describe_fill, unknown_kind};
use super::{kernel, parameters};
use crate::driver::CudaDriver;
use crate::error::check;
use crate::external_semaphore::Operations;
use crate::handles::{raw_context, raw_event, raw_executable, raw_graph, raw_node};
use crate::host_work;
use crate::memory::copy;
use crate::stream::values;
use anabranch_hal::{
    ContextHandle, Detail, ExecutableGraphHandle, Failure, GraphNodeHandle, GraphNodeKind, GraphUpdateResult,
    KernelNode, Live, NodeParameters, Result, Status,
};

/// Replaces the parameters of a node of a graph.
///
/// # Safety
///
/// The objects of the handles in the parameters exist, and what the node does at each launch is sound.
pub(super) unsafe fn in_graph(
    driver: &CudaDriver,
    context: Live<'_, ContextHandle>,
    node: Live<'_, GraphNodeHandle>,
    parameters: &NodeParameters,
) -> Result<()> {
    let functions = &driver.functions;
    let (live, node) = (node, raw_node(node));
    // SAFETY: node and context are live, as their types say. The caller promises that the objects that the parameters
    // name exist, and that the node is sound. The driver copies descriptions and operations, refuses a node of another
    // kind, and the function of a host node takes any key.
    unsafe {
        check(match parameters {
            NodeParameters::Kernel(kernel) => return kernel_in_graph(driver, context, live, kernel),
            NodeParameters::Copy(copy) => functions.cuGraphMemcpyNodeSetParams(node, &copy::describe(copy)),
            NodeParameters::Fill(fill) => functions.cuGraphMemsetNodeSetParams(node, &describe_fill(fill)?),
            NodeParameters::Host(key) => functions.cuGraphHostNodeSetParams(node, &host_work::describe(*key)),
            NodeParameters::Empty => return is_empty(driver, live),
            NodeParameters::EventWait(event) => functions.cuGraphEventWaitNodeSetEvent(node, raw_event(*event)),
            NodeParameters::EventRecord(event) => functions.cuGraphEventRecordNodeSetEvent(node, raw_event(*event)),
            NodeParameters::ExternalSignal(operations) => {
                let mut raw = Operations::signals(operations)?;
                functions.cuGraphExternalSemaphoresSignalNodeSetParams(node, &raw.describe())
            }
            NodeParameters::ExternalWait(operations) => {
                let mut raw = Operations::waits(operations)?;
                functions.cuGraphExternalSemaphoresWaitNodeSetParams(node, &raw.describe())
            }
            NodeParameters::ValueOperations(operations) => {
                let mut raw = values::to_raw(operations);
                functions.cuGraphBatchMemOpNodeSetParams(node, &values::describe(context, &mut raw)?)
            }
            NodeParameters::Child(_)
            | NodeParameters::Allocate(_)
            | NodeParameters::Free(_)
            | NodeParameters::Conditional(_) => return Err(fixed(parameters)),
            other => return Err(unknown_kind(other)),
        })
    }
}

/// Replaces a kernel and its attributes, all or nothing, unless the driver refuses an attribute that it has accepted apart: then
/// the node has the new kernel, and an error is returned.
///
/// # Safety
///
/// As for [`in_graph`].
unsafe fn kernel_in_graph(
    driver: &CudaDriver,
    context: Live<'_, ContextHandle>,
    node: Live<'_, GraphNodeHandle>,
    kernel: &KernelNode,
) -> Result<()> {
    // What is read of a node of another kind is nothing.
    let (current, wanted) = (kernel::read_attributes(driver, node), Attributes::of(kernel));
    if !(current.are_defaults() && wanted.are_defaults()) {
        // SAFETY: the caller promises that the function exists, and that the node is sound.
        unsafe { kernel::check_apart(driver, context, kernel) }?;
    }
    if current.cluster.is_some() {
        // The driver would check the new grid against the old cluster.
        kernel::change_attributes(driver, node, Attributes { cluster: None, ..current })?;
    }
    let raw = kernel::describe(context, kernel);
    // SAFETY: the node is live, as its type says. The caller promises that the function exists, and that the arguments are those
    // of the kernel, which the driver copies. It refuses a node of another kind.
    let set = check(unsafe { driver.functions.cuGraphKernelNodeSetParams(raw_node(node), &raw.parameters) });
    // The driver has taken the node for a kernel node, or it keeps what it had.
    let attributes = kernel::change_attributes(driver, node, if set.is_ok() { wanted } else { current });
    match (set, attributes) {
        // The node has the new kernel.
        (Ok(()), Err(failure)) => Err(Failure { status: Status::UNKNOWN, ..failure }),
        (set, attributes) => set.and(attributes),
    }
}

/// Replaces the parameters of a node of an executable graph.
///
/// # Safety
///
/// As for [`in_graph`].
pub(super) unsafe fn in_executable(
    driver: &CudaDriver,
    context: Live<'_, ContextHandle>,
    executable: Live<'_, ExecutableGraphHandle>,
    node: Live<'_, GraphNodeHandle>,
    parameters: &NodeParameters,
) -> Result<()> {
    let functions = &driver.functions;
    let (raw, ctx) = (raw_executable(executable), raw_context(context));
    let (live, node) = (node, raw_node(node));
    // SAFETY: executable graph, node and context are live, as their types say. The caller promises that the objects
    // that the parameters name exist, and that the node is sound. The driver copies descriptions, operations and child
    // graphs, refuses a node of another kind, and the function of a host node takes any key.
    unsafe {
        check(match parameters {
            NodeParameters::Kernel(kernel) => {
                attributes_stay(driver, live, Attributes::of(kernel))?;
                let kernel = kernel::describe(context, kernel);
                functions.cuGraphExecKernelNodeSetParams(raw, node, &kernel.parameters)
            }
            NodeParameters::Copy(copy) => {
                functions.cuGraphExecMemcpyNodeSetParams(raw, node, &copy::describe(copy), ctx)
            }
            NodeParameters::Fill(fill) => {
                functions.cuGraphExecMemsetNodeSetParams(raw, node, &describe_fill(fill)?, ctx)
            }
            NodeParameters::Host(key) => functions.cuGraphExecHostNodeSetParams(raw, node, &host_work::describe(*key)),
            NodeParameters::Child(child) => functions.cuGraphExecChildGraphNodeSetParams(raw, node, raw_graph(*child)),
            NodeParameters::Empty => return is_empty(driver, live),
            NodeParameters::EventWait(event) => {
                functions.cuGraphExecEventWaitNodeSetEvent(raw, node, raw_event(*event))
            }
            NodeParameters::EventRecord(event) => {
                functions.cuGraphExecEventRecordNodeSetEvent(raw, node, raw_event(*event))
            }
            NodeParameters::ExternalSignal(operations) => {
                let mut operations = Operations::signals(operations)?;
                functions.cuGraphExecExternalSemaphoresSignalNodeSetParams(raw, node, &operations.describe())
            }
            NodeParameters::ExternalWait(operations) => {
                let mut operations = Operations::waits(operations)?;
                functions.cuGraphExecExternalSemaphoresWaitNodeSetParams(raw, node, &operations.describe())
            }
            NodeParameters::ValueOperations(operations) => {
                let mut operations = values::to_raw(operations);
                let operations = values::describe(context, &mut operations)?;
                functions.cuGraphExecBatchMemOpNodeSetParams(raw, node, &operations)
            }
            NodeParameters::Allocate(_) | NodeParameters::Free(_) | NodeParameters::Conditional(_) => {
                return Err(fixed(parameters));
            }
            other => return Err(unknown_kind(other)),
        })
    }
}

/// Refuses other attributes than those that the kernel had when the executable graph was made: they cannot be changed.
fn attributes_stay(driver: &CudaDriver, node: Live<'_, GraphNodeHandle>, wanted: Attributes) -> Result<()> {
    // What is read of a node of another kind is nothing.
    let current = kernel::read_attributes(driver, node);
    // Without a wanted priority or hint, the node keeps its own, which a capture may have given it.
    let others = wanted.others.or(&current.others);
    if current.agree(Attributes { priority: wanted.priority.or(current.priority), others, ..wanted }) {
        return Ok(());
    }
    let detail = Detail::Update { result: GraphUpdateResult::ATTRIBUTES_CHANGED, node: Some(node.handle()) };
    Err(Failure::with_detail(Status::GRAPH_EXEC_UPDATE_FAILURE, detail))
}

/// An empty node has no parameters to replace.
fn is_empty(driver: &CudaDriver, node: Live<'_, GraphNodeHandle>) -> Result<()> {
    if parameters::kind(driver, node)? == GraphNodeKind::EMPTY {
        Ok(())
    } else {
        Err(Failure::new(Status::INVALID_VALUE))
    }
}

fn fixed(parameters: &NodeParameters) -> Failure {
    let message = format!("the driver cannot change what a node of kind {} does", parameters.kind());
    Failure::argument(Status::NOT_SUPPORTED, message)
}
