"""The drop-in for cuda.core: numbers and options are converted, or refused, as there."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_core_graph_support import definition, refuse
from cuda_core_support import device, nothing_is_current, stream

from anabranch.cuda_core import (
    LEGACY_DEFAULT_STREAM,
    Buffer,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    GraphMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ManagedBuffer,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    ObjectCode,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
    ProgramOptions,
    Stream,
    StreamOptions,
)
from anabranch.cuda_core.experimental import EventOptions as FormerEventOptions

REQUIRED = "an integer is required"
NEGATIVE = "can't convert negative value to size_t"
LARGE = "Python int too large to convert to C unsigned long"


class Indexed:
    def __index__(self):
        return 7


class Number:
    def __int__(self):
        return 7


NO_SIZES: list[tuple[Any, type[Exception], str]] = [
    *((value, TypeError, REQUIRED) for value in ((2, 3), [4], "a", "4", b"4", None, Indexed())),
    (-1, OverflowError, NEGATIVE),
    (-(1 << 70), OverflowError, NEGATIVE),
    (1 << 64, OverflowError, LARGE),
]


@pytest.mark.parametrize(("size", "kind", "message"), NO_SIZES)
def test_sizes_that_are_refused(device, stream, definition, size, kind, message):
    refuse(kind, message, device.allocate, size, stream=stream)
    for resource in (DeviceMemoryResource(device), PinnedMemoryResource(), ManagedMemoryResource(), GraphMemoryResource(device)):
        refuse(kind, message, resource.allocate, size, stream=stream)
        refuse(kind, message, resource.deallocate, 0, size, stream=stream)
        # Before anything is asked of the stream.
        refuse(kind, message, resource.deallocate, 0, size, stream=3)
        refuse(kind, message, resource.allocate, size, stream=3)
    refuse(kind, message, LegacyPinnedMemoryResource().allocate, size)
    for cls in (Buffer, ManagedBuffer):
        refuse(kind, message, cls.from_handle, 4096, size)
        refuse(kind, message, cls.from_handle, None, size, 5)
    refuse(kind, message, Stream.from_handle, size)
    refuse(kind, message, definition.allocate, size)
    buffer = device.allocate(4, stream=stream)
    refuse(kind, message, definition.memcpy, buffer, buffer, size)
    refuse(kind, message, definition.memset, buffer, 1, size)


def test_sizes_are_numbers(device, stream):
    for size in (True, 1.5, 1, Number()):
        expected = int(size)
        for resource in (DeviceMemoryResource(device), PinnedMemoryResource(), ManagedMemoryResource()):
            buffer = resource.allocate(size, stream=stream)
            assert (buffer.size, type(buffer.size)) == (expected, int)
            buffer.fill(1, stream=stream)
        found = Buffer.from_handle(4096, size).size
        assert (found, type(found)) == (expected, int)
    assert Buffer.from_handle(4096, -0.5).size == 0
    stream.sync()


def test_addresses():
    message = "int() argument must be a string, a bytes-like object or a real number, not "
    refuse(TypeError, f"{message}'NoneType'", Buffer.from_handle, None, 16)
    refuse(TypeError, f"{message}'list'", Buffer.from_handle, [], 16)
    refuse(OverflowError, NEGATIVE, Buffer.from_handle, -1, 16)
    refuse(OverflowError, LARGE, Buffer.from_handle, 1 << 64, 16)
    # The other arguments come first.
    refuse(ValueError, "stream requires a memory resource (mr)", Buffer.from_handle, None, 16, stream=LEGACY_DEFAULT_STREAM)
    assert [Buffer.from_handle(pointer, 16).handle for pointer in (0, "12", 5.7, Indexed())] == [0, 12, 5, 7]


def test_addresses_that_are_freed(device, stream):
    for resource in (DeviceMemoryResource(device), PinnedMemoryResource(), ManagedMemoryResource(), GraphMemoryResource(device)):
        for address in (None, "a", "12"):
            refuse(TypeError, REQUIRED, resource.deallocate, address, 1, stream=stream)
        refuse(OverflowError, NEGATIVE, resource.deallocate, -1, 1, stream=stream)
        refuse(TypeError, "Stream or GraphBuilder expected, got int", resource.deallocate, "a", 1, stream=3)


def test_arguments_of_dlpack(device, stream):
    buffer = device.allocate(16, stream=stream)
    wrong = "Argument '{}' has incorrect type (expected {}, got {})"
    for keywords, message in (
        ({"stream": "a"}, wrong.format("stream", "int", "str")),
        ({"stream": "a", "max_version": 5}, wrong.format("stream", "int", "str")),
        ({"stream": "a", "copy": True}, wrong.format("stream", "int", "str")),
        ({"max_version": 5, "dl_device": 5}, wrong.format("max_version", "tuple", "int")),
        ({"dl_device": 5}, wrong.format("dl_device", "tuple", "int")),
        ({"copy": 5}, wrong.format("copy", "bool", "int")),
    ):
        refuse(TypeError, message, buffer.__dlpack__, **keywords)


def test_options_of_events(device):
    message = "Expected bool, got int"
    for cls in (EventOptions, FormerEventOptions):
        refuse(TypeError, message, cls, 1, 2, 3)
        options = cls(None, True, False)
        refuse(TypeError, message, setattr, options, "ipc_enabled", 3)
        options.ipc_enabled = None
        assert options == cls(None, True, None)
        with pytest.raises(AttributeError):
            setattr(options, "whatever", 1)
    refuse(TypeError, message, device.create_event, {"timing_enabled": 1})
    refuse(TypeError, "Expected bool, got str", EventOptions, "x")


def test_options_of_streams(device):
    for given in (True, 1, "a"):
        assert repr(StreamOptions(given)) == "StreamOptions(nonblocking=True, priority=None)"
    for given in (False, 0, None, []):
        assert repr(StreamOptions(given)) == "StreamOptions(nonblocking=False, priority=None)"
    refuse(TypeError, "Expected int, got str", StreamOptions, True, "a")
    refuse(TypeError, "Expected int, got str", device.create_stream, options={"priority": "a"})
    assert [repr(StreamOptions(priority=given).priority) for given in (1.5, True, Indexed())] == ["1", "1", "7"]
    options = StreamOptions()
    options.nonblocking, options.priority = 0, -1.5  # type: ignore[assignment]
    assert repr(options) == "StreamOptions(nonblocking=False, priority=-1)"
    with pytest.raises(AttributeError, match="object has no attribute 'whatever'"):
        setattr(options, "whatever", 1)


def test_options_of_memory_resources():
    assert repr(DeviceMemoryResourceOptions(5, 5.5)) == "DeviceMemoryResourceOptions(ipc_enabled=True, max_size=5)"
    assert repr(PinnedMemoryResourceOptions(None, None, 1.5)) == (
        "PinnedMemoryResourceOptions(ipc_enabled=False, max_size=None, numa_id=1)"
    )
    assert repr(ManagedMemoryResourceOptions(True, 5)) == (
        "ManagedMemoryResourceOptions(preferred_location=1, preferred_location_type=5)"
    )
    message = "Expected int, got str"
    refuse(TypeError, message, DeviceMemoryResourceOptions, 5, "b")
    refuse(TypeError, message, PinnedMemoryResourceOptions, max_size="a")
    refuse(TypeError, message, PinnedMemoryResourceOptions, numa_id="a")
    refuse(TypeError, message, ManagedMemoryResourceOptions, "a")
    for options in (DeviceMemoryResourceOptions(), PinnedMemoryResourceOptions(), ManagedMemoryResourceOptions()):
        with pytest.raises(AttributeError):
            setattr(options, "whatever", 1)


def test_launch_configurations():
    wrong = "Argument 'shmem_size' has incorrect type (expected int, got str)"
    refuse(TypeError, wrong, LaunchConfig, 1, None, 1, "a")
    for given, expected in ((1.5, 1), (True, 1), (Indexed(), 7), (-1, -1), (None, 0)):
        assert repr(LaunchConfig(1, None, 1, given).shmem_size) == repr(expected)
    for size, message in (
        (1 << 31, "value too large to convert to int"),
        (-(1 << 31) - 1, "value too large to convert to int"),
        (1 << 63, "Python int too large to convert to C long"),
    ):
        refuse(OverflowError, message, LaunchConfig, 1, None, 1, size)
        refuse(OverflowError, message, setattr, LaunchConfig(1, None, 1), "shmem_size", size)
    config = LaunchConfig(grid=1, block=1)
    for wrong_size in ("a", None, Indexed()):
        refuse(TypeError, REQUIRED, setattr, config, "shmem_size", wrong_size)
    for name, given, kept in (
        ("shmem_size", 1.5, 1),
        ("is_cooperative", "a", True),
        ("is_cooperative", 0, False),
        ("programmatic_stream_serialization", 5, True),
        ("grid", None, None),
        ("block", None, None),
        ("cluster", None, None),
    ):
        setattr(config, name, given)
        assert repr(getattr(config, name)) == repr(kept)
    refuse(TypeError, "Expected tuple, got list", setattr, config, "grid", [1])
    with pytest.raises(AttributeError, match="object has no attribute 'whatever'"):
        setattr(config, "whatever", 5)


def written(**options):
    architecture, *others = ProgramOptions(arch="sm_90", **options).as_bytes("nvrtc")
    assert architecture == b"-arch=sm_90"
    return [option.decode() for option in others]


def test_macros():
    either = "Union[str, tuple[str, str]]"
    for given, message in (
        ([], f"{either}, list[{either}], got []"),
        ([5], f"{either}, list[{either}], got [5]"),
        (5, f"{either}, list[{either}], got 5"),
        ({"a": 1}, f"{either}, list[{either}], got {{'a': 1}}"),
        ((), "tuple[str, str], got ()"),
        (("A", "1", "2"), "tuple[str, str], got ('A', '1', '2')"),
        ((("A", "1"), "B"), "tuple[str, str], got (('A', '1'), 'B')"),
        ([("A", 5)], "tuple[str, str], got ('A', 5)"),
        (["A", 5], f"{either}, got 5"),
        (["A", ["B", "1"]], f"{either}, got ['B', '1']"),
    ):
        refuse(RuntimeError, f"Expected define_macro {message}", written, define_macro=given)
    assert written(define_macro="A") == ["--define-macro=A"]
    assert written(define_macro=("A", "1")) == ["--define-macro=A=1"]
    assert written(define_macro=["A", ("B", "1")]) == ["--define-macro=A", "--define-macro=B=1"]


def test_options_of_programs():
    for name in ("undefine_macro", "include_path", "pre_include", "ptxas_options", "diag_error", "diag_suppress", "diag_warn"):
        assert written(**{name: 1.5}) == written(**{name: ()}) == []
    assert written(undefine_macro=5) == written(ptxas_options=5) == []
    assert written(diag_warn=5, diag_error=["a", 1]) == ["--diag-error=a", "--diag-error=1", "--diag-warn=5"]
    assert written(undefine_macro=range(2)) == ["--undefine-macro=0", "--undefine-macro=1"]
    assert written(device_code_optimize=False) == [] and written(device_code_optimize=True) == ["--dopt=on"]
    assert written(no_cache=False) == []
    assert written(no_cache=True, minimal=True, fdevice_time_trace="x", device_float128=True) == [
        "--device-float128",
        "--minimal",
        "--no-cache",
        "--fdevice-time-trace=x",
    ]
    refuse(AttributeError, "'int' object has no attribute 'encode'", ProgramOptions, 5)


@pytest.mark.parametrize("kind", ["cubin", "ptx", "fatbin", "ltoir", "object", "library"])
def test_object_code(kind):
    make = getattr(ObjectCode, f"from_{kind}")
    wrong = "Argument '{}' has incorrect type (expected {}, got {})"
    refuse(TypeError, wrong.format("name", "str", "int"), make, 5, name=5)
    refuse(TypeError, wrong.format("name", "str", "NoneType"), make, b"x", name=None)
    refuse(TypeError, wrong.format("symbol_mapping", "dict", "list"), make, b"x", symbol_mapping=[])
    refuse(TypeError, "Expected type str or bytes or bytearray, but got NoneType", make, None)
    assert make(b"x", symbol_mapping=None).symbol_mapping == {}


def test_numbers_of_builders(device):
    builder = device.create_graph_builder().begin_building()
    wrong = "Argument 'count' has incorrect type (expected int, got str)"
    refuse(TypeError, wrong, builder.split, "a")
    refuse(TypeError, wrong, builder.switch, None, "a")
    assert len(builder.split(2.5)) == 2
    builder.close()


def test_hashes_of_what_is_closed(device, stream):
    for make in (device.create_stream, device.create_event):
        first, second = make(), make()
        assert hash(first) == first.handle != hash(second)
        first.close()
        second.close()
        assert hash(first) == hash(second) == 0 and first == second
