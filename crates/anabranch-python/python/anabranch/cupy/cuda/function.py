"""Takes the place of ``cupy.cuda.function``: modules and kernels."""

from __future__ import annotations

import operator
import struct
from typing import Any

import anabranch

from . import _devices
from ._arguments import refuse_to_copy, require
from ._errors import CUDADriverError, of_driver
from ._pointer import MemoryPointer
from .stream import _native_of, get_current_stream

__all__ = ["Function", "Module"]

_LARGEST_GRID = 0x7FFFFFFF
_FILE_NOT_FOUND = 301


class Module:
    """Device code of the current device: PTX or machine code."""

    __slots__ = ("_loaded", "_mapping")

    _loaded: anabranch.Module | None

    def __init__(self) -> None:
        self._loaded = None
        self._mapping: dict[str, str] | None = None

    @property
    def mapping(self) -> dict[str, str] | None:
        """The names in the code of kernels that C++ expressions name."""
        return self._mapping

    __reduce__ = refuse_to_copy

    @property
    def _native(self) -> anabranch.Module:
        if self._loaded is None:
            raise ValueError("the module is not loaded: call load() or load_file() before")
        return self._loaded

    @property
    def ptr(self) -> int:
        """The handle of the driver, or 0 before something is loaded."""
        return 0 if self._loaded is None else self._loaded.handle

    def load(self, cubin: bytes) -> None:
        """Loads PTX or machine code of NVIDIA's tools."""
        require(cubin, bytes, "cubin")
        self._load_native(_image(cubin))

    @of_driver
    def _load_native(self, image: str | bytes | anabranch.Compiled) -> None:
        self._loaded = _devices.context().load_module(image)

    def load_file(self, filename: str) -> None:
        """Loads a file of PTX or machine code."""
        try:
            with open(filename, "rb") as file:
                code = file.read()
        except OSError as error:
            raise CUDADriverError(_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND") from error
        self.load(code)

    def get_function(self, name: str) -> Function:
        """The kernel of that name, as it is in the code."""
        return Function(self, name)

    @of_driver
    def get_global_var(self, name: str) -> int:
        """The address of a variable."""
        return self._native.variable(name)[0]

    def _set_mapping(self, mapping: dict[str, str]) -> None:
        self._mapping = mapping


def _image(code: bytes) -> str | bytes:
    """PTX as text, and machine code as it is."""
    # Machine code is an ELF file or a fat binary, which begin with these numbers.
    if code[:4] in (b"\x7fELF", b"\x50\xed\x55\xba"):
        return code
    try:
        return code.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return code


class Function:
    """A kernel."""

    __slots__ = ("_carveout", "_native", "module")

    def __init__(self, module: Module, funcname: str) -> None:
        require(module, Module, "module")
        self.module = module
        self._native = _kernel(module, funcname)
        # What was set here, as no driver says it.
        self._carveout = -1

    @property
    def ptr(self) -> int:
        """The handle of the driver."""
        return self._native.handle

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Any,
        shared_mem: int = 0,
        stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        """Launches the kernel in a stream, or in the current one.

        Arguments are `anabranch.Buffer` and `anabranch.Reads`, arrays of other libraries with DLPack, `MemoryPointer`, ``None``
        for the address 0, and numbers: those of NumPy must have the size of the parameter, those of Python get it.
        """
        if not isinstance(grid, tuple):
            require(grid, tuple, "grid")
        if not isinstance(block, tuple):
            require(block, tuple, "block")
        _launch(self._native, _extents(grid), _extents(block), args, shared_mem, stream, enable_cooperative_groups)

    def linear_launch(
        self,
        size: int,
        args: Any,
        shared_mem: int = 0,
        block_max_size: int = 128,
        stream: Any = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        """Launches the kernel with at least ``size`` threads, in blocks of at most ``block_max_size``."""
        if block_max_size < 1:
            raise ValueError("block_max_size must be at least 1")
        grid = min(_LARGEST_GRID, (size + block_max_size - 1) // block_max_size)
        block = min(block_max_size, size)
        self((grid,), (block,), args, shared_mem, stream, enable_cooperative_groups)


@of_driver
def _kernel(module: Module, name: str) -> anabranch.Kernel:
    return module._native.kernel(name)


def _extents(given: tuple[int, ...]) -> tuple[int, int, int]:
    """Three extents of at least 1, as in CuPy."""
    x, y, z = given if len(given) == 3 else (*given, 1, 1)[:3]
    if type(x) is type(y) is type(z) is int and x > 0 and y > 0 and z > 0:
        return x, y, z
    return max(1, operator.index(x)), max(1, operator.index(y)), max(1, operator.index(z))


# The last launch configurations: programs repeat them, and making one costs as much as a launch.
_CONFIGS: dict[tuple[object, ...], anabranch.LaunchConfig] = {}
_MOST_CONFIGS = 256


def _config(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_mem: int, cooperative: bool
) -> anabranch.LaunchConfig:
    # Other numbers that equal this one are not all accepted.
    key = (grid, block, shared_mem, cooperative) if type(shared_mem) is int else None
    known = None if key is None else _CONFIGS.get(key)
    if known is None:
        known = anabranch.LaunchConfig(grid, block, dynamic_shared_bytes=shared_mem, cooperative=cooperative)
        if key is not None:
            if len(_CONFIGS) >= _MOST_CONFIGS:
                _CONFIGS.clear()
            _CONFIGS[key] = known
    return known


def _launch(
    kernel: anabranch.Kernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: Any,
    shared_mem: int,
    stream: Any,
    cooperative: bool,
) -> None:
    # Without a decorator, and with a shorter way for what is usual: a launch costs less than these do.
    try:
        native = _native_of(get_current_stream() if stream is None else stream)
        config = _config(grid, block, shared_mem, bool(cooperative))
        given = tuple(args)
        if not given:
            native.launch(kernel, config)
            return
        sizes = kernel.parameters or []
        native.launch(
            kernel,
            config,
            *[
                each
                if type(each) in _AS_THEY_ARE
                else _argument(each, sizes[position] if position < len(sizes) else None, native)
                for position, each in enumerate(given)
            ],
        )
    except anabranch.AnabranchError as error:
        raise CUDADriverError(error.status, error.name) from error


# Types of arguments that the package takes as they are.
_AS_THEY_ARE = {anabranch.Buffer, anabranch.Reads, anabranch.Scalar, bool, int, float, bytes}


def _argument(argument: Any, size: int | None, stream: anabranch.Stream) -> Any:
    """What the package takes for an argument of a parameter of that size, if it is known."""
    if argument is None:
        return anabranch.Scalar(0, "uint64")
    if isinstance(argument, MemoryPointer):
        return anabranch.Scalar(argument.ptr, "uint64")
    if type(argument) is complex:
        return struct.pack("dd", argument.real, argument.imag)
    if isinstance(argument, (anabranch.Buffer, anabranch.Reads, anabranch.Scalar, bool, int, float, bytes)):
        return argument
    if hasattr(argument, "__dlpack__") and getattr(argument, "ndim", 1) != 0:
        return stream.context.from_dlpack(argument, stream=stream)
    try:
        # Numbers of NumPy and of ctypes, and structures of ctypes.
        view = memoryview(argument)
    except TypeError:
        if hasattr(argument, "__dlpack__"):
            return stream.context.from_dlpack(argument, stream=stream)
        raise TypeError(f"Unsupported type {type(argument)}") from None
    if size is not None and view.nbytes > size and getattr(getattr(argument, "dtype", None), "kind", "") in ("i", "u"):
        # CuPy passes large integers of NumPy for smaller parameters, too. Here the number has to fit.
        return operator.index(argument)
    return argument
