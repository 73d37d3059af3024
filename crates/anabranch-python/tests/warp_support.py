"""What the tests of `anabranch.warp` share."""

from __future__ import annotations

from types import ModuleType

import pytest
from conftest import DEVICE

import anabranch.warp
from anabranch.warp import _runtime


@pytest.fixture
def wp(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, as in a new process: with the device of the tests, and initialised."""
    monkeypatch.setenv("ANABRANCH_DEVICE", DEVICE)
    monkeypatch.setattr(_runtime, "runtime", None)
    monkeypatch.setattr(_runtime, "_FIRST", {})
    monkeypatch.setattr(anabranch.warp.config, "log_level", anabranch.warp.LOG_WARNING)
    anabranch.warp.init()
    return anabranch.warp
