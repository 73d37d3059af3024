"""Checks of arguments, with the exceptions of CuPy."""

from __future__ import annotations

import operator
import sys
from typing import Any


def require(value: object, expected: type, name: str) -> None:
    """Refuses an argument of another type. Objects of CuPy's class of the name are taken, too."""
    if not isinstance(value, expected) and not is_of_cupy(value, expected):
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


# As in CuPy, fractions of numbers are cut off, but not of addresses.


def integer(value: Any) -> int:
    """A number of any size."""
    if not hasattr(value, "__int__"):
        raise TypeError("an integer is required")
    return int(value)


def c_int(value: Any, name: str = "int") -> int:
    """A number that C keeps in 32 bits, in a type of that name."""
    number = integer(value)
    if not -(1 << 31) <= number < 1 << 31:
        raise OverflowError(f"value too large to convert to {name}")
    return number


def c_size(value: Any) -> int:
    """A number of bytes."""
    number = integer(value)
    if number < 0:
        raise OverflowError("can't convert negative value to size_t")
    if number >= 1 << 64:
        raise OverflowError("Python int too large to convert to C unsigned long")
    return number


def c_long(value: Any) -> int:
    """A distance in bytes, which may be negative."""
    return _in_64_bits(integer(value), "long")


def address(value: Any) -> int:
    """An address or a handle."""
    if not hasattr(value, "__index__"):
        raise TypeError("an integer is required")
    return _in_64_bits(operator.index(value), "ssize_t")


def _in_64_bits(number: int, name: str) -> int:
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"Python int too large to convert to C {name}")
    return number


def refuse_to_copy(self: object) -> tuple[Any, ...]:
    """``__reduce__`` of objects that end what they stand for: a copy would end that of the original."""
    raise TypeError(f"objects of the class {type(self).__name__} can be neither copied nor pickled")
