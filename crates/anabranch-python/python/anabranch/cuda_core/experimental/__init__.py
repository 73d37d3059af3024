"""The names of `cuda.core.experimental`, which came before version 1 of `cuda.core`."""

from .._context import Context
from .._event import Event
from .._event import FormerEventOptions as EventOptions
from .._launch_config import LaunchConfig
from .._launcher import launch
from .._memory import Buffer, DeviceMemoryResource, LegacyPinnedMemoryResource, MemoryResource
from .._module import Kernel, ObjectCode
from .._program import Program, ProgramOptions
from ..graph import Graph, GraphBuilder, GraphCompleteOptions, GraphDebugPrintOptions
from ._device import Device
from ._stream import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Stream, StreamOptions

__all__ = [
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "Buffer",
    "Context",
    "Device",
    "DeviceMemoryResource",
    "Event",
    "EventOptions",
    "Graph",
    "GraphBuilder",
    "GraphCompleteOptions",
    "GraphDebugPrintOptions",
    "Kernel",
    "LaunchConfig",
    "LegacyPinnedMemoryResource",
    "MemoryResource",
    "ObjectCode",
    "Program",
    "ProgramOptions",
    "Stream",
    "StreamOptions",
    "launch",
]
