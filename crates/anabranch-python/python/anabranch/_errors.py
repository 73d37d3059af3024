"""The exceptions of the package."""

from __future__ import annotations

# `typing` would take half of the time to import this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class AnabranchError(RuntimeError):
    """An error of a call: what was asked for, where, why it failed, and what helps.

    ``status`` is the driver's code, or the one that it returns for the same mistake, and ``name`` its name, such as
    "CUDA_ERROR_INVALID_VALUE". ``is_asynchronous`` says that work which was submitted earlier failed, and not this call;
    ``is_sticky`` that the context is lost. What a host function has raised is the ``__cause__``.
    """

    status: int
    name: str | None
    operation: str
    place: str | None
    detail: str | None
    hint: str | None
    log: str | None
    is_asynchronous: bool
    is_sticky: bool

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self._details = details
        known = details or {}
        self.status = known.get("status", 999)
        self.name = known.get("name")
        self.operation = known.get("operation", "")
        self.place = known.get("place")
        self.detail = known.get("detail")
        self.hint = known.get("hint")
        self.log = known.get("log")
        self.is_asynchronous = known.get("is_asynchronous", False)
        self.is_sticky = known.get("is_sticky", False)

    def __reduce__(self) -> tuple[type[AnabranchError], tuple[Any, ...]]:
        return type(self), (self.args[0], self._details)


class OutOfMemoryError(AnabranchError, MemoryError):
    """There is not enough memory on the device, or that can be pinned."""


class CompileError(AnabranchError):
    """A compiler or an assembler has rejected its input. ``log`` says why."""


OUT_OF_MEMORY = 2


def make(kind: str, message: str, details: dict[str, Any]) -> AnabranchError:
    """The exception for an error of the library."""
    if details["status"] == OUT_OF_MEMORY:
        return OutOfMemoryError(message, details)
    if kind == "compile":
        return CompileError(message, details)
    return AnabranchError(message, details)
