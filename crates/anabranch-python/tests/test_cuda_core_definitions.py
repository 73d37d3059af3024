"""The drop-in for cuda.core: graphs that are built by hand."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
from cuda_core_graph_support import ONE, add, buffer, definition, read, refuse, refuse_status
from cuda_core_support import CONDITIONAL, KERNELS, _state, device, nothing_is_current, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.cuda_core import CUDAError, Device, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, launch
from anabranch.cuda_core.graph import (
    ConditionalNode,
    EmptyNode,
    GraphBuilder,
    GraphDebugPrintOptions,
    GraphDefinition,
    GraphNode,
    HostCallbackNode,
    IfElseNode,
    IfNode,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    SwitchNode,
    WhileNode,
)
from anabranch.cuda_core.typing import GraphConditionalType


def test_a_graph_is_built_and_launched(stream, definition, add, buffer):
    pinned = LegacyPinnedMemoryResource().allocate(8)
    filled = definition.memset(buffer, (3).to_bytes(4, "little"), 4)
    added = filled.launch(LaunchConfig(grid=1, block=4), add, buffer, 10, 4)
    copied = added.memcpy(pinned, buffer, 8)
    executable = definition.instantiate()
    for _ in range(2):
        executable.launch(stream)
        stream.sync()
        assert memoryview(pinned._inner._memoryview()).cast("B").cast("I").tolist() == [13, 13]
    assert [type(node) for node in (filled, added, copied)] == [MemsetNode, KernelNode, MemcpyNode]
    assert definition.nodes() == {filled, added, copied}
    assert definition.edges() == {(filled, added), (added, copied)}


def test_a_graph_keeps_what_its_nodes_use(device, stream, add):
    source, target = (device.allocate(4, stream=stream) for _ in range(2))
    source.fill(7, stream=stream)
    stream.sync()
    definition = GraphDefinition()
    executable = definition.memcpy(target, source, 4).launch(ONE, add, target, 1, 1).graph.instantiate()
    source.close()
    del source, definition, add
    gc.collect()
    executable.launch(stream)
    assert read(stream, target) == [8, 7, 7, 7]


def test_a_graph_needs_a_context(device):
    _state.thread.forget()
    refuse_status("CUDA_ERROR_INVALID_CONTEXT", GraphDefinition)


def test_objects_that_stand_for_graphs_and_nodes(definition):
    entry, first, second = definition._entry, definition.empty(), definition.empty()
    assert repr(definition) == f"<GraphDefinition handle={definition.handle:#x}>" and definition.handle
    assert first.graph == definition != GraphDefinition() and hash(first.graph) == hash(definition)
    assert definition != 1 and first != 1 and first != second and len({first, second, first}) == 2
    # There is one object for a node.
    assert {id(node) for node in definition.nodes()} == {id(first), id(second)}
    assert repr(first) == f"<EmptyNode handle={first.handle:#x}>" and first.handle != second.handle
    assert (entry.type, entry.handle, entry.is_valid, repr(entry)) == (None, None, True, "<GraphNode entry>")
    assert entry == definition._entry != GraphDefinition()._entry
    entry.destroy()
    assert entry.is_valid and definition.is_valid
    for each in (definition, first):
        for duplicate in (copy.copy, pickle.dumps):
            with pytest.raises(TypeError, match="can be neither copied nor pickled"):
                duplicate(each)
    for kind in (GraphNode, EmptyNode):
        with pytest.raises(RuntimeError, match="cannot be instantiated directly"):
            kind()
    assert definition.anabranch_graph.node_count == 2


def test_conditions(stream, definition, buffer):
    first, second = definition.create_condition(1), definition.create_condition(0)
    then = definition.if_then(first)
    either = then.if_else(second)
    chosen = either.switch(definition.create_condition(2), 3)
    then.then.memset(buffer, 1, 1)
    either.then.memset(buffer.handle + 1, 2, 1)
    either.else_.memset(buffer.handle + 2, 3, 1)
    for number, branch in enumerate(chosen.branches):
        branch.memset(buffer.handle + 4 + number, 7, 1)
    skipped = chosen.while_loop(definition.create_condition(0))
    skipped.body.memset(buffer.handle + 8, 9, 1)
    assert [type(node) for node in (then, either, chosen, skipped)] == [IfNode, IfElseNode, SwitchNode, WhileNode]
    assert [node.cond_type for node in (then, chosen, skipped)] == ["if", "switch", "while"]
    assert isinstance(then.cond_type, GraphConditionalType) and then.condition is first
    assert [len(node.branches) for node in (then, either, chosen, skipped)] == [1, 2, 3, 1]
    assert repr(then) == f"<IfNode handle={then.handle:#x} condition={first.handle:#x}>"
    assert then.then == then.branches[0] != definition and isinstance(then, ConditionalNode)
    definition.instantiate().launch(stream)
    assert read(stream, buffer) == [1, 0, 3, 0, 0, 0, 7, 0, *[0] * 8]
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", then.then.instantiate)
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.if_then, first)
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.if_then, GraphDefinition().create_condition())
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.switch, definition.create_condition(), 0)
    refuse(OverflowError, "can't convert negative value to unsigned int", definition.switch, first, -1)
    refuse(OverflowError, "can't convert negative value to unsigned int", definition.create_condition, -1)
    refuse(OverflowError, "value too large to convert to unsigned int", definition.create_condition, 1 << 32)
    refuse(TypeError, "Argument 'default_value' has incorrect type (expected int, got str)", definition.create_condition, "1")
    for call in (definition.if_then, definition.if_else, definition.while_loop, then.if_then):
        with pytest.raises(TypeError, match="GraphCondition, got NoneType"):
            call(None)


def test_a_body_goes_with_its_node(definition, buffer):
    node = definition.if_then(definition.create_condition(1))
    body = node.then
    filled = body.memset(buffer, 1, 1)
    within = body.if_then(body.create_condition(1)).then
    node.destroy()
    node.destroy()
    assert (node.is_valid, node.handle, node.type) == (False, None, None) and node.pred == node.succ == set()
    assert not body.is_valid and not within.is_valid and not filled.is_valid and body.handle == 0
    assert repr(filled).startswith("<MemsetNode handle=0x0") and filled.value == 1 and node.branches == (body,)
    for call in (body.nodes, body.edges, body.empty, body.instantiate, body.create_condition, within.empty):
        refuse(RuntimeError, "GraphDefinition is no longer valid", call)
    for call in (filled.join, filled.update, filled.callback):
        arguments = (print,) if call == filled.callback else ()
        refuse(RuntimeError, "GraphNode belongs to an invalid GraphDefinition", call, *arguments)
    refuse(RuntimeError, "GraphNode has been destroyed", node.join)
    refuse(RuntimeError, "GraphNode has been destroyed", definition.join, node)
    refuse(RuntimeError, "GraphNode has been destroyed", definition.empty().succ.add, node)
    assert repr(definition.join()) and definition.is_valid


def test_edges_are_sets(definition):
    hub, first, second, third = (definition.empty() for _ in range(4))
    hub.succ = {first, second}
    assert hub.succ == {first, second} and first.pred == {hub} and len(hub.succ) == 2 and first in hub.succ
    assert 1 not in hub.succ and third not in hub.succ and hub.pred == set() and repr(hub.pred) == "{}"
    hub.succ = [third, third]
    assert hub.succ == {third} and first.pred == set() and repr(hub.succ) == "{" + repr(third) + "}"
    hub.succ.add(third)
    hub.succ |= {first}
    hub.succ.update(second, [third])
    assert hub.succ == {first, second, third} and type(hub.succ & {first}) is set
    hub.succ -= {first, hub}
    hub.succ.discard(hub)
    hub.succ.remove(second)
    with pytest.raises(KeyError):
        hub.succ.remove(second)
    assert hub.succ.pop() == third and not hub.succ
    hub.pred = (first,)
    hub.pred = hub.pred
    hub.pred.clear()
    assert definition.edges() == set()
    joined = first.join(second, second)
    assert joined.pred == {first, second} and definition.join(first).pred == {first} and first.join().pred == {first}
    refuse(ValueError, "The virtual graph entry node cannot be used in an edge", hub.succ.add, definition._entry)
    refuse(ValueError, "Graph nodes must belong to the same GraphDefinition", hub.succ.add, GraphDefinition().empty())
    refuse(TypeError, "expected GraphNode, got int", setattr, hub, "pred", [5])
    refuse(TypeError, "expected GraphNode, got int", definition.join, 5)
    refuse_status("CUDA_ERROR_INVALID_VALUE", hub.succ.add, hub)
    refuse_status("CUDA_ERROR_INVALID_VALUE", hub.join, GraphDefinition().empty())
    with pytest.raises(TypeError, match="^Argument 'value' has incorrect type"):
        hub.succ.add(5)
    with pytest.raises(TypeError, match="unhashable"):
        hash(hub.succ)
    hub.succ, first.succ = {first}, {hub}
    refuse_status("CUDA_ERROR_INVALID_VALUE", definition.instantiate)


CHANGES = st.tuples(st.sampled_from(["empty", "add", "discard", "destroy", "join"]), st.integers(0, 7), st.integers(0, 7))


@settings(max_examples=60, deadline=None)
@given(st.lists(CHANGES, max_size=20))
def test_graphs_as_a_model_has_them(changes):
    """Nodes are numbers, and edges pairs of them with the smaller number first."""
    Device().set_current()
    definition = GraphDefinition()
    nodes, edges = [definition.empty()], set()
    gone: set[int] = set()
    for change, first, second in changes:
        a, b = sorted((first % len(nodes), second % len(nodes)))
        if change == "empty":
            nodes.append(definition.empty())
        elif change == "join" and not gone & {a, b}:
            nodes.append(definition.join(nodes[a], nodes[b]))
            edges |= {(a, len(nodes) - 1), (b, len(nodes) - 1)}
        elif change == "destroy":
            nodes[a].destroy()
            gone.add(a)
            edges = {edge for edge in edges if a not in edge}
        elif change == "discard":
            nodes[b].pred.discard(nodes[a])
            edges.discard((a, b))
        elif change == "add" and a != b:
            if gone & {a, b}:
                refuse(RuntimeError, "GraphNode has been destroyed", nodes[a].succ.add, nodes[b])
            else:
                nodes[a].succ.add(nodes[b])
                edges.add((a, b))
        assert definition.nodes() == {node for number, node in enumerate(nodes) if number not in gone}
        assert definition.edges() == {(nodes[a], nodes[b]) for a, b in edges}
        for number, node in enumerate(nodes):
            assert node.is_valid == (number not in gone)
            assert node.succ == {nodes[b] for a, b in edges if a == number}


def test_a_graph_is_drawn(definition, tmp_path):
    definition.callback(print)
    definition.debug_dot_print(str(tmp_path / "graph.dot"), GraphDebugPrintOptions(verbose=True))
    assert "digraph" in (tmp_path / "graph.dot").read_text()
    refuse(TypeError, "options must be a GraphDebugPrintOptions instance", definition.debug_dot_print, "unused", {})
    refuse(TypeError, "Argument 'path' has incorrect type (expected str, got int)", definition.debug_dot_print, 1)
    refuse_status("CUDA_ERROR_OPERATING_SYSTEM", definition.debug_dot_print, str(tmp_path / "none" / "graph.dot"))


def test_loops(stream, definition, device):
    code = ObjectCode.from_ptx(str(CONDITIONAL))
    try:
        kernel = code.get_kernel("count_down")
    except CUDAError as error:
        # A GPU links it with a library of the CUDA toolkit.
        pytest.skip(str(error))
    left, passed = device.allocate(4, stream=stream), device.allocate(4, stream=stream)
    left.fill((3).to_bytes(4, "little"), stream=stream)
    add = ObjectCode.from_ptx(str(KERNELS)).get_kernel("add")
    condition = definition.create_condition(1)
    body = definition.while_loop(condition).body
    body.launch(ONE, add, passed, 1, 1).launch(ONE, kernel, condition, left)
    definition.instantiate().launch(stream)
    assert read(stream, passed, "I") == [3]


def test_the_graph_of_a_builder(device, stream, add, buffer):
    builder = device.create_graph_builder()
    why = "graph_definition is unavailable "
    begin = "before begin_building() on a primary builder; no graph has been created yet."
    refuse(RuntimeError, why + begin, getattr, builder, "graph_definition")
    builder.begin_building()
    progress = "while capture is in progress; call end_building() first."
    refuse(RuntimeError, why + progress, getattr, builder, "graph_definition")
    fork = builder.split(2)[1]
    forked = "on forked graph builders; access it through the primary builder instead."
    refuse(RuntimeError, why + forked, getattr, fork, "graph_definition")
    GraphBuilder.join(builder, fork)
    buffer.fill(1, stream=builder)
    launch(builder, LaunchConfig(grid=1, block=(1, 2)), add, buffer, 1, 1)
    builder.callback(int)
    definition = builder.end_building().graph_definition
    assert definition == builder.graph_definition
    kinds = {type(node): node for node in definition.nodes()}
    assert set(kinds) == {MemsetNode, KernelNode, HostCallbackNode}
    assert (kinds[KernelNode].block, kinds[KernelNode].kernel) == ((1, 2, 1), add)
    assert (kinds[MemsetNode].dptr, kinds[MemsetNode].value, kinds[HostCallbackNode].callback) == (buffer.handle, 1, None)
    # What was captured does not say all that a change needs.
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", kinds[KernelNode].update, config=ONE)
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", kinds[MemsetNode].update, value=1)
    kinds[KernelNode].update(config=ONE, args=(buffer, 3, 1))
    kinds[HostCallbackNode].memset(buffer.handle + 12, 8, 4)
    executable = builder.complete()
    builder.close()
    assert definition.is_valid and len(definition.nodes()) == 4
    executable.launch(stream)
    assert read(stream, buffer) == [4, *[1] * 11, *[8] * 4]
    refuse(RuntimeError, "GraphBuilder has been closed", getattr, builder, "graph_definition")


def test_bodies_that_are_built_by_hand(device, stream, buffer):
    builder = device.create_graph_builder().begin_building()
    by_hand, captured = builder.if_else(builder.create_condition(1))
    body = by_hand.graph_definition
    filled = body.memset(buffer, 5, 2)
    refuse(RuntimeError, "Cannot resume building after building has ended.", by_hand.begin_building)
    captured.begin_building().end_building()
    assert captured.graph_definition.nodes() == set()
    builder.end_building()
    # Changes would be lost from now on.
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", filled.update, value=6)
    refuse_status("CUDA_ERROR_NOT_SUPPORTED", by_hand.graph_definition.empty)
    (conditional,) = builder.graph_definition.nodes()
    assert isinstance(conditional, IfElseNode) and conditional.condition is None
    builder.complete().launch(stream)
    assert read(stream, buffer)[:3] == [5, 5, 0]
