"""Devices."""

from __future__ import annotations

import operator
import uuid
from typing import TYPE_CHECKING, Any, NoReturn

from .. import _anabranch
from . import _state
from ._context import Context
from ._device_properties import DeviceProperties
from ._event import Event, EventOptions
from ._stream import IsStreamType, Stream, StreamOptions, default_stream
from ._utils.cuda_utils import ComputeCapability, CUDAError, assert_type, call

if TYPE_CHECKING:
    from ._memory import Buffer, MemoryResource
    from .graph import GraphBuilder

__all__ = ["Device"]


class Device:
    """A device by its number, or the current one. Each thread has one object for a device.

    Numbers count the GPUs if there are any, and otherwise the software devices. A thread begins by `set_current`.

    Raises `ValueError` for a number of no device.
    """

    _device_id: int
    _library: _anabranch.Device
    _shared: _state.Initialized

    def __new__(cls, device_id: Device | int | None = None) -> Device:
        if isinstance(device_id, Device):
            device_id = device_id._device_id
        if device_id is None:
            context = _state.thread.context
            device_id = _state.default_device_id() if context is None else context._device_id
        number = operator.index(device_id)
        if number < 0:
            raise ValueError(f"device_id must be >= 0, got {number}")
        devices = cls.get_all_devices()
        if number >= len(devices):
            raise ValueError(f"device_id must be within [0, {len(devices)}), got {number}")
        return devices[number]

    @classmethod
    def get_all_devices(cls) -> tuple[Device, ...]:
        """The devices that there are, as objects of this thread."""
        known = _state.thread.devices.get(cls)
        if known is None:
            known = tuple(cls._of(number, library) for number, library in enumerate(_state.devices()))
            _state.thread.devices[cls] = known
        return known

    @classmethod
    def _of(cls, number: int, library: _anabranch.Device) -> Device:
        device = super().__new__(cls)
        device._device_id, device._library = number, library
        device._shared = _state.thread.initialized.setdefault(number, _state.Initialized())
        return device

    def _initialized(self) -> Context:
        if self._shared.context is None:
            raise CUDAError(
                f"Device {self._device_id} is not yet initialized, perhaps you forgot to call .set_current() first?"
            )
        return self._shared.context

    @property
    def anabranch_device(self) -> _anabranch.Device:
        """The device of the package."""
        return self._library

    @property
    def device_id(self) -> int:
        """The number."""
        return self._device_id

    @property
    def name(self) -> str:
        """The product's name."""
        return str(self._library.properties["name"])

    @property
    def pci_bus_id(self) -> str:
        """The address on the PCI bus, such as "0000:01:00.0". The software device has none: an empty text."""
        return self._library.properties["pci_bus_id"] or ""

    @property
    def uuid(self) -> str:
        """What identifies the device, also in other processes."""
        return str(uuid.UUID(bytes=self._library.uuid))

    @property
    def properties(self) -> DeviceProperties:
        """Limits and abilities."""
        return DeviceProperties._init(self._library)

    @property
    def compute_capability(self) -> ComputeCapability:
        """The generation: major and minor number. The software device has (0, 0)."""
        return ComputeCapability(*self._library.properties["compute_capability"])

    @property
    def arch(self) -> str:
        """The generation as a text, such as "90"."""
        return "{}{}".format(*self.compute_capability)

    def can_access_peer(self, peer: Device | int) -> bool:
        """Whether this device can use memory of another one."""
        return call(self._library.can_access_peer, Device(peer)._library)

    def set_current(self, ctx: Context | None = None) -> Context | None:
        """Makes the device current in this thread, with its primary context or with that of the argument. With an argument,
        the context that was current before is returned, if there was one.

        Raises `RuntimeError` for a context of another device.
        """
        thread, shared = _state.thread, self._shared
        if ctx is None:
            primary = call(self._library.context)
            if shared.context is None or shared.context.is_closed or shared.context._open() != primary:
                shared.context = Context._of(primary, self._device_id)
            thread.context = shared.context
            return None
        context = assert_type(ctx, Context)
        if context._device_id != self._device_id:
            raise RuntimeError(
                f"the provided context was created on the device with id={context._device_id}, which is different from the "
                f"target id={self._device_id}"
            )
        context._open()
        former = thread.context
        thread.context = shared.context = context
        return former

    @property
    def context(self) -> Context:
        """The context that `set_current` has made current in this thread."""
        return self._initialized()

    @property
    def memory_resource(self) -> MemoryResource:
        """Where `allocate` has memory from: the device's default pool, unless another one was set."""
        shared = self._shared
        if shared.memory_resource is None:
            from ._memory import DeviceMemoryResource

            shared.memory_resource = DeviceMemoryResource(self._device_id)
        return shared.memory_resource

    @memory_resource.setter
    def memory_resource(self, mr: MemoryResource) -> None:
        from ._memory import MemoryResource

        self._shared.memory_resource = assert_type(mr, MemoryResource)

    @property
    def default_stream(self) -> Stream:
        """The legacy default stream, or the thread's, as `CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM` says."""
        return default_stream()

    def create_context(self, options: Any = None) -> NoReturn:
        """Raises `ValueError`: contexts with a part of a device's multiprocessors are not there."""
        if options is None:
            raise ValueError("options with device resources must be provided to create a green context")
        raise ValueError("green contexts are not supported: use the primary context, by set_current()")

    def create_stream(self, obj: IsStreamType | None = None, options: StreamOptions | None = None) -> Stream:
        """A new stream, or that of another library's object with ``__cuda_stream__``, which is kept.

        Raises `ValueError` for a priority that the device does not have, or if both arguments are given.
        """
        return Stream._init(obj, options, self._device_id, self._initialized())

    def create_event(self, options: EventOptions | None = None) -> Event:
        """A new event, which is not recorded yet."""
        return Event._init(self._initialized(), options, is_bound=False)

    def allocate(self, size: int, *, stream: Stream | GraphBuilder) -> Buffer:
        """Allocates so many bytes in the order of a stream, by `memory_resource`."""
        self._initialized()
        return self.memory_resource.allocate(size, stream=stream)

    def sync(self) -> None:
        """Waits until all work of the device is complete. Ctrl-C ends the wait."""
        call(self._initialized()._open().synchronize)

    def create_graph_builder(self) -> GraphBuilder:
        """A builder with a stream of its own."""
        from .graph import GraphBuilder

        return GraphBuilder._init(self.create_stream())

    def __int__(self) -> int:
        return self._device_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self._device_id == other._device_id

    def __hash__(self) -> int:
        return hash((Device, self._device_id))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._device_id,)

    def __repr__(self) -> str:
        return f"<Device {self._device_id} ({self.name})>"
