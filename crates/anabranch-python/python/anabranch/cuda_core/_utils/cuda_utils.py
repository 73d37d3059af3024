"""Exceptions, options and checks of arguments, with the texts of `cuda.core`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from ..._errors import AnabranchError, CompileError

__all__ = ["CUDAError", "ComputeCapability", "NVRTCError"]

# Without the sign.
LONG_BITS, INT_BITS = 63, 31
LARGEST_SIZE = (1 << 64) - 1

_T = TypeVar("_T")
_P = ParamSpec("_P")


class CUDAError(Exception):
    """A call failed. The text is the name of the driver's status, a colon, and what happened.

    The `AnabranchError`, with the number of the status and a hint, is the ``__cause__``.
    """


class NVRTCError(CUDAError):
    """The compiler has rejected its input, and said why in the text."""


class ComputeCapability(NamedTuple):
    """The generation of a GPU. The software device has (0, 0)."""

    major: int
    minor: int


def describe(error: AnabranchError) -> str:
    """The text of an error of the package in the form of `CUDAError`."""
    if error.name is None:
        return f"UNEXPECTED ERROR CODE: {error.status}"
    return f"{error.name}: {error}".replace(f" [{error.name} ({error.status})]", "", 1)


def failed(error: AnabranchError) -> CUDAError:
    """What an error of the package is here. Frequent calls raise it themselves: `call` costs more than they do."""
    if isinstance(error, CompileError):
        return NVRTCError(f"{describe(error)}, compilation log:\n\n{error.log or ''}")
    return CUDAError(describe(error))


def call(function: Callable[_P, _T], /, *arguments: _P.args, **keywords: _P.kwargs) -> _T:
    """Calls the package, whose errors become `CUDAError`."""
    try:
        return function(*arguments, **keywords)
    except AnabranchError as error:
        raise failed(error) from error


def read_int(owner: object, name: str) -> int:
    """A number that is an attribute of an object of the package, whose errors become `CUDAError`."""
    return int(call(getattr, owner, name))


def read_bool(owner: object, name: str) -> bool:
    """The same for what is true or false."""
    return bool(call(getattr, owner, name))


def check_or_create_options(cls: type[_T], options: Any, description: str = "", *, accepts: tuple[type, ...] = ()) -> _T:
    """Options of a class: such an object, a dictionary of its fields, or ``None`` for the defaults."""
    if options is None:
        return cls()
    if isinstance(options, (cls, *accepts)):
        accepted: Any = options
        return accepted  # type: ignore[no-any-return]
    if isinstance(options, dict):
        return cls(**options)
    raise TypeError(
        f"The {description} must be provided as an object of type {cls.__name__} or as a dict with valid {description}. "
        f"The provided object is '{options!r}'."
    )


def cast_to_3_tuple(label: str, extents: Any) -> tuple[int, int, int]:
    """Three extents of an int, or of a tuple of up to three."""
    given = (extents,) if isinstance(extents, int) else extents
    expected = f"{label} must be an int, or a tuple with up to 3 ints"
    if not isinstance(given, tuple):
        raise ValueError(f"{expected} (got {type(extents)})")
    if len(given) > 3:
        raise ValueError(f"{expected} (got tuple with length {len(given)})")
    if not all(isinstance(extent, int) for extent in given):
        raise ValueError(f"{expected} (got {extents})")
    if any(extent < 1 for extent in given):
        plural = "" if isinstance(extents, int) else "s"
        raise ValueError(f"{label} value{plural} must be >= 1 (got {extents})")
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z


def parse_fill_value(value: Any) -> bytes:
    """The pattern of a fill: an int of one byte, or 1, 2 or 4 bytes."""
    if isinstance(value, int):
        if value < 0:
            raise OverflowError("can't convert negative value to uint8_t")
        if value > 255:
            raise OverflowError("value too large to convert to uint8_t")
        return bytes([value])
    pattern = bytes(memoryview(value))
    if len(pattern) not in (1, 2, 4):
        raise ValueError(f"value must be 1, 2, or 4 bytes, got {len(pattern)}")
    return pattern


def full_name(cls: type) -> str:
    """The name of a class, with its module if it is not one of Python's own."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def check_argument(name: str, value: object, cls: type[_T]) -> _T:
    """The argument, if it is of that class."""
    if not isinstance(value, cls):
        message = f"Argument '{name}' has incorrect type (expected {full_name(cls)}, got {type(value).__name__})"
        raise TypeError(message)
    return value


def is_number(value: object) -> bool:
    """Whether a value becomes an int where one is expected."""
    return hasattr(type(value), "__int__") or hasattr(type(value), "__index__")


def check_int(name: str, value: Any) -> int:
    """The argument as an int: the integer part of a number."""
    return int(value) if is_number(value) else check_argument(name, value, int)


def size_of(value: Any) -> int:
    """A number of bytes or elements, as `size_t` of C takes it."""
    number = _integer(value)
    if number < 0:
        raise OverflowError("can't convert negative value to size_t")
    if number > LARGEST_SIZE:
        raise OverflowError("Python int too large to convert to C unsigned long")
    return number


def c_int(value: Any) -> int:
    """A number as `int` of C takes it."""
    number = _integer(value)
    if not -(1 << LONG_BITS) <= number < 1 << LONG_BITS:
        raise OverflowError("Python int too large to convert to C long")
    if not -(1 << INT_BITS) <= number < 1 << INT_BITS:
        raise OverflowError("value too large to convert to int")
    return number


def _integer(value: Any) -> int:
    # Integers of C are made by ``__int__`` alone.
    if not hasattr(type(value), "__int__"):
        raise TypeError("an integer is required")
    return int(value)


def assert_type(value: object, cls: type[_T]) -> _T:
    """The value, if it is of that class."""
    if not isinstance(value, cls):
        raise TypeError(f"Expected type {cls.__name__}, but got {type(value).__name__}")
    return value
