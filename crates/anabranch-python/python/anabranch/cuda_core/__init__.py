"""The stream part of `cuda.core` by its names: ``import anabranch.cuda_core as core``.

It runs on GPUs, and without one on the software device. `docs/python-cuda-core.md` of the repository has each member.

>>> from anabranch.cuda_core import Device
>>> device = Device()
>>> device.set_current()
>>> stream = device.create_stream()
>>> with device.allocate(4, stream=stream) as buffer:
...     buffer.fill(7, stream=stream)
...     stream.sync()
>>> stream.record().is_done
True
"""

from . import graph, typing
from ._context import Context
from ._device import Device
from ._event import Event, EventOptions
from ._host import Host
from ._launch_config import LaunchConfig
from ._launcher import launch
from ._memory import (
    Buffer,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    GraphMemoryResource,
    LegacyPinnedMemoryResource,
    ManagedBuffer,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    MemoryResource,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
)
from ._module import Kernel, ObjectCode
from ._program import Program, ProgramOptions
from ._stream import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Stream, StreamOptions
from ._utils.cuda_utils import CUDAError, NVRTCError

__all__ = [
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "Buffer",
    "CUDAError",
    "Context",
    "Device",
    "DeviceMemoryResource",
    "DeviceMemoryResourceOptions",
    "Event",
    "EventOptions",
    "GraphMemoryResource",
    "Host",
    "Kernel",
    "LaunchConfig",
    "LegacyPinnedMemoryResource",
    "ManagedBuffer",
    "ManagedMemoryResource",
    "ManagedMemoryResourceOptions",
    "MemoryResource",
    "NVRTCError",
    "ObjectCode",
    "PinnedMemoryResource",
    "PinnedMemoryResourceOptions",
    "Program",
    "ProgramOptions",
    "Stream",
    "StreamOptions",
    "graph",
    "launch",
    "typing",
]
