"""The constants of `runtime`, with the numbers of the CUDA runtime."""

__all__ = [
    "cudaCpuDeviceId",
    "cudaDevAttrAsyncEngineCount",
    "cudaDevAttrCanFlushRemoteWrites",
    "cudaDevAttrCanMapHostMemory",
    "cudaDevAttrCanUseHostPointerForRegisteredMem",
    "cudaDevAttrClockRate",
    "cudaDevAttrComputeMode",
    "cudaDevAttrComputePreemptionSupported",
    "cudaDevAttrConcurrentKernels",
    "cudaDevAttrConcurrentManagedAccess",
    "cudaDevAttrCooperativeLaunch",
    "cudaDevAttrCooperativeMultiDeviceLaunch",
    "cudaDevAttrDirectManagedMemAccessFromHost",
    "cudaDevAttrEccEnabled",
    "cudaDevAttrGPUDirectRDMAFlushWritesOptions",
    "cudaDevAttrGPUDirectRDMASupported",
    "cudaDevAttrGPUDirectRDMAWritesOrdering",
    "cudaDevAttrGlobalL1CacheSupported",
    "cudaDevAttrGlobalMemoryBusWidth",
    "cudaDevAttrGpuOverlap",
    "cudaDevAttrHostNativeAtomicSupported",
    "cudaDevAttrHostRegisterReadOnlySupported",
    "cudaDevAttrHostRegisterSupported",
    "cudaDevAttrIntegrated",
    "cudaDevAttrIsMultiGpuBoard",
    "cudaDevAttrKernelExecTimeout",
    "cudaDevAttrL2CacheSize",
    "cudaDevAttrLocalL1CacheSupported",
    "cudaDevAttrManagedMemory",
    "cudaDevAttrMaxBlockDimX",
    "cudaDevAttrMaxBlockDimY",
    "cudaDevAttrMaxBlockDimZ",
    "cudaDevAttrMaxBlocksPerMultiprocessor",
    "cudaDevAttrMaxGridDimX",
    "cudaDevAttrMaxGridDimY",
    "cudaDevAttrMaxGridDimZ",
    "cudaDevAttrMaxPitch",
    "cudaDevAttrMaxRegistersPerBlock",
    "cudaDevAttrMaxRegistersPerMultiprocessor",
    "cudaDevAttrMaxSharedMemoryPerBlock",
    "cudaDevAttrMaxSharedMemoryPerBlockOptin",
    "cudaDevAttrMaxSharedMemoryPerMultiprocessor",
    "cudaDevAttrMaxSurface1DLayeredLayers",
    "cudaDevAttrMaxSurface1DLayeredWidth",
    "cudaDevAttrMaxSurface1DWidth",
    "cudaDevAttrMaxSurface2DHeight",
    "cudaDevAttrMaxSurface2DLayeredHeight",
    "cudaDevAttrMaxSurface2DLayeredLayers",
    "cudaDevAttrMaxSurface2DLayeredWidth",
    "cudaDevAttrMaxSurface2DWidth",
    "cudaDevAttrMaxSurface3DDepth",
    "cudaDevAttrMaxSurface3DHeight",
    "cudaDevAttrMaxSurface3DWidth",
    "cudaDevAttrMaxSurfaceCubemapLayeredLayers",
    "cudaDevAttrMaxSurfaceCubemapLayeredWidth",
    "cudaDevAttrMaxSurfaceCubemapWidth",
    "cudaDevAttrMaxTexture1DLayeredLayers",
    "cudaDevAttrMaxTexture1DLayeredWidth",
    "cudaDevAttrMaxTexture1DLinearWidth",
    "cudaDevAttrMaxTexture1DMipmappedWidth",
    "cudaDevAttrMaxTexture1DWidth",
    "cudaDevAttrMaxTexture2DGatherHeight",
    "cudaDevAttrMaxTexture2DGatherWidth",
    "cudaDevAttrMaxTexture2DHeight",
    "cudaDevAttrMaxTexture2DLayeredHeight",
    "cudaDevAttrMaxTexture2DLayeredLayers",
    "cudaDevAttrMaxTexture2DLayeredWidth",
    "cudaDevAttrMaxTexture2DLinearHeight",
    "cudaDevAttrMaxTexture2DLinearPitch",
    "cudaDevAttrMaxTexture2DLinearWidth",
    "cudaDevAttrMaxTexture2DMipmappedHeight",
    "cudaDevAttrMaxTexture2DMipmappedWidth",
    "cudaDevAttrMaxTexture2DWidth",
    "cudaDevAttrMaxTexture3DDepth",
    "cudaDevAttrMaxTexture3DDepthAlt",
    "cudaDevAttrMaxTexture3DHeight",
    "cudaDevAttrMaxTexture3DHeightAlt",
    "cudaDevAttrMaxTexture3DWidth",
    "cudaDevAttrMaxTexture3DWidthAlt",
    "cudaDevAttrMaxTextureCubemapLayeredLayers",
    "cudaDevAttrMaxTextureCubemapLayeredWidth",
    "cudaDevAttrMaxTextureCubemapWidth",
    "cudaDevAttrMaxThreadsPerBlock",
    "cudaDevAttrMaxThreadsPerMultiProcessor",
    "cudaDevAttrMaxTimelineSemaphoreInteropSupported",
    "cudaDevAttrMemoryClockRate",
    "cudaDevAttrMemoryPoolSupportedHandleTypes",
    "cudaDevAttrMemoryPoolsSupported",
    "cudaDevAttrMultiGpuBoardGroupID",
    "cudaDevAttrMultiProcessorCount",
    "cudaDevAttrPageableMemoryAccess",
    "cudaDevAttrPageableMemoryAccessUsesHostPageTables",
    "cudaDevAttrPciBusId",
    "cudaDevAttrPciDeviceId",
    "cudaDevAttrPciDomainId",
    "cudaDevAttrReserved92",
    "cudaDevAttrReserved93",
    "cudaDevAttrReserved94",
    "cudaDevAttrReservedSharedMemoryPerBlock",
    "cudaDevAttrSingleToDoublePrecisionPerfRatio",
    "cudaDevAttrSparseCudaArraySupported",
    "cudaDevAttrStreamPrioritiesSupported",
    "cudaDevAttrSurfaceAlignment",
    "cudaDevAttrTccDriver",
    "cudaDevAttrTextureAlignment",
    "cudaDevAttrTexturePitchAlignment",
    "cudaDevAttrTotalConstantMemory",
    "cudaDevAttrUnifiedAddressing",
    "cudaDevAttrWarpSize",
    "cudaGraphDebugDotFlagsConditionalNodeParams",
    "cudaGraphDebugDotFlagsEventNodeParams",
    "cudaGraphDebugDotFlagsExtSemasSignalNodeParams",
    "cudaGraphDebugDotFlagsExtSemasWaitNodeParams",
    "cudaGraphDebugDotFlagsHandles",
    "cudaGraphDebugDotFlagsHostNodeParams",
    "cudaGraphDebugDotFlagsKernelNodeAttributes",
    "cudaGraphDebugDotFlagsKernelNodeParams",
    "cudaGraphDebugDotFlagsMemcpyNodeParams",
    "cudaGraphDebugDotFlagsMemsetNodeParams",
    "cudaGraphDebugDotFlagsVerbose",
    "cudaInvalidDeviceId",
    "cudaIpcMemLazyEnablePeerAccess",
    "cudaMemAllocationTypePinned",
    "cudaMemAttachGlobal",
    "cudaMemAttachHost",
    "cudaMemAttachSingle",
    "cudaMemHandleTypeNone",
    "cudaMemHandleTypePosixFileDescriptor",
    "cudaMemLocationTypeDevice",
    "cudaMemLocationTypeHost",
    "cudaMemLocationTypeHostNuma",
    "cudaMemLocationTypeHostNumaCurrent",
    "cudaMemLocationTypeInvalid",
    "cudaMemPoolAttrReleaseThreshold",
    "cudaMemPoolAttrReservedMemCurrent",
    "cudaMemPoolAttrReservedMemHigh",
    "cudaMemPoolAttrUsedMemCurrent",
    "cudaMemPoolAttrUsedMemHigh",
    "cudaMemPoolReuseAllowInternalDependencies",
    "cudaMemPoolReuseAllowOpportunistic",
    "cudaMemPoolReuseFollowEventDependencies",
    "cudaMemoryTypeDevice",
    "cudaMemoryTypeHost",
    "eventBlockingSync",
    "eventDefault",
    "eventDisableTiming",
    "eventInterprocess",
    "hostAllocDefault",
    "hostAllocMapped",
    "hostAllocPortable",
    "hostAllocWriteCombined",
    "memcpyDefault",
    "memcpyDeviceToDevice",
    "memcpyDeviceToHost",
    "memcpyHostToDevice",
    "memcpyHostToHost",
    "memoryTypeDevice",
    "memoryTypeHost",
    "memoryTypeManaged",
    "memoryTypeUnregistered",
    "streamCaptureModeGlobal",
    "streamCaptureModeRelaxed",
    "streamCaptureModeThreadLocal",
    "streamCaptureStatusActive",
    "streamCaptureStatusInvalidated",
    "streamCaptureStatusNone",
    "streamDefault",
    "streamLegacy",
    "streamNonBlocking",
    "streamPerThread",
]

cudaCpuDeviceId = -1
cudaDevAttrAsyncEngineCount = 40
cudaDevAttrCanFlushRemoteWrites = 98
cudaDevAttrCanMapHostMemory = 19
cudaDevAttrCanUseHostPointerForRegisteredMem = 91
cudaDevAttrClockRate = 13
cudaDevAttrComputeMode = 20
cudaDevAttrComputePreemptionSupported = 90
cudaDevAttrConcurrentKernels = 31
cudaDevAttrConcurrentManagedAccess = 89
cudaDevAttrCooperativeLaunch = 95
cudaDevAttrCooperativeMultiDeviceLaunch = 96
cudaDevAttrDirectManagedMemAccessFromHost = 101
cudaDevAttrEccEnabled = 32
cudaDevAttrGPUDirectRDMAFlushWritesOptions = 117
cudaDevAttrGPUDirectRDMASupported = 116
cudaDevAttrGPUDirectRDMAWritesOrdering = 118
cudaDevAttrGlobalL1CacheSupported = 79
cudaDevAttrGlobalMemoryBusWidth = 37
cudaDevAttrGpuOverlap = 15
cudaDevAttrHostNativeAtomicSupported = 86
cudaDevAttrHostRegisterReadOnlySupported = 113
cudaDevAttrHostRegisterSupported = 99
cudaDevAttrIntegrated = 18
cudaDevAttrIsMultiGpuBoard = 84
cudaDevAttrKernelExecTimeout = 17
cudaDevAttrL2CacheSize = 38
cudaDevAttrLocalL1CacheSupported = 80
cudaDevAttrManagedMemory = 83
cudaDevAttrMaxBlockDimX = 2
cudaDevAttrMaxBlockDimY = 3
cudaDevAttrMaxBlockDimZ = 4
cudaDevAttrMaxBlocksPerMultiprocessor = 106
cudaDevAttrMaxGridDimX = 5
cudaDevAttrMaxGridDimY = 6
cudaDevAttrMaxGridDimZ = 7
cudaDevAttrMaxPitch = 11
cudaDevAttrMaxRegistersPerBlock = 12
cudaDevAttrMaxRegistersPerMultiprocessor = 82
cudaDevAttrMaxSharedMemoryPerBlock = 8
cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81
cudaDevAttrMaxSurface1DLayeredLayers = 62
cudaDevAttrMaxSurface1DLayeredWidth = 61
cudaDevAttrMaxSurface1DWidth = 55
cudaDevAttrMaxSurface2DHeight = 57
cudaDevAttrMaxSurface2DLayeredHeight = 64
cudaDevAttrMaxSurface2DLayeredLayers = 65
cudaDevAttrMaxSurface2DLayeredWidth = 63
cudaDevAttrMaxSurface2DWidth = 56
cudaDevAttrMaxSurface3DDepth = 60
cudaDevAttrMaxSurface3DHeight = 59
cudaDevAttrMaxSurface3DWidth = 58
cudaDevAttrMaxSurfaceCubemapLayeredLayers = 68
cudaDevAttrMaxSurfaceCubemapLayeredWidth = 67
cudaDevAttrMaxSurfaceCubemapWidth = 66
cudaDevAttrMaxTexture1DLayeredLayers = 43
cudaDevAttrMaxTexture1DLayeredWidth = 42
cudaDevAttrMaxTexture1DLinearWidth = 69
cudaDevAttrMaxTexture1DMipmappedWidth = 77
cudaDevAttrMaxTexture1DWidth = 21
cudaDevAttrMaxTexture2DGatherHeight = 46
cudaDevAttrMaxTexture2DGatherWidth = 45
cudaDevAttrMaxTexture2DHeight = 23
cudaDevAttrMaxTexture2DLayeredHeight = 28
cudaDevAttrMaxTexture2DLayeredLayers = 29
cudaDevAttrMaxTexture2DLayeredWidth = 27
cudaDevAttrMaxTexture2DLinearHeight = 71
cudaDevAttrMaxTexture2DLinearPitch = 72
cudaDevAttrMaxTexture2DLinearWidth = 70
cudaDevAttrMaxTexture2DMipmappedHeight = 74
cudaDevAttrMaxTexture2DMipmappedWidth = 73
cudaDevAttrMaxTexture2DWidth = 22
cudaDevAttrMaxTexture3DDepth = 26
cudaDevAttrMaxTexture3DDepthAlt = 49
cudaDevAttrMaxTexture3DHeight = 25
cudaDevAttrMaxTexture3DHeightAlt = 48
cudaDevAttrMaxTexture3DWidth = 24
cudaDevAttrMaxTexture3DWidthAlt = 47
cudaDevAttrMaxTextureCubemapLayeredLayers = 54
cudaDevAttrMaxTextureCubemapLayeredWidth = 53
cudaDevAttrMaxTextureCubemapWidth = 52
cudaDevAttrMaxThreadsPerBlock = 1
cudaDevAttrMaxThreadsPerMultiProcessor = 39
cudaDevAttrMaxTimelineSemaphoreInteropSupported = 114
cudaDevAttrMemoryClockRate = 36
cudaDevAttrMemoryPoolSupportedHandleTypes = 119
cudaDevAttrMemoryPoolsSupported = 115
cudaDevAttrMultiGpuBoardGroupID = 85
cudaDevAttrMultiProcessorCount = 16
cudaDevAttrPageableMemoryAccess = 88
cudaDevAttrPageableMemoryAccessUsesHostPageTables = 100
cudaDevAttrPciBusId = 33
cudaDevAttrPciDeviceId = 34
cudaDevAttrPciDomainId = 50
cudaDevAttrReserved92 = 92
cudaDevAttrReserved93 = 93
cudaDevAttrReserved94 = 94
cudaDevAttrReservedSharedMemoryPerBlock = 111
cudaDevAttrSingleToDoublePrecisionPerfRatio = 87
cudaDevAttrSparseCudaArraySupported = 112
cudaDevAttrStreamPrioritiesSupported = 78
cudaDevAttrSurfaceAlignment = 30
cudaDevAttrTccDriver = 35
cudaDevAttrTextureAlignment = 14
cudaDevAttrTexturePitchAlignment = 51
cudaDevAttrTotalConstantMemory = 9
cudaDevAttrUnifiedAddressing = 41
cudaDevAttrWarpSize = 10
cudaGraphDebugDotFlagsConditionalNodeParams = 32768
cudaGraphDebugDotFlagsEventNodeParams = 64
cudaGraphDebugDotFlagsExtSemasSignalNodeParams = 128
cudaGraphDebugDotFlagsExtSemasWaitNodeParams = 256
cudaGraphDebugDotFlagsHandles = 1024
cudaGraphDebugDotFlagsHostNodeParams = 32
cudaGraphDebugDotFlagsKernelNodeAttributes = 512
cudaGraphDebugDotFlagsKernelNodeParams = 4
cudaGraphDebugDotFlagsMemcpyNodeParams = 8
cudaGraphDebugDotFlagsMemsetNodeParams = 16
cudaGraphDebugDotFlagsVerbose = 1
cudaInvalidDeviceId = -2
cudaIpcMemLazyEnablePeerAccess = 1
cudaMemAllocationTypePinned = 1
cudaMemAttachGlobal = 1
cudaMemAttachHost = 2
cudaMemAttachSingle = 4
cudaMemHandleTypeNone = 0
cudaMemHandleTypePosixFileDescriptor = 1
cudaMemLocationTypeDevice = 1
cudaMemLocationTypeHost = 2
cudaMemLocationTypeHostNuma = 3
cudaMemLocationTypeHostNumaCurrent = 4
cudaMemLocationTypeInvalid = 0
cudaMemPoolAttrReleaseThreshold = 4
cudaMemPoolAttrReservedMemCurrent = 5
cudaMemPoolAttrReservedMemHigh = 6
cudaMemPoolAttrUsedMemCurrent = 7
cudaMemPoolAttrUsedMemHigh = 8
cudaMemPoolReuseAllowInternalDependencies = 3
cudaMemPoolReuseAllowOpportunistic = 2
cudaMemPoolReuseFollowEventDependencies = 1
cudaMemoryTypeDevice = 2
cudaMemoryTypeHost = 1
eventBlockingSync = 1
eventDefault = 0
eventDisableTiming = 2
eventInterprocess = 4
hostAllocDefault = 0
hostAllocMapped = 2
hostAllocPortable = 1
hostAllocWriteCombined = 4
memcpyDefault = 4
memcpyDeviceToDevice = 3
memcpyDeviceToHost = 2
memcpyHostToDevice = 1
memcpyHostToHost = 0
memoryTypeDevice = 2
memoryTypeHost = 1
memoryTypeManaged = 3
memoryTypeUnregistered = 0
streamCaptureModeGlobal = 0
streamCaptureModeRelaxed = 2
streamCaptureModeThreadLocal = 1
streamCaptureStatusActive = 1
streamCaptureStatusInvalidated = 2
streamCaptureStatusNone = 0
streamDefault = 0
streamLegacy = 1
streamNonBlocking = 1
streamPerThread = 2
