"""The memory pools of devices."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from .._errors import AnabranchError
from . import _runtime
from ._failure import described
from ._runtime import DeviceLike

if TYPE_CHECKING:
    from .._anabranch import MemoryPool
    from ._device import Device


def is_mempool_supported(device: DeviceLike) -> bool:
    """Whether a device has memory pools."""
    return _runtime.get_device(device).is_mempool_supported


def is_mempool_enabled(device: DeviceLike) -> bool:
    """Whether memory of a device comes from its pool: if it has one."""
    return _runtime.get_device(device).is_mempool_enabled


def set_mempool_enabled(device: DeviceLike, enable: bool) -> None:
    """Accepts what is so anyway: memory of a device comes from its pool, and that of "cpu" does not.

    Raises ``ValueError`` to enable a pool of "cpu", and ``RuntimeError`` to disable that of another device.
    """
    found = _runtime.get_device(device)
    if found.is_cuda:
        if enable and not found.is_mempool_supported:
            raise RuntimeError(f"Device {found} does not support memory pools")
        if not enable and found.is_mempool_enabled:
            raise RuntimeError(f"the memory of device {found} always comes from its memory pool here")
    elif enable:
        raise ValueError("Memory pools are only supported on CUDA devices")


class ScopedMempool:
    """Calls `set_mempool_enabled` within ``with``, which changes nothing, and raises its errors."""

    def __init__(self, device: DeviceLike, enable: bool) -> None:
        """The arguments are those of `set_mempool_enabled`."""
        self.device = _runtime.get_device(device)
        self.enable = enable

    def __enter__(self) -> None:
        self.saved_setting = is_mempool_enabled(self.device)
        set_mempool_enabled(self.device, self.enable)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        set_mempool_enabled(self.device, self.saved_setting)


def _pool(ident: DeviceLike) -> tuple[Device, MemoryPool]:
    device = _runtime.get_device(ident)
    if not device.is_cuda:
        raise ValueError("Memory pools are only supported on CUDA devices")
    if not device.is_mempool_supported:
        raise RuntimeError(f"Device {device} does not support memory pools")
    return device, device.anabranch_device.default_memory_pool()


def set_mempool_release_threshold(device: DeviceLike, threshold: float) -> None:
    """Sets how many bytes the pool of a device keeps at a synchronization when it could return memory.

    A number up to 1 is a fraction of the memory of the device. Negative numbers are 0. Raises ``ValueError`` for the device
    "cpu", and ``RuntimeError`` if there is no pool or the driver refuses.
    """
    found, pool = _pool(device)
    if threshold < 0:
        threshold = 0
    elif 0 < threshold <= 1:
        threshold *= found.total_memory
    try:
        pool.release_threshold = int(threshold)
    except AnabranchError as error:
        raise described(f"Failed to set memory pool release threshold for device {found}", error) from error


def get_mempool_release_threshold(device: DeviceLike = None) -> int:
    """How many bytes the pool of a device keeps at a synchronization. The errors are those of setting it."""
    return _pool(device)[1].release_threshold


def get_mempool_used_mem_current(device: DeviceLike = None) -> int:
    """How many bytes of the pool of a device are in use. Raises ``ValueError`` or ``RuntimeError`` if there is no pool."""
    return _pool(device)[1].used_bytes


def get_mempool_used_mem_high(device: DeviceLike = None) -> int:
    """How many bytes of the pool of a device were in use at most. The errors are those of `get_mempool_used_mem_current`."""
    return _pool(device)[1].used_bytes_high
