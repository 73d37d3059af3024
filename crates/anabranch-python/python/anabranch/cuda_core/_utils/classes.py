"""What classes of the drop-in have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from .cuda_utils import full_name, is_number

__all__ = ["CheckedOptions", "Uncopied", "optional_bool", "optional_int"]


class Uncopied:
    """An object of which there are no copies, as in `cuda.core`: a copy would end what the original owns."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} objects can be neither copied nor pickled")


class CheckedOptions:
    """Options that are checked, and converted, whenever they are set. With slots, there are no others."""

    __slots__ = ()

    # What each field becomes. Others are taken as they are.
    _checks: ClassVar[dict[str, Callable[[Any], Any]]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        check = self._checks.get(name)
        object.__setattr__(self, name, value if check is None else check(value))


def optional_bool(value: Any) -> bool | None:
    """True, false or ``None``, and nothing that could be taken for them."""
    if value is None or isinstance(value, bool):
        return value
    raise TypeError(f"Expected bool, got {full_name(type(value))}")


def optional_int(value: Any) -> int | None:
    """The integer part of a number, or ``None``."""
    if value is None:
        return None
    if not is_number(value):
        raise TypeError(f"Expected int, got {full_name(type(value))}")
    return int(value)
