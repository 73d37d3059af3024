"""The drop-in for cuda.core: devices, contexts, streams and events."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings

import pytest
from cuda_core_support import KERNELS, device, nothing_is_current, stream
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch
from anabranch import cuda_core
from anabranch.cuda_core import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Context,
    CUDAError,
    Device,
    Event,
    EventOptions,
    LaunchConfig,
    ObjectCode,
    Stream,
    StreamOptions,
    _state,
    experimental,
    launch,
)
from anabranch.cuda_core._event import IPCEventDescriptor
from anabranch.cuda_core._stream import Stream_accept, default_stream

assert KERNELS.exists()


def hold(stream, gate):
    gate.hold(stream._open())


class Described:
    def __init__(self, described):
        self.described = described

    def __cuda_stream__(self):
        return self.described


# Devices


def test_devices_are_singletons_of_their_threads():
    first = Device(0)
    assert Device(0) is first and Device(first) is first and Device() == first
    assert first.device_id == int(first) == 0
    assert Device.get_all_devices()[0] is first
    others = []
    thread = threading.Thread(target=lambda: others.append(Device(0)))
    thread.start()
    thread.join()
    assert others[0] is not first and others[0] == first and hash(others[0]) == hash(first)
    assert first != 0 and repr(first) == f"<Device 0 ({first.name})>"
    assert pickle.loads(pickle.dumps(first)) is first


def test_devices_that_do_not_exist():
    count = len(Device.get_all_devices())
    with pytest.raises(ValueError, match=r"^device_id must be >= 0, got -1$"):
        Device(-1)
    with pytest.raises(ValueError, match=rf"^device_id must be within \[0, {count}\), got {count}$"):
        Device(count)
    with pytest.raises(TypeError):
        Device("0")


def test_a_device_that_is_not_initialized():
    device = Device(0)
    for call in (device.create_stream, device.create_event, device.sync, device.create_graph_builder):
        with pytest.raises(CUDAError) as caught:
            call()
        assert str(caught.value) == "Device 0 is not yet initialized, perhaps you forgot to call .set_current() first?"
    with pytest.raises(CUDAError, match="not yet initialized"):
        device.context
    with pytest.raises(CUDAError, match="not yet initialized"):
        device.allocate(4, stream=LEGACY_DEFAULT_STREAM)
    with pytest.raises(CUDAError, match="^CUDA_ERROR_INVALID_CONTEXT: "):
        LEGACY_DEFAULT_STREAM.sync()


def test_a_device_describes_itself(device):
    library = anabranch.default_device()
    assert device.name == library.properties["name"]
    assert device.pci_bus_id == (library.properties["pci_bus_id"] or "")
    assert len(device.uuid) == 36
    capability = device.compute_capability
    assert device.arch == f"{capability.major}{capability.minor}"
    properties = device.properties
    assert properties.max_threads_per_block == library.properties["max_threads_per_block"]
    assert properties.max_block_dim_z >= 1 and properties.max_grid_dim_x >= properties.max_grid_dim_y
    assert (properties.compute_capability_major, properties.compute_capability_minor) == capability
    capabilities = library.properties["capabilities"]
    for name in ("memory_pools_supported", "managed_memory", "cooperative_launch", "cluster_launch", "unified_addressing"):
        assert getattr(properties, name) == (name.removesuffix("_supported") in capabilities)
    flags = [
        *("concurrent_managed_access", "ipc_event_supported", "can_use_64_bit_stream_mem_ops"),
        *("can_use_stream_wait_value_nor", "can_flush_remote_writes", "can_use_host_pointer_for_registered_mem"),
        *("tensor_map_access_supported", "virtual_memory_management_supported"),
    ]
    assert all(isinstance(getattr(properties, name), bool) for name in flags)
    least, greatest = library.stream_priority_range
    assert properties.stream_priorities_supported == (least != greatest)
    address = f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}"
    assert address in (device.pci_bus_id.lower() or "0000:00:00")
    assert properties.warp_size >= 1 and properties.multiprocessor_count >= 1
    assert isinstance(device.can_access_peer(0), bool)
    with pytest.raises(RuntimeError, match="^DeviceProperties cannot be instantiated directly"):
        type(properties)()
    with pytest.raises(ValueError, match="^options with device resources must be provided to create a green context$"):
        device.create_context()


def test_current_contexts(device):
    primary = device.context
    assert device.set_current() is None
    other = Context._of(device._library.create_context(), 0)
    assert device.set_current(other) is primary
    assert device.context is other and device.context != primary
    assert device.set_current(primary) is other
    assert device.set_current() is None
    assert device.context == primary
    with pytest.raises(RuntimeError) as caught:
        device.set_current(Context._of(primary._open(), 7))
    assert str(caught.value) == (
        "the provided context was created on the device with id=7, which is different from the target id=0"
    )
    with pytest.raises(TypeError, match="Expected type Context, but got int"):
        device.set_current(1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=8))
def test_set_current_as_a_model_has_it(calls):
    device = Device(0)
    _state.thread.context = None
    device.set_current()
    contexts = [device.context, *(Context._of(device._library.create_context(), 0) for _ in range(2))]
    current = contexts[0]
    for number in calls:
        if number == 3:
            assert device.set_current() is None
            current = contexts[0]
            assert device.context == current
            contexts[0] = current = device.context
        else:
            assert device.set_current(contexts[number]) is current
            current = contexts[number]
        stream = device.create_stream()
        assert stream.context is current and device.context is current
        assert LEGACY_DEFAULT_STREAM.context is current


def test_contexts(device):
    context = device.context
    assert context.handle and context.is_green is False and not context.is_closed
    assert repr(context) == f"<Context handle={context.handle:#x} device=0>"
    with pytest.raises(RuntimeError, match="^Context objects cannot be instantiated directly"):
        Context()
    with pytest.raises(RuntimeError, match="only supported on green contexts"):
        context.create_stream()
    with pytest.raises(RuntimeError, match="^Cannot close a CUDA context while it is current"):
        context.close()
    other = Context._of(context._open(), 0)
    assert other == context and hash(other) == hash(context)
    stream = device.create_stream()
    other.close()
    other.close()
    assert other.is_closed and other.handle is None
    stream.sync()
    with pytest.raises(RuntimeError, match="^Context has been closed$"):
        other.create_stream()


# Streams


def test_a_device_makes_streams(device):
    stream = device.create_stream()
    assert stream.is_nonblocking and stream.priority == 0
    assert stream.device is device and stream.context is device.context
    assert stream.__cuda_stream__() == (0, stream.handle) and hash(stream) == stream.handle
    assert repr(stream) == f"<Stream handle={stream.handle:#x} context={device.context.handle:#x}>"
    least, greatest = anabranch.default_device().stream_priority_range
    for options in (StreamOptions(nonblocking=False, priority=greatest), {"nonblocking": False, "priority": greatest}):
        blocking = device.create_stream(options=options)
        assert (blocking.is_nonblocking, blocking.priority) == (False, greatest)
    with pytest.raises(ValueError) as caught:
        device.create_stream(options={"priority": least + 1})
    assert str(caught.value) == f"priority={least + 1} is out of range {[greatest, least]}"
    with pytest.raises(TypeError) as caught:
        device.create_stream(options=1)
    assert str(caught.value) == (
        "The Stream options must be provided as an object of type StreamOptions or as a dict with valid Stream options. "
        "The provided object is '1'."
    )
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        device.create_stream(options={"a": 1})


def test_streams_are_not_made_directly():
    with pytest.raises(RuntimeError) as caught:
        Stream()
    assert str(caught.value) == (
        "Stream objects cannot be instantiated directly. Please use Device APIs (create_stream) or other Stream APIs "
        "(from_handle)."
    )
    with pytest.raises(RuntimeError, match=r"^No current CUDA context\. Call dev\.set_current\(\) before"):
        Stream._init()


def test_a_closed_stream(device, stream):
    other = device.create_stream()
    stream.close()
    stream.close()
    assert stream.is_closed and stream.handle == hash(stream) == 0 and stream == stream
    assert repr(stream) == "<Stream handle=0x0 context=0x0>"
    uses = [
        stream.sync,
        stream.record,
        stream.create_graph_builder,
        stream.__cuda_stream__,
        lambda: stream.wait(other),
        lambda: other.wait(stream),
        lambda: stream.is_nonblocking,
        lambda: stream.priority,
        lambda: stream.device,
        lambda: stream.context,
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match="^Stream has been closed$"):
            use()


def test_streams_by_their_handles(device, stream, gate):
    same = Stream.from_handle(stream.handle)
    assert same == stream and hash(same) == hash(stream) and same.context == stream.context
    hold(stream, gate)
    assert not same.record().is_done
    gate.open()
    same.sync()
    same.close()
    assert not stream.is_closed
    stream.sync()
    with pytest.raises(TypeError, match="^an integer is required$"):
        Stream.from_handle("1")
    theirs = anabranch.default_device().context().create_stream()
    foreign = Stream.from_handle(theirs.handle)
    foreign.sync()
    assert foreign.device is device and foreign != stream and foreign != 1


def test_streams_of_others(device):
    theirs = device.context._open().create_stream()
    wrapped = device.create_stream(theirs)
    assert wrapped.handle == theirs.handle and wrapped.context == device.context
    described = Described((0, theirs.handle))
    kept = gc.get_referrers(described)
    same = device.create_stream(described)
    assert same == wrapped and len(gc.get_referrers(described)) > len(kept)
    same.sync()
    same.close()
    wrapped.close()
    assert theirs.query()
    with pytest.raises(ValueError, match="^obj and options cannot be both specified$"):
        device.create_stream(described, StreamOptions())
    with pytest.raises(TypeError) as caught:
        device.create_stream(5)
    assert str(caught.value) == "<class 'int'> object does not have a '__cuda_stream__' attribute"
    for value, message in [
        (1, "obj.__cuda_stream__ must return a sequence with 2 elements, got <class 'int'>"),
        ((0,), "obj.__cuda_stream__ must return a sequence with 2 elements, got 1 elements"),
        ((1, 2), "The first element of the sequence returned by obj.__cuda_stream__ must be 0, got 1"),
    ]:
        with pytest.raises(RuntimeError) as caught:
            device.create_stream(Described(value))
        assert str(caught.value) == message

    class Attribute:
        __cuda_stream__ = (0, theirs.handle)

    with pytest.warns(DeprecationWarning, match="must be implemented as a method"):
        assert device.create_stream(Attribute()).handle == theirs.handle


def test_streams_of_other_modules(device, gate):
    from anabranch import warp

    theirs = warp.Stream(str(warp.get_device()))
    stream = device.create_stream()
    gate.hold(theirs.anabranch_stream)
    stream.wait(theirs)
    event = stream.record()
    assert not event.is_done
    gate.open()
    event.sync()
    wrapped = device.create_stream(theirs)
    assert wrapped.anabranch_stream is theirs.anabranch_stream and wrapped.handle == theirs.cuda_stream
    wrapped.close()
    warp.synchronize_stream(theirs)
    closed = device.context.anabranch_context.create_stream()
    closed.close()
    with pytest.raises(CUDAError, match="^CUDA_ERROR_INVALID_HANDLE: "):
        device.create_stream(closed)


def test_default_streams(device, monkeypatch):
    assert (LEGACY_DEFAULT_STREAM.handle, PER_THREAD_DEFAULT_STREAM.handle) == (1, 2)
    assert LEGACY_DEFAULT_STREAM != PER_THREAD_DEFAULT_STREAM
    assert LEGACY_DEFAULT_STREAM == Stream.from_handle(1)
    assert device.default_stream is LEGACY_DEFAULT_STREAM is default_stream()
    monkeypatch.setenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "1")
    assert device.default_stream is PER_THREAD_DEFAULT_STREAM
    monkeypatch.setenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0")
    assert device.default_stream is LEGACY_DEFAULT_STREAM
    for stream in (LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM):
        assert not stream.is_closed and not stream.is_nonblocking
        assert stream.context is device.context and stream.device is device
        stream.record().sync()
        stream.sync()


def test_the_legacy_stream_is_ordered_with_blocking_streams(device, gate):
    blocking = device.create_stream(options={"nonblocking": False})
    event = device.create_event()
    hold(blocking, gate)
    LEGACY_DEFAULT_STREAM.record(event)
    assert not event.is_done
    gate.open()
    event.sync()


def test_streams_wait(device, gate):
    first, second = device.create_stream(), device.create_stream()
    for target in (lambda: first, lambda: first.record(), lambda: Described((0, first.handle)), lambda: first._open()):
        gate = type(gate)()
        hold(first, gate)
        second.wait(target())
        event = second.record()
        assert not event.is_done
        gate.open()
        event.sync()
    for wrong in (1, None, Described((0,))):
        with pytest.raises(ValueError) as caught:
            second.wait(wrong)
        assert str(caught.value) == (
            f"only an Event, Stream, or object supporting __cuda_stream__ can be waited, got {type(wrong)}"
        )


def test_what_stands_for_a_stream(device, stream):
    builder = stream.create_graph_builder()
    assert Stream_accept(stream) is stream and Stream_accept(builder) is stream
    with pytest.raises(TypeError, match="^stream is required and must not be None; pass device.default_stream"):
        Stream_accept(None)
    with pytest.raises(TypeError, match="^Stream or GraphBuilder expected, got int$"):
        Stream_accept(1)
    with pytest.raises(TypeError, match="^Stream or GraphBuilder expected, got Described$"):
        Stream_accept(Described((0, stream.handle)))
    with pytest.warns(DeprecationWarning, match="via the stream protocol is deprecated"):
        assert Stream_accept(Described((0, stream.handle)), True) == stream


# Events


def test_events(device, stream, gate):
    event = stream.record()
    assert isinstance(event, Event) and not event.is_timing_enabled and not event.is_blocking_sync
    assert event.is_timing_disabled and event.is_sync_busy_waited and not event.is_ipc_enabled
    assert event.device is device and event.context is device.context and event.handle
    assert repr(event) == f"<Event handle={event.handle:#x}>" and hash(event) == event.handle
    assert event == event and event != stream.record() and event != 1
    hold(stream, gate)
    assert stream.record(event) is event
    assert not event.is_done
    gate.open()
    event.sync()
    assert event.is_done and device.create_event().is_done
    with pytest.raises(TypeError, match="^Event expected, got int$"):
        stream.record(1)
    with pytest.raises(RuntimeError) as caught:
        Event()
    assert str(caught.value) == "Event objects cannot be instantiated directly. Please use Stream APIs (record)."
    with pytest.raises(TypeError, match="^The Event options must be provided as an object of type EventOptions"):
        stream.record(options=1)
    event.close()
    event.close()
    assert event.is_closed and event.handle == 0 and repr(event) == "<Event handle=0x0>"
    for use in (event.sync, lambda: event.is_done, lambda: stream.wait(event), lambda: stream.record(event)):
        with pytest.raises(RuntimeError, match="^Event has been closed$"):
            use()


def test_event_options(device, stream):
    event = stream.record(options=EventOptions(timing_enabled=True, blocking_sync=True))
    assert event.is_timing_enabled and event.is_blocking_sync
    assert device.create_event({"timing_enabled": True}).is_timing_enabled
    former = experimental.EventOptions(enable_timing=True, busy_waited_sync=True)
    event = device.create_event(former)
    assert event.is_timing_enabled and event.is_sync_busy_waited
    assert device.create_event(experimental.EventOptions()).is_blocking_sync


def test_time_between_events(device, stream, gate):
    options = EventOptions(timing_enabled=True)
    start, end = stream.record(options=options), stream.record(options=options)
    stream.sync()
    assert end - start >= 0
    with pytest.raises(TypeError):
        end - 1
    with pytest.raises(TypeError):
        1 - end
    with pytest.raises(RuntimeError) as caught:
        device.create_event(options) - start
    assert str(caught.value) == (
        "Both Events must be recorded before they can be subtracted; use Stream.record() to record both events to a stream."
    )
    with pytest.raises(RuntimeError) as caught:
        stream.record() - start
    assert str(caught.value) == (
        "Both Events must be created with timing enabled in order to subtract them; use EventOptions(timing_enabled=True) "
        "when creating both events."
    )
    hold(stream, gate)
    stream.record(end)
    with pytest.raises(RuntimeError) as caught:
        end - start
    assert str(caught.value) == (
        "One or both events have not completed; use Event.sync(), Stream.sync(), or Device.sync() to wait for the events to "
        "complete before subtracting them."
    )
    gate.open()
    device.sync()
    assert end - start >= 0


def test_events_for_other_processes(device, stream):
    with pytest.raises(TypeError, match=r"^IPC-enabled events must be bound; use Stream\.record for creation\.$"):
        device.create_event({"ipc_enabled": True})
    with pytest.raises(TypeError, match=r"^IPC-enabled events cannot use timing\.$"):
        stream.record(options={"ipc_enabled": True, "timing_enabled": True})
    with pytest.raises(RuntimeError, match="^IPCEventDescriptor objects cannot be instantiated directly"):
        IPCEventDescriptor()
    with pytest.raises(ValueError, match="^IPC event descriptor reserved field is 2 bytes; expected at least 64$"):
        Event.from_ipc_descriptor(IPCEventDescriptor._init(b"ab", True))
    with pytest.raises(TypeError, match="^Argument 'ipc_descriptor' has incorrect type"):
        Event.from_ipc_descriptor(5)
    with pytest.raises(RuntimeError, match="^Event is not IPC-enabled$"):
        stream.record().ipc_descriptor
    try:
        event = stream.record(options={"ipc_enabled": True})
    except CUDAError as error:
        assert str(error).startswith("CUDA_ERROR_NOT_SUPPORTED: ")
        return
    assert event.is_ipc_enabled
    descriptor = event.ipc_descriptor
    assert pickle.loads(pickle.dumps(descriptor)) == descriptor == event.ipc_descriptor
    with pytest.raises(TypeError, match="^IPC-enabled events should not be re-recorded"):
        stream.record(event)


def test_errors_have_the_name_of_the_status(device, stream):
    stream._open().begin_capture("global")
    with pytest.raises(CUDAError) as caught:
        stream.sync()
    assert str(caught.value).startswith("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: ")
    assert "(900)" not in str(caught.value)
    cause = caught.value.__cause__
    assert isinstance(cause, anabranch.AnabranchError) and cause.status == 900
    assert not isinstance(caught.value, RuntimeError)
    with pytest.raises(anabranch.AnabranchError):
        stream._open().end_capture()


def test_the_former_names(device, stream):
    from anabranch.cuda_core.experimental import _stream

    assert _stream.Stream is Stream is experimental.Stream and _stream.IsStreamType is cuda_core.typing.IsStreamType
    former = experimental.Device()
    former.set_current()
    assert former == device and isinstance(former, Device)
    buffer = former.allocate(8)
    assert buffer.size == 8
    assert former.create_stream().device == former
    assert former.create_stream().device.create_stream().context is former.context is Device(0).context
    assert former.memory_resource is device.memory_resource
    assert former.create_event({"timing_enabled": True}).is_timing_enabled


def test_threads_have_contexts_of_their_own(device):
    raised = []

    def work():
        try:
            LEGACY_DEFAULT_STREAM.sync()
        except CUDAError as error:
            raised.append(error)
        Device(0).set_current()
        PER_THREAD_DEFAULT_STREAM.record().sync()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert len(raised) == 1 and _state.thread.context is device.context


def test_threads_share_memory(device):
    """The library orders what their streams do with it."""
    add = ObjectCode.from_ptx(str(KERNELS)).get_kernel("add")
    number = device.allocate(4, stream=LEGACY_DEFAULT_STREAM)
    raised = []

    def work():
        try:
            stream = device.create_stream()
            for _ in range(50):
                launch(stream, LaunchConfig(grid=1, block=1), add, number.handle, 1, 1)
            scratch = device.allocate(4, stream=stream)
            number.copy_to(scratch, stream=stream)
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    stream = device.create_stream()
    result = stream.anabranch_stream.download(number.anabranch_buffer).tolist()
    assert (raised, result) == ([], [200 - 256, 0, 0, 0])


def test_default_streams_without_a_context_can_be_printed():
    assert repr(LEGACY_DEFAULT_STREAM) == "<Stream handle=0x1 context=0x0>"
    assert repr(Stream.from_handle(77)) == "<Stream handle=0x4d context=0x0>"


def test_importing_needs_no_other_library(run_python):
    program = """
import sys
import anabranch.cuda_core, anabranch.cuda_core.experimental
assert not {"numpy", "cupy", "torch", "cuda"} & set(sys.modules)
libraries = open("/proc/self/maps").read()
assert "libcuda" not in libraries and "nvrtc" not in libraries
"""
    result = run_python(program)
    assert result.returncode == 0, result.stderr
    assert "anabranch.cuda_core" not in run_python("import sys, anabranch; print(*sys.modules)").stdout


def test_nothing_warns(device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = device.create_stream()
        stream.wait(device.create_stream())
        stream.record().sync()


@pytest.mark.parametrize("change", [copy.copy, copy.deepcopy, pickle.dumps])
def test_streams_and_events_are_not_copied(stream, change):
    for one in stream, stream.record():
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            change(one)
    stream.sync()
