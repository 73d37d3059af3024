"""Memory and launches of `anabranch.warp`, and what it shares with PyTorch."""

from __future__ import annotations

import array
import sys
import types

import pytest
from conftest import KERNELS
from warp_support import wp

import anabranch

__all__ = ["wp"]


def read(wp, buffer):
    return wp.get_stream().anabranch_stream.download(buffer).tolist()


def test_memory_is_allocated(wp):
    for make, expected in [(wp.zeros, 0), (wp.ones, 1), (wp.empty, 0)]:
        buffer = make((2, 2), dtype=wp.int64)
        assert isinstance(buffer, anabranch.Buffer) and buffer.dtype == "int64"
        assert read(wp, buffer) == [[expected] * 2] * 2
    assert [wp.zeros(1, dtype=dtype).dtype for dtype in (float, int, "uint8", wp.float16)] == [
        "float32",
        "int32",
        "uint8",
        "float16",
    ]
    assert read(wp, wp.full(2, 7)) == [7, 7] and wp.full(2, 1.5).dtype == "float32"
    names = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64".split()
    assert [wp.zeros(1, dtype=getattr(wp, name)).dtype for name in names] == names


def test_memory_of_the_host(wp):
    pinned = wp.zeros(3, dtype=int, device="cpu", pinned=True)
    assert isinstance(pinned, anabranch.PinnedBuffer)
    wp.copy(pinned, wp.full(3, 4, dtype=int))
    assert read(wp, pinned) == [4, 4, 4]
    assert isinstance(wp.empty_like(pinned), anabranch.PinnedBuffer)
    assert not isinstance(wp.empty_like(pinned, "cuda:0"), anabranch.PinnedBuffer)
    with pytest.raises(RuntimeError, match="pinned=True"):
        wp.zeros(3, device="cpu")


def test_memory_like_other_memory(wp):
    source = wp.from_numpy([1, 2, 3, 4], dtype=int, shape=(2, 2))
    for like, expected in [
        (wp.zeros_like(source), 0),
        (wp.ones_like(source), 1),
        (wp.full_like(source, -2), -2),
        (wp.empty_like(source, pinned=True), 0),
    ]:
        assert read(wp, like) == [[expected] * 2] * 2
    copied = wp.clone(source)
    wp.copy(source, wp.zeros_like(source))
    assert read(wp, copied) == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="a buffer of anabranch is needed, and not list"):
        wp.clone([1])


def test_copies(wp):
    source, target = wp.from_numpy(list(range(6)), dtype=int), wp.zeros((2, 3), dtype=int)
    wp.copy(target, source)
    assert read(wp, target) == [[0, 1, 2], [3, 4, 5]]
    wp.copy(target, source, dest_offset=4, src_offset=1, count=2)
    assert read(wp, target) == [[0, 1, 2], [3, 1, 2]]
    wp.copy(target, array.array("i", [9, 8, 7]), dest_offset=1)
    assert read(wp, target) == [[0, 9, 8], [7, 1, 2]]
    host = array.array("i", [0] * 4)
    wp.copy(host, target, dest_offset=1, src_offset=1, count=3)
    assert host.tolist() == [0, 9, 8, 7]
    wp.copy(target, wp.zeros(0, dtype=int))
    wp.copy(target, source, stream=wp.Stream())
    assert read(wp, target) == [[0, 1, 2], [3, 4, 5]]


def test_copies_use_the_current_stream(wp, gate):
    source, target = wp.full(2, 1, dtype=int), wp.zeros(2, dtype=int)
    wp.synchronize()
    free, held = wp.get_stream(), wp.Stream()
    gate.hold(held.anabranch_stream)
    with wp.ScopedStream(held):
        wp.copy(target, source)
    assert free.is_complete and not held.is_complete
    gate.open()
    wp.synchronize()


def test_copies_that_are_refused(wp):
    buffer = wp.zeros(4, dtype=int)
    for arguments, message in [
        ((buffer, 3), "Copy source and destination must be arrays"),
        ((None, buffer), "Copy source and destination must be arrays"),
        ((bytearray(4), bytes(4)), "Copy source and destination must be arrays"),
        ((buffer, buffer, 0.5), "Copy src_offset, dest_offset, and count must be integers"),
        ((buffer, buffer, 0, -1), "Source offset must be non-negative, got -1"),
        ((buffer, buffer, -1), "Destination offset must be non-negative, got -1"),
        ((buffer, buffer, 0, 0, -1), "Copy count must be non-negative, got -1"),
        (
            (buffer, wp.zeros(5, dtype=int)),
            "Trying to copy source buffer with size (20) to offset (0) is larger than destination size (16)",
        ),
        (
            (buffer, wp.zeros(5, dtype=int), 0, 3, 3),
            "Trying to copy source buffer with size (12) from offset (12) is larger than source size (20)",
        ),
        (
            (buffer, wp.zeros(4)),
            "Incompatible array data types: destination dtype=int32, source dtype=float32",
        ),
        ((buffer, bytes(4)), "Incompatible array data types: destination dtype=int32, source dtype=B"),
        ((buffer, memoryview(bytes(32)).cast("i")[::2]), "row-major"),
    ]:
        with pytest.raises(RuntimeError) as caught:
            wp.copy(*arguments)
        assert message in str(caught.value)
    assert read(wp, buffer) == [0] * 4


def test_numpy(wp):
    numpy = pytest.importorskip("numpy")
    buffer = wp.from_numpy(numpy.arange(6, dtype=numpy.float32).reshape(2, 3))
    assert buffer.dtype == "float32" and buffer.shape == (2, 3)
    target = numpy.zeros((2, 3), numpy.float32)
    wp.copy(target, buffer)
    assert target.tolist() == [[0, 1, 2], [3, 4, 5]]
    wp.copy(buffer, target * 2)
    assert read(wp, buffer) == [[0, 2, 4], [6, 8, 10]]
    wp.copy(buffer, numpy.zeros((0, 3), numpy.float32))
    for dtype in (">f4", [("a", "f4")]):
        with pytest.raises(RuntimeError, match="cannot be copied: convert them"):
            wp.copy(buffer, numpy.zeros(6, dtype))
    halves = wp.from_numpy(numpy.ones(3, numpy.float16))
    back = numpy.zeros(3, numpy.float16)
    wp.copy(back, halves)
    assert back.tolist() == [1, 1, 1]


def test_dlpack(wp):
    buffer = wp.from_numpy([1, 2, 3], dtype=int)
    assert wp.from_dlpack(buffer) is buffer
    assert "dltensor" in repr(wp.to_dlpack(buffer))

    class Array:
        def __dlpack__(self, **keywords):
            return buffer.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return buffer.__dlpack_device__()

    shared = wp.from_dlpack(Array())
    assert shared.address == buffer.address
    wp.copy(shared, wp.zeros(3, dtype=int))
    assert read(wp, buffer) == [0, 0, 0]
    for wrong in (5, None):
        with pytest.raises(TypeError):
            wp.from_dlpack(wrong)
        with pytest.raises(TypeError):
            wp.to_dlpack(wrong)


def test_launches(wp, capsys, monkeypatch):
    add = wp.get_device().anabranch_context.load_module(KERNELS.read_text()).kernel("add")
    buffer = wp.zeros(1000, dtype=wp.uint32)
    wp.launch(add, 1000, [buffer], [1, 1000])
    wp.launch(add, (10, 100), inputs=[buffer, 2, 1000], block_dim=64)
    wp.launch(add, 1000, [buffer, 4, 1000], stream=wp.Stream())
    wp.launch(add, 0, [buffer, 100, 1000])
    assert set(read(wp, buffer)) == {7}
    monkeypatch.setattr(wp.config, "print_launches", True)
    monkeypatch.setattr(wp.config, "verify_cuda", True)
    wp.launch(add, 1, [buffer, 1, 1])
    assert "kernel: add dim: 1 " in capsys.readouterr().out
    assert wp.get_stream().is_complete
    for call in (
        lambda: wp.launch(add, -1, [buffer, 1, 1]),
        lambda: wp.launch(add, 1, [buffer, 1]),
        lambda: wp.launch(add, 1, [buffer, 1, 1], block_dim=0),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(RuntimeError) as caught:
        wp.launch(print, 1)
    assert str(caught.value) == "Error launching kernel, can only launch functions decorated with @wp.kernel."


class TorchDevice:
    def __init__(self, type, index=None):
        self.type, self.index = type, index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"


@pytest.fixture
def torch(wp, monkeypatch):
    """What the module uses of PyTorch."""
    native = wp.get_device().anabranch_context.create_stream()

    class Stream:
        device, cuda_stream = TorchDevice("cuda", 0), native.handle

    class ExternalStream(Stream):
        def __init__(self, handle, device):
            self.cuda_stream, self.name = handle, device

    torch = types.ModuleType("torch")
    torch.device = TorchDevice
    torch.cuda = types.SimpleNamespace(
        Stream=Stream,
        ExternalStream=ExternalStream,
        current_stream=lambda device: Stream(),
        current_device=lambda: 0,
        native=native,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def test_devices_of_torch(wp, torch, monkeypatch):
    cpu, gpu = wp.get_device("cpu"), wp.get_device("cuda:0")
    assert wp.device_from_torch("cpu") is wp.device_from_torch(TorchDevice("cpu")) is cpu
    assert wp.device_to_torch("cpu") == "cpu"
    for wrong in ("cuda:9", "meta"):
        with pytest.raises(RuntimeError, match=f"Unsupported Torch device {wrong}"):
            wp.device_from_torch(wrong)
    with pytest.raises(RuntimeError, match="Unsupported Torch device type meta"):
        wp.device_from_torch(TorchDevice("meta"))
    with pytest.raises(ValueError, match="Argument must be a torch.device object or a string"):
        wp.device_from_torch(5)
    monkeypatch.setattr("anabranch.warp._torch._is_torch", lambda device: True)
    for ident in ("cuda", "cuda:0", TorchDevice("cuda"), TorchDevice("cuda", 0)):
        assert wp.device_from_torch(ident) is gpu
    assert wp.device_to_torch(None) == wp.device_to_torch(gpu) == "cuda:0"
    with pytest.raises(RuntimeError, match="Unsupported Torch device cuda:9"):
        wp.device_from_torch(TorchDevice("cuda", 9))


def test_streams_of_torch(wp, torch, monkeypatch):
    monkeypatch.setattr("anabranch.warp._torch._is_torch", lambda device: True)
    theirs = torch.cuda.Stream()
    for stream in (wp.stream_from_torch(theirs), wp.stream_from_torch(), wp.stream_from_torch("cuda:0")):
        assert stream.anabranch_stream == torch.cuda.native and not stream.owner
        assert stream.device == "cuda:0"
    mine = wp.Stream()
    back = wp.stream_to_torch(mine)
    assert back.cuda_stream == mine.cuda_stream and back.name == "cuda:0" and back._warp_stream is mine
    assert wp.stream_to_torch().cuda_stream == wp.get_stream().cuda_stream


def test_the_software_device_is_none_of_torch(wp, torch, on_host):
    for call, message in [
        (lambda: wp.stream_from_torch(), "Unsupported Torch device cuda:0"),
        (lambda: wp.device_from_torch("cuda:0"), "Unsupported Torch device cuda:0"),
        (lambda: wp.stream_to_torch(), "Warp device cuda:0 is not compatible with torch"),
        (lambda: wp.device_to_torch("cuda:0"), "Warp device cuda:0 is not compatible with torch"),
    ]:
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value) == message
