"""Waits of the host. Ctrl-C ends them."""

from __future__ import annotations

from .._errors import AnabranchError
from . import _runtime
from ._event import Event
from ._failure import described
from ._runtime import DeviceLike
from ._stream import Stream


def synchronize() -> None:
    """Waits until all work of all devices is complete. Devices that were not used yet are left alone.

    Raises ``RuntimeError`` if a capture is in progress on a device. If work has failed, it waits for the other devices, and then
    raises the first error.
    """
    failure: AnabranchError | None = None
    for device in _runtime.get().cuda_devices:
        if not device.has_context:
            continue
        if device.is_capturing:
            raise RuntimeError(f"Cannot synchronize device {device} while graph capture is active")
        try:
            device.anabranch_context.synchronize()
        except AnabranchError as error:
            failure = failure or described(f"Failed to synchronize device {device}", error)
    if failure is not None:
        raise failure


def synchronize_device(device: DeviceLike = None) -> None:
    """Waits until all work of a device is complete. Does nothing for the device "cpu".

    Raises ``RuntimeError`` if a capture is in progress on the device, or if work has failed.
    """
    device = _runtime.get_device(device)
    if not device.is_cuda:
        return
    if device.is_capturing:
        raise RuntimeError(f"Cannot synchronize device {device} while graph capture is active")
    try:
        device.anabranch_context.synchronize()
    except AnabranchError as error:
        raise described(f"Failed to synchronize device {device}", error) from error


def synchronize_stream(stream_or_device: Stream | DeviceLike = None) -> None:
    """Waits until all work of a stream, or of the current stream of a device, is complete.

    Raises ``RuntimeError`` if a capture is in progress on the stream's device, or if work has failed.
    """
    if isinstance(stream_or_device, Stream):
        stream = stream_or_device
    else:
        device = _runtime.get_device(stream_or_device)
        if not device.is_cuda:
            return
        stream = device.stream
    if stream.device.is_capturing:
        raise RuntimeError("Cannot synchronize stream while graph capture is active")
    try:
        stream.anabranch_stream.synchronize()
    except AnabranchError as error:
        raise described(f"Failed to synchronize stream on device {stream.device}", error) from error


def synchronize_event(event: Event) -> None:
    """Waits until the work before the last record of an event is complete.

    Raises ``RuntimeError`` if a capture is in progress on the event's device, or if work has failed.
    """
    if event.device.is_capturing:
        raise RuntimeError("Cannot synchronize event while graph capture is active")
    try:
        event.anabranch_event.synchronize()
    except AnabranchError as error:
        raise described(f"Failed to synchronize event on device {event.device}", error) from error


def get_event_elapsed_time(start_event: Event, end_event: Event, synchronize: bool = True) -> float:
    """The time between two recorded events in milliseconds. Both were created with ``enable_timing=True``.

    Waits for the second one, unless `synchronize` is false: both are complete then. Raises ``RuntimeError`` if one of them does
    not measure time, was not recorded, or is not complete.
    """
    if synchronize:
        synchronize_event(end_event)
    return end_event.anabranch_event.elapsed_since(start_event.anabranch_event)
