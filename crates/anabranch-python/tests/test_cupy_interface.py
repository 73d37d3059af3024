"""The names of `anabranch.cupy`, and the page that describes it."""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path

import pytest

from anabranch import cupy
from anabranch.cupy import cuda

PAGE = next(
    path
    for path in (Path(__file__).parents[number] / "docs" / "python-cupy.md" for number in (1, 3))
    if path.exists()
)

# What CuPy 14.2 has. `ci/compare-drop-ins.py` compares with an installed one.
PARAMETERS = """
cuda.Stream(null=False, non_blocking=False, ptds=False, priority=None)
cuda.Stream.use()
cuda.Stream.synchronize()
cuda.Stream.record(event=None)
cuda.Stream.wait_event(event)
cuda.Stream.add_callback(callback, arg)
cuda.Stream.launch_host_func(callback, arg)
cuda.Stream.begin_capture(mode=None)
cuda.Stream.end_capture()
cuda.Stream.is_capturing()
cuda.Stream.from_external(obj)
cuda.ExternalStream(ptr, device_id=-1)
cuda.Event(block=False, disable_timing=False, interprocess=False)
cuda.Event.record(stream=None)
cuda.Event.synchronize()
cuda.get_current_stream(device_id=-1)
cuda.get_elapsed_time(start_event, end_event)
cuda.Graph(*args, **kwargs)
cuda.Graph.launch(stream=None)
cuda.Graph.upload(stream=None)
cuda.Graph.debug_dot_str(flags=0)
cuda.Device(device=None)
cuda.Device.use()
cuda.Device.synchronize()
cuda.Device.from_pci_bus_id(pci_bus_id)
cuda.get_device_id()
cuda.is_available()
RawKernel(code, name, options=(), backend='nvrtc', translate_cucomplex=False, enable_cooperative_groups=False, jitify=None)
RawKernel.compile(log_stream=None)
RawModule(code=None, path=None, options=(), backend='nvrtc', translate_cucomplex=False, enable_cooperative_groups=False, name_expressions=None, jitify=None)
RawModule.compile(log_stream=None)
RawModule.get_function(name)
RawModule.get_global(name)
cuda.Function(module, funcname)
cuda.Function.linear_launch(size, args, shared_mem=0, block_max_size=128, stream=None, enable_cooperative_groups=False)
cuda.Module()
cuda.Module.load(cubin)
cuda.Module.load_file(filename)
cuda.Module.get_function(name)
cuda.Module.get_global_var(name)
cuda.MemoryAsyncPool(pool_handles='current')
cuda.MemoryAsyncPool.malloc(size)
cuda.MemoryAsyncPool.free_all_blocks(stream=None)
cuda.MemoryAsyncPool.used_bytes()
cuda.MemoryAsyncPool.total_bytes()
cuda.MemoryAsyncPool.free_bytes()
cuda.MemoryAsyncPool.set_limit(size=None, fraction=None)
cuda.MemoryAsyncPool.get_limit()
cuda.MemoryAsyncPool.n_free_blocks()
cuda.MemoryPointer(mem, offset)
cuda.MemoryPointer.copy_from(mem, size)
cuda.MemoryPointer.copy_from_async(mem, size, stream=None)
cuda.MemoryPointer.copy_from_device(src, size)
cuda.MemoryPointer.copy_from_device_async(src, size, stream=None)
cuda.MemoryPointer.copy_from_host(mem, size)
cuda.MemoryPointer.copy_from_host_async(mem, size, stream=None)
cuda.MemoryPointer.copy_to_host(mem, size)
cuda.MemoryPointer.copy_to_host_async(mem, size, stream=None)
cuda.MemoryPointer.memset(value, size)
cuda.MemoryPointer.memset_async(value, size, stream=None)
cuda.BaseMemory()
cuda.Memory(size)
cuda.MemoryAsync(size, stream)
cuda.UnownedMemory(ptr, size, owner, device_id=-1)
cuda.ManagedMemory(size)
cuda.ManagedMemory.prefetch(stream, device_id=-2)
cuda.alloc(size)
cuda.get_allocator()
cuda.set_allocator(allocator=None)
cuda.using_allocator(allocator=None)
cuda.malloc_async(size)
cuda.malloc_managed(size)
cuda.PinnedMemory(size, flags=0)
cuda.PinnedMemoryPointer(mem, offset)
cuda.PinnedMemoryPointer.size()
cuda.alloc_pinned_memory(size)
cuda.runtime.CUDARuntimeError(status)
cuda.runtime.check_status(status)
cuda.runtime.streamAddCallback(stream, callback, arg, flags=0)
cuda.runtime.streamBeginCapture(stream, mode=2)
cuda.runtime.streamCreate()
cuda.runtime.streamCreateWithFlags(flags)
cuda.runtime.streamCreateWithPriority(flags, priority)
cuda.runtime.streamDestroy(stream)
cuda.runtime.streamEndCapture(stream)
cuda.runtime.streamGetFlags(stream)
cuda.runtime.streamGetPriority(stream)
cuda.runtime.streamIsCapturing(stream)
cuda.runtime.streamQuery(stream)
cuda.runtime.streamSynchronize(stream)
cuda.runtime.streamWaitEvent(stream, event, flags=0)
cuda.runtime.eventCreate()
cuda.runtime.eventCreateWithFlags(flags)
cuda.runtime.eventDestroy(event)
cuda.runtime.eventElapsedTime(start, end)
cuda.runtime.eventQuery(event)
cuda.runtime.eventRecord(event, stream)
cuda.runtime.eventSynchronize(event)
cuda.runtime.launchHostFunc(stream, callback, arg)
cuda.runtime.graphDebugDotPrint(graph, path, flags)
cuda.runtime.graphDestroy(graph)
cuda.runtime.graphExecDestroy(graphExec)
cuda.runtime.graphInstantiate(graph)
cuda.runtime.graphLaunch(graphExec, stream)
cuda.runtime.graphUpload(graphExec, stream)
cuda.runtime.getDevice()
cuda.runtime.setDevice(device)
cuda.runtime.getDeviceCount()
cuda.runtime.deviceSynchronize()
cuda.runtime.deviceGetPCIBusId(device)
cuda.runtime.deviceGetByPCIBusId(pci_bus_id)
cuda.runtime.deviceCanAccessPeer(device, peerDevice)
cuda.runtime.deviceEnablePeerAccess(peerDevice)
cuda.runtime.deviceDisablePeerAccess(peerDevice)
cuda.runtime.deviceGetAttribute(attrib, device)
cuda.runtime.getDeviceProperties(device)
cuda.runtime.driverGetVersion()
cuda.runtime.runtimeGetVersion()
cuda.runtime.deviceGetDefaultMemPool(device)
cuda.runtime.deviceGetMemPool(device)
cuda.runtime.deviceSetMemPool(device, pool)
cuda.runtime.malloc(size)
cuda.runtime.mallocAsync(size, stream)
cuda.runtime.mallocFromPoolAsync(size, pool, stream)
cuda.runtime.free(ptr)
cuda.runtime.freeAsync(ptr, stream)
cuda.runtime.freeHost(ptr)
cuda.runtime.hostRegister(ptr, size, flags)
cuda.runtime.hostUnregister(ptr)
cuda.runtime.hostAlloc(size, flags)
cuda.runtime.mallocManaged(size, flags=1)
cuda.runtime.memGetInfo()
cuda.runtime.memcpy(dst, src, size, kind)
cuda.runtime.memcpyAsync(dst, src, size, kind, stream)
cuda.runtime.memcpyPeer(dst, dstDevice, src, srcDevice, size)
cuda.runtime.memcpyPeerAsync(dst, dstDevice, src, srcDevice, size, stream)
cuda.runtime.memset(ptr, value, size)
cuda.runtime.memsetAsync(ptr, value, size, stream)
cuda.runtime.memcpy2D(dst, dpitch, src, spitch, width, height, kind)
cuda.runtime.memcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, stream)
cuda.runtime.memPrefetchAsync(devPtr, count, dstDevice, stream)
cuda.runtime.memPoolCreate(props)
cuda.runtime.memPoolDestroy(pool)
cuda.runtime.memPoolTrimTo(pool, size)
cuda.runtime.MemPoolProps(allocType, handleType, locationType, devId)
cuda.runtime.memPoolGetAttribute(pool, attr)
cuda.runtime.memPoolSetAttribute(pool, attr, value)
cuda.runtime.pointerGetAttributes(ptr)
cuda.runtime.pointerGetMemoryType(ptr)
cuda.runtime.PointerAttributes(device, devicePointer, hostPointer, type=-1)
cuda.runtime.ipcGetEventHandle(event)
cuda.runtime.ipcOpenEventHandle(handle)
cuda.runtime.ipcGetMemHandle(devPtr)
cuda.runtime.ipcOpenMemHandle(handle, flags=1)
cuda.runtime.ipcCloseMemHandle(devPtr)
cuda.driver.CUDADriverError(status, name=None)
cuda.compiler.CompileException(msg, source, name, options, backend='nvrtc')
cuda.compiler.CompileException.get_message()
cuda.compiler.CompileException.dump(f)
cuda.memory.OutOfMemoryError(size, total, limit=0)
"""

CONSTANTS = """
streamCaptureModeGlobal=0 streamCaptureModeRelaxed=2 streamCaptureModeThreadLocal=1 streamCaptureStatusActive=1
streamCaptureStatusInvalidated=2 streamCaptureStatusNone=0 streamDefault=0 streamLegacy=1 streamNonBlocking=1
streamPerThread=2 eventBlockingSync=1 eventDefault=0 eventDisableTiming=2 eventInterprocess=4 hostAllocDefault=0
hostAllocMapped=2 hostAllocPortable=1 hostAllocWriteCombined=4 memcpyHostToHost=0 memcpyHostToDevice=1
memcpyDeviceToHost=2 memcpyDeviceToDevice=3 memcpyDefault=4 is_hip=0 memoryTypeDevice=2 memoryTypeHost=1
memoryTypeManaged=3 memoryTypeUnregistered=0 cudaCpuDeviceId=-1 cudaInvalidDeviceId=-2
cudaIpcMemLazyEnablePeerAccess=1 cudaDevAttrAsyncEngineCount=40 cudaDevAttrCanFlushRemoteWrites=98
cudaDevAttrCanMapHostMemory=19 cudaDevAttrCanUseHostPointerForRegisteredMem=91 cudaDevAttrClockRate=13
cudaDevAttrComputeMode=20 cudaDevAttrComputePreemptionSupported=90 cudaDevAttrConcurrentKernels=31
cudaDevAttrConcurrentManagedAccess=89 cudaDevAttrCooperativeLaunch=95 cudaDevAttrCooperativeMultiDeviceLaunch=96
cudaDevAttrDirectManagedMemAccessFromHost=101 cudaDevAttrEccEnabled=32 cudaDevAttrGPUDirectRDMAFlushWritesOptions=117
cudaDevAttrGPUDirectRDMASupported=116 cudaDevAttrGPUDirectRDMAWritesOrdering=118 cudaDevAttrGlobalL1CacheSupported=79
cudaDevAttrGlobalMemoryBusWidth=37 cudaDevAttrGpuOverlap=15 cudaDevAttrHostNativeAtomicSupported=86
cudaDevAttrHostRegisterReadOnlySupported=113 cudaDevAttrHostRegisterSupported=99 cudaDevAttrIntegrated=18
cudaDevAttrIsMultiGpuBoard=84 cudaDevAttrKernelExecTimeout=17 cudaDevAttrL2CacheSize=38
cudaDevAttrLocalL1CacheSupported=80 cudaDevAttrManagedMemory=83 cudaDevAttrMaxBlockDimX=2 cudaDevAttrMaxBlockDimY=3
cudaDevAttrMaxBlockDimZ=4 cudaDevAttrMaxBlocksPerMultiprocessor=106 cudaDevAttrMaxGridDimX=5 cudaDevAttrMaxGridDimY=6
cudaDevAttrMaxGridDimZ=7 cudaDevAttrMaxPitch=11 cudaDevAttrMaxRegistersPerBlock=12
cudaDevAttrMaxRegistersPerMultiprocessor=82 cudaDevAttrMaxSharedMemoryPerBlock=8
cudaDevAttrMaxSharedMemoryPerBlockOptin=97 cudaDevAttrMaxSharedMemoryPerMultiprocessor=81
cudaDevAttrMaxSurface1DLayeredLayers=62 cudaDevAttrMaxSurface1DLayeredWidth=61 cudaDevAttrMaxSurface1DWidth=55
cudaDevAttrMaxSurface2DHeight=57 cudaDevAttrMaxSurface2DLayeredHeight=64 cudaDevAttrMaxSurface2DLayeredLayers=65
cudaDevAttrMaxSurface2DLayeredWidth=63 cudaDevAttrMaxSurface2DWidth=56 cudaDevAttrMaxSurface3DDepth=60
cudaDevAttrMaxSurface3DHeight=59 cudaDevAttrMaxSurface3DWidth=58 cudaDevAttrMaxSurfaceCubemapLayeredLayers=68
cudaDevAttrMaxSurfaceCubemapLayeredWidth=67 cudaDevAttrMaxSurfaceCubemapWidth=66
cudaDevAttrMaxTexture1DLayeredLayers=43 cudaDevAttrMaxTexture1DLayeredWidth=42 cudaDevAttrMaxTexture1DLinearWidth=69
cudaDevAttrMaxTexture1DMipmappedWidth=77 cudaDevAttrMaxTexture1DWidth=21 cudaDevAttrMaxTexture2DGatherHeight=46
cudaDevAttrMaxTexture2DGatherWidth=45 cudaDevAttrMaxTexture2DHeight=23 cudaDevAttrMaxTexture2DLayeredHeight=28
cudaDevAttrMaxTexture2DLayeredLayers=29 cudaDevAttrMaxTexture2DLayeredWidth=27 cudaDevAttrMaxTexture2DLinearHeight=71
cudaDevAttrMaxTexture2DLinearPitch=72 cudaDevAttrMaxTexture2DLinearWidth=70 cudaDevAttrMaxTexture2DMipmappedHeight=74
cudaDevAttrMaxTexture2DMipmappedWidth=73 cudaDevAttrMaxTexture2DWidth=22 cudaDevAttrMaxTexture3DDepth=26
cudaDevAttrMaxTexture3DDepthAlt=49 cudaDevAttrMaxTexture3DHeight=25 cudaDevAttrMaxTexture3DHeightAlt=48
cudaDevAttrMaxTexture3DWidth=24 cudaDevAttrMaxTexture3DWidthAlt=47 cudaDevAttrMaxTextureCubemapLayeredLayers=54
cudaDevAttrMaxTextureCubemapLayeredWidth=53 cudaDevAttrMaxTextureCubemapWidth=52 cudaDevAttrMaxThreadsPerBlock=1
cudaDevAttrMaxThreadsPerMultiProcessor=39 cudaDevAttrMaxTimelineSemaphoreInteropSupported=114
cudaDevAttrMemoryClockRate=36 cudaDevAttrMemoryPoolSupportedHandleTypes=119 cudaDevAttrMemoryPoolsSupported=115
cudaDevAttrMultiGpuBoardGroupID=85 cudaDevAttrMultiProcessorCount=16 cudaDevAttrPageableMemoryAccess=88
cudaDevAttrPageableMemoryAccessUsesHostPageTables=100 cudaDevAttrPciBusId=33 cudaDevAttrPciDeviceId=34
cudaDevAttrPciDomainId=50 cudaDevAttrReserved92=92 cudaDevAttrReserved93=93 cudaDevAttrReserved94=94
cudaDevAttrReservedSharedMemoryPerBlock=111 cudaDevAttrSingleToDoublePrecisionPerfRatio=87
cudaDevAttrSparseCudaArraySupported=112 cudaDevAttrStreamPrioritiesSupported=78 cudaDevAttrSurfaceAlignment=30
cudaDevAttrTccDriver=35 cudaDevAttrTextureAlignment=14 cudaDevAttrTexturePitchAlignment=51
cudaDevAttrTotalConstantMemory=9 cudaDevAttrUnifiedAddressing=41 cudaDevAttrWarpSize=10
cudaGraphDebugDotFlagsConditionalNodeParams=32768 cudaGraphDebugDotFlagsEventNodeParams=64
cudaGraphDebugDotFlagsExtSemasSignalNodeParams=128 cudaGraphDebugDotFlagsExtSemasWaitNodeParams=256
cudaGraphDebugDotFlagsHandles=1024 cudaGraphDebugDotFlagsHostNodeParams=32
cudaGraphDebugDotFlagsKernelNodeAttributes=512 cudaGraphDebugDotFlagsKernelNodeParams=4
cudaGraphDebugDotFlagsMemcpyNodeParams=8 cudaGraphDebugDotFlagsMemsetNodeParams=16 cudaGraphDebugDotFlagsVerbose=1
cudaMemAllocationTypePinned=1 cudaMemAttachGlobal=1 cudaMemAttachHost=2 cudaMemAttachSingle=4 cudaMemHandleTypeNone=0
cudaMemHandleTypePosixFileDescriptor=1 cudaMemLocationTypeDevice=1 cudaMemLocationTypeHost=2
cudaMemLocationTypeHostNuma=3 cudaMemLocationTypeHostNumaCurrent=4 cudaMemLocationTypeInvalid=0
cudaMemPoolAttrReleaseThreshold=4 cudaMemPoolAttrReservedMemCurrent=5 cudaMemPoolAttrReservedMemHigh=6
cudaMemPoolAttrUsedMemCurrent=7 cudaMemPoolAttrUsedMemHigh=8 cudaMemPoolReuseAllowInternalDependencies=3
cudaMemPoolReuseAllowOpportunistic=2 cudaMemPoolReuseFollowEventDependencies=1 cudaMemoryTypeDevice=2
cudaMemoryTypeHost=1
"""


def find(name):
    return functools.reduce(getattr, name.split("."), cupy)


def rows():
    """The names that the page lists, whether they begin others, and what it says of each."""
    for line in PAGE.read_text().splitlines():
        row = re.fullmatch(r"\| (`[^|]*`) \| ([a-z ]+) \|.*\|", line)
        if row:
            yield from ((name, bool(star), row[2]) for name, star in re.findall(r"`([\w.]+)(\*?)`", row[1]))


def parameters(member):
    if inspect.isclass(member):
        member = member.__init__
    listed = inspect.signature(member).parameters.values()
    return [str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in listed]


@pytest.mark.parametrize("line", PARAMETERS.split("\n")[1:-1])
def test_parameters(line):
    name, listed = re.fullmatch(r"([\w.]+)\((.*)\)", line).groups()
    found = [parameter for parameter in parameters(find(name)) if parameter not in ("self", "cls")]
    assert ", ".join(found) == listed


def test_constants():
    for text in CONSTANTS.split():
        name, value = text.split("=")
        assert getattr(cuda.runtime, name) == int(value), name


def test_the_page_lists_what_is_there():
    count = 0
    for name, is_start, says in rows():
        owner, _, last = name.rpartition(".")
        members = dir(find(owner) if owner else cupy)
        is_there = any(member.startswith(last) for member in members) if is_start else last in members
        if not is_there and not is_start and owner and inspect.isclass(find(owner)):
            # An attribute that methods assign.
            methods = [item for base in find(owner).__mro__ for item in vars(base).values() if inspect.isfunction(item)]
            sources = [inspect.getsource(method) for method in methods]
            is_there = any(f"self.{last} =" in source for source in sources)
        assert is_there == (says != "not there"), name
        count += 1
    assert count > 200


def test_everything_public_is_on_the_page():
    listed = list(rows())
    for scope in ("cuda", "cuda.runtime"):
        for name in find(scope).__all__:
            full = f"{scope}.{name}"
            assert any(full == row or (is_start and full.startswith(row)) for row, is_start, _ in listed), full


def test_everything_public_is_documented():
    modules = [cupy, cuda, *(getattr(cuda, name) for name in cuda.__all__ if inspect.ismodule(getattr(cuda, name)))]
    for module in modules:
        assert module.__doc__
        for name in module.__all__:
            item = getattr(module, name)
            if inspect.isclass(item) or inspect.isfunction(item):
                assert item.__doc__, f"{module.__name__}.{name}"
            for member, value in vars(item).items() if inspect.isclass(item) else ():
                if not member.startswith("_") and (callable(value) or isinstance(value, (property, classmethod))):
                    assert getattr(item, member).__doc__, f"{name}.{member}"


def test_the_examples_of_the_page():
    pytest.importorskip("numpy")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    # One program: later blocks use what earlier ones have made.
    program = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), program)


def test_importing_loads_nothing_else(run_python):
    result = run_python(
        """
import os, sys
import anabranch.cupy
libraries = open("/proc/self/maps").read()
assert "libcuda" not in libraries and "nvrtc" not in libraries
assert not {"numpy", "cupy", "torch", "warp", "asyncio"} & set(sys.modules), sys.modules
assert len(os.listdir("/proc/self/task")) == 1
"""
    )
    assert result.returncode == 0, result.stderr


def test_the_package_does_not_import_it(run_python):
    result = run_python("import anabranch, sys; assert 'anabranch.cupy' not in sys.modules")
    assert result.returncode == 0, result.stderr
