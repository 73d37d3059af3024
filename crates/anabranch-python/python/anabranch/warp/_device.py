"""Devices."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._anabranch import Context
    from .._anabranch import Device as NativeDevice
    from ._graph import Graph
    from ._runtime import Runtime
    from ._stream import Stream


class Device:
    """A device: "cpu", or one that takes the place of a CUDA device, which is a GPU or the software device.

    Devices are compared with each other or with an alias: ``device == "cuda:0"``.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        runtime: Runtime,
        alias: str,
        ordinal: int = -1,
        is_primary: bool = False,
        native: NativeDevice | None = None,
        context: Context | None = None,
    ) -> None:
        """Is called by `init` and `map_cuda_device`; use `get_device`."""
        self.runtime = runtime
        self.alias = alias
        self.ordinal = ordinal
        self.is_primary = is_primary
        self.captures: dict[Stream, Graph] = {}
        self._native = native
        self._context = context
        self._stream: Stream | None = None
        self._null_stream: Stream | None = None
        properties: dict[str, Any] = {} if native is None else native.properties
        capabilities = properties.get("capabilities", ())
        major, minor = properties.get("compute_capability", (0, 0))
        self._name: str | None = properties.get("name")
        self.arch: int = 10 * major + minor
        self.sm_count: int = properties.get("multiprocessor_count", 0)
        self.max_shared_memory_per_block: int = properties.get("max_shared_memory_per_block_optin", 0)
        self.is_uva: bool = "unified_addressing" in capabilities
        self.is_managed_memory_supported: bool = "managed_memory" in capabilities
        self.is_concurrent_managed_access_supported: bool = "concurrent_managed_access" in capabilities
        self.is_mempool_supported: bool = "memory_pools" in capabilities
        self.is_mempool_enabled: bool = self.is_mempool_supported
        self.is_ipc_supported: bool | None = platform.system() == "Linux" and "interprocess_events" in capabilities
        uuid: bytes | None = properties.get("uuid")
        self.uuid = None if uuid is None else _uuid_text(uuid)
        self.pci_bus_id: str | None = _bus_text(properties.get("pci_bus_id"))

    @property
    def name(self) -> str:
        """The name of the product, or of the processor."""
        if self._name is None:
            # This starts a process.
            self._name = platform.processor() or "CPU"
        return self._name

    @property
    def is_cpu(self) -> bool:
        """Whether it is the device "cpu", which has no streams."""
        return self.ordinal < 0

    @property
    def is_cuda(self) -> bool:
        """Whether it takes the place of a CUDA device: a GPU, or the software device."""
        return self.ordinal >= 0

    @property
    def anabranch_device(self) -> NativeDevice:
        """The device of the package `anabranch`. Raises ``RuntimeError`` for the device "cpu"."""
        if self._native is None:
            raise RuntimeError(f"Device {self} is not a CUDA device")
        return self._native

    @property
    def anabranch_context(self) -> Context:
        """The context of the package `anabranch`. Raises ``RuntimeError`` for the device "cpu"."""
        if self._context is None:
            self._context = self.anabranch_device.context()
        return self._context

    @property
    def context(self) -> int | None:
        """The handle of the context, which is opened by this. ``None`` for the device "cpu"."""
        return None if self.is_cpu else self.anabranch_context.handle

    @property
    def has_context(self) -> bool:
        """Whether the context is open."""
        return self._context is not None

    @property
    def stream(self) -> Stream:
        """The current stream. Assigning it is `set_stream`.

        Raises ``RuntimeError`` for the device "cpu".
        """
        if self._stream is None:
            from ._stream import Stream

            if self.is_cpu:
                raise RuntimeError(f"Device {self} is not a CUDA device")
            self._stream = Stream(self)
        return self._stream

    @stream.setter
    def stream(self, stream: Stream) -> None:
        self.set_stream(stream)

    @property
    def has_stream(self) -> bool:
        """Whether there is a current stream: from the first use of the device on."""
        return self._stream is not None or self.has_context

    @property
    def null_stream(self) -> Stream | None:
        """The legacy default stream. ``None`` for the device "cpu"."""
        if self._null_stream is None and self.is_cuda:
            from ._stream import Stream

            self._null_stream = Stream(self, cuda_stream=None)
        return self._null_stream

    def set_stream(self, stream: Stream, sync: bool = True) -> None:
        """Makes a stream the current one, which calls without a stream use.

        With `sync`, later work of the stream waits for the work of the former one until now. Raises ``RuntimeError`` if the
        stream is of another device, or for the device "cpu".
        """
        if not self.is_cuda:
            raise RuntimeError(f"Device {self} is not a CUDA device")
        if stream.device is not self and stream.device != self:
            raise RuntimeError(f"Stream from device {stream.device} cannot be used on device {self}")
        former = self.stream
        # Blocking streams are ordered with the legacy default stream anyway.
        if sync and former is not stream and former.cuda_stream is not None:
            stream._native.wait(former._native)
            stream._note_capture()
        self._stream = stream

    @property
    def is_capturing(self) -> bool:
        """Whether a capture that `capture_begin` has begun is in progress on the device, or the current stream captures."""
        return self.is_cuda and (bool(self.captures) or self.stream.is_capturing)

    @property
    def total_memory(self) -> int:
        """The memory of the device, in bytes."""
        if self._native is None:
            return _host_pages("SC_PHYS_PAGES")
        total: int = self._native.properties["total_memory"]
        return total

    @property
    def free_memory(self) -> int:
        """The free memory of the device, in bytes."""
        if self._native is None:
            return _host_pages("SC_AVPHYS_PAGES")
        return self.anabranch_context.memory_info()[0]

    def make_current(self) -> None:
        """Makes it the device that the alias "cuda" stands for in this thread. Does nothing for the device "cpu"."""
        if self.is_cuda:
            self.runtime.current.set(self)

    def __str__(self) -> str:
        return self.alias

    def __repr__(self) -> str:
        return f"'{self.alias}'"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self is self.runtime.get_current_cuda_device() if other == "cuda" else other == self.alias
        if not isinstance(other, Device) or self is other:
            return self is other
        return self.is_cuda and other.is_cuda and self.anabranch_context == other.anabranch_context


def _uuid_text(uuid: bytes) -> str:
    digits = uuid.hex()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _bus_text(address: str | None) -> str | None:
    """An address such as "0000:01:00.0" in the form of `cudaDeviceGetPCIBusId`, with a domain of eight digits."""
    if address is None:
        return None
    domain, bus, slot = address.split(":")
    return f"{int(domain, 16):08X}:{bus.upper()}:{slot.partition('.')[0].upper()}"


def _host_pages(name: str) -> int:
    """Memory of the host in bytes, or 0 where the system does not say."""
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 0
