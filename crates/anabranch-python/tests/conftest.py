"""What the tests share. They run on the device that ANABRANCH_TEST_DEVICE names, or else on the software device."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch

DEVICE = os.environ.get("ANABRANCH_TEST_DEVICE", "host")
# Modules that take the place of other libraries use the default device.
os.environ.setdefault("ANABRANCH_DEVICE", DEVICE)
KERNELS = Path(__file__).parent / "kernels.ptx"


class Gate:
    """Keeps the work of streams pending until it is opened."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def hold(self, stream: anabranch.Stream) -> None:
        """Lets later work of the stream wait for the gate."""
        stream.launch_host_func(self._event.wait)

    def open(self) -> None:
        """Lets the work run."""
        self._event.set()

    def is_open(self) -> bool:
        """Whether it was opened."""
        return self._event.is_set()


def is_deleted(reference: weakref.ref[Any], seconds: float = 30) -> bool:
    """Whether what the reference is to is deleted, or will be soon: the package may delete it on a thread of its own."""
    until = time.monotonic() + seconds
    while True:
        gc.collect()
        if reference() is None or time.monotonic() >= until:
            return reference() is None
        time.sleep(0.001)


@pytest.fixture
def device() -> anabranch.Device:
    return anabranch.device(DEVICE)


@pytest.fixture
def context(device: anabranch.Device) -> anabranch.Context:
    return device.context()


@pytest.fixture
def stream(context: anabranch.Context) -> anabranch.Stream:
    return context.create_stream()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def module(context: anabranch.Context) -> anabranch.Module:
    return context.load_module(KERNELS.read_text())


@pytest.fixture
def on_host() -> None:
    if DEVICE != "host":
        pytest.skip("of the software device")


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program with another interpreter, which has to end within a minute."""

    def run(program: str) -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ, ANABRANCH_TEST_DEVICE=DEVICE, PYTHONFAULTHANDLER="1")
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment, check=False
        )

    return run


@pytest.fixture
def fill_up(context: anabranch.Context, gate: Gate, on_host: None) -> Iterator[Callable[[anabranch.Stream], anabranch.Event]]:
    """Lets a stream be full: until the gate is opened, a thread waits in it for room to record the event that is returned."""
    threads = []

    def fill_up(stream: anabranch.Stream) -> anabranch.Event:
        event, recorded = context.create_event(), 0

        def record() -> None:
            nonlocal recorded
            while not gate.is_open():
                stream.record(event)
                recorded += 1

        gate.hold(stream)
        threads.append(threading.Thread(target=record, daemon=True))
        threads[-1].start()
        before = -1
        while before != recorded:
            before = recorded
            time.sleep(0.5)
        return event

    yield fill_up
    gate.open()
    for thread in threads:
        thread.join()
