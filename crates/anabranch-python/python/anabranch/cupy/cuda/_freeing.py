"""Freeing memory when its object ends, wherever that is."""

from __future__ import annotations

import sys
from collections.abc import Callable

from anabranch import AnabranchError, _contained

from . import _devices
from ._constants import streamCaptureModeRelaxed
from ._errors import CUDARuntimeError, of_runtime

_INVALID_VALUE = 1
_NOT_INITIALIZED = 3
# What a later call can do: host functions must not call the driver, and captures do not let everything be freed.
_NOT_PERMITTED = 800
_IN_CAPTURE = 900
_TRANSIENT = (_NOT_PERMITTED, *range(_IN_CAPTURE, 909))

# What could not be freed where it was dropped.
_LATER: list[tuple[int, Callable[[], None]]] = []


def free(device: int, call: Callable[[], None]) -> None:
    """Frees memory of a device, or lets the next allocation or the end of a capture do it."""
    if sys.is_finalizing():
        return
    try:
        with _devices.within(device):
            _call_relaxed(call)
    except CUDARuntimeError as error:
        # The child of a fork has no driver, and leaks.
        if error.status in _TRANSIENT:
            _LATER.append((device, call))
        elif error.status != _NOT_INITIALIZED:
            raise


@of_runtime
def _call_relaxed(call: Callable[[], None]) -> None:
    """Calls a function that invalidates no capture of another stream."""
    streams = _devices.raw().streams
    former = streams.exchange_capture_mode(streamCaptureModeRelaxed)
    try:
        call()
    finally:
        streams.exchange_capture_mode(former)


@of_runtime
def free_async(address: int, stream: int) -> None:
    """Frees memory in stream order. Memory from before a capture of the stream cannot be freed until it ends."""
    raw = _devices.raw()
    # For the legacy default stream, this fails if freeing would invalidate the capture of another stream.
    is_capturing = raw.streams.capture_status(stream) != 0
    try:
        raw.memory.free_async(address, stream)
    except AnabranchError as error:
        if is_capturing and error.status == _INVALID_VALUE:
            raise CUDARuntimeError(_IN_CAPTURE) from error
        raise


def free_later() -> None:
    """Frees what could not be freed before. Errors are said where those of ``__del__`` are."""
    for _ in range(len(_LATER)):
        try:
            later = _LATER.pop(0)
        except IndexError:
            return
        _contained.call(free, later)
