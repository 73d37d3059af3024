"""Events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._errors import AnabranchError
from . import _runtime
from ._failure import described
from ._handle import handle_of
from ._logger import log_warning

if TYPE_CHECKING:
    import ctypes

    from .._anabranch import Event as NativeEvent
    from ._runtime import DeviceLike

IPC_HANDLE_BYTES = 64


class Event:
    """A point in the work of a stream, which streams and the host can wait for."""

    class Flags:
        """The driver's flags of events."""

        DEFAULT = 0x0
        BLOCKING_SYNC = 0x1
        DISABLE_TIMING = 0x2
        INTERPROCESS = 0x4

    def __init__(
        self,
        device: DeviceLike = None,
        cuda_event: int | ctypes.c_void_p | None = None,
        enable_timing: bool = False,
        interprocess: bool = False,
    ) -> None:
        """Creates an event of a device, or uses an event of another library.

        `cuda_event` is the handle of such an event, which has to exist as long as this object. An event with `enable_timing`
        measures time, and one with `interprocess` can be opened by other processes: none does both.

        Raises ``RuntimeError`` for the device "cpu" or if the driver refuses, and ``ValueError`` for an event that should do
        both.
        """
        device = _runtime.get_device(device)
        if not device.is_cuda:
            raise RuntimeError(f"Device {device} is not a CUDA device")
        self.device = device
        self.enable_timing = enable_timing
        self.owner = cuda_event is None
        if cuda_event is not None:
            # The null handle is refused there.
            handle = handle_of(cuda_event, "cuda_event") or 0
            self._native = device.anabranch_context.event_from_handle(handle)
            return
        if interprocess and enable_timing:
            raise ValueError("The combination of 'enable_timing=True' and 'interprocess=True' is not allowed.")
        try:
            self._native = device.anabranch_context.create_event(timing=enable_timing, interprocess=interprocess)
        except AnabranchError as error:
            raise described(f"Failed to create event on device {device}", error) from error

    @property
    def anabranch_event(self) -> NativeEvent:
        """The event of the package `anabranch`."""
        return self._native

    @property
    def cuda_event(self) -> int:
        """The handle of the driver."""
        return self._native.handle

    @property
    def is_complete(self) -> bool:
        """Whether the work before the last record is complete. An event that was never recorded is complete.

        Raises ``RuntimeError`` if that work has failed, or if a capture forbids the question.
        """
        return self._native.query()

    def ipc_handle(self) -> bytes:
        """Describes the event for `event_from_ipc_handle` of another process, in 64 bytes.

        An event that was created without ``interprocess=True`` logs a warning, and is described by zeros. Raises
        ``RuntimeError`` if the device does not support it.
        """
        if self.device.is_ipc_supported is False:
            raise RuntimeError(f"Device {self.device} does not support IPC.")
        try:
            return self._native.interprocess_handle()
        except AnabranchError:
            log_warning("IPC event handle appears to be invalid. Was interprocess=True used?")
            return bytes(IPC_HANDLE_BYTES)


def event_from_ipc_handle(handle: bytes, device: DeviceLike = None) -> Event:
    """Opens an event of another process, which ``Event.ipc_handle()`` describes there.

    Raises ``RuntimeError`` if the device does not support it, or if there is no such event.
    """
    device = _runtime.get_device(device)
    if device.is_ipc_supported is False:
        raise RuntimeError(f"IPC is not supported on device {device}.")
    event = Event.__new__(Event)
    event.device, event.enable_timing, event.owner = device, False, True
    event._native = device.anabranch_context.open_event(handle)
    return event
