"""Freeing memory when its object ends, wherever that is."""

from __future__ import annotations

import sys
from collections.abc import Callable

from . import _devices
from ._errors import CUDARuntimeError

_NOT_INITIALIZED = 3
_NOT_PERMITTED = 800
# What could not be freed where it was dropped: in host functions, which must not call the driver.
_LATER: list[tuple[int, Callable[[], None]]] = []


def free(device: int, call: Callable[[], None]) -> None:
    """Frees memory of a device, or lets a later allocation do it."""
    if sys.is_finalizing():
        return
    try:
        with _devices.within(device):
            call()
    except CUDARuntimeError as error:
        # The child of a fork has no driver, and leaks.
        if error.status == _NOT_PERMITTED:
            _LATER.append((device, call))
        elif error.status != _NOT_INITIALIZED:
            raise


def free_later() -> None:
    """Frees what could not be freed before."""
    for _ in range(len(_LATER)):
        try:
            device, call = _LATER.pop(0)
        except IndexError:
            return
        free(device, call)
