"""The drop-in for cuda.core: numbers and options are converted, or refused, as there."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_core_graph_support import definition, refuse
from cuda_core_support import device, nothing_is_current, stream

from anabranch.cuda_core import (
    LEGACY_DEFAULT_STREAM,
    Buffer,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    GraphMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    ManagedBuffer,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    ObjectCode,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
    ProgramOptions,
    Stream,
    StreamOptions,
)
from anabranch.cuda_core.experimental import EventOptions as FormerEventOptions

REQUIRED = "an integer is required"
NEGATIVE = "can't convert negative value to size_t"
LARGE = "Python int too large to convert to C unsigned long"


@pytest.mark.parametrize("kind", ["cubin", "ptx", "fatbin", "ltoir", "object", "library"])
def test_object_code(kind):
    make = getattr(ObjectCode, f"from_{kind}")
    wrong = "Argument '{}' has incorrect type (expected {}, got {})"
    refuse(TypeError, wrong.format("name", "str", "int"), make, 5, name=5)
    refuse(TypeError, wrong.format("name", "str", "NoneType"), make, b"x", name=None)
    refuse(TypeError, wrong.format("symbol_mapping", "dict", "list"), make, b"x", symbol_mapping=[])
    refuse(TypeError, "Expected type str or bytes or bytearray, but got NoneType", make, None)
    assert make(b"x", symbol_mapping=None).symbol_mapping == {}
