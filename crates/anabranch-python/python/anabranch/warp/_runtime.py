"""What the module knows of the process: its devices, the default one, and the captures in progress."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Union

from .. import _anabranch
from . import config
from ._device import Device
from ._logger import LOG_INFO, log_info

if TYPE_CHECKING:
    from .._anabranch import Context
    from ._graph import Graph

DeviceLike = Union[Device, str, None]
"""What stands for a device: a `Device`, an alias such as "cuda:0", "cuda" or "cpu", or ``None`` for the default device."""

CONDITIONAL_GRAPHS = (12, 4)


class CurrentDevice(threading.local):
    """The devices that a thread has made current, innermost last, as the driver has a stack of contexts for each thread."""

    def __init__(self) -> None:
        self._devices: list[Device] = []

    def get(self) -> Device | None:
        """The device, if the thread has made one current."""
        return self._devices[-1] if self._devices else None

    def set(self, device: Device | None) -> None:
        """Makes a device current in place of the present one. ``None`` takes the present one away."""
        if self._devices:
            self._devices.pop()
        if device is not None:
            self._devices.append(device)

    def push(self, device: Device) -> None:
        """Makes a device current until `pop`."""
        self._devices.append(device)

    def pop(self) -> None:
        """Makes the former device current."""
        if self._devices:
            self._devices.pop()


class Runtime:
    """The devices of the process. Use the functions of the module."""

    def __init__(self) -> None:
        chosen = _anabranch.default_device()
        natives = [device for device in _anabranch.devices() if device.backend == chosen.backend]
        self.driver_version = chosen.driver_version
        self.cpu_device = Device(self, "cpu")
        self.cuda_devices = [
            Device(self, f"cuda:{index}", ordinal=index, is_primary=True, native=native)
            for index, native in enumerate(natives)
        ]
        self.device_map = {device.alias: device for device in (self.cpu_device, *self.cuda_devices)}
        self.default_device = self.cuda_devices[natives.index(chosen)]
        self.current = CurrentDevice()
        # By the ids of captures.
        self.captures: dict[int, Graph] = {}

    def get_device(self, ident: DeviceLike = None) -> Device:
        """The device that a name stands for."""
        if isinstance(ident, Device):
            return ident
        if ident is None:
            return self.default_device
        device = self.device_map.get(ident) if isinstance(ident, str) else None
        if device is not None:
            return device
        if ident == "cuda":
            return self.get_current_cuda_device()
        raise ValueError(f"Invalid device identifier: {ident}")

    def get_current_cuda_device(self) -> Device:
        """The device that the alias "cuda" stands for in this thread."""
        current = self.current.get()
        if current is not None:
            return current
        return self.default_device if self.default_device.is_cuda else self.cuda_devices[0]

    def device_of(self, context: Context) -> Device:
        """The device that has a context."""
        for device in self.cuda_devices:
            if device.anabranch_context == context:
                return device
        raise RuntimeError(f"{context!r} is of no device of this module: name one by map_cuda_device")

    def map_cuda_device(self, alias: str, context: Context | int | None) -> Device:
        """Makes an alias stand for a context."""
        present = self.current.get()
        if context is None and present is not None:
            context = present.anabranch_context
        if context is None:
            raise RuntimeError(f"Unable to determine CUDA context for device alias '{alias}'")
        handle = context if isinstance(context, int) else context.handle
        named = self.device_map.get(alias)
        if named is not None:
            if named.context == handle:
                return named
            raise RuntimeError(f"Device alias '{alias}' already exists")
        for device in self.cuda_devices:
            if device.context == handle:
                del self.device_map[device.alias]
                device.alias = alias
                self.device_map[alias] = device
                return device
        if isinstance(context, int):
            raise RuntimeError(f"no device has the context {context:#x}: pass a Context of anabranch")
        native = context.device
        ordinals = [device.ordinal for device in self.cuda_devices if device._native == native]
        if not ordinals:
            raise RuntimeError(f"{context!r} is not of the devices of this module, {self.cuda_devices}")
        device = Device(self, alias, ordinal=ordinals[0], native=native, context=context)
        self.device_map[alias] = device
        self.cuda_devices.append(device)
        return device

    def unmap_cuda_device(self, alias: str) -> None:
        """Forgets the device of an alias."""
        device = self.device_map.get(alias)
        if device is None or not device.is_cuda:
            raise RuntimeError(f"Invalid CUDA device alias '{alias}'")
        del self.device_map[alias]
        self.cuda_devices = [other for other in self.cuda_devices if other is not device]

    def greet(self) -> None:
        """Logs which devices there are."""
        lines = [f"Warp {config.version} interface of Anabranch {_anabranch.__version__} initialized:", "   Devices:"]
        for device in self.cuda_devices:
            kind = f"sm_{device.arch}" if device.anabranch_device.backend == "cuda" else "software device"
            alias, memory = f'"{device.alias}"', f"{device.total_memory / 2**30:.0f} GiB"
            lines.append(f'     {alias:10s} : "{device.name}" ({memory}, {kind})')
        log_info("\n".join(lines))


runtime: Runtime | None = None
_FIRST: dict[str, Runtime] = {}


def init() -> None:
    """Finds the devices, and logs them the first time. Most functions do this themselves.

    Raises ``RuntimeError`` if the device that the environment variable ANABRANCH_DEVICE names is not there.
    """
    get()


def get() -> Runtime:
    """What the module knows of the process."""
    global runtime
    if runtime is not None:
        return runtime
    # Without a lock: a signal handler, or a destructor, may call this meanwhile on the same thread. The first one counts.
    made = Runtime()
    first = _FIRST.setdefault("runtime", made)
    runtime = first
    if first is made and config.log_level <= LOG_INFO:
        made.greet()
    return first


def get_device(ident: DeviceLike = None) -> Device:
    """The device that `ident` stands for: an alias such as "cuda:0", or ``None`` for the default device.

    "cuda" stands for the device that the thread has made current by `set_device` or `ScopedDevice`, or else for the default
    device. Raises ``ValueError`` if there is none.
    """
    return get().get_device(ident)


def set_device(ident: DeviceLike) -> None:
    """Makes a device the default one of the process, and the current one of the thread."""
    device = get_device(ident)
    get().default_device = device
    device.make_current()


def get_devices() -> list[Device]:
    """The devices that can run work, as `get_cuda_devices` returns them. "cpu" is not among them: see `is_cpu_available`."""
    return list(get().cuda_devices)


def get_cuda_devices() -> list[Device]:
    """The devices that take the place of CUDA devices: GPUs, or else the software devices."""
    return get().cuda_devices


def get_cuda_device_count() -> int:
    """How many devices `get_cuda_devices` returns."""
    return len(get().cuda_devices)


def get_cuda_device(ordinal: int | None = None) -> Device:
    """The device with that number, or the one that "cuda" stands for. Raises ``IndexError`` if there is none."""
    return get().get_current_cuda_device() if ordinal is None else get().cuda_devices[ordinal]


def get_preferred_device() -> Device:
    """The first device that takes the place of a CUDA device."""
    return get().cuda_devices[0]


def is_cpu_available() -> bool:
    """Whether work can run on the device "cpu": never, as kernels there are Warp's. The software device has streams."""
    return False


def is_cuda_available() -> bool:
    """Whether there is a device that takes the place of a CUDA device."""
    return get_cuda_device_count() > 0


def is_device_available(device: Device) -> bool:
    """Whether `get_devices` lists a device."""
    return device in get_devices()


def is_conditional_graph_supported() -> bool:
    """Whether `capture_if` and `capture_while` can be captured, for which GPUs need CUDA 12.4."""
    return get().driver_version >= CONDITIONAL_GRAPHS


def get_cuda_driver_version() -> tuple[int, int] | None:
    """The version of CUDA that the driver implements. The software device has the one whose semantics it has."""
    return get().driver_version


def map_cuda_device(alias: str, context: Context | int | None = None) -> Device:
    """Gives a context an alias, and returns its device.

    `context` is a `Context` of the package `anabranch`, the handle of the context of a known device, or ``None`` for the device
    that is current in the thread. A known device gets the alias in place of its own. Raises ``RuntimeError`` if the alias
    stands for another context, or there is none.
    """
    return get().map_cuda_device(alias, context)


def unmap_cuda_device(alias: str) -> None:
    """Forgets a device. Raises ``RuntimeError`` if the alias stands for no device with streams."""
    get().unmap_cuda_device(alias)
