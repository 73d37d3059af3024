"""Nodes that are graphs themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._utils.cuda_utils import CUDAError, call, check_argument
from ._node import GraphNode
from ._works import ChildWork

if TYPE_CHECKING:
    from ._definition import GraphDefinition

__all__ = ["ChildGraphNode"]


class ChildGraphNode(GraphNode):
    """A copy of another graph."""

    def update(self, child: GraphDefinition) -> None:
        """Replaces the graph by a copy of another one with the same nodes and edges."""
        from ._definition import GraphDefinition

        check_argument("child", child, GraphDefinition)
        self._require_changes()
        call(self._graph.set_node, self._named(), child._as_child())
        former = self._work()
        if isinstance(former, ChildWork):
            former.end()
        self._hierarchy.works[self._named()] = ChildWork(child._read_only_copy())

    @property
    def child_graph(self) -> GraphDefinition:
        """The graph, to be inspected: it is changed by `update` only.

        Raises `CUDAError` for one that was captured.
        """
        work = self._work()
        if not isinstance(work, ChildWork) or work.copy is None:
            raise CUDAError("CUDA_ERROR_NOT_SUPPORTED: a child graph that was captured cannot be inspected")
        return work.copy

    def __repr__(self) -> str:
        child = self._parameters()["graph"] if self.is_valid else 0
        return self._show(f" child={child:#x}")


GraphNode._classes["child graph"] = ChildGraphNode
