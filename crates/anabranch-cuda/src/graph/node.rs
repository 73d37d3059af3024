//! Adding nodes.

use super::{edges, kernel, memory, values};
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::graph::edges::RawDependencies;
use crate::handles::{graph_handle, node_handle, raw_context, raw_event, raw_graph, raw_node};
use crate::host_work;
use crate::memory::copy;
use anabranch_hal::{
    AddedNode, AllocationNode, ConditionalKind, ConditionalNode, ContextHandle, Dependency, DevicePointer, Edge,
    EdgeData, Failure, FillNode, FillPattern, GraphHandle, KernelNode, Live, NodeParameters, Result, Status,
};
use std::ptr;

/// Where a node goes: the graph, and the nodes that it depends on, with edges that have no data.
struct Place<'a> {
    driver: &'a CudaDriver,
    context: Live<'a, ContextHandle>,
    graph: Live<'a, GraphHandle>,
    /// The caller of [`add`] promises that they exist.
    nodes: Vec<CUgraphNode>,
}

/// Adds a node.
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
    if let NodeParameters::Conditional(node) = parameters {
        // SAFETY: the caller promises that the nodes of `dependencies` exist.
        return unsafe { add_conditional(driver, context, graph, dependencies, node) };
    }
    // The function for each kind takes no data of edges, so the edges with data come afterwards.
    let (plain, with_data): (Vec<&Dependency>, Vec<&Dependency>) =
        dependencies.iter().partition(|dependency| dependency.data == EdgeData::default());
    let nodes = plain.iter().map(|dependency| raw_node(dependency.node)).collect();
    let place = Place { driver, context, graph, nodes };
    // SAFETY: the caller promises that the nodes and the objects that the parameters name exist, and that the node is
    // sound.
    let added = unsafe { place.add(parameters) }?;
    if !with_data.is_empty() {
        let edge = |dependency: &&Dependency| Edge { from: dependency.node, to: added.node, data: dependency.data };
        let edges: Vec<Edge> = with_data.iter().map(edge).collect();
        // SAFETY: the caller promises that the nodes of `dependencies` exist, and the new one was just added.
        let connected = unsafe { edges::add(driver, graph, &edges) };
        if let Err(failure) = connected {
            // SAFETY: the node was added above, and nobody else knows it.
            let _ = unsafe { driver.functions.cuGraphDestroyNode(raw_node(added.node)) };
            return Err(failure);
        }
    }
    Ok(added)
}

impl Place<'_> {
    /// # Safety
    ///
    /// As for the function [`add`].
    unsafe fn add(&self, parameters: &NodeParameters) -> Result<AddedNode> {
        let Self { driver, context, graph, ref nodes } = *self;
        let (functions, graph) = (&driver.functions, raw_graph(graph));
        let mut node = ptr::null_mut();
        let (first, count, ctx) = (nodes.as_ptr(), nodes.len(), raw_context(context));
        // SAFETY: graph and context are live, as their types say. The caller promises that the nodes and the objects
        // that the parameters name exist, and that the node is sound. There are as many nodes as stated. The driver
        // copies descriptions, operations and child graphs; it refuses to free what no graph allocates; and the
        // function of a host node takes any key.
        unsafe {
            check(match parameters {
                NodeParameters::Kernel(kernel) => return self.add_kernel(kernel).map(added),
                NodeParameters::Allocate(allocation) => return self.add_allocation(allocation),
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

    /// # Safety
    ///
    /// As for the function [`add`].
    unsafe fn add_kernel(&self, kernel: &KernelNode) -> Result<CUgraphNode> {
        let functions = &self.driver.functions;
        let raw = kernel::describe(self.context, kernel);
        let (graph, mut node) = (raw_graph(self.graph), ptr::null_mut());
        let (first, count) = (self.nodes.as_ptr(), self.nodes.len());
        // SAFETY: the graph is live, as its type says. The caller promises that nodes and function exist, and that the
        // arguments are those of the kernel; there are as many nodes as stated, and the driver copies the arguments.
        check(unsafe { functions.cuGraphAddKernelNode(&mut node, graph, first, count, &raw.parameters) })?;
        // SAFETY: the node was added just now, to a graph that no other thread uses.
        let new = unsafe { Live::new(node_handle(node)) };
        let attributes = kernel::set_attributes(self.driver, new, kernel::Attributes::of(kernel));
        if let Err(failure) = attributes {
            // SAFETY: the node was added above, and nobody else knows it.
            let _ = unsafe { functions.cuGraphDestroyNode(node) };
            return Err(failure);
        }
        Ok(node)
    }

    /// # Safety
    ///
    /// As for the function [`add`].
    unsafe fn add_allocation(&self, allocation: &AllocationNode) -> Result<AddedNode> {
        let access = memory::access(self.driver, allocation)?;
        let mut raw = memory::describe(self.driver, allocation, &access)?;
        let (graph, mut node) = (raw_graph(self.graph), ptr::null_mut());
        let (first, count) = (self.nodes.as_ptr(), self.nodes.len());
        // SAFETY: the graph is live, as its type says, and the caller promises that the nodes exist, of which there are
        // as many as stated; the description points to as many entries as it says, which outlive the call.
        check(unsafe { self.driver.functions.cuGraphAddMemAllocNode(&mut node, graph, first, count, &mut raw) })?;
        Ok(AddedNode { address: Some(DevicePointer(raw.dptr)), ..added(node) })
    }
}

/// # Safety
///
/// The nodes of `dependencies` exist.
unsafe fn add_conditional(
    driver: &CudaDriver,
    context: Live<'_, ContextHandle>,
    graph: Live<'_, GraphHandle>,
    dependencies: &[Dependency],
    node: &ConditionalNode,
) -> Result<AddedNode> {
    let mut raw = CUgraphNodeParams::zeroed();
    raw.type_ = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    raw.__bindgen_anon_1.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
        handle: node.handle.0,
        type_: match node.kind {
            ConditionalKind::If => CU_GRAPH_COND_TYPE_IF,
            ConditionalKind::While => CU_GRAPH_COND_TYPE_WHILE,
            ConditionalKind::Switch => CU_GRAPH_COND_TYPE_SWITCH,
        },
        size: node.body_count,
        ctx: raw_context(context),
        ..CUDA_CONDITIONAL_NODE_PARAMS::zeroed()
    };
    let dependencies = RawDependencies::new(dependencies);
    let mut added_node = ptr::null_mut();
    // SAFETY: graph and context are live, as their types say, and the caller promises that the nodes exist; there are
    // as many nodes as stated, and as many data or none; the parameters are those of the type that they name.
    check(unsafe {
        driver.functions.cuGraphAddNode(
            &mut added_node,
            raw_graph(graph),
            dependencies.nodes.as_ptr(),
            dependencies.data(),
            dependencies.nodes.len(),
            &mut raw,
        )
    })?;
    // SAFETY: this is the member that was written above, and that the driver has added to.
    let bodies = unsafe { raw.__bindgen_anon_1.conditional }.phGraph_out;
    let bodies = if bodies.is_null() {
        Vec::new()
    } else {
        // SAFETY: the driver's array has a graph for each body that was asked for, and stays as long as the node.
        unsafe { std::slice::from_raw_parts(bodies, node.body_count as usize) }.to_vec()
    };
    Ok(AddedNode { bodies: bodies.into_iter().map(graph_handle).collect(), ..added(added_node) })
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
