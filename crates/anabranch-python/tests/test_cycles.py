"""Cycles of objects that the garbage collector frees, and those that it has to leave alone."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anabranch
from anabranch import NodeWork
from conftest import is_deleted


class Keeper:
    """Keeps objects that keep it."""

    calls = 0
    call: Any
    ours: Any
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
        assert is_deleted(reference)


def test_work_that_a_graph_has_is_left_alone(context, stream):
    graph, keeper = context.create_graph(), Keeper()
    keeper.work = NodeWork.host_func(keeper.method)
    graph.add((), keeper.work)
    reference = weakref.ref(keeper)
    del keeper
    # The graph calls the function, whoever else has the work.
    assert not is_deleted(reference, seconds=0)
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
    assert is_deleted(reference)


def test_the_owner_of_a_foreign_stream_is_left_alone(context, stream):
    memory = stream.allocate(100)
    for _ in range(300):
        owner = ForeignStream(context.create_stream())
        owner.ours = context.stream_from(owner)
        owner.ours.fill(memory, 1)
    ours, reference = owner.ours, weakref.ref(owner)
    del owner
    # The owner would be cleared, and its stream end, while ours uses it.
    gc.collect()
    assert reference() is not None
    ours.synchronize()
    ours.close()
    del ours
    assert is_deleted(reference)


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
    assert is_deleted(reference)


def test_the_owner_of_memory_is_left_alone(context, stream):
    owner = Keeper()
    owner.memory = stream.allocate(4)
    stream.synchronize()
    owner.buffer = context.buffer_from_address(owner.memory.address, 4, owner)
    reference = weakref.ref(owner)
    del owner
    # Work that is pending, or a graph, might use the memory: only the library knows.
    assert not is_deleted(reference, seconds=0)
    reference().buffer.close()
