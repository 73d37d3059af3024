//! The part of the check that is about capture, graphs and linking.

use std::mem::{align_of, size_of};

use cudarc::driver::sys;

use super::ours;

#[test]
fn types_have_the_same_layout() {
    same_layout! {
        CUgraph, CUgraphNode, CUgraphExec, CUkernel, CUlinkState, CUgraphConditionalHandle,
        CUgraphEdgeData, CUstreamBatchMemOpParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
        CUDA_MEMSET_NODE_PARAMS, CUDA_HOST_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS,
        CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraphExecUpdateResultInfo, CUgraphNodeParams, CUkernelNodeAttrValue_v1,
        CUgraphChildGraphNodeOwnership_enum, CUgraphConditionalNodeType_enum, CUgraphDependencyType_enum,
        CUgraphExecUpdateResult_enum, CUgraphInstantiateResult_enum, CUgraphInstantiate_flags_enum,
        CUgraphMem_attribute_enum, CUgraphNodeType_enum, CUjitInputType_enum, CUstreamBatchMemOpType_enum,
        CUstreamCaptureMode_enum, CUstreamUpdateCaptureDependencies_flags_enum,
    }
}

#[test]
fn values_agree() {
    same_values! {
        CUgraphChildGraphNodeOwnership_enum:
        CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE,
    }
    same_values! {
        CUgraphConditionalNodeType_enum:
        CU_GRAPH_COND_TYPE_IF, CU_GRAPH_COND_TYPE_WHILE, CU_GRAPH_COND_TYPE_SWITCH,
    }
    same_values! {
        CUgraphDependencyType_enum:
        CU_GRAPH_DEPENDENCY_TYPE_DEFAULT, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC,
    }
    same_values! {
        CUgraphExecUpdateResult_enum:
        CU_GRAPH_EXEC_UPDATE_SUCCESS, CU_GRAPH_EXEC_UPDATE_ERROR, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
        CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED,
        CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED,
        CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED,
    }
    same_values! {
        CUgraphInstantiateResult_enum:
        CUDA_GRAPH_INSTANTIATE_SUCCESS, CUDA_GRAPH_INSTANTIATE_ERROR, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
        CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED,
        CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED,
    }
    // The one enumeration that the other set has as a structure around a number.
    assert_eq!(
        ours::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
        sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0
    );
    assert_eq!(
        ours::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
        sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD.0
    );
    assert_eq!(
        ours::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH,
        sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0
    );
    assert_eq!(
        ours::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY,
        sys::CUgraphInstantiate_flags_enum::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY.0
    );
    same_values! {
        CUgraphMem_attribute_enum:
        CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
    }
    same_values! {
        CUgraphNodeType_enum:
        CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_HOST,
        CU_GRAPH_NODE_TYPE_GRAPH, CU_GRAPH_NODE_TYPE_EMPTY, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        CU_GRAPH_NODE_TYPE_EVENT_RECORD, CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
        CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        CU_GRAPH_NODE_TYPE_CONDITIONAL,
    }
    same_values! {
        CUjitInputType_enum:
        CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_PTX, CU_JIT_INPUT_FATBINARY, CU_JIT_INPUT_OBJECT, CU_JIT_INPUT_LIBRARY,
        CU_JIT_INPUT_NVVM, CU_JIT_NUM_INPUT_TYPES,
    }
    same_values! {
        CUstreamBatchMemOpType_enum:
        CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_MEM_OP_WAIT_VALUE_64,
        CU_STREAM_MEM_OP_WRITE_VALUE_64, CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES,
    }
    same_values! {
        CUstreamCaptureMode_enum:
        CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED,
    }
    same_values! {
        CUstreamUpdateCaptureDependencies_flags_enum:
        CU_STREAM_ADD_CAPTURE_DEPENDENCIES, CU_STREAM_SET_CAPTURE_DEPENDENCIES,
    }
    assert_eq!(ours::CU_GRAPH_COND_ASSIGN_DEFAULT, sys::CU_GRAPH_COND_ASSIGN_DEFAULT);
    assert_eq!(ours::CU_GRAPH_KERNEL_NODE_PORT_DEFAULT, sys::CU_GRAPH_KERNEL_NODE_PORT_DEFAULT);
    assert_eq!(ours::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, sys::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
    assert_eq!(ours::CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, sys::CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER);
}
