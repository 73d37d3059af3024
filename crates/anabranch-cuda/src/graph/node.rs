//! Adding nodes.

use super::{kernel, memory};
use crate::driver::CudaDriver;
use crate::error::check;
use crate::external_semaphore::Operations;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::graph::edges::RawDependencies;
use crate::handles::{graph_handle, node_handle, raw_context, raw_event, raw_graph, raw_node};
use crate::host_work;
use crate::memory::copy;
use crate::stream::values;
use anabranch_hal::{
    AddedNode, ConditionalKind, ConditionalNode, ContextHandle, Dependency, DevicePointer, Failure, FillNode,
    FillPattern, GraphHandle, Live, NodeParameters, Result, Status,
};
use std::ptr;

/// Where a node goes: the graph, and the nodes that it depends on.
struct Place<'a> {
    driver: &'a CudaDriver,
    context: Live<'a, ContextHandle>,
    graph: Live<'a, GraphHandle>,
    /// The caller of [`add`] promises that they exist.
    dependencies: RawDependencies,
}

/// Adds a node, or nothing, unless the driver refuses an attribute that it has accepted apart, and to remove the node.
///
/// # Safety
///
/// The nodes of `dependencies` and the objects of the handles in the parameters exist, and what the node does at each launch is
/// sound.
pub(super) unsafe fn add(
    driver: &CudaDriver,
    context: Live<'_, ContextHandle>,
    graph: Live<'_, GraphHandle>,
    dependencies: &[Dependency],
    parameters: &NodeParameters,
) -> Result<AddedNode> {
    let place = Place { driver, context, graph, dependencies: RawDependencies::new(dependencies) };
    let NodeParameters::Kernel(kernel) = parameters else {
        // SAFETY: the caller promises that the nodes and the objects that the parameters name exist, and that the node is
        // sound.
        return unsafe { place.add(parameters) };
    };
    let attributes = kernel::Attributes::of(kernel);
    if !attributes.are_defaults() {
        // SAFETY: the caller promises that the function exists, and that the node is sound.
        unsafe { kernel::check_apart(driver, context, kernel) }?;
    }
    // SAFETY: the caller promises that the nodes and the function exist, and that the node is sound.
    let added = unsafe { place.add(parameters) }?;
    // SAFETY: the node was added just now, to a graph that no other thread uses.
    let set = kernel::set_attributes(driver, unsafe { Live::new(added.node) }, attributes);
    if let Err(failure) = set {
        // SAFETY: the node was added above, and nobody else knows it.
        let destroyed = check(unsafe { driver.functions.cuGraphDestroyNode(raw_node(added.node)) });
        // Else the node is there, and uses what it was given.
        return Err(if destroyed.is_ok() { failure } else { Failure { status: Status::UNKNOWN, ..failure } });
    }
    Ok(added)
}

impl Place<'_> {
    /// Adds a node without the attributes that a kernel has.
    ///
    /// # Safety
    ///
    /// As for the function [`add`].
    unsafe fn add(&self, parameters: &NodeParameters) -> Result<AddedNode> {
        // The function for each kind is in every driver, but takes no data of edges, and knows no conditional nodes.
        let needs_any = self.dependencies.has_data() || matches!(parameters, NodeParameters::Conditional(_));
        // SAFETY: the caller promises that the nodes and the objects that the parameters name exist, and that the node is
        // sound.
        unsafe { if needs_any { self.add_any(parameters) } else { self.add_plain(parameters) } }
    }

    /// Adds a node by the function for its kind.
    ///
    /// # Safety
    ///
    /// As for the function [`add`]. The edges have no data.
    unsafe fn add_plain(&self, parameters: &NodeParameters) -> Result<AddedNode> {
        let Self { driver, context, graph, dependencies: RawDependencies { ref nodes, .. } } = *self;
        let (functions, graph) = (&driver.functions, raw_graph(graph));
        let mut node = ptr::null_mut();
        let (first, count, ctx) = (nodes.as_ptr(), nodes.len(), raw_context(context));
        // SAFETY: graph and context are live, as their types say. The caller promises that the nodes and the objects
        // that the parameters name exist, and that the node is sound. There are as many nodes as stated. The driver
        // copies descriptions, operations and child graphs; it refuses to free what no graph allocates; and the
        // function of a host node takes any key.
        unsafe {
            check(match parameters {
                NodeParameters::Kernel(kernel) => {
                    let raw = kernel::describe(context, kernel);
                    functions.cuGraphAddKernelNode(&mut node, graph, first, count, &raw.parameters)
                }
                NodeParameters::Allocate(allocation) => {
                    let access = memory::access(driver, allocation)?;
                    let mut raw = memory::describe(driver, allocation, &access)?;
                    check(functions.cuGraphAddMemAllocNode(&mut node, graph, first, count, &mut raw))?;
                    return Ok(AddedNode { address: Some(DevicePointer(raw.dptr)), ..added(node) });
                }
                NodeParameters::Copy(copy) => {
                    functions.cuGraphAddMemcpyNode(&mut node, graph, first, count, &copy::describe(copy), ctx)
                }
                NodeParameters::Fill(fill) => {
                    functions.cuGraphAddMemsetNode(&mut node, graph, first, count, &describe_fill(fill)?, ctx)
                }
                NodeParameters::Host(key) => {
                    functions.cuGraphAddHostNode(&mut node, graph, first, count, &host_work::describe(*key))
                }
                NodeParameters::Child(child) => {
                    functions.cuGraphAddChildGraphNode(&mut node, graph, first, count, raw_graph(*child))
                }
                NodeParameters::Empty => functions.cuGraphAddEmptyNode(&mut node, graph, first, count),
                NodeParameters::EventWait(event) => {
                    functions.cuGraphAddEventWaitNode(&mut node, graph, first, count, raw_event(*event))
                }
                NodeParameters::EventRecord(event) => {
                    functions.cuGraphAddEventRecordNode(&mut node, graph, first, count, raw_event(*event))
                }
                NodeParameters::ExternalSignal(operations) => {
                    let mut raw = Operations::signals(operations)?;
                    functions.cuGraphAddExternalSemaphoresSignalNode(&mut node, graph, first, count, &raw.describe())
                }
                NodeParameters::ExternalWait(operations) => {
                    let mut raw = Operations::waits(operations)?;
                    functions.cuGraphAddExternalSemaphoresWaitNode(&mut node, graph, first, count, &raw.describe())
                }
                NodeParameters::Free(address) => {
                    functions.cuGraphAddMemFreeNode(&mut node, graph, first, count, address.0)
                }
                NodeParameters::ValueOperations(operations) => {
                    let mut raw = values::to_raw(operations);
                    let raw = values::describe(context, &mut raw)?;
                    functions.cuGraphAddBatchMemOpNode(&mut node, graph, first, count, &raw)
                }
                other => return Err(unknown_kind(other)),
            })
        }?;
        Ok(added(node))
    }

    /// Adds a node by the function for all kinds, which came with the data of edges.
    ///
    /// # Safety
    ///
    /// As for the function [`add`].
    unsafe fn add_any(&self, parameters: &NodeParameters) -> Result<AddedNode> {
        let Self { driver, context, graph, ref dependencies } = *self;
        let ctx = raw_context(context);
        // What descriptions point to, which outlives the call.
        let (kernel, access, mut operations, mut signals, mut waits);
        let mut raw = CUgraphNodeParams::zeroed();
        let description = &mut raw.__bindgen_anon_1;
        raw.type_ = match parameters {
            NodeParameters::Kernel(node) => {
                kernel = kernel::describe(context, node);
                description.kernel = kernel::to_newest(&kernel.parameters);
                CU_GRAPH_NODE_TYPE_KERNEL
            }
            NodeParameters::Copy(copy) => {
                let copy = copy::describe(copy);
                description.memcpy =
                    CUDA_MEMCPY_NODE_PARAMS { copyCtx: ctx, copyParams: copy, ..CUDA_MEMCPY_NODE_PARAMS::zeroed() };
                CU_GRAPH_NODE_TYPE_MEMCPY
            }
            NodeParameters::Fill(fill) => {
                let CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height } = describe_fill(fill)?;
                description.memset = CUDA_MEMSET_NODE_PARAMS_v2 { dst, pitch, value, elementSize, width, height, ctx };
                CU_GRAPH_NODE_TYPE_MEMSET
            }
            NodeParameters::Host(key) => {
                let CUDA_HOST_NODE_PARAMS { fn_, userData } = host_work::describe(*key);
                description.host = CUDA_HOST_NODE_PARAMS_v2 { fn_, userData, ..CUDA_HOST_NODE_PARAMS_v2::zeroed() };
                CU_GRAPH_NODE_TYPE_HOST
            }
            NodeParameters::Child(child) => {
                // Zero stands for a copy of the graph.
                description.graph =
                    CUDA_CHILD_GRAPH_NODE_PARAMS { graph: raw_graph(*child), ..CUDA_CHILD_GRAPH_NODE_PARAMS::zeroed() };
                CU_GRAPH_NODE_TYPE_GRAPH
            }
            NodeParameters::Empty => CU_GRAPH_NODE_TYPE_EMPTY,
            NodeParameters::EventWait(event) => {
                description.eventWait = CUDA_EVENT_WAIT_NODE_PARAMS { event: raw_event(*event) };
                CU_GRAPH_NODE_TYPE_WAIT_EVENT
            }
            NodeParameters::EventRecord(event) => {
                description.eventRecord = CUDA_EVENT_RECORD_NODE_PARAMS {
                    event: raw_event(*event),
                    ..CUDA_EVENT_RECORD_NODE_PARAMS::zeroed()
                };
                CU_GRAPH_NODE_TYPE_EVENT_RECORD
            }
            NodeParameters::ExternalSignal(semaphores) => {
                signals = Operations::signals(semaphores)?;
                let CUDA_EXT_SEM_SIGNAL_NODE_PARAMS { extSemArray, paramsArray, numExtSems } = signals.describe();
                // Zero stands for the current context.
                description.extSemSignal = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {
                    extSemArray,
                    paramsArray,
                    numExtSems,
                    ..CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2::zeroed()
                };
                CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL
            }
            NodeParameters::ExternalWait(semaphores) => {
                waits = Operations::waits(semaphores)?;
                let CUDA_EXT_SEM_WAIT_NODE_PARAMS { extSemArray, paramsArray, numExtSems } = waits.describe();
                description.extSemWait = CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {
                    extSemArray,
                    paramsArray,
                    numExtSems,
                    ..CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2::zeroed()
                };
                CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT
            }
            NodeParameters::Allocate(allocation) => {
                access = memory::access(driver, allocation)?;
                description.alloc = memory::to_newest(&memory::describe(driver, allocation, &access)?);
                CU_GRAPH_NODE_TYPE_MEM_ALLOC
            }
            NodeParameters::Free(address) => {
                description.free = CUDA_MEM_FREE_NODE_PARAMS { dptr: address.0 };
                CU_GRAPH_NODE_TYPE_MEM_FREE
            }
            NodeParameters::ValueOperations(values) => {
                operations = values::to_raw(values);
                let CUDA_BATCH_MEM_OP_NODE_PARAMS { ctx, count, paramArray, flags } =
                    values::describe(context, &mut operations)?;
                description.memOp = CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 { ctx, count, paramArray, flags };
                CU_GRAPH_NODE_TYPE_BATCH_MEM_OP
            }
            NodeParameters::Conditional(node) => {
                description.conditional = describe_conditional(node, ctx);
                CU_GRAPH_NODE_TYPE_CONDITIONAL
            }
            other => return Err(unknown_kind(other)),
        };
        let mut node = ptr::null_mut();
        // SAFETY: the graph is live, as its type says. The caller promises that the nodes and the objects that the
        // parameters name exist, and that the node is sound. There are as many nodes as stated, and as many data or none. The
        // parameters are those of the type that they name, and what they point to outlives the call.
        check(unsafe {
            driver.functions.cuGraphAddNode(
                &mut node,
                raw_graph(graph),
                dependencies.nodes.as_ptr(),
                dependencies.data(),
                dependencies.nodes.len(),
                &mut raw,
            )
        })?;
        let added = added(node);
        Ok(match parameters {
            NodeParameters::Allocate(_) => {
                // SAFETY: this is the member that was written above, and that the driver has added to.
                let address = unsafe { raw.__bindgen_anon_1.alloc }.dptr;
                AddedNode { address: Some(DevicePointer(address)), ..added }
            }
            NodeParameters::Conditional(node) => {
                // SAFETY: this is the member that was written above, and that the driver has added to.
                let bodies = unsafe { raw.__bindgen_anon_1.conditional }.phGraph_out;
                // SAFETY: the driver's array has a graph for each body that was asked for, and stays as long as the node.
                let bodies = unsafe { bodies_at(bodies, node.body_count) };
                AddedNode { bodies, ..added }
            }
            _ => added,
        })
    }
}

/// The driver's description of a conditional node.
fn describe_conditional(node: &ConditionalNode, ctx: CUcontext) -> CUDA_CONDITIONAL_NODE_PARAMS {
    CUDA_CONDITIONAL_NODE_PARAMS {
        handle: node.handle.0,
        type_: match node.kind {
            ConditionalKind::If => CU_GRAPH_COND_TYPE_IF,
            ConditionalKind::While => CU_GRAPH_COND_TYPE_WHILE,
            ConditionalKind::Switch => CU_GRAPH_COND_TYPE_SWITCH,
        },
        size: node.body_count,
        ctx,
        ..CUDA_CONDITIONAL_NODE_PARAMS::zeroed()
    }
}

/// The graphs of an array of the driver's.
///
/// # Safety
///
/// The array is null, or has as many graphs as stated.
unsafe fn bodies_at(bodies: *const CUgraph, count: u32) -> Vec<GraphHandle> {
    if bodies.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller promises that there are as many graphs, and the array is not null.
    let bodies = unsafe { std::slice::from_raw_parts(bodies, count as usize) };
    bodies.iter().map(|&body| graph_handle(body)).collect()
}

fn added(node: CUgraphNode) -> AddedNode {
    AddedNode { node: node_handle(node), address: None, bodies: Vec::new() }
}

/// The driver's description of a fill.
pub(super) fn describe_fill(fill: &FillNode) -> Result<CUDA_MEMSET_NODE_PARAMS> {
    let value = match fill.pattern {
        FillPattern::U8(value) => u32::from(value),
        FillPattern::U16(value) => u32::from(value),
        FillPattern::U32(value) => value,
        FillPattern::U64(_) => {
            let message = "a node fills with 8, 16 or 32 bits, and not with 64";
            return Err(Failure::argument(Status::INVALID_VALUE, message));
        }
    };
    Ok(CUDA_MEMSET_NODE_PARAMS {
        dst: fill.address.0,
        pitch: fill.pitch,
        value,
        // At most 4.
        elementSize: fill.pattern.width() as u32,
        width: fill.width,
        height: fill.height,
    })
}

pub(super) fn unknown_kind(parameters: &NodeParameters) -> Failure {
    let message = format!("the CUDA back end knows no parameters of kind {:?}", parameters.kind());
    Failure::argument(Status::NOT_SUPPORTED, message)
}
