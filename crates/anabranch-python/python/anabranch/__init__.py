"""Queues of GPU work: streams, events, graphs, stream-ordered memory and kernel launches.

One API for NVIDIA GPUs ("cuda:0") and for a software device ("host") that behaves as they do and needs no GPU.

>>> import anabranch
>>> stream = anabranch.device("host").context().create_stream()
>>> buffer = stream.upload([1, 2, 3, 4], dtype="uint32")
>>> stream.fill(buffer[1:3], 7)
>>> stream.download(buffer).tolist()
[1, 7, 7, 4]

Importing this package loads no driver; the first call that asks for a device does.
"""

import atexit as _atexit
import os as _os
import sys as _sys

# `_anabranch` uses `_contained` and `_workers`. A thread that first read their files while the interpreter ends would be ended inside
# of native code, which aborts the process.
from . import _anabranch, _contained, _workers, current
from ._anabranch import (
    AddressRange,
    Buffer,
    Capture,
    Compiled,
    Completion,
    Conditional,
    ConditionalNode,
    Context,
    Device,
    Event,
    ExecutableGraph,
    Graph,
    Kernel,
    LaunchConfig,
    ManagedBuffer,
    MemoryPool,
    Module,
    Node,
    NodeWork,
    PhysicalMemory,
    PinnedBuffer,
    Reads,
    Scalar,
    Signal,
    Stream,
    __version__,
    absent_backends,
    compile,
    default_device,
    device,
    devices,
    flush_deferred_drops,
)
from ._current import current_stream
from ._errors import AnabranchError, CompileError, OutOfMemoryError

__all__ = [
    "AddressRange",
    "AnabranchError",
    "Buffer",
    "Capture",
    "CompileError",
    "Compiled",
    "Completion",
    "Conditional",
    "ConditionalNode",
    "Context",
    "Device",
    "Event",
    "ExecutableGraph",
    "Graph",
    "Kernel",
    "LaunchConfig",
    "ManagedBuffer",
    "MemoryPool",
    "Module",
    "Node",
    "NodeWork",
    "OutOfMemoryError",
    "PhysicalMemory",
    "PinnedBuffer",
    "Reads",
    "Scalar",
    "Signal",
    "Stream",
    "__version__",
    "absent_backends",
    "compile",
    "current",
    "current_stream",
    "default_device",
    "device",
    "devices",
    "flush_deferred_drops",
]

# The child of a fork has none of the threads that drivers need.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_anabranch._after_fork)

# No thread of the package comes back to an interpreter that ends.
_atexit.register(_anabranch._at_exit)

if _sys.version_info >= (3, 12):
    # The stable ABI of older versions has no buffer protocol for classes. The view keeps the buffer.
    setattr(Buffer, "__buffer__", lambda self, flags, /: self._memoryview())
