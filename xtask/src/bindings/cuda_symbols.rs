//! What the CUDA back end binds: every function, type and constant, with the version whose signature it uses.
//!
//! One binary serves every driver from CUDA 12.0 on, and later drivers also hand out later signatures under the same
//! entry-point name. So a function is named here together with the CUDA version that *introduced the signature in
//! use*. That number is what `cuGetProcAddress` is asked for, and it answers with the newest signature introduced at or
//! before it; `cudaTypedefs.h` names each signature `PFN_<entry point>_v<version>`, so the generator reads the
//! signature of exactly that version and an impossible pair is an error here, not a crash at run time.
//!
//! Where several versions of a signature exist, the one that CUDA 12.0 has is used: a newer one would be missing from
//! older drivers, and an older one stays in every newer driver. Where a newer one can do what no older one can, such as
//! edges with data, both are bound, and the newer one is used only for that.

/// Which default stream the entry point could mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DefaultStream {
    /// It names no stream, and the driver has one variant of it.
    Irrelevant,
    /// The driver has a second variant for which the null stream is one of the calling thread. Anabranch always takes
    /// the legacy variant, so that a null stream means the same on every thread; the generator checks this mark
    /// against the headers so that the list shows where it matters.
    LegacyVariant,
}

/// A driver entry point, at one version of its signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    /// The name of the field and of the method in the table. It is the entry point's own name, so that a call reads
    /// like NVIDIA's documentation, unless two versions of one entry point are bound.
    pub(crate) rust_name: &'static str,
    /// The name to ask `cuGetProcAddress` for, which never has a version suffix.
    pub(crate) entry_point: &'static str,
    /// The CUDA version that introduced this signature, as `1000 * major + 10 * minor`.
    pub(crate) since: u32,
    /// The name under which the driver's library exports this signature.
    pub(crate) exported: &'static str,
    /// Whether a per-thread variant had to be avoided.
    pub(crate) default_stream: DefaultStream,
}

const fn plain(name: &'static str, since: u32, exported: &'static str) -> Function {
    Function { rust_name: name, entry_point: name, since, exported, default_stream: DefaultStream::Irrelevant }
}

const fn stream(name: &'static str, since: u32, exported: &'static str) -> Function {
    Function { rust_name: name, entry_point: name, since, exported, default_stream: DefaultStream::LegacyVariant }
}

/// A second version of an entry point, named as the driver's library exports it.
const fn newer(name: &'static str, entry_point: &'static str, since: u32) -> Function {
    Function { rust_name: name, entry_point, since, exported: name, default_stream: DefaultStream::Irrelevant }
}

const fn newer_stream(name: &'static str, entry_point: &'static str, since: u32) -> Function {
    Function { rust_name: name, entry_point, since, exported: name, default_stream: DefaultStream::LegacyVariant }
}

/// The functions of the driver.
#[rustfmt::skip]
pub(crate) const CUDA_FUNCTIONS: &[Function] = &[
    // The driver and its errors.
    plain("cuInit", 2000, "cuInit"),
    plain("cuDriverGetVersion", 2020, "cuDriverGetVersion"),
    plain("cuGetErrorName", 6000, "cuGetErrorName"),
    plain("cuGetErrorString", 6000, "cuGetErrorString"),

    // Devices.
    plain("cuDeviceGetCount", 2000, "cuDeviceGetCount"),
    plain("cuDeviceGet", 2000, "cuDeviceGet"),
    plain("cuDeviceGetName", 2000, "cuDeviceGetName"),
    // The second version has the same signature but gives a partition of a device its own identifier.
    plain("cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"),
    plain("cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2"),
    plain("cuDeviceGetAttribute", 2000, "cuDeviceGetAttribute"),
    plain("cuDeviceGetPCIBusId", 4010, "cuDeviceGetPCIBusId"),
    plain("cuDeviceCanAccessPeer", 4000, "cuDeviceCanAccessPeer"),
    plain("cuDeviceGetDefaultMemPool", 11020, "cuDeviceGetDefaultMemPool"),
    plain("cuDevicePrimaryCtxRetain", 7000, "cuDevicePrimaryCtxRetain"),
    plain("cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2"),
    plain("cuDevicePrimaryCtxGetState", 7000, "cuDevicePrimaryCtxGetState"),

    // Contexts.
    // 11.4 added execution affinity and 12.5 a parameter block, neither of which is used.
    plain("cuCtxCreate", 3020, "cuCtxCreate_v2"),
    plain("cuCtxDestroy", 4000, "cuCtxDestroy_v2"),
    plain("cuCtxPushCurrent", 4000, "cuCtxPushCurrent_v2"),
    plain("cuCtxPopCurrent", 4000, "cuCtxPopCurrent_v2"),
    plain("cuCtxSetCurrent", 4000, "cuCtxSetCurrent"),
    plain("cuCtxGetCurrent", 4000, "cuCtxGetCurrent"),
    // 13.0 added a context parameter to these two; the older ones act on the current context.
    plain("cuCtxSynchronize", 2000, "cuCtxSynchronize"),
    plain("cuCtxGetDevice", 2000, "cuCtxGetDevice"),
    plain("cuCtxGetStreamPriorityRange", 5050, "cuCtxGetStreamPriorityRange"),
    plain("cuCtxEnablePeerAccess", 4000, "cuCtxEnablePeerAccess"),
    plain("cuCtxDisablePeerAccess", 4000, "cuCtxDisablePeerAccess"),
    plain("cuCtxGetId", 12000, "cuCtxGetId"),
    plain("cuCtxGetLimit", 3010, "cuCtxGetLimit"),
    plain("cuCtxSetLimit", 3010, "cuCtxSetLimit"),

    // Streams.
    plain("cuStreamCreateWithPriority", 5050, "cuStreamCreateWithPriority"),
    plain("cuStreamDestroy", 4000, "cuStreamDestroy_v2"),
    stream("cuStreamQuery", 2000, "cuStreamQuery"),
    stream("cuStreamSynchronize", 2000, "cuStreamSynchronize"),
    stream("cuStreamWaitEvent", 3020, "cuStreamWaitEvent"),
    stream("cuStreamGetFlags", 5050, "cuStreamGetFlags"),
    stream("cuStreamGetPriority", 5050, "cuStreamGetPriority"),
    stream("cuStreamGetId", 12000, "cuStreamGetId"),
    // 12.5 added a green-context parameter.
    stream("cuStreamGetCtx", 9020, "cuStreamGetCtx"),
    stream("cuStreamGetAttribute", 11000, "cuStreamGetAttribute"),
    stream("cuStreamSetAttribute", 11000, "cuStreamSetAttribute"),
    stream("cuStreamCopyAttributes", 11000, "cuStreamCopyAttributes"),
    stream("cuStreamGetDevice", 12080, "cuStreamGetDevice"),
    stream("cuStreamAddCallback", 5000, "cuStreamAddCallback"),
    stream("cuLaunchHostFunc", 10000, "cuLaunchHostFunc"),
    // The first versions worked only where an administrator had switched them on.
    stream("cuStreamWaitValue32", 11070, "cuStreamWaitValue32_v2"),
    stream("cuStreamWaitValue64", 11070, "cuStreamWaitValue64_v2"),
    stream("cuStreamWriteValue32", 11070, "cuStreamWriteValue32_v2"),
    stream("cuStreamWriteValue64", 11070, "cuStreamWriteValue64_v2"),
    stream("cuStreamBatchMemOp", 11070, "cuStreamBatchMemOp_v2"),

    // Capture.
    // The first version has no mode.
    stream("cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2"),
    stream("cuStreamBeginCaptureToGraph", 12030, "cuStreamBeginCaptureToGraph"),
    stream("cuStreamBeginRecaptureToGraph", 13030, "cuStreamBeginRecaptureToGraph"),
    stream("cuStreamEndCapture", 10000, "cuStreamEndCapture"),
    stream("cuStreamIsCapturing", 10000, "cuStreamIsCapturing"),
    stream("cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"),
    // 12.3 added the data of edges.
    newer_stream("cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo", 12030),
    stream("cuStreamUpdateCaptureDependencies", 11030, "cuStreamUpdateCaptureDependencies"),
    newer_stream("cuStreamUpdateCaptureDependencies_v2", "cuStreamUpdateCaptureDependencies", 12030),
    plain("cuThreadExchangeStreamCaptureMode", 10010, "cuThreadExchangeStreamCaptureMode"),

    // Events.
    plain("cuEventCreate", 2000, "cuEventCreate"),
    plain("cuEventDestroy", 4000, "cuEventDestroy_v2"),
    stream("cuEventRecord", 2000, "cuEventRecord"),
    stream("cuEventRecordWithFlags", 11010, "cuEventRecordWithFlags"),
    plain("cuEventQuery", 2000, "cuEventQuery"),
    plain("cuEventSynchronize", 2000, "cuEventSynchronize"),
    // 12.8 changed which errors of pending work it reports, not the signature.
    plain("cuEventElapsedTime", 2000, "cuEventElapsedTime"),
    plain("cuIpcGetEventHandle", 4010, "cuIpcGetEventHandle"),
    plain("cuIpcOpenEventHandle", 4010, "cuIpcOpenEventHandle"),

    // Memory.
    plain("cuMemAlloc", 3020, "cuMemAlloc_v2"),
    plain("cuMemFree", 3020, "cuMemFree_v2"),
    stream("cuMemAllocAsync", 11020, "cuMemAllocAsync"),
    stream("cuMemAllocFromPoolAsync", 11020, "cuMemAllocFromPoolAsync"),
    stream("cuMemFreeAsync", 11020, "cuMemFreeAsync"),
    plain("cuMemHostAlloc", 2020, "cuMemHostAlloc"),
    plain("cuMemFreeHost", 2000, "cuMemFreeHost"),
    plain("cuMemHostGetDevicePointer", 3020, "cuMemHostGetDevicePointer_v2"),
    plain("cuMemHostRegister", 6050, "cuMemHostRegister_v2"),
    plain("cuMemHostUnregister", 4000, "cuMemHostUnregister"),
    plain("cuMemAllocManaged", 6000, "cuMemAllocManaged"),
    // 12.2 replaced the device by a location.
    stream("cuMemPrefetchAsync", 8000, "cuMemPrefetchAsync"),
    stream("cuMemPrefetchBatchAsync", 13000, "cuMemPrefetchBatchAsync"),
    stream("cuMemDiscardBatchAsync", 13000, "cuMemDiscardBatchAsync"),
    stream("cuMemDiscardAndPrefetchBatchAsync", 13000, "cuMemDiscardAndPrefetchBatchAsync"),
    stream("cuStreamAttachMemAsync", 6000, "cuStreamAttachMemAsync"),
    plain("cuMemGetInfo", 3020, "cuMemGetInfo_v2"),
    plain("cuMemGetAddressRange", 3020, "cuMemGetAddressRange_v2"),
    plain("cuPointerGetAttribute", 4000, "cuPointerGetAttribute"),
    plain("cuTensorMapEncodeTiled", 12000, "cuTensorMapEncodeTiled"),

    // Copies.
    stream("cuMemcpy", 4000, "cuMemcpy"),
    stream("cuMemcpyHtoD", 3020, "cuMemcpyHtoD_v2"),
    stream("cuMemcpyDtoH", 3020, "cuMemcpyDtoH_v2"),
    stream("cuMemcpyDtoD", 3020, "cuMemcpyDtoD_v2"),
    stream("cuMemcpyAsync", 4000, "cuMemcpyAsync"),
    stream("cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2"),
    stream("cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2"),
    stream("cuMemcpyDtoDAsync", 3020, "cuMemcpyDtoDAsync_v2"),
    stream("cuMemcpyPeerAsync", 4000, "cuMemcpyPeerAsync"),
    stream("cuMemcpy2DAsync", 3020, "cuMemcpy2DAsync_v2"),
    stream("cuMemcpy3DAsync", 3020, "cuMemcpy3DAsync_v2"),
    stream("cuMemcpy3DPeerAsync", 4000, "cuMemcpy3DPeerAsync"),
    // 13.0 left out the index of the copy that is wrong.
    stream("cuMemcpyBatchAsync", 12080, "cuMemcpyBatchAsync"),
    stream("cuMemcpy3DBatchAsync", 12080, "cuMemcpy3DBatchAsync"),
    stream("cuMemcpyWithAttributesAsync", 13020, "cuMemcpyWithAttributesAsync"),
    stream("cuMemcpy3DWithAttributesAsync", 13020, "cuMemcpy3DWithAttributesAsync"),

    // Fills.
    stream("cuMemsetD8Async", 3020, "cuMemsetD8Async"),
    stream("cuMemsetD16Async", 3020, "cuMemsetD16Async"),
    stream("cuMemsetD32Async", 3020, "cuMemsetD32Async"),
    stream("cuMemsetD2D8Async", 3020, "cuMemsetD2D8Async"),
    stream("cuMemsetD2D16Async", 3020, "cuMemsetD2D16Async"),
    stream("cuMemsetD2D32Async", 3020, "cuMemsetD2D32Async"),

    // Memory of other processes.
    plain("cuIpcGetMemHandle", 4010, "cuIpcGetMemHandle"),
    plain("cuIpcOpenMemHandle", 11000, "cuIpcOpenMemHandle_v2"),
    plain("cuIpcCloseMemHandle", 4010, "cuIpcCloseMemHandle"),
    plain("cuMemPoolExportToShareableHandle", 11020, "cuMemPoolExportToShareableHandle"),
    plain("cuMemPoolImportFromShareableHandle", 11020, "cuMemPoolImportFromShareableHandle"),
    plain("cuMemPoolExportPointer", 11020, "cuMemPoolExportPointer"),
    plain("cuMemPoolImportPointer", 11020, "cuMemPoolImportPointer"),

    // Memory and semaphores of other APIs.
    plain("cuImportExternalMemory", 10000, "cuImportExternalMemory"),
    plain("cuExternalMemoryGetMappedBuffer", 10000, "cuExternalMemoryGetMappedBuffer"),
    plain("cuDestroyExternalMemory", 10000, "cuDestroyExternalMemory"),
    plain("cuImportExternalSemaphore", 10000, "cuImportExternalSemaphore"),
    plain("cuDestroyExternalSemaphore", 10000, "cuDestroyExternalSemaphore"),
    stream("cuSignalExternalSemaphoresAsync", 10000, "cuSignalExternalSemaphoresAsync"),
    stream("cuWaitExternalSemaphoresAsync", 10000, "cuWaitExternalSemaphoresAsync"),

    // Virtual memory.
    plain("cuMemGetAllocationGranularity", 10020, "cuMemGetAllocationGranularity"),
    plain("cuMemAddressReserve", 10020, "cuMemAddressReserve"),
    plain("cuMemAddressFree", 10020, "cuMemAddressFree"),
    plain("cuMemCreate", 10020, "cuMemCreate"),
    plain("cuMemRelease", 10020, "cuMemRelease"),
    plain("cuMemMap", 10020, "cuMemMap"),
    plain("cuMemUnmap", 10020, "cuMemUnmap"),
    plain("cuMemSetAccess", 10020, "cuMemSetAccess"),

    // Pools.
    plain("cuMemPoolCreate", 11020, "cuMemPoolCreate"),
    plain("cuMemPoolDestroy", 11020, "cuMemPoolDestroy"),
    plain("cuMemPoolTrimTo", 11020, "cuMemPoolTrimTo"),
    plain("cuMemPoolGetAttribute", 11020, "cuMemPoolGetAttribute"),
    plain("cuMemPoolSetAttribute", 11020, "cuMemPoolSetAttribute"),
    plain("cuMemPoolSetAccess", 11020, "cuMemPoolSetAccess"),

    // Modules and functions.
    plain("cuModuleLoadDataEx", 2010, "cuModuleLoadDataEx"),
    plain("cuModuleUnload", 2000, "cuModuleUnload"),
    plain("cuModuleGetFunction", 2000, "cuModuleGetFunction"),
    plain("cuModuleGetGlobal", 3020, "cuModuleGetGlobal_v2"),
    plain("cuModuleGetFunctionCount", 12040, "cuModuleGetFunctionCount"),
    plain("cuModuleEnumerateFunctions", 12040, "cuModuleEnumerateFunctions"),
    plain("cuFuncGetName", 12030, "cuFuncGetName"),
    plain("cuFuncLoad", 12040, "cuFuncLoad"),
    plain("cuFuncGetAttribute", 2020, "cuFuncGetAttribute"),
    plain("cuFuncSetAttribute", 9000, "cuFuncSetAttribute"),
    plain("cuFuncGetParamInfo", 12040, "cuFuncGetParamInfo"),
    plain("cuFuncGetModule", 11000, "cuFuncGetModule"),
    plain("cuKernelGetFunction", 12000, "cuKernelGetFunction"),
    plain("cuLinkCreate", 6050, "cuLinkCreate_v2"),
    plain("cuLinkAddData", 6050, "cuLinkAddData_v2"),
    plain("cuLinkAddFile", 6050, "cuLinkAddFile_v2"),
    plain("cuLinkComplete", 5050, "cuLinkComplete"),
    plain("cuLinkDestroy", 5050, "cuLinkDestroy"),

    // Launches and occupancy.
    stream("cuLaunchKernel", 4000, "cuLaunchKernel"),
    stream("cuLaunchKernelEx", 11060, "cuLaunchKernelEx"),
    plain("cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, "cuOccupancyMaxActiveBlocksPerMultiprocessor"),
    plain("cuOccupancyMaxActiveClusters", 11070, "cuOccupancyMaxActiveClusters"),
    plain("cuOccupancyMaxPotentialClusterSize", 11070, "cuOccupancyMaxPotentialClusterSize"),
    plain("cuOccupancyMaxPotentialBlockSize", 6050, "cuOccupancyMaxPotentialBlockSize"),

    // Graphs.
    plain("cuGraphCreate", 10000, "cuGraphCreate"),
    plain("cuGraphDestroy", 10000, "cuGraphDestroy"),
    plain("cuGraphClone", 10000, "cuGraphClone"),
    plain("cuGraphNodeFindInClone", 10000, "cuGraphNodeFindInClone"),
    plain("cuGraphGetNodes", 10000, "cuGraphGetNodes"),
    plain("cuGraphGetRootNodes", 10000, "cuGraphGetRootNodes"),
    plain("cuGraphNodeGetType", 10000, "cuGraphNodeGetType"),
    plain("cuGraphDestroyNode", 10000, "cuGraphDestroyNode"),
    // 12.3 added the data of edges to these three.
    plain("cuGraphGetEdges", 10000, "cuGraphGetEdges"),
    newer("cuGraphGetEdges_v2", "cuGraphGetEdges", 12030),
    plain("cuGraphAddDependencies", 10000, "cuGraphAddDependencies"),
    newer("cuGraphAddDependencies_v2", "cuGraphAddDependencies", 12030),
    plain("cuGraphRemoveDependencies", 10000, "cuGraphRemoveDependencies"),
    newer("cuGraphRemoveDependencies_v2", "cuGraphRemoveDependencies", 12030),

    // Nodes of graphs.
    // For conditional nodes, which no other function makes. The version of 12.2 has no data of edges, and came before them.
    plain("cuGraphAddNode", 12030, "cuGraphAddNode_v2"),
    plain("cuGraphConditionalHandleCreate", 12030, "cuGraphConditionalHandleCreate"),
    // 12.0 added kernels that belong to no context.
    plain("cuGraphAddKernelNode", 12000, "cuGraphAddKernelNode_v2"),
    plain("cuGraphKernelNodeGetParams", 12000, "cuGraphKernelNodeGetParams_v2"),
    plain("cuGraphKernelNodeSetParams", 12000, "cuGraphKernelNodeSetParams_v2"),
    plain("cuGraphKernelNodeGetAttribute", 11000, "cuGraphKernelNodeGetAttribute"),
    plain("cuGraphKernelNodeSetAttribute", 11000, "cuGraphKernelNodeSetAttribute"),
    plain("cuGraphAddMemcpyNode", 10000, "cuGraphAddMemcpyNode"),
    plain("cuGraphMemcpyNodeGetParams", 10000, "cuGraphMemcpyNodeGetParams"),
    plain("cuGraphMemcpyNodeSetParams", 10000, "cuGraphMemcpyNodeSetParams"),
    plain("cuGraphAddMemsetNode", 10000, "cuGraphAddMemsetNode"),
    plain("cuGraphMemsetNodeGetParams", 10000, "cuGraphMemsetNodeGetParams"),
    plain("cuGraphMemsetNodeSetParams", 10000, "cuGraphMemsetNodeSetParams"),
    plain("cuGraphAddHostNode", 10000, "cuGraphAddHostNode"),
    plain("cuGraphHostNodeGetParams", 10000, "cuGraphHostNodeGetParams"),
    plain("cuGraphHostNodeSetParams", 10000, "cuGraphHostNodeSetParams"),
    plain("cuGraphAddBatchMemOpNode", 11070, "cuGraphAddBatchMemOpNode"),
    plain("cuGraphBatchMemOpNodeGetParams", 11070, "cuGraphBatchMemOpNodeGetParams"),
    plain("cuGraphBatchMemOpNodeSetParams", 11070, "cuGraphBatchMemOpNodeSetParams"),
    plain("cuGraphAddChildGraphNode", 10000, "cuGraphAddChildGraphNode"),
    plain("cuGraphChildGraphNodeGetGraph", 10000, "cuGraphChildGraphNodeGetGraph"),
    plain("cuGraphAddEmptyNode", 10000, "cuGraphAddEmptyNode"),
    plain("cuGraphAddEventRecordNode", 11010, "cuGraphAddEventRecordNode"),
    plain("cuGraphEventRecordNodeGetEvent", 11010, "cuGraphEventRecordNodeGetEvent"),
    plain("cuGraphEventRecordNodeSetEvent", 11010, "cuGraphEventRecordNodeSetEvent"),
    plain("cuGraphAddEventWaitNode", 11010, "cuGraphAddEventWaitNode"),
    plain("cuGraphEventWaitNodeGetEvent", 11010, "cuGraphEventWaitNodeGetEvent"),
    plain("cuGraphEventWaitNodeSetEvent", 11010, "cuGraphEventWaitNodeSetEvent"),
    plain("cuGraphAddExternalSemaphoresSignalNode", 11020, "cuGraphAddExternalSemaphoresSignalNode"),
    plain("cuGraphExternalSemaphoresSignalNodeGetParams", 11020, "cuGraphExternalSemaphoresSignalNodeGetParams"),
    plain("cuGraphExternalSemaphoresSignalNodeSetParams", 11020, "cuGraphExternalSemaphoresSignalNodeSetParams"),
    plain("cuGraphAddExternalSemaphoresWaitNode", 11020, "cuGraphAddExternalSemaphoresWaitNode"),
    plain("cuGraphExternalSemaphoresWaitNodeGetParams", 11020, "cuGraphExternalSemaphoresWaitNodeGetParams"),
    plain("cuGraphExternalSemaphoresWaitNodeSetParams", 11020, "cuGraphExternalSemaphoresWaitNodeSetParams"),
    plain("cuGraphAddMemAllocNode", 11040, "cuGraphAddMemAllocNode"),
    plain("cuGraphMemAllocNodeGetParams", 11040, "cuGraphMemAllocNodeGetParams"),
    plain("cuGraphAddMemFreeNode", 11040, "cuGraphAddMemFreeNode"),
    plain("cuGraphMemFreeNodeGetParams", 11040, "cuGraphMemFreeNodeGetParams"),

    // Executable graphs.
    stream("cuGraphInstantiateWithParams", 12000, "cuGraphInstantiateWithParams"),
    plain("cuGraphExecDestroy", 10000, "cuGraphExecDestroy"),
    plain("cuGraphExecGetFlags", 12000, "cuGraphExecGetFlags"),
    stream("cuGraphUpload", 11010, "cuGraphUpload"),
    stream("cuGraphLaunch", 10000, "cuGraphLaunch"),
    // 12.0 gathered the results in a structure.
    plain("cuGraphExecUpdate", 12000, "cuGraphExecUpdate_v2"),
    plain("cuGraphExecKernelNodeSetParams", 12000, "cuGraphExecKernelNodeSetParams_v2"),
    plain("cuGraphExecMemcpyNodeSetParams", 10020, "cuGraphExecMemcpyNodeSetParams"),
    plain("cuGraphExecMemsetNodeSetParams", 10020, "cuGraphExecMemsetNodeSetParams"),
    plain("cuGraphExecHostNodeSetParams", 10020, "cuGraphExecHostNodeSetParams"),
    plain("cuGraphExecChildGraphNodeSetParams", 11010, "cuGraphExecChildGraphNodeSetParams"),
    plain("cuGraphExecEventRecordNodeSetEvent", 11010, "cuGraphExecEventRecordNodeSetEvent"),
    plain("cuGraphExecEventWaitNodeSetEvent", 11010, "cuGraphExecEventWaitNodeSetEvent"),
    plain("cuGraphExecBatchMemOpNodeSetParams", 11070, "cuGraphExecBatchMemOpNodeSetParams"),
    plain("cuGraphExecExternalSemaphoresSignalNodeSetParams", 11020, "cuGraphExecExternalSemaphoresSignalNodeSetParams"),
    plain("cuGraphExecExternalSemaphoresWaitNodeSetParams", 11020, "cuGraphExecExternalSemaphoresWaitNodeSetParams"),
    plain("cuGraphNodeSetEnabled", 11060, "cuGraphNodeSetEnabled"),
    plain("cuGraphNodeGetEnabled", 11060, "cuGraphNodeGetEnabled"),

    // Green contexts.
    plain("cuDeviceGetDevResource", 12040, "cuDeviceGetDevResource"),
    plain("cuDevSmResourceSplitByCount", 12040, "cuDevSmResourceSplitByCount"),
    plain("cuDevResourceGenerateDesc", 12040, "cuDevResourceGenerateDesc"),
    plain("cuGreenCtxCreate", 12040, "cuGreenCtxCreate"),
    plain("cuGreenCtxDestroy", 12040, "cuGreenCtxDestroy"),
    plain("cuGreenCtxGetDevResource", 12040, "cuGreenCtxGetDevResource"),
    plain("cuGreenCtxStreamCreate", 12050, "cuGreenCtxStreamCreate"),
    plain("cuStreamGetGreenCtx", 12040, "cuStreamGetGreenCtx"),

    // Memory of graphs.
    plain("cuDeviceGraphMemTrim", 11040, "cuDeviceGraphMemTrim"),
    plain("cuDeviceGetGraphMemAttribute", 11040, "cuDeviceGetGraphMemAttribute"),
    plain("cuDeviceSetGraphMemAttribute", 11040, "cuDeviceSetGraphMemAttribute"),
];

/// The signatures through which the loader asks for all others. They are bound as types: the loader gets their
/// addresses from the library's own exports, not from the table.
pub(crate) const CUDA_FUNCTION_TYPES: &[&str] = &["PFN_cuGetProcAddress_v11030", "PFN_cuGetProcAddress_v12000"];

/// The types and constants that no signature reaches by itself: flags that the driver takes as plain integers, and the
/// unversioned names of versioned structures.
pub(crate) const CUDA_TYPES: &[&str] = &[
    "CUcomputemode",
    "CUctx_flags",
    "CUdevice",
    "CUdeviceptr",
    "CUdriverProcAddress_flags",
    "CUexternalMemoryHandleType",
    "CUexternalSemaphoreHandleType",
    "CUgraphDependencyType",
    "CUgraphInstantiate_flags",
    "CUgreenCtxCreate_flags",
    "CUdevSmResourceSplitByCount_flags",
    "CUevent_flags",
    "CUevent_record_flags",
    "CUevent_wait_flags",
    "CUipcEventHandle",
    "CUipcMemHandle",
    "CUipcMem_flags",
    "CUjit_cacheMode",
    "CUjit_fallback",
    "CUlaunchAttributeID",
    "CUmemAccessDesc",
    "CUmemAllocationGranularity_flags",
    "CUmemAllocationProp",
    "CUmemAttach_flags",
    "CUmemcpyFlags",
    "CUmemPoolProps",
    "CUmemPoolPtrExportData",
    "CUmemorytype",
    "CUstreamAttrValue",
    "CUstreamMemoryBarrier_flags",
    "CUstreamUpdateCaptureDependencies_flags",
    "CUstreamWaitValue_flags",
    "CUstreamWriteValue_flags",
    "CUstream_flags",
    "CUuuid",
    "CUDA_BATCH_MEM_OP_NODE_PARAMS",
    "CUDA_EXTERNAL_MEMORY_BUFFER_DESC",
    "CUDA_EXTERNAL_MEMORY_HANDLE_DESC",
    "CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC",
    "CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS",
    "CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS",
    "CUDA_EXT_SEM_SIGNAL_NODE_PARAMS",
    "CUDA_EXT_SEM_WAIT_NODE_PARAMS",
    "CUDA_HOST_NODE_PARAMS",
    "CUDA_KERNEL_NODE_PARAMS",
    "CUDA_MEMCPY2D",
    "CUDA_MEMCPY3D",
    "CUDA_MEMCPY3D_BATCH_OP",
    "CUDA_MEMCPY3D_PEER",
    "CUDA_MEMSET_NODE_PARAMS",
    "CUDA_MEM_ALLOC_NODE_PARAMS",
];

/// The constants that the headers define as macros.
pub(crate) const CUDA_MACROS: &[&str] = &[
    "CUDA_EXTERNAL_MEMORY_DEDICATED",
    "CUDA_VERSION",
    "CU_GRAPH_COND_ASSIGN_DEFAULT",
    "CU_GRAPH_KERNEL_NODE_PORT_.*",
    "CU_IPC_HANDLE_SIZE",
    "CU_MEMHOST(ALLOC|REGISTER)_.*",
];

const fn nvrtc(name: &'static str, since: u32) -> Function {
    Function { rust_name: name, entry_point: name, since, exported: name, default_stream: DefaultStream::Irrelevant }
}

/// The functions of NVRTC. They have never changed their signatures, so the version is the one that added them.
pub(crate) const NVRTC_FUNCTIONS: &[Function] = &[
    nvrtc("nvrtcVersion", 7000),
    nvrtc("nvrtcGetErrorString", 7000),
    nvrtc("nvrtcGetNumSupportedArchs", 11020),
    nvrtc("nvrtcGetSupportedArchs", 11020),
    nvrtc("nvrtcCreateProgram", 7000),
    nvrtc("nvrtcDestroyProgram", 7000),
    nvrtc("nvrtcCompileProgram", 7000),
    nvrtc("nvrtcGetPTXSize", 7000),
    nvrtc("nvrtcGetPTX", 7000),
    nvrtc("nvrtcGetCUBINSize", 11010),
    nvrtc("nvrtcGetCUBIN", 11010),
    nvrtc("nvrtcGetProgramLogSize", 7000),
    nvrtc("nvrtcGetProgramLog", 7000),
    nvrtc("nvrtcAddNameExpression", 8000),
    nvrtc("nvrtcGetLoweredName", 8000),
];
