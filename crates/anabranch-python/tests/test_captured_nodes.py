"""Nodes that are added to captures of two calls, and memory by its address."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path

import pytest

import anabranch

CONDITIONAL = Path(__file__).parent / "conditional.ptx"


@pytest.fixture
def setters(context):
    try:
        return context.load_module(CONDITIONAL.read_text())
    except anabranch.AnabranchError as error:
        # A GPU links it with a library of the CUDA toolkit.
        pytest.skip(str(error))


def part(context, submit):
    """The graph of what `submit` submits to a stream of its own."""
    stream = context.create_stream()
    stream.begin_capture("relaxed")
    submit(stream)
    return stream.end_capture()


@pytest.mark.parametrize(("value", "expected"), [(1, 111), (0, 101)])
def test_a_kernel_decides_what_runs(context, stream, module, setters, value, expected):
    add, numbers = module.kernel("add"), stream.upload([0], "uint32")
    body = part(context, lambda other: other.launch(add, (1, 1), numbers, 10, 1))
    stream.begin_capture("relaxed")
    stream.launch(add, (1, 1), numbers, 1, 1)
    condition = stream.create_conditional(mode="relaxed")
    stream.launch(setters.kernel("decide"), (1, 1), condition.handle, value)
    node = stream.add_conditional(condition, "if", mode="relaxed")
    assert (node.bodies, stream.capture_status) == (1, "active")
    stream.launch(add, (1, 1), numbers, 100, 1)
    graph = stream.end_capture([(node, 0, body)])
    body.close()
    executable = graph.instantiate()
    executable.launch(stream)
    assert stream.download(numbers).tolist() == [expected]
    executable.launch(stream)
    assert stream.download(numbers).tolist() == [2 * expected]


def test_a_loop_runs_until_a_kernel_ends_it(context, stream, module, setters):
    add, count = module.kernel("add"), stream.upload([0], "uint32")
    left = stream.upload([5], "uint32")
    stream.begin_capture("thread_local")
    condition = stream.create_conditional(1, mode="thread_local")

    def submit(other):
        other.launch(add, (1, 1), count, 1, 1)
        other.launch(setters.kernel("count_down"), (1, 1), condition.handle, left)

    body = part(context, submit)
    node = stream.add_conditional(condition, "while", mode="thread_local")
    stream.end_capture([(node, 0, body)]).instantiate().launch(stream)
    assert stream.download(count).tolist() == [5]


def test_graphs_become_nodes(context, stream, module):
    add, numbers = module.kernel("add"), stream.upload([0], "uint32")
    child = part(context, lambda other: other.launch(add, (1, 1), numbers, 10, 1))
    stream.begin_capture("relaxed")
    stream.add_child(child, mode="relaxed")
    stream.launch(add, (1, 1), numbers, 1, 1)
    graph = stream.end_capture()
    assert graph.node_count == 2
    graph.instantiate().launch(stream)
    assert stream.download(numbers).tolist() == [11]


def test_what_is_refused(context, stream):
    with pytest.raises(anabranch.AnabranchError):
        stream.create_conditional()
    stream.begin_capture("relaxed")
    condition = stream.create_conditional(mode="relaxed")
    with pytest.raises(ValueError, match="no kind"):
        stream.add_conditional(condition, "unless", mode="relaxed")
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.add_conditional(condition, "while", 2, mode="relaxed")
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"
    # The capture goes on.
    assert stream.capture_status == "active"
    node = stream.add_conditional(condition, "switch", 2, mode="relaxed")
    empty = part(context, lambda other: None)
    with pytest.raises(anabranch.AnabranchError):
        stream.end_capture([(node, 2, empty)])
    assert stream.capture_status == "none"


def test_memory_by_its_address(context, stream):
    freed = threading.Event()

    class Owner:
        def __init__(self, memory):
            self.memory = memory

        def __del__(self):
            freed.set()

    ours = stream.upload([1, 2, 3], "uint32")
    same = context.buffer_from_address(ours.address, 12, Owner(ours))
    assert (same.dtype, same.size, same.address) == ("int8", 12, ours.address)
    stream.fill_pattern(same, b"\x07\0\0\0")
    stream.note_use(same)
    stream.synchronize()
    assert stream.download(ours).tolist() == [7, 7, 7]
    assert not freed.is_set()
    same.close()
    stream.synchronize()
    gc.collect()
    # Without the interpreter's lock, an object goes where it was made, when that thread runs.
    until = time.monotonic() + 30
    while not freed.is_set() and time.monotonic() < until:
        time.sleep(0.01)
        gc.collect()
    assert freed.is_set()
    with pytest.raises(anabranch.AnabranchError):
        context.buffer_from_address(8, 4)


def test_patterns(stream):
    buffer = stream.allocate(8)
    for pattern in (b"\x01", b"\x01\x02", b"\x01\x02\x03\x04", b"12345678"):
        stream.fill_pattern(buffer, pattern)
        assert bytes(stream.download(buffer)) == pattern * (8 // len(pattern))
    for pattern in (b"", b"123"):
        with pytest.raises(ValueError, match="pattern"):
            stream.fill_pattern(buffer, pattern)
    with pytest.raises(ValueError, match="pattern"):
        stream.fill_pattern(buffer[:3], b"12")


def test_uses_of_others_come_before_later_ones(context, gate):
    first, second = context.create_stream(), context.create_stream()
    buffer = first.allocate(4)
    first.synchronize()
    gate.hold(first)
    first.note_use(buffer)
    second.fill(buffer, 1)
    assert not second.query()
    gate.open()
    second.synchronize()


def test_memory_of_graphs_is_counted(device, stream):
    stream.begin_capture("relaxed")
    buffer = stream.allocate(1000)
    buffer.close()
    graph = stream.end_capture().instantiate()
    graph.launch(stream)
    stream.synchronize()
    counted = device.graph_memory()
    assert counted["used_bytes_high"] >= counted["used_bytes"] >= 0
    assert counted["reserved_bytes_high"] >= 1000
    graph.close()
    stream.synchronize()
    device.trim_graph_memory()
    device.reset_graph_memory_high()
    device.reset_graph_memory_high(reserved=True)
    counted = device.graph_memory()
    assert counted["used_bytes_high"] == counted["used_bytes"]
    assert counted["reserved_bytes_high"] == counted["reserved_bytes"]


def test_devices_know_more(device, module):
    assert len(device.uuid) == 16
    assert isinstance(device.can_access_peer(device), bool)
    assert device.properties["max_shared_memory_per_block_optin"] >= device.properties["max_shared_memory_per_block"]
    config = anabranch.LaunchConfig(1, 1, programmatic_stream_serialization=True)
    assert config.programmatic_stream_serialization and config != anabranch.LaunchConfig(1, 1)
    kernel = module.kernel("add")
    for ask in (kernel.max_active_clusters, kernel.max_cluster_size):
        try:
            assert ask(anabranch.LaunchConfig(1, 1, cluster=1)) >= 1
        except anabranch.AnabranchError as error:
            assert error.name == "CUDA_ERROR_NOT_SUPPORTED"
