"""The errors of CuPy, and how those of the package become them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from anabranch import AnabranchError

from ._arguments import c_int
from ._codes import CODES

_P = ParamSpec("_P")
_R = TypeVar("_R")

UNRECOGNIZED = "unrecognized error code"


class CUDARuntimeError(RuntimeError):
    """An error of a call: ``status`` is the code of the CUDA runtime, and the text has its name and meaning.

    The error of the package, which says more, is its ``__cause__``.
    """

    __module__ = "anabranch.cupy.cuda.runtime"

    def __init__(self, status: int) -> None:
        self.status = status
        name, meaning = CODES.get(c_int(status, "cudaError_t"), (UNRECOGNIZED, UNRECOGNIZED))
        super().__init__(f"{name}: {meaning}")

    def __reduce__(self) -> tuple[type[CUDARuntimeError], tuple[Any, ...]]:
        return type(self), (self.status,)


class CUDADriverError(RuntimeError):
    """An error of a call for a kernel or a module: ``status`` is the code of the CUDA driver."""

    __module__ = "anabranch.cupy.cuda.driver"

    def __init__(self, status: int, name: str | None = None) -> None:
        self.status = status
        self._name = name
        known = CODES.get(c_int(status))
        meaning = known[1] if known else UNRECOGNIZED
        super().__init__(f"{name or UNRECOGNIZED}: {meaning}")

    def __reduce__(self) -> tuple[type[CUDADriverError], tuple[Any, ...]]:
        return type(self), (self.status, self._name)


def of_runtime(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function whose errors of the package are raised as those of the CUDA runtime. Their codes are the same."""

    @functools.wraps(function)
    def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            return function(*arguments, **keywords)
        except AnabranchError as error:
            raise CUDARuntimeError(error.status) from error

    return call


def of_driver(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function whose errors of the package are raised as those of the CUDA driver."""

    @functools.wraps(function)
    def call(*arguments: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            return function(*arguments, **keywords)
        except AnabranchError as error:
            raise CUDADriverError(error.status, error.name) from error

    return call
