"""Limits of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .. import _anabranch


class DeviceProperties:
    """Limits and abilities of a device: those that the package knows."""

    _known: dict[str, Any]
    _priorities: tuple[int, int]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("DeviceProperties cannot be instantiated directly. Please use Device APIs.")

    @classmethod
    def _init(cls, library: _anabranch.Device) -> DeviceProperties:
        properties = cls.__new__(cls)
        properties._known, properties._priorities = library.properties, library.stream_priority_range
        return properties

    def _number(self, name: str, index: int | None = None) -> int:
        value = self._known[name]
        return int(value if index is None else value[index])

    @property
    def max_threads_per_block(self) -> int:
        """The maximum number of threads in a block."""
        return self._number("max_threads_per_block")

    @property
    def max_block_dim_x(self) -> int:
        """The maximum extent of a block in x."""
        return self._number("max_block_dimensions", 0)

    @property
    def max_block_dim_y(self) -> int:
        """The maximum extent of a block in y."""
        return self._number("max_block_dimensions", 1)

    @property
    def max_block_dim_z(self) -> int:
        """The maximum extent of a block in z."""
        return self._number("max_block_dimensions", 2)

    @property
    def max_grid_dim_x(self) -> int:
        """The maximum extent of a grid in x."""
        return self._number("max_grid_dimensions", 0)

    @property
    def max_grid_dim_y(self) -> int:
        """The maximum extent of a grid in y."""
        return self._number("max_grid_dimensions", 1)

    @property
    def max_grid_dim_z(self) -> int:
        """The maximum extent of a grid in z."""
        return self._number("max_grid_dimensions", 2)

    @property
    def max_shared_memory_per_block(self) -> int:
        """The maximum shared memory of a block in bytes."""
        return self._number("max_shared_memory_per_block")

    @property
    def max_shared_memory_per_block_optin(self) -> int:
        """The maximum shared memory in bytes of a block of a kernel that asks for more."""
        return self._number("max_shared_memory_per_block_optin")

    @property
    def multiprocessor_count(self) -> int:
        """The number of multiprocessors; of threads, on the software device."""
        return self._number("multiprocessor_count")

    @property
    def warp_size(self) -> int:
        """The number of threads in a warp."""
        return self._number("warp_size")

    @property
    def compute_capability_major(self) -> int:
        """The major number of the generation."""
        return self._number("compute_capability", 0)

    @property
    def compute_capability_minor(self) -> int:
        """The minor number of the generation."""
        return self._number("compute_capability", 1)

    @property
    def memory_pools_supported(self) -> bool:
        """Whether there are stream-ordered allocations and pools."""
        return "memory_pools" in self._known["capabilities"]

    @property
    def managed_memory(self) -> bool:
        """Whether there is managed memory."""
        return "managed_memory" in self._known["capabilities"]

    @property
    def concurrent_managed_access(self) -> bool:
        """Whether the host and the device may use managed memory at the same time."""
        return "concurrent_managed_access" in self._known["capabilities"]

    @property
    def cooperative_launch(self) -> bool:
        """Whether all blocks of a launch can run at the same time."""
        return "cooperative_launch" in self._known["capabilities"]

    @property
    def cluster_launch(self) -> bool:
        """Whether blocks can be in clusters."""
        return "cluster_launch" in self._known["capabilities"]

    @property
    def unified_addressing(self) -> bool:
        """Whether the host and the device have one address space."""
        return "unified_addressing" in self._known["capabilities"]

    @property
    def ipc_event_supported(self) -> bool:
        """Whether other processes can open events."""
        return "interprocess_events" in self._known["capabilities"]

    @property
    def can_use_64_bit_stream_mem_ops(self) -> bool:
        """Whether streams wait for and write values of 64 bits."""
        return "stream_value_64" in self._known["capabilities"]

    @property
    def can_use_stream_wait_value_nor(self) -> bool:
        """Whether streams wait for values by NOR."""
        return "stream_wait_value_nor" in self._known["capabilities"]

    @property
    def can_flush_remote_writes(self) -> bool:
        """Whether streams can make writes of other devices visible."""
        return "flush_remote_writes" in self._known["capabilities"]

    @property
    def can_use_host_pointer_for_registered_mem(self) -> bool:
        """Whether kernels use registered memory of the host at its address there."""
        return "registered_host_address" in self._known["capabilities"]

    @property
    def tensor_map_access_supported(self) -> bool:
        """Whether there are tensor maps."""
        return "tensor_maps" in self._known["capabilities"]

    @property
    def virtual_memory_management_supported(self) -> bool:
        """Whether addresses can be reserved, and memory be mapped there."""
        return "virtual_memory" in self._known["capabilities"]

    @property
    def stream_priorities_supported(self) -> bool:
        """Whether streams have different priorities."""
        least, greatest = self._priorities
        return least != greatest

    @property
    def pci_domain_id(self) -> int:
        """The domain on the PCI bus; 0 for the software device."""
        return self._address(0)

    @property
    def pci_bus_id(self) -> int:
        """The number of the PCI bus; 0 for the software device."""
        return self._address(1)

    @property
    def pci_device_id(self) -> int:
        """The number on the PCI bus; 0 for the software device."""
        return self._address(2)

    def _address(self, index: int) -> int:
        address = self._known["pci_bus_id"] or "0:0:0"
        return int(address.replace(".", ":").split(":")[index], 16)
