"""Values that decide what a graph runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ... import _anabranch

__all__ = ["GraphCondition"]


class GraphCondition:
    """The value of a conditional node. A kernel that gets it as an argument sets it by ``cudaGraphSetConditional``.

    `GraphBuilder.create_condition` makes it.
    """

    _value: _anabranch.Conditional

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "GraphCondition objects cannot be instantiated directly. Please use GraphBuilder.create_condition()."
        )

    @classmethod
    def _of(cls, value: _anabranch.Conditional) -> GraphCondition:
        condition = cls.__new__(cls)
        condition._value = value
        return condition

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphCondition:
        return GraphCondition._of(self._value)

    @property
    def handle(self) -> int:
        """The handle of the driver, as kernels get it."""
        return self._value.handle

    def __int__(self) -> int:
        return self.handle

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphCondition):
            return NotImplemented
        return self.handle == other.handle

    def __hash__(self) -> int:
        return hash(self.handle)

    def __repr__(self) -> str:
        return f"<GraphCondition handle={self.handle:#x}>"
