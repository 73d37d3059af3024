"""Devices, for `runtime`."""

from __future__ import annotations

from typing import Any

from . import _devices
from ._arguments import require
from ._errors import CUDARuntimeError, of_runtime

INVALID_VALUE = 1
NOT_SUPPORTED = 801
INVALID_DEVICE = 101

# What `getDeviceProperties` says beside the name and what has several numbers: names, and numbers of attributes.
_PROPERTIES = {
    "sharedMemPerBlock": 8,
    "warpSize": 10,
    "maxThreadsPerBlock": 1,
    "major": 75,
    "minor": 76,
    "multiProcessorCount": 16,
    "pciBusID": 33,
    "pciDeviceID": 34,
    "pciDomainID": 50,
    "unifiedAddressing": 41,
    "streamPrioritiesSupported": 78,
    "managedMemory": 83,
    "concurrentManagedAccess": 89,
    "canUseHostPointerForRegisteredMem": 91,
    "cooperativeLaunch": 95,
    "sharedMemPerBlockOptin": 97,
}


def driverGetVersion() -> int:
    """The version of the driver: a thousand times the major one, and ten times the minor one."""
    return _devices.raw().driver_version()


def runtimeGetVersion() -> int:
    """The version of the driver: there is no runtime of CUDA here."""
    return driverGetVersion()


@of_runtime
def getDeviceCount() -> int:
    """The number of devices."""
    return len(_devices.devices())


@of_runtime
def getDevice() -> int:
    """The number of this thread's current device."""
    return _devices.current()


@of_runtime
def setDevice(device: int) -> None:
    """Changes this thread's current device."""
    _devices.set_current(device)


@of_runtime
def deviceSynchronize() -> None:
    """Waits until all work of the current device is complete. Ctrl-C ends the wait."""
    _devices.context().synchronize()


@of_runtime
def deviceGetAttribute(attrib: int, device: int) -> int:
    """An attribute of a device, one of ``cudaDevAttr…``, if the driver contract says it."""
    _devices.device(device)
    value = _devices.raw(device).device_attribute(attrib) if attrib >= 0 else None
    if value is None:
        raise CUDARuntimeError(INVALID_VALUE)
    return value


@of_runtime
def getDeviceProperties(device: int) -> dict[str, Any]:
    """Properties of a device: those that the driver contract says."""
    properties = _devices.device(device).properties
    listed: dict[str, Any] = {
        "name": properties["name"].encode(),
        "totalGlobalMem": properties["total_memory"],
        "maxThreadsDim": tuple(properties["max_block_dimensions"]),
        "maxGridSize": tuple(properties["max_grid_dimensions"]),
    }
    raw = _devices.raw(device)
    for name, attribute in _PROPERTIES.items():
        value = raw.device_attribute(attribute)
        if value is not None:
            listed[name] = value
    return listed


@of_runtime
def deviceGetPCIBusId(device: int) -> str:
    """The address of a device, such as ``'0000:01:00.0'``. The software device has none."""
    address: str | None = _devices.device(device).properties["pci_bus_id"]
    if address is None:
        raise CUDARuntimeError(NOT_SUPPORTED)
    return address


@of_runtime
def deviceGetByPCIBusId(pci_bus_id: str) -> int:
    """The device with that address."""
    require(pci_bus_id, str, "pci_bus_id")
    wanted = _numbers(pci_bus_id)
    for number, device in enumerate(_devices.devices()):
        address = device.properties["pci_bus_id"]
        if address is not None and _numbers(address) == wanted:
            return number
    raise CUDARuntimeError(INVALID_DEVICE)


def _numbers(address: str) -> list[int]:
    try:
        parts = [int(part, 16) for part in address.replace(".", ":").split(":")]
    except ValueError:
        raise CUDARuntimeError(INVALID_VALUE) from None
    # Without a domain, it is 0.
    return parts if len(parts) == 4 else [0, *parts]


@of_runtime
def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
    """1 if a device can access the memory of another one, or else 0."""
    _devices.device(peerDevice)
    _devices.device(device)
    return int(_devices.raw(device).can_access_peer(peerDevice))


@of_runtime
def deviceEnablePeerAccess(peerDevice: int) -> None:
    """Lets work of the current device access the memory of another one."""
    _devices.raw().enable_peer_access(_devices.context(peerDevice))


@of_runtime
def deviceDisablePeerAccess(peerDevice: int) -> None:
    """Lets work of the current device access the memory of another one no more."""
    _devices.raw().disable_peer_access(_devices.context(peerDevice))
