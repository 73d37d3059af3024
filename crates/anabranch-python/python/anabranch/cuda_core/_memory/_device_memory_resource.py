"""Pools of memory of devices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._utils.classes import CheckedOptions, optional_int
from .._utils.cuda_utils import call, check_or_create_options
from ._pool import PoolMemoryResource

if TYPE_CHECKING:
    from .._device import Device

__all__ = ["DeviceMemoryResource", "DeviceMemoryResourceOptions"]


@dataclass(slots=True)
class DeviceMemoryResourceOptions(CheckedOptions):
    """A pool of its own: whether other processes can use it, which is not supported here, and its maximum size in bytes;
    0 is no limit but that of the device.
    """

    ipc_enabled: bool = False
    max_size: int = 0

    _checks = {"ipc_enabled": bool, "max_size": optional_int}


class DeviceMemoryResource(PoolMemoryResource):
    """Memory of a device: the device's default pool, or with options a pool of its own."""

    _device_id: int
    _peers: frozenset[Device]

    def __init__(self, device_id: Device | int, options: DeviceMemoryResourceOptions | None = None) -> None:
        from .._device import Device

        device = Device(device_id)
        self._device_id, self._is_closed, self._peers = device.device_id, False, frozenset()
        if options is None:
            self._pool, self._is_owned = call(device._library.default_memory_pool), False
            return
        chosen = check_or_create_options(DeviceMemoryResourceOptions, options, "DeviceMemoryResource options")
        if chosen.ipc_enabled:
            raise RuntimeError("IPC is not available for memory here: use ipc_enabled=False")
        self._pool, self._is_owned = call(device._library.create_memory_pool, max_bytes=chosen.max_size), True

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return self._device_id

    @property
    def peer_accessible_by(self) -> frozenset[Device]:
        """The other devices that can use the memory, as they were set here. Set it to devices, or to their numbers."""
        return self._peers

    @peer_accessible_by.setter
    def peer_accessible_by(self, devices: Iterable[Device | int]) -> None:
        from .._device import Device

        wanted = frozenset(Device(device) for device in devices) - {Device(self._device_id)}
        pool = self._open()
        for device in self._peers ^ wanted:
            call(pool.set_peer_access, device._library, device in wanted)
        self._peers = wanted

    @property
    def is_device_accessible(self) -> bool:
        """True."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can use the memory: that of the software device, and not that of a GPU."""
        return self._pool_is_of_host()

    def _pool_is_of_host(self) -> bool:
        from .. import _state

        return _state.devices()[self._device_id].backend == "host"
