"""How a kernel is launched."""

from __future__ import annotations

from typing import Any

from .. import _anabranch
from ._utils.classes import CheckedOptions, Uncopied
from ._utils.cuda_utils import CUDAError, c_int, call, cast_to_3_tuple, check_int

__all__ = ["LaunchConfig"]


def _extents(value: Any) -> tuple[Any, ...] | None:
    if value is None or isinstance(value, tuple):
        return value
    raise TypeError(f"Expected tuple, got {type(value).__name__}")


class LaunchConfig(CheckedOptions, Uncopied):
    """The grid in blocks, or in clusters if there are any, the block in threads, and options of a launch.

    Extents are an int, or a tuple of up to three. ``shmem_size`` is the dynamic shared memory of a block in bytes. All
    blocks of a cooperative launch run at the same time. With ``programmatic_stream_serialization``, the kernel may begin
    before the kernel before it has ended.

    Raises `ValueError` for extents that are less than 1.
    """

    __slots__ = (
        "__weakref__",
        "_library",
        "block",
        "cluster",
        "grid",
        "is_cooperative",
        "programmatic_stream_serialization",
        "shmem_size",
    )

    grid: tuple[Any, ...]
    cluster: tuple[Any, ...] | None
    block: tuple[Any, ...]
    shmem_size: int
    is_cooperative: bool
    programmatic_stream_serialization: bool
    # What the package makes of it, until something changes.
    _library: _anabranch.LaunchConfig | None

    _checks = {
        "grid": _extents,
        "cluster": _extents,
        "block": _extents,
        "shmem_size": c_int,
        "is_cooperative": bool,
        "programmatic_stream_serialization": bool,
    }

    def __init__(
        self,
        grid: int | tuple[int, ...] | None = None,
        cluster: int | tuple[int, ...] | None = None,
        block: int | tuple[int, ...] | None = None,
        shmem_size: int | None = None,
        is_cooperative: bool = False,
        programmatic_stream_serialization: bool = False,
    ) -> None:
        size = 0 if shmem_size is None else check_int("shmem_size", shmem_size)
        self.grid = cast_to_3_tuple("LaunchConfig.grid", grid)
        self.block = cast_to_3_tuple("LaunchConfig.block", block)
        self.cluster = None
        if cluster is not None:
            self.cluster = cast_to_3_tuple("LaunchConfig.cluster", cluster)
            _require_clusters()
        self.shmem_size = size
        self.is_cooperative = is_cooperative
        if self.is_cooperative:
            _require_cooperative()
        self.programmatic_stream_serialization = programmatic_stream_serialization

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name != "_library":
            object.__setattr__(self, "_library", None)

    def _to_library(self) -> _anabranch.LaunchConfig:
        if self._library is not None:
            return self._library
        grid = self.grid
        if self.cluster is not None:
            grid = tuple(clusters * blocks for clusters, blocks in zip(grid, self.cluster, strict=True))
        self._library = call(
            _anabranch.LaunchConfig,
            grid,
            self.block,
            cluster=self.cluster,
            dynamic_shared_bytes=self.shmem_size,
            cooperative=self.is_cooperative,
            programmatic_stream_serialization=self.programmatic_stream_serialization,
        )
        return self._library

    def _identity(self) -> tuple[Any, ...]:
        return (
            self.grid,
            self.cluster,
            self.block,
            self.shmem_size,
            self.is_cooperative,
            self.programmatic_stream_serialization,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LaunchConfig):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return (
            f"LaunchConfig(grid={self.grid}, cluster={self.cluster}, block={self.block}, shmem_size={self.shmem_size}, "
            f"is_cooperative={self.is_cooperative}, "
            f"programmatic_stream_serialization={self.programmatic_stream_serialization})"
        )


def _require_clusters() -> None:
    from ._device import Device

    device = Device()
    found = device.compute_capability
    # The software device has clusters, and no generation.
    if device._library.backend == "cuda" and found < (9, 0):
        raise CUDAError(
            "thread block clusters are not supported on devices with compute capability < 9.0 "
            f"(got {found.major}.{found.minor})"
        )


def _require_cooperative() -> None:
    from ._device import Device

    if not Device().properties.cooperative_launch:
        raise CUDAError("cooperative kernels are not supported on this device")
