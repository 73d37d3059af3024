"""What a graph and the graphs within it have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from .._utils.cuda_utils import CUDAError, call

if TYPE_CHECKING:
    from ... import _anabranch
    from ._node import GraphNode
    from ._works import Work


class Hierarchy:
    """What is known of a graph and of the bodies of its conditional nodes, besides what the driver knows."""

    def __init__(self) -> None:
        # What nodes do that this module has added or changed.
        self.works: dict[_anabranch.Node, Work] = {}
        # The objects that stand for nodes: one for each.
        self.nodes: WeakValueDictionary[_anabranch.Node, GraphNode] = WeakValueDictionary()
        # The memory that nodes allocate, by its address.
        self.allocations: dict[int, _anabranch.Buffer] = {}
        # The bodies whose conditional nodes are not there any more.
        self.gone: set[int] = set()
        # Why nothing can be changed, if it cannot.
        self.read_only: str | None = None
        _LIVE[id(self)] = self

    def require_changes(self) -> None:
        """Raises `CUDAError` if nothing can be changed."""
        if self.read_only is not None:
            raise CUDAError(f"CUDA_ERROR_NOT_SUPPORTED: {self.read_only}")

    def require_graph(self, graph: _anabranch.Graph, message: str = "GraphDefinition is no longer valid") -> None:
        """Raises `RuntimeError` for a body that is gone."""
        if graph.id in self.gone:
            raise RuntimeError(message)


# To find memory that another graph allocates.
_LIVE: WeakValueDictionary[int, Hierarchy] = WeakValueDictionary()


def allocation_at(address: int, hierarchy: Hierarchy) -> tuple[int, _anabranch.Buffer] | None:
    """The memory that a graph allocates and that an address is within, and where it begins. That of this graph comes first."""
    # Other threads may add graphs and memory meanwhile: both are copied at once.
    for each in (hierarchy, *(reference() for reference in _LIVE.valuerefs())):
        for begin, buffer in each.allocations.copy().items() if each is not None else ():
            if begin <= address < begin + buffer.nbytes:
                return begin, buffer
    return None


def bodies_of(graph: _anabranch.Graph, node: _anabranch.Node) -> tuple[_anabranch.Graph, ...]:
    """The bodies of a conditional node."""
    count = len(call(graph.node_parameters, node)["bodies"])
    return tuple(call(graph.body, node, index) for index in range(count))


def graphs_within(bodies: tuple[_anabranch.Graph, ...]) -> Iterator[_anabranch.Graph]:
    """These bodies, and those within them."""
    for body in bodies:
        yield body
        for node in call(body.nodes):
            if call(body.node_kind, node) == "conditional":
                yield from graphs_within(bodies_of(body, node))
