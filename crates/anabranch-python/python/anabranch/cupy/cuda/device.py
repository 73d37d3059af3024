"""Takes the place of ``cupy.cuda.device``: devices by their numbers."""

from __future__ import annotations

import threading
from typing import Any, SupportsInt

from anabranch._anabranch import _restoring

from . import _constants, _devices, runtime
from ._arguments import c_int
from ._errors import CUDARuntimeError, of_runtime

__all__ = ["Device", "get_device_id"]

_PREFIX = "cudaDevAttr"
_INVALID_VALUE = 1


class _Entered(threading.local):
    def __init__(self) -> None:
        # The numbers of the former devices. Replaced as a whole, so that a signal handler that raises an exception leaves nothing half done.
        self.numbers: tuple[int, ...] = ()


_ENTERED = _Entered()


@_restoring
def _put_back(entered: tuple[int, ...], former: int) -> None:
    _devices.set_current(former)
    _ENTERED.numbers = entered


def get_device_id() -> int:
    """The number of the current device."""
    return runtime.getDevice()


class Device:
    """A device: a number, another `Device`, or the current one if it is omitted. ``with`` makes it current for a time."""

    __slots__ = ("id",)

    id: int

    def __init__(self, device: SupportsInt | str | None = None) -> None:
        self.id = runtime.getDevice() if device is None else c_int(int(device))

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        entered, former = _ENTERED.numbers, runtime.getDevice()
        try:
            if self.id != former:
                self.use()
            _ENTERED.numbers = (*entered, former)
            return self
        except BaseException:
            # `with` does not call `__exit__` then.
            _put_back(entered, former)
            raise

    @_restoring
    def __exit__(self, *args: object) -> None:
        entered = _ENTERED.numbers
        _devices.set_current(entered[-1])
        # Last, so that it is done once.
        _ENTERED.numbers = entered[:-1]

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def use(self) -> None:
        """Makes this the current device of the thread."""
        runtime.setDevice(self.id)

    @of_runtime
    def synchronize(self) -> None:
        """Waits until all work of the device is complete. Ctrl-C ends the wait."""
        _devices.device(self.id)
        _devices.context(self.id).synchronize()

    @property
    def compute_capability(self) -> str:
        """The major and the minor number in one text, such as ``'90'``."""
        major, minor = _devices.device(self.id).properties["compute_capability"]
        return f"{major}{minor}"

    @property
    def mem_info(self) -> tuple[int, int]:
        """The free and the total memory in bytes."""
        with self:
            return runtime.memGetInfo()

    @property
    def pci_bus_id(self) -> str:
        """The address of the device, such as ``'0000:01:00.0'``."""
        return runtime.deviceGetPCIBusId(self.id)

    @classmethod
    def from_pci_bus_id(cls, pci_bus_id: str) -> Device:
        """The device with that address."""
        if not isinstance(pci_bus_id, str):
            raise TypeError(f"Expected str, got {type(pci_bus_id).__name__}")
        return cls(runtime.deviceGetByPCIBusId(pci_bus_id))

    @property
    def attributes(self) -> dict[str, int]:
        """Attributes by their names, without ``cudaDevAttr``: those that the driver contract says."""
        listed = {}
        for name in _constants.__all__:
            if name.startswith(_PREFIX):
                try:
                    value = runtime.deviceGetAttribute(getattr(_constants, name), self.id)
                except CUDARuntimeError as error:
                    if error.status != _INVALID_VALUE:
                        raise
                else:
                    listed[name[len(_PREFIX) :]] = value
        return listed

    # As in CuPy: devices have an order, and no hash.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> bool:
        return self.id == other.id if isinstance(other, Device) else NotImplemented

    def __ne__(self, other: Any) -> bool:
        return self.id != other.id if isinstance(other, Device) else NotImplemented

    def __lt__(self, other: Device) -> bool:
        return self.id < other.id if isinstance(other, Device) else NotImplemented

    def __le__(self, other: Device) -> bool:
        return self.id <= other.id if isinstance(other, Device) else NotImplemented

    def __gt__(self, other: Device) -> bool:
        return self.id > other.id if isinstance(other, Device) else NotImplemented

    def __ge__(self, other: Device) -> bool:
        return self.id >= other.id if isinstance(other, Device) else NotImplemented
