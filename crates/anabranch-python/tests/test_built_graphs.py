"""Graphs that are built by hand."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from pathlib import Path

import pytest

import anabranch
from conftest import DEVICE, is_deleted
from anabranch import NodeWork


@pytest.fixture
def graph(context):
    return context.create_graph()


def test_nodes_run_in_the_order_of_edges(stream, module, graph):
    source, target = stream.upload([1, 2, 3], "uint32"), stream.allocate(3, "uint32")
    copied = graph.add((), NodeWork.copy(target, source))
    filled = graph.add(copied, NodeWork.fill(target[:1], 9))
    added = graph.add([copied, filled], NodeWork.kernel(module.kernel("add"), (1, 3), target, 10, 3))
    assert graph.node_count == 3 and len({copied, filled, added}) == 3
    assert copied.graph_id == graph.id and [node.number for node in graph.nodes()] == [0, 1, 2]
    assert [graph.node_kind(node) for node in graph.nodes()] == ["copy", "fill", "kernel"]
    assert graph.root_nodes() == [copied]
    assert set(graph.edges()) == {(copied, filled), (copied, added), (filled, added)}
    assert set(graph.dependencies_of(added)) == {copied, filled} and set(graph.dependents_of(copied)) == {filled, added}
    executable = graph.instantiate()
    # The graph keeps what its nodes use.
    module.close()
    graph.close()
    gc.collect()
    for _ in range(2):
        executable.launch(stream)
        assert stream.download(target).tolist() == [19, 12, 13]
    assert stream.download(source).tolist() == [1, 2, 3]


def test_fills_with_patterns(stream, graph):
    buffer = stream.allocate(6, "int8")
    first = graph.add((), NodeWork.fill_pattern(buffer[:4], b"\1\2"))
    second = graph.add(first, NodeWork.fill_pattern(buffer[4:], [9]))
    graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [1, 2, 1, 2, 9, 9]
    assert [graph.node_parameters(node)["pattern"] for node in (first, second)] == [b"\1\2", b"\t"]
    graph.set_node(first, NodeWork.fill_pattern(buffer[:4], b"\1\0\0\0"))
    graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [1, 0, 0, 0, 9, 9]
    for pattern in (b"", b"abc", b"abcd", b"abcdefgh"):
        with pytest.raises(ValueError):
            NodeWork.fill_pattern(buffer, pattern)
    eight = stream.allocate(2, "int64")
    graph.add((), NodeWork.fill_pattern(eight, b"abcdabcd"))
    with pytest.raises(anabranch.AnabranchError):
        graph.add((), NodeWork.fill_pattern(eight, b"abcdefgh"))


def test_edges_are_added_and_removed(stream, graph):
    first, second = graph.add(None, NodeWork.empty()), graph.add((), NodeWork.empty())
    assert graph.edges() == []
    graph.add_edges([(first, second)])
    assert graph.edges() == [(first, second)]
    with pytest.raises(anabranch.AnabranchError) as caught:
        graph.add_edges([(first, second)])
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"
    graph.remove_edges([(first, second)])
    assert graph.edges() == []
    graph.add_edges([(first, second), (second, first)])
    with pytest.raises(anabranch.AnabranchError):
        graph.instantiate()
    graph.remove_node(first)
    assert graph.nodes() == [second]
    with pytest.raises(anabranch.AnabranchError):
        graph.add(first, NodeWork.empty())


def test_work_is_replaced(stream, graph):
    buffer = stream.allocate(2, "int32")
    node = graph.add((), NodeWork.fill(buffer, 1))
    executable = graph.instantiate()
    # The same work any number of times.
    work = NodeWork.fill(buffer[1:], 2)
    executable.set_node(node, work)
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [0, 2]
    stream.fill(buffer, 7)
    if DEVICE == "host":
        executable.set_node_enabled(node, False)
        assert not executable.is_node_enabled(node)
        executable.launch(stream)
        assert stream.download(buffer).tolist() == [7, 7]
    else:
        # Drivers of GPUs lose the order of graphs with disabled fills.
        with pytest.raises(anabranch.AnabranchError, match="CUDA_ERROR_NOT_SUPPORTED"):
            executable.set_node_enabled(node, False)
    graph.set_node(node, work)
    graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [7, 2]
    executable.update(graph)
    with pytest.raises(anabranch.AnabranchError):
        graph.set_node(node, NodeWork.empty())
    with pytest.raises(anabranch.AnabranchError):
        executable.set_node(graph.clone().nodes()[0], work)


def test_functions_and_events_are_nodes(stream, context, graph):
    seen: list[object] = []
    event, other = context.create_event(timing=False), context.create_stream()
    called = graph.add((), NodeWork.host_func(seen.append, "called"))
    recorded = graph.add(called, NodeWork.event_record(event))
    graph.add(recorded, NodeWork.event_wait(event))
    executable = graph.instantiate()
    for _ in range(2):
        executable.launch(stream)
    other.wait(event)
    other.synchronize()
    stream.synchronize()
    assert seen == ["called", "called"]

    def fail() -> None:
        raise ValueError("of the function")

    failing = context.create_graph()
    failing.add((), NodeWork.host_func(fail))
    failing.instantiate().launch(stream)
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_function_goes_with_its_work(stream, context, graph):
    class Function:
        def __call__(self) -> None:
            pass

    function = Function()
    gone = weakref.ref(function)
    work = NodeWork.host_func(function)
    del function
    graph.add((), work)
    executable = graph.instantiate()
    executable.launch(stream)
    stream.synchronize()
    work = None
    graph.close()
    executable.close()
    context.synchronize()
    for _ in range(100):
        gc.collect()
        if gone() is None:
            break
        threading.Event().wait(0.02)
    assert is_deleted(gone)


def test_a_child_is_a_copy(stream, context, graph):
    buffer = stream.allocate(1, "int32")
    child = context.create_graph()
    child.add((), NodeWork.fill(buffer, 3))
    node = graph.add((), NodeWork.child(child))
    child.add((), NodeWork.empty())
    assert graph.node_kind(node) == "child graph" and graph.node_count == 1
    child.close()
    graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [3]
    with pytest.raises(anabranch.AnabranchError) as caught:
        graph.add((), NodeWork.child(graph))
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE" and "clone" in caught.value.hint
    with pytest.raises(anabranch.AnabranchError):
        NodeWork.child(child)


def test_two_threads_add_each_others_graphs(context):
    first, second = context.create_graph(), context.create_graph()
    first.add((), NodeWork.empty())
    second.add((), NodeWork.empty())
    works = NodeWork.child(first), NodeWork.child(second)

    def add(graph: anabranch.Graph, work: NodeWork) -> None:
        for _ in range(6):
            try:
                graph.remove_node(graph.add((), work))
            except anabranch.AnabranchError:
                pass

    threads = [threading.Thread(target=add, args=pair) for pair in ((first, works[1]), (second, works[0]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def test_clones_have_nodes_of_their_own(graph):
    node = graph.add((), NodeWork.empty())
    clone = graph.clone()
    found = graph.find_in_clone(node, clone)
    assert found != node and clone.nodes() == [found]
    with pytest.raises(anabranch.AnabranchError):
        graph.find_in_clone(found, clone)


def test_a_graph_allocates(stream, graph):
    target = stream.allocate(4, "float32")
    allocated, memory = graph.add_allocation((), 4, "float32")
    assert memory.shape == (4,) and memory.dtype == "float32"
    filled = graph.add(allocated, NodeWork.fill(memory, 1.5))
    copied = graph.add(filled, NodeWork.copy(target, memory))
    freed = graph.add_free(copied, memory)
    assert [graph.node_kind(node) for node in (allocated, freed)] == ["allocation", "free"]
    executable = graph.instantiate()
    executable.launch(stream)
    executable.launch(stream)
    assert stream.download(target).tolist() == [1.5] * 4
    with pytest.raises(anabranch.AnabranchError):
        graph.add_free(freed, target)


def test_conditional_nodes_have_bodies(stream, context, graph):
    value, buffer = stream.upload([1], "uint32"), stream.allocate(2, "uint32")
    conditional = graph.create_conditional(0)
    decided = graph.add((), NodeWork.set_conditional(conditional, value))
    node = graph.add_conditional(decided, conditional, "if", 2)
    graph.body(node, 0).add((), NodeWork.fill(buffer[:1], 5))
    otherwise = graph.body(node, 1)
    otherwise.add((), NodeWork.fill(buffer[1:], 6))
    assert otherwise.node_count == 1 and otherwise == graph.body(node, 1) != graph
    executable = graph.instantiate()
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [5, 0]
    stream.fill(value, 0)
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [5, 6]
    for wrong in otherwise.instantiate, otherwise.clone, lambda: graph.body(node, 2), lambda: graph.body(decided, 0):
        with pytest.raises(anabranch.AnabranchError):
            wrong()
    # A body keeps the graph around it.
    graph.close()
    assert otherwise.node_count == 1


def test_bodies_within_bodies(stream, context, graph):
    value, buffer = stream.upload([1], "uint32"), stream.allocate(1, "uint32")
    outer = graph.create_conditional(1)
    node = graph.add_conditional((), outer, "if")
    body = graph.body(node, 0)
    inner = body.create_conditional()
    decided = body.add((), NodeWork.set_conditional(inner, value))
    body.body(body.add_conditional(decided, inner, "if"), 0).add((), NodeWork.fill(buffer, 8))
    graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [8]
    with pytest.raises(anabranch.AnabranchError):
        graph.add_conditional((), inner, "if")
    with pytest.raises(ValueError, match="while"):
        graph.add_conditional((), outer, "unless")  # type: ignore[arg-type]


def test_a_loop_sets_its_own_value(stream, context, graph):
    module = context.load_module((Path(__file__).parent / "conditional.ptx").read_text())
    conditional = graph.create_conditional(1)
    node = graph.add_conditional((), conditional, "while")
    body = graph.body(node, 0)
    body.add((), NodeWork.kernel(module.kernel("decide"), (1, 1), conditional.handle, 0))
    graph.instantiate().launch(stream)
    stream.synchronize()
    kinds = {one["kind"] for one in json.loads(graph.to_json())["nodes"]}
    assert kinds == {"conditional"}


def test_wrong_uses_are_one_exception(stream, context, graph, module):
    buffer = stream.allocate(2, "int32")
    node = graph.add((), NodeWork.empty())
    for error, wrong in [
        (TypeError, lambda: NodeWork.copy(buffer, stream.allocate(2, "int64"))),
        (anabranch.AnabranchError, lambda: NodeWork.copy(buffer, buffer)),
        (OverflowError, lambda: NodeWork.fill(buffer, 1 << 40)),
        (TypeError, lambda: NodeWork.fill(buffer, "text")),
        (anabranch.AnabranchError, lambda: NodeWork.kernel(module.kernel("add"), (1, 1), buffer)),
        (TypeError, lambda: NodeWork.host_func(None)),
        (TypeError, lambda: NodeWork.set_conditional(graph.create_conditional(), buffer)),
        (TypeError, lambda: NodeWork()),
        (TypeError, lambda: graph.add((), buffer)),
        (TypeError, lambda: graph.add(5, NodeWork.empty())),
        (TypeError, lambda: graph.add([buffer], NodeWork.empty())),
        (anabranch.AnabranchError, lambda: graph.add([node, node], NodeWork.empty())),
        (anabranch.AnabranchError, lambda: graph.add((), NodeWork.copy(buffer, stream.allocate(1, "int32")))),
        (anabranch.AnabranchError, lambda: graph.add((), NodeWork.fill(buffer[:0], 0))),
        (TypeError, lambda: graph.add_edges([node])),
        (OverflowError, lambda: graph.body(node, -1)),
    ]:
        with pytest.raises(error):
            wrong()
    graph.close()
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        graph.add((), NodeWork.empty())
    buffer.close()
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        NodeWork.fill(buffer, 0)


def test_nodes_say_what_they_do(context, stream, module, graph):
    source, target = stream.upload([1, 2, 3], "uint32"), stream.allocate(3, "uint32")
    event, signal = context.create_event(), context.create_signal()
    kernel = module.kernel("add")
    child = context.create_graph()
    child.add((), NodeWork.empty())
    value = graph.create_conditional(default=1)
    allocated, memory = graph.add_allocation((), 16)
    work = [
        NodeWork.copy(target, source),
        NodeWork.fill(target[1:], 9),
        NodeWork.kernel(kernel, (1, 3), target, 10, 3),
        NodeWork.event_record(event),
        NodeWork.event_wait(event),
        NodeWork.write_signal(signal, 5),
        NodeWork.wait_signal(signal, 5, "equal"),
        NodeWork.child(child),
        NodeWork.empty(),
        NodeWork.host_func(print),
    ]
    nodes = [graph.add((), each) for each in work]
    looped = graph.add_conditional((), value, "while")
    copied, filled, added, recorded, waited, wrote, awaited, inside, empty, called = (
        graph.node_parameters(node) for node in nodes
    )
    everything = [*nodes, allocated, looped]
    assert [graph.node_parameters(node)["kind"] for node in everything] == [graph.node_kind(node) for node in everything]
    assert (copied["source"]["address"], copied["destination"]["address"]) == (source.address, target.address)
    assert copied["extent"] == (12, 1, 1) and copied["source"]["origin"] == (0, 0, 0)
    assert filled["address"] == target.address + 4 and filled["pattern"] == (9).to_bytes(4, "little")
    assert (filled["width"], filled["height"]) == (2, 1)
    assert (added["grid"], added["block"], added["cluster"]) == ((1, 1, 1), (3, 1, 1), None)
    assert added["function"] == kernel.handle and added["shared_bytes"] == 0 and added["cooperative"] is False
    assert added["arguments"] == [target.address.to_bytes(8, "little"), (10).to_bytes(4, "little"), (3).to_bytes(4, "little")]
    assert recorded["event"] == waited["event"] == event.handle
    (write,), (wait,) = wrote["operations"], awaited["operations"]
    assert (write["operation"], write["value"], wait["operation"], wait["condition"]) == ("write", 5, "wait", "equal")
    assert write["address"] == wait["address"] and "condition" not in write
    assert inside["graph"] not in (0, child.handle) and set(empty) == set(called) == {"kind"}
    assert graph.node_parameters(allocated)["address"] == memory.address
    assert graph.node_parameters(allocated)["bytes"] >= 16
    loop = graph.node_parameters(looped)
    assert loop["condition"] == "while" and loop["bodies"] == [graph.body(looped, 0).handle]
    with pytest.raises(anabranch.AnabranchError) as caught:
        child.node_parameters(nodes[0])
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"


def test_the_event_of_a_node(context, stream):
    event, graph = context.create_event(), context.create_graph()
    recorded = graph.add((), NodeWork.event_record(event))
    waited, empty = graph.add(recorded, NodeWork.event_wait(event)), graph.add((), NodeWork.empty())
    handle = event.handle
    event.close()
    told = graph.node_event(recorded)
    assert told is not None and told.handle == handle == graph.node_event(waited).handle
    assert graph.node_event(empty) is None
    graph.close()
    told.record(stream)
    told.synchronize()
    with pytest.raises(anabranch.AnabranchError):
        context.create_graph().node_event(recorded)
