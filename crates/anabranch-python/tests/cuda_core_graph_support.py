"""What the tests of graphs that are built by hand share."""

from __future__ import annotations

import pytest
from cuda_core_support import KERNELS, device, nothing_is_current, stream

from anabranch.cuda_core import CUDAError, LaunchConfig, ObjectCode
from anabranch.cuda_core.graph import GraphDefinition

ONE = LaunchConfig(grid=1, block=1)


@pytest.fixture
def definition(device):
    return GraphDefinition()


@pytest.fixture
def add(device):
    return ObjectCode.from_ptx(str(KERNELS)).get_kernel("add")


@pytest.fixture
def buffer(device, stream):
    buffer = device.allocate(16, stream=stream)
    stream.sync()
    return buffer


def read(stream, buffer, type="B"):
    return memoryview(stream._open().download(buffer._inner)).cast("B").cast(type).tolist()


def refuse(kind, message, call, *arguments, **keywords):
    with pytest.raises(kind) as caught:
        call(*arguments, **keywords)
    assert (type(caught.value), str(caught.value)) == (kind, message)


def refuse_status(status, call, *arguments, **keywords):
    with pytest.raises(CUDAError, match=f"^{status}: "):
        call(*arguments, **keywords)
