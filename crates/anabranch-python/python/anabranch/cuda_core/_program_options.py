"""Options of the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ProgramOptions"]

_Texts = str | list[str] | tuple[str, ...] | None
_Numbers = int | list[int] | tuple[int, ...] | None


@dataclass(repr=False)
class ProgramOptions:
    """How a program is compiled. ``arch`` is such as "sm_90", and that of the current device by default. The other fields
    are options of NVRTC of the same names, which its manual describes; ``None`` is the compiler's default.
    """

    name: str | None = "default_program"
    arch: str | None = None
    relocatable_device_code: bool | None = None
    extensible_whole_program: bool | None = None
    debug: bool | None = None
    lineinfo: bool | None = None
    device_code_optimize: bool | None = None
    ptxas_options: _Texts = None
    max_register_count: int | None = None
    ftz: bool | None = None
    prec_sqrt: bool | None = None
    prec_div: bool | None = None
    fma: bool | None = None
    use_fast_math: bool | None = None
    extra_device_vectorization: bool | None = None
    define_macro: Any = None
    undefine_macro: _Texts = None
    include_path: _Texts = None
    pre_include: _Texts = None
    no_source_include: bool | None = None
    std: str | None = None
    builtin_move_forward: bool | None = None
    builtin_initializer_list: bool | None = None
    disable_warnings: bool | None = None
    restrict: bool | None = None
    device_as_default_execution_space: bool | None = None
    device_int128: bool | None = None
    optimization_info: str | None = None
    no_display_error_number: bool | None = None
    diag_error: _Numbers = None
    diag_suppress: _Numbers = None
    diag_warn: _Numbers = None
    brief_diagnostics: bool | None = None
    time: str | None = None
    split_compile: int | None = None
    fdevice_syntax_only: bool | None = None
    minimal: bool | None = None
    no_cache: bool | None = None
    fdevice_time_trace: str | None = None
    device_float128: bool | None = None
    frandom_seed: str | None = None
    ofast_compile: str | None = None
    pch: bool | None = None
    create_pch: str | None = None
    use_pch: str | None = None
    pch_dir: str | None = None
    pch_verbose: bool | None = None
    pch_messages: bool | None = None
    instantiate_templates_in_pch: bool | None = None

    def __post_init__(self) -> None:
        if self.name is None:
            self.name = "default_program"
        # Fails for what is no text.
        self.name.encode()

    def as_bytes(self, backend: str, target_type: str | None = None) -> list[bytes]:
        """The options as the compiler gets them. Raises `ValueError` for another backend than "nvrtc"."""
        if str(backend).lower() != "nvrtc":
            raise ValueError(f"Unknown backend '{backend}'. Must be one of: 'nvrtc'")
        architecture = [] if self.arch is None else [f"-arch={self.arch}"]
        return [option.encode() for option in (*architecture, *self._nvrtc_options())]

    def _nvrtc_options(self) -> list[str]:
        """All but the architecture."""
        return [
            option for name, write in _WRITTEN.items() if getattr(self, name) is not None for option in write(self, name)
        ]

    def __repr__(self) -> str:
        return f"ProgramOptions(name={self.name!r}, arch={self.arch!r})"


def _flag(option: str) -> Any:
    """An option that is there or not."""
    return lambda options, name: [option] if getattr(options, name) else []


def _switch(option: str) -> Any:
    """An option that is true or false."""
    return lambda options, name: [f"{option}={str(bool(getattr(options, name))).lower()}"]


def _value(option: str) -> Any:
    """An option with a value."""
    return lambda options, name: [f"{option}={getattr(options, name)}"]


def _list(option: str, single: type = str) -> Any:
    """An option that is repeated for each value of a sequence, or is there once for one of that type. Others are ignored, as in
    `cuda.core`.
    """

    def write(options: ProgramOptions, name: str) -> list[str]:
        values = getattr(options, name)
        if isinstance(values, single):
            values = (values,)
        return [f"{option}={value}" for value in values] if isinstance(values, Sequence) else []

    return write


def _macros(options: ProgramOptions, name: str) -> list[str]:
    given = options.define_macro
    if isinstance(given, (str, tuple)):
        return [_macro(given)]
    # A list without any text or sequence is none of macros.
    if not isinstance(given, Sequence) or not any(isinstance(macro, Sequence) for macro in given):
        raise RuntimeError(f"Expected define_macro {_MACRO}, list[{_MACRO}], got {given}")
    return [_macro(macro) for macro in given]


_MACRO = "Union[str, tuple[str, str]]"


def _macro(macro: Any) -> str:
    if isinstance(macro, str):
        return f"--define-macro={macro}"
    if not isinstance(macro, tuple):
        raise RuntimeError(f"Expected define_macro {_MACRO}, got {macro}")
    if len(macro) != 2 or not all(isinstance(text, str) for text in macro):
        raise RuntimeError(f"Expected define_macro tuple[str, str], got {macro}")
    return f"--define-macro={macro[0]}={macro[1]}"


# How each field is written, in the order in which the compiler gets them.
_WRITTEN: dict[str, Any] = {
    "relocatable_device_code": _switch("--relocatable-device-code"),
    "extensible_whole_program": _flag("--extensible-whole-program"),
    "debug": _flag("--device-debug"),
    "lineinfo": _flag("--generate-line-info"),
    "device_code_optimize": _flag("--dopt=on"),
    "ptxas_options": _list("--ptxas-options"),
    "max_register_count": _value("--maxrregcount"),
    "ftz": _switch("--ftz"),
    "prec_sqrt": _switch("--prec-sqrt"),
    "prec_div": _switch("--prec-div"),
    "fma": _switch("--fmad"),
    "use_fast_math": _flag("--use_fast_math"),
    "extra_device_vectorization": _flag("--extra-device-vectorization"),
    "define_macro": _macros,
    "undefine_macro": _list("--undefine-macro"),
    "include_path": _list("--include-path"),
    "pre_include": _list("--pre-include"),
    "no_source_include": _flag("--no-source-include"),
    "std": _value("--std"),
    "builtin_move_forward": _switch("--builtin-move-forward"),
    "builtin_initializer_list": _switch("--builtin-initializer-list"),
    "disable_warnings": _flag("--disable-warnings"),
    "restrict": _flag("--restrict"),
    "device_as_default_execution_space": _flag("--device-as-default-execution-space"),
    "device_int128": _flag("--device-int128"),
    "device_float128": _flag("--device-float128"),
    "optimization_info": _value("--optimization-info"),
    "no_display_error_number": _flag("--no-display-error-number"),
    "diag_error": _list("--diag-error", int),
    "diag_suppress": _list("--diag-suppress", int),
    "diag_warn": _list("--diag-warn", int),
    "brief_diagnostics": _switch("--brief-diagnostics"),
    "time": _value("--time"),
    "split_compile": _value("--split-compile"),
    "fdevice_syntax_only": _flag("--fdevice-syntax-only"),
    "minimal": _flag("--minimal"),
    "no_cache": _flag("--no-cache"),
    "fdevice_time_trace": _value("--fdevice-time-trace"),
    "frandom_seed": _value("--frandom-seed"),
    "ofast_compile": _value("--Ofast-compile"),
    "pch": _flag("--pch"),
    "create_pch": _value("--create-pch"),
    "use_pch": _value("--use-pch"),
    "pch_dir": _value("--pch-dir"),
    "pch_verbose": _switch("--pch-verbose"),
    "pch_messages": _switch("--pch-messages"),
    "instantiate_templates_in_pch": _switch("--instantiate-templates-in-pch"),
}
