"""Calls of the driver with plain numbers."""

from __future__ import annotations

import ctypes
import sys
import threading

import pytest

import anabranch


@pytest.fixture
def raw(context):
    return context.raw


@pytest.fixture
def number(raw):
    """A stream as a number."""
    stream = raw.streams.create(1)
    yield stream
    raw.streams.synchronize(stream)
    raw.streams.destroy(stream)


def status(call, *arguments, **keywords):
    with pytest.raises(anabranch.AnabranchError) as caught:
        call(*arguments, **keywords)
    return caught.value.status


def test_streams_and_events(raw, number):
    streams, events = raw.streams, raw.events
    opened, called = threading.Event(), []
    # Drivers may wait for pending work while they create streams.
    other, event, later = streams.create(), events.create(), events.create()
    streams.launch_host_func(number, opened.wait)
    streams.launch_host_func(number, called.append, 7)
    events.record(event, number)
    assert streams.query(number) == 600 and events.query(event) == 600
    streams.wait_event(other, event)
    streams.add_callback(other, lambda *arguments: called.append(arguments), "more")
    opened.set()
    streams.synchronize(other)
    events.synchronize(event)
    assert called == [7, (other, 0, "more")]
    assert streams.query(number) == 0 and events.query(event) == 0
    events.record(later, number)
    events.synchronize(later)
    assert events.elapsed(event, later) >= 0
    assert streams.flags(number) == 1 and streams.flags(other) == 0
    assert streams.priority(number) == 0
    assert streams.id(number) != streams.id(other)
    events.destroy(event)
    events.destroy(later)
    streams.destroy(other)


def test_handles_of_other_objects_are_numbers(raw, context):
    stream, event = context.create_stream(), context.create_event()
    raw.events.record(event.handle, stream.handle)
    raw.streams.synchronize(stream.handle)
    assert event.query()


def test_memory(raw, number):
    memory = raw.memory
    free, total = memory.info()
    assert 0 < free <= total
    address, pinned = memory.allocate(64), memory.allocate_pinned(64)
    first, size, _ = memory.range(address + 3)
    assert first == address and size >= 64
    source = (ctypes.c_uint8 * 64).from_address(pinned)
    source[:] = range(64)
    memory.copy_async(1, address, pinned, 64, number)
    memory.fill_async(address + 8, 0xAB, 4, number)
    raw.streams.synchronize(number)
    result = (ctypes.c_uint8 * 64)()
    memory.copy(2, ctypes.addressof(result), address, 64)
    assert bytes(result) == bytes([*range(8), *[0xAB] * 4, *range(12, 64)])
    # Rows of four bytes, eight bytes from each other.
    memory.fill_async(address, 0, 64, number)
    memory.copy_2d_async(3, (address, 16), (memory.pinned_device_pointer(pinned), 8), (4, 3), number)
    raw.streams.synchronize(number)
    memory.copy(2, ctypes.addressof(result), address, 64)
    assert bytes(result)[:36] == bytes([0, 1, 2, 3, *[0] * 12, 8, 9, 10, 11, *[0] * 12, 16, 17, 18, 19])
    memory.free(address)
    memory.free_pinned(pinned)


def test_memory_in_stream_order_and_pools(raw, number, device):
    pools, memory = raw.pools, raw.memory
    pool = pools.create()
    before = pools.attribute(pool, 7)
    address = memory.allocate_async(1000, number, pool)
    assert pools.attribute(pool, 7) >= before + 1000
    memory.free_async(address, number)
    raw.streams.synchronize(number)
    assert pools.attribute(pool, 7) == before
    pools.set_attribute(pool, 4, 4096)
    assert pools.attribute(pool, 4) == 4096
    pools.trim(pool, 0)
    assert status(pools.attribute, pool, 1) == 801
    pools.destroy(pool)
    address = memory.allocate_async(16, number)
    memory.free_async(address, number)
    assert pools.attribute(pools.default(), 8) >= 16
    assert status(pools.destroy, pools.default()) == 1


def test_managed_and_registered_memory(raw, number):
    memory = raw.memory
    managed = memory.allocate_managed(4096)
    memory.prefetch_async(managed, 4096, None, number)
    raw.streams.synchronize(number)
    memory.free(managed)
    block = ctypes.create_string_buffer(3 * 4096)
    address = (ctypes.addressof(block) + 4095) & ~4095
    memory.register(address, 4096)
    memory.unregister(address)
    assert status(memory.unregister, address) == 713


def test_graphs(raw, number):
    streams, graphs = raw.streams, raw.graphs
    called = []
    assert streams.capture_status(number) == 0
    streams.begin_capture(number, 2)
    assert streams.capture_status(number) == 1
    streams.launch_host_func(number, called.append, "run")
    graph = streams.end_capture(number)
    assert graphs.node_count(graph) == 1
    assert "digraph" in graphs.to_dot(graph)
    clone = graphs.clone(graph)
    executable = graphs.instantiate(clone)
    graphs.destroy(graph)
    graphs.destroy(clone)
    graphs.upload(executable, number)
    for _ in range(3):
        graphs.launch(executable, number)
    streams.synchronize(number)
    assert called == ["run"] * 3
    graphs.destroy_executable(executable)
    assert streams.exchange_capture_mode(2) == 0
    assert streams.exchange_capture_mode(0) == 2


def test_what_the_driver_refuses_is_an_error(raw, number):
    assert status(raw.streams.end_capture, number) == 401
    assert status(raw.memory.allocate, 0) == 1
    assert status(raw.events.create, 1 << 30) == 1
    assert status(raw.streams.destroy, 0) in (1, 400)
    assert status(raw.events.open, bytes(64)) != 0
    with pytest.raises(ValueError, match="capture mode 3"):
        raw.streams.begin_capture(number, 3)
    with pytest.raises(ValueError, match="kind of copies 5"):
        raw.memory.copy(5, 0, 0, 0)
    with pytest.raises(OverflowError):
        raw.streams.query(-1)
    with pytest.raises((TypeError, ValueError)):
        raw.events.open(b"short")


@pytest.mark.parametrize("handle", [0, 5, 4095])
def test_numbers_that_are_no_handles(raw, number, handle):
    calls = [
        lambda: raw.events.record(handle, number),
        lambda: raw.events.query(handle) and raw.events.synchronize(handle),
        lambda: raw.events.destroy(handle),
        lambda: raw.streams.wait_event(number, handle),
        lambda: raw.graphs.instantiate(handle),
        lambda: raw.graphs.launch(handle, number),
        lambda: raw.graphs.destroy(handle),
        lambda: raw.graphs.destroy_executable(handle),
        lambda: raw.pools.trim(handle, 0),
        lambda: raw.pools.destroy(handle),
        lambda: raw.memory.allocate_async(8, number, handle),
    ]
    if handle:
        calls += [lambda: raw.streams.synchronize(handle), lambda: raw.events.record(handle, handle)]
    for call in calls:
        # Drivers say different things of the null handle.
        assert status(call) in ((400,) if handle else (1, 400))


def test_what_functions_raise_is_said(raw, number, monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: said.append((hook.exc_type, str(hook.exc_value))))

    def fail(*arguments):
        raise KeyError(arguments[-1])

    raw.streams.launch_host_func(number, fail, "one")
    raw.streams.add_callback(number, fail, "two")
    raw.streams.synchronize(number)
    assert said == [(KeyError, "'one'"), (KeyError, "'two'")]


def test_functions_must_not_call_the_package(raw, number):
    caught = []

    def call():
        try:
            raw.streams.query(number)
        except anabranch.AnabranchError as error:
            caught.append(error.status)

    raw.streams.launch_host_func(number, call)
    raw.streams.synchronize(number)
    assert caught == [800]


def test_the_device(raw, device):
    properties = device.properties
    assert raw.device_attribute(1) == properties["max_threads_per_block"]
    assert (raw.device_attribute(75), raw.device_attribute(76)) == properties["compute_capability"]
    assert raw.device_attribute(100_000) is None
    assert raw.driver_version() >= 12000
    raw.synchronize()


def test_peers(run_python, on_host):
    program = """
import anabranch
one, two = anabranch.device("host:0").context(), anabranch.device("host:1").context()
assert one.raw.can_access_peer(1) in (True, False)
if one.raw.can_access_peer(1):
    one.raw.enable_peer_access(two)
    one.raw.disable_peer_access(two)
here, there = one.raw.memory.allocate(8), two.raw.memory.allocate(8)
one.raw.memory.fill_async(here, 5, 8, 0)
one.raw.memory.copy_peer_async(there, two, here, one, 8, 0)
one.raw.synchronize()
import ctypes
result = (ctypes.c_uint8 * 8)()
two.raw.memory.copy(2, ctypes.addressof(result), there, 8)
print(bytes(result).hex())
"""
    result = run_python("import os; os.environ['ANABRANCH_HOST_DEVICES'] = '2'\n" + program)
    assert (result.returncode, result.stdout) == (0, "05" * 8 + "\n"), result.stderr


def test_everything_is_documented():
    from anabranch import raw

    for name in raw.__all__:
        item = getattr(raw, name)
        assert item.__doc__ and item.__module__ == "anabranch.raw"
        for member, value in vars(item).items():
            if not member.startswith("_") and callable(value):
                assert value.__doc__, f"{name}.{member}"
