"""Memory of other libraries that is described by `__cuda_array_interface__`."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from conftest import DEVICE

import anabranch

on_gpu = pytest.mark.skipif(not DEVICE.startswith("cuda"), reason="needs an NVIDIA GPU")


class Array:
    """An array of another library, which keeps what its memory is of."""

    def __init__(self, memory: object = None, **changes: Any) -> None:
        interface: dict[str, Any] = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (1 << 20, False),
            "strides": None,
            "version": 3,
        }
        if memory is not None:
            interface |= memory.__cuda_array_interface__  # type: ignore[attr-defined]
        self.memory = memory
        self.__cuda_array_interface__ = interface | changes


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"version": 1}, BufferError, "version 1"),
        ({"mask": object()}, BufferError, "mask"),
        ({"typestr": ">f4"}, TypeError, ">f4"),
        ({"typestr": "<c8"}, TypeError, "<c8"),
        ({"strides": (4, 8)}, BufferError, "row-major"),
        ({"strides": (12,)}, BufferError, "row-major"),
        ({"strides": (-12, 4)}, BufferError, "row-major"),
        ({"stream": 0}, ValueError, "stream 0"),
        ({"shape": (-1,)}, OverflowError, "negative"),
        ({"data": 5}, TypeError, "tuple"),
    ],
)
def test_arrays_that_are_refused(context, changes, error, message):
    with pytest.raises(error, match=message):
        context.from_cuda_array_interface(Array(**changes))


def test_objects_that_are_no_arrays(context):
    with pytest.raises(TypeError, match="__cuda_array_interface__"):
        context.from_cuda_array_interface([1.0])
    array = Array()
    del array.__cuda_array_interface__["data"]
    with pytest.raises(ValueError, match="'data'"):
        context.from_cuda_array_interface(array)
    array.__cuda_array_interface__ = 3
    with pytest.raises(TypeError):
        context.from_cuda_array_interface(array)


def test_the_software_device_has_no_memory_of_a_gpu(context, on_host):
    with pytest.raises(anabranch.AnabranchError, match="NVIDIA GPU") as raised:
        context.from_cuda_array_interface(Array(strides=(12, 4)))
    assert raised.value.name == "CUDA_ERROR_INVALID_DEVICE"


@on_gpu
def test_arrays_share_their_memory(context):
    producer, stream = context.create_stream(), context.create_stream()
    memory = producer.upload([1, 2, 3, 4, 5, 6], "float32").reshape((2, 3))
    array = Array(memory, stream=producer.handle)
    kept = weakref.ref(array)
    for given in (None, stream):
        buffer = context.from_cuda_array_interface(array, stream=given)
        assert (buffer.dtype, buffer.shape, buffer.address) == ("float32", (2, 3), memory.address)
        stream.fill(buffer, 7)
        assert stream.download(memory).tolist() == [[7] * 3] * 2
    del array
    gc.collect()
    assert kept() is not None
    buffer.close()
    stream.synchronize()


@on_gpu
def test_memory_that_is_read_only(context, stream):
    memory = stream.upload([1, 2], "int32")
    address, _ = memory.__cuda_array_interface__["data"]
    buffer = context.from_cuda_array_interface(Array(memory, data=(address, True)))
    assert stream.download(buffer).tolist() == [1, 2]
    with pytest.raises(anabranch.AnabranchError, match="read-only"):
        stream.fill(buffer, 3)


@on_gpu
def test_no_elements_and_no_memory(context, stream):
    buffer = context.from_cuda_array_interface(Array(shape=(0,), data=(0, False)))
    assert buffer.size == 0
    with pytest.raises(anabranch.AnabranchError):
        context.from_cuda_array_interface(Array(data=(8, False)))
