"""Handles of the driver."""

from __future__ import annotations

import operator
from typing import Any


def handle_of(value: Any, what: str) -> int | None:
    """The handle that a number or a pointer of ctypes stands for. ``None`` for null pointers."""
    if value is None:
        return None
    # Pointers of ctypes have their address in `value`.
    if type(value).__module__ == "ctypes":
        value = value.value
        return None if value is None else operator.index(value)
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is a handle, an int or None, and not {type(value).__name__}") from None
