"""Takes the place of ``cupy.cuda``: streams, events, graphs, devices and memory, by its names and with its errors."""

from . import compiler, device, driver, function, graph, memory, pinned_memory, runtime, stream
from .device import Device, get_device_id
from .function import Function, Module
from .graph import Graph
from .memory import (
    BaseMemory,
    ManagedMemory,
    Memory,
    MemoryAsync,
    MemoryAsyncPool,
    MemoryPointer,
    UnownedMemory,
    alloc,
    get_allocator,
    malloc_async,
    malloc_managed,
    set_allocator,
    using_allocator,
)
from .pinned_memory import PinnedMemory, PinnedMemoryPointer, alloc_pinned_memory
from .stream import Event, ExternalStream, Stream, get_current_stream, get_elapsed_time

__all__ = [
    "BaseMemory",
    "Device",
    "Event",
    "ExternalStream",
    "Function",
    "Graph",
    "ManagedMemory",
    "Memory",
    "MemoryAsync",
    "MemoryAsyncPool",
    "MemoryPointer",
    "Module",
    "PinnedMemory",
    "PinnedMemoryPointer",
    "Stream",
    "UnownedMemory",
    "alloc",
    "alloc_pinned_memory",
    "compiler",
    "device",
    "driver",
    "function",
    "get_allocator",
    "get_current_stream",
    "get_device_id",
    "get_elapsed_time",
    "graph",
    "is_available",
    "malloc_async",
    "malloc_managed",
    "memory",
    "pinned_memory",
    "runtime",
    "set_allocator",
    "stream",
    "using_allocator",
]


def is_available() -> bool:
    """Whether there is a device. The software device is one."""
    try:
        return runtime.getDeviceCount() > 0
    except RuntimeError:
        return False
