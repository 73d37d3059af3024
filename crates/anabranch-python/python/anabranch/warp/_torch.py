"""Devices and streams of PyTorch, which is imported only here."""

from __future__ import annotations

import importlib
from typing import Any

from . import _runtime
from ._device import Device
from ._runtime import DeviceLike
from ._stream import Stream


def _torch() -> Any:
    return importlib.import_module("torch")


def device_from_torch(torch_device: Any) -> Device:
    """The device of a ``torch.device``, or of its name.

    Raises ``RuntimeError`` if there is none, as for a GPU while the software device is in use, and ``ValueError`` for an object
    that is neither.
    """
    runtime = _runtime.get()
    if isinstance(torch_device, str):
        device = runtime.device_map.get(torch_device)
        if torch_device == "cuda":
            device = runtime.get_current_cuda_device()
        if device is None or not _is_torch(device):
            raise RuntimeError(f"Unsupported Torch device {torch_device}")
        return device
    kind, index = getattr(torch_device, "type", None), getattr(torch_device, "index", None)
    if kind is None:
        raise ValueError("Argument must be a torch.device object or a string")
    if kind == "cpu":
        return runtime.cpu_device
    if kind != "cuda":
        raise RuntimeError(f"Unsupported Torch device type {kind}")
    if index is None:
        index = _torch().cuda.current_device()
    for device in runtime.cuda_devices:
        if device.is_primary and device.ordinal == index and _is_torch(device):
            return device
    raise RuntimeError(f"Unsupported Torch device {torch_device}")


def device_to_torch(warp_device: DeviceLike) -> str:
    """The name of a device in PyTorch. Raises ``RuntimeError`` for a software device."""
    device = _runtime.get_device(warp_device)
    if not _is_torch(device):
        raise RuntimeError(f"Warp device {device} is not compatible with torch")
    return "cpu" if device.is_cpu else f"cuda:{device.ordinal}"


def _is_torch(device: Device) -> bool:
    """Whether PyTorch has the device, too."""
    return device.is_cpu or device.anabranch_device.backend == "cuda"


def stream_from_torch(stream_or_device: Any = None) -> Stream:
    """The stream that a ``torch.cuda.Stream`` stands for, which is kept. For a device, it is its current stream in PyTorch.

    Raises ``RuntimeError`` if the device is not one of this module.
    """
    torch = _torch()
    if isinstance(stream_or_device, torch.cuda.Stream):
        theirs = stream_or_device
    else:
        theirs = torch.cuda.current_stream(stream_or_device)
    stream = Stream.__new__(Stream)
    stream._set_up(device_from_torch(theirs.device), owner=False)
    stream._use(theirs.cuda_stream, theirs)
    return stream


def stream_to_torch(stream_or_device: Stream | DeviceLike = None) -> Any:
    """A ``torch.cuda.ExternalStream`` for a stream, which it keeps, or for the current stream of a device.

    Raises ``RuntimeError`` for a software device.
    """
    stream = stream_or_device
    if not isinstance(stream, Stream):
        stream = _runtime.get_device(stream).stream
    name = device_to_torch(stream.device)
    theirs = _torch().cuda.ExternalStream(stream.cuda_stream or 0, device=name)
    theirs._warp_stream = stream
    return theirs
