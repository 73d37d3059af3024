"""Nodes whose graphs run or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..typing import GraphConditionalType
from ._condition import GraphCondition
from ._hierarchy import bodies_of
from ._node import GraphNode
from ._works import ConditionalWork, Work

if TYPE_CHECKING:
    from ._definition import GraphDefinition

__all__ = ["ConditionalNode", "IfElseNode", "IfNode", "SwitchNode", "WhileNode"]


class ConditionalNode(GraphNode):
    """Graphs that a value decides about."""

    def _captured(self) -> Work:
        return ConditionalWork(None, self._parameters()["condition"], bodies_of(self._graph, self._named()))

    def _told(self) -> ConditionalWork:
        work = self._work_or_captured()
        assert isinstance(work, ConditionalWork)
        return work

    @property
    def condition(self) -> GraphCondition | None:
        """The value. ``None`` if the node was captured."""
        return self._told().condition

    @property
    def cond_type(self) -> GraphConditionalType | None:
        """What the value decides: "if", "while" or "switch"."""
        return GraphConditionalType(self._told().kind)

    @property
    def branches(self) -> tuple[GraphDefinition, ...]:
        """The graphs."""
        from ._definition import GraphDefinition

        return tuple(GraphDefinition._of(body, self._context, self._hierarchy) for body in self._told().bodies)

    def __repr__(self) -> str:
        condition = self._told().condition
        return self._show(f" condition={0 if condition is None else condition.handle:#x}")


class IfNode(ConditionalNode):
    """A graph that runs if the value is not 0."""

    @property
    def then(self) -> GraphDefinition:
        """The graph."""
        return self.branches[0]


class IfElseNode(ConditionalNode):
    """A graph that runs if the value is not 0, and one that runs otherwise."""

    @property
    def then(self) -> GraphDefinition:
        """The graph that runs if the value is not 0."""
        return self.branches[0]

    @property
    def else_(self) -> GraphDefinition:
        """The graph that runs if the value is 0."""
        return self.branches[1]


class WhileNode(ConditionalNode):
    """A graph that runs again and again while the value is not 0."""

    @property
    def body(self) -> GraphDefinition:
        """The graph."""
        return self.branches[0]


class SwitchNode(ConditionalNode):
    """Graphs of which that runs whose number the value is."""


GraphNode._classes.update(
    {"if 1": IfNode, "if 2": IfElseNode, "while": WhileNode, "switch": SwitchNode, "conditional": ConditionalNode}
)
