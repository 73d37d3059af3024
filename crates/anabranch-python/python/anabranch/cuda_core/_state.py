"""The devices of the process, and what each thread has made current."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .. import _anabranch
from ._utils.cuda_utils import CUDAError, call

if TYPE_CHECKING:
    from ._context import Context
    from ._device import Device
    from ._memory import MemoryResource

_DEVICES: list[_anabranch.Device] = []
_DEFAULT = 0


class Initialized:
    """What the objects of a device have in common in a thread."""

    def __init__(self) -> None:
        self.context: Context | None = None
        self.memory_resource: MemoryResource | None = None


class _Thread(threading.local):
    """What belongs to a thread."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew."""
        self.context: Context | None = None
        self.devices: dict[type, tuple[Device, ...]] = {}
        self.initialized: dict[int, Initialized] = {}
        # Default streams, by the id of the context and the kind.
        self.default_streams: dict[tuple[int, str], _anabranch.Stream] = {}


thread = _Thread()


def devices() -> list[_anabranch.Device]:
    """The devices that numbers count: those of the back end of the package's default device."""
    if not _DEVICES:
        default = call(_anabranch.default_device)
        found = [device for device in call(_anabranch.devices) if device.backend == default.backend]
        # Without a lock: a signal handler, or a destructor, may call this meanwhile on the same thread. All find the same.
        global _DEFAULT
        _DEFAULT = found.index(default)
        _DEVICES[:] = found
    return _DEVICES


def default_device_id() -> int:
    """The number of the package's default device."""
    devices()
    return _DEFAULT


def device_id_of(device: _anabranch.Device) -> int:
    """The number of a device."""
    try:
        return devices().index(device)
    except ValueError:
        message = f"CUDA_ERROR_INVALID_DEVICE: {device.name} is not among the devices that are numbered here"
        raise CUDAError(message) from None


def current_context() -> Context:
    """The context that is current in this thread."""
    if thread.context is None:
        message = "CUDA_ERROR_INVALID_CONTEXT: no context is current in this thread; call Device.set_current() first"
        raise CUDAError(message)
    return thread.context


def default_stream(context: _anabranch.Context, kind: str) -> _anabranch.Stream:
    """The default stream of a kind, "legacy" or "per_thread", of a context for this thread."""
    key = (context.id, kind)
    stream = thread.default_streams.get(key)
    if stream is None:
        stream = call(context.legacy_stream if kind == "legacy" else context.per_thread_stream)
        thread.default_streams[key] = stream
    return stream
