"""Current devices and streams of `anabranch.warp`, beside a model of Warp's rules."""

from __future__ import annotations

import contextlib
import threading

import pytest
from warp_support import wp

import anabranch

__all__ = ["wp"]

hypothesis = pytest.importorskip("hypothesis")
strategies = hypothesis.strategies


def test_a_scoped_device(wp):
    other = wp.map_cuda_device("other", wp.get_device().anabranch_device.create_context())
    scope = wp.ScopedDevice("other")
    with scope as device:
        assert device is other is wp.get_device() is wp.get_device("cuda")
        assert scope.saved_device == "cuda:0"
        with wp.ScopedDevice("cpu"):
            assert wp.get_device().is_cpu and wp.get_device("cuda") is other
            wp.set_device("cuda:0")
            assert wp.get_device("cuda") == "cuda:0"
        assert wp.get_device() is other is wp.get_device("cuda")
    assert wp.get_device() == "cuda:0"
    with pytest.raises(ValueError, match="Invalid device identifier: nowhere"):
        wp.ScopedDevice("nowhere")


def test_a_scoped_stream(wp, gate):
    former, stream = wp.get_stream(), wp.Stream()
    gate.hold(former.anabranch_stream)
    scope = wp.ScopedStream(stream)
    assert (scope.stream, scope.device, scope.sync_enter, scope.sync_exit) == (stream, stream.device, True, False)
    with scope as entered:
        assert entered is stream is wp.get_stream() and scope.saved_stream is former
        assert not stream.is_complete
    assert wp.get_stream() is former
    with wp.ScopedStream(wp.Stream(), sync_enter=False) as free:
        assert free.is_complete
    gate.open()
    wp.synchronize()


def test_the_end_of_a_scope_can_be_waited_for(wp, gate):
    former, stream = wp.get_stream(), wp.Stream()
    with wp.ScopedStream(stream):
        gate.hold(stream.anabranch_stream)
    assert former.is_complete
    with wp.ScopedStream(stream, sync_exit=True):
        pass
    assert not former.is_complete
    gate.open()
    wp.synchronize()


def test_a_scope_without_a_stream(wp):
    former = wp.get_stream()
    with wp.ScopedStream(None) as stream:
        assert stream is None and wp.get_stream() is former


def test_scopes_end_with_exceptions(wp):
    former = wp.get_stream()
    with pytest.raises(KeyError), wp.ScopedDevice("cpu"), wp.ScopedStream(wp.Stream("cuda:0")):
        assert wp.get_device() == "cuda:0"
        raise KeyError
    assert wp.get_device() == "cuda:0" and wp.get_stream() is former


def test_a_stream_that_was_closed(wp):
    stream, former = wp.Stream(), wp.get_stream()
    stream.anabranch_stream.close()
    with pytest.raises(anabranch.AnabranchError, match="closed"):
        with wp.ScopedDevice("cpu"), wp.ScopedStream(stream):
            raise AssertionError
    assert wp.get_device() == "cuda:0" and wp.get_stream() is former


def test_the_default_device_is_of_the_process_and_the_current_one_of_a_thread(wp):
    other = wp.map_cuda_device("other", wp.get_device().anabranch_device.create_context())
    seen = []
    with wp.ScopedDevice(other):
        with wp.ScopedDevice("cuda:0"):
            wp.get_device().runtime.default_device = wp.get_device("cpu")
            thread = threading.Thread(target=lambda: seen.append((wp.get_device(), wp.get_device("cuda"))))
            thread.start()
            thread.join()
            assert wp.get_device("cuda") == "cuda:0"
    assert [str(device) for device in seen[0]] == ["cpu", "cuda:0"]


class Model:
    """Warp's rules: a default device, a stack of current contexts, and a current stream of each device."""

    def __init__(self) -> None:
        self.default = "cuda:0"
        self.contexts: list[str] = []
        self.streams = {"cuda:0": -1, "other": -1}

    @property
    def cuda(self) -> str:
        if self.contexts:
            return self.contexts[-1]
        return self.default if self.default != "cpu" else "cuda:0"

    def set_device(self, name: str) -> None:
        self.default = name
        if name != "cpu":
            self.contexts[-1:] = [name]

    def enter_device(self, name: str) -> tuple[str, str, str | None]:
        saved = (self.default, name, self.contexts[-1] if self.contexts else None)
        self.default = name
        if name != "cpu":
            self.contexts.append(name)
        return saved

    def leave_device(self, saved: tuple[str, str, str | None]) -> None:
        default, name, context = saved
        if name == "cpu":
            self.contexts[-1:] = [] if context is None else [context]
        elif self.contexts:
            self.contexts.pop()
        self.default = default


NAMES = ("cpu", "cuda:0", "other")
STEPS = strategies.one_of(
    strategies.tuples(strategies.just("set device"), strategies.sampled_from(NAMES)),
    strategies.tuples(strategies.just("enter device"), strategies.sampled_from(NAMES)),
    strategies.tuples(strategies.just("set stream"), strategies.integers(0, 3)),
    strategies.tuples(strategies.just("enter stream"), strategies.integers(0, 3)),
    strategies.tuples(strategies.just("leave"), strategies.just(None)),
)


@hypothesis.given(strategies.lists(STEPS, max_size=25))
@hypothesis.settings(
    max_examples=100,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_scopes_follow_the_model(wp, steps):
    wp.init()
    runtime, model = wp.get_device().runtime, Model()
    # One for all examples: contexts are expensive.
    if "other" not in runtime.device_map:
        wp.map_cuda_device("other", runtime.cuda_devices[0].anabranch_device.create_context())
    runtime.default_device = runtime.cuda_devices[0]
    devices = {name: wp.get_device(name) for name in ("cuda:0", "other")}
    streams = [wp.Stream(devices[name]) for name in devices for _ in range(2)]
    owners = ["cuda:0", "cuda:0", "other", "other"]
    for device in devices.values():
        device.set_stream(wp.Stream(device))
    first = {name: device.stream for name, device in devices.items()}
    with contextlib.ExitStack() as clean:
        clean.callback(runtime.current._devices.clear)
        entered = []
        for step, argument in steps:
            if step == "set device":
                wp.set_device(argument)
                model.set_device(argument)
            elif step == "enter device":
                scope = wp.ScopedDevice(argument)
                scope.__enter__()
                entered.append((scope, None, model.enter_device(argument)))
            elif step == "set stream":
                wp.set_stream(streams[argument], owners[argument], sync=argument % 2 == 0)
                model.streams[owners[argument]] = argument
            elif step == "enter stream":
                scope = wp.ScopedStream(streams[argument], sync_exit=argument % 2 == 0)
                scope.__enter__()
                saved = model.enter_device(owners[argument])
                entered.append((scope, (owners[argument], model.streams[owners[argument]]), saved))
                model.streams[owners[argument]] = argument
            elif entered:
                scope, stream, saved = entered.pop()
                scope.__exit__(None, None, None)
                if stream is not None:
                    model.streams[stream[0]] = stream[1]
                model.leave_device(saved)
            assert wp.get_device().alias == model.default
            assert wp.get_device("cuda").alias == model.cuda
            for name, device in devices.items():
                number = model.streams[name]
                assert device.stream is (first[name] if number < 0 else streams[number])


def test_an_interrupted_end_of_a_scope_restores_all(wp, monkeypatch):
    former, device = wp.get_stream(), wp.get_device()
    other = wp.map_cuda_device("interrupted", device.anabranch_device.create_context())
    scope = wp.ScopedStream(wp.Stream(other))
    with scope:
        pass
    saved = other.stream

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with scope:
            monkeypatch.setattr(type(other), "set_stream", interrupted)
    assert other.stream is saved and wp.get_device() is device and wp.get_stream() is former
