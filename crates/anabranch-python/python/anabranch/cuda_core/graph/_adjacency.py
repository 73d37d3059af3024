"""The nodes that a node runs behind, and those that run behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet, Set
from typing import TYPE_CHECKING, Any

from .._utils.cuda_utils import call, check_argument

if TYPE_CHECKING:
    from ... import _anabranch
    from ._node import GraphNode


class AdjacencySetProxy(MutableSet["GraphNode"]):
    """The nodes before a node or behind it, as a set. Its changes are changes of the graph."""

    __slots__ = ("_is_forward", "_node")

    def __init__(self, node: GraphNode, is_fwd: bool) -> None:
        self._node, self._is_forward = node, is_fwd

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> Any:
        return set(it)

    def _found(self) -> list[GraphNode]:
        node = self._node
        if node._node is None or not node.is_valid:
            return []
        listed = node._graph.dependents_of if self._is_forward else node._graph.dependencies_of
        return [node._sibling(found) for found in call(listed, node._node)]

    def __contains__(self, x: object) -> bool:
        return x in self._found()

    def __iter__(self) -> Iterator[GraphNode]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def add(self, value: GraphNode) -> None:
        """Adds an edge, if it is not there."""
        from ._node import GraphNode

        self._add([check_argument("value", value, GraphNode)])

    def discard(self, value: GraphNode) -> None:
        """Removes an edge, if it is there."""
        from ._node import GraphNode

        self._discard([check_argument("value", value, GraphNode)])

    def clear(self) -> None:
        """Removes all edges."""
        self._discard(self._found())

    def update(self, *others: GraphNode | Iterable[GraphNode]) -> None:
        """Adds edges of nodes, or of iterables of them."""
        from ._node import GraphNode

        added: list[Any] = []
        for other in others:
            added += [other] if isinstance(other, GraphNode) else list(other)
        self._add(added)

    def __ior__(self, it: Set[Any]) -> AdjacencySetProxy:  # type: ignore[misc]
        self._add(list(it))
        return self

    def __isub__(self, it: Set[Any]) -> AdjacencySetProxy:
        # The set itself changes on the way.
        self._discard([node for node in list(it) if node in self])
        return self

    def _assign(self, nodes: Iterable[Any]) -> None:
        """Makes these the nodes of the set."""
        wanted = self._checked(list(nodes))
        found = self._found()
        self._discard([node for node in found if node not in wanted])
        self._add([node for node in wanted if node not in found])

    def _checked(self, nodes: list[Any]) -> list[GraphNode]:
        from ._node import GraphNode

        self._node._hierarchy.require_graph(self._node._graph)
        for node in nodes:
            if not isinstance(node, GraphNode):
                raise TypeError(f"expected GraphNode, got {type(node).__name__}")
        for node in (self._node, *nodes):
            node._require()
            if node._node is None:
                raise ValueError("The virtual graph entry node cannot be used in an edge")
            if node._graph != self._node._graph:
                raise ValueError("Graph nodes must belong to the same GraphDefinition")
        return list(dict.fromkeys(nodes))

    def _edges(self, nodes: list[GraphNode]) -> list[tuple[_anabranch.Node, _anabranch.Node]]:
        this = self._node._named()
        others = [node._named() for node in nodes]
        return [(this, other) if self._is_forward else (other, this) for other in others]

    def _add(self, nodes: list[Any]) -> None:
        added = self._checked(nodes)
        known = self._found()
        new = [node for node in added if node not in known]
        if new:
            self._node._hierarchy.require_changes()
            call(self._node._graph.add_edges, self._edges(new))

    def _discard(self, nodes: list[Any]) -> None:
        known = self._found()
        old = [node for node in dict.fromkeys(nodes) if node in known]
        if old:
            self._node._hierarchy.require_changes()
            call(self._node._graph.remove_edges, self._edges(old))

    def __repr__(self) -> str:
        return "{" + ", ".join(repr(node) for node in self._found()) + "}"
