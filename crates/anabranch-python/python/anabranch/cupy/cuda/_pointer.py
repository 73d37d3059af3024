"""Places in memory."""

from __future__ import annotations

import ctypes
from typing import Any

from . import runtime
from ._arguments import c_int, c_long, c_size, integer, is_of_cupy, require
from .device import Device
from .stream import _handle_of, get_current_stream


def _address(mem: Any) -> int:
    if isinstance(mem, ctypes.c_void_p):
        return mem.value or 0
    return integer(mem)


def _stream_ptr(stream: Any) -> int:
    return _handle_of(get_current_stream() if stream is None else stream)


class BaseMemory:
    """Memory of a device: its address ``ptr``, its ``size`` in bytes, and the number of its device."""

    __module__ = "anabranch.cupy.cuda.memory"
    __slots__ = ("device_id", "ptr", "size")

    ptr: int
    size: int
    device_id: int

    def __init__(self) -> None:
        self.ptr = 0
        self.size = 0
        self.device_id = 0

    def __int__(self) -> int:
        return self.ptr

    @property
    def device(self) -> Device:
        """The device."""
        return Device(self.device_id)


class MemoryPointer:
    """A place in memory of a device, which it keeps: ``offset`` bytes behind the beginning of ``mem``.

    Methods without a stream use the legacy default stream. Those whose names end with ``_async`` use a stream or the current
    one; the caller makes sure that memory of the host lives until then.
    """

    __module__ = "anabranch.cupy.cuda.memory"
    __slots__ = ("_mem", "_ptr")

    def __init__(self, mem: BaseMemory, offset: int) -> None:
        require(mem, BaseMemory, "mem")
        self._mem = mem
        self._ptr = mem.ptr + c_long(offset)

    @property
    def mem(self) -> BaseMemory:
        """The memory."""
        return self._mem

    @property
    def ptr(self) -> int:
        """The address."""
        return self._ptr

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return self._mem.device_id

    @property
    def device(self) -> Device:
        """The device."""
        return self._mem.device

    def __int__(self) -> int:
        return self._ptr

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self._mem, self._ptr - self._mem.ptr + c_long(offset))

    __radd__ = __add__

    def __iadd__(self, offset: int) -> MemoryPointer:
        self._ptr += c_long(offset)
        return self

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -offset

    def __isub__(self, offset: int) -> MemoryPointer:
        self._ptr -= c_long(offset)
        return self

    def __repr__(self) -> str:
        return f"<MemoryPointer 0x{self._ptr:x} device={self.device_id} mem={self._mem!r}>"

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        """Copies memory of this or another device."""
        require(src, MemoryPointer, "src")
        if src.device_id == self.device_id:
            runtime.memcpy(self._ptr, src.ptr, size, runtime.memcpyDeviceToDevice)
        else:
            runtime.memcpyPeer(self._ptr, self.device_id, src.ptr, src.device_id, size)

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Any = None) -> None:
        """Copies memory of this or another device in stream order."""
        require(src, MemoryPointer, "src")
        ptr = _stream_ptr(stream)
        if src.device_id == self.device_id:
            runtime.memcpyAsync(self._ptr, src.ptr, size, runtime.memcpyDeviceToDevice, ptr)
        else:
            runtime.memcpyPeerAsync(self._ptr, self.device_id, src.ptr, src.device_id, size, ptr)

    def copy_from_host(self, mem: Any, size: int) -> None:
        """Copies memory of the host: an address or a ``ctypes.c_void_p``."""
        runtime.memcpy(self._ptr, _address(mem), size, runtime.memcpyHostToDevice)

    def copy_from_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Copies memory of the host in stream order."""
        runtime.memcpyAsync(self._ptr, _address(mem), size, runtime.memcpyHostToDevice, _stream_ptr(stream))

    def copy_from(self, mem: Any, size: int) -> None:
        """Copies memory of a device, a `MemoryPointer`, or of the host."""
        if isinstance(mem, MemoryPointer) or is_of_cupy(mem, MemoryPointer):
            self.copy_from_device(mem, size)
        else:
            self.copy_from_host(mem, size)

    def copy_from_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Copies memory of a device, a `MemoryPointer`, or of the host in stream order."""
        if isinstance(mem, MemoryPointer) or is_of_cupy(mem, MemoryPointer):
            self.copy_from_device_async(mem, size, stream)
        else:
            self.copy_from_host_async(mem, size, stream)

    def copy_to_host(self, mem: Any, size: int) -> None:
        """Copies to memory of the host: an address or a ``ctypes.c_void_p``."""
        runtime.memcpy(_address(mem), self._ptr, size, runtime.memcpyDeviceToHost)

    def copy_to_host_async(self, mem: Any, size: int, stream: Any = None) -> None:
        """Copies to memory of the host in stream order."""
        runtime.memcpyAsync(_address(mem), self._ptr, size, runtime.memcpyDeviceToHost, _stream_ptr(stream))

    def memset(self, value: int, size: int) -> None:
        """Fills bytes."""
        runtime.memset(self._ptr, c_int(value), c_size(size))

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        """Fills bytes in stream order."""
        runtime.memsetAsync(self._ptr, c_int(value), c_size(size), _stream_ptr(stream))
