"""The drop-in for cuda.core: nodes of graphs that can be launched."""

from __future__ import annotations

import gc
import threading

import pytest
from conftest import DEVICE
from cuda_core_graph_support import ONE, add, buffer, definition, read, refuse, refuse_status
from cuda_core_support import KERNELS, device, nothing_is_current, stream

from anabranch.cuda_core import LaunchConfig, ObjectCode
from anabranch.cuda_core.graph import (
    ExecutableChildGraphNode,
    ExecutableEventRecordNode,
    ExecutableEventWaitNode,
    ExecutableGraphNode,
    ExecutableHostCallbackNode,
    ExecutableKernelNode,
    ExecutableMemcpyNode,
    ExecutableMemsetNode,
    GraphDefinition,
)

NOT_SUPPORTED = "updating clustered or cooperative kernel nodes is not supported"


def test_views_of_nodes(device, definition, add, buffer):
    event, child = device.create_event(), GraphDefinition()
    nodes = {
        ExecutableKernelNode: definition.launch(ONE, add, buffer, 1, 1),
        ExecutableMemsetNode: definition.memset(buffer, 1, 1),
        ExecutableMemcpyNode: definition.memcpy(buffer, buffer.handle + 8, 1),
        ExecutableChildGraphNode: definition.embed(child),
        ExecutableEventRecordNode: definition.record(event),
        ExecutableEventWaitNode: definition.wait(event),
        ExecutableHostCallbackNode: definition.callback(print),
    }
    empty, conditional = definition.empty(), definition.if_then(definition.create_condition())
    executable = definition.instantiate()
    for kind, node in nodes.items():
        view = executable[node]
        assert type(view) is kind and isinstance(view, ExecutableGraphNode)
        assert repr(view) == f"<{kind.__name__} graph={executable.handle:#x} node={node.handle:#x}>"
        refuse(RuntimeError, "directly constructing an executable graph node is not supported", kind)
    for node in (empty, conditional, definition._entry):
        message = f"{type(node).__name__} does not support executable updates"
        refuse(TypeError, message, executable.__getitem__, node)
    expected = "(expected anabranch.cuda_core.graph._node.GraphNode, got int)"
    refuse(TypeError, f"Argument 'node' has incorrect type {expected}", executable.__getitem__, 0)
    with pytest.raises(TypeError, match="not iterable"):
        iter(executable)
    executable.close()
    refuse(RuntimeError, "Graph has been closed", executable.__getitem__, empty)
    refuse(RuntimeError, "executable graph has been closed", view.update, print)
    assert repr(view).startswith("<ExecutableHostCallbackNode graph=0x0 node=")


def test_later_launches_have_other_work(device, stream, definition, add, buffer):
    scale = ObjectCode.from_ptx(str(KERNELS)).get_kernel("scale")
    other = device.allocate(16, stream=stream)
    filled = definition.memset(buffer, 1, 16)
    launched = filled.launch(ONE, add, buffer, 1, 1)
    copied = launched.memcpy(buffer.handle + 8, buffer, 4)
    executable, untouched = definition.instantiate(), definition.instantiate()
    executable[filled].update(dst=buffer, value=b"\x02\0", width=4, height=2, pitch=8)
    executable[launched].update(config=LaunchConfig(grid=1, block=4), kernel=add, args=(buffer, 5, 4))
    executable[copied].update(dst=other, src=buffer, size=8)
    executable.launch(stream)
    assert read(stream, buffer, "I") == [0x20007] * 4 and read(stream, other, "I") == [0x20007] * 2 + [0] * 2
    # The graph itself is as it was, and so is what else was made of it.
    assert (filled.value, launched.block, copied.size) == (1, (1, 1, 1), 4)
    untouched.launch(stream)
    assert read(stream, buffer, "I") == [0x1010102, 0x1010101, 0x1010102, 0x1010101]
    executable[launched].update(config=ONE, kernel=scale, args=(other, other, 0.0, 1))
    executable.launch(stream)
    assert read(stream, buffer, "H") == [2] * 8
    view = executable[launched]
    refuse(NotImplementedError, NOT_SUPPORTED, view.update, config=LaunchConfig(grid=1, block=1, cluster=1), kernel=add, args=())
    refuse_status("CUDA_ERROR_INVALID_VALUE", view.update, config=ONE, kernel=add, args=())
    refuse_status("CUDA_ERROR_INVALID_VALUE", executable[copied].update, dst=other, src=buffer, size=17)
    refuse(OverflowError, "can't convert negative value to size_t", executable[filled].update, dst=other, value=1, width=-1)
    refuse(OverflowError, "value too large to convert to uint8_t", executable[filled].update, dst=other, value=300, width=1)
    refuse(TypeError, "an integer is required", executable[copied].update, dst="x", src=1, size=1)
    for wrong in ({"config": 1, "kernel": add}, {"config": ONE, "kernel": 1}):
        with pytest.raises(TypeError, match="has incorrect type"):
            view.update(args=(), **wrong)
    for missing in (view.update, executable[filled].update, executable[copied].update):
        with pytest.raises(TypeError, match="required keyword-only argument"):
            missing()


def test_nodes_are_left_out(stream, definition, add, buffer):
    filled = definition.memset(buffer, 1, 4)
    launched = filled.launch(ONE, add, buffer, 1, 1)
    copied = launched.memcpy(buffer.handle + 4, buffer, 4)
    executable = definition.instantiate()
    if DEVICE != "host":
        # Drivers of GPUs lose the order of what is left.
        refuse_status("CUDA_ERROR_NOT_SUPPORTED", executable[filled].disable)
        return
    for node in (filled, launched, copied):
        view = executable[node]
        assert view.is_enabled
        for _ in range(2):
            view.disable()
            assert not view.is_enabled and not executable[node].is_enabled
    executable.launch(stream)
    assert read(stream, buffer) == [0] * 16
    executable[launched].enable()
    executable.launch(stream)
    assert read(stream, buffer, "I") == [1, 0, 0, 0]


def test_events_and_functions(device, stream, definition):
    called, first, second = [], device.create_event(), device.create_event()
    reached, go_on = threading.Event(), threading.Event()

    def wait():
        reached.set()
        go_on.wait(60)

    call = definition.callback(lambda: called.append("first"))
    recorded = call.record(first)
    waited = recorded.wait(first)
    executable = definition.instantiate()
    executable[call].update(wait)
    executable[recorded].update(second)
    executable[waited].update(second)
    executable.launch(stream)
    assert reached.wait(60)
    assert first.is_done and not second.is_done
    go_on.set()
    stream.sync()
    assert second.is_done and called == [] and recorded.event is first
    refuse(TypeError, "callback must be callable, got int", executable[call].update, 1)
    second.close()
    for view in (executable[recorded], executable[waited]):
        refuse(RuntimeError, "Event has been closed", view.update, second)
        with pytest.raises(TypeError, match="^Argument 'event' has incorrect type"):
            view.update(1)


def test_child_graphs(stream, definition, buffer):
    first, second = GraphDefinition(), GraphDefinition()
    first.memset(buffer, 1, 4)
    second.memset(buffer, 2, 4)
    node = definition.embed(first)
    executable = definition.instantiate()
    executable[node].update(second)
    executable.launch(stream)
    assert read(stream, buffer)[:4] == [2] * 4
    second.empty()
    refuse_status("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", executable[node].update, second)
    with pytest.raises(TypeError, match="^Argument 'child' has incorrect type"):
        executable[node].update(1)


def test_a_view_needs_its_node(stream, definition, add, buffer):
    node = definition.launch(ONE, add, buffer, 1, 1)
    executable, view = definition.instantiate(), None
    view = executable[node]
    stranger = executable[GraphDefinition().launch(ONE, add, buffer, 1, 1)]
    refuse_status("CUDA_ERROR_INVALID_VALUE", stranger.update, config=ONE, kernel=add, args=(buffer, 5, 1))
    refuse_status("CUDA_ERROR_INVALID_VALUE", getattr, stranger, "is_enabled")
    node.destroy()
    refuse(RuntimeError, "GraphNode has been destroyed", executable.__getitem__, node)
    refuse(RuntimeError, "source graph node is no longer valid", view.disable)
    refuse(RuntimeError, "source graph node is no longer valid", getattr, view, "is_enabled")
    del node, definition
    gc.collect()
    executable.launch(stream)
    assert read(stream, buffer, "I")[0] == 1


def test_whole_updates(stream, definition, buffer):
    definition.memset(buffer, 1, 4)
    executable, other = definition.instantiate(), GraphDefinition()
    other.memset(buffer, 3, 4)
    executable.update(other)
    executable.launch(stream)
    assert read(stream, buffer)[:4] == [3] * 4
    other.empty()
    with pytest.raises(Exception, match="^Graph update failed: CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: "):
        executable.update(other)
    refuse(TypeError, "expected GraphBuilder or GraphDefinition, got int", executable.update, 1)
