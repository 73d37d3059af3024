"""The drop-in for cuda.core: which objects can be copied and pickled, and what their views keep."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref

import pytest
from cuda_core_support import KERNELS, device, nothing_is_current, stream

from anabranch.cuda_core import (
    Buffer,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    GraphMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ManagedMemoryResource,
    MemoryResource,
    ObjectCode,
    PinnedMemoryResource,
    Program,
    StreamOptions,
)
from anabranch.cuda_core.graph import GraphDefinition


@pytest.mark.skipif(sys.version_info < (3, 12), reason="of Python 3.12 and later")
def test_views_keep_their_buffers(device, stream):
    views = (memoryview, lambda buffer: buffer.__buffer__(0), lambda buffer: memoryview(buffer)[1:])
    for resource in (LegacyPinnedMemoryResource(), ManagedMemoryResource()):
        for make in views:
            buffer = resource.allocate(16, stream=stream)
            buffer.fill(7, stream=stream)
            stream.sync()
            kept = weakref.ref(buffer)
            view = make(buffer)
            del buffer
            gc.collect()
            assert kept() is not None and bytes(view)[:2] == b"\7\7"
            del view
            gc.collect()
            assert kept() is None
    closed = LegacyPinnedMemoryResource().allocate(16)
    closed.close()
    for make in views:
        with pytest.raises(RuntimeError, match="^Buffer has been closed$"):
            make(closed)
