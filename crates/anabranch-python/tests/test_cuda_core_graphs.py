"""The drop-in for cuda.core: graphs."""

from __future__ import annotations

import ctypes
import gc

import pytest
from cuda_core_support import CONDITIONAL, KERNELS, device, nothing_is_current, stream
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.cuda_core import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    CUDAError,
    Device,
    LaunchConfig,
    ObjectCode,
    _state,
    launch,
)
from anabranch.cuda_core.graph import (
    Graph,
    GraphBuilder,
    GraphCompleteOptions,
    GraphCondition,
    GraphDebugPrintOptions,
)

ONE = LaunchConfig(grid=1, block=1)


@pytest.fixture
def add(device):
    return ObjectCode.from_ptx(str(KERNELS)).get_kernel("add")


@pytest.fixture
def setters(device):
    code = ObjectCode.from_ptx(str(CONDITIONAL))
    try:
        code.get_kernel("decide")
    except CUDAError as error:
        # A GPU links it with a library of the CUDA toolkit.
        pytest.skip(str(error))
    return code


@pytest.fixture
def number(device, stream):
    """A number of four bytes, which is zero."""
    number = device.allocate(4, stream=stream)
    stream.sync()
    return number


def read(stream, buffer):
    return int.from_bytes(bytes(memoryview(stream._open().download(buffer._inner)).cast("B")), "little")


def refuse(kind, message, call, *arguments, **keywords):
    with pytest.raises(kind) as caught:
        call(*arguments, **keywords)
    assert (type(caught.value), str(caught.value)) == (kind, message)


def test_a_graph_is_built_and_launched(device, stream, add, number):
    builder = device.create_graph_builder()
    assert not builder.is_building and not builder.is_join_required and not builder.is_closed
    assert builder.begin_building() is builder and builder.is_building
    for value in (1, 10):
        launch(builder, ONE, add, number, value, 1)
    assert builder.end_building() is builder and not builder.is_building
    graph = builder.complete()
    assert isinstance(graph, Graph) and graph.handle and not graph.is_closed
    builder.close()
    graph.upload(stream)
    for _ in range(3):
        graph.launch(stream)
    assert read(stream, number) == 33
    graph.close()
    graph.close()
    assert graph.is_closed and graph.handle == 0
    refuse(RuntimeError, "Graph has been closed", graph.launch, stream)


def test_a_graph_keeps_what_it_uses(device, stream, add):
    number, result = device.allocate(4, stream=stream), device.allocate(4, stream=stream)
    builder = device.create_graph_builder().begin_building("thread_local")
    launch(builder, ONE, add, number, 4, 1)
    number.copy_to(result, stream=builder)
    graph = builder.end_building().complete({"use_node_priority": True, "upload_stream": stream})
    number.close()
    del number, builder, add
    gc.collect()
    graph.launch(stream)
    graph.launch(stream)
    assert read(stream, result) == 8


def test_a_stream_makes_builders(device, stream, add, number):
    builder = stream.create_graph_builder()
    assert builder.stream is stream and builder.__cuda_stream__() == stream.__cuda_stream__()
    builder.begin_building("global")
    launch(stream, ONE, add, number, 1, 1)
    builder.end_building().complete().launch(stream)
    assert read(stream, number) == 1
    with pytest.raises(CUDAError, match="^CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: "):
        LEGACY_DEFAULT_STREAM.create_graph_builder().begin_building()


def test_the_states_of_a_builder(device, stream):
    refuse(
        NotImplementedError,
        "directly creating a GraphBuilder object can be ambiguous. Please either call Device.create_graph_builder() or "
        "stream.create_graph_builder()",
        GraphBuilder,
    )
    refuse(RuntimeError, "directly constructing a Graph instance is not supported", Graph)
    builder = stream.create_graph_builder()
    refuse(RuntimeError, "Graph builder is not building.", builder.end_building)
    refuse(RuntimeError, "Graph has not finished building.", builder.complete)
    refuse(RuntimeError, "Graph has not finished building.", builder.debug_dot_print, "unused")
    refuse(ValueError, "Invalid split count: expecting >= 2, got 1", builder.split, 1)
    refuse(RuntimeError, "Graph builder must be building before it can be split.", builder.split, 2)
    refuse(RuntimeError, "Cannot add callback when graph is not being built", builder.callback, print)
    refuse(RuntimeError, "Cannot create a condition when graph is not being built", builder.create_condition)
    refuse(ValueError, "Unsupported build mode: local", builder.begin_building, "local")
    refuse(ValueError, "Unsupported build mode: None", builder.begin_building, None)
    refuse(TypeError, "Argument 'mode' has incorrect type (expected str, got int)", builder.begin_building, 1)
    builder.begin_building()
    refuse(RuntimeError, "Graph builder is already building.", builder.begin_building)
    refuse(RuntimeError, "Graph has not finished building.", builder.complete)
    builder.end_building()
    refuse(RuntimeError, "Cannot resume building after building has ended.", builder.begin_building)
    refuse(RuntimeError, "Graph builder is not building.", builder.end_building)
    with pytest.raises(TypeError, match="^The Graph complete options must be provided as an object of type"):
        builder.complete(1)
    with pytest.raises(CUDAError, match="^CUDA_ERROR_NOT_SUPPORTED: "):
        builder.complete(GraphCompleteOptions(device_launch=True))
    builder.close()
    builder.close()
    assert builder.is_closed and not builder.is_join_required
    for call in (builder.begin_building, builder.end_building, builder.complete, builder.__cuda_stream__):
        refuse(RuntimeError, "GraphBuilder has been closed", call)
    for name in ("is_building", "stream"):
        refuse(RuntimeError, "GraphBuilder has been closed", getattr, builder, name)


CALLS = ["begin", "end", "complete", "split", "join", "callback", "invalidate", "close"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(CALLS), max_size=12))
def test_builders_as_a_model_has_them(calls):
    """A builder is new, building, invalidated, ended or closed, and each call says whether it fits."""
    device = Device()
    device.set_current()
    stream = device.create_stream()
    builder = stream.create_graph_builder()
    state, called, callbacks, forks = "new", [], 0, []
    graph = None

    def expect(kind, call, *arguments):
        if kind is None:
            return call(*arguments)
        with pytest.raises(kind):
            call(*arguments)
        return None

    for call in calls:
        if state == "closed" and call != "close":
            expect(RuntimeError, {"begin": builder.begin_building, "end": builder.end_building}.get(call, builder.complete))
        elif call == "begin":
            expect(RuntimeError if state in ("building", "invalidated", "ended") else None, builder.begin_building)
            state = "building" if state == "new" else state
        elif call == "end":
            kinds = {"building": CUDAError if forks else None, "invalidated": CUDAError}
            expect(kinds.get(state, RuntimeError), builder.end_building)
            if state == "building" and not forks:
                state = "ended"
            elif state in ("building", "invalidated"):
                # Nothing has come of it, and it may begin anew.
                state, callbacks = "new", 0
                builder, forks = stream.create_graph_builder(), []
        elif call == "complete":
            graph = expect(None if state == "ended" else RuntimeError, builder.complete) or graph
        elif call == "split":
            parts = expect(None if state == "building" else RuntimeError, builder.split, 2)
            for fork in parts[1:] if parts else ():
                # One without work of its own need not be joined.
                fork.callback(int)
                forks.append(fork)
        elif call == "join" and forks and state == "building":
            assert GraphBuilder.join(builder, *forks) is builder
            forks = []
        elif call == "callback":
            expect(None if state == "building" else RuntimeError, builder.callback, lambda: called.append(1))
            callbacks += state == "building"
        elif call == "invalidate" and state == "building":
            expect(CUDAError, stream.sync)
            state = "invalidated"
        elif call == "close":
            builder.close()
            state = "closed"
        if state == "invalidated":
            expect(RuntimeError, lambda: builder.is_building)
        elif state != "closed":
            assert builder.is_building == (state == "building")
        assert builder.is_closed == (state == "closed")
    for fork in forks:
        fork.close()
    builder.close()
    stream.sync()
    if graph is not None:
        graph.launch(stream)
        stream.sync()
        assert len(called) == callbacks


def test_calls_that_cannot_be_captured(device, stream):
    builder = stream.create_graph_builder().begin_building("thread_local")
    with pytest.raises(CUDAError, match="^CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: "):
        stream.sync()
    refuse(
        RuntimeError,
        "Build process encountered an error and has been invalidated. Build process must now be ended.",
        getattr,
        builder,
        "is_building",
    )
    with pytest.raises(CUDAError, match="^CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: "):
        builder.end_building()
    assert not builder.is_building
    refuse(RuntimeError, "Graph has not finished building.", builder.complete)
    stream.sync()


def test_a_builder_that_is_dropped_ends_its_capture(device, stream):
    builder = stream.create_graph_builder().begin_building()
    builder.close()
    assert not stream._open().is_capturing
    builder = stream.create_graph_builder().begin_building()
    del builder
    assert not stream._open().is_capturing
    # Also if it comes to nothing.
    builder = stream.create_graph_builder().begin_building()
    with pytest.raises(CUDAError):
        stream.sync()
    builder.close()
    builder = stream.create_graph_builder().begin_building()
    fork = builder.split(2)[1]
    builder.close()
    assert not stream._open().is_capturing
    fork.close()
    # One that has not begun has nothing to end.
    builder = stream.create_graph_builder().begin_building()
    stream.create_graph_builder().close()
    assert builder.is_building
    builder.end_building()


def test_a_builder_ends_no_capture_but_its_own(device, stream):
    ended = stream.create_graph_builder().begin_building().end_building()
    failed = stream.create_graph_builder().begin_building()
    fork = failed.split(2)[1]
    fork.callback(int)
    with pytest.raises(CUDAError):
        failed.end_building()
    builder = stream.create_graph_builder().begin_building()
    ended.close()
    failed.close()
    assert builder.is_building
    builder.end_building().complete().launch(stream)
    stream.sync()


def test_builders_split_and_join(device, stream, add):
    numbers = [device.allocate(4, stream=stream) for _ in range(3)]
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, add, numbers[0], 1, 1)
    parts = builder.split(3)
    assert parts[0] is builder and [part.is_join_required for part in parts] == [False, True, True]
    for part, number in zip(parts, numbers, strict=True):
        assert part.is_building
        launch(part, ONE, add, number, 10, 1)
    assert GraphBuilder.join(parts[2], builder, parts[1]) is builder
    assert parts[1].is_closed and parts[2].is_closed
    for number in numbers:
        launch(builder, ONE, add, number, 100, 1)
    builder.end_building().complete().launch(stream)
    assert [read(stream, number) for number in numbers] == [111, 110, 110]


def test_builders_that_are_not_joined(device, add, number):
    builder = device.create_graph_builder().begin_building()
    _, fork = builder.split(2)
    launch(fork, ONE, add, number, 1, 1)
    refuse(
        RuntimeError,
        "A condition can be added when all split graph builders are joined",
        builder.create_condition,
    )
    with pytest.raises(CUDAError, match="^CUDA_ERROR_STREAM_CAPTURE_UNJOINED: "):
        builder.end_building()
    refuse(TypeError, "All arguments must be GraphBuilder instances", GraphBuilder.join, 1, builder)
    refuse(ValueError, "Must join with at least two graph builders", GraphBuilder.join)
    refuse(ValueError, "Must join with at least two graph builders", GraphBuilder.join, builder)


def test_a_builder_forgets_a_capture_that_has_failed(device, stream):
    builder = stream.create_graph_builder().begin_building()
    body = builder.if_then(builder.create_condition(1)).begin_building()
    body.end_building()
    _, fork = builder.split(2)
    fork.callback(int)
    with pytest.raises(CUDAError, match="UNJOINED"):
        builder.end_building()
    called = []
    builder.begin_building()
    builder.if_then(builder.create_condition(1)).begin_building().end_building()
    builder.callback(lambda: called.append(None))
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    assert called == [None]


def test_a_builder_ends_no_capture_of_another_one(device, stream):
    first, second, third = (stream.create_graph_builder() for _ in range(3))
    first.begin_building()
    second.end_building()
    third.begin_building()
    first.close()
    assert third.is_building
    third.end_building()
    assert third.complete() is not None


def test_the_stream_of_a_builder_outlasts_it(device, stream):
    builder = device.create_graph_builder()
    ours = device.create_stream(builder)
    inner = device.anabranch_device.context().stream_from(builder)
    builder.close()
    del builder
    gc.collect()
    for _ in range(100):
        device.create_stream().close()
    ours.sync()
    inner.synchronize()
    parts = stream.create_graph_builder().begin_building().split(2)
    ours = device.create_stream(parts[1])
    parts[0].join(*parts).end_building()
    ours.sync()


def test_forks_of_forks(device, stream, add):
    numbers = [device.allocate(4, stream=stream) for _ in range(3)]
    builder = device.create_graph_builder().begin_building()
    _, first = builder.split(2)
    _, second = first.split(2)
    for part, number in zip((builder, first, second), numbers, strict=True):
        launch(part, ONE, add, number, 1, 1)
    assert GraphBuilder.join(first, second) is first
    assert GraphBuilder.join(builder, first) is builder
    assert builder._capture.forks == 0
    builder.end_building().complete().launch(stream)
    assert [read(stream, number) for number in numbers] == [1, 1, 1]


def test_callbacks(device, stream):
    called = []
    builder = device.create_graph_builder().begin_building()
    builder.callback(lambda: called.append("python"))

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def with_address(address):
        called.append(address)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def with_bytes(address):
        called.append(ctypes.string_at(address, 3))

    builder.callback(with_address, user_data=77)
    data = bytearray(b"abc")
    builder.callback(with_bytes, user_data=data)
    data[:] = b"xyz"
    refuse(TypeError, "callback must be callable, got int", builder.callback, 1)
    refuse(
        ValueError, "user_data is only supported with ctypes function pointers", builder.callback, print, user_data=1
    )
    with pytest.raises(TypeError, match=r"^host callback has prototype restype=<class 'ctypes.c_(int|long)'>"):
        builder.callback(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda address: 0))
    graph = builder.end_building().complete()
    for _ in range(2):
        graph.launch(stream)
    stream.sync()
    assert called == ["python", 77, b"abc"] * 2


def test_callbacks_that_raise(device, stream):
    builder = device.create_graph_builder().begin_building()
    builder.callback(lambda: [][0])
    graph = builder.end_building().complete()
    graph.launch(stream)
    with pytest.raises(CUDAError) as caught:
        stream.sync()
    assert isinstance(caught.value.__cause__.__cause__, IndexError)


def test_graphs_are_updated(device, stream, add, number):
    def build(value, times=1):
        builder = device.create_graph_builder().begin_building()
        for _ in range(times):
            launch(builder, ONE, add, number, value, 1)
        return builder.end_building()

    graph = build(1).complete()
    graph.launch(stream)
    graph.update(build(10))
    graph.launch(stream)
    assert read(stream, number) == 11
    with pytest.raises(CUDAError, match="^Graph update failed: CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: "):
        graph.update(build(1, times=2))
    refuse(TypeError, "expected GraphBuilder or GraphDefinition, got int", graph.update, 1)
    refuse(ValueError, "Graph has not finished building.", graph.update, device.create_graph_builder())


def test_graphs_are_printed(device, add, number, tmp_path):
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, add, number, 1, 1)
    builder.end_building()
    for options in (None, GraphDebugPrintOptions(verbose=True)):
        builder.debug_dot_print(str(tmp_path / "graph.dot"), options)
        assert "digraph" in (tmp_path / "graph.dot").read_text()


def test_graphs_are_embedded(device, stream, add, number):
    child = device.create_graph_builder().begin_building()
    launch(child, ONE, add, number, 10, 1)
    parent = device.create_graph_builder()
    refuse(ValueError, "Child graph has not finished building.", parent.embed, child)
    child.end_building()
    refuse(ValueError, "Parent graph is not being built.", parent.embed, child)
    with pytest.raises(TypeError, match="^Argument 'child' has incorrect type .*GraphBuilder, got int"):
        parent.embed(1)
    parent.begin_building()
    launch(parent, ONE, add, number, 1, 1)
    parent.embed(child)
    parent.embed(child)
    launch(parent, ONE, add, number, 100, 1)
    child.close()
    parent.end_building().complete().launch(stream)
    assert read(stream, number) == 121


@pytest.mark.parametrize(("value", "expected"), [(1, 111), (0, 101)])
def test_conditions(device, stream, add, setters, number, value, expected):
    builder = device.create_graph_builder().begin_building()
    launch(builder, ONE, add, number, 1, 1)
    condition = builder.create_condition()
    assert isinstance(condition, GraphCondition) and repr(condition) == f"<GraphCondition handle={condition.handle:#x}>"
    assert condition == condition and hash(condition) == hash(condition.handle) and condition != 1
    launch(builder, ONE, setters.get_kernel("decide"), condition, value)
    body = builder.if_then(condition)
    assert not body.is_building and not body.is_join_required
    body.begin_building()
    launch(body, ONE, add, number, 10, 1)
    body.end_building()
    launch(builder, ONE, add, number, 100, 1)
    graph = builder.end_building().complete()
    graph.launch(stream)
    assert read(stream, number) == expected
    graph.launch(stream)
    assert read(stream, number) == 2 * expected


@pytest.mark.parametrize("behind", ["split", "split before", "closed"])
def test_what_ends_before_its_builder_loses_no_body(device, stream, add, number, behind):
    builder = device.create_graph_builder().begin_building()
    parts = builder.split(2) if behind == "split before" else None
    if parts:
        builder = GraphBuilder.join(*parts)
    body = builder.if_then(builder.create_condition(1)).begin_building()
    launch(body, ONE, add, number, 10, 1)
    body.end_building()
    if behind == "split":
        parts = builder.split(2)
        builder = GraphBuilder.join(*parts)
    elif behind == "closed":
        body.close()
    del parts, body
    builder.end_building().complete().launch(stream)
    assert read(stream, number) == 10


@pytest.mark.parametrize(("value", "expected"), [(1, 10), (0, 20)])
def test_alternatives(device, stream, add, number, value, expected):
    builder = device.create_graph_builder().begin_building()
    try:
        condition = builder.create_condition(default_value=value)
        bodies = builder.if_else(condition)
    except CUDAError as error:
        assert str(error).startswith("CUDA_ERROR_NOT_SUPPORTED: ")
        pytest.skip(str(error))
    for body, amount in zip(bodies, (10, 20), strict=True):
        body.begin_building()
        launch(body, ONE, add, number, amount, 1)
        body.end_building()
    builder.end_building().complete().launch(stream)
    assert read(stream, number) == expected


def test_choices(device, stream, add, setters, number):
    choice = device.allocate(4, stream=stream)
    builder = device.create_graph_builder().begin_building()
    condition = builder.create_condition(2)
    cases = builder.switch(condition, 3)
    for case, amount in zip(cases[1:], (20, 30), strict=True):
        case.begin_building()
        launch(case, ONE, add, number, amount, 1)
        case.end_building()
    # The first case stays empty.
    builder.end_building().complete().launch(stream)
    assert read(stream, number) == 30
    choice.close()


def test_loops(device, stream, add, setters, number):
    left = device.allocate(4, stream=stream)
    left.fill(b"\x05\0\0\0", stream=stream)
    builder = device.create_graph_builder().begin_building()
    condition = builder.create_condition(default_value=1)
    body = builder.while_loop(condition).begin_building()
    launch(body, ONE, add, number, 1, 1)
    launch(body, ONE, setters.get_kernel("count_down"), condition, left)
    body.end_building()
    builder.end_building().complete().launch(stream)
    assert read(stream, number) == 5


def test_conditions_that_are_refused(device, stream, number, add):
    refuse(
        RuntimeError,
        "GraphCondition objects cannot be instantiated directly. Please use GraphBuilder.create_condition().",
        GraphCondition,
    )
    builder = device.create_graph_builder().begin_building()
    for call in (builder.if_then, builder.if_else, builder.while_loop, lambda wrong: builder.switch(wrong, 2)):
        with pytest.raises(TypeError, match="^Argument 'condition' has incorrect type .*GraphCondition, got int"):
            call(1)
    condition = builder.create_condition(1)
    body = builder.if_then(condition).begin_building()
    refuse(RuntimeError, "A condition cannot be added to the body of a condition", body.create_condition)
    refuse(
        RuntimeError,
        "The graph builder of a condition's body has not finished building.",
        builder.end_building,
    )
    body.end_building()
    builder.end_building()
    refuse(RuntimeError, "Cannot add conditional node when not actively capturing", builder.if_then, condition)
    # One of another graph.
    another = device.create_graph_builder().begin_building()
    with pytest.raises(CUDAError):
        another.if_then(condition)
    another.close()


def test_memory_is_ordered_between_parts_of_a_capture(device, stream, add, setters, number):
    """A condition ends a part of the capture. What comes after it comes behind what came before."""
    builder = device.create_graph_builder().begin_building()
    number.fill(1, stream=builder)
    condition = builder.create_condition(1)
    body = builder.if_then(condition).begin_building()
    launch(body, ONE, add, number, 1, 1)
    body.end_building()
    launch(builder, ONE, add, number, 1, 1)
    builder.end_building().complete().launch(stream)
    assert read(stream, number) == 0x01010103


def test_the_former_names_of_conditions(device, stream, add, setters, number):
    child = device.create_graph_builder().begin_building()
    launch(child, ONE, add, number, 10, 1)
    child.end_building()
    builder = device.create_graph_builder().begin_building()
    handle = builder.create_conditional_handle()
    assert int(handle) == handle.handle
    launch(builder, ONE, setters.get_kernel("decide"), handle, 1)
    body = builder.if_cond(handle).begin_building()
    launch(body, ONE, add, number, 1, 1)
    body.end_building()
    builder.add_child(child)
    builder.end_building().complete().launch(stream)
    assert read(stream, number) == 11


def test_builders_of_the_default_stream_of_a_thread(device, add, number, stream):
    builder = PER_THREAD_DEFAULT_STREAM.create_graph_builder().begin_building()
    launch(PER_THREAD_DEFAULT_STREAM, ONE, add, number, 1, 1)
    builder.end_building().complete().launch(PER_THREAD_DEFAULT_STREAM)
    assert read(stream, number) == 1


def test_nothing_crashes_at_exit(run_python):
    program = """
import gc
from anabranch.cuda_core import *
device = Device()
device.set_current()
stream = device.create_stream()
buffer = device.allocate(8, stream=stream)
mine = Buffer.from_handle(buffer.handle, 4, owner=stream)
builder = stream.create_graph_builder().begin_building()
event = device.create_event()
done = device.create_graph_builder().begin_building()
done.callback(print)
graph = done.end_building().complete()
graph.launch(PER_THREAD_DEFAULT_STREAM)
PER_THREAD_DEFAULT_STREAM.sync()
cycle = [buffer, builder, graph]
cycle.append(cycle)
"""
    result = run_python(program)
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")
