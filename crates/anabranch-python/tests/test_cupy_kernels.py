"""Kernels of `anabranch.cupy`."""

from __future__ import annotations

import ctypes
import io
import pickle
from pathlib import Path

import pytest

import anabranch
from anabranch import cupy
from anabranch.cupy import cuda

PTX = (Path(__file__).parent / "kernels.ptx").read_text()

TWICE = """
template<typename T> __global__ void twice(T* numbers) { numbers[threadIdx.x] *= 2; }
extern "C" __global__ void one(int* numbers) { numbers[threadIdx.x] = 1; }
__constant__ int table[4];
"""

# What the driver reads of a variable.
VARIABLE = """
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 numbers[4] = {1, 2, 3, 4};
.visible .entry nothing() { ret; }
"""


@pytest.fixture
def stream():
    return cuda.Stream(non_blocking=True)


@pytest.fixture
def add():
    return cupy.RawKernel(PTX, "add")


def refused(name, call, *arguments, **keywords):
    with pytest.raises(cuda.driver.CUDADriverError) as caught:
        call(*arguments, **keywords)
    assert str(caught.value).startswith(f"{name}: "), caught.value
    assert isinstance(caught.value.__cause__, (anabranch.AnabranchError, OSError))


def compiled(kernel):
    """Compiles, or skips the test where there is no compiler."""
    try:
        kernel.compile()
    except anabranch.AnabranchError as error:
        pytest.skip(f"no compiler: {error}")
    return kernel


def test_buffers(context, stream, add):
    ours = context.create_stream()
    numbers = ours.upload([1, 2, 3], "uint32")
    # The library orders the streams, which both use the buffer.
    add((1,), (4,), (numbers, 5, 3), stream=stream)
    assert ours.download(numbers).tolist() == [6, 7, 8]
    with stream:
        add((1,), (4,), (numbers, 1, 2))
    add.kernel((1, 1, 1), (4,), (numbers, 1, 1))
    assert ours.download(numbers).tolist() == [8, 8, 8]
    add.kernel.linear_launch(3, (numbers, 1, 3), 0, 2, stream)
    assert ours.download(numbers).tolist() == [9, 9, 9]


def test_arrays_of_others(stream, add, on_host):
    numpy = pytest.importorskip("numpy")
    numbers = numpy.arange(4, dtype="uint32")
    for scalar in (numpy.uint32(5), numpy.int64(5), 5, ctypes.c_uint32(5), numpy.array(5, "uint32")):
        add((1,), (4,), (numbers, scalar, numpy.int32(3)), stream=stream)
    stream.synchronize()
    assert numbers.tolist() == [25, 26, 27, 3]


def test_other_arguments(stream, add):
    with stream:
        memory = cuda.alloc(16)
        memory.memset_async(0, 16)
        add((1,), (4,), (memory, 7, 4))
        add((1,), (4,), (argument for argument in (memory + 8, 1, 2)), shared_mem=64)
        # Extents of zero count as one.
        add((0,), (4, 0), (None, 7, 0))
    result = (ctypes.c_uint32 * 4)()
    stream.synchronize()
    memory.copy_to_host(ctypes.addressof(result), 16)
    assert list(result) == [7, 7, 8, 8]


def test_arguments_that_are_refused(context, stream, add):
    numbers = context.create_stream().upload([1], "uint32")
    with pytest.raises(TypeError, match=r"^Argument 'grid' has incorrect type \(expected tuple, got list\)$"):
        add([1], (4,), (numbers, 5, 1))
    with pytest.raises(TypeError, match=r"^Argument 'block' has incorrect type \(expected tuple, got int\)$"):
        add((1,), 4, (numbers, 5, 1))
    with pytest.raises(TypeError, match="^Unsupported type <class 'str'>$"):
        add((1,), (4,), ("numbers", 5, 1))
    with pytest.raises(TypeError):
        add((1.5,), (4,), (numbers, 5, 1))
    with pytest.raises(OverflowError):
        add((1,), (4,), (numbers, 1 << 32, 1))
    with pytest.raises(ValueError, match="block_max_size"):
        add.kernel.linear_launch(3, (numbers, 1, 3), block_max_size=0)
    refused("CUDA_ERROR_INVALID_VALUE", add, (1,), (4,), (numbers, 5))
    refused("CUDA_ERROR_INVALID_VALUE", add, (1,), (4,), (numbers, 5, 1, 2))
    refused("CUDA_ERROR_INVALID_VALUE", add, (1,), (4096,), (numbers, 5, 1))
    assert context.create_stream().download(numbers).tolist() == [1]


def test_launches_that_are_repeated(stream, add):
    """What a launch is made of is remembered, by numbers that are the same in kind, too."""
    memory = cuda.alloc(16)
    with stream:
        memory.memset_async(0, 16)
        for grid, block, shared in (((1,), (4,), 0), ((1, 1), (4, 1, 1), 0), ((1, 1, 1), (2,), 16), ((0,), (4, -1), 0)):
            for _ in range(2):
                add(grid, block, (memory, 1, 4), shared_mem=shared)
    stream.synchronize()
    host = (ctypes.c_uint32 * 4)()
    memory.copy_to_host(ctypes.addressof(host), 16)
    assert list(host) == [8, 8, 6, 6]
    for wrong in ({"shared_mem": 0.0}, {"grid": (1.0,)}, {"block": (4, 1.0)}):
        given = {"grid": (1,), "block": (4,), "args": (memory, 1, 4), "stream": stream, **wrong}
        with pytest.raises(TypeError):
            add(**given)
    with pytest.raises(ValueError):
        add((), (4,), (memory, 1, 4), stream=stream)
    # More of them than are remembered.
    for count in range(1, 600):
        add((count,), (1,), (memory, 0, 0), stream=stream)
    stream.synchronize()


def test_captured_launches(context, stream, add):
    ours = context.create_stream()
    numbers = ours.upload([0], "uint32")
    stream.wait_event(ours.record())
    stream.begin_capture()
    add((1,), (1,), (numbers, 3, 1), stream=stream)
    graph = stream.end_capture()
    for _ in range(3):
        graph.launch(stream)
    assert ours.download(numbers).tolist() == [9]


def test_arguments_of_the_constructors():
    with pytest.raises(TypeError, match=r"^Argument 'code' has incorrect type \(expected str, got int\)$"):
        cupy.RawKernel(1, "f")
    with pytest.raises(TypeError, match=r"^Argument 'name' has incorrect type \(expected str, got int\)$"):
        cupy.RawKernel("a", 2)
    with pytest.raises(TypeError, match=r"^Argument 'options' has incorrect type \(expected tuple, got list\)$"):
        cupy.RawKernel("a", "b", ["x"])
    for arguments in ({}, {"code": "x", "path": "y"}):
        with pytest.raises(TypeError, match="^Exactly one of `code` and `path` keyword arguments must be given.$"):
            cupy.RawModule(**arguments)
    with pytest.raises(ValueError, match=r"^need CUDA C\+\+ code for the requested kernels$"):
        cupy.RawModule(path="x", name_expressions=["a"])
    with pytest.raises(ValueError, match="^only nvrtc supports retrieving the mangled names"):
        cupy.RawModule(code="x", backend="nvcc", name_expressions=["a"])
    for keywords in ({"translate_cucomplex": True}, {"jitify": True}):
        with pytest.raises(ValueError, match="is not supported"):
            cupy.RawKernel("a", "b", **keywords)
    with pytest.raises(ValueError, match="'nvcc' is not supported"):
        cupy.RawKernel("a", "b", backend="nvcc").compile()


def test_attributes(add):
    assert (add.code, add.name, add.__name__, add.options) == (PTX, "add", "add", ())
    assert (add.backend, add.file_path, add.enable_cooperative_groups) == ("nvrtc", None, False)
    attributes = add.attributes
    assert attributes["max_threads_per_block"] == add.max_threads_per_block > 0
    assert attributes["ptx_version"] == add.binary_version == add.cache_mode_ca == -1
    limit = add.max_dynamic_shared_size_bytes
    add.max_dynamic_shared_size_bytes = limit - 16
    assert add.max_dynamic_shared_size_bytes == limit - 16
    add.max_dynamic_shared_size_bytes = limit
    add.preferred_shared_memory_carveout = 50
    assert add.preferred_shared_memory_carveout == 50
    refused("CUDA_ERROR_INVALID_VALUE", setattr, add, "preferred_shared_memory_carveout", 500)
    assert all(isinstance(value, int) for value in add.attributes.values())


def test_pickling(context, add):
    again = pickle.loads(pickle.dumps(add))
    assert (again.name, again.code) == ("add", PTX)
    stream = context.create_stream()
    numbers = stream.upload([1], "uint32")
    again((1,), (1,), (numbers, 1, 1))
    assert stream.download(numbers).tolist() == [2]


def test_modules(context, tmp_path):
    path = tmp_path / "kernels.ptx"
    path.write_text(PTX)
    for module in (cupy.RawModule(code=PTX), cupy.RawModule(path=str(path))):
        kernel = module.get_function("add")
        assert isinstance(kernel, cupy.RawKernel) and kernel.file_path == module.file_path
        stream = context.create_stream()
        numbers = stream.upload([1], "uint32")
        kernel((1,), (1,), (numbers, 1, 1))
        assert stream.download(numbers).tolist() == [2]
        refused("CUDA_ERROR_NOT_FOUND", module.get_function, "nope")
    assert cupy.RawModule(code=PTX).module is cupy.RawModule(code=PTX).module
    refused("CUDA_ERROR_FILE_NOT_FOUND", cupy.RawModule(path=str(tmp_path / "no")).compile)
    refused("CUDA_ERROR_INVALID_PTX", cupy.RawModule(code="// This is PTX.\n.version 7.0\nnonsense").compile)


def test_variables():
    module = cupy.RawModule(code=VARIABLE)
    place = module.get_global("numbers")
    assert isinstance(place, cuda.MemoryPointer)
    result = (ctypes.c_uint32 * 4)()
    place.copy_to_host(ctypes.addressof(result), 16)
    assert list(result) == [1, 2, 3, 4]
    refused("CUDA_ERROR_NOT_FOUND", module.get_global, "nope")


def test_the_classes_below(context):
    module = cuda.Module()
    assert module.ptr == 0
    with pytest.raises(ValueError, match="not loaded"):
        module.get_function("add")
    module.load(PTX.encode())
    function = cuda.Function(module, "add")
    assert function.ptr and module.ptr and function.module is module
    with pytest.raises(TypeError, match=r"^Argument 'cubin' has incorrect type \(expected bytes, got str\)$"):
        module.load(PTX)


def test_cuda_source(context):
    module = compiled(cupy.RawModule(code=TWICE, name_expressions=("twice<int>", "twice<float>")))
    stream = context.create_stream()
    numbers, floats = stream.upload([1, 2], "int32"), stream.upload([1.5, 2.5], "float32")
    module.get_function("twice<int>")((1,), (2,), (numbers,))
    module.get_function("twice<float>")((1,), (2,), (floats,))
    assert (stream.download(numbers).tolist(), stream.download(floats).tolist()) == ([2, 4], [3.0, 5.0])
    module.get_function("one")((1,), (1,), (numbers,))
    assert stream.download(numbers).tolist() == [1, 4]


def test_compilers_log():
    kernel = cupy.RawKernel('extern "C" __global__ void f(int* x) { int unused; x[0] = 1; }', "f")
    log = io.StringIO()
    try:
        kernel.compile(log)
    except anabranch.AnabranchError as error:
        pytest.skip(f"no compiler: {error}")
    bad = cupy.RawKernel('extern "C" __global__ void f(int* x) { x[0] = y; }', "f", ("-DX=1",))
    with pytest.raises(cuda.compiler.CompileException) as caught:
        bad.compile()
    exception = caught.value
    assert '"y" is undefined' in str(exception) and exception.source == bad.code and exception.options == ("-DX=1",)
    assert str(pickle.loads(pickle.dumps(exception))) == str(exception) == exception.get_message()
    file = io.StringIO()
    exception.dump(file)
    assert file.getvalue().startswith("NVRTC compilation error: ") and "Options: -DX=1" in file.getvalue()


def test_text_that_begins_with_many_comments():
    """Whether it is PTX is found out in the time that it takes to read it."""
    from anabranch.cupy._raw import _PTX

    comment = "/* a licence * and more */\n// a line\n"
    assert _PTX.match(comment * 1000 + ".version 8.0")
    assert not _PTX.match(comment * 1000 + 'extern "C" __global__ void f() {}')
    assert not _PTX.match("/* never closed " * 1000)
