"""Nodes that allocate, fill and copy memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._utils.cuda_utils import call, size_of
from ._node import GraphNode
from ._operand import operand
from ._works import AllocationWork, CopyWork, FillWork, FreeWork, Work

if TYPE_CHECKING:
    from .._memory import Buffer

__all__ = ["AllocNode", "FreeNode", "MemcpyNode", "MemsetNode"]


class AllocNode(GraphNode):
    """An allocation of memory."""

    def _captured(self) -> Work:
        said = self._parameters()
        return AllocationWork(said["address"], said["bytes"], said["device"], tuple(said["access"]))

    def _told(self) -> AllocationWork:
        work = self._work_or_captured()
        assert isinstance(work, AllocationWork)
        return work

    @property
    def dptr(self) -> int:
        """The address, which is the same at every launch."""
        return self._told().address

    @property
    def bytesize(self) -> int:
        """The number of bytes."""
        return self._told().size

    @property
    def device_id(self) -> int:
        """The number of the device."""
        return self._told().device_id

    @property
    def memory_type(self) -> str:
        """ "device": other kinds are not supported."""
        return "device"

    @property
    def peer_access(self) -> tuple[int, ...]:
        """The numbers of the devices that were named to use the memory."""
        return self._told().peers

    def __repr__(self) -> str:
        told = self._told()
        return self._show(f" dptr={told.address:#x} size={told.size}")


class FreeNode(GraphNode):
    """The end of memory that a node has allocated."""

    def _captured(self) -> Work:
        return FreeWork(self._parameters()["address"])

    @property
    def dptr(self) -> int:
        """The address."""
        work = self._work_or_captured()
        assert isinstance(work, FreeWork)
        return work.address

    def __repr__(self) -> str:
        return self._show(f" dptr={self.dptr:#x}")


class MemsetNode(GraphNode):
    """A fill of memory."""

    def _captured(self) -> Work:
        said = self._parameters()
        return FillWork(None, said["address"], said["pattern"], said["width"], said["height"], said["pitch"])

    def _told(self) -> FillWork:
        work = self._work_or_captured()
        assert isinstance(work, FillWork)
        return work

    def update(
        self,
        *,
        dst: Buffer | int | None = None,
        value: Any = None,
        width: int | None = None,
        height: int | None = None,
        pitch: int | None = None,
        dst_owner: Any = None,
    ) -> None:
        """Replaces parameters of the fill in the graph. Raises `ValueError` for an owner without an address."""
        self._require_changes()
        if dst is None and dst_owner is not None:
            raise ValueError("dst_owner requires dst")
        target = None if dst is None else operand(dst, dst_owner, "dst", self._library, self._hierarchy)
        work = self._told().changed(target, value, width, height, pitch)
        call(self._graph.set_node, self._named(), work.to_library())
        self._hierarchy.works[self._named()] = work

    @property
    def dptr(self) -> int:
        """The address."""
        return self._told().address

    @property
    def value(self) -> int:
        """The element, as a number."""
        return int.from_bytes(self._told().pattern, "little")

    @property
    def element_size(self) -> int:
        """The bytes of an element: 1, 2 or 4."""
        return len(self._told().pattern)

    @property
    def width(self) -> int:
        """The elements of a row."""
        return self._told().width

    @property
    def height(self) -> int:
        """The number of rows."""
        return self._told().height

    @property
    def pitch(self) -> int:
        """The bytes from one row to the next."""
        return self._told().pitch

    def __repr__(self) -> str:
        return self._show(f" dptr={self.dptr:#x} value={self.value}")


class MemcpyNode(GraphNode):
    """A copy of memory."""

    def _captured(self) -> Work:
        said = self._parameters()
        ends = said["destination"], said["source"]
        first, second = ((end["address"] + end["origin"][0]) for end in ends)
        places = ("H" if ends[0]["is_host"] else "D", "H" if ends[1]["is_host"] else "D")
        size, rows, slices = said["extent"]
        return CopyWork(None, None, (first, second), places, size, (rows, slices) == (1, 1))

    def _told(self) -> CopyWork:
        work = self._work_or_captured()
        assert isinstance(work, CopyWork)
        return work

    def update(
        self,
        *,
        dst: Buffer | int | None = None,
        src: Buffer | int | None = None,
        size: int | None = None,
        dst_owner: Any = None,
        src_owner: Any = None,
    ) -> None:
        """Replaces parameters of the copy in the graph.

        Raises `ValueError` for an owner without an address, and `NotImplementedError` for a captured copy of rows.
        """
        self._require_changes()
        if dst is None and dst_owner is not None:
            raise ValueError("dst_owner requires dst")
        if src is None and src_owner is not None:
            raise ValueError("src_owner requires src")
        former = self._told()
        if not former.is_plain:
            raise NotImplementedError(
                "updating multidimensional, pitched, offset, or array-backed memcpy nodes is not supported"
            )
        work = CopyWork(
            former.destination if dst is None else operand(dst, dst_owner, "dst", self._library, self._hierarchy),
            former.source if src is None else operand(src, src_owner, "src", self._library, self._hierarchy),
            former.addresses,
            former.places,
            former.size if size is None else size_of(size),
        )
        call(self._graph.set_node, self._named(), work.to_library())
        self._hierarchy.works[self._named()] = work.located()

    @property
    def dst(self) -> int:
        """The address that is written."""
        return self._told().addresses[0]

    @property
    def src(self) -> int:
        """The address that is read."""
        return self._told().addresses[1]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self._told().size

    def __repr__(self) -> str:
        (dst, src), (to, of) = self._told().addresses, self._told().places
        return self._show(f" dst={dst:#x}({to}) src={src:#x}({of}) size={self.size}")


GraphNode._classes.update({"allocation": AllocNode, "free": FreeNode, "fill": MemsetNode, "copy": MemcpyNode})
