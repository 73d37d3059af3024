"""Memory that is shared with other libraries: DLPack, the array interfaces and the buffer protocol."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading
import weakref

import pytest

import anabranch
from conftest import is_deleted

numpy = pytest.importorskip("numpy")

NUMPY_TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
on_cpython = pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="needs counted references")
has_buffer_protocol = pytest.mark.skipif(sys.version_info < (3, 12), reason="not in the stable ABI of this version")


@pytest.fixture(params=["buffer", "pinned"])
def memory(request, stream, context):
    """Memory that the host can see, of four numbers."""
    if request.param == "pinned":
        return context.allocate_pinned(4, "int32")
    request.getfixturevalue("on_host")
    return stream.allocate(4, "int32")


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_arrays_of_every_type(context, stream, dtype):
    pinned = context.allocate_pinned((2, 3), dtype)
    view = numpy.asarray(pinned)
    assert (view.dtype.name, view.shape) in [(dtype, (2, 3)), ("uint16", (2, 3))]
    view = numpy.from_dlpack(pinned)
    assert (view.dtype.name, view.shape) == (dtype, (2, 3))
    stream.copy(pinned, stream.upload(numpy.arange(6).astype(dtype)).reshape((2, 3)))
    stream.synchronize()
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_array_is_a_view(memory, stream):
    view = numpy.asarray(memory)
    assert view.ctypes.data == memory.address
    view[1] = 7
    assert stream.download(memory).tolist() == [0, 7, 0, 0]
    stream.fill(memory[2:], 5)
    stream.synchronize()
    assert view.tolist() == [0, 7, 5, 5]


@pytest.mark.parametrize("view", [numpy.asarray, numpy.from_dlpack, lambda buffer: buffer.__array_interface__])
def test_a_view_waits_for_pending_work(memory, stream, gate, view):
    stream.synchronize()
    gate.hold(stream)
    stream.fill(memory, 3)
    seen = []
    thread = threading.Thread(target=lambda: seen.append((view(memory), stream.query())))
    thread.start()
    assert not seen
    gate.open()
    thread.join()
    assert seen[0][1] is True
    assert numpy.asarray(memory).tolist() == [3] * 4


def test_views_keep_the_memory(memory, stream, context):
    views = [numpy.asarray(memory), numpy.from_dlpack(memory), numpy.asarray(memory[1:])]
    stream.fill(memory, 6)
    stream.synchronize()
    memory.close()
    del memory
    gc.collect()
    # What is allocated now must not be the same memory.
    others = [stream.allocate(4, "int32") for _ in range(20)] + [context.allocate_pinned(4, "int32") for _ in range(20)]
    stream.synchronize()
    for other in others:
        stream.fill(other, 1)
    stream.synchronize()
    assert [view.tolist() for view in views] == [[6] * 4, [6] * 4, [6] * 3]


def test_a_part_is_shared(memory):
    numpy.asarray(memory)[:] = [1, 2, 3, 4]
    assert numpy.from_dlpack(memory[1:3]).tolist() == [2, 3]
    assert numpy.asarray(memory[1:3]).tolist() == [2, 3]
    assert numpy.asarray(memory[4:]).tolist() == []
    assert numpy.asarray(memory.reshape((2, 2))).tolist() == [[1, 2], [3, 4]]


@has_buffer_protocol
def test_the_buffer_protocol(memory, stream):
    view = memoryview(memory)
    assert (view.format, view.shape, view.readonly) == ("i", (4,), False)
    view[0] = 9
    assert stream.download(memory).tolist() == [9, 0, 0, 0]
    memory.close()
    assert view.tolist() == [9, 0, 0, 0]
    del memory
    gc.collect()
    assert view.tolist() == [9, 0, 0, 0]


@has_buffer_protocol
def test_bytes_of_a_buffer(stream, on_host):
    assert bytes(stream.upload(b"abc")) == b"abc"
    assert memoryview(stream.allocate((2, 0), "int32")).nbytes == 0


def test_devices(memory, device):
    assert memory.__dlpack_device__() in [(1, 0), (3, 0)]
    if device.backend == "host":
        assert memory.__dlpack_device__() == (1, 0)
        assert not hasattr(memory, "__cuda_array_interface__")


def capsule_name(capsule):
    return repr(capsule).split('"')[1]


def test_capsules(memory):
    assert capsule_name(memory.__dlpack__()) == "dltensor"
    assert capsule_name(memory.__dlpack__(max_version=(0, 8))) == "dltensor"
    assert capsule_name(memory.__dlpack__(max_version=(1, 0))) == "dltensor_versioned"
    assert capsule_name(memory.__dlpack__(max_version=(2, 3), copy=False, stream=None)) == "dltensor_versioned"
    with pytest.raises(ValueError, match="stream=None"):
        memory.__dlpack__(stream=7)
    with pytest.raises(BufferError, match="copy"):
        memory.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="another device"):
        memory.__dlpack__(dl_device=(2, 0))
    assert memory.__dlpack__(dl_device=memory.__dlpack_device__()) is not None


def test_capsules_that_nobody_takes_are_dropped(memory):
    for _ in range(1000):
        memory.__dlpack__(max_version=(1, 0))
        memory.__dlpack__()


def test_arrays_of_others(context, stream, on_host):
    array = numpy.arange(6, dtype="int16").reshape(2, 3)
    buffer = context.from_dlpack(array)
    assert (buffer.shape, buffer.dtype, buffer.address) == ((2, 3), "int16", array.ctypes.data)
    stream.fill(buffer[1:], 8)
    stream.synchronize()
    assert array.tolist() == [[0, 1, 2], [8, 8, 8]]
    array[0, 0] = 5
    assert stream.download(buffer).tolist()[0] == [5, 1, 2]


def test_arrays_of_others_are_kept_while_work_is_pending(context, stream, gate, on_host):
    class Tracked(numpy.ndarray):
        pass

    array = numpy.zeros(1000, dtype="int32").view(Tracked)
    reference = weakref.ref(array)
    buffer = context.from_dlpack(array)
    gate.hold(stream)
    stream.fill(buffer, 1)
    del array
    buffer.close()
    gc.collect()
    assert reference() is not None
    gate.open()
    stream.synchronize()
    for _ in range(10_000):
        if reference() is None:
            break
        context.synchronize()
    assert is_deleted(reference)


def of_a_read_only_array(context):
    array = numpy.arange(3, dtype="int32")
    array.flags.writeable = False
    try:
        return context.from_dlpack(array)
    except BufferError:
        pytest.skip("this NumPy does not export arrays that are read-only")


def test_arrays_that_are_read_only(context, stream, on_host):
    buffer = of_a_read_only_array(context)
    assert buffer.is_read_only and buffer[1:].is_read_only
    assert stream.download(buffer).tolist() == [0, 1, 2]
    with pytest.raises(anabranch.AnabranchError, match="read-only"):
        stream.fill(buffer, 1)
    with pytest.raises(BufferError, match="read-only"):
        buffer.__dlpack__()
    assert not numpy.from_dlpack(buffer).flags.writeable
    assert not numpy.asarray(buffer).flags.writeable


@on_cpython
@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_view_keeps_its_memory(context, stream, on_host, is_pinned):
    buffer = context.allocate_pinned(1000, "uint32") if is_pinned else stream.allocate(1000, "uint32")
    stream.fill(buffer, 7)
    views = [buffer._memoryview(), buffer._memoryview().cast("B").cast("I")[10:]]
    if sys.version_info >= (3, 12):
        views += [buffer.__buffer__(0), memoryview(buffer)]
    reference = weakref.ref(buffer)
    del buffer
    gc.collect()
    while views:
        assert reference() is not None
        other = stream.allocate(1000, "uint32")
        stream.fill(other, 8)
        stream.synchronize()
        assert set(views.pop()) == {7}
    gc.collect()
    assert is_deleted(reference)


def test_views_of_what_is_read_only(context, stream, on_host):
    buffer = stream.allocate((2, 3), "int16")
    view = buffer._memoryview()
    assert (view.shape, view.format, view.readonly) == ((2, 3), "h", False)
    buffer = of_a_read_only_array(context)
    assert buffer._memoryview().readonly


def test_buffers_of_one_array_outlive_each_other(context, stream, on_host):
    array = numpy.zeros(10, "uint32")
    first, second, part = context.from_dlpack(array), context.from_dlpack(array), context.from_dlpack(array[2:5])
    stream.fill(second, 3)
    first.close()
    stream.synchronize()
    anabranch.flush_deferred_drops()
    stream.fill(second, 7)
    stream.copy_from_host(second[:2], numpy.array([8, 8], "uint32"))
    assert stream.download(stream.clone_buffer(second)).tolist() == [8, 8] + [7] * 8
    second.close()
    assert stream.download(part).tolist() == [7] * 3
    with pytest.raises(anabranch.AnabranchError, match="before its parts"):
        parts = numpy.zeros(10, "uint32")
        part = context.from_dlpack(parts[2:5])
        context.from_dlpack(parts)
    part.close()
    assert stream.download(context.from_dlpack(parts)).tolist() == [0] * 10


def test_an_array_is_imported_again_and_again(context, on_host):
    array = numpy.zeros(10, "uint32")
    for _ in range(500):
        context.from_dlpack(array).close()


def test_our_own_buffers(context, stream, on_host):
    source = stream.upload([1, 2], "int32")
    again = context.from_dlpack(source)
    assert again.address == source.address
    stream.fill(again, 4)
    assert stream.download(source).tolist() == [4, 4]
    source.close()
    assert stream.download(again).tolist() == [4, 4]
    with pytest.raises(anabranch.AnabranchError, match="overlap"):
        stream.copy(again, context.from_dlpack(again))


class Capsule:
    """An array that answers as it is told."""

    def __init__(self, capsule, device=(1, 0)):
        self._capsule, self._device = capsule, device

    def __dlpack__(self, **_keywords):
        return self._capsule

    def __dlpack_device__(self):
        return self._device


def test_arrays_that_are_refused(context, stream, on_host):
    with pytest.raises(anabranch.AnabranchError, match="apart"):
        context.from_dlpack(numpy.zeros((4, 4), dtype="int32")[:, ::2])
    with pytest.raises(TypeError, match="not supported"):
        context.from_dlpack(numpy.zeros(4, dtype="complex64"))
    with pytest.raises(TypeError, match="no array"):
        context.from_dlpack([1, 2])
    with pytest.raises(TypeError, match="no capsule"):
        context.from_dlpack(Capsule(None))
    used = stream.allocate(4).__dlpack__()
    context.from_dlpack(Capsule(used))
    with pytest.raises(TypeError, match="not used yet"):
        context.from_dlpack(Capsule(used))


def test_old_producers(context, stream, on_host):
    class Old:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, stream=None):
            return self._array.__dlpack__(stream=stream)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    array = numpy.arange(3, dtype="int64")
    assert stream.download(context.from_dlpack(Old(array))).tolist() == [0, 1, 2]


def test_uploads_of_arrays(stream):
    array = numpy.arange(12, dtype="float64").reshape(3, 4)
    buffer = stream.upload(array[:, ::2])
    assert buffer.shape == (3, 2)
    assert numpy.asarray(stream.download(buffer)).tolist() == array[:, ::2].tolist()
    halves = stream.upload(numpy.array([1.5, 2.5], dtype="float16"))
    assert halves.dtype == "float16"
    assert numpy.asarray(stream.download(halves)).view("float16").tolist() == [1.5, 2.5]
    with pytest.raises(TypeError, match="not supported"):
        stream.upload(numpy.zeros(2, dtype="complex64"))
    stream.copy_to_host(array, stream.upload(numpy.ones((3, 4))))
    assert array.sum() == 12


def test_numpy_loses_no_exception(stream, on_host):
    def fail():
        raise KeyError("on purpose")

    buffer = stream.upload([1, 2, 3], "int32")
    for _ in range(2):
        stream.launch_host_func(fail)
        stream.fill(buffer, 7)
        assert numpy.asarray(buffer).tolist() == [7, 7, 7]
        with pytest.raises(anabranch.AnabranchError) as caught:
            stream.synchronize()
        assert isinstance(caught.value.__cause__, KeyError)


def test_numpy_sees_half_precision(stream, on_host):
    buffer = stream.upload([1.0, 2.5], "float16")
    assert numpy.asarray(buffer).dtype == numpy.float16
    assert numpy.asarray(buffer).tolist() == [1.0, 2.5]
    if sys.version_info >= (3, 12):
        with pytest.raises(BufferError, match="float16"):
            memoryview(buffer)


class GivenUp(BaseException):
    """A signal handler has raised it."""


@contextlib.contextmanager
def interrupted():
    """Expects an exception of a signal handler, soon."""

    def raise_it(*_):
        raise GivenUp

    before = signal.signal(signal.SIGALRM, raise_it)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(GivenUp):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@has_buffer_protocol
def test_a_signal_ends_the_wait_for_an_argument(context, module, gate, on_host):
    stream, other = context.create_stream(), context.create_stream()
    buffer = stream.upload([1, 2], "uint8")
    stream.synchronize()
    gate.hold(stream)
    stream.fill(buffer, 1)

    class Viewed:
        def __buffer__(self, flags):
            return memoryview(buffer)

    add = module.kernel("add")
    for call in (
        lambda: other.upload(buffer),
        lambda: other.copy_from_host(other.allocate(2, "uint8"), buffer),
        lambda: other.launch(add, (1, 1), Viewed(), 1, 1),
    ):
        with interrupted():
            call()
    closed = stream.allocate(2)
    closed.close()
    with pytest.raises(anabranch.AnabranchError, match="the buffer is closed"):
        other.upload(closed)
    with pytest.raises(TypeError, match="is no data of the host") as caught:
        other.upload(object())
    assert isinstance(caught.value.__cause__, TypeError)


@has_buffer_protocol
def test_an_exception_that_was_handled_is_neither_kept_nor_raised_again(stream, gate, on_host):
    class Local:
        pass

    def attempt():
        local = Local()
        buffer = stream.upload([1, 2], "uint8")
        stream.synchronize()
        gate.hold(stream)
        stream.fill(buffer, 1)
        with interrupted():
            memoryview(buffer)
        gate.open()
        assert buffer.__array_interface__["shape"] == (2,)
        return weakref.ref(local), weakref.ref(buffer)

    assert all(is_deleted(reference) for reference in attempt())


@has_buffer_protocol
def test_an_exception_of_a_view_does_not_keep_its_frames(stream, gate, on_host):
    class Local:
        pass

    def attempt():
        local = Local()
        buffer = stream.upload([1, 2], "uint8")
        stream.synchronize()
        gate.hold(stream)
        stream.fill(buffer, 1)
        with interrupted():
            memoryview(buffer)
        return weakref.ref(local), weakref.ref(buffer)

    references = attempt()
    assert all(is_deleted(reference, 5) for reference in references)
