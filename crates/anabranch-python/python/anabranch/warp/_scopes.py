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
        # What the thread had made current.
        self._saved_current: tuple[Device, ...] = ()

    def __enter__(self) -> Device:
        runtime = self.device.runtime
        saved_device, saved_current = runtime.default_device, tuple(runtime.current._devices)
        try:
            self.saved_device, self._saved_current = saved_device, saved_current
            if self.device.is_cuda:
                runtime.current.push(self.device)
            runtime.default_device = self.device
            return self.device
        except BaseException:
            # A signal handler has raised it, and `with` does not call `__exit__` then.
            self._put_back()
            raise

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._put_back()

    @_restoring
    def _put_back(self) -> None:
        runtime, depth = self.device.runtime, len(self._saved_current)
        if self.device.is_cuda:
            # The former ones stay, as the program may have replaced one.
            del runtime.current._devices[depth:]
        else:
            runtime.current._devices[max(depth - 1, 0) :] = self._saved_current[-1:]
        if self.saved_device is not None:
            runtime.default_device = self.saved_device


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
        if stream is not None:
            self.device = stream.device
            self.device_scope = ScopedDevice(self.device)

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            saved_stream = self.device.stream
            self.saved_stream = saved_stream
            self.device_scope.__enter__()
            try:
                self.device.set_stream(self.stream, self.sync_enter)
                return self.stream
            except BaseException:
                self._put_back()
                raise
        return self.stream

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.stream is None:
            return
        try:
            self.device.set_stream(self.saved_stream, self.sync_exit)
        finally:
            # Also if the wait fails.
            self._put_back()

    @_restoring
    def _put_back(self) -> None:
        self.device._stream = self.saved_stream
        self.device_scope._put_back()
