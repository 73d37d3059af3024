"""Takes the place of ``cupy.cuda.stream``: streams, events, and the current stream."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import anabranch
from anabranch import _contained
from anabranch._anabranch import _free_later, _restoring

from . import _devices, runtime
from ._arguments import address, c_int, is_of_cupy, refuse_to_copy, wrong_type
from ._current import current
from ._errors import CUDARuntimeError, of_runtime
from ._native import DEFAULT_STREAMS, LEGACY, default_stream, require_handle
from ._runtime_streams import INVALID_VALUE, INVALIDATED

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Event", "ExternalStream", "Stream", "get_current_stream", "get_elapsed_time"]

_S = TypeVar("_S", bound="_BaseStream")

_PROTOCOL = "__cuda_stream__"

_MODES = {
    runtime.streamCaptureModeGlobal: "global",
    runtime.streamCaptureModeThreadLocal: "thread_local",
    runtime.streamCaptureModeRelaxed: "relaxed",
}


class Event:
    """A point in the work of a stream of the current device.

    Args:
        block: Waits of the host sleep instead of spin.
        disable_timing: The event measures no time, and costs less.
        interprocess: Other processes can open it. It must not measure time.
    """

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        if interprocess and not disable_timing:
            raise ValueError("Timing must be disabled for interprocess events")
        self._native = _create_event(block, disable_timing, interprocess)

    __reduce__ = refuse_to_copy

    @property
    def ptr(self) -> int:
        """The handle of the driver."""
        return self._native.handle

    @property
    def done(self) -> bool:
        """Whether the work is complete. False also after an error, as in CuPy, unless it is one that is reported once."""
        return _is_done(self._native)

    # Frequent methods have no decorator, which costs more than the call.

    def record(self, stream: Any = None) -> None:
        """Records the event behind all work of a stream until now, or of the current stream."""
        try:
            self._native.record(_native_of(get_current_stream() if stream is None else stream))
        except anabranch.AnabranchError as error:
            raise CUDARuntimeError(error.status) from error

    def synchronize(self) -> None:
        """Waits until the work is complete. Ctrl-C ends the wait."""
        try:
            self._native.synchronize()
        except anabranch.AnabranchError as error:
            raise CUDARuntimeError(error.status) from error


def _is_done(native: anabranch.Stream | anabranch.Event) -> bool:
    try:
        return native.query()
    except anabranch.AnabranchError as error:
        # The exception of a function that the package has called in the stream: nobody would get it otherwise.
        if error.is_asynchronous and not error.is_sticky:
            raise CUDARuntimeError(error.status) from error
        return False


@of_runtime
def _create_event(block: bool, disable_timing: bool, interprocess: bool) -> anabranch.Event:
    return _devices.context().create_event(
        timing=not disable_timing, blocking_sync=bool(block), interprocess=bool(interprocess)
    )


@of_runtime
def get_elapsed_time(start_event: Any, end_event: Any) -> float:
    """The time between two events in milliseconds."""
    start, end = _event_of(start_event, "start_event"), _event_of(end_event, "end_event")
    return end.elapsed_since(start)


def get_current_stream(device_id: int = -1) -> _BaseStream:
    """The current stream of this thread for a device, or for the current device."""
    return current().get(device_id if device_id == -1 else c_int(device_id))


class _BaseStream:
    """A stream by its handle, and the number of its device: -1 for default streams, and if it is not known."""

    def __init__(self, ptr: Any, device_id: int) -> None:
        # `ExternalStream` takes any object, and only numbers can be used.
        self._ptr: Any = ptr
        self.device_id = device_id
        # What keeps the stream of another library.
        self._owner: object = None
        # The package's streams for the handle, by the numbers of devices.
        self._natives: dict[int, anabranch.Stream] = {}
        # The one that does not depend on the current device.
        self._own: anabranch.Stream | None = None

    __reduce__ = refuse_to_copy

    @property
    def ptr(self) -> int:
        """The handle of the driver."""
        if self._own is not None:
            return self._own.handle
        ptr: int = self._ptr
        return ptr

    @property
    def _native(self) -> anabranch.Stream:
        """The package's stream. A default stream is that of the current device."""
        if self._own is not None:
            return self._own
        number = _devices.current() if self.device_id == -1 else self.device_id
        ptr = address(self._ptr)
        if ptr in DEFAULT_STREAMS:
            return default_stream(ptr, number)
        if isinstance(self._owner, anabranch.Stream):
            return self._owner
        native = self._natives.get(number)
        if native is None:
            native = _devices.context(number).stream_from_handle(require_handle(ptr), self._owner)
            self._natives[number] = native
        return native

    @property
    @of_runtime
    def anabranch_stream(self) -> anabranch.Stream:
        """The stream of the package, which whoever uses this stream keeps. For a default stream, that of the current device."""
        return self._native

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _BaseStream):
            return self is other or self.ptr == other.ptr
        return False

    def __hash__(self) -> int:
        return hash(self.ptr)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream for other libraries: a version, and the handle."""
        return (0, self.ptr)

    def __enter__(self: _S) -> _S:
        streams, device_id = current(), _require_current(self.device_id)
        former = streams.state
        try:
            streams.state = former.entered_by(self, device_id)
            return self
        except BaseException:
            # A signal handler has raised it, and `with` does not call `__exit__` then.
            streams.state = former
            raise

    @_restoring
    def __exit__(self, *args: object) -> None:
        streams = current()
        former = streams.state.left()
        # Last, so that it is done once.
        streams.state = former

    def use(self: _S) -> _S:
        """Makes this the current stream of the thread. The end of a ``with`` undoes it."""
        _require_current(self.device_id)
        current().set(self)
        return self

    @property
    def done(self) -> bool:
        """Whether all work is complete. False also after an error, as in CuPy, unless it is one that is reported once."""
        return _is_done(self._native)

    def synchronize(self) -> None:
        """Waits until all work is complete. Ctrl-C ends the wait."""
        try:
            (self._own or self._native).synchronize()
        except anabranch.AnabranchError as error:
            raise CUDARuntimeError(error.status) from error

    @of_runtime
    def add_callback(self, callback: Callable[[Any, int, Any], object], arg: Any) -> None:
        """Calls a function once behind all work until now, on another thread, with this stream, a status, and ``arg``.

        The status is 0 unless the context is in error. The function must not call this module. What it raises goes to
        ``sys.unraisablehook``.
        """
        self._native.add_callback(lambda _stream, status: _contained.call_back(callback, self, (arg,), status))

    @of_runtime
    def launch_host_func(self, callback: Callable[[Any], object], arg: Any) -> None:
        """Calls a function with ``arg`` behind all work until now, on another thread; at every launch, if it is captured.

        The function must not call this module. What it raises goes to ``sys.unraisablehook``.
        """
        native = self._native
        _require_valid(native)
        native.launch_host_func(_contained.call, callback, (arg,))

    def record(self, event: Any = None) -> Any:
        """Records an event behind all work until now, or else a new one, and returns it."""
        try:
            event = Event() if event is None else event
            native = event._native if isinstance(event, Event) else _event_of(event, "event")
            native.record(self._own or self._native)
        except anabranch.AnabranchError as error:
            raise CUDARuntimeError(error.status) from error
        return event

    def wait_event(self, event: Any) -> None:
        """Lets later work wait for an event."""
        try:
            native = event._native if isinstance(event, Event) else _event_of(event, "event")
            (self._own or self._native).wait(native)
        except anabranch.AnabranchError as error:
            raise CUDARuntimeError(error.status) from error

    @of_runtime
    def begin_capture(self, mode: int | None = None) -> None:
        """Begins a capture: what is submitted until `end_capture` becomes a graph, and does not run.

        The mode is one of ``runtime.streamCaptureMode…``, by default the relaxed one.
        """
        if self._ptr in LEGACY:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        name = _MODES.get(runtime.streamCaptureModeRelaxed if mode is None else c_int(mode))
        if name is None:
            raise CUDARuntimeError(INVALID_VALUE)
        self._native.begin_capture(name)  # type: ignore[arg-type]

    @of_runtime
    def end_capture(self) -> Graph:
        """Ends the capture, and returns its graph, which can be launched."""
        from .graph import Graph

        try:
            captured = self._native.end_capture()
            return Graph._of(captured, captured.instantiate())
        finally:
            _free_later()

    @of_runtime
    def is_capturing(self) -> bool:
        """Whether the stream captures. A capture that an error has invalidated is a ``RuntimeError``."""
        native = self._native
        _require_valid(native)
        return native.is_capturing

    @property
    @of_runtime
    def is_non_blocking(self) -> bool:
        """Whether it is not ordered with the legacy default stream."""
        return self._native.is_non_blocking

    @property
    @of_runtime
    def priority(self) -> int:
        """The priority. Smaller numbers are more urgent."""
        return self._native.priority


def _require_valid(stream: anabranch.Stream) -> None:
    if stream.capture_status == "invalidated":
        raise RuntimeError(INVALIDATED)


def _require_current(device_id: int) -> int:
    """The device of a stream, which must be the current one."""
    number = _devices.current()
    if device_id not in (-1, number):
        raise RuntimeError(
            f"The device that the stream is created on ({device_id}) does not match with the current device ({number})"
        )
    return number


class Stream(_BaseStream):
    """A stream. By default, a new one of the current device, which ends with this object.

    Args:
        null: The legacy default stream, which `Stream.null` is, too.
        non_blocking: The new stream is not ordered with the legacy default stream.
        ptds: The default stream of the thread, which `Stream.ptds` is, too.
        priority: The priority of the new stream. Smaller numbers are more urgent.
    """

    null: ClassVar[Stream]
    ptds: ClassVar[Stream]

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        if null or ptds:
            super().__init__(0 if null else runtime.streamPerThread, -1)
            return
        # The handle is asked for when it is needed: the package takes more care of streams that others know.
        super().__init__(None, _devices.current())
        self._own = _create_stream(self.device_id, priority or 0, bool(non_blocking))

    @classmethod
    def from_external(cls, obj: Any) -> Stream:
        """The stream of another library, an object with the method ``__cuda_stream__``, which is kept."""
        if not hasattr(obj, _PROTOCOL):
            raise TypeError(
                f"Object of type {type(obj).__name__} does not implement the CUDA stream protocol (__cuda_stream__ method)"
            )
        stream = cls.__new__(cls)
        ptr = _described(obj)
        _BaseStream.__init__(stream, ptr, -1)
        # An object of a module of the package may end its stream, which is kept therefore, and not the object.
        ours = None if ptr in DEFAULT_STREAMS else getattr(obj, "anabranch_stream", None)
        stream._owner = ours if isinstance(ours, anabranch.Stream) else obj
        return stream


class ExternalStream(_BaseStream):
    """A stream by its handle, which has to exist as long as it is used. Deprecated: use `Stream.from_external`."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        warnings.warn(
            "ExternalStream is deprecated. Use Stream.from_external() instead to interoperate with external streams that"
            " implement the CUDA stream protocol.",
            DeprecationWarning,
            stacklevel=2,
        )
        super().__init__(ptr, device_id)


@of_runtime
def _create_stream(device_id: int, priority: int, non_blocking: bool) -> anabranch.Stream:
    return _devices.context(device_id).create_stream(priority=priority, non_blocking=non_blocking)


def _described(obj: Any) -> int:
    """The handle of a stream with ``__cuda_stream__``."""
    method = getattr(obj, _PROTOCOL)
    result = method() if callable(method) else None
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError("__cuda_stream__() must return a 2-tuple of (version, stream_ptr)")
    version, ptr = result
    if not isinstance(version, int) or not isinstance(ptr, int):
        found = f"({type(version).__name__}, {type(ptr).__name__})"
        raise TypeError(f"__cuda_stream__() must return (int, int), got {found}")
    if version != 0:
        raise TypeError(f"__cuda_stream__() returned unsupported version {version}, only version 0 is supported")
    return ptr


def _handle_of(stream: Any) -> int:
    """The handle of a stream: of this module, of CuPy, or of another library with ``__cuda_stream__``."""
    # Old streams of CuPy do not have the method.
    if isinstance(stream, _BaseStream) or is_of_cupy(stream, _BaseStream):
        ptr = address(stream.ptr)
    elif hasattr(stream, _PROTOCOL):
        ptr = _described(stream)
    else:
        raise wrong_type(stream, Stream, "stream")
    return ptr if ptr in DEFAULT_STREAMS else require_handle(ptr)


def _native_of(stream: Any) -> anabranch.Stream:
    """The package's stream of an object: of this module, of the package, or another one that `_handle_of` takes."""
    if isinstance(stream, _BaseStream):
        return stream._own or stream._native
    if isinstance(stream, anabranch.Stream):
        return stream
    ptr = _handle_of(stream)
    if ptr in DEFAULT_STREAMS:
        return default_stream(ptr, _devices.current())
    return _devices.context().stream_from_handle(ptr, stream)


def _event_of(event: Any, name: str) -> anabranch.Event:
    """The package's event of an object: of this module, of the package, or of CuPy."""
    if isinstance(event, Event):
        return event._native
    if isinstance(event, anabranch.Event):
        return event
    if not is_of_cupy(event, Event):
        raise wrong_type(event, Event, name)
    return _devices.context().event_from_handle(require_handle(address(event.ptr)), event)


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)
