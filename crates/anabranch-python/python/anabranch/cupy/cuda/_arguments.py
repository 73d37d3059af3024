"""Checks of arguments, with the exceptions of CuPy."""

from __future__ import annotations

import operator
import sys
from typing import Any


def require(value: object, expected: type, name: str) -> None:
    """Refuses an argument of another type."""
    if not isinstance(value, expected):
        raise wrong_type(value, expected, name)


def wrong_type(value: object, expected: type, name: str) -> TypeError:
    """The error for an argument of another type than the one that is expected."""
    return TypeError(f"Argument '{name}' has incorrect type (expected {_name(expected)}, got {_name(type(value))})")


def _name(kind: type) -> str:
    """The name of a type as CuPy says it: of its own types with the module."""
    module = _module_of_cupy(kind)
    return f"{module}.{kind.__name__}" if module.startswith("cupy.") else kind.__name__


def _module_of_cupy(kind: type) -> str:
    return kind.__module__.removeprefix("anabranch.")


def is_of_cupy(value: object, kind: type) -> bool:
    """Whether an object is of the class of CuPy whose place a class takes. CuPy is not imported for it."""
    original = getattr(sys.modules.get(_module_of_cupy(kind)), kind.__name__, None)
    return isinstance(original, type) and isinstance(value, original)


def address(value: Any) -> int:
    """An address or a handle: an integer."""
    if not hasattr(value, "__index__"):
        raise TypeError("an integer is required")
    return operator.index(value)


def refuse_to_copy(self: object) -> tuple[Any, ...]:
    """``__reduce__`` of objects that end what they stand for: a copy would end that of the original."""
    raise TypeError(f"objects of the class {type(self).__name__} can be neither copied nor pickled")
