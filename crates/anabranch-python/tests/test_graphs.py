"""Captures and graphs."""

from __future__ import annotations

import gc
import json

import pytest

import anabranch


def test_a_capture_does_not_run(stream):
    buffer = stream.upload([1, 2], "int32")
    with stream.capture() as capture:
        assert stream.is_capturing and capture.stream is stream
        stream.fill(buffer, 5)
    assert not stream.is_capturing
    assert stream.download(buffer).tolist() == [1, 2]
    executable = capture.graph.instantiate()
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [5, 5]
    assert executable.context == capture.graph.context == stream.context


def test_a_graph_is_launched_many_times(stream, module):
    numbers, add = stream.upload([0], "uint32"), module.kernel("add")
    with stream.capture("thread_local") as capture:
        stream.launch(add, (1, 1), numbers, 1, 1)
        stream.launch(add, (1, 1), numbers, 10, 1)
    assert capture.graph.node_count == 2
    executable = capture.graph.instantiate(upload=stream)
    # The graph retains what its nodes use.
    module.close()
    capture.graph.close()
    gc.collect()
    for _ in range(5):
        executable.launch(stream)
    assert stream.download(numbers).tolist() == [55]


def test_other_streams_join(context):
    first, second = context.create_stream(), context.create_stream()
    buffers = [first.allocate(2) for _ in range(3)]
    first.synchronize()
    with first.capture() as capture:
        first.fill(buffers[0], 1)
        second.wait(first)
        second.fill(buffers[1], 2)
        first.fill(buffers[2], 3)
        first.wait(second)
    assert not second.is_capturing
    described = json.loads(capture.graph.to_json())
    assert capture.graph.node_count == len(described["nodes"]) == 3
    assert "digraph" in capture.graph.to_dot()
    assert capture.graph.to_mermaid()
    capture.graph.instantiate().launch(first)
    assert [first.download(buffer).tolist() for buffer in buffers] == [[1, 1], [2, 2], [3, 3]]


def test_an_exception_ends_the_capture(stream):
    buffer = stream.allocate(2)
    with pytest.raises(KeyError):
        with stream.capture() as capture:
            stream.fill(buffer, 1)
            raise KeyError("mine")
    assert not stream.is_capturing
    with pytest.raises(RuntimeError, match="has ended"):
        capture.graph
    stream.fill(buffer, 2)
    assert stream.download(buffer).tolist() == [2, 2]


def test_an_exception_comes_before_that_of_a_closed_stream(context):
    stream = context.create_stream()
    with pytest.raises(KeyError):
        with stream.capture():
            stream.close()
            raise KeyError("mine")
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        with context.create_stream().capture() as capture:
            capture.stream.close()


def test_calls_that_cannot_be_captured(stream):
    with pytest.raises(anabranch.AnabranchError) as caught:
        with stream.capture():
            stream.synchronize()
    assert caught.value.name == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
    assert not stream.is_capturing
    with pytest.raises(ValueError, match="no mode"):
        stream.capture("local")
    with pytest.raises(anabranch.AnabranchError) as caught:
        with stream.capture():
            with stream.capture():
                pass
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_STATE"


def test_a_stream_that_was_not_joined(context):
    first, second = context.create_stream(), context.create_stream()
    buffer = second.allocate(2)
    second.synchronize()
    with pytest.raises(anabranch.AnabranchError) as caught:
        with first.capture():
            second.wait(first)
            second.fill(buffer, 1)
    assert caught.value.name == "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
    assert not second.is_capturing
    second.synchronize()


def test_graphs_are_cloned_and_updated(stream):
    buffer = stream.allocate(2)
    graphs = []
    for value in (1, 2):
        with stream.capture() as capture:
            stream.fill(buffer, value)
        graphs.append(capture.graph)
    executable = graphs[0].instantiate()
    copy = graphs[0].clone()
    assert copy != graphs[0] and len({copy, graphs[0], graphs[0]}) == 2
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [1, 1]
    executable.update(graphs[1])
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [2, 2]
    copy.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [1, 1]
    with stream.capture() as capture:
        pass
    with pytest.raises(anabranch.AnabranchError) as caught:
        executable.update(capture.graph)
    assert caught.value.name == "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"
    executable.close()
    with pytest.raises(anabranch.AnabranchError, match="executable graph is closed"):
        executable.launch(stream)


@pytest.mark.parametrize(("condition", "expected"), [(1, [7, 7]), (0, [9, 9])])
def test_conditions(stream, condition, expected):
    value, buffer = stream.upload([condition], "uint32"), stream.allocate(2)
    stream.synchronize()
    with stream.capture() as capture:
        capture.if_(
            value,
            lambda body: body.stream.fill(buffer, 7),
            lambda body: body.stream.fill(buffer, 9),
        )
    capture.graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == expected


def test_a_condition_alone(stream):
    value, buffer = stream.upload([0], "uint32"), stream.allocate(2)
    stream.synchronize()
    with stream.capture() as capture:
        capture.if_(value, lambda body: body.stream.fill(buffer, 7))
    executable = capture.graph.instantiate()
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [0, 0]
    stream.fill(value, 1)
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [7, 7]


def test_loops(stream, module):
    add = module.kernel("add")
    remaining, count = stream.upload([5], "uint32"), stream.upload([0], "uint32")
    stream.synchronize()

    def body(part):
        part.stream.launch(add, (1, 1), count, 1, 1)
        part.stream.launch(add, (1, 1), remaining, -1, 1)

    with stream.capture() as capture:
        capture.while_(remaining, body)
    capture.graph.instantiate().launch(stream)
    assert stream.download(count).tolist() == [5]


def test_signed_conditions(stream):
    value, buffer = stream.upload([-1], "int32"), stream.allocate(1)
    stream.synchronize()
    with stream.capture() as capture:
        capture.if_(value, lambda body: body.stream.fill(buffer, 7))
    capture.graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [7]


def test_streams_know_their_capture(context):
    first, second = context.create_stream(), context.create_stream()
    assert first.capture_id is None
    with first.capture("thread_local"):
        second.wait(first)
        assert isinstance(first.capture_id, int)
        assert first.capture_id == second.capture_id
        first.wait(second)
        with context.create_stream().capture("thread_local") as other:
            assert other.stream.capture_id != first.capture_id
    assert first.capture_id is second.capture_id is None


def test_external_records_and_waits(context):
    first, second = context.create_stream(), context.create_stream()
    buffer, event = first.allocate(1), context.create_event()
    first.synchronize()
    with first.capture() as capture:
        first.fill(buffer, 1)
        assert first.record(event, external=True) is event
    executable = capture.graph.instantiate()
    with second.capture() as capture:
        second.wait(event, external=True)
    assert not first.is_capturing and capture.graph.node_count == 1
    executable.launch(first)
    capture.graph.instantiate().launch(second)
    second.synchronize()
    assert event.query()
    # Outside of a capture, they are ordinary.
    first.wait(second.record(event, external=True), external=True)
    with pytest.raises(TypeError, match="external wait is for an event"):
        first.wait(second, external=True)
    with pytest.raises(TypeError, match="external record is of an event"):
        first.record(external=True)


def test_graphs_within_graphs(stream):
    value, buffer = stream.upload([1], "uint32"), stream.allocate(2)
    stream.synchronize()
    with stream.capture() as capture:
        stream.fill(buffer, 7)
    child = capture.graph
    with pytest.raises(anabranch.AnabranchError, match="does not capture"):
        stream.capture().child(child)
    with stream.capture() as capture:
        capture.child(child)
        capture.if_(value, lambda body: body.child(child))
    assert capture.graph.node_count >= 2
    executable = capture.graph.instantiate()
    with pytest.raises(anabranch.AnabranchError) as caught:
        with stream.capture() as failing:
            failing.child(capture.graph)
    assert caught.value.name == "CUDA_ERROR_NOT_SUPPORTED" and not stream.is_capturing
    with pytest.raises(RuntimeError):
        failing.graph
    child.close()
    executable.launch(stream)
    assert stream.download(buffer).tolist() == [7, 7]


def test_choices(stream):
    value, buffer = stream.upload([2], "uint32"), stream.allocate(1)
    stream.synchronize()
    with stream.capture() as capture:
        capture.switch(value, [lambda body, n=n: body.stream.fill(buffer, n) for n in (10, 11, 12)])
    executable = capture.graph.instantiate()
    for choice, expected in [(2, 12), (0, 10), (3, 10)]:
        stream.fill(value, choice)
        executable.launch(stream)
        assert stream.download(buffer).tolist() == [expected]


def test_conditions_within_conditions(stream):
    value, buffer = stream.upload([1], "uint32"), stream.allocate(2)
    stream.synchronize()
    with stream.capture() as capture:
        capture.if_(value, lambda outer: outer.if_(value, lambda inner: inner.stream.fill(buffer, 3)))
    capture.graph.instantiate().launch(stream)
    assert stream.download(buffer).tolist() == [3, 3]


def test_bodies_that_raise(stream):
    value = stream.upload([1], "uint32")
    stream.synchronize()
    kept = []

    def body(part):
        kept.append(part.stream)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        with stream.capture() as capture:
            capture.if_(value, body)
    assert not stream.is_capturing
    # The stream of a body ends with it.
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        kept[0].query()
    stream.synchronize()


def test_conditions_that_are_refused(stream):
    value = stream.upload([1], "uint32")
    capture = stream.capture()
    with pytest.raises(anabranch.AnabranchError) as caught:
        capture.if_(value, print)
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_STATE"
    with pytest.raises(TypeError, match="uint32"):
        capture.if_(stream.allocate(1, "float32"), print)
    with pytest.raises(RuntimeError):
        capture.graph


def test_the_stream_of_a_body_does_not_outlive_it(context, stream):
    condition = stream.upload([1], "uint32")
    kept = []

    def body(capture):
        with pytest.raises(anabranch.AnabranchError) as caught:
            kept.append(context.stream_from(capture.stream))
        assert caught.value.name == "CUDA_ERROR_NOT_PERMITTED"
        capture.stream.fill(condition, 0)

    with stream.capture() as capture:
        capture.if_(condition, body)
    assert kept == []
