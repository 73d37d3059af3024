//! Reading nodes.

use super::host_node::{HOST_NODES, HostNode};
use super::{kernel, memory, values};
use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::{event_handle, graph_handle};
use crate::memory::copy;
use anabranch_hal::{DevicePointer, Failure, FillNode, FillPattern, GraphNodeKind, NodeParameters, Result, Status};
use std::ptr;
use std::sync::Arc;

/// The kind of a node.
///
/// # Safety
///
/// The node is live.
pub(super) unsafe fn kind(driver: &CudaDriver, node: CUgraphNode) -> Result<GraphNodeKind> {
    let mut kind = CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: the caller vouches for the node; the result is written to a variable that outlives the call.
    check(unsafe { driver.functions.cuGraphNodeGetType(node, &mut kind) })?;
    Ok(GraphNodeKind(kind))
}

/// The parameters of a node.
///
/// # Safety
///
/// The node is live, and a context is current.
pub(super) unsafe fn read(driver: &CudaDriver, node: CUgraphNode) -> Result<NodeParameters> {
    let functions = &driver.functions;
    // SAFETY: the caller vouches for the node.
    match unsafe { kind(driver, node) }? {
        // SAFETY: the caller vouches for the node and the context, and it is a kernel node.
        GraphNodeKind::KERNEL => unsafe { kernel::read(driver, node) }.map(NodeParameters::Kernel),
        GraphNodeKind::COPY => {
            let mut raw = CUDA_MEMCPY3D::zeroed();
            // SAFETY: the caller vouches for the node, and it is of this kind; the result is written to a variable that
            // outlives the call.
            check(unsafe { functions.cuGraphMemcpyNodeGetParams(node, &mut raw) })?;
            copy::read(&raw, |address| copy::is_host(functions, address)).map(NodeParameters::Copy)
        }
        GraphNodeKind::FILL => {
            let mut raw = CUDA_MEMSET_NODE_PARAMS::zeroed();
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphMemsetNodeGetParams(node, &mut raw) })?;
            fill(&raw).map(NodeParameters::Fill)
        }
        GraphNodeKind::HOST => {
            // SAFETY: the caller vouches for the node, and it is of this kind.
            match unsafe { host(driver, node) }? {
                Some(host) => Ok(NodeParameters::Host(host.work())),
                None => Err(unreadable("the host function was added by another library")),
            }
        }
        GraphNodeKind::CHILD => {
            let mut child = ptr::null_mut();
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphChildGraphNodeGetGraph(node, &mut child) })?;
            Ok(NodeParameters::Child(graph_handle(child)))
        }
        GraphNodeKind::EMPTY => Ok(NodeParameters::Empty),
        GraphNodeKind::EVENT_WAIT => {
            let mut event = ptr::null_mut();
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphEventWaitNodeGetEvent(node, &mut event) })?;
            Ok(NodeParameters::EventWait(event_handle(event)))
        }
        GraphNodeKind::EVENT_RECORD => {
            let mut event = ptr::null_mut();
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphEventRecordNodeGetEvent(node, &mut event) })?;
            Ok(NodeParameters::EventRecord(event_handle(event)))
        }
        GraphNodeKind::ALLOCATE => {
            let mut raw = CUDA_MEM_ALLOC_NODE_PARAMS::zeroed();
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphMemAllocNodeGetParams(node, &mut raw) })?;
            // SAFETY: the description is the driver's, of a live node.
            unsafe { memory::read(&raw) }.map(NodeParameters::Allocate)
        }
        GraphNodeKind::FREE => {
            let mut address = 0;
            // SAFETY: as for a copy; the driver declares the result as an address.
            check(unsafe { functions.cuGraphMemFreeNodeGetParams(node, &mut address) })?;
            Ok(NodeParameters::Free(DevicePointer(address)))
        }
        GraphNodeKind::VALUE_OPERATIONS => {
            let mut raw = CUDA_BATCH_MEM_OP_NODE_PARAMS::zeroed();
            // SAFETY: as for a copy.
            check(unsafe { functions.cuGraphBatchMemOpNodeGetParams(node, &mut raw) })?;
            if raw.count == 0 || raw.paramArray.is_null() {
                return Ok(NodeParameters::ValueOperations(Vec::new()));
            }
            // SAFETY: the array is the driver's, of a live node, and has as many operations as the description says.
            let operations = unsafe { std::slice::from_raw_parts(raw.paramArray, raw.count as usize) };
            // SAFETY: each is the driver's.
            let operations = operations.iter().map(|operation| unsafe { values::read(operation) });
            operations.collect::<Result<_>>().map(NodeParameters::ValueOperations)
        }
        GraphNodeKind::CONDITIONAL => {
            Err(unreadable("drivers cannot be asked for the parameters of conditional nodes"))
        }
        other => Err(unreadable(&format!("the contract has no parameters for nodes of {other}"))),
    }
}

/// The host work of a node. None if another library added it.
///
/// # Safety
///
/// The node is live.
pub(super) unsafe fn host(driver: &CudaDriver, node: CUgraphNode) -> Result<Option<Arc<HostNode>>> {
    let mut raw = CUDA_HOST_NODE_PARAMS::zeroed();
    // SAFETY: the caller vouches for the node; the result is written to a variable that outlives the call.
    check(unsafe { driver.functions.cuGraphHostNodeGetParams(node, &mut raw) })?;
    Ok(HOST_NODES.find(raw.userData))
}

fn unreadable(why: &str) -> Failure {
    Failure::argument(Status::NOT_SUPPORTED, why)
}

fn fill(raw: &CUDA_MEMSET_NODE_PARAMS) -> Result<FillNode> {
    let pattern = match raw.elementSize {
        // The lowest bits are the pattern.
        1 => FillPattern::U8(raw.value as u8),
        2 => FillPattern::U16(raw.value as u16),
        4 => FillPattern::U32(raw.value),
        other => return Err(unreadable(&format!("the contract has no fill with elements of {other} bytes"))),
    };
    Ok(FillNode { address: DevicePointer(raw.dst), pitch: raw.pitch, pattern, width: raw.width, height: raw.height })
}

#[cfg(test)]
mod tests {
    use super::fill;
    use crate::graph::node::describe_fill;
    use anabranch_hal::{DevicePointer, FillNode, FillPattern, Status};

    #[test]
    fn fills_come_back_as_they_were() {
        let node = |pattern| FillNode { address: DevicePointer(0x1000), pitch: 64, pattern, width: 5, height: 3 };
        for pattern in [FillPattern::U8(0xa1), FillPattern::U16(0xa1b2), FillPattern::U32(0xa1b2_c3d4)] {
            assert_eq!(describe_fill(&node(pattern)).and_then(|raw| fill(&raw)), Ok(node(pattern)));
        }
        assert_eq!(describe_fill(&node(FillPattern::U64(1))).unwrap_err().status, Status::INVALID_VALUE);
    }
}
