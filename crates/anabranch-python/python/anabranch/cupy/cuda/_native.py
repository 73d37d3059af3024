"""The package's objects for what CuPy's interface passes: handles, and objects that have one."""

from __future__ import annotations

import threading

from typing import Any

import anabranch

from . import _devices
from ._errors import CUDARuntimeError

LEGACY = (0, 1)
PER_THREAD = 2
DEFAULT_STREAMS = (*LEGACY, PER_THREAD)


class _Default(threading.local):
    """The default streams of devices, which a thread has asked for."""

    def __init__(self) -> None:
        self.legacy: dict[int, anabranch.Stream] = {}
        self.per_thread: dict[int, anabranch.Stream] = {}


_DEFAULT = _Default()

_INVALID_HANDLE = 400
# Handles are addresses, and nothing is in the first page.
_FIRST_HANDLE = 4096


def default_stream(handle: int | None, number: int) -> anabranch.Stream:
    """The default stream of a device that a handle stands for."""
    known = _DEFAULT.per_thread if handle == PER_THREAD else _DEFAULT.legacy
    stream = known.get(number)
    if stream is None:
        context = _devices.context(number)
        stream = context.per_thread_stream() if handle == PER_THREAD else context.legacy_stream()
        known[number] = stream
    return stream


def require_handle(handle: int) -> int:
    """Refuses a number that cannot be a handle. Drivers trust all others."""
    if handle < _FIRST_HANDLE:
        raise CUDARuntimeError(_INVALID_HANDLE)
    return handle
