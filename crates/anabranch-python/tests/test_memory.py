"""Buffers, copies and fills."""

from __future__ import annotations

import array
import struct

import numpy
import pytest

import anabranch

from conftest import KERNELS

FORMATS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_type_makes_the_round_trip(stream, dtype):
    buffer = stream.upload([1, 2, 100], dtype=dtype)
    assert (buffer.dtype, buffer.shape, len(buffer), buffer.size) == (dtype, (3,), 3, 3)
    assert buffer.itemsize == struct.calcsize(FORMATS[dtype])
    assert buffer.nbytes == 3 * buffer.itemsize
    found = stream.download(buffer)
    assert (found.format, found.tolist()) == (FORMATS[dtype], [1, 2, 100])
    stream.fill(buffer, 7)
    assert stream.download(buffer).tolist() == [7, 7, 7]


@pytest.mark.parametrize(("dtype", "one"), [("float16", 0x3C00), ("bfloat16", 0x3F80)])
def test_floats_of_16_bits(stream, dtype, one):
    buffer = stream.upload([1, 0], dtype=dtype)
    assert (buffer.dtype, buffer.itemsize) == (dtype, 2)
    assert stream.download(buffer).tolist() == [one, 0]
    stream.fill(buffer[1:], 1.0)
    assert stream.download(buffer).tolist() == [one, one]
    assert stream.upload(array.array("H", [one]), dtype=dtype).dtype == dtype


def test_data_of_the_host(stream):
    assert stream.upload(b"abc").dtype == "uint8"
    assert stream.upload(array.array("f", [1.5])).dtype == "float32"
    assert stream.upload(bytearray(8), "float64").shape == (1,)
    assert stream.upload(memoryview(bytes(6)).cast("B", (2, 3))).shape == (2, 3)
    assert stream.download(stream.upload(memoryview(b"abcdef")[::2])).tobytes() == b"ace"


def test_data_that_is_refused(stream):
    with pytest.raises(TypeError, match="no data of the host"):
        stream.upload(object())
    with pytest.raises(TypeError, match="pass dtype"):
        stream.upload([1, 2])
    with pytest.raises(TypeError, match="convert them first"):
        stream.upload(array.array("f", [1]), "float64")
    with pytest.raises(ValueError, match="whole number"):
        stream.upload(bytes(7), "float32")
    with pytest.raises(ValueError, match="no dtype"):
        stream.upload(bytes(7), "complex64")
    with pytest.raises(OverflowError):
        stream.upload([300], "uint8")
    with pytest.raises(TypeError):
        stream.upload(["a"], "uint8")


def test_types_by_other_names(stream):
    assert stream.allocate(1, int).dtype == "int64"
    assert stream.allocate(1, float).dtype == "float64"
    assert stream.allocate(1, "f4").dtype == "float32"
    assert stream.allocate(1, "<i2").dtype == "int16"
    with pytest.raises(ValueError, match="bool"):
        stream.allocate(1, bool)
    with pytest.raises(TypeError):
        stream.allocate(1, 3)


def test_allocations_are_zero(stream):
    buffer = stream.allocate((2, 3), "int32")
    assert buffer.shape == (2, 3)
    assert stream.download(buffer).tolist() == [[0, 0, 0], [0, 0, 0]]
    empty = stream.allocate(0, "int32")
    assert (len(empty), stream.download(empty).tolist()) == (0, [])
    assert stream.allocate((), "int32").size == 1


def test_parts_share_memory(stream):
    buffer = stream.upload(list(range(6)), "int32")
    part = buffer[2:5]
    assert (part.shape, part.id, part.address) == ((3,), buffer.id, buffer.address + 8)
    stream.fill(part, 9)
    assert stream.download(buffer).tolist() == [0, 1, 9, 9, 9, 5]
    assert stream.download(buffer[-1:]).tolist() == [5]
    assert stream.download(part[1:][:1]).tolist() == [9]
    assert len(buffer[6:]) == len(buffer[5:2]) == 0
    buffer.close()
    assert stream.download(part).tolist() == [9, 9, 9]


def test_parts_of_several_dimensions(stream):
    buffer = stream.upload(list(range(6)), "int32").reshape((3, 2))
    assert buffer.shape == (3, 2)
    assert stream.download(buffer[1:]).tolist() == [[2, 3], [4, 5]]
    with pytest.raises(ValueError, match="not that of 6 elements"):
        buffer.reshape(5)


def test_parts_that_are_refused(stream):
    buffer = stream.allocate(6)
    with pytest.raises(TypeError):
        buffer[2]
    with pytest.raises(IndexError):
        buffer[::2]
    with pytest.raises(IndexError):
        stream.allocate(())[:]


def test_copies(stream):
    source, target = stream.upload([1, 2, 3], "int16"), stream.allocate(3, "int16")
    stream.copy(target, source)
    assert stream.download(target).tolist() == [1, 2, 3]
    stream.copy(target[:1], target[2:])
    assert stream.download(target).tolist() == [3, 2, 3]


def test_copies_that_are_refused(stream):
    buffer = stream.allocate(4, "int16")
    with pytest.raises(anabranch.AnabranchError, match="overlap"):
        stream.copy(buffer[1:], buffer[:3])
    with pytest.raises(anabranch.AnabranchError, match="3 elements and the source 4"):
        stream.copy(stream.allocate(3, "int16"), buffer)
    with pytest.raises(TypeError, match="float32"):
        stream.copy(stream.allocate(4, "float32"), buffer)


def test_copies_from_and_to_the_host(stream):
    buffer = stream.allocate(3, "int32")
    stream.copy_from_host(buffer, array.array("i", [4, 5, 6]))
    target = array.array("i", [0, 0, 0])
    stream.copy_to_host(target, buffer)
    assert target.tolist() == [4, 5, 6]
    stream.copy_from_host(buffer[:1], [9])
    assert stream.download(buffer).tolist() == [9, 5, 6]
    stream.copy_to_host(bytearray(), buffer[3:])
    with pytest.raises(ValueError, match="3 elements, and the data 2"):
        stream.copy_from_host(buffer, [1, 2])
    with pytest.raises(ValueError, match="12 bytes"):
        stream.copy_to_host(bytearray(8), buffer)
    with pytest.raises(BufferError):
        stream.copy_to_host(bytes(12), buffer)


def test_uses_in_several_streams_are_ordered(context, gate):
    first, second = context.create_stream(), context.create_stream()
    buffer = first.upload([1, 2], "int32")
    first.synchronize()
    gate.hold(first)
    first.fill(buffer, 5)
    target = second.allocate(2, "int32")
    before = second.orders_inserted
    second.copy(target, buffer)
    assert second.orders_inserted == before + 1
    gate.open()
    assert second.download(target).tolist() == [5, 5]


def test_strict_order_refuses(device, gate):
    context = device.create_context()
    first, second = context.create_stream(), context.create_stream()
    buffer = first.allocate(2)
    gate.hold(first)
    first.fill(buffer, 1)
    context.strict_order = True
    assert context.strict_order
    with pytest.raises(anabranch.AnabranchError) as caught:
        second.fill(buffer, 2)
    assert caught.value.name == "CUDA_ERROR_ILLEGAL_STATE"
    second.wait(first)
    second.fill(buffer, 2)
    gate.open()
    assert second.download(buffer).tolist() == [2, 2]


def test_pinned_memory(context, stream):
    pinned = context.allocate_pinned((2, 2), "float32")
    assert isinstance(pinned, anabranch.PinnedBuffer) and isinstance(pinned, anabranch.Buffer)
    assert (pinned.shape, pinned.dtype, pinned.context) == ((2, 2), "float32", context)
    stream.copy(pinned, stream.upload([1, 2, 3, 4], "float32"))
    assert stream.download(pinned).tolist() == [[1, 2], [3, 4]]
    assert isinstance(pinned[1:], anabranch.PinnedBuffer)
    assert "PinnedBuffer" in repr(pinned)


def test_managed_memory(context, stream, on_host):
    managed = context.allocate_managed((2, 2), "float32")
    assert isinstance(managed, anabranch.ManagedBuffer) and isinstance(managed[1:], anabranch.ManagedBuffer)
    assert "ManagedBuffer" in repr(managed) and not isinstance(managed, anabranch.PinnedBuffer)
    array = numpy.asarray(managed)
    assert array.tolist() == [[0, 0], [0, 0]]
    array[0] = 7
    assert stream.download(managed).tolist() == [[7, 7], [0, 0]]
    stream.fill(managed[1:], 2)
    assert numpy.asarray(managed).tolist() == [[7, 7], [2, 2]]
    with pytest.raises(anabranch.AnabranchError, match="address space"):
        context.allocate_managed((1 << 40, 1 << 40))


def test_fills_that_are_refused(stream):
    buffer = stream.allocate(4)
    with pytest.raises(OverflowError):
        stream.fill(buffer, 256)
    with pytest.raises(TypeError):
        stream.fill(buffer, 1.5)


def test_buffers_are_dropped_while_work_is_pending(stream, gate):
    gate.hold(stream)
    for _ in range(20):
        buffer = stream.allocate(1000)
        stream.fill(buffer, 1)
        del buffer
    gate.open()
    stream.synchronize()


def test_sequences_may_lie_about_their_length(context, stream, module):
    class Liar(list):
        def __len__(self):
            return (1 << 63) - 1

    class Described:
        def __init__(self, **changes):
            interface = {"shape": (2, 3), "typestr": "<f4", "data": (1 << 20, False), "version": 3}
            self.__cuda_array_interface__ = interface | changes

    buffer = stream.allocate(6)
    assert buffer.reshape(Liar([2, 3])).shape == (2, 3)
    assert stream.upload(Liar([1, 2]), "int32").shape == (2,)
    for endless in (range(10**13), range(2**62), Liar([1] * 100_000)):
        for call in (
            buffer.reshape,
            stream.allocate,
            context.allocate_pinned,
            lambda endless: anabranch.LaunchConfig(endless, 1),
            lambda endless: module.kernel("add", parameters=endless),
            lambda endless: stream.fill_pattern(buffer, endless),
            lambda endless: anabranch.NodeWork.fill_pattern(buffer, endless),
            stream.end_capture,
            lambda endless: context.from_cuda_array_interface(Described(shape=endless)),
            lambda endless: context.from_cuda_array_interface(Described(strides=endless)),
        ):
            with pytest.raises((ValueError, TypeError, OverflowError)):
                call(endless)


def test_a_shape_fits_into_the_address_space(stream, on_host):
    for shape in ((2**63, 0), (0, 2**63, 2**63), (0, 2**60, 7), (2**62, 2**62)):
        with pytest.raises(anabranch.OutOfMemoryError, match="address space"):
            stream.allocate(shape, "int64")
        with pytest.raises(ValueError, match="shape"):
            stream.allocate(0, "int64").reshape(shape)
    empty = stream.allocate((0, 2**50, 7), "int64")
    assert (len(empty), empty.shape[1:], len(empty.reshape((2**50, 0)))) == (0, (2**50, 7), 2**50)


def test_shapes_are_sequences(stream):
    assert stream.allocate((2, 3)).shape == stream.allocate([2, 3]).shape == (2, 3)
    for shape in ("23", {2: 3}, {2, 3}, 1.5, None, object()):
        with pytest.raises(TypeError):
            stream.allocate(shape)


def test_refusals_say_what_was_expected(stream):
    buffer = stream.allocate(3, "uint8")
    for call in (lambda: stream.fill(buffer, 300), lambda: stream.upload([300], "uint8")):
        with pytest.raises(OverflowError, match="300 does not fit"):
            call()
    for shape in (-1, (2, -1), 1 << 70):
        with pytest.raises(ValueError, match="extent"):
            stream.allocate(shape)

    with pytest.raises(TypeError):
        stream.upload(object(), "int8")


def test_a_number_that_does_not_fit_is_cut_off(stream):
    with pytest.raises(OverflowError, match=r"^10{39} does not fit in an element of type f32$"):
        anabranch.Scalar(10**400, "float32")


def test_the_order_of_bytes_counts(stream):
    numpy = pytest.importorskip("numpy")
    big = numpy.arange(4, dtype=">f4")
    for call in (
        lambda: stream.upload(big.tobytes(), big.dtype),
        lambda: stream.upload(big.tobytes(), ">f4"),
        lambda: stream.allocate(4, numpy.dtype(">u2")),
        lambda: stream.allocate(4, "<<f4"),
        lambda: stream.allocate(4, "@|f4"),
    ):
        with pytest.raises(ValueError, match="there is no dtype"):
            call()
    for dtype in ("<f4", "=f4", numpy.dtype("<f4"), numpy.dtype("|u1"), numpy.float32):
        stream.allocate(4, dtype)


def test_dates_are_no_bytes(stream):
    numpy = pytest.importorskip("numpy")
    for dates in (numpy.datetime64("2020-01-01"), numpy.timedelta64(3, "s"), numpy.array(["2020-01-01"], "datetime64[D]")):
        with pytest.raises(TypeError):
            stream.upload(dates)
    assert stream.upload(numpy.float16(2)).dtype == "float16"
    assert stream.upload(numpy.bytes_(b"12")).shape == (2,)


def test_a_shape_may_be_any_integer(stream):
    numpy = pytest.importorskip("numpy")
    assert stream.allocate(numpy.int64(3), "int8").shape == (3,)


def test_a_copy_to_the_host_compares_the_types_of_elements(stream):
    numpy = pytest.importorskip("numpy")
    buffer = stream.upload([1, 2, 3], "uint32")
    target = numpy.zeros(3, "float32")
    with pytest.raises(TypeError, match="uint32"):
        stream.copy_to_host(target, buffer)
    raw = bytearray(12)
    stream.copy_to_host(raw, buffer)
    assert raw == numpy.array([1, 2, 3], "uint32").tobytes()


def test_a_list_larger_than_memory_is_an_error(run_python, on_host):
    result = run_python(
        """
import anabranch, resource
stream = anabranch.device("host").context().create_stream()
numbers = [0] * 60_000_000
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
try:
    stream.upload(numbers, "float64")
except MemoryError:
    print("refused")
"""
    )
    assert result.stdout == "refused\n", result.stderr


@pytest.mark.parametrize(
    ("prepare", "extra", "call"),
    [
        ("data = bytes(300 << 20)", 400, "stream.launch(kernel, (1, 1), data, 1, 1)"),
        ("text = 'x' * (60 << 20)", 50, "context.create_stream(name=text)"),
        ("text = ' ' * (300 << 20)", 200, "context.load_module(text)"),
        ("data = bytes(300 << 20)", 200, "context.load_module(data)"),
        ("buffer = stream.allocate(300 << 20); stream.synchronize()", 1000, "stream.download(buffer)"),
        ("buffer = stream.allocate(300 << 20); stream.synchronize()", 1000, "stream.copy_to_host(target, buffer)"),
    ],
)
def test_too_little_memory_is_an_exception(run_python, on_host, prepare, extra, call):
    result = run_python(
        f"""
import anabranch, resource
context = anabranch.device("host").context()
stream = context.create_stream()
kernel = context.load_module(open({str(KERNELS)!r}).read()).kernel("add")
target = bytearray(300 << 20)
{prepare}
# The last of what is allocated is refused first.
for extra in range({extra}, 0, -20):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (extra << 20), resource.RLIM_INFINITY))
    try:
        {call}
    except (MemoryError, ValueError, anabranch.AnabranchError):
        print("refused")
        break
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
"""
    )
    assert (result.stdout, result.stderr) == ("refused\n", "")


def test_managed_memory_is_moved_ahead(device, context, stream):
    memory, other = context.allocate_managed(8, "uint32"), stream.allocate(8, "uint32")
    stream.fill(memory, 7)
    try:
        stream.prefetch(memory, to_host=True)
    except anabranch.AnabranchError as error:
        # A device without concurrent access moves it by itself.
        assert device.backend != "host" and error.name == "CUDA_ERROR_NOT_SUPPORTED"
        return
    stream.prefetch(memory[2:4])
    assert stream.prefetch(buffer=memory, to_host=False) is None
    assert stream.download(memory).tolist() == [7] * 8
    with pytest.raises(anabranch.AnabranchError, match="not managed") as caught:
        stream.prefetch(other)
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(anabranch.AnabranchError):
        device.create_context().create_stream().prefetch(memory)
    memory.close()
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        stream.prefetch(memory)


def test_a_buffer_is_cloned(stream, gate):
    buffer = stream.upload([1, 2, 3, 4], "int16").reshape((2, 2))
    gate.hold(stream)
    clone = stream.clone_buffer(buffer[1:])
    stream.fill(buffer, 9)
    gate.open()
    assert (clone.shape, clone.dtype) == ((1, 2), "int16") and clone.id != buffer.id
    assert stream.download(clone).tolist() == [[3, 4]]
    buffer.close()
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        stream.clone_buffer(buffer)


def test_buffers_of_two_contexts_are_copied(device, stream):
    other = device.create_context().create_stream()
    source, target = other.upload([1, 2, 3], "uint32"), stream.allocate(3, "uint32")
    stream.copy_peer(target[1:], source[:2])
    assert stream.download(target).tolist() == [0, 1, 2]
    other.copy_peer(destination=source, source=target)
    assert other.download(source).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="uint32.*float32"):
        stream.copy_peer(target, other.upload([1, 2, 3], "float32"))
    with pytest.raises(anabranch.AnabranchError) as caught:
        stream.copy_peer(target, source[1:])
    assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"


def test_what_was_dropped_is_freed_on_request(context, on_host):
    assert anabranch.flush_deferred_drops() is None
    assert anabranch.device("host").memory_report() is None


def test_what_is_allocated_is_reported(run_python, on_host):
    program = """
import os, threading
os.environ["ANABRANCH_HOST_CHECK_MEMORY"] = "1"
import anabranch
device = anabranch.device("host")
stream = device.context().create_stream()
buffer, managed = stream.upload([1, 2, 3], "uint32"), device.context().allocate_managed(5)
stream.synchronize()
report = device.memory_report()
assert report["findings"] == [], report
kinds = {found["kind"]: found for found in report["allocations"]}
assert kinds["managed memory"]["bytes"] == 5 and kinds["managed memory"]["stream"] is None
assert kinds["memory of a pool"]["address"] == buffer.address and kinds["memory of a pool"]["stream"] == stream.id
managed.close()
anabranch.flush_deferred_drops()
assert not [left for left in device.memory_report()["allocations"] if left["kind"] == "managed memory"]
# Work of a stream uses what another one has not allocated yet.
held, raw, gate = device.context().create_stream(), device.context().raw, threading.Event()
held.launch_host_func(gate.wait)
address = raw.memory.allocate_async(64, held.handle)
raw.memory.fill_async(address, 0, 64, stream.handle)
try:
    stream.synchronize()
except anabranch.AnabranchError:
    pass
gate.set()
found, = device.memory_report()["findings"]
assert (found["kind"], found["stream"], found["address"]) == ("use before allocation", stream.id, address), found
assert found["bytes"] == 64 and found["message"], found
print("reported")
"""
    result = run_python(program)
    assert result.stdout == "reported\n", result.stderr


class Interrupted(BaseException):
    """What a signal handler raises."""


@pytest.mark.parametrize("where", ["isnative", "name", "str"])
def test_what_is_raised_while_a_type_is_looked_at_is_raised(stream, where):
    class Type:
        @property
        def isnative(self):
            if where == "isnative":
                raise Interrupted
            return where != "str"

        @property
        def name(self):
            if where == "name":
                raise Interrupted
            return "float32"

        def __str__(self):
            raise Interrupted

    with pytest.raises(Interrupted):
        stream.allocate(4, Type())


def test_what_is_raised_while_an_extent_is_looked_at_is_raised():
    class Extent:
        def __index__(self):
            raise Interrupted

    with pytest.raises(Interrupted):
        anabranch.LaunchConfig(Extent(), 1)


@pytest.mark.parametrize("kind", [OverflowError, TypeError, ValueError])
def test_what_the_numbers_of_a_program_raise_is_raised(stream, kind):
    class Number:
        def __index__(self):
            raise kind("mine")

    for call in (
        lambda: anabranch.LaunchConfig(Number(), 1),
        lambda: anabranch.LaunchConfig([Number()], 1),
        lambda: stream.allocate(Number()),
        lambda: stream.allocate([Number(), 2]),
        lambda: stream.upload([Number()], "int32"),
    ):
        with pytest.raises(kind, match="^mine$"):
            call()
