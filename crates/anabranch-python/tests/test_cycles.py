"""Cycles of objects that the garbage collector frees, and those that it has to leave alone."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anabranch
from anabranch import NodeWork


class Keeper:
    """Keeps objects that keep it."""

    calls = 0
    call: Any
    capture: Any
    work: Any

    def method(self) -> None:
        """A function that keeps its object."""
        self.calls += 1


class ForeignStream(Keeper):
    """A stream of another library."""

    def __init__(self, stream: anabranch.Stream) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return self._stream.__cuda_stream__()


def collected(reference: weakref.ref[Any]) -> bool:
    gc.collect()
    return reference() is None


def test_work_of_a_node_that_no_graph_has(context):
    for made in (
        lambda keeper: NodeWork.host_func(keeper.method),
        lambda keeper: NodeWork.host_func(print, keeper),
        lambda keeper: NodeWork.host_func(print, end=keeper),
    ):
        keeper = Keeper()
        keeper.work = made(keeper)
        reference = weakref.ref(keeper)
        del keeper
        assert collected(reference)


def test_work_that_a_graph_has_is_left_alone(context, stream):
    graph, keeper = context.create_graph(), Keeper()
    keeper.work = NodeWork.host_func(keeper.method)
    graph.add((), keeper.work)
    reference = weakref.ref(keeper)
    del keeper
    # The graph calls the function, whoever else has the work.
    assert not collected(reference)
    graph.instantiate().launch(stream)
    stream.synchronize()
    assert reference().calls == 1


def test_what_a_graph_has_let_go_of(context):
    graph, keeper = context.create_graph(), Keeper()
    keeper.work = NodeWork.host_func(keeper.method)
    graph.add((), keeper.work)
    graph.close()
    reference = weakref.ref(keeper)
    del keeper
    # The library drops functions on a thread of its own.
    anabranch.flush_deferred_drops()
    assert collected(reference)


def test_a_capture_of_a_stream_whose_owner_keeps_it(context):
    owner = ForeignStream(context.create_stream())
    owner.capture = context.stream_from(owner).capture()
    reference = weakref.ref(owner)
    del owner
    assert collected(reference)


def test_a_capture_that_has_ended(context):
    owner = ForeignStream(context.create_stream())
    owner.capture = context.stream_from(owner).capture()
    with owner.capture:
        pass
    assert owner.capture.graph.node_count == 0
    reference = weakref.ref(owner)
    del owner
    assert collected(reference)


def test_a_call_that_somebody_has_found(stream):
    keeper = Keeper()

    def find(found: Keeper) -> None:
        calls = [seen for seen in gc.get_objects() if type(seen).__name__ == "_HostCall"]
        (found.call,) = (call for call in calls if call.arguments == (found,))

    stream.launch_host_func(find, keeper)
    stream.synchronize()
    assert keeper.call.arguments == (keeper,)
    anabranch.flush_deferred_drops()
    reference = weakref.ref(keeper)
    del keeper
    assert collected(reference)


def test_the_owner_of_memory_is_left_alone(context, stream):
    owner = Keeper()
    owner.memory = stream.allocate(4)
    stream.synchronize()
    owner.buffer = context.buffer_from_address(owner.memory.address, 4, owner)
    reference = weakref.ref(owner)
    del owner
    # Work that is pending, or a graph, might use the memory: only the library knows.
    assert not collected(reference)
    reference().buffer.close()
