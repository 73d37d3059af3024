"""The drop-in for cuda.core: managed memory, and its places."""

from __future__ import annotations

import copy
import pickle

import pytest
from cuda_core_support import device, nothing_is_current, stream

import anabranch
from anabranch.cuda_core import (
    Buffer,
    CUDAError,
    Device,
    Host,
    ManagedBuffer,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    PinnedMemoryResource,
)


@pytest.fixture
def resource(device):
    return ManagedMemoryResource()


@pytest.fixture
def buffer(resource, stream):
    return resource.allocate(64, stream=stream)


def refuse(kind, message, call, *arguments, **keywords):
    with pytest.raises(kind) as caught:
        call(*arguments, **keywords)
    assert (type(caught.value), str(caught.value)) == (kind, message)


def test_the_host_and_devices_use_one_memory(stream, resource, buffer):
    assert isinstance(buffer, ManagedBuffer) and isinstance(buffer, Buffer) and buffer.size == 64
    assert buffer.is_managed and buffer.is_device_accessible and buffer.is_host_accessible and buffer.device_id == -1
    assert buffer.memory_resource is resource and isinstance(buffer.anabranch_buffer, anabranch.ManagedBuffer)
    assert repr(buffer) == f"<Buffer ptr={buffer.handle:#x} size=64>"
    buffer.fill(3, stream=stream)
    view = buffer.anabranch_buffer._memoryview().cast("B")
    assert view.tolist() == [3] * 64
    view[0] = 9
    other = Device().allocate(64, stream=stream)
    buffer.copy_to(other, stream=stream)
    assert stream._open().download(other.anabranch_buffer).tolist() == [9, *[3] * 63]
    copied = buffer.copy_to(stream=stream)
    assert isinstance(copied, ManagedBuffer) and copied.memory_resource is resource


def test_a_resource_of_managed_memory(device, stream, resource, buffer):
    assert (resource.device_id, resource.preferred_location) == (-1, None)
    assert resource.is_device_accessible and resource.is_host_accessible and resource.is_managed
    assert resource.allocate(0, stream=stream).size == 0
    with pytest.raises(OverflowError, match="negative value"):
        resource.allocate(-1, stream=stream)
    with pytest.raises(TypeError, match="^stream is required"):
        resource.allocate(1, stream=None)
    with pytest.raises(CUDAError, match="^CUDA_ERROR_OUT_OF_MEMORY: "):
        resource.allocate(1 << 60, stream=stream)
    resource.close()
    assert not resource.is_closed
    resource.deallocate(buffer.handle, buffer.size, stream=stream)
    assert buffer.is_closed
    owned = ManagedMemoryResource({})
    owned.close()
    assert owned.is_closed
    refuse(RuntimeError, "ManagedMemoryResource has been closed", owned.allocate, 1, stream=stream)
    for options in ({"preferred_location": 0}, ManagedMemoryResourceOptions(preferred_location_type="host")):
        message = "managed memory has no preferred location here: use the default options"
        refuse(RuntimeError, message, ManagedMemoryResource, options)
    with pytest.raises(TypeError, match="^The ManagedMemoryResource options must be provided as an object of type"):
        ManagedMemoryResource(1)
    device.memory_resource = resource
    assert isinstance(device.allocate(4, stream=stream), ManagedBuffer)


def test_memory_is_moved_ahead(device, stream, buffer):
    buffer.fill(5, stream=stream)
    for place in (device, Host(), device):
        buffer.prefetch(place, stream=stream)
    assert stream._open().download(buffer.anabranch_buffer).tolist() == [5] * 64
    numa = "Host(numa_id=...) / Host.numa_current() are not in the driver contract; use Host() instead"
    for place in (Host(0), Host.numa_current()):
        refuse(TypeError, numa, buffer.prefetch, place, stream=stream)
    refuse(TypeError, "location must be a Device, Host, or None; got int", buffer.prefetch, 5, stream=stream)
    refuse(ValueError, "location is required", buffer.prefetch, None, stream=stream)
    with pytest.raises(TypeError, match="^stream is required"):
        buffer.prefetch(device, stream=None)
    builder = device.create_graph_builder().begin_building()
    with pytest.raises(CUDAError, match="^CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: "):
        buffer.prefetch(device, stream=builder)
    builder.close()
    other = device.allocate(4, stream=stream)
    unmanaged = ManagedBuffer.from_handle(other.handle, 4, owner=other)
    refuse(ValueError, "prefetch requires a managed-memory allocation", unmanaged.prefetch, device, stream=stream)


def test_memory_is_moved_to_another_device(device, stream, buffer):
    others = [other for other in Device.get_all_devices() if other != device and device.can_access_peer(other)]
    if not others:
        pytest.skip("one device")
    buffer.fill(5, stream=stream)
    buffer.prefetch(others[0], stream=stream)
    assert stream._open().download(buffer.anabranch_buffer).tolist() == [5] * 64


def test_there_is_no_advice(device, stream, buffer):
    for name, value in (("read_mostly", True), ("preferred_location", device), ("accessed_by", [device])):
        for access in (lambda name=name: getattr(buffer, name), lambda name=name, value=value: setattr(buffer, name, value)):
            with pytest.raises(CUDAError, match="^CUDA_ERROR_NOT_SUPPORTED: .* no advice"):
                access()
    with pytest.raises(NotImplementedError, match="^discard is not"):
        buffer.discard(stream=stream)
    with pytest.raises(NotImplementedError, match="^discard_prefetch is not"):
        buffer.discard_prefetch(Host(), stream=stream)
    with pytest.raises(TypeError, match="^location must be"):
        buffer.discard_prefetch(5, stream=stream)
    buffer.close()
    for call in (buffer.discard, lambda stream: buffer.prefetch(device, stream=stream), lambda stream: buffer.read_mostly):
        refuse(RuntimeError, "Buffer has been closed", call, stream=stream)


def test_managed_memory_by_its_address(device, stream, buffer):
    again = ManagedBuffer.from_handle(buffer.handle, 32, owner=buffer)
    assert type(again) is ManagedBuffer and again.is_managed and again.is_host_accessible and again.device_id == -1
    again.prefetch(device, stream=stream)
    again.fill(1, stream=stream)
    assert stream._open().download(buffer.anabranch_buffer).tolist() == [1] * 32 + [0] * 32
    plain = Buffer.from_handle(buffer.handle, 64, owner=buffer)
    assert type(plain) is Buffer and plain.is_managed
    # Memory that the module has not allocated, too.
    foreign = device.context.anabranch_context.allocate_managed(16, "uint8")
    by_address = ManagedBuffer.from_handle(foreign.address, 16, owner=foreign)
    by_address.prefetch(Host(), stream=stream)
    by_address.fill(7, stream=stream)
    assert stream._open().download(foreign).tolist() == [7] * 16


def test_places_of_the_host():
    assert Host() is Host() == Host() and Host(1) is Host(numa_id=1) != Host() and Host() != 1
    assert Host.numa_current() is Host(is_numa_current=True) != Host()
    assert [repr(host) for host in (Host(), Host(2), Host.numa_current())] == ["Host()", "Host(numa_id=2)", "Host.numa_current()"]
    assert (Host(2).numa_id, Host(2).is_numa_current, Host.numa_current().is_numa_current) == (2, False, True)
    assert len({Host(), Host(), Host(1), Host.numa_current()}) == 3
    for host in (Host(), Host(3), Host.numa_current()):
        assert pickle.loads(pickle.dumps(host)) is host is copy.copy(host)
    for wrong in (-1, True, 1.5, "1"):
        refuse(ValueError, f"numa_id must be a non-negative int, got {wrong!r}", Host, wrong)
    refuse(ValueError, "numa_id and is_numa_current are mutually exclusive", Host, 1, is_numa_current=True)


def test_what_pinned_memory_is_besides(stream):
    resource, owned = PinnedMemoryResource(), PinnedMemoryResource({})
    for each in (resource, owned):
        assert (each.is_ipc_enabled, each.is_mapped, each.uuid, each.numa_id) == (False, False, None, -1)
    assert (resource.is_handle_owned, owned.is_handle_owned) == (False, True)
    buffer = owned.allocate(4, stream=stream)
    resource.close()
    owned.close()
    assert (resource.is_closed, owned.is_closed, buffer.is_closed) == (False, True, False)
    refuse(RuntimeError, "PinnedMemoryResource has been closed", owned.allocate, 4, stream=stream)
    assert resource.allocate(4, stream=stream).size == 4
