"""Calls of functions whose exceptions nobody can catch: they go to ``sys.unraisablehook``."""

from __future__ import annotations

from ._anabranch import _write_unraisable

# `typing` would take half of the time to import this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def call(function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    """Calls a function."""
    try:
        function(*arguments)
    except BaseException as error:
        _write_unraisable(error, function)


def call_back(function: Callable[..., object], stream: Any, arguments: tuple[Any, ...], status: int) -> None:
    """Calls a function with a stream, its status, and other arguments."""
    call(function, (stream, status, *arguments))
