"""Graphs that are built by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import _anabranch
from ..._errors import AnabranchError
from .. import _state
from .._utils.classes import Uncopied
from .._utils.cuda_utils import CUDAError, call, check_argument
from ..typing import GraphMemoryType
from ._condition import GraphCondition
from ._executable import Graph
from ._hierarchy import Hierarchy
from ._node import GraphNode
from ._options import GraphDebugPrintOptions

if TYPE_CHECKING:
    from .._context import Context
    from .._device import Device
    from .._event import Event
    from .._launch_config import LaunchConfig
    from .._memory import Buffer
    from .._module import Kernel
    from ._child_node import ChildGraphNode
    from ._conditional_nodes import IfElseNode, IfNode, SwitchNode, WhileNode
    from ._host_nodes import EventRecordNode, EventWaitNode, HostCallbackNode
    from ._memory_nodes import AllocNode, FreeNode, MemcpyNode, MemsetNode
    from ._options import GraphCompleteOptions
    from ._work_nodes import EmptyNode, KernelNode

__all__ = ["GraphDefinition"]

LARGEST_CONDITION = (1 << 32) - 1


class GraphDefinition(Uncopied):
    """A graph of the current context that is built of nodes. Its methods add nodes that run behind no other."""

    _graph: _anabranch.Graph
    _context: Context
    _hierarchy: Hierarchy

    def __init__(self) -> None:
        self._context = _state.current_context()
        self._graph = call(self._context._open().create_graph)
        self._hierarchy = Hierarchy()

    @classmethod
    def _of(cls, graph: _anabranch.Graph, context: Context, hierarchy: Hierarchy) -> GraphDefinition:
        definition = cls.__new__(cls)
        definition._graph, definition._context, definition._hierarchy = graph, context, hierarchy
        return definition

    def _require(self) -> None:
        self._hierarchy.require_graph(self._graph)

    def _as_child(self) -> _anabranch.NodeWork:
        """The work of a node that is a copy of this graph."""
        self._require()
        return call(_anabranch.NodeWork.child, self._graph)

    def _read_only_copy(self) -> GraphDefinition | None:
        """A copy to be inspected, if the driver makes one."""
        try:
            copy = self._graph.clone()
            hierarchy = Hierarchy()
            for node in self._graph.nodes():
                known = self._hierarchy.works.get(node)
                if known is not None:
                    hierarchy.works[self._graph.find_in_clone(node, copy)] = known
        except AnabranchError:
            return None
        hierarchy.read_only = "a child graph is changed by ChildGraphNode.update"
        return GraphDefinition._of(copy, self._context, hierarchy)

    @property
    def anabranch_graph(self) -> _anabranch.Graph:
        """The graph of the package."""
        self._require()
        return self._graph

    @property
    def is_valid(self) -> bool:
        """Whether the graph is there: a body goes with its conditional node."""
        return self._graph.id not in self._hierarchy.gone

    @property
    def handle(self) -> int:
        """The handle of the driver, or 0 if the graph is not there any more."""
        return self._graph.handle if self.is_valid else 0

    @property
    def _entry(self) -> GraphNode:
        """Stands for the begin of the graph."""
        self._require()
        return GraphNode._of(self._graph, self._context, self._hierarchy, None)

    def allocate(
        self,
        size: int,
        *,
        device: Device | int | None = None,
        memory_type: GraphMemoryType | str = GraphMemoryType.DEVICE,
        peer_access: list[Device | int] | None = None,
    ) -> AllocNode:
        """Adds an allocation, as `GraphNode.allocate` does."""
        return self._entry.allocate(size, device=device, memory_type=memory_type, peer_access=peer_access)

    def deallocate(self, dptr: int) -> FreeNode:
        """Adds the end of memory that a node has allocated."""
        return self._entry.deallocate(dptr)

    def memset(
        self, dst: Buffer | int, value: Any, width: int, height: int = 1, pitch: int = 0, *, dst_owner: Any = None
    ) -> MemsetNode:
        """Adds a fill, as `GraphNode.memset` does."""
        return self._entry.memset(dst, value, width, height, pitch, dst_owner=dst_owner)

    def launch(self, config: LaunchConfig, kernel: Kernel, *args: Any) -> KernelNode:
        """Adds a launch of a kernel, as `GraphNode.launch` does."""
        return self._entry.launch(config, kernel, *args)

    def empty(self) -> EmptyNode:
        """Adds a node without work."""
        return self._entry.join()

    def join(self, *nodes: GraphNode) -> EmptyNode:
        """Adds a node without work behind others."""
        return self._entry.join(*nodes)

    def memcpy(
        self, dst: Buffer | int, src: Buffer | int, size: int, *, dst_owner: Any = None, src_owner: Any = None
    ) -> MemcpyNode:
        """Adds a copy, as `GraphNode.memcpy` does."""
        return self._entry.memcpy(dst, src, size, dst_owner=dst_owner, src_owner=src_owner)

    def embed(self, child: GraphDefinition) -> ChildGraphNode:
        """Adds a copy of another graph as a node."""
        check_argument("child", child, GraphDefinition)
        return self._entry.embed(child)

    def record(self, event: Event) -> EventRecordNode:
        """Adds a record of an event."""
        return self._entry.record(event)

    def wait(self, event: Event) -> EventWaitNode:
        """Adds a wait for the latest record of an event."""
        return self._entry.wait(event)

    def callback(self, fn: Any, *, user_data: Any = None) -> HostCallbackNode:
        """Adds a call of a function, as `GraphNode.callback` does."""
        return self._entry.callback(fn, user_data=user_data)

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Makes a value for a conditional node of this graph. With a default, it is set to that at every launch."""
        self._require()
        self._hierarchy.require_changes()
        if default_value is not None:
            check_argument("default_value", default_value, int)
            if default_value < 0:
                raise OverflowError("can't convert negative value to unsigned int")
            if default_value > LARGEST_CONDITION:
                raise OverflowError("value too large to convert to unsigned int")
        return GraphCondition._of(call(self._graph.create_conditional, default_value))

    def if_then(self, condition: GraphCondition) -> IfNode:
        """Adds a graph that runs if the condition is not 0."""
        check_argument("condition", condition, GraphCondition)
        return self._entry.if_then(condition)

    def if_else(self, condition: GraphCondition) -> IfElseNode:
        """Adds a graph that runs if the condition is not 0, and one that runs otherwise."""
        check_argument("condition", condition, GraphCondition)
        return self._entry.if_else(condition)

    def while_loop(self, condition: GraphCondition) -> WhileNode:
        """Adds a graph that runs again and again while the condition is not 0."""
        check_argument("condition", condition, GraphCondition)
        return self._entry.while_loop(condition)

    def switch(self, condition: GraphCondition, count: int) -> SwitchNode:
        """Adds so many graphs, of which that runs whose number the condition is, if there is one."""
        check_argument("condition", condition, GraphCondition)
        return self._entry.switch(condition, count)

    def instantiate(self, options: GraphCompleteOptions | None = None) -> Graph:
        """Makes a graph that can be launched."""
        self._require()
        return Graph._instantiate(self._graph, options)

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Writes the graph to a file in the language of Graphviz."""
        check_argument("path", path, str)
        self._require()
        if options is not None and not isinstance(options, GraphDebugPrintOptions):
            raise TypeError("options must be a GraphDebugPrintOptions instance")
        text = call(self._graph.to_dot)
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise CUDAError(f"CUDA_ERROR_OPERATING_SYSTEM: {error}") from error

    def nodes(self) -> set[GraphNode]:
        """All nodes."""
        entry = self._entry
        return {entry._sibling(node) for node in call(self._graph.nodes)}

    def edges(self) -> set[tuple[GraphNode, GraphNode]]:
        """All edges: pairs of a node, and one that runs behind it."""
        entry = self._entry
        return {(entry._sibling(before), entry._sibling(behind)) for before, behind in call(self._graph.edges)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphDefinition):
            return NotImplemented
        return self._graph == other._graph

    def __hash__(self) -> int:
        return hash((GraphDefinition, self._graph.id))

    def __repr__(self) -> str:
        return f"<GraphDefinition handle={self.handle:#x}>"
