"""Takes the place of ``cupy.RawKernel`` and ``cupy.RawModule``: kernels in CUDA C++ or PTX."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

import anabranch

from .cuda import _devices
from .cuda._arguments import require
from .cuda._errors import of_driver
from .cuda._pointer import MemoryPointer
from .cuda.compiler import CompileException
from .cuda.function import Function, Module
from .cuda.memory import UnownedMemory

__all__ = ["RawKernel", "RawModule"]

_STANDARD = re.compile(r"-{1,2}std\b")
# The first thing in PTX that is no comment.
_PTX = re.compile(r"(?:\s|//[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/)*\.version\b")


class _Code(NamedTuple):
    """What a module is made of."""

    code: str | None
    path: str | None
    options: tuple[str, ...] | None
    backend: str
    name_expressions: tuple[str, ...] | None


# The modules of this process, which stay loaded, by devices and what they are made of.
_MODULES: dict[tuple[int, _Code], Module] = {}


def _module(code: _Code, log_stream: TextIO | None = None) -> Module:
    """The module for the current device."""
    key = (_devices.current(), code)
    # Without a lock: a signal handler, or a destructor, may call this meanwhile on the same thread. The first module counts.
    module = _MODULES.get(key)
    if module is not None:
        return module
    module = Module()
    if code.path is not None:
        module.load_file(code.path)
    else:
        assert code.code is not None
        _load(module, code.code, code, log_stream)
    return _MODULES.setdefault(key, module)


def _load(module: Module, text: str, code: _Code, log_stream: TextIO | None) -> None:
    if _PTX.match(text):
        module.load(text.encode())
        return
    if code.backend != "nvrtc":
        raise ValueError(f"the compiler {code.backend!r} is not supported: only 'nvrtc' is")
    compiled = _compile(text, code)
    if log_stream is not None:
        log_stream.write(compiled.log)
    module._load_native(compiled)
    if code.name_expressions:
        module._set_mapping({name: compiled.kernel_name(name) for name in code.name_expressions})


def _compile(text: str, code: _Code) -> anabranch.Compiled:
    options = code.options or ()
    has_standard = any(_STANDARD.match(option) for option in options)
    device = _devices.device(_devices.current())
    try:
        return anabranch.compile(
            text,
            device=device if device.backend == "cuda" else None,
            name_expressions=code.name_expressions,
            options=options,
            standard=None if has_standard else "c++17",
        )
    except anabranch.CompileError as error:
        log = error.log or str(error)
        raise CompileException(log, text, "kernel.cu", options, code.backend) from error


def _refuse(translate_cucomplex: object, jitify: object) -> None:
    if translate_cucomplex:
        raise ValueError("translate_cucomplex is not supported: use the types of cuComplex.h or cuda::std::complex")
    if jitify is not None and not jitify:
        warnings.warn(
            "The jitify argument is deprecated and staged for removal in CuPy v15.0. Avoid passing `jitify=False` to silence"
            " this warning.",
            DeprecationWarning,
            stacklevel=3,
        )
    if jitify:
        raise ValueError("jitify is not supported: pass the directories of headers in options")


class RawKernel:
    """A kernel in CUDA C++, or in PTX: text that begins with ``.version``. It is compiled at its first launch.

    Args:
        code: The source.
        name: The name of the kernel, as it is in the code: declare it ``extern "C"``.
        options: Options of NVRTC. Without one for it, the standard is C++17.
        backend: ``'nvrtc'``.
        translate_cucomplex: Not supported.
        enable_cooperative_groups: All blocks run at the same time, and can wait for each other.
        jitify: Not supported.
    """

    __slots__ = ("_code", "_cooperative", "_functions", "_name")

    def __init__(
        self,
        code: str,
        name: str,
        options: tuple[str, ...] | None = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        *,
        enable_cooperative_groups: bool = False,
        jitify: bool | None = None,
    ) -> None:
        require(code, str, "code")
        require(name, str, "name")
        if options is not None:
            require(options, tuple, "options")
        require(backend, str, "backend")
        _refuse(translate_cucomplex, jitify)
        self._prepare(_Code(code, None, options, backend, None), name, enable_cooperative_groups)

    def _prepare(self, code: _Code, name: str, enable_cooperative_groups: bool) -> None:
        self._code = code
        self._name = name
        self._cooperative = bool(enable_cooperative_groups)
        self._functions: dict[int, Function] = {}

    @property
    def name(self) -> str:
        """The name of the kernel in the code."""
        return self._name

    @property
    def __name__(self) -> str:
        return self._name

    @property
    def enable_cooperative_groups(self) -> bool:
        """Whether all blocks run at the same time."""
        return self._cooperative

    @property
    def code(self) -> str | None:
        """The source, or None for a kernel of a file."""
        return self._code.code

    @property
    def file_path(self) -> str | None:
        """The file, for a kernel of one."""
        return self._code.path

    @property
    def options(self) -> tuple[str, ...] | None:
        """The options of the compiler."""
        return self._code.options

    @property
    def backend(self) -> str:
        """The compiler."""
        return self._code.backend

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, **kwargs: Any) -> None:
        """Launches the kernel, with ``shared_mem`` bytes of dynamic shared memory in a block, in ``stream`` or the current one.

        `cuda.Function` says what arguments there are.
        """
        # Not `kernel`, which is a step more.
        function = self._functions.get(_devices.current()) or self._kernel()
        function(grid, block, args, enable_cooperative_groups=self._cooperative, **kwargs)

    @property
    def kernel(self) -> Function:
        """The kernel of the current device, which is compiled if it was not."""
        return self._kernel()

    def _kernel(self, log_stream: TextIO | None = None) -> Function:
        number = _devices.current()
        function = self._functions.get(number)
        if function is None:
            function = self._functions[number] = _module(self._code, log_stream).get_function(self.name)
        return function

    def compile(self, log_stream: TextIO | None = None) -> None:
        """Compiles the kernel for the current device, and writes the compiler's log to a file."""
        self._functions.clear()
        self._kernel(log_stream)

    def __getstate__(self) -> dict[str, Any]:
        return {"code": tuple(self._code), "name": self.name, "cooperative": self.enable_cooperative_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._prepare(_Code(*state["code"]), state["name"], state["cooperative"])

    @property
    def attributes(self) -> dict[str, int]:
        """What the kernel needs. Values that no driver contract says are -1."""
        return {name: getattr(self, name) for name in _ATTRIBUTES}

    def _attribute(self, name: str) -> int:
        return _attributes(self.kernel)[name]

    @property
    def max_threads_per_block(self) -> int:
        """The largest number of threads in a block."""
        return self._attribute("max_threads_per_block")

    @property
    def shared_size_bytes(self) -> int:
        """The static shared memory of a block in bytes."""
        return self._attribute("static_shared_bytes")

    @property
    def const_size_bytes(self) -> int:
        """The constant memory in bytes."""
        return self._attribute("constant_bytes")

    @property
    def local_size_bytes(self) -> int:
        """The local memory of a thread in bytes."""
        return self._attribute("local_bytes")

    @property
    def num_regs(self) -> int:
        """The number of registers of a thread."""
        return self._attribute("registers")

    @property
    def ptx_version(self) -> int:
        """Always -1: not known here."""
        return -1

    @property
    def binary_version(self) -> int:
        """Always -1: not known here."""
        return -1

    @property
    def cache_mode_ca(self) -> int:
        """Always -1: not known here."""
        return -1

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The limit of the dynamic shared memory of a block in bytes. It can be set."""
        return self._attribute("max_dynamic_shared_bytes")

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, bytes: int) -> None:
        _set_limit(self.kernel, bytes)

    @property
    def preferred_shared_memory_carveout(self) -> int:
        """The percentage of the cache that should be shared memory, or -1 for the default. It can be set."""
        return self.kernel._carveout

    @preferred_shared_memory_carveout.setter
    def preferred_shared_memory_carveout(self, fraction: int) -> None:
        _set_carveout(self.kernel, fraction)


_ATTRIBUTES = (
    "max_threads_per_block",
    "shared_size_bytes",
    "const_size_bytes",
    "local_size_bytes",
    "num_regs",
    "ptx_version",
    "binary_version",
    "cache_mode_ca",
    "max_dynamic_shared_size_bytes",
    "preferred_shared_memory_carveout",
)


@of_driver
def _attributes(function: Function) -> dict[str, int]:
    return function._native.attributes


@of_driver
def _set_limit(function: Function, size: int) -> None:
    function._native.set_max_dynamic_shared_bytes(size)


@of_driver
def _set_carveout(function: Function, percentage: int) -> None:
    function._native.set_preferred_shared_memory_carveout(percentage)
    function._carveout = percentage


class RawModule:
    """Kernels and variables of one source in CUDA C++ or PTX, or of a file of PTX or machine code.

    Args:
        code: The source, or else
        path: The file.
        name_expressions: Names of kernels that are templates, such as ``'f<int>'``, for `get_function`.
        options: As for `RawKernel`, like the other arguments.
    """

    __slots__ = ("_code", "_cooperative")

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | None = None,
        options: tuple[str, ...] | None = (),
        backend: str = "nvrtc",
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        name_expressions: Iterable[str] | None = None,
        jitify: bool | None = None,
    ) -> None:
        if (code is None) == (path is None):
            raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
        for value, name in ((code, "code"), (path, "path")):
            if value is not None:
                require(value, str, name)
        if options is not None:
            require(options, tuple, "options")
        require(backend, str, "backend")
        if name_expressions is not None:
            if code is None:
                raise ValueError("need CUDA C++ code for the requested kernels")
            if backend != "nvrtc":
                raise ValueError(
                    "only nvrtc supports retrieving the mangled names for the given name expressions"
                )
        _refuse(translate_cucomplex, jitify)
        expressions = None if name_expressions is None else tuple(name_expressions)
        if path is not None:
            options, backend = (), "nvcc"
        self._code = _Code(code, path, options, backend, expressions)
        self._cooperative = bool(enable_cooperative_groups)

    @property
    def enable_cooperative_groups(self) -> bool:
        """Whether all blocks of a kernel run at the same time."""
        return self._cooperative

    @property
    def code(self) -> str | None:
        """The source."""
        return self._code.code

    @property
    def file_path(self) -> str | None:
        """The file."""
        return self._code.path

    @property
    def options(self) -> tuple[str, ...] | None:
        """The options of the compiler."""
        return self._code.options

    @property
    def backend(self) -> str:
        """The compiler."""
        return self._code.backend

    @property
    def name_expressions(self) -> tuple[str, ...] | None:
        """The names of kernels that are templates."""
        return self._code.name_expressions

    @property
    def module(self) -> Module:
        """The module of the current device, which is compiled if it was not."""
        return _module(self._code)

    def compile(self, log_stream: TextIO | None = None) -> None:
        """Compiles the module for the current device, and writes the compiler's log to a file."""
        _module(self._code, log_stream)

    def get_function(self, name: str) -> RawKernel:
        """The kernel of that name, or of that name expression."""
        require(name, str, "name")
        mapping = self.module.mapping or {}
        kernel = RawKernel.__new__(RawKernel)
        kernel._prepare(self._code, mapping.get(name, name), self.enable_cooperative_groups)
        kernel._kernel()
        return kernel

    def get_global(self, name: str) -> MemoryPointer:
        """The place of a variable in memory."""
        module = self.module
        address = module.get_global_var(name)
        return MemoryPointer(UnownedMemory(address, 0, module, _devices.current()), 0)
