"""The current streams of a thread, by CuPy's rules.

Each thread has a current stream for each device. ``with`` puts a stream on a stack of the device, and at its end makes the one
below current: what `use` has chosen meanwhile, and what it had chosen before, is forgotten.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from . import _devices

if TYPE_CHECKING:
    from .stream import _BaseStream


def _default() -> _BaseStream:
    from .stream import Stream

    chosen = os.environ.get("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "0")
    return Stream.ptds if chosen.strip() not in ("", "0") else Stream.null


class _Streams(threading.local):
    """Made anew for each thread."""

    def __init__(self) -> None:
        count = len(_devices.devices())
        default = _default()
        self._current = [default] * count
        self._stacks = [[default] for _ in range(count)]
        # The devices of the stacks that `with` has entered.
        self._entered: list[int] = []

    def get(self, device_id: int) -> _BaseStream:
        """The current stream of a device, or of the current one."""
        return self._current[_devices.current() if device_id == -1 else device_id]

    def set(self, stream: _BaseStream) -> None:
        """Makes a stream current for its device, or for the current one if it is of all devices."""
        self._current[_devices.current() if stream.device_id == -1 else stream.device_id] = stream

    def enter(self, stream: _BaseStream, device_id: int) -> None:
        """Puts a stream on the stack of a device."""
        stack, former = self._stacks[device_id], self.get(device_id)
        height, depth = len(stack), len(self._entered)
        try:
            stack.append(stream)
            self._entered.append(device_id)
            self.set(stream)
        except BaseException:
            # A signal handler has raised it, and `with` does not call `leave` then.
            del stack[height:], self._entered[depth:]
            self._current[device_id] = former
            raise

    def leave(self) -> None:
        """Takes away the stream that was entered last."""
        stack = self._stacks[self._entered[-1]]
        # Where a signal handler raises an exception, all is done nevertheless.
        try:
            stack.pop()
        finally:
            try:
                self._entered.pop()
            finally:
                self.set(stack[-1])


_STREAMS: _Streams | None = None
_FIRST: dict[str, _Streams] = {}


def current() -> _Streams:
    """The current streams of this thread. The first call of the process asks for the devices."""
    global _STREAMS
    if _STREAMS is None:
        # Without a lock: a signal handler, or a destructor, may call this meanwhile on the same thread. The first one counts.
        _STREAMS = _FIRST.setdefault("streams", _Streams())
    return _STREAMS
