"""Device code, and its kernels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from .. import _anabranch
from . import _state
from ._kernel_queries import KernelAttributes, KernelOccupancy
from ._utils.classes import Uncopied
from ._utils.cuda_utils import call, check_argument

if TYPE_CHECKING:
    from ._context import Context

__all__ = ["Kernel", "ObjectCode"]

_LOADED = ("cubin", "ptx", "fatbin")


class ParamInfo(NamedTuple):
    """Where an argument of a kernel is in the memory for arguments, and its size in bytes."""

    offset: int
    size: int


class ObjectCode:
    """Device code, which is loaded when the first kernel is asked for. `Program.compile` makes it, too."""

    _code: Any
    _code_type: str
    _name: str
    _mapping: dict[str, str]
    _modules: dict[int, _anabranch.Module]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "ObjectCode objects cannot be instantiated directly. Please use ObjectCode APIs (from_cubin, from_ptx) or "
            "Program APIs (compile)."
        )

    @classmethod
    def _init(
        cls, module: Any, code_type: str, *, name: str = "", symbol_mapping: dict[str, str] | None = None
    ) -> ObjectCode:
        code = cls.__new__(cls)
        check_argument("name", name, str)
        if symbol_mapping is not None:
            check_argument("symbol_mapping", symbol_mapping, dict)
        if isinstance(module, os.PathLike):
            module = os.fspath(module)
        if not isinstance(module, (str, bytes, bytearray)):
            raise TypeError(f"Expected type str or bytes or bytearray, but got {type(module).__name__}")
        code._code, code._code_type, code._name = module, code_type, name
        code._mapping, code._modules = dict(symbol_mapping or {}), {}
        return code

    @staticmethod
    def _reduce_helper(module: Any, code_type: str, name: str, symbol_mapping: dict[str, str]) -> ObjectCode:
        return ObjectCode._init(module, code_type, name=name, symbol_mapping=symbol_mapping)

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectCode._reduce_helper, (self._code, self._code_type, self._name, self._mapping)

    @staticmethod
    def from_cubin(
        module: bytes | str | os.PathLike[str], *, name: str = "", symbol_mapping: dict[str, str] | None = None
    ) -> ObjectCode:
        """Machine code: bytes, or the path of a file. ``symbol_mapping`` has names in the source, and those in the code."""
        return ObjectCode._init(module, "cubin", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_ptx(
        module: bytes | str | os.PathLike[str], *, name: str = "", symbol_mapping: dict[str, str] | None = None
    ) -> ObjectCode:
        """PTX: bytes, or the path of a file."""
        return ObjectCode._init(module, "ptx", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_fatbin(
        module: bytes | str | os.PathLike[str], *, name: str = "", symbol_mapping: dict[str, str] | None = None
    ) -> ObjectCode:
        """Code for several generations: bytes, or the path of a file."""
        return ObjectCode._init(module, "fatbin", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_ltoir(
        module: bytes | str | os.PathLike[str], *, name: str = "", symbol_mapping: dict[str, str] | None = None
    ) -> ObjectCode:
        """Code for a linker, which has no kernels until it is linked."""
        return ObjectCode._init(module, "ltoir", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_object(
        module: bytes | str, *, name: str = "", symbol_mapping: dict[str, str] | None = None
    ) -> ObjectCode:
        """Code for a linker, which has no kernels until it is linked."""
        return ObjectCode._init(module, "object", name=name, symbol_mapping=symbol_mapping)

    @staticmethod
    def from_library(
        module: bytes | str, *, name: str = "", symbol_mapping: dict[str, str] | None = None
    ) -> ObjectCode:
        """Code for a linker, which has no kernels until it is linked."""
        return ObjectCode._init(module, "library", name=name, symbol_mapping=symbol_mapping)

    def _image(self) -> str | bytes:
        if self._code_type not in _LOADED:
            raise RuntimeError(f'Unsupported code type "{self._code_type}" (supported_code_types={_LOADED!r})')
        code = self._code
        if isinstance(code, str):
            code = Path(code).read_bytes()
        if self._code_type == "ptx":
            # Compilers end it with a zero, as C has it.
            return bytes(code).rstrip(b"\0").decode()
        return bytes(code)

    def _module_in(self, context: Context) -> _anabranch.Module:
        library = context._open()
        module = self._modules.get(library.id)
        if module is None:
            module = call(library.load_module, self._image())
            self._modules[library.id] = module
        return module

    def get_kernel(self, name: str | bytes) -> Kernel:
        """The kernel of that name, in the source or in the code. Loads the code in the current context.

        Raises `RuntimeError` for code that has to be linked before, and `CUDAError` if there is no such kernel.
        """
        text = name.decode() if isinstance(name, bytes) else name
        if not isinstance(text, str):
            raise TypeError(f"Expected type str or bytes, but got {type(name).__name__}")
        if self._code_type not in _LOADED:
            raise RuntimeError(f'Unsupported code type "{self._code_type}" (supported_code_types={_LOADED!r})')
        return Kernel._of(self, self._mapping.get(text, text), _state.current_context())

    def get_module(self) -> int:
        """The handle of the driver for the code in the current context."""
        return self._module_in(_state.current_context()).handle

    @property
    def handle(self) -> int:
        """The handle of the driver for the code in the current context."""
        return self.get_module()

    @property
    def code(self) -> Any:
        """What the code was made of: bytes, or a path."""
        return self._code

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def code_type(self) -> str:
        """What the code is: "ptx", "cubin" or another of `typing.ObjectCodeFormatType`."""
        return self._code_type

    @property
    def symbol_mapping(self) -> dict[str, str]:
        """A copy of the names in the source, and those in the code."""
        return dict(self._mapping)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectCode):
            return NotImplemented
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        loaded = next(iter(self._modules.values()), None)
        handle = 0 if loaded is None else loaded.handle
        return f"<ObjectCode handle={handle:#x} code_type='{self._code_type}'>"


class Kernel(Uncopied):
    """A kernel, which `launch` launches. `ObjectCode.get_kernel` makes it."""

    _code: ObjectCode
    _name: str
    _kernels: dict[int, _anabranch.Kernel]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("Kernel objects cannot be instantiated directly. Please use ObjectCode APIs.")

    @classmethod
    def _of(cls, code: ObjectCode, name: str, context: Context) -> Kernel:
        kernel = cls.__new__(cls)
        kernel._code, kernel._name, kernel._kernels = code, name, {}
        kernel._first = kernel._in(context)
        return kernel

    _first: _anabranch.Kernel

    def _in(self, context: Context) -> _anabranch.Kernel:
        """The kernel in a context, where its code is loaded if it is not yet."""
        kernel = self._kernels.get(context._id)
        if kernel is None or context._inner is None:
            context._open()
            kernel = call(self._code._module_in(context).kernel, self._name)
            self._kernels[context._id] = kernel
            _WITH[kernel.handle] = self
        return kernel

    def _current(self) -> _anabranch.Kernel:
        context = _state.thread.context
        return self._first if context is None or context.is_closed else self._in(context)

    @property
    def attributes(self) -> KernelAttributes:
        """What the kernel needs of the current device, or of ``attributes[device]``."""
        return KernelAttributes._init(self)

    @property
    def occupancy(self) -> KernelOccupancy:
        """How many blocks run at the same time."""
        return KernelOccupancy._init(self)

    @property
    def num_arguments(self) -> int:
        """The number of arguments."""
        return len(self._parameters())

    @property
    def arguments_info(self) -> list[ParamInfo]:
        """The offset and the size of each argument in bytes."""
        found, end = [], 0
        for size in self._parameters():
            # Each is aligned to its size, up to 16 bytes.
            alignment = min(size & -size, 16) or 1
            offset = -(-end // alignment) * alignment
            found.append(ParamInfo(offset, size))
            end = offset + size
        return found

    def _parameters(self) -> list[int]:
        sizes = self._first.parameters
        if sizes is None:
            raise RuntimeError("Driver version 12.4 or newer is required for this function.")
        return sizes

    @property
    def handle(self) -> int:
        """The handle of the driver in the current context."""
        return self._current().handle

    @property
    def _handle(self) -> int:
        return self.handle

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel):
            return NotImplemented
        return self._code is other._code and self._name == other._name

    def __hash__(self) -> int:
        return hash((id(self._code), self._name))

    def __repr__(self) -> str:
        return f"<Kernel handle={self.handle:#x}>"


# The kernels of the program by the handles of the driver.
_WITH: WeakValueDictionary[int, Kernel] = WeakValueDictionary()


def kernel_with(handle: int) -> Kernel | None:
    """The kernel of the program that has a handle in one of its contexts."""
    return _WITH.get(handle)
