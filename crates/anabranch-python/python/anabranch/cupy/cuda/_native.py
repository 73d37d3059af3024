"""The package's objects for what CuPy's interface passes: handles, and objects that have one."""

from __future__ import annotations

from typing import Any

import anabranch

from . import _devices
from ._errors import CUDARuntimeError

LEGACY = (0, 1)
PER_THREAD = 2
DEFAULT_STREAMS = (*LEGACY, PER_THREAD)

_INVALID_HANDLE = 400
# Handles are addresses, and nothing is in the first page.
_FIRST_HANDLE = 4096


def default_stream(handle: int | None, number: int) -> anabranch.Stream:
    """The default stream of a device that a handle stands for."""
    context = _devices.context(number)
    return context.per_thread_stream() if handle == PER_THREAD else context.legacy_stream()


def require_handle(handle: int) -> int:
    """Refuses a number that cannot be a handle. Drivers trust all others."""
    if handle < _FIRST_HANDLE:
        raise CUDARuntimeError(_INVALID_HANDLE)
    return handle
