"""Devices and streams that are current within ``with``."""

from __future__ import annotations

from types import TracebackType

from .._anabranch import _restoring
from . import _runtime
from ._device import Device
from ._runtime import DeviceLike
from ._stream import Stream


class ScopedDevice:
    """Makes a device the default one of the process, and the current one of the thread, within ``with``.

    `device` is the device, and `saved_device` the former default device.
    """

    def __init__(self, device: DeviceLike) -> None:
        """`device` is as for `get_device`, which looks it up at once."""
        self.device = _runtime.get_device(device)
        self.saved_device: Device | None = None
        # What was so before each block, innermost last. Replaced as a whole, as the last thing that is done.
        self._before: tuple[tuple[Device, tuple[Device, ...]], ...] = ()

    def __enter__(self) -> Device:
        runtime, before = self.device.runtime, self._before
        former = (runtime.default_device, tuple(runtime.current._devices))
        try:
            self.saved_device = former[0]
            self._before = (*before, former)
            if self.device.is_cuda:
                runtime.current.push(self.device)
            runtime.default_device = self.device
            return self.device
        except BaseException:
            # A signal handler has raised it, and `with` does not call `__exit__` then.
            if len(self._before) > len(before):
                self._put_back(len(before))
                self._before = before
            raise

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        before = self._before
        if not before:
            return
        self._put_back(len(before) - 1)
        # Last, and without a call, so that this is called again only if it is not done.
        self._before = before[:-1]

    @_restoring
    def _put_back(self, blocks: int) -> None:
        """Puts back what was so before the block with that number."""
        default, current = self._before[blocks]
        runtime, depth = self.device.runtime, len(current)
        if self.device.is_cuda:
            # The former ones stay, as the program may have replaced one.
            del runtime.current._devices[depth:]
        else:
            runtime.current._devices[max(depth - 1, 0) :] = current[-1:]
        runtime.default_device = default


class ScopedStream:
    """Makes a stream the current one of its device, and that device the default one, within ``with``.

    `stream` is the stream, `device` its device, and `saved_stream` the former current stream of that device. Without a stream,
    nothing changes.
    """

    def __init__(self, stream: Stream | None, sync_enter: bool = True, sync_exit: bool = False) -> None:
        """With `sync_enter`, the stream waits for the former one; with `sync_exit`, the former one waits for it at the end."""
        self.stream = stream
        self.sync_enter = sync_enter
        self.sync_exit = sync_exit
        self._is_ending = False
        if stream is not None:
            self.device = stream.device
            self.device_scope = ScopedDevice(self.device)

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            self.saved_stream = self.device.stream
            blocks = len(self.device_scope._before)
            try:
                self.device_scope.__enter__()
                self.device.set_stream(self.stream, self.sync_enter)
                self._is_ending = False
                return self.stream
            except BaseException:
                if len(self.device_scope._before) > blocks:
                    self._is_ending = True
                    self.__exit__(None, None, None)
                raise
        return self.stream

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.stream is None:
            return
        if not self._is_ending:
            # Once, whatever it raises: this is called again then.
            self._is_ending = True
            self.device.set_stream(self.saved_stream, self.sync_exit)
        self.device._stream = self.saved_stream
        scope = self.device_scope
        before = scope._before
        scope._put_back(len(before) - 1)
        # Last, and without a call, so that this is called again only if it is not done.
        self._is_ending, scope._before = False, before[:-1]
