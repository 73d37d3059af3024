//! Reading nodes.

use super::{kernel, memory};
use crate::driver::CudaDriver;
use crate::error::Answer;
use crate::error::check;
use crate::external_semaphore;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::{event_handle, graph_handle, raw_node};
use crate::host_work;
use crate::memory::copy;
use crate::stream::values;
use anabranch_hal::{
    DevicePointer, Failure, FillNode, FillPattern, GraphNodeHandle, GraphNodeKind, Live, NodeParameters, Result, Status,
};
use std::ptr;

/// The kind of a node.
pub(super) fn kind(driver: &CudaDriver, node: Live<'_, GraphNodeHandle>) -> Result<GraphNodeKind> {
    let mut kind = CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: the node is live, as its type says.
    check(unsafe { driver.functions.cuGraphNodeGetType(raw_node(node), &mut kind) })?;
    Ok(GraphNodeKind(kind))
}

/// The parameters of a node of the current context.
pub(super) fn read(driver: &CudaDriver, node: Live<'_, GraphNodeHandle>) -> Result<NodeParameters> {
    let functions = &driver.functions;
    let (live, kind, node) = (node, kind(driver, node)?, raw_node(node));
    // SAFETY: the node is live, as its type says, and each function is the one for the node's kind.
    unsafe {
        match kind {
            GraphNodeKind::KERNEL => kernel::read(driver, live).map(NodeParameters::Kernel),
            GraphNodeKind::COPY => {
                let raw = described(|raw| functions.cuGraphMemcpyNodeGetParams(node, raw))?;
                copy::read(&raw, |address| copy::is_host(functions, address)).map(NodeParameters::Copy)
            }
            GraphNodeKind::FILL => {
                let raw = described(|raw| functions.cuGraphMemsetNodeGetParams(node, raw))?;
                fill(&raw).map(NodeParameters::Fill)
            }
            GraphNodeKind::HOST => {
                let raw = described(|raw| functions.cuGraphHostNodeGetParams(node, raw))?;
                let key = host_work::read(&raw);
                key.map(NodeParameters::Host)
                    .ok_or_else(|| unreadable("the host function was added by another library"))
            }
            GraphNodeKind::CHILD => {
                let mut child = ptr::null_mut();
                check(functions.cuGraphChildGraphNodeGetGraph(node, &mut child))?;
                Ok(NodeParameters::Child(graph_handle(child)))
            }
            GraphNodeKind::EMPTY => Ok(NodeParameters::Empty),
            GraphNodeKind::EVENT_WAIT => {
                let mut event = ptr::null_mut();
                check(functions.cuGraphEventWaitNodeGetEvent(node, &mut event))?;
                Ok(NodeParameters::EventWait(event_handle(event)))
            }
            GraphNodeKind::EVENT_RECORD => {
                let mut event = ptr::null_mut();
                check(functions.cuGraphEventRecordNodeGetEvent(node, &mut event))?;
                Ok(NodeParameters::EventRecord(event_handle(event)))
            }
            GraphNodeKind::EXTERNAL_SIGNAL => {
                let raw = described(|raw| functions.cuGraphExternalSemaphoresSignalNodeGetParams(node, raw))?;
                Ok(NodeParameters::ExternalSignal(external_semaphore::read_signals(&raw)))
            }
            GraphNodeKind::EXTERNAL_WAIT => {
                let raw = described(|raw| functions.cuGraphExternalSemaphoresWaitNodeGetParams(node, raw))?;
                Ok(NodeParameters::ExternalWait(external_semaphore::read_waits(&raw)))
            }
            GraphNodeKind::ALLOCATE => {
                let raw = described(|raw| functions.cuGraphMemAllocNodeGetParams(node, raw))?;
                memory::read(&raw).map(NodeParameters::Allocate)
            }
            GraphNodeKind::FREE => {
                let mut address = 0;
                check(functions.cuGraphMemFreeNodeGetParams(node, &mut address))?;
                Ok(NodeParameters::Free(DevicePointer(address)))
            }
            GraphNodeKind::VALUE_OPERATIONS => {
                let raw = described(|raw| functions.cuGraphBatchMemOpNodeGetParams(node, raw))?;
                values::read_all(&raw).map(NodeParameters::ValueOperations)
            }
            GraphNodeKind::CONDITIONAL => {
                Err(unreadable("drivers cannot be asked for the parameters of conditional nodes"))
            }
            other => Err(unreadable(&format!("the contract has no parameters for nodes of {other}"))),
        }
    }
}

/// A description that the driver fills in, over zeros.
fn described<T: Zeroed>(write: impl FnOnce(&mut T) -> Answer) -> Result<T> {
    let mut raw = T::zeroed();
    check(write(&mut raw))?;
    Ok(raw)
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
