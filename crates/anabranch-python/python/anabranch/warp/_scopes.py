"""Devices and streams that are current within ``with``."""

from __future__ import annotations

from types import TracebackType

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
        self._saved_current: Device | None = None

    def __enter__(self) -> Device:
        runtime = self.device.runtime
        self.saved_device = runtime.default_device
        if not self.device.is_cuda:
            self._saved_current = runtime.current.get()
        depth = len(runtime.current._devices)
        try:
            if self.device.is_cuda:
                runtime.current.push(self.device)
        except BaseException:
            # A signal handler has raised it, and `with` does not call `__exit__` then.
            del runtime.current._devices[depth:]
            raise
        runtime.default_device = self.device
        return self.device

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        runtime = self.device.runtime
        try:
            if self.device.is_cuda:
                runtime.current.pop()
            else:
                runtime.current.set(self._saved_current)
        finally:
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
            self.device_scope.__enter__()
            try:
                self.saved_stream = self.device.stream
                self.device.set_stream(self.stream, self.sync_enter)
            except BaseException:
                self.device_scope.__exit__(None, None, None)
                raise
        return self.stream

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.stream is None:
            return
        try:
            self.device.set_stream(self.saved_stream, self.sync_exit)
        finally:
            try:
                # Also if the wait fails, or a signal handler raises an exception.
                self.device._stream = self.saved_stream
            finally:
                self.device_scope.__exit__(exc_type, exc_value, traceback)
