"""Compiling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _anabranch
from ._module import ObjectCode
from ._program_options import ProgramOptions
from ._utils.classes import Uncopied
from ._utils.cuda_utils import assert_type, call, check_or_create_options
from .typing import CompilerBackendType, ObjectCodeFormatType, SourceCodeType

__all__ = ["Program", "ProgramOptions"]

_CODE_TYPES = ("c++", "ptx", "nvvm")
_TARGETS = {"c++": ("ptx", "cubin"), "ptx": ("ptx",)}
_OUTPUTS: dict[str, Any] = {"ptx": "ptx", "cubin": "binary"}


class Program(Uncopied):
    """CUDA C++, which NVRTC compiles, or PTX, which the driver compiles when it loads it.

    Raises `RuntimeError` for other code.
    """

    _code: str
    _code_type: str
    _options: ProgramOptions
    _is_closed: bool

    def __init__(self, code: str, code_type: SourceCodeType | str, options: ProgramOptions | None = None) -> None:
        chosen = check_or_create_options(ProgramOptions, options, "Program options")
        kind = str(code_type).lower()
        if kind not in _CODE_TYPES:
            raise RuntimeError(f"Unsupported code_type={kind!r} (supported_code_types={_CODE_TYPES!r})")
        if kind == "nvvm":
            raise RuntimeError("NVVM support is unavailable: compile CUDA C++, or load PTX")
        self._code, self._code_type, self._options = assert_type(code, str), kind, chosen
        self._is_closed = False

    def close(self) -> None:
        """Closes the program."""
        self._is_closed = True

    @property
    def is_closed(self) -> bool:
        """Whether the program is closed."""
        return self._is_closed

    def compile(
        self,
        target_type: ObjectCodeFormatType | str,
        name_expressions: Sequence[str] = (),
        logs: Any = None,
        *,
        cache: None = None,
    ) -> ObjectCode:
        """Compiles to "ptx" or "cubin". The name of a kernel of ``name_expressions`` is that in the source. ``logs.write``
        gets what the compiler says.

        Raises `NVRTCError` if the compiler rejects the code, and `CUDAError` if there is no compiler.
        """
        if self._is_closed:
            raise RuntimeError("Program has been closed")
        if cache is not None:
            raise TypeError("caches are not supported here: results are cached on disk unless no_cache is set")
        target = str(target_type).lower()
        supported = _TARGETS[self._code_type]
        if target not in supported:
            raise ValueError(
                f'Unsupported target_type="{target}" for code_type="{self._code_type}" (supported: {supported!r})'
            )
        name = self._options.name or "default_program"
        if self._code_type == "ptx":
            return ObjectCode._init(self._code.encode(), "ptx", name=name)
        compiled = call(
            _anabranch.compile,
            self._code,
            name=name,
            architecture=self._architecture(),
            output=_OUTPUTS[target],
            options=self._options._nvrtc_options(),
            name_expressions=list(name_expressions),
            cache=not self._options.no_cache,
        )
        if logs is not None and compiled.log:
            logs.write(compiled.log)
        mapping = {expression: compiled.kernel_name(expression) for expression in name_expressions}
        code = compiled.ptx.encode() if compiled.ptx is not None else compiled.binary
        return ObjectCode._init(code, target, name=name, symbol_mapping=mapping)

    def _architecture(self) -> str | None:
        if self._options.arch is not None:
            return self._options.arch.replace("compute_", "sm_")
        from ._device import Device

        device = Device()
        # The software device runs PTX for any generation.
        return f"sm_{device.arch}" if device._library.backend == "cuda" else None

    @property
    def backend(self) -> CompilerBackendType:
        """What compiles the program: NVRTC, or the driver."""
        return CompilerBackendType.NVRTC if self._code_type == "c++" else CompilerBackendType.DRIVER

    def __repr__(self) -> str:
        return f"<Program backend='{self.backend}'>"
