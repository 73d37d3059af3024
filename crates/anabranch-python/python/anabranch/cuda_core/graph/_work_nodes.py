"""Nodes that launch kernels, and those that do nothing."""

from __future__ import annotations

from typing import Any

from .._launch_config import LaunchConfig
from .._module import Kernel, kernel_with
from .._utils.cuda_utils import call, check_argument
from ._node import GraphNode
from ._works import KernelWork, Work, kernel_work, require_plain, unknown

__all__ = ["EmptyNode", "KernelNode"]


class EmptyNode(GraphNode):
    """A node without work, where others meet."""

    def __repr__(self) -> str:
        return self._show()


class KernelNode(GraphNode):
    """A launch of a kernel."""

    def _captured(self) -> Work:
        said = self._parameters()
        config = LaunchConfig(grid=said["grid"], block=said["block"], shmem_size=said["shared_bytes"])
        kernel = kernel_with(said["function"])
        return KernelWork(config, kernel, None if kernel is None else kernel._in(self._context), None)

    def _told(self) -> KernelWork:
        work = self._work_or_captured()
        assert isinstance(work, KernelWork)
        return work

    def update(
        self, *, config: LaunchConfig | None = None, kernel: Kernel | None = None, args: Any = None
    ) -> None:
        """Replaces parameters of the launch in the graph. Another kernel needs arguments, if only ``()``.

        Raises `ValueError` if there are none, and `NotImplementedError` for clusters and cooperative launches.
        """
        if config is not None:
            check_argument("config", config, LaunchConfig)
        if kernel is not None:
            check_argument("kernel", kernel, Kernel)
        self._require_changes()
        if kernel is not None and args is None:
            raise ValueError("changing kernel requires args")
        former = self._told()
        chosen = former.config if config is None else config
        require_plain(chosen, "updating clustered or cooperative kernel nodes is not supported")
        if args is None:
            work = KernelWork(chosen, former.kernel, former.launched, former.arguments)
        else:
            launched = former.kernel if kernel is None else kernel
            if launched is None:
                raise unknown("kernel")
            work = kernel_work(chosen, launched, args, self._context)
        call(self._graph.set_node, self._named(), work.to_library())
        self._hierarchy.works[self._named()] = work

    @property
    def grid(self) -> tuple[int, int, int]:
        """The extents of the grid, in blocks."""
        return self.config.grid

    @property
    def block(self) -> tuple[int, int, int]:
        """The extents of a block, in threads."""
        return self.config.block

    @property
    def shmem_size(self) -> int:
        """The dynamic shared memory of a block in bytes."""
        return self._told().config.shmem_size

    @property
    def kernel(self) -> Kernel:
        """The kernel. Raises `CUDAError` for one that was captured, and that the program does not have any more."""
        found = self._told().kernel
        if found is None:
            raise unknown("kernel")
        return found

    @property
    def config(self) -> LaunchConfig:
        """The grid, the block and the shared memory."""
        told = self._told().config
        return LaunchConfig(grid=told.grid, block=told.block, shmem_size=told.shmem_size)

    def __repr__(self) -> str:
        kernel = self._told().kernel
        return self._show(f" kernel={0 if kernel is None else kernel.handle:#x}")


GraphNode._classes.update({"empty": EmptyNode, "kernel": KernelNode})
