"""The drop-in for cuda.core: buffers and memory resources."""

from __future__ import annotations

import gc
import sys
import threading

import pytest
from cuda_core_support import KERNELS, device, nothing_is_current, stream

import anabranch
from anabranch.cuda_core import (
    LEGACY_DEFAULT_STREAM,
    Buffer,
    CUDAError,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    GraphMemoryResource,
    LegacyPinnedMemoryResource,
    MemoryResource,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
)
from anabranch.cuda_core._memory._buffer import buffer_at

assert KERNELS.exists()
REQUIRED = "^stream is required and must not be None; pass device.default_stream explicitly to use the default stream.$"


def contents(buffer, stream):
    """The bytes, copied to the host."""
    pinned = LegacyPinnedMemoryResource().allocate(buffer.size)
    buffer.copy_to(pinned, stream=stream)
    stream.sync()
    return bytes(memoryview(stream._open().download(pinned._inner)).cast("B"))


def test_a_device_allocates(device, stream):
    buffer = device.allocate(16, stream=stream)
    assert buffer.size == 16 and buffer.handle and buffer.device_id == 0
    assert buffer.memory_resource is device.memory_resource and buffer.owner is None
    assert buffer.is_device_accessible and not buffer.is_managed and not buffer.is_mapped
    assert buffer.is_host_accessible == (device._library.backend == "host")
    assert repr(buffer) == f"<Buffer ptr={buffer.handle:#x} size=16>"
    assert buffer == buffer and buffer != device.allocate(16, stream=stream) and buffer != 1
    assert hash(buffer) == hash(Buffer.from_handle(buffer.handle, 16))
    assert contents(buffer, stream) == bytes(16)
    with pytest.raises(RuntimeError) as caught:
        Buffer()
    assert str(caught.value) == "Buffer objects cannot be instantiated directly. Please use MemoryResource APIs."
    with pytest.raises(TypeError, match=REQUIRED):
        device.allocate(4, stream=None)
    with pytest.raises(TypeError, match="stream"):
        device.allocate(4)
    with pytest.raises(CUDAError, match="^CUDA_ERROR_OUT_OF_MEMORY: "):
        device.allocate(1 << 60, stream=stream)


def test_empty_buffers(device, stream):
    buffer, other = device.allocate(0, stream=stream), device.allocate(0, stream=stream)
    assert buffer.size == 0
    buffer.fill(1, stream=stream)
    buffer.copy_to(other, stream=stream)
    buffer.close()


def test_closed_buffers(device, stream):
    buffer, other = device.allocate(8, stream=stream), device.allocate(8, stream=stream)
    with pytest.raises(TypeError, match="^Stream or GraphBuilder expected, got int$"):
        buffer.close(1)
    address = buffer.handle
    assert buffer_at(address) is buffer
    buffer.close(stream)
    buffer.close()
    assert buffer.is_closed and buffer.handle == buffer.size == 0 and repr(buffer) == "<Buffer ptr=0x0 size=0>"
    assert buffer_at(address) is None
    uses = [
        lambda: buffer.fill(1, stream=stream),
        lambda: buffer.copy_to(other, stream=stream),
        lambda: buffer.copy_from(other, stream=stream),
        lambda: other.copy_to(buffer, stream=stream),
        lambda: buffer.is_device_accessible,
        lambda: buffer.__dlpack__(),
        lambda: buffer.__dlpack_device__(),
        lambda: buffer.set_deallocation_stream(stream),
    ]
    for use in uses:
        with pytest.raises((RuntimeError, ValueError), match="has been closed|sizes mismatch"):
            use()
    with device.allocate(8, stream=stream) as inside:
        assert not inside.is_closed
    assert inside.is_closed


def test_memory_is_freed_behind_the_stream_of_its_end(device, stream, gate):
    """A stream may use memory by its address, of which nothing is known."""
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions())

    def is_free(address):
        """Whether memory is given to a stream that waits for nothing."""
        third = device.create_stream()
        is_same = pool.allocate(64, stream=third).handle == address
        # A GPU may give it to the stream at once, and let that wait.
        return is_same and (device._library.backend == "host" or third.record().is_done)

    def end_by_close(buffer, other):
        buffer.set_deallocation_stream(other)
        buffer.close()

    def end_by_argument(buffer, other):
        buffer.close(other)

    for end in (end_by_close, end_by_argument):
        other, gate = device.create_stream(), type(gate)()
        buffer = pool.allocate(64, stream=stream)
        address = buffer.handle
        stream.sync()
        gate.hold(other._open())
        end(buffer, other)
        assert not is_free(address)
        gate.open()
        device.sync()
    # The end of the last reference is one, too.
    gate = type(gate)()
    buffer = pool.allocate(64, stream=stream)
    address = buffer.handle
    stream.sync()
    gate.hold(stream._open())
    del buffer
    gc.collect()
    assert not is_free(address)
    gate.open()
    device.sync()


def test_copies_and_fills(device, stream):
    buffer = device.allocate(8, stream=stream)
    for value, expected in [(7, b"\x07" * 8), (255, b"\xff" * 8), (b"ab", b"abababab"), (bytearray(b"abcd"), b"abcdabcd")]:
        buffer.fill(value, stream=stream)
        copy = buffer.copy_to(stream=stream)
        assert copy.memory_resource is buffer.memory_resource and contents(copy, stream) == expected
    other = device.allocate(8, stream=stream)
    assert buffer.copy_to(other, stream=stream) is other
    other.fill(1, stream=stream)
    assert buffer.copy_from(other, stream=stream) is None
    assert contents(buffer, stream) == b"\x01" * 8
    short = device.allocate(5, stream=stream)
    refused = [
        (lambda: buffer.fill(256, stream=stream), OverflowError, "value too large to convert to uint8_t"),
        (lambda: buffer.fill(-1, stream=stream), OverflowError, "can't convert negative value to uint8_t"),
        (lambda: buffer.fill(b"123", stream=stream), ValueError, "value must be 1, 2, or 4 bytes, got 3"),
        (lambda: short.fill(b"12", stream=stream), ValueError, "buffer size (5) must be divisible by 2"),
        (
            lambda: buffer.copy_to(short, stream=stream),
            ValueError,
            "buffer sizes mismatch between src and dst (sizes are: src=8, dst=5)",
        ),
        (
            lambda: buffer.copy_from(short, stream=stream),
            ValueError,
            "buffer sizes mismatch between src and dst (sizes are: src=5, dst=8)",
        ),
        (
            lambda: Buffer.from_handle(16, 4).copy_to(stream=stream),
            ValueError,
            "a destination buffer must be provided (this buffer does not have a memory_resource)",
        ),
    ]
    for call, kind, message in refused:
        with pytest.raises(kind) as caught:
            call()
        assert (type(caught.value), str(caught.value)) == (kind, message)
    for call in (lambda: buffer.fill("a", stream=stream), lambda: buffer.copy_to(1, stream=stream)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match=REQUIRED):
        buffer.fill(1, stream=None)


def test_dlpack(device, stream):
    buffer = device.allocate(4, stream=stream)
    buffer.fill(200, stream=stream)
    assert buffer.__dlpack_device__() == buffer._inner.__dlpack_device__()
    with pytest.raises(BufferError, match="^Sorry, not supported: copy=True$"):
        buffer.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="^Sorry, not supported: dl_device other than None$"):
        buffer.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match=r"^Expected max_version tuple\[int, int\], got \(1,\)$"):
        buffer.__dlpack__(max_version=(1,))
    with pytest.raises(TypeError, match=r"^Argument 'max_version' has incorrect type \(expected tuple, got int\)$"):
        buffer.__dlpack__(max_version=1)
    with pytest.raises(TypeError, match="^copy_to: options"):
        buffer.copy_to(stream=stream, options=1)
    pinned = PinnedMemoryResource().allocate(4, stream=stream)
    pinned.copy_from(buffer, stream=stream)
    numpy = pytest.importorskip("numpy")
    array = numpy.from_dlpack(pinned)
    assert (array.dtype, array.tolist()) == (numpy.dtype("int8"), [200 - 256] * 4)
    if sys.version_info >= (3, 12):
        assert bytes(pinned) == b"\xc8" * 4


def test_pools(device, stream):
    default = DeviceMemoryResource(device)
    assert not default.is_handle_owned and default.device_id == 0 and default.handle
    assert (default.is_ipc_enabled, default.is_mapped, default.uuid) == (False, False, None)
    default.close()
    assert not default.is_closed
    pool = DeviceMemoryResource(0, {"max_size": 0})
    assert pool.is_handle_owned and pool.handle != default.handle
    buffer = pool.allocate(100, stream=stream)
    attributes = pool.attributes
    assert attributes.used_mem_current >= 100 and attributes.reserved_mem_current >= attributes.used_mem_current
    assert attributes.used_mem_high >= 100 and attributes.reserved_mem_high and attributes.release_threshold >= 0
    assert "used_mem_current=" in repr(attributes)
    with pytest.raises(RuntimeError, match="^_MemPoolAttributes cannot be instantiated directly"):
        type(attributes)()
    pool.deallocate(buffer.handle, 100, stream=stream)
    assert buffer.is_closed
    with pytest.raises(CUDAError, match="^CUDA_ERROR_INVALID_VALUE: "):
        pool.deallocate(8, 100, stream=stream)
    buffer = pool.allocate(8, stream=stream)
    pool.close()
    assert pool.is_closed
    with pytest.raises(RuntimeError, match="^DeviceMemoryResource has been closed$"):
        pool.allocate(8, stream=stream)
    buffer.fill(1, stream=stream)
    with pytest.raises(RuntimeError, match="IPC is not available"):
        DeviceMemoryResource(0, DeviceMemoryResourceOptions(ipc_enabled=True))
    assert default.peer_accessible_by == frozenset()
    default.peer_accessible_by = [0, device]
    assert default.peer_accessible_by == frozenset()


def test_pinned_memory(device, stream):
    for resource in (PinnedMemoryResource(), LegacyPinnedMemoryResource()):
        assert resource.is_device_accessible and resource.is_host_accessible and not resource.is_managed
        buffer = resource.allocate(8, stream=stream)
        assert buffer.device_id == -1 and buffer.is_host_accessible and buffer.is_device_accessible
        buffer.fill(3, stream=stream)
        stream.sync()
        assert bytes(buffer._inner._memoryview()) == b"\x03" * 8
        resource.deallocate(buffer.handle, 8, stream=stream)
        assert buffer.is_closed
    assert PinnedMemoryResource().device_id == -1
    with pytest.raises(RuntimeError, match="^a pinned memory resource is not bound to any GPU$"):
        LegacyPinnedMemoryResource().device_id
    with pytest.raises(TypeError, match="^Stream or GraphBuilder expected, got int$"):
        LegacyPinnedMemoryResource().allocate(4, stream=1)
    buffer = LegacyPinnedMemoryResource().allocate(4)
    LegacyPinnedMemoryResource().deallocate(buffer.handle, 4)
    assert buffer.is_closed
    with pytest.raises(RuntimeError, match="default options"):
        PinnedMemoryResource(PinnedMemoryResourceOptions(max_size=5))


class Mine(MemoryResource):
    """A memory resource of a program's own, over memory of the package."""

    def __init__(self, device):
        self.device, self.kept, self.freed = device, {}, []

    def allocate(self, size, *, stream):
        memory = stream._open().allocate(size)
        self.kept[memory.address] = memory
        return Buffer.from_handle(memory.address, size, mr=self, stream=stream)

    def deallocate(self, ptr, size, *, stream):
        self.freed.append((ptr, size, stream))
        self.kept.pop(ptr).close()

    @property
    def is_device_accessible(self):
        return True

    @property
    def is_host_accessible(self):
        return False

    @property
    def device_id(self):
        return 0


def test_memory_resources_of_a_program(device, stream):
    mine = Mine(device)
    device.memory_resource = mine
    assert device.memory_resource is mine
    buffer = device.allocate(8, stream=stream)
    assert buffer.memory_resource is mine and buffer.device_id == 0 and not buffer.is_host_accessible
    buffer.fill(b"ab", stream=stream)
    assert contents(buffer, stream) == b"abababab"
    copy = buffer.copy_to(stream=stream)
    assert copy.memory_resource is mine
    address = buffer.handle
    buffer.close()
    assert mine.freed == [(address, 8, stream)]
    other = device.create_stream()
    address = copy.handle
    copy.close(other)
    assert mine.freed[1:] == [(address, 8, other)]
    buffer = device.allocate(8, stream=stream)
    del buffer
    gc.collect()
    assert len(mine.freed) == 3 and not mine.kept
    with pytest.raises(TypeError, match="^Expected type MemoryResource, but got int$"):
        device.memory_resource = 1


def test_what_memory_resources_must_have(stream):
    resource = MemoryResource()
    calls = {
        "allocate": lambda: resource.allocate(1, stream=stream),
        "deallocate": lambda: resource.deallocate(1, 1, stream=stream),
        "is_device_accessible": lambda: resource.is_device_accessible,
        "is_host_accessible": lambda: resource.is_host_accessible,
        "device_id": lambda: resource.device_id,
    }
    for name, call in calls.items():
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == f"MemoryResource.{name} must be implemented by subclasses."
    assert resource.is_managed is False


def test_an_end_that_fails_is_said(device, stream, capsys):
    class Fails(Mine):
        def deallocate(self, ptr, size, *, stream):
            raise KeyError("mine")

    buffer = Fails(device).allocate(8, stream=stream)
    del buffer
    gc.collect()
    assert capsys.readouterr().err == "Warning: mr.deallocate() failed during Buffer destruction: 'mine'\n"


def test_memory_by_its_address(device, stream):
    class Owner:
        pass

    theirs = stream._open().allocate(8)
    owner = Owner()
    buffer = Buffer.from_handle(theirs.address, 8, owner=owner)
    assert buffer.owner is owner and buffer.memory_resource is None and buffer.handle == theirs.address
    assert buffer.device_id == 0 and buffer.is_device_accessible
    buffer.fill(9, stream=stream)
    assert contents(buffer, stream) == b"\x09" * 8
    assert buffer == Buffer.from_handle(theirs.address, 8) != Buffer.from_handle(theirs.address, 4)
    buffer.close()
    with pytest.raises(ValueError, match="^owner and memory resource cannot be both specified together$"):
        Buffer.from_handle(16, 4, Mine(device), owner)
    with pytest.raises(TypeError, match="^Argument 'mr' has incorrect type"):
        Buffer.from_handle(16, 4, 1)
    with pytest.raises(ValueError, match=r"^stream requires a memory resource \(mr\)$"):
        Buffer.from_handle(16, 4, stream=stream)
    with pytest.raises(OverflowError, match="^can't convert negative value to size_t$"):
        Buffer.from_handle(16, -4)
    with pytest.raises(CUDAError, match="^CUDA_ERROR_INVALID_VALUE: "):
        Buffer.from_handle(16, 4).fill(1, stream=stream)


def test_buffers_of_one_address_are_one_memory(device, gate):
    first, second = device.create_stream(), device.create_stream()
    buffer = device.allocate(8, stream=first)
    first.sync()
    part = Buffer.from_handle(buffer.handle, 4)
    assert buffer_at(buffer.handle) is buffer and part.size == 4
    gate.hold(first.anabranch_stream)
    part.fill(5, stream=first)
    buffer.fill(b"\x06", stream=second)
    assert not second.record().is_done
    gate.open()
    assert contents(part, second) == b"\x06" * 4
    buffer.close()
    assert contents(part, second) == b"\x06" * 4


def test_memory_is_freed_by_threads_without_a_context(device):
    buffer = device.allocate(8, stream=LEGACY_DEFAULT_STREAM)
    thread = threading.Thread(target=buffer.close)
    thread.start()
    thread.join(60)
    assert buffer.is_closed


def test_memory_of_graphs(device):
    resource = GraphMemoryResource(device)
    assert resource.device_id == 0 and resource.is_device_accessible
    stream = device.create_stream()
    with pytest.raises(RuntimeError, match="^GraphMemoryResource cannot perform memory operations on a non-capturing"):
        resource.allocate(8, stream=stream)
    builder = device.create_graph_builder().begin_building()
    result = device.allocate(8, stream=stream)
    with pytest.raises(RuntimeError) as caught:
        device.allocate(8, stream=builder)
    assert str(caught.value) == (
        "DeviceMemoryResource cannot perform memory operations on a capturing stream (consider using GraphMemoryResource)."
    )
    scratch = resource.allocate(8, stream=builder)
    scratch.fill(6, stream=builder)
    scratch.copy_to(result, stream=builder)
    resource.deallocate(scratch.handle, 8, stream=builder)
    graph = builder.end_building().complete()
    for _ in range(2):
        result.fill(0, stream=stream)
        graph.launch(stream)
        assert contents(result, stream) == b"\x06" * 8
    resource.close()
    attributes = resource.attributes
    assert attributes.used_mem_high >= attributes.used_mem_current >= 0
    assert attributes.reserved_mem_high >= attributes.reserved_mem_current >= 0
    assert "used_mem_high=" in repr(attributes)
    with pytest.raises(AttributeError, match=r"^Attribute 'used_mem_high' may only be set to zero \(got 5\)\.$"):
        attributes.used_mem_high = 5
    with pytest.raises(RuntimeError, match="^GraphMemoryResourceAttributes cannot be instantiated directly"):
        type(attributes)()
    del graph, builder, scratch
    device.sync()
    resource.trim()
    attributes.used_mem_high = attributes.reserved_mem_high = 0
    assert attributes.used_mem_high == attributes.used_mem_current
    assert attributes.reserved_mem_high == attributes.reserved_mem_current


def test_default_streams_order_memory(device):
    buffer = device.allocate(8, stream=LEGACY_DEFAULT_STREAM)
    buffer.fill(2, stream=LEGACY_DEFAULT_STREAM)
    assert contents(buffer, LEGACY_DEFAULT_STREAM) == b"\x02" * 8
    assert isinstance(buffer._inner, anabranch.Buffer)
