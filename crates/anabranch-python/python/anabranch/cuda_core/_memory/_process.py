"""What memory resources say of other processes."""

from __future__ import annotations

from typing import NoReturn

from ._resource import MemoryResource


class ProcessMemoryResource(MemoryResource):
    """Memory that other processes cannot use here."""

    _is_owned: bool
    _is_closed: bool

    def __reduce__(self) -> NoReturn:
        if self.is_closed:
            raise RuntimeError(f"{type(self).__name__} has been closed")
        raise RuntimeError("Memory resource is not IPC-enabled")

    @property
    def is_closed(self) -> bool:
        """Whether the resource is closed."""
        return self._is_closed

    @property
    def is_handle_owned(self) -> bool:
        """Whether `close` ends the resource, and not only this object of it."""
        return self._is_owned

    @property
    def is_ipc_enabled(self) -> bool:
        """Whether other processes can use the memory. They cannot here."""
        return False

    @property
    def is_mapped(self) -> bool:
        """Whether it is memory of another process. It never is here."""
        return False

    @property
    def uuid(self) -> None:
        """What identifies the memory in other processes: nothing, as they cannot use it."""
        return None
