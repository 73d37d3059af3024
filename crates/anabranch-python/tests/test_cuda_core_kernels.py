"""The drop-in for cuda.core: device code, kernels and launches."""

from __future__ import annotations

import ctypes
import pickle

import pytest
from cuda_core_support import KERNELS, device, nothing_is_current, stream

import anabranch
from anabranch.cuda_core import (
    CUDAError,
    Device,
    Kernel,
    LaunchConfig,
    NVRTCError,
    ObjectCode,
    Program,
    ProgramOptions,
    launch,
)
from anabranch.cuda_core._kernel_queries import KernelAttributes, KernelOccupancy
from anabranch.cuda_core._module import ParamInfo
from anabranch.cuda_core.typing import CompilerBackendType, ObjectCodeFormatType, SourceCodeType

TWICE = 'extern "C" __global__ void twice(unsigned* p) { p[threadIdx.x] *= 2; }'


@pytest.fixture
def code(device):
    return ObjectCode.from_ptx(KERNELS.read_bytes())


@pytest.fixture
def numbers(device, stream):
    """Four numbers of four bytes, which are zero."""
    return device.allocate(16, stream=stream)


ONE = LaunchConfig(grid=1, block=4)


def read(stream, buffer):
    data = bytes(memoryview(stream._open().download(buffer._inner)).cast("B"))
    return [int.from_bytes(data[start : start + 4], "little") for start in range(0, len(data), 4)]


def test_launch_configurations():
    config = LaunchConfig(grid=1, block=(2, 3))
    assert (config.grid, config.block, config.cluster, config.shmem_size) == ((1, 1, 1), (2, 3, 1), None, 0)
    assert repr(config) == (
        "LaunchConfig(grid=(1, 1, 1), cluster=None, block=(2, 3, 1), shmem_size=0, is_cooperative=False, "
        "programmatic_stream_serialization=False)"
    )
    assert config == LaunchConfig((1, 1, 1), None, (2, 3, 1)) != LaunchConfig(grid=1, block=2)
    assert hash(config) == hash(LaunchConfig(grid=(1,), block=(2, 3))) and config != 1
    expected = "must be an int, or a tuple with up to 3 ints"
    refused = [
        ({}, f"LaunchConfig.grid {expected} (got <class 'NoneType'>)"),
        ({"grid": 1}, f"LaunchConfig.block {expected} (got <class 'NoneType'>)"),
        ({"grid": (1, 2, 3, 4), "block": 2}, f"LaunchConfig.grid {expected} (got tuple with length 4)"),
        ({"grid": 0, "block": 2}, "LaunchConfig.grid value must be >= 1 (got 0)"),
        ({"grid": 1, "block": (2, 0)}, "LaunchConfig.block values must be >= 1 (got (2, 0))"),
        ({"grid": 1.5, "block": 2}, f"LaunchConfig.grid {expected} (got <class 'float'>)"),
        ({"grid": [1, 2], "block": 2}, f"LaunchConfig.grid {expected} (got <class 'list'>)"),
        ({"grid": (1, "a"), "block": 2}, f"LaunchConfig.grid {expected} (got (1, 'a'))"),
    ]
    for keywords, message in refused:
        with pytest.raises(ValueError) as caught:
            LaunchConfig(**keywords)
        assert str(caught.value) == message
    assert LaunchConfig(grid=(), block=2).grid == (1, 1, 1)


def test_configurations_can_be_changed(stream, code, numbers):
    config = LaunchConfig(grid=1, block=1)
    launch(stream, config, code.get_kernel("add"), numbers, 1, 4)
    config.block = (4, 1, 1)
    launch(stream, config, code.get_kernel("add"), numbers, 1, 4)
    assert read(stream, numbers) == [2, 1, 1, 1]
    config.cluster = None
    with pytest.raises(TypeError, match="^Expected tuple, got int$"):
        config.grid = 5


def test_grids_are_in_clusters_where_there_are_some(device):
    if device._library.backend == "cuda" and device.compute_capability < (9, 0):
        with pytest.raises(CUDAError, match="^thread block clusters are not supported on devices with compute capability"):
            LaunchConfig(grid=1, block=1, cluster=1)
        return
    config = LaunchConfig(grid=(4, 2), cluster=(2,), block=32)
    assert (config.grid, config.cluster) == ((4, 2, 1), (2, 1, 1))
    library = config._to_library()
    assert (library.grid, library.cluster) == ([8, 2, 1], [2, 1, 1])


def test_launches(stream, code, numbers):
    add = code.get_kernel("add")
    launch(stream, ONE, add, numbers, 5, 4)
    # An address, a number of ctypes, and bytes.
    launch(stream, ONE, add, numbers.handle, ctypes.c_uint32(1), (4).to_bytes(4, "little"))
    assert read(stream, numbers) == [6] * 4
    numpy = pytest.importorskip("numpy")
    launch(stream, ONE, add, numbers._inner, numpy.uint32(1), numpy.int32(4))
    assert read(stream, numbers) == [7] * 4


def test_launches_that_are_refused(stream, code, numbers):
    add = code.get_kernel("add")
    with pytest.raises(TypeError) as caught:
        launch(stream, 2, add)
    assert str(caught.value) == (
        "Argument 'config' has incorrect type (expected anabranch.cuda_core._launch_config.LaunchConfig, got int)"
    )
    with pytest.raises(TypeError, match="^Argument 'kernel' has incorrect type .*Kernel, got int"):
        launch(stream, ONE, 3)
    with pytest.raises(TypeError, match="^stream is required and must not be None"):
        launch(None, ONE, add)
    with pytest.raises(TypeError, match="^Stream or GraphBuilder expected, got int$"):
        launch(1, ONE, add)
    with pytest.raises(TypeError, match="^the argument is of unsupported type: <class 'object'>$"):
        launch(stream, ONE, add, object(), 1, 1)
    with pytest.raises(CUDAError, match="^CUDA_ERROR_INVALID_VALUE: .*3 parameters, and 1 arguments"):
        launch(stream, ONE, add, numbers)
    with pytest.raises(OverflowError):
        launch(stream, ONE, add, numbers, 1 << 32, 4)
    numbers.close()
    with pytest.raises(RuntimeError, match="^Buffer has been closed$"):
        launch(stream, ONE, add, numbers, 1, 4)


def test_what_is_closed_is_not_launched(device, stream, code, numbers):
    """The shorter ways of a launch are for what is open."""
    kernel, config = code.get_kernel("add"), LaunchConfig(grid=1, block=1)
    closed = device.allocate(4, stream=stream)
    closed.close()
    for _ in range(2):
        launch(stream, config, kernel, numbers, 0, 1)
        with pytest.raises(RuntimeError, match="^Buffer has been closed$"):
            launch(stream, config, kernel, closed, 0, 1)
    other, event = device.create_stream(), device.create_event()
    other.record(event)
    event.close()
    for call in (other.record, other.wait):
        with pytest.raises(RuntimeError, match="^Event has been closed$"):
            call(event)
    other.close()
    for call in (lambda: launch(other, config, kernel, numbers, 0, 1), other.sync, other.record, lambda: other.wait(stream)):
        with pytest.raises(RuntimeError, match="^Stream has been closed$"):
            call()
    with pytest.raises(RuntimeError, match="^Stream has been closed$"):
        stream.wait(other)
    with pytest.raises(CUDAError, match="^CUDA_ERROR_INVALID_VALUE: "):
        launch(stream, config, kernel)


def test_streams_of_others_are_launched_in(device, code, numbers, stream):
    class Theirs:
        def __cuda_stream__(self):
            return 0, stream.handle

    with pytest.warns(DeprecationWarning, match="via the stream protocol is deprecated"):
        launch(Theirs(), ONE, code.get_kernel("add"), numbers, 1, 4)
    assert read(stream, numbers) == [1] * 4


def test_addresses_of_buffers_are_ordered_and_kept(device, code, gate):
    """A launch with an address orders uses of other streams, as one with the buffer does."""
    first, second = device.create_stream(), device.create_stream()
    buffer = device.allocate(16, stream=first)
    # Loading code waits until the context is idle.
    add = code.get_kernel("add")
    first.sync()
    gate.hold(first._open())
    launch(first, ONE, add, buffer.handle, 3, 4)
    copy = device.allocate(16, stream=second)
    buffer.copy_to(copy, stream=second)
    assert not second.record().is_done
    buffer.close()
    gate.open()
    assert read(second, copy) == [3] * 4


def test_cooperative_launches_that_are_too_large(stream, code, numbers):
    add = code.get_kernel("add")
    blocks = add.occupancy.max_active_blocks_per_multiprocessor(32, 0)
    limit = blocks * Device().properties.multiprocessor_count
    with pytest.raises(ValueError) as caught:
        launch(stream, LaunchConfig(grid=(limit + 1, 1), block=32, is_cooperative=True), add, numbers, 1, 4)
    assert str(caught.value) == f"The specified grid size ({limit + 1} * 1 * 1) exceeds the limit ({limit})"
    launch(stream, LaunchConfig(grid=1, block=4, is_cooperative=True), add, numbers, 1, 4)
    assert read(stream, numbers) == [1] * 4


def test_object_code(device, tmp_path):
    ptx = KERNELS.read_bytes()
    code = ObjectCode.from_ptx(ptx, name="mine", symbol_mapping={"plus": "add"})
    assert (code.code, code.name, code.code_type, code.symbol_mapping) == (ptx, "mine", "ptx", {"plus": "add"})
    assert repr(code) == "<ObjectCode handle=0x0 code_type='ptx'>"
    kernel = code.get_kernel("plus")
    assert code.get_kernel(b"add") == kernel and kernel != code.get_kernel("scale") and kernel != 1
    assert hash(code.get_kernel("add")) == hash(kernel) and repr(kernel) == f"<Kernel handle={kernel.handle:#x}>"
    assert code.handle == code.get_module() != 0 and repr(code) == f"<ObjectCode handle={code.handle:#x} code_type='ptx'>"
    again = pickle.loads(pickle.dumps(code))
    assert (again.code, again.symbol_mapping) == (ptx, {"plus": "add"}) and again != code and again != 1
    for path in (KERNELS, str(KERNELS)):
        from_file = ObjectCode.from_ptx(path)
        assert from_file.code == str(KERNELS)
        assert isinstance(from_file.get_kernel("add"), Kernel)
    with pytest.raises(FileNotFoundError):
        ObjectCode.from_ptx(str(tmp_path / "nothing")).get_kernel("add")
    with pytest.raises(TypeError, match="^Expected type str or bytes or bytearray, but got int$"):
        ObjectCode.from_ptx(1)
    with pytest.raises(CUDAError, match="^CUDA_ERROR_NOT_FOUND: "):
        code.get_kernel("nothing")
    with pytest.raises(CUDAError, match="^CUDA_ERROR_INVALID_PTX|^CUDA_ERROR_NO_BINARY|^CUDA_ERROR"):
        ObjectCode.from_ptx(b"nonsense").get_kernel("add")
    for make in (ObjectCode.from_ltoir, ObjectCode.from_object, ObjectCode.from_library):
        with pytest.raises(RuntimeError, match='^Unsupported code type "'):
            make(b"abc").get_kernel("add")
    assert (ObjectCode.from_cubin(b"a").code_type, ObjectCode.from_fatbin(b"a").code_type) == ("cubin", "fatbin")
    for kind in (ObjectCode, Kernel, KernelAttributes, KernelOccupancy):
        with pytest.raises(RuntimeError, match=f"^{kind.__name__}( objects)? cannot be instantiated directly"):
            kind()


def test_kernels_describe_themselves(device, stream, code):
    kernel = code.get_kernel("add")
    assert kernel.num_arguments == 3
    assert kernel.arguments_info == [ParamInfo(0, 8), ParamInfo(8, 4), ParamInfo(12, 4)]
    attributes = kernel.attributes
    assert attributes.max_threads_per_block == attributes[0].max_threads_per_block > 0
    assert attributes[device].shared_size_bytes == attributes.const_size_bytes == 0
    assert attributes.local_size_bytes >= 0 and attributes.num_regs >= 0
    assert attributes.max_dynamic_shared_size_bytes >= 0
    occupancy = kernel.occupancy
    assert occupancy.max_active_blocks_per_multiprocessor(32, 0) >= 1
    result = occupancy.max_potential_block_size(0, 0)
    assert result.max_block_size >= 32 and result.min_grid_size >= 1
    assert occupancy.max_potential_block_size(0, 48).max_block_size <= 48
    for ask in (occupancy.max_active_clusters, occupancy.max_potential_cluster_size):
        try:
            assert ask(LaunchConfig(grid=1, block=32, cluster=1), stream=stream) >= 1
        except CUDAError as error:
            assert str(error).startswith(("CUDA_ERROR_NOT_SUPPORTED", "thread block clusters"))


def test_code_is_loaded_in_each_context(device, code):
    from anabranch.cuda_core import Context

    kernel = code.get_kernel("add")
    other = Context._of(device._library.create_context(), 0)
    former = device.set_current(other)
    stream = device.create_stream()
    numbers = device.allocate(16, stream=stream)
    launch(stream, ONE, kernel, numbers, 2, 4)
    assert read(stream, numbers) == [2] * 4
    assert len(code._modules) == 2
    device.set_current(former)


def test_programs_of_ptx(device, stream, numbers):
    program = Program(KERNELS.read_text(), SourceCodeType.PTX)
    assert program.backend == CompilerBackendType.DRIVER and repr(program) == "<Program backend='driver'>"
    code = program.compile("ptx")
    assert code.code_type == "ptx" and code.name == "default_program"
    launch(stream, ONE, code.get_kernel("add"), numbers, 2, 4)
    assert read(stream, numbers) == [2] * 4
    with pytest.raises(ValueError, match='^Unsupported target_type="cubin" for code_type="ptx"'):
        program.compile("cubin")
    program.close()
    assert program.is_closed
    with pytest.raises(RuntimeError, match="^Program has been closed$"):
        program.compile("ptx")


def test_programs_of_cuda(device, stream, numbers):
    program = Program(TWICE, "c++", {"name": "twice.cu", "std": "c++14"})
    try:
        code = program.compile(ObjectCodeFormatType.PTX)
    except CUDAError as error:
        if not isinstance(error, NVRTCError):
            pytest.skip(f"no compiler: {error}")
        raise
    assert b".entry twice" in code.code and code.name == "twice.cu"
    numbers.fill(b"\x01\0\0\0", stream=stream)
    launch(stream, ONE, code.get_kernel("twice"), numbers)
    assert read(stream, numbers) == [2] * 4
    template = "template <class T> __global__ void times(T* p) { p[threadIdx.x] *= 3; }"
    code = Program(template, "c++").compile("ptx", name_expressions=["times<unsigned>"])
    assert code.symbol_mapping["times<unsigned>"].startswith("_Z5times")
    launch(stream, ONE, code.get_kernel("times<unsigned>"), numbers)
    assert read(stream, numbers) == [6] * 4
    with pytest.raises(NVRTCError, match="compilation log:"):
        Program("nonsense", "c++").compile("ptx")


def test_programs_that_are_refused():
    with pytest.raises(RuntimeError) as caught:
        Program("a", "x")
    assert str(caught.value) == "Unsupported code_type='x' (supported_code_types=('c++', 'ptx', 'nvvm'))"
    with pytest.raises(TypeError, match="^Expected type str, but got int$"):
        Program(1, "c++")
    with pytest.raises(TypeError, match="^The Program options must be provided as an object of type ProgramOptions"):
        Program("a", "c++", 1)
    with pytest.raises(RuntimeError, match="^NVVM support is unavailable"):
        Program("a", "nvvm")
    with pytest.raises(ValueError, match='^Unsupported target_type="ltoir" for code_type="c[+][+]"'):
        Program("a", "c++").compile("ltoir")
    with pytest.raises(TypeError, match="cache"):
        Program("a", "c++").compile("ptx", cache={})


def test_options_of_programs():
    options = ProgramOptions(
        arch="sm_80",
        define_macro=[("a", "b"), "c"],
        include_path="/x",
        std="c++17",
        debug=True,
        lineinfo=True,
        max_register_count=3,
        ftz=True,
        use_fast_math=False,
        ptxas_options=["-v"],
    )
    assert options.as_bytes("nvrtc") == [
        b"-arch=sm_80",
        b"--device-debug",
        b"--generate-line-info",
        b"--ptxas-options=-v",
        b"--maxrregcount=3",
        b"--ftz=true",
        b"--define-macro=a=b",
        b"--define-macro=c",
        b"--include-path=/x",
        b"--std=c++17",
    ]
    assert ProgramOptions(define_macro=("a", "b")).as_bytes("nvrtc") == [b"--define-macro=a=b"]
    assert repr(ProgramOptions(name=None, arch="sm_80")) == "ProgramOptions(name='default_program', arch='sm_80')"
    with pytest.raises(ValueError, match="^Unknown backend 'x'"):
        options.as_bytes("x")
    with pytest.raises(RuntimeError) as caught:
        ProgramOptions(define_macro=3).as_bytes("nvrtc")
    assert str(caught.value) == "Expected define_macro Union[str, tuple[str, str]], list[Union[str, tuple[str, str]]], got 3"
    with pytest.raises(RuntimeError, match=r"^Expected define_macro tuple\[str, str\], got \('a',\)$"):
        ProgramOptions(define_macro=[("a",)]).as_bytes("nvrtc")
    assert anabranch.__version__
