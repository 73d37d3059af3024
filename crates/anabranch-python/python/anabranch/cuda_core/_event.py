"""Events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _anabranch
from .._errors import AnabranchError
from . import _state
from ._utils.classes import CheckedOptions, Uncopied, optional_bool
from ._utils.cuda_utils import CUDAError, call, check_argument, check_or_create_options, describe, failed

if TYPE_CHECKING:
    from ._context import Context
    from ._device import Device

__all__ = ["Event", "EventOptions"]

NOT_READY = 600
INVALID_HANDLE = 400
INTERPROCESS_BYTES = 64


@dataclass(slots=True)
class EventOptions(CheckedOptions):
    """How an event is made: whether it measures time, whether the host sleeps while it waits for it instead of asking
    again and again, and whether other processes can use it.
    """

    timing_enabled: bool | None = False
    blocking_sync: bool | None = False
    ipc_enabled: bool | None = False

    _checks = {"timing_enabled": optional_bool, "blocking_sync": optional_bool, "ipc_enabled": optional_bool}


@dataclass(slots=True)
class FormerEventOptions(CheckedOptions):
    """`EventOptions` of `cuda.core.experimental`."""

    enable_timing: bool | None = False
    busy_waited_sync: bool | None = False
    ipc_enabled: bool | None = False

    _checks = {"enable_timing": optional_bool, "busy_waited_sync": optional_bool, "ipc_enabled": optional_bool}

    def _today(self) -> EventOptions:
        return EventOptions(self.enable_timing, not self.busy_waited_sync, self.ipc_enabled)


def _options_of(options: Any) -> EventOptions:
    checked: Any = check_or_create_options(EventOptions, options, "Event options", accepts=(FormerEventOptions,))
    return checked._today() if isinstance(checked, FormerEventOptions) else checked


class IPCEventDescriptor:
    """What another process needs to open an event. It can be pickled."""

    _reserved: bytes
    _is_blocking_sync: bool

    def __init__(self, *arg: Any, **kwargs: Any) -> None:
        raise RuntimeError("IPCEventDescriptor objects cannot be instantiated directly. Please use Event APIs.")

    @staticmethod
    def _init(reserved: bytes, is_blocking_sync: bool) -> IPCEventDescriptor:
        descriptor = IPCEventDescriptor.__new__(IPCEventDescriptor)
        descriptor._reserved, descriptor._is_blocking_sync = reserved, is_blocking_sync
        return descriptor

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IPCEventDescriptor):
            return NotImplemented
        return self._reserved == other._reserved

    def __hash__(self) -> int:
        return hash(self._reserved)

    def __reduce__(self) -> tuple[Any, ...]:
        return IPCEventDescriptor._init, (self._reserved, self._is_blocking_sync)


class Event(Uncopied):
    """A point in the work of a stream. `Stream.record` and `Device.create_event` make events.

    ``later - earlier`` is the time between two events in milliseconds.
    """

    _inner: _anabranch.Event | None
    _context: Context
    _handle_value: int
    _is_timing: bool
    _is_blocking: bool
    _is_ipc: bool
    _descriptor: IPCEventDescriptor | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("Event objects cannot be instantiated directly. Please use Stream APIs (record).")

    @classmethod
    def _init(cls, context: Context, options: Any, *, is_bound: bool) -> Event:
        timing = blocking = interprocess = False
        if options is not None:
            chosen = _options_of(options)
            timing, blocking = bool(chosen.timing_enabled), bool(chosen.blocking_sync)
            interprocess = bool(chosen.ipc_enabled)
        if interprocess and not is_bound:
            raise TypeError("IPC-enabled events must be bound; use Stream.record for creation.")
        if interprocess and timing:
            raise TypeError("IPC-enabled events cannot use timing.")
        create = context._open().create_event
        inner = call(create, timing=timing, blocking_sync=blocking, interprocess=interprocess)
        return cls._of(inner, context, blocking=blocking, interprocess=interprocess)

    @classmethod
    def _of(cls, inner: _anabranch.Event, context: Context, *, blocking: bool, interprocess: bool) -> Event:
        event = cls.__new__(cls)
        event._inner, event._context, event._handle_value = inner, context, inner.handle
        event._is_timing, event._is_blocking, event._is_ipc = inner.is_timing, blocking, interprocess
        event._descriptor = None
        return event

    def _open(self) -> _anabranch.Event:
        if self._inner is None:
            raise RuntimeError("Event has been closed")
        return self._inner

    @property
    def anabranch_event(self) -> _anabranch.Event:
        """The event of the package."""
        return self._open()

    def close(self) -> None:
        """Destroys the event. Waits for it that are queued still happen."""
        inner, self._inner = self._inner, None
        if inner is not None:
            call(inner.close)

    @property
    def is_closed(self) -> bool:
        """Whether the event is closed."""
        return self._inner is None

    @property
    def handle(self) -> int:
        """The handle of the driver, or 0 if the event is closed."""
        return 0 if self._inner is None else self._handle_value

    @property
    def ipc_descriptor(self) -> IPCEventDescriptor:
        """What another process needs to open the event. Raises `RuntimeError` if it was made without ``ipc_enabled``."""
        inner = self._open()
        if not self._is_ipc:
            raise RuntimeError("Event is not IPC-enabled")
        if self._descriptor is None:
            self._descriptor = IPCEventDescriptor._init(call(inner.interprocess_handle), self._is_blocking)
        return self._descriptor

    @classmethod
    def from_ipc_descriptor(cls, ipc_descriptor: IPCEventDescriptor) -> Event:
        """An event of another process, in the current context."""
        found = len(check_argument("ipc_descriptor", ipc_descriptor, IPCEventDescriptor)._reserved)
        if found < INTERPROCESS_BYTES:
            message = f"IPC event descriptor reserved field is {found} bytes; expected at least {INTERPROCESS_BYTES}"
            raise ValueError(message)
        context = _state.current_context()
        inner = call(context._open().open_event, ipc_descriptor._reserved[:INTERPROCESS_BYTES])
        event = cls._of(inner, context, blocking=ipc_descriptor._is_blocking_sync, interprocess=True)
        # What was opened cannot be described again.
        event._descriptor = ipc_descriptor
        event._is_timing = False
        return event

    @property
    def is_ipc_enabled(self) -> bool:
        """Whether other processes can use the event."""
        self._open()
        return self._is_ipc

    @property
    def is_timing_enabled(self) -> bool:
        """Whether the event measures time."""
        self._open()
        return self._is_timing

    @property
    def is_timing_disabled(self) -> bool:
        """Whether the event measures no time. A name of `cuda.core.experimental`."""
        return not self.is_timing_enabled

    @property
    def is_blocking_sync(self) -> bool:
        """Whether the host sleeps while it waits for the event."""
        self._open()
        return self._is_blocking

    @property
    def is_sync_busy_waited(self) -> bool:
        """Whether the host asks again and again while it waits. A name of `cuda.core.experimental`."""
        return not self.is_blocking_sync

    def sync(self) -> None:
        """Waits until the work before the event is complete. Ctrl-C ends the wait."""
        inner = self._inner
        if inner is None:
            inner = self._open()
        try:
            inner.synchronize()
        except AnabranchError as error:
            raise failed(error) from error

    @property
    def is_done(self) -> bool:
        """Whether the work before the event is complete. An event that was never recorded is done."""
        inner = self._inner
        if inner is None:
            inner = self._open()
        try:
            return inner.query()
        except AnabranchError as error:
            raise failed(error) from error

    @property
    def device(self) -> Device:
        """The device."""
        from ._device import Device

        self._open()
        return Device(self._context._device_id)

    @property
    def context(self) -> Context:
        """The context."""
        self._open()
        return self._context

    def __sub__(self, other: object) -> float:
        if not isinstance(other, Event):
            return NotImplemented
        end, start = self._open(), other._open()
        try:
            return end.elapsed_since(start)
        except AnabranchError as error:
            raise _subtraction_error(self, other, error) from error

    def __isub__(self, other: object) -> Any:
        return NotImplemented

    def __rsub__(self, other: object) -> Any:
        return NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return self.handle == other.handle

    def __hash__(self) -> int:
        return self.handle

    def __repr__(self) -> str:
        return f"<Event handle={self.handle:#x}>"


def _subtraction_error(end: Event, start: Event, error: AnabranchError) -> Exception:
    if error.status == NOT_READY:
        return RuntimeError(
            "One or both events have not completed; use Event.sync(), Stream.sync(), or Device.sync() to wait for the "
            "events to complete before subtracting them."
        )
    if error.status != INVALID_HANDLE:
        return CUDAError(describe(error))
    if not (end._is_timing and start._is_timing):
        return RuntimeError(
            "Both Events must be created with timing enabled in order to subtract them; use "
            "EventOptions(timing_enabled=True) when creating both events."
        )
    return RuntimeError(
        "Both Events must be recorded before they can be subtracted; use Stream.record() to record both events to a stream."
    )
