"""The drop-in for cuda.core: nodes of graphs that are built by hand."""

from __future__ import annotations

import ctypes
import functools
import gc
import weakref

import pytest
from cuda_core_graph_support import ONE, add, buffer, definition, read, refuse, refuse_status
from cuda_core_support import KERNELS, device, nothing_is_current, stream

import anabranch
from conftest import is_deleted
from anabranch.cuda_core import Buffer, Device, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode
from anabranch.cuda_core.graph import (
    AllocNode,
    ChildGraphNode,
    EventRecordNode,
    EventWaitNode,
    FreeNode,
    GraphDefinition,
    GraphNode,
    HostCallbackNode,
    MemcpyNode,
    WhileNode,
)
from anabranch.cuda_core.typing import GraphMemoryType


def test_kernel_nodes(stream, definition, add, buffer):
    scale = ObjectCode.from_ptx(str(KERNELS)).get_kernel("scale")
    node = definition.launch(LaunchConfig(grid=(2, 3), block=(4, 1, 1), shmem_size=16), add, buffer, 5, 0)
    assert (node.grid, node.block, node.shmem_size) == ((2, 3, 1), (4, 1, 1), 16)
    assert node.kernel == add and node.config == LaunchConfig(grid=(2, 3), block=(4, 1, 1), shmem_size=16)
    assert repr(node) == f"<KernelNode handle={node.handle:#x} kernel={add.handle:#x}>"
    assert node.type == 0 and node.type.name == "CU_GRAPH_NODE_TYPE_KERNEL"
    clusters = "clustered or cooperative graph kernel nodes are not supported"
    changed = "updating clustered or cooperative kernel nodes is not supported"
    cooperative = LaunchConfig(grid=1, block=1, is_cooperative=True)
    refuse(NotImplementedError, clusters, definition.launch, cooperative, add, buffer, 1, 1)
    refuse(NotImplementedError, clusters, definition.launch, LaunchConfig(grid=1, block=1, cluster=1), add, buffer, 1, 1)
    refuse(NotImplementedError, changed, node.update, config=cooperative)
    refuse(ValueError, "changing kernel requires args", node.update, kernel=scale)
    refuse(TypeError, "the argument is of unsupported type: <class 'str'>", node.update, args=("x", 1, 1))
    refuse_status("CUDA_ERROR_INVALID_VALUE", node.update, args=(buffer,))
    for wrong in ({"config": 1}, {"kernel": 1, "args": ()}):
        with pytest.raises(TypeError, match="has incorrect type"):
            node.update(**wrong)
    # What was refused has changed nothing.
    assert (node.kernel, node.grid) == (add, (2, 3, 1))
    node.update(config=ONE, args=(buffer, 5, 1))
    node.update()
    definition.instantiate().launch(stream)
    assert read(stream, buffer, "I") == [5, 0, 0, 0]
    node.update(kernel=scale, args=(buffer, buffer, 0.0, 0))
    assert node.kernel == scale and node.grid == (1, 1, 1)


def test_fills(stream, definition, buffer):
    node = definition.memset(buffer, b"\x01\x02", 4)
    assert (node.value, node.element_size, node.width, node.height, node.pitch) == (0x201, 2, 4, 1, 0)
    assert node.dptr == buffer.handle and repr(node) == f"<MemsetNode handle={node.handle:#x} dptr={node.dptr:#x} value=513>"
    rows = node.memset(buffer.handle + 8, 9, 2, height=2, pitch=2)
    assert (rows.width, rows.height, rows.pitch, rows.dptr) == (2, 2, 2, buffer.handle + 8)
    definition.instantiate().launch(stream)
    assert read(stream, buffer) == [1, 2] * 4 + [9] * 4 + [0] * 4
    node.update(value=5, width=3)
    assert (node.value, node.element_size, node.width, node.dptr) == (5, 1, 3, buffer.handle)
    other = Device().allocate(4, stream=stream)
    rows.update(dst=other, pitch=99, height=1, width=4)
    definition.instantiate().launch(stream)
    assert read(stream, buffer)[:4] == [5, 5, 5, 2] and read(stream, other) == [9] * 4
    refuse(ValueError, "dst_owner requires dst", node.update, dst_owner=other)
    refuse(ValueError, "dst_owner cannot be used when dst is a Buffer", definition.memset, other, 1, 1, dst_owner=other)
    refuse(OverflowError, "value too large to convert to uint8_t", node.update, value=300)
    refuse(ValueError, "value must be 1, 2, or 4 bytes, got 3", definition.memset, other, b"abc", 1)
    refuse(OverflowError, "can't convert negative value to size_t", definition.memset, other, 1, -1)
    refuse(TypeError, "an integer is required", definition.memset, "x", 1, 1)
    refuse(OverflowError, "can't convert negative value to CUdeviceptr", definition.memset, -1, 1, 1)
    for wrong in ((other, 1, 5), (other, 1, 0), (0, 1, 1), (other, 1, 2, 2, 1)):
        refuse_status("CUDA_ERROR_INVALID_VALUE", definition.memset, *wrong)
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", definition.memset, other, 1, 1, 2, 2)
    refuse_status("CUDA_ERROR_INVALID_VALUE", node.update, width=17)
    assert node.width == 3 and len(definition.nodes()) == 2
    other.close()
    refuse(RuntimeError, "Buffer has been closed", definition.memset, other, 1, 1)


def test_copies(stream, definition, buffer):
    pinned = LegacyPinnedMemoryResource().allocate(16)
    pinned._inner._memoryview().cast("B")[:] = bytes(range(16))
    node = definition.memcpy(buffer, pinned, 8)
    assert (node.dst, node.src, node.size, node.type) == (buffer.handle, pinned.handle, 8, 1)
    places = f"dst={buffer.handle:#x}(D) src={pinned.handle:#x}(H) size=8"
    assert repr(node) == f"<MemcpyNode handle={node.handle:#x} {places}>"
    node.update(size=2)
    node.memcpy(buffer.handle + 4, pinned.handle, 2)
    definition.instantiate().launch(stream)
    assert read(stream, buffer) == [0, 1, 0, 0, 0, 1, *[0] * 10]
    other = Device().allocate(16, stream=stream)
    node.update(dst=other.handle, src=buffer, size=6)
    assert (node.dst, node.src) == (other.handle, buffer.handle) and "(D) src" in repr(node) and "(D) size=6" in repr(node)
    definition.instantiate().launch(stream)
    assert read(stream, other)[:6] == [0, 1, 0, 0, 0, 1]
    refuse(ValueError, "dst_owner requires dst", node.update, dst_owner=other)
    refuse(ValueError, "src_owner requires src", node.update, src_owner=other)
    refuse(ValueError, "src_owner cannot be used when src is a Buffer", definition.memcpy, other, buffer, 1, src_owner=1)
    refuse(TypeError, "an integer is required", definition.memcpy, other, None, 1)
    refuse(OverflowError, "can't convert negative value to size_t", definition.memcpy, other, buffer, -1)
    for wrong in ((other, buffer, 17), (other, buffer, 0), (0, buffer, 1), (buffer, buffer, 1)):
        refuse_status("CUDA_ERROR_INVALID_VALUE", definition.memcpy, *wrong)
    refuse_status("CUDA_ERROR_INVALID_VALUE", node.update, size=17)
    assert node.size == 6


def test_the_owner_of_an_address_is_kept(device, stream, definition):
    memory = device.context.anabranch_context.raw.memory

    class Owner:
        address = memory.allocate(4)

        def __del__(self):
            memory.free(self.address)

    owner = Owner()
    gone = weakref.ref(owner)
    result = device.allocate(4, stream=stream)
    definition.memset(owner.address, 6, 4, dst_owner=owner).memcpy(result, owner.address, 4, src_owner=owner)
    executable = definition.instantiate()
    executable.launch(stream)
    assert read(stream, result) == [6] * 4
    del owner
    gc.collect()
    assert gone() is not None
    executable.close()


def test_memory_of_the_graph(device, stream, definition, add, buffer):
    node = definition.allocate(16)
    assert (node.bytesize, node.device_id, node.memory_type, node.peer_access) == (16, device.device_id, "device", ())
    assert repr(node) == f"<AllocNode handle={node.handle:#x} dptr={node.dptr:#x} size=16>" and node.dptr
    filled = node.memset(node.dptr, 1, 8).memset(node.dptr + 8, 2, 8)
    added = filled.launch(ONE, add, node.dptr, 1, 1)
    copied = added.memcpy(buffer, node.dptr, 16)
    freed = copied.deallocate(node.dptr)
    assert isinstance(freed, FreeNode) and freed.dptr == node.dptr and f"dptr={node.dptr:#x}>" in repr(freed)
    executable = definition.instantiate()
    for _ in range(2):
        executable.launch(stream)
        assert read(stream, buffer) == [2, *[1] * 7, *[2] * 8]
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.deallocate, node.dptr)
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.deallocate, 0)
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.deallocate, node.dptr + 1)
    refuse_status("CUDA_ERROR_INVALID_VALUE", node.memset, node.dptr + 8, 1, 9)
    refuse(TypeError, "Argument 'dptr' has incorrect type (expected int, got str)", definition.deallocate, "x")
    assert definition.allocate(4, device=device, memory_type="device", peer_access=[device]).peer_access == (0,)
    for kind in (GraphMemoryType.HOST, "managed"):
        refuse_status("CUDA_ERROR_NOT_SUPPORTED", definition.allocate, 4, memory_type=kind)
    with pytest.raises(ValueError, match="^memory_type must be one of"):
        definition.allocate(4, memory_type="x")
    with pytest.raises(ValueError):
        definition.allocate(4, device=99)
    refuse(OverflowError, "can't convert negative value to size_t", definition.allocate, -1)
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.allocate, 0)
    # Drivers remove nothing from a graph that allocates, and the node stays as it is.
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", added.destroy)
    assert added.is_valid and added.kernel == add


def test_events_and_functions(device, stream, definition):
    event, other, called = device.create_event(), device.create_event(), []

    def function():
        called.append("python")

    recorded = definition.callback(function).record(event)
    waited = recorded.wait(event)
    assert (type(recorded), type(waited)) == (EventRecordNode, EventWaitNode) and recorded.event is event
    assert repr(recorded) == f"<EventRecordNode handle={recorded.handle:#x} event={event.handle:#x}>"
    (called_node,) = recorded.pred
    assert isinstance(called_node, HostCallbackNode) and called_node.callback is function
    assert repr(called_node).endswith(" callback=function>")
    definition.instantiate().launch(stream)
    event.sync()
    assert called == ["python"]
    waited.update(other)
    assert waited.event is other and recorded.event is event
    other.close()
    # The node has the event that the program has closed.
    assert not waited.event.is_closed and waited.event.handle and repr(waited).endswith(f"event={waited.event.handle:#x}>")
    refuse(RuntimeError, "Event has been closed", recorded.update, other)
    refuse(RuntimeError, "Event has been closed", definition.wait, other)
    for call in (recorded.update, definition.record, definition.wait):
        with pytest.raises(TypeError, match="^Argument 'event' has incorrect type"):
            call(1)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def pointer(address):
        called.append(ctypes.string_at(address, 2))

    called_node.update(pointer, user_data=b"ab")
    assert called_node.callback is None and repr(called_node).rpartition("=")[2] != "0x0>"
    refuse(TypeError, "callback must be callable, got int", called_node.update, 1)
    refuse(ValueError, "user_data is only supported with ctypes function pointers", definition.callback, print, user_data=1)
    assert repr(definition.callback(functools.partial(function))).endswith(" callback=?>")
    definition.instantiate().launch(stream)
    stream.sync()
    assert sorted(called, key=str) == [b"ab", "python", "python"]


def test_children(device, stream, definition, buffer):
    child = GraphDefinition()
    child.memset(buffer, 4, 4)
    node = definition.embed(child)
    child.memset(buffer, 5, 4)
    assert isinstance(node, ChildGraphNode) and node.type.name == "CU_GRAPH_NODE_TYPE_GRAPH"
    inside = node.child_graph
    assert inside == node.child_graph != child and [one.value for one in inside.nodes()] == [4]
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", inside.memset, buffer, 1, 1)
    (filled,) = inside.nodes()
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", filled.update, value=1)
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", filled.destroy)
    definition.instantiate().launch(stream)
    assert read(stream, buffer)[:5] == [4, 4, 4, 4, 0]
    expected = "(expected anabranch.cuda_core.graph._definition.GraphDefinition, got int)"
    refuse(TypeError, f"Argument 'child' has incorrect type {expected}", definition.embed, 1)
    refuse(TypeError, f"Argument 'child' has incorrect type {expected}", node.update, 1)
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.embed, definition)
    allocating = GraphDefinition()
    allocating.allocate(4)
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", definition.embed, allocating)
    # Drivers change the child graphs of executable graphs only.
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", node.update, child)
    assert inside.is_valid
    node.destroy()
    assert not inside.is_valid and not filled.is_valid and not node.is_valid


def test_nodes_that_the_package_has_added(device, definition, buffer):
    """Nodes without the module's knowledge say what the driver knows."""
    context, inner = device.context.anabranch_context, definition.anabranch_graph
    event = context.create_event()
    added = [
        anabranch.NodeWork.copy(buffer.anabranch_buffer[:4], buffer.anabranch_buffer[4:8]),
        anabranch.NodeWork.event_record(event),
        anabranch.NodeWork.write_signal(context.create_signal(), 1),
        anabranch.NodeWork.child(context.create_graph()),
    ]
    for work in added:
        inner.add((), work)
    _, memory = inner.add_allocation((), 8)
    inner.add_free(list(inner.nodes())[-1], memory)
    inner.add_conditional((), inner.create_conditional(), "while")
    nodes = {type(node): node for node in definition.nodes()}
    kinds = {MemcpyNode, EventRecordNode, GraphNode, ChildGraphNode, AllocNode, FreeNode, WhileNode}
    assert set(nodes) == kinds and all(repr(node) for node in nodes.values())
    assert (nodes[MemcpyNode].dst, nodes[MemcpyNode].src, nodes[MemcpyNode].size) == (buffer.handle, buffer.handle + 4, 4)
    assert nodes[EventRecordNode].event.handle == event.handle
    assert nodes[AllocNode].dptr == nodes[FreeNode].dptr == memory.address and nodes[AllocNode].bytesize >= 8
    assert nodes[WhileNode].body.nodes() == set() and nodes[WhileNode].condition is None
    assert nodes[GraphNode].type.name == "CU_GRAPH_NODE_TYPE_BATCH_MEM_OP"
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", getattr, nodes[ChildGraphNode], "child_graph")
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", nodes[MemcpyNode].update, size=2)
    nodes[MemcpyNode].update(dst=buffer, src=buffer.handle + 8, size=2)
    assert nodes[MemcpyNode].src == buffer.handle + 8 and isinstance(buffer, Buffer)


def test_a_function_goes_with_its_graph(stream, definition):
    class Function:
        def __call__(self):
            pass

    function = Function()
    gone = weakref.ref(function)
    node = definition.callback(function)
    del function
    gc.collect()
    assert gone() is node.callback
    definition.instantiate().launch(stream)
    stream.sync()
    node.update(print)
    del node, definition
    for _ in range(100):
        gc.collect()
        if gone() is None:
            break
        stream.sync()
    assert is_deleted(gone)


@pytest.mark.parametrize("how", ["update", "destroy", "close"])
@pytest.mark.parametrize("is_captured", [False, True])
def test_an_event_that_a_node_has_told_outlives_it(device, stream, definition, how, is_captured):
    first = device.create_event()
    if is_captured:
        definition.anabranch_graph.add((), anabranch.NodeWork.event_record(first.anabranch_event))
        (node,) = definition.nodes()
    else:
        node = definition.record(first)
    handle = first.handle
    first.close()
    told = node.event
    assert told.handle == handle
    if how == "update":
        node.update(device.create_event())
    elif how == "destroy":
        node.destroy()
    else:
        definition.anabranch_graph.close()
    gc.collect()
    anabranch.flush_deferred_drops()
    # The driver would give the handle of an event that was destroyed to one of these.
    assert handle not in [device.create_event().handle for _ in range(200)]
    assert told.is_done
    stream.record(told)
    stream.sync()
    told.sync()
