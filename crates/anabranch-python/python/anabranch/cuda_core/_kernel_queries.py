"""What kernels need, and how many of their blocks run at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import _state
from ._launch_config import LaunchConfig
from ._utils.classes import Uncopied
from ._utils.cuda_utils import call, check_argument

if TYPE_CHECKING:
    from .. import _anabranch
    from ._device import Device
    from ._module import Kernel
    from ._stream import Stream


class KernelAttributes(Uncopied):
    """What a kernel needs on a device: the current one, or that of ``attributes[device]``."""

    _kernel: Kernel
    _device_id: int | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("KernelAttributes cannot be instantiated directly. Please use Kernel APIs.")

    @classmethod
    def _init(cls, kernel: Kernel, device_id: int | None = None) -> KernelAttributes:
        attributes = cls.__new__(cls)
        attributes._kernel, attributes._device_id = kernel, device_id
        return attributes

    def __getitem__(self, device: Device | int) -> KernelAttributes:
        from ._device import Device

        return KernelAttributes._init(self._kernel, Device(device).device_id)

    def _number(self, name: str) -> int:
        kernel = self._kernel._current()
        if self._device_id is not None and _state.device_id_of(kernel.context.device) != self._device_id:
            from ._context import Context

            library = call(_state.devices()[self._device_id].context)
            kernel = self._kernel._in(Context._of(library, self._device_id))
        return int(call(getattr, kernel, "attributes")[name])

    @property
    def max_threads_per_block(self) -> int:
        """The maximum number of threads in a block."""
        return self._number("max_threads_per_block")

    @property
    def shared_size_bytes(self) -> int:
        """The static shared memory of a block in bytes."""
        return self._number("static_shared_bytes")

    @property
    def const_size_bytes(self) -> int:
        """The constant memory in bytes."""
        return self._number("constant_bytes")

    @property
    def local_size_bytes(self) -> int:
        """The local memory of a thread in bytes."""
        return self._number("local_bytes")

    @property
    def num_regs(self) -> int:
        """The number of registers of a thread."""
        return self._number("registers")

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The maximum dynamic shared memory of a block in bytes."""
        return self._number("max_dynamic_shared_bytes")


class MaxPotentialBlockSizeOccupancyResult(NamedTuple):
    """A launch that keeps the device busy: the number of blocks that it needs, and the threads of a block."""

    min_grid_size: int
    max_block_size: int


class KernelOccupancy(Uncopied):
    """How many blocks and clusters of a kernel run at the same time."""

    _kernel: Kernel

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("KernelOccupancy cannot be instantiated directly. Please use Kernel APIs.")

    @classmethod
    def _init(cls, kernel: Kernel) -> KernelOccupancy:
        occupancy = cls.__new__(cls)
        occupancy._kernel = kernel
        return occupancy

    def max_active_blocks_per_multiprocessor(self, block_size: int, dynamic_shared_memory_size: int) -> int:
        """The maximum number of blocks, of so many threads and bytes of shared memory, on a multiprocessor."""
        kernel = self._kernel._current()
        return call(kernel.max_active_blocks, block_size, dynamic_shared_bytes=dynamic_shared_memory_size)

    def max_potential_block_size(
        self, dynamic_shared_memory_needed: int, block_size_limit: int
    ) -> MaxPotentialBlockSizeOccupancyResult:
        """The largest block with which the most threads run on a multiprocessor, and the number of blocks that fill the
        device. A limit of 0 is that of the kernel.
        """
        kernel = self._kernel._current()
        properties = kernel.context.device.properties
        limit = min(properties["max_threads_per_block"], self._kernel.attributes.max_threads_per_block)
        limit = min(limit, block_size_limit) if block_size_limit else limit
        warp = properties["warp_size"]
        best = (0, 0, 0)
        # The sizes are multiples of a warp, but for the limit itself.
        for size in sorted({limit, *range(warp, limit + 1, warp)}, reverse=True):
            blocks = self.max_active_blocks_per_multiprocessor(size, dynamic_shared_memory_needed)
            if blocks * size > best[0]:
                best = (blocks * size, blocks, size)
        return MaxPotentialBlockSizeOccupancyResult(best[1] * properties["multiprocessor_count"], best[2])

    def max_potential_cluster_size(self, config: LaunchConfig, *, stream: Stream) -> int:
        """The maximum number of blocks in a cluster of a launch."""
        return call(self._kernel_in(stream).max_cluster_size, check_argument("config", config, LaunchConfig)._to_library())

    def max_active_clusters(self, config: LaunchConfig, *, stream: Stream) -> int:
        """The maximum number of clusters of a launch that run at the same time."""
        return call(
            self._kernel_in(stream).max_active_clusters, check_argument("config", config, LaunchConfig)._to_library()
        )

    def _kernel_in(self, stream: Stream) -> _anabranch.Kernel:
        from ._stream import Stream_accept

        return self._kernel._in(Stream_accept(stream).context)
