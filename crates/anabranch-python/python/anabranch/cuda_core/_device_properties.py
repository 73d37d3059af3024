"""Limits of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .. import _anabranch


class DeviceProperties:
    """Limits and abilities of a device: those that the package knows."""

    _known: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("DeviceProperties cannot be instantiated directly. Please use Device APIs.")

    @classmethod
    def _init(cls, library: _anabranch.Device) -> DeviceProperties:
        properties = cls.__new__(cls)
        properties._known = library.properties
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
