"""Buffers, and where they come from."""

from ._buffer import Buffer
from ._device_memory_resource import DeviceMemoryResource, DeviceMemoryResourceOptions
from ._graph_memory_resource import GraphMemoryResource
from ._managed_buffer import ManagedBuffer
from ._managed_memory_resource import ManagedMemoryResource, ManagedMemoryResourceOptions
from ._pinned_memory_resource import (
    LegacyPinnedMemoryResource,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
)
from ._resource import MemoryResource

__all__ = [
    "Buffer",
    "DeviceMemoryResource",
    "DeviceMemoryResourceOptions",
    "GraphMemoryResource",
    "LegacyPinnedMemoryResource",
    "ManagedBuffer",
    "ManagedMemoryResource",
    "ManagedMemoryResourceOptions",
    "MemoryResource",
    "PinnedMemoryResource",
    "PinnedMemoryResourceOptions",
]
