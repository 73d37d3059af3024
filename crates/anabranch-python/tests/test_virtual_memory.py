"""Virtual memory: reserved addresses, and memory that is mapped there. The software device has none."""

from __future__ import annotations

import gc
import weakref

import pytest

import anabranch

from conftest import DEVICE, is_deleted


@pytest.fixture
def granularity(device: anabranch.Device, context: anabranch.Context) -> int:
    if "virtual_memory" not in device.properties["capabilities"]:
        pytest.skip("of devices with virtual memory")
    return context.physical_memory_granularity()


def test_what_has_no_virtual_memory_says_so(device, context):
    if "virtual_memory" in device.properties["capabilities"]:
        pytest.skip("of devices without virtual memory")
    for call in (
        context.physical_memory_granularity,
        lambda: context.create_physical_memory(1 << 21),
        lambda: context.reserve_addresses(size=1 << 21),
    ):
        with pytest.raises(anabranch.AnabranchError) as caught:
            call()
        assert caught.value.name == "CUDA_ERROR_NOT_SUPPORTED"
        assert caught.value.operation
    with pytest.raises(OverflowError):
        context.reserve_addresses(-1)


def test_the_classes_are_made_by_a_context():
    for made in (anabranch.AddressRange, anabranch.PhysicalMemory):
        with pytest.raises(TypeError):
            made()


def test_pieces_are_one_buffer(context, stream, granularity):
    memory = context.create_physical_memory(granularity)
    assert memory.nbytes == granularity and str(granularity) in repr(memory)
    addresses = context.reserve_addresses(3 * granularity)
    assert addresses.nbytes == 3 * granularity and addresses.context == context
    addresses.map(granularity, memory)
    with context.create_physical_memory(granularity) as other:
        addresses.map(0, other)
    buffer = addresses.buffer(0, (2, granularity // 4), "float32")
    assert buffer.shape == (2, granularity // 4) and buffer.nbytes == 2 * granularity
    stream.fill(buffer, 1.5)
    stream.fill(buffer[1:], 2)
    assert stream.download(buffer)[0, 0] == 1.5 and stream.download(buffer)[1, 0] == 2
    # It grows where it is.
    addresses.map(2 * granularity, memory=context.create_physical_memory(granularity))
    grown = addresses.buffer(offset=0, shape=3 * granularity)
    assert grown.address == buffer.address and grown.dtype == "uint8"


def test_a_buffer_keeps_what_is_mapped(context, stream, granularity):
    addresses, memory = context.reserve_addresses(granularity), context.create_physical_memory(granularity)
    addresses.map(0, memory)
    buffer = addresses.buffer(0, 16, "uint32")
    with stream.capture() as capture:
        stream.fill(buffer, 7)
    executable = capture.graph.instantiate()
    assert addresses.unmap(0) and not addresses.unmap(0)
    gone = weakref.ref(addresses)
    addresses.close()
    memory.close()
    del addresses, memory
    gc.collect()
    anabranch.flush_deferred_drops()
    assert is_deleted(gone)
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [7] * 16
    del buffer, capture
    gc.collect()
    anabranch.flush_deferred_drops()
    executable.launch(stream)
    stream.synchronize()


def test_what_is_unmapped_can_be_mapped_again(context, stream, granularity):
    addresses, memory = context.reserve_addresses(granularity), context.create_physical_memory(granularity)
    addresses.map(0, memory)
    buffer = addresses.buffer(0, 4, "uint32")
    stream.fill(buffer, 9)
    with pytest.raises(anabranch.AnabranchError):
        addresses.map(0, memory)
    addresses.unmap(0)
    buffer.close()
    stream.synchronize()
    anabranch.flush_deferred_drops()
    addresses.map(0, memory)
    assert stream.download(addresses.buffer(0, 4, "uint32")).tolist() == [9] * 4


def test_what_is_refused(context, device, granularity):
    memory, addresses = context.create_physical_memory(granularity), context.reserve_addresses(2 * granularity)
    addresses.map(0, memory)
    for offset, shape, about in ((0, granularity + 1, "not all mapped"), (1, 4, "not aligned"), (granularity, 1, "mapped")):
        with pytest.raises(anabranch.AnabranchError, match=about):
            addresses.buffer(offset, shape, "uint32" if offset == 1 else "uint8")
    with pytest.raises(anabranch.AnabranchError, match="do not fit"):
        addresses.map(2 * granularity, memory)
    with pytest.raises(anabranch.AnabranchError, match="granularity"):
        context.create_physical_memory(granularity + 1)
    with pytest.raises(anabranch.AnabranchError, match="another context"):
        addresses.map(granularity, device.create_context().create_physical_memory(granularity))
    with pytest.raises(anabranch.AnabranchError, match="driver|device"):
        addresses.allow_peer_access(anabranch.device("host"))
    addresses.allow_peer_access(device)
    memory.close()
    addresses.close()
    assert "closed" in repr(memory) and "closed" in repr(addresses) and DEVICE != "host"
    with pytest.raises(anabranch.AnabranchError, match="the address range is closed"):
        addresses.buffer(0, 1)
