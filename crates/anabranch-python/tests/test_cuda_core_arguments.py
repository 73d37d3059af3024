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


def test_hashes_of_what_is_closed(device, stream):
    for make in (device.create_stream, device.create_event):
        first, second = make(), make()
        assert hash(first) == first.handle != hash(second)
        first.close()
        second.close()
        assert hash(first) == hash(second) == 0 and first == second
