"""Signals."""

from __future__ import annotations

import pytest

import anabranch
from anabranch import NodeWork


def test_a_stream_waits_for_a_signal(stream, context):
    signal = context.create_signal()
    assert signal.get() == 0
    stream.wait_signal(signal, 1)
    buffer = stream.allocate(1)
    assert not stream.query()
    signal.set(1)
    stream.synchronize()
    stream.write_signal(signal, 1 << 63)
    stream.synchronize()
    assert signal.get() == 1 << 63 and "9223372036854775808" in repr(signal)
    assert stream.download(buffer).tolist() == [0]


def test_conditions(stream, context):
    signal = context.create_signal()
    stream.wait_signal(signal, 2, "equal")
    stream.wait_signal(signal, 3, "and")
    assert not stream.query()
    signal.set(2)
    stream.synchronize()
    with pytest.raises(ValueError, match="nor"):
        stream.wait_signal(signal, 2, "less")  # type: ignore[arg-type]


def test_streams_set_signals_for_each_other(context):
    first, second, signal = context.create_stream(), context.create_stream(), context.create_signal()
    second.wait_signal(signal, 5)
    first.write_signal(signal, 5)
    second.synchronize()


def test_a_host_function_sets_a_signal(context):
    first, second, signal = context.create_stream(), context.create_stream(), context.create_signal()
    second.wait_signal(signal, 1)
    first.launch_host_func(signal.set, 1)
    second.synchronize()


def test_signals_in_graphs(stream, context):
    ready, done = context.create_signal(), context.create_signal()
    graph = context.create_graph()
    waited = graph.add((), NodeWork.wait_signal(ready, 1, "equal"))
    graph.add(waited, NodeWork.write_signal(done, 7))
    executable = graph.instantiate()
    executable.launch(stream)
    assert done.get() == 0
    ready.set(1)
    stream.synchronize()
    assert done.get() == 7


def test_a_closed_signal(stream, context):
    with context.create_signal() as signal:
        stream.write_signal(signal, 3)
    stream.synchronize()
    assert repr(signal) == "<anabranch.Signal (closed)>"
    for wrong in signal.get, lambda: signal.set(1), lambda: stream.wait_signal(signal, 1):
        with pytest.raises(anabranch.AnabranchError, match="closed"):
            wrong()
    with pytest.raises(OverflowError):
        context.create_signal().set(-1)
