"""Modules, kernels and launches."""

from __future__ import annotations

import ctypes
import struct
import sys

import pytest

import anabranch
from anabranch import LaunchConfig, Reads, Scalar


def test_modules_have_kernels(module, context):
    assert {"add", "scale", "store"} <= set(module.kernel_names())
    assert module.context == context
    kernel = module.kernel("add")
    assert (kernel.name, kernel.parameters, kernel.context) == ("add", [8, 4, 4], context)
    assert kernel == kernel and hash(kernel) == hash(kernel) and kernel != module.kernel("scale")
    assert kernel.max_active_blocks(32) >= 1
    with pytest.raises(anabranch.AnabranchError) as caught:
        module.kernel("subtract")
    assert caught.value.name == "CUDA_ERROR_NOT_FOUND"


def test_code_that_is_no_code(context):
    with pytest.raises(anabranch.CompileError) as caught:
        context.load_module(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f() { nonsense; }\n")
    assert caught.value.log
    with pytest.raises(anabranch.AnabranchError):
        context.load_module(b"no image")
    with pytest.raises(TypeError):
        context.load_module(3)


def test_a_launch(stream, module):
    numbers = stream.upload(list(range(300)), "uint32")
    stream.launch(module.kernel("add"), LaunchConfig.for_elements(300), numbers, 5, 300)
    assert stream.download(numbers).tolist() == list(range(5, 305))


def test_a_kernel_outlives_its_module(stream, module):
    kernel = module.kernel("add")
    module.close()
    numbers = stream.upload([1], "uint32")
    stream.launch(kernel, (1, 1), numbers, 5, 1)
    kernel.close()
    assert stream.download(numbers).tolist() == [6]
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        module.kernel("add")


def test_floats_have_the_size_of_the_parameter(stream, module):
    source, target = stream.upload([1, 2, 3], "float32"), stream.allocate(3, "float32")
    scale = module.kernel("scale")
    stream.launch(scale, (1, 32), target, Reads(source), 0.5, 3)
    assert stream.download(target).tolist() == [0.5, 1.0, 1.5]
    stream.launch(scale, (1, 32), target, Reads(source), Scalar(4, "float32"), 3)
    assert stream.download(target).tolist() == [4.0, 8.0, 12.0]
    stream.launch(scale, (1, 32), target, Reads(source), ctypes.c_float(2), ctypes.c_uint(3))
    assert stream.download(target).tolist() == [2.0, 4.0, 6.0]
    stream.launch(scale, (1, 32), target, Reads(source), struct.pack("f", 3.0), 3)
    assert stream.download(target).tolist() == [3.0, 6.0, 9.0]


def test_numbers_of_numpy(stream, module):
    numpy = pytest.importorskip("numpy")
    source, target = stream.upload(numpy.arange(3, dtype="f4")), stream.allocate(3, numpy.float32)
    stream.launch(module.kernel("scale"), (1, 32), target, source, numpy.float32(2), numpy.uint32(3))
    assert stream.download(target).tolist() == [0, 2, 4]
    # It is a float of Python, too, and yet has eight bytes.
    with pytest.raises(anabranch.AnabranchError, match="parameter 3 of `scale` has 4 bytes, and the argument 8"):
        stream.launch(module.kernel("scale"), (1, 32), target, source, numpy.float64(2), 3)
    with pytest.raises(TypeError, match="upload it"):
        stream.launch(module.kernel("scale"), (1, 32), target, numpy.zeros(3, "f4"), 2.0, 3)


def test_every_size(stream, module):
    target = stream.allocate(16)
    stream.launch(module.kernel("store"), (1, 1), target, 200, -2, 1.25)
    found = stream.download(target).tobytes()
    assert struct.unpack_from("B", found, 0) == (200,)
    assert struct.unpack_from("h", found, 2) == (-2,)
    assert struct.unpack_from("d", found, 8) == (1.25,)
    stream.launch(module.kernel("store"), (1, 1), target, True, 65535, 2.0)
    assert stream.download(target).tolist()[0] == 1


@pytest.mark.parametrize("value", [-129, 256, 1 << 80, -(1 << 80)])
def test_ints_that_do_not_fit(stream, module, value):
    with pytest.raises(OverflowError, match="1 bytes"):
        stream.launch(module.kernel("store"), (1, 1), stream.allocate(16), value, 0, 0.0)


def test_arguments_that_are_refused(stream, module):
    numbers, add = stream.allocate(4, "uint32"), module.kernel("add")
    for arguments in [(), (numbers,), (numbers, 1), (numbers, 1, 4, 4)]:
        with pytest.raises(anabranch.AnabranchError, match="has 3 parameters") as caught:
            stream.launch(add, (1, 1), *arguments)
        assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(anabranch.AnabranchError, match="parameter 2 of `add` has 4 bytes, and the argument 8"):
        stream.launch(add, (1, 1), numbers, numbers, 4)
    with pytest.raises(anabranch.AnabranchError, match="parameter 2"):
        stream.launch(add, (1, 1), numbers, bytes(5), 4)
    with pytest.raises(TypeError, match="pass a Scalar"):
        stream.launch(module.kernel("store"), (1, 1), numbers, 1.0, 1, 1.0)
    for wrong in (None, "text", [1], object(), 1j):
        with pytest.raises(TypeError):
            stream.launch(add, (1, 1), numbers, wrong, 4)
    assert stream.download(numbers).tolist() == [0] * 4


def test_configurations(stream, module):
    config = LaunchConfig((2, 3), 32, dynamic_shared_bytes=16)
    assert (config.grid, config.block, config.dynamic_shared_bytes) == ([2, 3, 1], [32, 1, 1], 16)
    assert config == LaunchConfig([2, 3, 1], (32,), dynamic_shared_bytes=16) != LaunchConfig(1, 1)
    assert hash(config) == hash(LaunchConfig((2, 3), 32, dynamic_shared_bytes=16))
    for wrong in ((1, 2, 3, 4), "a", None):
        with pytest.raises(TypeError, match="up to three"):
            LaunchConfig(wrong, 1)
    for wrong in (-1, (1, -1), 2**32, (1, 2**32)):
        with pytest.raises(ValueError, match="not negative, and has at most 32 bits"):
            LaunchConfig(wrong, 1)
    numbers, add = stream.allocate(4, "uint32"), module.kernel("add")
    for wrong in (None, 1, (1, 1, 1)):
        with pytest.raises(TypeError):
            stream.launch(add, wrong, numbers, 1, 4)
    for grid, block in [(0, 1), (1, 0), (1, 100_000)]:
        with pytest.raises(anabranch.AnabranchError) as caught:
            stream.launch(add, (grid, block), numbers, 1, 4)
        assert caught.value.name == "CUDA_ERROR_INVALID_VALUE"


def test_the_same_memory_twice(stream, module):
    numbers = stream.upload([1, 2, 3], "float32")
    stream.launch(module.kernel("scale"), (1, 32), numbers, numbers, 2.0, 3)
    assert stream.download(numbers).tolist() == [2, 4, 6]
    stream.launch(module.kernel("scale"), (1, 32), numbers[:1], Reads(numbers[1:]), 2.0, 1)
    assert stream.download(numbers).tolist() == [8, 4, 6]


def test_launches_in_several_streams_are_ordered(context, module, gate):
    first, second = context.create_stream(), context.create_stream()
    add, numbers = module.kernel("add"), first.upload([1], "uint32")
    first.synchronize()
    gate.hold(first)
    first.launch(add, (1, 1), numbers, 1, 1)
    second.launch(add, (1, 1), numbers, 1, 1)
    assert not second.query()
    gate.open()
    assert second.download(numbers).tolist() == [3]


def test_reads_in_several_streams_are_not_ordered(context, module, gate):
    first, second = context.create_stream(), context.create_stream()
    source = first.upload([1], "float32")
    targets = [first.allocate(1, "float32"), second.allocate(1, "float32")]
    # CUDA loads a kernel when it is asked for, and waits for the device.
    scale = module.kernel("scale")
    context.synchronize()
    gate.hold(first)
    for stream, target in zip((first, second), targets):
        stream.launch(scale, (1, 1), target, Reads(source), 2.0, 1)
    second.synchronize()
    assert not first.query()


def test_compiling(context, stream):
    source = 'extern "C" __global__ void twice(float* a, int n) { int i = threadIdx.x; if (i < n) a[i] *= 2.0f; }'
    try:
        compiled = anabranch.compile(source, name="twice.cu")
    except anabranch.AnabranchError as error:
        if error.name == "CUDA_ERROR_NO_DEVICE":
            pytest.skip(f"no compiler: {error}")
        raise
    assert ".entry twice" in compiled.ptx and compiled.binary is None
    numbers = stream.upload([1, 2], "float32")
    stream.launch(context.load_module(compiled).kernel("twice"), (1, 32), numbers, 2)
    assert stream.download(numbers).tolist() == [2, 4]
    with pytest.raises(anabranch.CompileError) as caught:
        anabranch.compile("nonsense")
    assert "kernel.cu(1)" in caught.value.log
    with pytest.raises(ValueError, match="no output"):
        anabranch.compile(source, output="text")


def test_an_int_of_many_digits_does_not_fit(stream, module, monkeypatch):
    """Python does not show so many."""
    ignored = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    with pytest.raises(OverflowError, match="does not fit in 4 bytes"):
        stream.launch(module.kernel("add"), (1, 1), stream.allocate(1, "uint32"), 10**5000, 1)
    with pytest.raises(OverflowError, match="does not fit"):
        stream.upload([10**5000], "int32")
    assert not ignored
