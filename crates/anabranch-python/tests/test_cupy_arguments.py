"""What `anabranch.cupy` says to wrong arguments, and where it takes as much as CuPy."""

from __future__ import annotations

import pickle
import re
import sys
import types

import pytest

from anabranch import cupy
from anabranch.cupy import cuda
from anabranch.cupy.cuda import runtime


def unowned():
    return cuda.UnownedMemory(4096, 16, None, 0)


def place():
    return cuda.MemoryPointer(unowned(), 0)


AN_INTEGER = "an integer is required"
TOO_LARGE = "value too large to convert to int"
NEGATIVE = "can't convert negative value to size_t"


def cases():
    """Calls, and what CuPy 14.2 says to them."""
    return [
        (lambda: runtime.CUDARuntimeError("a"), TypeError, AN_INTEGER),
        (lambda: runtime.CUDARuntimeError(None), TypeError, AN_INTEGER),
        (lambda: runtime.CUDARuntimeError(1 << 40), OverflowError, "value too large to convert to cudaError_t"),
        (lambda: runtime.check_status("a"), TypeError, AN_INTEGER),
        (lambda: runtime.check_status(None), TypeError, AN_INTEGER),
        (lambda: runtime.check_status(1 << 40), OverflowError, TOO_LARGE),
        (lambda: cuda.driver.CUDADriverError("a"), TypeError, AN_INTEGER),
        (lambda: place() + "a", TypeError, AN_INTEGER),
        (lambda: place() + (1 << 70), OverflowError, "Python int too large to convert to C long"),
        (lambda: place() - place(), TypeError, "bad operand type for unary -"),
        (lambda: cuda.UnownedMemory("a", 1, None, 0), TypeError, AN_INTEGER),
        (lambda: cuda.UnownedMemory(4096.5, 1, None, 0), TypeError, AN_INTEGER),
        (lambda: cuda.UnownedMemory(1 << 70, 1, None, 0), OverflowError, "Python int too large to convert to C ssize_t"),
        (lambda: cuda.UnownedMemory(4096, "b", None, 0), TypeError, AN_INTEGER),
        (lambda: cuda.UnownedMemory(4096, -1, None, 0), OverflowError, NEGATIVE),
        (
            lambda: cuda.UnownedMemory(4096, 1 << 70, None, 0),
            OverflowError,
            "Python int too large to convert to C unsigned long",
        ),
        (lambda: cuda.UnownedMemory(4096, 1, None, "a"), TypeError, AN_INTEGER),
        (lambda: cuda.UnownedMemory(4096, 1, None, 1 << 40), OverflowError, TOO_LARGE),
        *((lambda kind=kind: kind("a"), TypeError, AN_INTEGER) for kind in (cuda.Memory, cuda.ManagedMemory, cuda.alloc)),
        *((lambda kind=kind: kind(-1), OverflowError, NEGATIVE) for kind in (cuda.Memory, cuda.alloc_pinned_memory)),
        (lambda: cuda.MemoryAsyncPool().malloc("a"), TypeError, AN_INTEGER),
        (
            lambda: cuda.MemoryPointer(3, 0),
            TypeError,
            "Argument 'mem' has incorrect type (expected cupy.cuda.memory.BaseMemory, got int)",
        ),
        (
            lambda: cuda.MemoryPointer(place(), 0),
            TypeError,
            "Argument 'mem' has incorrect type (expected cupy.cuda.memory.BaseMemory, got cupy.cuda.memory.MemoryPointer)",
        ),
        (lambda: cuda.MemoryPointer(unowned(), None), TypeError, AN_INTEGER),
        *(
            (
                lambda name=name: getattr(place(), name)(3, 0),
                TypeError,
                "Argument 'src' has incorrect type (expected cupy.cuda.memory.MemoryPointer, got int)",
            )
            for name in ("copy_from_device", "copy_from_device_async")
        ),
        (lambda: place().memset("a", 0), TypeError, AN_INTEGER),
        (lambda: place().memset_async(0, "a"), TypeError, AN_INTEGER),
        (lambda: place().copy_from_host("5", 0), TypeError, AN_INTEGER),
        (lambda: cuda.PinnedMemoryPointer(None, 0), AttributeError, "'NoneType' object has no attribute 'ptr'"),
        (lambda: cuda.PinnedMemoryPointer(unowned(), "a"), TypeError, AN_INTEGER),
        (lambda: cuda.Device(1 << 40), OverflowError, TOO_LARGE),
        (lambda: cuda.Device.from_pci_bus_id(3), TypeError, "Expected str, got int"),
        (
            lambda: runtime.deviceGetByPCIBusId(3),
            TypeError,
            "Argument 'pci_bus_id' has incorrect type (expected str, got int)",
        ),
        (lambda: cuda.Stream(non_blocking=True).begin_capture("a"), TypeError, AN_INTEGER),
        (lambda: runtime.streamBeginCapture(4096, "a"), TypeError, AN_INTEGER),
        (lambda: cuda.get_current_stream("a"), TypeError, AN_INTEGER),
        (lambda: cupy.RawModule("c"), TypeError, "__init__() takes"),
    ]


@pytest.mark.parametrize(("call", "error", "text"), cases())
def test_wrong_arguments(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()


def test_fractions_are_cut_off():
    assert (place() + 1.5).ptr == (1.5 + place()).ptr == cuda.MemoryPointer(unowned(), 1.5).ptr == 4097
    assert (place() - 1.5).ptr == 4095
    start = place()
    start += 1.5
    assert start.ptr == 4097
    start -= 1.5
    assert start.ptr == 4096 and type(start.ptr) is int
    assert (cuda.PinnedMemoryPointer(unowned(), 0) + 1.5).ptr == 4097
    assert cuda.UnownedMemory(4096, 16, None, 0.5).device_id == 0
    assert runtime.check_status(0.5) is None


def test_places_are_added():
    both = place() + place()
    assert both.ptr == 8192 and repr(both).startswith("<MemoryPointer 0x2000 device=0 mem=")
    assert (cuda.PinnedMemoryPointer(unowned(), 0) + cuda.PinnedMemoryPointer(unowned(), 0)).ptr == 8192
    assert repr(place() + -5000).startswith("<MemoryPointer 0x-388 ")


def test_memory_of_cupy(monkeypatch):
    original = types.ModuleType("cupy.cuda.memory")
    original.BaseMemory = type("BaseMemory", (), {"ptr": 4096, "size": 16, "device_id": 0})
    monkeypatch.setitem(sys.modules, original.__name__, original)
    assert cuda.MemoryPointer(original.BaseMemory(), 8).ptr == 4104


def test_texts_of_errors():
    assert str(runtime.CUDARuntimeError(0)) == "cudaSuccess: no error"
    start = "Out of memory allocating 5,000 bytes"
    for arguments, text in {
        (-1,): start,
        (-1, 3): f"{start} (allocated so far: -1 bytes, limit set to: 3 bytes).",
        (-7,): f"{start} (allocated so far: -7 bytes).",
        (0,): f"{start} (allocated so far: 0 bytes).",
        (7, -1): f"{start} (allocated so far: 7 bytes, limit set to: -1 bytes).",
    }.items():
        assert str(cuda.memory.OutOfMemoryError(5000, *arguments)) == text


def test_classes_name_the_modules_of_cupy():
    for module, names in {
        cuda.runtime: ("CUDARuntimeError", "MemPoolProps", "PointerAttributes"),
        cuda.driver: ("CUDADriverError",),
        cuda.memory: ("BaseMemory", "MemoryAsyncPool", "MemoryPointer", "OutOfMemoryError"),
    }.items():
        for name in names:
            assert getattr(module, name).__module__ == module.__name__
    error = runtime.CUDARuntimeError(1)
    assert type(pickle.loads(pickle.dumps(error))) is runtime.CUDARuntimeError
    assert pickle.loads(pickle.dumps(place())).ptr == 4096


def test_base_memory():
    memory = cuda.BaseMemory()
    assert (memory.ptr, memory.size, memory.device_id, memory.device) == (0, 0, 0, cuda.Device(0))


def test_a_constructor_that_fails_says_nothing_else(run_python):
    result = run_python(
        """
from anabranch.cupy import cuda
for kind in (cuda.Memory, cuda.MemoryAsync, cuda.ManagedMemory, cuda.PinnedMemory):
    kind.__new__(kind)
"""
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "make", [lambda **given: cupy.RawKernel("c", "n", **given), lambda **given: cupy.RawModule(code="c", **given)]
)
def test_arguments_of_kernels(make):
    with pytest.warns(DeprecationWarning) as caught:
        make(jitify=False)
    assert str(caught[0].message) == (
        "The jitify argument is deprecated and staged for removal in CuPy v15.0. Avoid passing `jitify=False` to silence "
        "this warning."
    )
    assert caught[0].filename == __file__
    assert make(options=None).options is None


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (
            lambda: cupy.RawKernel("c", "n"),
            ("name", "__name__", "code", "options", "backend", "enable_cooperative_groups", "kernel", "other"),
        ),
        (lambda: cupy.RawModule(code="c"), ("code", "options", "enable_cooperative_groups", "other")),
        (lambda: cuda.Device(0), ("other",)),
        (unowned, ("device", "other")),
        (lambda: cuda.Memory(8), ("device", "other")),
        (lambda: cuda.ManagedMemory(8), ("other",)),
        (lambda: cuda.MemoryAsync(8, cuda.Stream.null), ("other",)),
        (place, ("ptr", "mem", "device", "device_id", "other")),
        (lambda: cuda.PinnedMemoryPointer(unowned(), 0), ("mem", "ptr", "other")),
        (cuda.MemoryAsyncPool, ("other",)),
        (cuda.Module, ("mapping", "other")),
        (lambda: cuda.Graph.__new__(cuda.Graph), ("graph", "other")),
        (lambda: runtime.PointerAttributes(1, 2, 3), ("other",)),
    ],
)
def test_attributes_that_cannot_be_set(make, names):
    item = make()
    for name in names:
        with pytest.raises(AttributeError):
            setattr(item, name, 1)
