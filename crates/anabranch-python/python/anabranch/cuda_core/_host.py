"""The host as a place of memory."""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = ["Host"]


class Host:
    """The host as a place of managed memory: any part of it, that of a NUMA node, or that of the node of the calling thread.
    There is one object for each.
    """

    __slots__ = ("__weakref__", "_is_numa_current", "_numa_id")

    _numa_id: int | None
    _is_numa_current: bool

    _made: ClassVar[dict[tuple[int | None, bool], Host]] = {}

    def __new__(cls, numa_id: int | None = None, *, is_numa_current: bool = False) -> Host:
        if is_numa_current and numa_id is not None:
            raise ValueError("numa_id and is_numa_current are mutually exclusive")
        if numa_id is not None and (not isinstance(numa_id, int) or isinstance(numa_id, bool) or numa_id < 0):
            raise ValueError(f"numa_id must be a non-negative int, got {numa_id!r}")
        key = numa_id, bool(is_numa_current)
        made = object.__new__(cls)
        made._numa_id, made._is_numa_current = key
        # Without a lock: a signal handler, or a destructor, may call this meanwhile on the same thread. The first one counts.
        return cls._made.setdefault(key, made)

    @property
    def numa_id(self) -> int | None:
        """The NUMA node, if it is one."""
        return self._numa_id

    @property
    def is_numa_current(self) -> bool:
        """Whether it is the NUMA node of the calling thread."""
        return self._is_numa_current

    @classmethod
    def numa_current(cls) -> Host:
        """The NUMA node of the calling thread."""
        return cls(is_numa_current=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Host):
            return NotImplemented
        return self is other

    def __hash__(self) -> int:
        return hash((Host, self._numa_id, self._is_numa_current))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Host.numa_current, ()) if self._is_numa_current else (Host, (self._numa_id,))

    def __repr__(self) -> str:
        if self._is_numa_current:
            return "Host.numa_current()"
        return "Host()" if self._numa_id is None else f"Host(numa_id={self._numa_id})"
