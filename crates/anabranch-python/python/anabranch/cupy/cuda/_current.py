"""The current streams of a thread, by CuPy's rules.

Each thread has a current stream for each device. ``with`` puts a stream on a stack of the device, and at its end makes the one
below current: what `use` has chosen meanwhile, and what it had chosen before, is forgotten.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from . import _devices

if TYPE_CHECKING:
    from .stream import _BaseStream

_T = TypeVar("_T")


def _default() -> _BaseStream:
    from .stream import Stream

    chosen = os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0")
    return Stream.ptds if chosen.strip() not in ("", "0") else Stream.null


def _replaced(items: tuple[_T, ...], index: int, item: _T) -> tuple[_T, ...]:
    return (*items[:index], item, *items[index + 1 :])


class _State(NamedTuple):
    """The current streams of all devices, the stacks of the devices, and the devices whose stacks `with` has entered.

    It is replaced as a whole, so that a signal handler that raises an exception leaves nothing half done.
    """

    current: tuple[_BaseStream, ...]
    stacks: tuple[tuple[_BaseStream, ...], ...]
    entered: tuple[int, ...]

    def with_current(self, stream: _BaseStream, device_id: int) -> _State:
        """With another current stream of a device."""
        return self._replace(current=_replaced(self.current, device_id, stream))

    def entered_by(self, stream: _BaseStream, device_id: int) -> _State:
        """With a stream on the stack of a device, which is current for its own device, or for the current one."""
        stacks = _replaced(self.stacks, device_id, (*self.stacks[device_id], stream))
        state = _State(self.current, stacks, (*self.entered, device_id))
        return state.with_current(stream, _device_of(stream))

    def left(self) -> _State:
        """Without the stream that was entered last."""
        device_id = self.entered[-1]
        stack = self.stacks[device_id][:-1]
        state = _State(self.current, _replaced(self.stacks, device_id, stack), self.entered[:-1])
        return state.with_current(stack[-1], _device_of(stack[-1]))


def _device_of(stream: _BaseStream) -> int:
    return _devices.current() if stream.device_id == -1 else stream.device_id


class _Streams(threading.local):
    """Made anew for each thread."""

    def __init__(self) -> None:
        count = len(_devices.devices())
        default = _default()
        self.state = _State((default,) * count, ((default,),) * count, ())

    def get(self, device_id: int) -> _BaseStream:
        """The current stream of a device, or of the current one."""
        return self.state.current[_devices.current() if device_id == -1 else device_id]

    def set(self, stream: _BaseStream) -> None:
        """Makes a stream current for its device, or for the current one if it is of all devices."""
        self.state = self.state.with_current(stream, _device_of(stream))


_STREAMS: _Streams | None = None
_FIRST: dict[str, _Streams] = {}


def current() -> _Streams:
    """The current streams of this thread. The first call of the process asks for the devices."""
    global _STREAMS
    if _STREAMS is None:
        # Without a lock: a signal handler, or a destructor, may call this meanwhile on the same thread. The first one counts.
        _STREAMS = _FIRST.setdefault("streams", _Streams())
    return _STREAMS
