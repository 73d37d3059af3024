"""The memory that nodes of graphs use."""

from __future__ import annotations

import operator
from typing import Any

from ... import _anabranch
from .._memory._buffer import Buffer, buffer_at
from .._utils.cuda_utils import CUDAError, call
from ._hierarchy import Hierarchy, allocation_at


class Operand:
    """An address that a node was given, and the memory there as far as it is known."""

    def __init__(
        self, context: _anabranch.Context, address: int, memory: _anabranch.Buffer | None, owner: object = None
    ) -> None:
        self.address = address
        self._context, self._memory, self._owner = context, memory, owner

    def first(self, size: int) -> _anabranch.Buffer:
        """So many bytes at the address.

        Raises `CUDAError` if they are more than the memory has, or if there is no memory.
        """
        if self._memory is None:
            if not self.address:
                raise CUDAError("CUDA_ERROR_INVALID_VALUE: the address is 0")
            return call(self._context.buffer_from_address, self.address, size, self._owner)
        if size > self._memory.nbytes:
            known = f"{self._memory.nbytes} bytes at {self.address:#x}"
            raise CUDAError(f"CUDA_ERROR_INVALID_VALUE: {size} bytes are more than the {known}")
        return self._memory[:size]

    @property
    def place(self) -> str:
        """ "H" for pinned memory, and "D" otherwise."""
        return "H" if isinstance(self._memory, _anabranch.PinnedBuffer) else "D"


def operand(
    value: Any, owner: object, name: str, context: _anabranch.Context, hierarchy: Hierarchy
) -> Operand:
    """What a `Buffer`, or an address with its owner, stands for.

    Raises `ValueError` if a buffer has an owner besides, and `TypeError` for anything else.
    """
    if isinstance(value, Buffer):
        if owner is not None:
            raise ValueError(f"{name}_owner cannot be used when {name} is a Buffer")
        # Not the buffer's own object: the memory is kept if the program closes that.
        return Operand(context, value.handle, value._open(context)[:])
    try:
        address = operator.index(value)
    except TypeError:
        raise TypeError("an integer is required") from None
    if address < 0:
        raise OverflowError("can't convert negative value to CUdeviceptr")
    known = buffer_at(address)
    if known is not None and owner is None:
        return Operand(context, address, known._open(context)[:])
    found = allocation_at(address, hierarchy)
    if found is not None:
        begin, memory = found
        return Operand(context, address, memory[address - begin :])
    if isinstance(owner, Buffer):
        owner = owner._open(context)[:]
    return Operand(context, address, None, owner)
