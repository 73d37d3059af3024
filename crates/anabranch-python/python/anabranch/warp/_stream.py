"""Streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._errors import AnabranchError
from . import _runtime
from ._device import Device
from ._event import Event
from ._failure import described
from ._handle import handle_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._anabranch import Stream as NativeStream

HIGHEST_PRIORITY = -1
STREAM_CAPTURE_IMPLICIT = 906


class Stream:
    """A queue of work that runs in order.

    It is ordered with the legacy default stream, as all streams that Warp creates.
    """

    _native: NativeStream

    def __init__(self, device: Device | str | None = None, priority: int = 0, **kwargs: Any) -> None:
        """Creates a stream of a device, or uses a stream of another library.

        `priority` is 0, or -1 for urgent work; other numbers are clamped to these. ``cuda_stream=`` is the handle of a stream of
        another library, which has to exist as long as this object; 0 or ``None`` stands for the legacy default stream.

        Raises ``RuntimeError`` for the device "cpu", before ``init()`` without a `Device`, or if the driver refuses, and
        ``TypeError`` for a priority that is no integer.
        """
        unknown = kwargs.keys() - {"cuda_stream"}
        if unknown:
            raise TypeError(f"Stream has no argument {min(unknown)!r}")
        if _runtime.runtime is None:
            if not isinstance(device, Device):
                raise RuntimeError(
                    "A Device object is required when creating a stream before or during Warp initialization"
                )
        else:
            device = _runtime.runtime.get_device(device)
        if not device.is_cuda:
            raise RuntimeError(f"Device {device} is not a CUDA device")
        self._set_up(device, owner="cuda_stream" not in kwargs)
        if not self.owner:
            self._use(kwargs["cuda_stream"], None)
            return
        if not isinstance(priority, int):
            raise TypeError("Stream priority must be an integer.")
        priority = max(HIGHEST_PRIORITY, min(priority, 0))
        try:
            self._native = device.anabranch_context.create_stream(priority=priority, non_blocking=False)
        except AnabranchError as error:
            raise described(f"Failed to create stream on device {device}", error) from error

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy would stand for another stream than the original while a branch or a body is captured.
        raise TypeError("a stream can be neither copied nor pickled")

    def _set_up(self, device: Device, owner: bool) -> None:
        self.device = device
        self.owner = owner
        self._cached_event: Event | None = None
        self._is_blocking: bool | None = None
        self._is_null = False

    def _use(self, cuda_stream: Any, keeper: object) -> None:
        """Stands for a stream of another library, and keeps an object as long as anything uses the stream."""
        handle = handle_of(cuda_stream, "cuda_stream")
        context = self.device.anabranch_context
        self._is_null = not handle
        self._native = context.stream_from_handle(handle, keeper) if handle else context.legacy_stream()

    @property
    def anabranch_stream(self) -> NativeStream:
        """The stream of the package `anabranch`, with more methods: launches, allocations, ``await``.

        While `capture_if` or `capture_while` call a function, it is the stream that captures the branch or the body.
        """
        return self._native

    @property
    def cuda_stream(self) -> int | None:
        """The handle of the driver, or ``None`` for the legacy default stream."""
        return None if self._is_null else self._native.handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream for other libraries: a version, and the handle."""
        return 0, self.cuda_stream or 0

    @property
    def cached_event(self) -> Event:
        """An event that `wait_stream` records if it is passed none."""
        if self._cached_event is None:
            self._cached_event = Event(self.device)
        return self._cached_event

    def record_event(self, event: Event | None = None, external: bool = False) -> Event:
        """Records an event, or a new one, behind all work until now, and returns it.

        While the stream captures, an external record becomes a node, which records the event at each launch. So do records of
        events that measure time. Raises ``RuntimeError`` if the event is of another device.
        """
        if event is None:
            event = Event(self.device)
        elif event.device is not self.device and event.device != self.device:
            raise RuntimeError(
                f"Event from device {event.device} cannot be recorded on stream from device {self.device}"
            )
        if (external or event.enable_timing) and self._is_in_capture:
            self._native.record(event._native, external=True)
        else:
            # Without a keyword, which costs more than the record.
            self._native.record(event._native)
        return event

    def wait_event(self, event: Event, external: bool = False) -> None:
        """Lets later work wait for an event, without blocking the host.

        While the stream captures, an external wait becomes a node, which waits at each launch for the latest record.
        """
        if external and self._is_in_capture:
            self._native.wait(event.anabranch_event, external=True)
        else:
            self._native.wait(event.anabranch_event)
        self._note_capture()

    def wait_stream(self, other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
        """Lets later work wait for the work of another stream until now, without blocking the host.

        Records an event in that stream: the one that is passed, or its `cached_event`.
        """
        if event is None:
            event = other_stream.cached_event
        if external and other_stream._is_in_capture:
            other_stream._native.record(event.anabranch_event, external=True)
        else:
            other_stream._native.record(event.anabranch_event)
        self.wait_event(event, external)

    @property
    def is_complete(self) -> bool:
        """Whether all work is complete.

        Raises ``RuntimeError`` if work has failed, or while the stream captures, which invalidates the capture.
        """
        return self._native.query()

    @property
    def is_capturing(self) -> bool:
        """Whether the stream captures. False if the driver does not say it, because earlier work has failed."""
        try:
            return self._native.is_capturing
        except AnabranchError as error:
            # Nor does it say it of the legacy default stream while a blocking stream captures.
            if error.is_asynchronous or error.is_sticky or error.status == STREAM_CAPTURE_IMPLICIT:
                return False
            raise

    @property
    def is_blocking(self) -> bool:
        """Whether the stream is ordered with the legacy default stream."""
        if self._is_blocking is None:
            self._is_blocking = not self._native.is_non_blocking
        return self._is_blocking

    @property
    def priority(self) -> int:
        """The priority. Smaller numbers are more urgent."""
        return self._native.priority

    @property
    def _is_in_capture(self) -> bool:
        """Whether the stream captures, and so records and waits can be external."""
        return bool(_runtime.get().captures) and self.is_capturing

    def _note_capture(self) -> None:
        """Remembers that the stream may have joined a capture, which has to wait for it at the end."""
        captures = _runtime.get().captures
        if captures and self.is_capturing:
            graph = captures.get(self._native.capture_id or 0)
            if graph is not None:
                graph._joined[self] = None

    def _capture_with(self, native: NativeStream, function: Callable[[], object]) -> None:
        """Calls a function while this stands for another stream, which captures a branch or a body."""
        former = self._native
        try:
            self._native = native
            function()
        finally:
            # Without a call, before which a signal handler could raise an exception.
            self._native = former


def get_stream(device: Device | str | None = None) -> Stream:
    """The current stream of a device, or of the default device.

    Raises ``RuntimeError`` for the device "cpu".
    """
    return _runtime.get_device(device).stream


def set_stream(stream: Stream, device: Device | str | None = None, sync: bool = False) -> None:
    """Makes a stream the current one of a device, or of the default device: see ``Device.set_stream``."""
    _runtime.get_device(device).set_stream(stream, sync=sync)


def record_event(event: Event | None = None, external: bool = False) -> Event:
    """Records an event in the current stream of the default device: see ``Stream.record_event``."""
    return get_stream().record_event(event, external=external)


def wait_event(event: Event, external: bool = False) -> None:
    """Lets the current stream of the default device wait for an event: see ``Stream.wait_event``."""
    get_stream().wait_event(event, external=external)


def wait_stream(other_stream: Stream, event: Event | None = None, external: bool = False) -> None:
    """Lets the current stream of the default device wait for another stream: see ``Stream.wait_stream``."""
    get_stream().wait_stream(other_stream, event=event, external=external)
