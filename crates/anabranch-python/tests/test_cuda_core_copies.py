"""The drop-in for cuda.core: which objects can be copied and pickled, and what their views keep."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref

import pytest
from conftest import is_deleted
from cuda_core_support import KERNELS, device, nothing_is_current, stream

from anabranch.cuda_core import (
    Buffer,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    GraphMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ManagedMemoryResource,
    MemoryResource,
    ObjectCode,
    PinnedMemoryResource,
    Program,
    StreamOptions,
)
from anabranch.cuda_core.graph import GraphDefinition


def pickled(value):
    return pickle.loads(pickle.dumps(value))


WAYS = pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])


@WAYS
def test_objects_that_are_not_copied(device, stream, copied):
    kernel = ObjectCode.from_ptx(str(KERNELS)).get_kernel("add")
    definition = GraphDefinition()
    graph = definition.instantiate()
    node = definition.memset(device.allocate(4, stream=stream), 1, 4)
    kept = definition.instantiate()
    refused = [
        stream,
        stream.record(),
        stream.context,
        kernel,
        kernel.attributes,
        kernel.occupancy,
        LaunchConfig(grid=1, block=1),
        Program("", "ptx"),
        ManagedMemoryResource(),
        GraphMemoryResource(device),
        DeviceMemoryResource(device).attributes,
        device.create_graph_builder(),
        graph,
        definition,
        node,
        kept[node],
    ]
    for each in refused:
        with pytest.raises(TypeError, match=f"^{type(each).__name__} objects can be neither copied nor pickled$"):
            copied(each)
    gc.collect()
    # Nothing has ended.
    assert not stream.is_closed and not graph.is_closed and node.is_valid
    graph.launch(stream)
    stream.sync()


@WAYS
def test_memory_that_is_not_copied(device, stream, copied):
    pool = DeviceMemoryResource(device, DeviceMemoryResourceOptions())
    buffers = [
        device.allocate(16, stream=stream),
        pool.allocate(16, stream=stream),
        LegacyPinnedMemoryResource().allocate(16),
        ManagedMemoryResource().allocate(16, stream=stream),
    ]
    buffers.append(Buffer.from_handle(buffers[0].handle, 16))
    for each in [*buffers, pool, DeviceMemoryResource(device), PinnedMemoryResource()]:
        with pytest.raises(RuntimeError, match="^Memory resource is not IPC-enabled$"):
            copied(each)
    gc.collect()
    for buffer in reversed(buffers):
        assert not buffer.is_closed
        buffer.fill(1, stream=stream)
        buffer.close()
        with pytest.raises(RuntimeError, match="^Buffer has been closed$"):
            copied(buffer)
    pool.close()
    with pytest.raises(RuntimeError, match="^DeviceMemoryResource has been closed$"):
        copied(pool)
    stream.sync()


@WAYS
def test_memory_of_a_program_is_freed_once(device, stream, copied):
    class Resource(MemoryResource):
        def __init__(self):
            self.kept, self.freed = LegacyPinnedMemoryResource().allocate(64), []

        def allocate(self, size, *, stream):
            return Buffer.from_handle(self.kept.handle, size, self)

        def deallocate(self, ptr, size, *, stream):
            self.freed.append((ptr, size))

    resource = Resource()
    buffer = resource.allocate(64, stream=stream)
    with pytest.raises(RuntimeError):
        copied(buffer)
    gc.collect()
    assert resource.freed == []
    buffer.close()
    assert resource.freed == [(resource.kept.handle, 64)]


@WAYS
def test_objects_that_are_copied(device, copied):
    options = EventOptions(True), StreamOptions(priority=0), DeviceMemoryResourceOptions(max_size=1)
    for each in options:
        assert copied(each) == each and copied(each) is not each
    assert copied(device) is device
    assert copied(GraphMemoryResource(device).attributes).used_mem_current == 0
    assert copied(LegacyPinnedMemoryResource()).is_host_accessible
    assert copied(ObjectCode.from_ptx(b"x", name="name")).name == "name"


def test_conditions_are_copied(device):
    condition = GraphDefinition().create_condition()
    assert copy.copy(condition) == copy.deepcopy(condition) == condition


@pytest.mark.skipif(sys.version_info < (3, 12), reason="of Python 3.12 and later")
def test_views_keep_their_buffers(device, stream):
    views = (memoryview, lambda buffer: buffer.__buffer__(0), lambda buffer: memoryview(buffer)[1:])
    for resource in (LegacyPinnedMemoryResource(), ManagedMemoryResource()):
        for make in views:
            buffer = resource.allocate(16, stream=stream)
            buffer.fill(7, stream=stream)
            stream.sync()
            kept = weakref.ref(buffer)
            view = make(buffer)
            del buffer
            gc.collect()
            assert kept() is not None and bytes(view)[:2] == b"\7\7"
            del view
            gc.collect()
            assert is_deleted(kept)
    closed = LegacyPinnedMemoryResource().allocate(16)
    closed.close()
    for make in views:
        with pytest.raises(RuntimeError, match="^Buffer has been closed$"):
            make(closed)
