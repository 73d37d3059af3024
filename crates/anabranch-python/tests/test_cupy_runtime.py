"""The functions of `anabranch.cupy.cuda.runtime`, and devices."""

from __future__ import annotations

import ctypes

import pytest

from anabranch.cupy import cuda
from anabranch.cupy.cuda import runtime


def refused(status, call, *arguments, **keywords):
    with pytest.raises(runtime.CUDARuntimeError) as caught:
        call(*arguments, **keywords)
    assert caught.value.status == status, caught.value


@pytest.fixture
def stream():
    handle = runtime.streamCreateWithFlags(runtime.streamNonBlocking)
    yield handle
    runtime.streamSynchronize(handle)
    runtime.streamDestroy(handle)


def read(address, size):
    result = (ctypes.c_uint8 * size)()
    runtime.memcpy(ctypes.addressof(result), address, size, runtime.memcpyDeviceToHost)
    return bytes(result)


def test_streams(stream):
    called = []
    runtime.launchHostFunc(stream, called.append, 5)
    runtime.streamAddCallback(stream, lambda *arguments: called.append(arguments), 7)
    runtime.streamSynchronize(stream)
    assert called == [5, (stream, 0, 7)]
    assert runtime.streamQuery(stream) == 0
    assert runtime.streamGetFlags(stream) == runtime.streamNonBlocking
    assert runtime.streamGetPriority(stream) == 0
    refused(1, runtime.streamAddCallback, stream, int, 0, 1)
    refused(1, runtime.streamCreateWithFlags, 1 << 20)
    for create in (runtime.streamCreate, lambda: runtime.streamCreateWithPriority(runtime.streamDefault, -1)):
        other = create()
        assert runtime.streamGetFlags(other) == runtime.streamDefault
        runtime.streamDestroy(other)
    for default in (0, runtime.streamLegacy, runtime.streamPerThread):
        runtime.streamSynchronize(default)


def test_events(stream):
    start, end = runtime.eventCreate(), runtime.eventCreateWithFlags(runtime.eventBlockingSync)
    runtime.eventRecord(start, stream)
    runtime.eventRecord(end, stream)
    runtime.eventSynchronize(end)
    assert runtime.eventQuery(end) == 0
    assert runtime.eventElapsedTime(start, end) >= 0
    runtime.streamWaitEvent(stream, end)
    runtime.streamSynchronize(stream)
    runtime.eventDestroy(start)
    runtime.eventDestroy(end)
    refused(1, runtime.eventCreateWithFlags, runtime.eventInterprocess)


def test_graphs(stream, tmp_path):
    called = []
    assert runtime.streamIsCapturing(stream) is False
    runtime.streamBeginCapture(stream)
    assert runtime.streamIsCapturing(stream) is True
    runtime.launchHostFunc(stream, called.append, 1)
    graph = runtime.streamEndCapture(stream)
    executable = runtime.graphInstantiate(graph)
    runtime.graphUpload(executable, stream)
    runtime.graphLaunch(executable, stream)
    runtime.streamSynchronize(stream)
    assert called == [1]
    path = tmp_path / "graph.dot"
    runtime.graphDebugDotPrint(graph, str(path), runtime.cudaGraphDebugDotFlagsVerbose)
    assert path.read_text().startswith("digraph")
    refused(304, runtime.graphDebugDotPrint, graph, str(tmp_path / "no" / "graph.dot"), 0)
    runtime.graphDestroy(graph)
    runtime.graphExecDestroy(executable)
    refused(1, runtime.streamBeginCapture, stream, 5)
    refused(401, runtime.streamEndCapture, stream)


def test_an_invalidated_capture(stream):
    runtime.streamBeginCapture(stream)
    assert runtime.streamQuery(stream) == 900
    with pytest.raises(RuntimeError, match="an error has invalidated the capture sequence"):
        runtime.streamIsCapturing(stream)
    refused(901, runtime.streamEndCapture, stream)


def test_memory(stream):
    address = runtime.malloc(64)
    runtime.memset(address, -1, 64)
    # The stream does not wait for the default one.
    runtime.streamSynchronize(runtime.streamLegacy)
    runtime.memsetAsync(address, 0x102, 8, stream)
    runtime.streamSynchronize(stream)
    assert read(address, 64) == b"\x02" * 8 + b"\xff" * 56
    source = (ctypes.c_uint8 * 64)(*range(64))
    runtime.memcpy(address, ctypes.addressof(source), 64, runtime.memcpyDefault)
    runtime.streamSynchronize(0)
    other = runtime.mallocAsync(64, stream)
    runtime.memcpyAsync(other, address, 64, runtime.memcpyDeviceToDevice, stream)
    runtime.streamSynchronize(stream)
    assert read(other, 64) == bytes(range(64))
    runtime.freeAsync(other, stream)
    assert runtime.pointerGetAttributes(address).type == runtime.memoryTypeDevice
    assert runtime.pointerGetMemoryType(address) == runtime.memoryTypeDevice
    runtime.free(address)
    assert (runtime.malloc(0), runtime.hostAlloc(0, 0), runtime.mallocAsync(0, stream)) == (0, 0, 0)
    refused(2, runtime.malloc, 1 << 60)
    refused(21, runtime.memcpy, 0, 0, 0, 7)
    free, total = runtime.memGetInfo()
    assert 0 < free <= total


@pytest.mark.parametrize("kind", ["memcpyDefault", "memcpyHostToDevice"])
def test_rows(stream, kind):
    address = runtime.malloc(64)
    runtime.memset(address, 0, 64)
    source = (ctypes.c_uint8 * 12)(*range(12))
    runtime.memcpy2D(address, 16, ctypes.addressof(source), 4, 3, 3, getattr(runtime, kind))
    expected = bytearray(64)
    for row in range(3):
        expected[16 * row : 16 * row + 3] = bytes(range(4 * row, 4 * row + 3))
    assert read(address, 64) == bytes(expected)
    pinned = runtime.hostAlloc(9, runtime.hostAllocPortable)
    runtime.memcpy2DAsync(pinned, 3, address, 16, 3, 3, runtime.memcpyDefault, stream)
    runtime.streamSynchronize(stream)
    assert ctypes.string_at(pinned, 9) == bytes([0, 1, 2, 4, 5, 6, 8, 9, 10])
    assert runtime.pointerGetAttributes(pinned).type == runtime.memoryTypeHost
    runtime.freeHost(pinned)
    runtime.free(address)


def test_managed_and_registered_memory(stream):
    managed = runtime.mallocManaged(4096)
    runtime.memPrefetchAsync(managed, 4096, runtime.cudaCpuDeviceId, stream)
    runtime.memPrefetchAsync(managed, 4096, runtime.getDevice(), stream)
    runtime.streamSynchronize(stream)
    assert runtime.pointerGetAttributes(managed).type == runtime.memoryTypeManaged
    runtime.free(managed)
    refused(801, runtime.mallocManaged, 16, runtime.cudaMemAttachHost)
    block = ctypes.create_string_buffer(3 * 4096)
    page = (ctypes.addressof(block) + 4095) & ~4095
    runtime.hostRegister(page, 4096, 0)
    runtime.hostUnregister(page)
    unknown = runtime.pointerGetAttributes(1)
    assert (unknown.type, unknown.device) == (runtime.memoryTypeUnregistered, runtime.cudaInvalidDeviceId)


def test_pools(stream):
    device = runtime.getDevice()
    default = runtime.deviceGetDefaultMemPool(device)
    assert runtime.deviceGetMemPool(device) == default
    kinds = (runtime.cudaMemAllocationTypePinned, runtime.cudaMemHandleTypeNone, runtime.cudaMemLocationTypeDevice)
    pool = runtime.memPoolCreate(runtime.MemPoolProps(*kinds, device))
    runtime.deviceSetMemPool(device, pool)
    assert runtime.deviceGetMemPool(device) == pool
    address = runtime.mallocAsync(5000, stream)
    assert runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrUsedMemCurrent) >= 5000
    runtime.freeAsync(address, stream)
    address = runtime.mallocFromPoolAsync(100, pool, stream)
    runtime.freeAsync(address, stream)
    runtime.streamSynchronize(stream)
    assert runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrUsedMemCurrent) == 0
    runtime.memPoolSetAttribute(pool, runtime.cudaMemPoolAttrReleaseThreshold, 77)
    assert runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrReleaseThreshold) == 77
    runtime.memPoolTrimTo(pool, 0)
    refused(801, runtime.memPoolGetAttribute, pool, runtime.cudaMemPoolReuseAllowOpportunistic)
    runtime.memPoolDestroy(pool)
    # The default one is current again.
    assert runtime.deviceGetMemPool(device) == default
    refused(1, runtime.memPoolCreate, runtime.MemPoolProps(0, 0, 1, device))
    refused(801, runtime.memPoolCreate, runtime.MemPoolProps(1, 2, 1, device))
    refused(101, runtime.deviceGetDefaultMemPool, 77)


def test_devices(device):
    number = runtime.getDevice()
    assert 0 <= number < runtime.getDeviceCount() and cuda.is_available()
    runtime.setDevice(number)
    refused(101, runtime.setDevice, runtime.getDeviceCount())
    refused(101, runtime.setDevice, -1)
    runtime.deviceSynchronize()
    assert runtime.driverGetVersion() == runtime.runtimeGetVersion() >= 12000
    assert runtime.deviceGetAttribute(runtime.cudaDevAttrMaxThreadsPerBlock, number) == 1024
    refused(1, runtime.deviceGetAttribute, 100_000, number)
    refused(101, runtime.deviceGetAttribute, 1, 77)
    properties = runtime.getDeviceProperties(number)
    assert properties["name"] == device.properties["name"].encode()
    assert properties["maxThreadsDim"] == tuple(device.properties["max_block_dimensions"])
    refused(101, runtime.deviceCanAccessPeer, number, 77)
    refused(101, runtime.deviceEnablePeerAccess, 77)


def test_the_class_of_devices(device):
    here = cuda.Device()
    assert here.id == int(here) == cuda.Device(here).id == cuda.get_device_id()
    assert repr(cuda.Device(3)) == "<CUDA Device 3>"
    assert cuda.Device(0) == cuda.Device(0) != cuda.Device(1) and cuda.Device(0) != 0 and cuda.Device(0) != "0"
    assert cuda.Device(0) < cuda.Device(1) <= cuda.Device(1) and cuda.Device(1) > cuda.Device(0)
    with pytest.raises(TypeError):
        assert cuda.Device(0) < 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(here)
    with pytest.raises(ValueError):
        cuda.Device("x")
    refused(101, cuda.Device(77).use)
    with pytest.raises(runtime.CUDARuntimeError), cuda.Device(77):
        pass
    # What failed has left nothing behind.
    with here as entered:
        assert entered is here
    here.use()
    here.synchronize()
    refused(101, cuda.Device(77).synchronize)
    major, minor = device.properties["compute_capability"]
    assert here.compute_capability == f"{major}{minor}"
    free, total = here.mem_info
    assert 0 < free <= total
    assert here.attributes["MaxThreadsPerBlock"] == 1024
    if device.backend == "host":
        refused(801, lambda: here.pci_bus_id)
        refused(101, cuda.Device.from_pci_bus_id, "0000:01:00.0")
        refused(1, cuda.Device.from_pci_bus_id, "x")
    else:
        assert cuda.Device.from_pci_bus_id(here.pci_bus_id) == here


def test_numbers_that_are_none():
    for argument in ("x", 1.5, None):
        with pytest.raises(TypeError):
            runtime.streamQuery(argument)
    with pytest.raises(OverflowError):
        runtime.streamQuery(-1)
    runtime.check_status(0)
    refused(709, runtime.check_status, 709)


def test_two_devices(run_python, on_host):
    program = """
import os
os.environ["ANABRANCH_HOST_DEVICES"] = "2"
from anabranch.cupy import cuda
from anabranch.cupy.cuda import runtime
here = runtime.malloc(8)
with cuda.Device(1):
    there = runtime.malloc(8)
    memory = cuda.Memory(64)
    assert (memory.device_id, memory.device) == (1, cuda.Device(1))
runtime.memset(here, 5, 8)
runtime.memcpyPeer(there, 1, here, 0, 8)
cuda.Device(0).synchronize()
back = cuda.Memory(8)
cuda.MemoryPointer(back, 0).copy_from_device(cuda.MemoryPointer(cuda.UnownedMemory(there, 8, None), 0), 8)
import ctypes
result = (ctypes.c_uint8 * 8)()
cuda.MemoryPointer(back, 0).copy_to_host(ctypes.addressof(result), 8)
assert cuda.UnownedMemory(there, 8, None).device_id == 1
del memory, back
if runtime.deviceCanAccessPeer(0, 1):
    runtime.deviceEnablePeerAccess(1)
    runtime.deviceDisablePeerAccess(1)
stream = cuda.Stream()
event = cuda.Event()
with cuda.Device(1):
    try:
        cuda.Event().record(stream)
    except runtime.CUDARuntimeError as error:
        print(error)
    cuda.Stream().wait_event(stream.record(event))
print(bytes(result).hex())
"""
    result = run_python(program)
    expected = "cudaErrorInvalidResourceHandle: invalid resource handle\n" + "05" * 8 + "\n"
    assert (result.returncode, result.stdout) == (0, expected), result.stderr
