"""The devices that numbers stand for, and the current one of each thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import anabranch

from ._errors import CUDARuntimeError, of_runtime

if TYPE_CHECKING:
    from anabranch.raw import Raw

INVALID_DEVICE = 101


class _Current(threading.local):
    number: int | None = None


class _Known:
    """What was asked for before, and does not change."""

    devices: tuple[anabranch.Device, ...] = ()
    first: int = 0
    contexts: dict[int, anabranch.Context] = {}
    raw: dict[int, Raw] = {}


_CURRENT = _Current()


@of_runtime
def devices() -> tuple[anabranch.Device, ...]:
    """All devices of the back end of the default device: the GPUs if there are any, or else the software devices."""
    if not _Known.devices:
        default = anabranch.default_device()
        known = tuple(device for device in anabranch.devices() if device.backend == default.backend)
        _Known.first = known.index(default)
        _Known.devices = known
    return _Known.devices


def device(number: int) -> anabranch.Device:
    """The device with that number."""
    known = devices()
    if not 0 <= number < len(known):
        raise CUDARuntimeError(INVALID_DEVICE)
    return known[number]


def current() -> int:
    """The number of the current device of this thread: at first the default device."""
    number = _CURRENT.number
    if number is None:
        if not _Known.devices:
            devices()
        return _Known.first
    return number


def set_current(number: int) -> None:
    """Changes the current device of this thread."""
    device(number)
    _CURRENT.number = number


@contextlib.contextmanager
def within(number: int) -> Iterator[None]:
    """Makes a device current within ``with``. Makes no call."""
    former = _CURRENT.number
    _CURRENT.number = number
    try:
        yield
    finally:
        _CURRENT.number = former


def context(number: int | None = None) -> anabranch.Context:
    """The primary context of a device, or of the current one."""
    number = current() if number is None else number
    known = _Known.contexts.get(number)
    return _open_context(number) if known is None else known


@of_runtime
def _open_context(number: int) -> anabranch.Context:
    return _Known.contexts.setdefault(number, device(number).context())


def raw(number: int | None = None) -> Raw:
    """The driver's calls for a device, or for the current one."""
    number = current() if number is None else number
    known = _Known.raw.get(number)
    if known is None:
        known = _Known.raw[number] = context(number).raw
    return known
