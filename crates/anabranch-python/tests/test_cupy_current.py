"""The current stream and the current device of `anabranch.cupy.cuda`, beside a simple model of CuPy's rules."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anabranch.cupy import cuda as ours

hypothesis = pytest.importorskip("hypothesis")
strategies = hypothesis.strategies

# Most of all, nests.
CALLS = ["enter"] * 4 + ["leave"] * 3 + ["use", "use", "device", "device", "enter_device", "leave_device"]
# Their names, and their devices: -1 is every device.
DEFAULTS = {"null": -1, "ptds": -1, "external": -1}


class Thread:
    """What a thread has by CuPy's rules."""

    def __init__(self, count, devices):
        self.devices = devices
        self.device = 0
        self.current = ["null"] * count
        self.stacks = [["null"] for _ in range(count)]
        self.entered = []
        self.former = []

    def where(self, name):
        return self.device if self.devices[name] == -1 else self.devices[name]

    def use(self, name):
        if self.where(name) != self.device:
            return False
        self.current[self.device] = name
        return True

    def enter(self, name):
        if not self.use(name):
            return False
        self.stacks[self.device].append(name)
        self.entered.append(self.device)
        return True

    def leave(self):
        stack = self.stacks[self.entered.pop()]
        stack.pop()
        # A stream of every device becomes that of the device that is current now.
        self.current[self.where(stack[-1])] = stack[-1]

    def enter_device(self, number):
        self.former.append(self.device)
        self.device = number

    def leave_device(self):
        self.device = self.former.pop()


class Real:
    """A thread that does what the model does."""

    def __init__(self, cuda, streams):
        self.cuda = cuda
        self.streams = streams
        self.pool = ThreadPoolExecutor(1)
        self.devices = []

    def do(self, function, *arguments):
        return self.pool.submit(function, *arguments).result()

    def use(self, name):
        return self._refused(self.streams[name].use)

    def enter(self, name):
        return self._refused(self.streams[name].__enter__)

    def _refused(self, function):
        def call():
            try:
                return function() is function.__self__
            except RuntimeError as error:
                assert "does not match with the current device" in str(error)
                return False

        return self.do(call)

    def leave(self, name):
        # Which stream's `with` ends makes no difference.
        self.do(self.streams[name].__exit__, None, None, None)

    def enter_device(self, number):
        device = self.cuda.Device(number)
        assert self.do(device.__enter__) is device
        self.devices.append(device)

    def leave_device(self):
        self.do(self.devices.pop().__exit__, None, None, None)

    def seen(self, count):
        def ask():
            streams = [self.cuda.get_current_stream(number) for number in range(count)]
            assert self.cuda.get_current_stream() is streams[self.cuda.get_device_id()]
            return self.cuda.get_device_id(), streams

        return self.do(ask)


def make_streams(cuda):
    streams = {"null": cuda.Stream.null, "ptds": cuda.Stream.ptds}
    with pytest.deprecated_call():
        streams["external"] = cuda.ExternalStream(0)
    devices = dict(DEFAULTS)
    for number in range(cuda.runtime.getDeviceCount()):
        with cuda.Device(number):
            for name in (f"a{number}", f"b{number}"):
                streams[name] = cuda.Stream(non_blocking=True)
                devices[name] = number
    return streams, devices


@pytest.fixture(scope="module", params=["anabranch.cupy", "cupy"])
def cuda(request):
    """Our module, and where there is a GPU and CuPy, the original."""
    if request.param == "anabranch.cupy":
        return ours
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("CuPy has no GPU")
    return cupy.cuda


@hypothesis.settings(deadline=None, max_examples=150)
@hypothesis.given(data=strategies.data())
def test_with_and_use_by_the_model(cuda, data):
    count = cuda.runtime.getDeviceCount()
    streams, devices = make_streams(cuda)
    threads = [(Thread(count, devices), Real(cuda, streams)) for _ in range(2)]
    numbers = strategies.integers(0, count - 1)
    try:
        for _ in range(data.draw(strategies.integers(1, 40))):
            model, real = data.draw(strategies.sampled_from(threads))
            # Streams of the current device, mostly.
            near = [name for name in streams if devices[name] in (-1, model.device)]
            names = strategies.one_of(strategies.sampled_from(near), strategies.sampled_from(sorted(streams)))
            call = data.draw(strategies.sampled_from(CALLS))
            if call in ("use", "enter"):
                name = data.draw(names)
                assert getattr(real, call)(name) == getattr(model, call)(name)
            elif call == "leave" and model.entered:
                real.leave(data.draw(names))
                model.leave()
            elif call == "device":
                model.device = data.draw(numbers)
                real.do(cuda.Device(model.device).use)
            elif call == "enter_device":
                number = data.draw(numbers)
                real.enter_device(number)
                model.enter_device(number)
            elif call == "leave_device" and model.former:
                real.leave_device()
                model.leave_device()
            for expected, found in threads:
                device, current = found.seen(count)
                assert device == expected.device
                for stream, name in zip(current, expected.current):
                    assert stream is streams[name]
    finally:
        for _, real in threads:
            real.pool.shutdown()


@pytest.mark.parametrize("devices", [3])
def test_the_same_with_several_devices(run_python, on_host, devices):
    program = f"""
import os, sys, pytest
os.environ["ANABRANCH_HOST_DEVICES"] = "{devices}"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", {str(Path(__file__))!r}, "-k", "by_the_model or mixed"]))
"""
    result = run_python(program)
    assert result.returncode == 0, result.stdout + result.stderr


def test_with_and_use_mixed(cuda):
    first, second, third = (cuda.Stream(non_blocking=True) for _ in range(3))
    assert cuda.get_current_stream() is cuda.Stream.null
    try:
        assert first.use() is first and cuda.get_current_stream() is first
        with second as entered:
            assert entered is second and cuda.get_current_stream() is second
            third.use()
            with first:
                assert cuda.get_current_stream() is first
            # The stream that `with` has entered, and not the one that was in use.
            assert cuda.get_current_stream() is second
        assert cuda.get_current_stream() is cuda.Stream.null
        with pytest.raises(KeyError), second:
            raise KeyError
        assert cuda.get_current_stream() is cuda.Stream.null
    finally:
        cuda.Stream.null.use()


def test_a_stream_of_another_device_is_refused(run_python, on_host):
    program = """
import os
os.environ["ANABRANCH_HOST_DEVICES"] = "2"
from anabranch.cupy import cuda
stream = cuda.Stream()
assert (stream.device_id, cuda.runtime.getDeviceCount()) == (0, 2)
with cuda.Device(1) as device:
    assert device.id == cuda.get_device_id() == cuda.Stream().device_id == 1
    for call in (stream.use, stream.__enter__):
        try:
            call()
        except RuntimeError as error:
            print(error)
    assert cuda.get_current_stream() is cuda.Stream.null
    # Its work is that of its device.
    stream.synchronize()
assert cuda.get_device_id() == 0
"""
    result = run_python(program)
    expected = "The device that the stream is created on (0) does not match with the current device (1)\n"
    assert (result.returncode, result.stdout) == (0, expected * 2), result.stderr


def test_a_stream_of_the_thread_by_environment(run_python):
    program = """
import os
os.environ["CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"] = "1"
from anabranch.cupy import cuda
assert cuda.get_current_stream() is cuda.Stream.ptds
with cuda.Stream():
    pass
assert cuda.get_current_stream() is cuda.Stream.ptds
"""
    result = run_python(program)
    assert result.returncode == 0, result.stderr


def test_what_runs_while_devices_are_found_may_use_them(run_python):
    """A signal handler, or a destructor."""
    program = """
from anabranch.cupy import cuda
from anabranch.cupy.cuda import _current
make = _current._default
def interrupted():
    _current._default = make
    cuda.Stream.ptds.use()
    return make()
_current._default = interrupted
print(cuda.get_current_stream() is cuda.Stream.ptds)
"""
    result = run_python(program)
    assert result.stdout == "True\n", result.stderr
