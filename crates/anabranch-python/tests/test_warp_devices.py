"""Devices of `anabranch.warp`."""

from __future__ import annotations

import gc
import threading

import pytest
from conftest import DEVICE
from warp_support import wp

import anabranch
from anabranch.warp import _runtime

__all__ = ["wp"]


def test_devices_are_those_of_one_back_end(wp):
    backend = anabranch.device(DEVICE).backend
    natives = [device for device in anabranch.devices() if device.backend == backend]
    assert [device.alias for device in wp.get_devices()] == [f"cuda:{index}" for index in range(len(natives))]
    assert [device.anabranch_device for device in wp.get_cuda_devices()] == natives
    assert wp.get_cuda_device_count() == len(natives)
    assert wp.get_preferred_device() is wp.get_cuda_device(0)
    assert wp.get_device().anabranch_device == anabranch.device(DEVICE)
    assert wp.is_cuda_available() and not wp.is_cpu_available()
    assert wp.is_device_available(wp.get_device()) and not wp.is_device_available(wp.get_device("cpu"))
    assert wp.is_conditional_graph_supported() == (wp.get_cuda_driver_version() >= (12, 4))


def test_a_device_has_properties(wp):
    device = wp.get_device("cuda:0")
    properties = device.anabranch_device.properties
    assert (device.name, device.ordinal, device.is_cuda, device.is_cpu) == (properties["name"], 0, True, False)
    assert device.is_primary and device.is_mempool_supported and device.is_mempool_enabled
    assert device.sm_count == properties["multiprocessor_count"]
    assert device.uuid.startswith("GPU-") and len(device.uuid) == 40
    assert device.total_memory >= device.free_memory > 0
    assert device.context == device.anabranch_context.handle and device.has_context and device.has_stream
    assert (str(device), repr(device)) == ("cuda:0", "'cuda:0'")


def test_the_cpu_has_no_streams(wp):
    cpu = wp.get_device("cpu")
    assert (cpu.is_cpu, cpu.is_cuda, cpu.ordinal, cpu.context, cpu.null_stream) == (True, False, -1, None, None)
    assert cpu.name and not cpu.is_capturing and cpu.total_memory >= cpu.free_memory >= 0
    calls = [
        lambda: cpu.stream,
        lambda: cpu.set_stream(wp.get_stream()),
        lambda: wp.Stream("cpu"),
        lambda: wp.Event("cpu"),
        lambda: wp.get_stream("cpu"),
        lambda: cpu.anabranch_context,
    ]
    for call in calls:
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == "Device cpu is not a CUDA device"
    with pytest.raises(RuntimeError, match="Must be a CUDA device"):
        wp.capture_begin("cpu")
    # These have nothing to wait for.
    wp.synchronize_device("cpu")
    wp.synchronize_stream("cpu")


def test_names_of_devices(wp):
    device = wp.get_device("cuda:0")
    assert wp.get_device(device) is device and wp.get_device("cuda").is_cuda
    assert device == device and device == "cuda:0" and device != "cuda:7" and device != wp.get_device("cpu") != 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(device)
    for wrong in ("cuda:77", "gpu", 3, b"cuda:0"):
        with pytest.raises(ValueError) as caught:
            wp.get_device(wrong)
        assert str(caught.value) == f"Invalid device identifier: {wrong}"
    with pytest.raises(IndexError):
        wp.get_cuda_device(77)


def test_the_default_device(wp):
    wp.set_device("cpu")
    assert wp.get_device().is_cpu
    # The alias stands for a device with streams all the same.
    assert wp.get_device("cuda") == "cuda:0"
    wp.set_device("cuda:0")
    assert wp.get_device() == "cuda:0" == wp.get_device("cuda")


def test_contexts_get_aliases(wp):
    device = wp.get_device()
    context = device.anabranch_device.create_context()
    other = wp.map_cuda_device("other", context)
    assert other == "other" and other != device and other.ordinal == device.ordinal and not other.is_primary
    assert wp.get_device("other") is other and other in wp.get_cuda_devices()
    assert wp.map_cuda_device("other", context) is other is wp.map_cuda_device("other", context.handle)
    stream = wp.Stream("other")
    assert stream.device is other and stream.anabranch_stream.context == context
    with pytest.raises(RuntimeError) as caught:
        wp.set_stream(stream, device)
    assert str(caught.value) == f"Stream from device other cannot be used on device {device}"
    with pytest.raises(RuntimeError, match="Device alias 'other' already exists"):
        wp.map_cuda_device("other", device.anabranch_context)
    with wp.ScopedDevice(other):
        assert wp.map_cuda_device("renamed") is other and other.alias == "renamed"
    with pytest.raises(ValueError):
        wp.get_device("other")
    wp.unmap_cuda_device("renamed")
    assert other not in wp.get_cuda_devices()
    for alias in ("renamed", "cpu"):
        with pytest.raises(RuntimeError) as caught:
            wp.unmap_cuda_device(alias)
        assert str(caught.value) == f"Invalid CUDA device alias '{alias}'"


def test_contexts_that_nobody_knows(wp):
    with pytest.raises(RuntimeError, match="Unable to determine CUDA context for device alias 'mine'"):
        wp.map_cuda_device("mine")
    with pytest.raises(RuntimeError, match="no device has the context 0x5"):
        wp.map_cuda_device("mine", 5)
    foreign = wp.get_device().anabranch_device.create_context().create_stream().allocate(1, "int32")
    with pytest.raises(RuntimeError, match="map_cuda_device"):
        wp.capture_if(foreign, print)


def test_the_first_call_initialises(wp, monkeypatch, capsys):
    monkeypatch.setattr(_runtime, "runtime", None)
    monkeypatch.setattr(_runtime, "_FIRST", {})
    with pytest.raises(RuntimeError) as caught:
        wp.Stream("cuda:0")
    message = "A Device object is required when creating a stream before or during Warp initialization"
    assert str(caught.value) == message
    wp.config.log_level = wp.LOG_INFO
    wp.get_device()
    greeting = capsys.readouterr().out
    assert greeting.startswith(f"Warp {wp.config.version} interface of Anabranch {anabranch.__version__} initialized:\n")
    assert '"cuda:0"   : "' in greeting
    wp.init()
    assert not capsys.readouterr().out


def test_threads_initialise_once(wp, monkeypatch):
    monkeypatch.setattr(_runtime, "runtime", None)
    monkeypatch.setattr(_runtime, "_FIRST", {})
    barrier, found = threading.Barrier(4), []

    def find():
        barrier.wait()
        found.append(wp.get_device())

    threads = [threading.Thread(target=find) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(device is found[0] for device in found)


def test_pools(wp):
    assert wp.is_mempool_supported(None) and wp.is_mempool_enabled("cuda:0") and not wp.is_mempool_supported("cpu")
    # What other tests have left is freed.
    gc.collect()
    wp.synchronize()
    before = wp.get_mempool_used_mem_current()
    buffer = wp.zeros(1000, dtype="uint8")
    wp.synchronize()
    assert wp.get_mempool_used_mem_current() >= before + 1000
    assert wp.get_mempool_used_mem_high() >= before + 1000
    assert buffer.nbytes == 1000
    former = wp.get_mempool_release_threshold()
    try:
        for threshold, expected in [(4096, 4096), (-1, 0), (0.5, int(0.5 * wp.get_device().total_memory)), (0, 0)]:
            wp.set_mempool_release_threshold(None, threshold)
            assert wp.get_mempool_release_threshold("cuda:0") == expected
    finally:
        wp.set_mempool_release_threshold(None, former)
    with wp.ScopedMempool(None, True), wp.ScopedMempool("cpu", False):
        assert wp.is_mempool_enabled(None)
    with pytest.raises(RuntimeError, match="always comes from its memory pool"):
        wp.set_mempool_enabled("cuda:0", False)
    for call in (lambda: wp.get_mempool_release_threshold("cpu"), lambda: wp.set_mempool_enabled("cpu", True)):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == "Memory pools are only supported on CUDA devices"


def test_what_runs_while_devices_are_found_may_use_them(run_python):
    """A signal handler, or a destructor."""
    program = """
from anabranch.warp import _runtime, get_device
find = _runtime.Runtime.__init__
def interrupted(self):
    _runtime.Runtime.__init__ = find
    found.append(get_device())
    find(self)
found = []
_runtime.Runtime.__init__ = interrupted
print(found == [get_device()] and found[0] is get_device())
"""
    result = run_python(program)
    assert result.stdout.splitlines()[-1] == "True", result.stderr
