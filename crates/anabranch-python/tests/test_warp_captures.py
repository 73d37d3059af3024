"""Captures, graphs and conditions of `anabranch.warp`."""

from __future__ import annotations

import gc
import threading

import pytest
from conftest import KERNELS
from warp_support import wp

import anabranch
from anabranch.warp import _capture

__all__ = ["wp"]


def read(wp, buffer):
    return wp.get_stream().anabranch_stream.download(buffer).tolist()


@pytest.fixture
def add(wp):
    """Adds a number to the first numbers of a buffer: (buffer, number, count)."""
    return wp.get_device().anabranch_context.load_module(KERNELS.read_text()).kernel("add")


@pytest.fixture
def fill(wp):
    """Fills a buffer in the current stream."""
    return lambda buffer, value: wp.get_stream().anabranch_stream.fill(buffer, value)


def numbers(wp, *values):
    buffer = wp.from_numpy(list(values), dtype=int)
    wp.synchronize()
    return buffer


def test_a_capture_does_not_run(wp, fill):
    buffer, device = numbers(wp, 1, 2), wp.get_device()
    with wp.ScopedCapture() as capture:
        assert capture.active and device.is_capturing and wp.get_stream().is_capturing
        assert list(device.captures) == [wp.get_stream()]
        fill(buffer, 5)
    assert not capture.active and not device.is_capturing and not device.captures
    graph = capture.graph
    assert isinstance(graph, wp.Graph) and graph.device is device and graph.capture_id > 0
    assert graph.graph == graph.anabranch_graph.handle and graph.graph_exec is None
    assert read(wp, buffer) == [1, 2]
    wp.capture_launch(graph)
    assert read(wp, buffer) == [5, 5] and graph.graph_exec is not None
    fill(buffer, 0)
    other = wp.Stream()
    other.wait_stream(wp.get_stream())
    wp.capture_launch(graph, stream=other)
    assert other.anabranch_stream.download(buffer).tolist() == [5, 5]


def test_captures_of_functions(wp, fill):
    buffer, stream = numbers(wp, 1), wp.Stream()
    wp.capture_begin(stream=stream, capture_mode=wp.CaptureMode.RELAXED)
    with wp.ScopedStream(stream, sync_enter=False):
        fill(buffer, 2)
    graph = wp.capture_end(stream=stream)
    wp.capture_begin("cuda:0")
    empty = wp.capture_end("cuda:0")
    assert empty.anabranch_graph.node_count == 0
    wp.capture_launch(empty)
    wp.capture_launch(graph, stream)
    assert stream.anabranch_stream.download(buffer).tolist() == [2]


def test_modes(wp):
    assert [(mode.name, int(mode)) for mode in wp.CaptureMode] == [("GLOBAL", 0), ("THREAD_LOCAL", 1), ("RELAXED", 2)]
    for mode in (0, 1, 2, wp.CaptureMode.GLOBAL):
        with wp.ScopedCapture(capture_mode=mode):
            pass
    with pytest.raises(ValueError, match="7 is not a valid CaptureMode"):
        wp.capture_begin(capture_mode=7)
    assert not wp.get_device().is_capturing


def test_other_threads_may_do_what_they_like(wp):
    with wp.ScopedCapture():
        thread = threading.Thread(target=wp.Stream().anabranch_stream.synchronize)
        thread.start()
        thread.join()
    assert wp.get_stream().is_complete


def test_streams_that_join_are_waited_for_at_the_end(wp, fill):
    first, second = numbers(wp, 0), numbers(wp, 0)

    def beside(buffer, value):
        stream = wp.Stream()
        with wp.ScopedStream(stream):
            assert stream.is_capturing
            fill(buffer, value)

    with wp.ScopedCapture() as capture:
        beside(first, 1)
        beside(second, 2)
        gc.collect()
    # They do not depend on each other.
    assert capture.graph.anabranch_graph.node_count == 2
    assert "->" not in capture.graph.anabranch_graph.to_dot()
    wp.capture_launch(capture.graph)
    assert read(wp, first) == [1] and read(wp, second) == [2]


def test_streams_join_by_events(wp, fill):
    buffer, other = numbers(wp, 0), wp.Stream()
    with wp.ScopedCapture() as capture:
        other.wait_event(wp.record_event())
        assert other.is_capturing
        with wp.ScopedStream(other, sync_enter=False):
            fill(buffer, 3)
    assert not other.is_capturing
    wp.capture_launch(capture.graph)
    assert read(wp, buffer) == [3]


def test_two_captures_at_the_same_time(wp, fill):
    first, second = wp.Stream(), wp.Stream()
    buffers = [numbers(wp, 0), numbers(wp, 0)]
    for stream in (first, second):
        wp.capture_begin(stream=stream)
    for stream, buffer, value in zip((first, second), buffers, (1, 2)):
        with wp.ScopedStream(wp.Stream(), sync_enter=False) as third:
            third.wait_stream(stream)
            fill(buffer, value)
    graphs = [wp.capture_end(stream=stream) for stream in (first, second)]
    assert graphs[0].capture_id != graphs[1].capture_id
    for graph in graphs:
        assert graph.anabranch_graph.node_count == 1
        wp.capture_launch(graph)
    assert [read(wp, buffer) for buffer in buffers] == [[1], [2]]


def test_captures_that_are_refused(wp, monkeypatch):
    with pytest.raises(RuntimeError, match="Graph capture is not active on this stream"):
        wp.capture_end()
    with pytest.raises(RuntimeError, match="External capture reported, but the stream is not capturing"):
        wp.capture_begin(external=True)
    with pytest.raises(RuntimeError, match="without apic"):
        wp.capture_begin(apic=True)
    monkeypatch.setattr(wp.config, "verify_cuda", True)
    with pytest.raises(RuntimeError, match="Cannot use CUDA error verification during graph capture"):
        wp.capture_begin()
    monkeypatch.undo()
    with wp.ScopedCapture():
        with pytest.raises(RuntimeError, match="Graph capture already in progress on this stream"):
            wp.capture_begin()
    with pytest.raises(RuntimeError):
        wp.capture_begin(stream=wp.get_device().null_stream)
    assert not wp.get_device().is_capturing


def test_waits_are_refused_during_a_capture(wp):
    stream, event = wp.Stream(), wp.Event()
    with wp.ScopedCapture():
        for call, message in [
            (wp.synchronize, "Cannot synchronize device cuda:0 while graph capture is active"),
            (wp.synchronize_device, "Cannot synchronize device cuda:0 while graph capture is active"),
            (lambda: wp.synchronize_stream(stream), "Cannot synchronize stream while graph capture is active"),
            (lambda: wp.synchronize_event(event), "Cannot synchronize event while graph capture is active"),
            (
                lambda: wp.get_event_elapsed_time(event, event),
                "Cannot synchronize event while graph capture is active",
            ),
        ]:
            with pytest.raises(RuntimeError) as caught:
                call()
            assert str(caught.value) == message
    # The capture was not invalidated.
    wp.synchronize()


def test_a_capture_that_fails(wp):
    with pytest.raises(RuntimeError, match="^CUDA graph capture failed. .*INVALIDATED"):
        with wp.ScopedCapture() as capture:
            with pytest.raises(RuntimeError):
                assert wp.get_stream().is_complete
    assert capture.graph is None and not capture.active
    assert not wp.get_stream().is_capturing
    with pytest.raises(KeyError):
        with wp.ScopedCapture() as capture:
            raise KeyError
    assert capture.graph is not None and not wp.get_device().captures


def test_external_captures(wp, fill):
    buffer, stream = numbers(wp, 0), wp.get_stream()
    with stream.anabranch_stream.capture("thread_local") as theirs:
        with wp.ScopedCapture(external=True) as capture:
            fill(buffer, 4)
        assert stream.is_capturing
    assert capture.graph.graph is None
    with pytest.raises(RuntimeError, match="^Graph creation error: "):
        wp.capture_launch(capture.graph)
    with pytest.raises(RuntimeError, match="^Graph debug dot print error: "):
        wp.capture_debug_dot_print(capture.graph, "nowhere.dot")
    theirs.graph.instantiate().launch(stream.anabranch_stream)
    assert read(wp, buffer) == [4]


def test_graphs_of_other_devices(wp):
    other = wp.map_cuda_device("other", wp.get_device().anabranch_device.create_context())
    with wp.ScopedCapture() as capture:
        pass
    with pytest.raises(RuntimeError) as caught:
        wp.capture_launch(capture.graph, wp.Stream(other))
    assert str(caught.value) == "Cannot launch graph from device cuda:0 on stream from device other"


def test_graphs_within_captures(wp, fill):
    buffer = numbers(wp, 0)
    with wp.ScopedCapture() as inner:
        fill(buffer, 1)
    wp.capture_launch(inner.graph)
    with pytest.raises(RuntimeError, match="^Graph launch error: .*UNSUPPORTED"):
        with wp.ScopedCapture():
            wp.capture_launch(inner.graph)
    assert read(wp, buffer) == [1]


def test_graphs_that_were_not_loaded(wp):
    with wp.ScopedCapture() as capture:
        pass
    graph = capture.graph
    assert not graph.is_loaded and graph.params == {} and not graph.apic
    for name, arguments in [("set_param", ("x", None)), ("get_param", ("x", None)), ("get_param_ptr", ("x",))]:
        with pytest.raises(RuntimeError) as caught:
            getattr(graph, name)(*arguments)
        assert str(caught.value) == f"{name}() is only supported on loaded APIC graphs"


def test_graphs_are_printed(wp, fill, tmp_path):
    buffer = numbers(wp, 0)
    with wp.ScopedCapture() as capture:
        fill(buffer, 1)
    for path in (tmp_path / "path.dot", str(tmp_path / "text.dot")):
        wp.capture_debug_dot_print(capture.graph, path)
        with open(path) as file:
            assert file.read().startswith("digraph")
    with pytest.raises(RuntimeError, match="^Graph debug dot print error: "):
        wp.capture_debug_dot_print(capture.graph, tmp_path / "none" / "there.dot")


def test_events_in_graphs(wp, fill):
    buffer = numbers(wp, 0)
    start, end = wp.Event(enable_timing=True), wp.Event(enable_timing=True)
    with wp.ScopedCapture() as capture:
        wp.record_event(start)
        fill(buffer, 1)
        wp.record_event(end)
    assert capture.graph.anabranch_graph.node_count == 3
    for _ in range(2):
        wp.capture_launch(capture.graph)
        assert wp.get_event_elapsed_time(start, end) >= 0
    assert read(wp, buffer) == [1]


def test_external_waits_in_graphs(wp, gate):
    event, other, stream = wp.Event(), wp.Stream(), wp.get_stream()
    with wp.ScopedCapture() as capture:
        stream.wait_event(event, external=True)
        other.wait_stream(stream, event, external=True)
        assert not other.is_capturing
    # The second wait is an ordinary one, for an event that the graph records.
    assert capture.graph.anabranch_graph.node_count == 2
    # Now, as a driver may wait for a device when it prepares a graph.
    wp.capture_launch(capture.graph)
    wp.synchronize()
    gate.hold(other.anabranch_stream)
    other.record_event(event)
    wp.capture_launch(capture.graph)
    assert not stream.is_complete
    gate.open()
    wp.synchronize()


@pytest.mark.parametrize("captures", [True, False])
@pytest.mark.parametrize("value", [1, 0, -3])
def test_branches(wp, fill, captures, value):
    condition, buffer = numbers(wp, value), numbers(wp, 0)

    def run():
        wp.capture_if(condition, fill, lambda buffer, value: fill(buffer, -value), buffer=buffer, value=7)

    if captures:
        with wp.ScopedCapture() as capture:
            run()
        assert read(wp, buffer) == [0]
        wp.capture_launch(capture.graph)
    else:
        run()
    assert read(wp, buffer) == [7 if value else -7]


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [(1, "on_true", 7), (0, "on_true", 0), (0, "on_false", 7), (1, "on_false", 0)],
)
def test_one_branch(wp, fill, value, name, expected):
    condition, buffer = numbers(wp, value), numbers(wp, 0)
    with wp.ScopedCapture() as capture:
        wp.capture_if(condition, **{name: lambda: fill(buffer, 7)})
    wp.capture_launch(capture.graph)
    assert read(wp, buffer) == [expected]
    fill(buffer, 0)
    wp.capture_if(condition, **{name: lambda: fill(buffer, 7)})
    assert read(wp, buffer) == [expected]
    # Nothing to do, whatever the condition is.
    wp.capture_if("no condition")


def test_loops_with_branches(wp, add):
    remaining, odd, sums = numbers(wp, 5), numbers(wp, 1), numbers(wp, 0, 0)

    def body(step):
        stream = wp.get_stream()
        assert stream.is_capturing and stream.cuda_stream == stream.anabranch_stream.handle
        wp.launch(add, 1, [sums, step, 1])
        wp.capture_if(odd, lambda: wp.launch(add, 1, [sums[1:], 10, 1]))
        wp.launch(add, 1, [remaining, -1, 1])

    stream = wp.get_stream()
    handle = stream.cuda_stream
    with wp.ScopedCapture() as capture:
        wp.capture_while(remaining, body, step=2)
        assert stream.cuda_stream == handle
    wp.capture_launch(capture.graph)
    assert read(wp, sums) == [10, 50] and read(wp, remaining) == [0]


def test_loops_without_a_capture(wp, add):
    remaining, total = numbers(wp, 3), numbers(wp, 0)

    def body():
        wp.launch(add, 1, [total, 1, 1])
        wp.launch(add, 1, [remaining, -1, 1])

    wp.capture_while(remaining, body)
    assert read(wp, total) == [3]
    with wp.ScopedCapture() as capture:
        body()
    wp.launch(add, 1, [remaining, 2, 1])
    wp.capture_while(remaining, capture.graph)
    assert read(wp, total) == [5]
    wp.capture_if(total, capture.graph)
    assert read(wp, total) == [6] and read(wp, remaining) == [-1]


def test_conditions_that_are_refused(wp, fill):
    condition = numbers(wp, 1)
    message = "Condition must be a Warp array of int32 with a single element"
    for wrong in (1, [1], wp.zeros(1), wp.zeros(0, dtype=int)):
        for call in (lambda: wp.capture_if(wrong, print), lambda: wp.capture_while(wrong, print)):
            with pytest.raises(TypeError) as caught:
                call()
            assert str(caught.value) == message
    wp.synchronize()
    for captures in (False, True):
        if captures:
            wp.capture_begin()
        with pytest.raises(TypeError, match="on_true must be a Callable or a Graph"):
            wp.capture_if(condition, 5)
        with pytest.raises(TypeError, match="while_body must be a callable or a graph"):
            wp.capture_while(condition, 5)
    graph = wp.capture_end()
    assert graph.anabranch_graph.node_count == 0

def test_graphs_as_branches(wp, fill, add):
    condition, buffer = numbers(wp, 1), numbers(wp, 0)
    graphs = []
    for value in (5, 6):
        with wp.ScopedCapture() as capture:
            fill(buffer, value)
        graphs.append(capture.graph)
    with wp.ScopedCapture() as capture:
        wp.capture_if(condition, *graphs)
    del graphs[:]
    gc.collect()
    for value, expected in [(1, 5), (0, 6)]:
        fill(condition, value)
        wp.capture_launch(capture.graph)
        assert read(wp, buffer) == [expected]
    with wp.ScopedCapture() as body:
        wp.launch(add, 1, [condition, -1, 1])
        wp.launch(add, 1, [buffer, 10, 1])
    with wp.ScopedCapture() as capture:
        wp.capture_while(condition, body.graph)
    fill(condition, 3)
    wp.capture_launch(capture.graph)
    assert read(wp, buffer) == [36]


def test_graphs_that_cannot_be_branches(wp):
    condition = numbers(wp, 1)
    with wp.ScopedCapture() as conditional:
        wp.capture_if(condition, lambda: None)
    with wp.ScopedCapture() as allocating:
        wp.zeros(3)
    with wp.get_stream().anabranch_stream.capture("thread_local"), wp.ScopedCapture(external=True) as external:
        pass
    for graph, message in [
        (conditional.graph, "NOT_SUPPORTED"),
        (allocating.graph, "NOT_SUPPORTED"),
        (external.graph, "Graph creation error"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            with wp.ScopedCapture():
                wp.capture_if(condition, graph)
        assert not wp.get_stream().is_capturing


def test_bodies_that_raise(wp):
    condition, stream = numbers(wp, 1), wp.get_stream()
    native = stream.anabranch_stream
    with pytest.raises(ZeroDivisionError):
        with wp.ScopedCapture():
            wp.capture_if(condition, lambda: 1 // 0)
    assert stream.anabranch_stream is native and not stream.is_capturing
    with pytest.raises(TypeError):
        wp.capture_while(condition, lambda: None, unknown=1)


def test_old_drivers_have_no_conditions(wp, monkeypatch):
    condition = numbers(wp, 1)
    monkeypatch.setattr(wp.get_device().runtime, "driver_version", (12, 3))
    assert not wp.is_conditional_graph_supported()
    with wp.ScopedCapture():
        with pytest.raises(RuntimeError, match=r"^Conditional graph nodes require CUDA driver 12.4\+$"):
            wp.capture_if(condition, print)


def test_graphs_keep_what_they_use(wp, fill):
    buffer = numbers(wp, 0)
    with wp.ScopedCapture() as capture:
        wp.copy(buffer, wp.full(1, 9, dtype=int))
    gc.collect()
    for _ in range(3):
        fill(buffer, 0)
        wp.capture_launch(capture.graph)
        assert read(wp, buffer) == [9]
    assert isinstance(buffer, anabranch.Buffer)


def test_an_interrupted_beginning_ends_the_capture(wp, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_capture, "Graph", interrupted)
        with pytest.raises(KeyboardInterrupt):
            wp.capture_begin()
    device = wp.get_device()
    assert not device.is_capturing and not device.captures and not device.runtime.captures
    with wp.ScopedCapture():
        pass


def test_an_interrupted_end_ends_the_capture(wp, monkeypatch):
    stream, other = wp.get_stream(), wp.Stream()
    wp.capture_begin()
    other.wait_stream(stream)

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(other), "anabranch_stream", property(lambda self: native if self is stream else interrupted(self)))
        native = stream._native
        with pytest.raises(KeyboardInterrupt):
            wp.capture_end()
    assert not stream.is_capturing and not other.is_capturing
