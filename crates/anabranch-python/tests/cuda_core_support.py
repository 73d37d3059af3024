"""What the tests of the drop-in for cuda.core share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.cuda_core import Device, _state

# The drop-in numbers the devices of the back end of the default device.
os.environ.setdefault("ANABRANCH_DEVICE", os.environ.get("ANABRANCH_TEST_DEVICE", "host"))

HERE = Path(__file__).parent
KERNELS = HERE / "kernels.ptx"
CONDITIONAL = HERE / "conditional.ptx"


@pytest.fixture(autouse=True)
def nothing_is_current():
    _state.thread.forget()
    yield
    _state.thread.forget()


@pytest.fixture
def device():
    device = Device()
    device.set_current()
    return device


@pytest.fixture
def stream(device):
    return device.create_stream()
