"""Nodes of graphs."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from ... import _anabranch
from .._device import Device
from .._event import Event
from .._launch_config import LaunchConfig
from .._module import Kernel
from .._utils.classes import Uncopied
from .._utils.cuda_utils import CUDAError, call, check_argument, parse_fill_value, size_of
from ..typing import GraphMemoryType
from ._adjacency import AdjacencySetProxy
from ._condition import GraphCondition
from ._hierarchy import Hierarchy, allocation_at, bodies_of, graphs_within
from ._node_type import TYPES, CUgraphNodeType
from ._operand import operand
from ._works import (
    AllocationWork,
    ChildWork,
    ConditionalWork,
    EmptyWork,
    EventWork,
    FillWork,
    FreeWork,
    Work,
    call_work,
    copy_work,
    kernel_work,
    require_plain,
)

if TYPE_CHECKING:
    from .._context import Context
    from .._memory import Buffer
    from ._child_node import ChildGraphNode
    from ._conditional_nodes import IfElseNode, IfNode, SwitchNode, WhileNode
    from ._definition import GraphDefinition
    from ._host_nodes import EventRecordNode, EventWaitNode, HostCallbackNode
    from ._memory_nodes import AllocNode, FreeNode, MemcpyNode, MemsetNode
    from ._work_nodes import EmptyNode, KernelNode

__all__ = ["GraphNode"]

_Node = TypeVar("_Node", bound="GraphNode")

# What node handles leave free for the number of a node in its graph.
NUMBER_BITS = 32


class GraphNode(Uncopied):
    """A node of a graph. Methods of `GraphDefinition` add nodes that run behind no other, and those of a node add nodes
    that run behind it.
    """

    _graph: _anabranch.Graph
    _context: Context
    _hierarchy: Hierarchy
    # Nothing for the node that others run behind if they run behind none.
    _node: _anabranch.Node | None
    _is_destroyed: bool
    # What it has done, of a node that was destroyed.
    _last: Work | None

    # The classes by the package's names of kinds. `type` is a property here.
    _classes: ClassVar[dict[str, builtins.type[GraphNode]]] = {}

    def __init__(self) -> None:
        raise RuntimeError("GraphNode objects cannot be instantiated directly. Please use GraphDefinition APIs.")

    @classmethod
    def _of(
        cls, graph: _anabranch.Graph, context: Context, hierarchy: Hierarchy, node: _anabranch.Node | None
    ) -> GraphNode:
        """The object that stands for a node."""
        known = None if node is None else hierarchy.nodes.get(node)
        if known is not None:
            return known
        made = _class_of(graph, hierarchy, node)
        wrapper = made.__new__(made)
        wrapper._graph, wrapper._context, wrapper._hierarchy, wrapper._node = graph, context, hierarchy, node
        wrapper._is_destroyed, wrapper._last = False, None
        return wrapper if node is None else hierarchy.nodes.setdefault(node, wrapper)

    def _sibling(self, node: _anabranch.Node) -> GraphNode:
        return GraphNode._of(self._graph, self._context, self._hierarchy, node)

    @property
    def _library(self) -> _anabranch.Context:
        return self._graph.context

    def _named(self) -> _anabranch.Node:
        if self._node is None:
            raise RuntimeError("the entry of a graph is no node")
        return self._node

    def _require(self) -> None:
        self._hierarchy.require_graph(self._graph, "GraphNode belongs to an invalid GraphDefinition")
        if self._is_destroyed:
            raise RuntimeError("GraphNode has been destroyed")

    def _require_changes(self) -> None:
        self._require()
        self._hierarchy.require_changes()

    def _parameters(self) -> dict[str, Any]:
        """What the driver says of the node."""
        self._require()
        return call(self._graph.node_parameters, self._named())

    def _work(self) -> Work | None:
        """What the node does, if the module was told."""
        return self._last if self._is_destroyed or self._node is None else self._hierarchy.works.get(self._node)

    def _work_or_captured(self) -> Work:
        """What the node does, as far as is known."""
        known = self._work()
        return self._captured() if known is None else known

    def _captured(self) -> Work:
        """What the driver says that a captured node does."""
        return EmptyWork()

    @property
    def type(self) -> CUgraphNodeType | None:
        """The kind, as an enumeration with the driver's names and numbers. ``None`` for the entry, and once it is destroyed."""
        if self._node is None or not self.is_valid:
            return None
        return TYPES.get(call(self._graph.node_kind, self._node))

    @property
    def graph(self) -> GraphDefinition:
        """The graph."""
        from ._definition import GraphDefinition

        return GraphDefinition._of(self._graph, self._context, self._hierarchy)

    @property
    def handle(self) -> int | None:
        """A number that no other node has. ``None`` for the entry, and once the node is destroyed."""
        if self._node is None or not self.is_valid:
            return None
        return self._node.graph_id << NUMBER_BITS | self._node.number + 1

    @property
    def is_valid(self) -> bool:
        """Whether the node and its graph are there."""
        return not self._is_destroyed and self._graph.id not in self._hierarchy.gone

    def destroy(self) -> None:
        """Removes the node and its edges from the graph. Does nothing if that was done."""
        if self._node is None or not self.is_valid:
            return
        self._hierarchy.require_changes()
        last, within = self._work_or_captured(), self._within()
        call(self._graph.remove_node, self._node)
        self._is_destroyed, self._last = True, last
        self._hierarchy.works.pop(self._node, None)
        self._hierarchy.gone.update(within)
        if isinstance(last, ChildWork):
            last.end()

    def _within(self) -> list[int]:
        """The graphs that go with the node."""
        if call(self._graph.node_kind, self._named()) != "conditional":
            return []
        return [graph.id for graph in graphs_within(bodies_of(self._graph, self._named()))]

    @property
    def pred(self) -> AdjacencySetProxy:
        """The nodes that this one runs behind, as a set that can be changed."""
        return AdjacencySetProxy(self, False)

    @pred.setter
    def pred(self, value: Iterable[GraphNode]) -> None:
        AdjacencySetProxy(self, False)._assign(value)

    @property
    def succ(self) -> AdjacencySetProxy:
        """The nodes that run behind this one, as a set that can be changed."""
        return AdjacencySetProxy(self, True)

    @succ.setter
    def succ(self, value: Iterable[GraphNode]) -> None:
        AdjacencySetProxy(self, True)._assign(value)

    def _behind(self) -> list[_anabranch.Node]:
        return [] if self._node is None else [self._node]

    def _add(self, cls: builtins.type[_Node], work: Work, behind: list[_anabranch.Node] | None = None) -> _Node:
        node = call(self._graph.add, self._behind() if behind is None else behind, work.to_library())
        return self._note(cls, node, work)

    def _note(self, cls: builtins.type[_Node], node: _anabranch.Node, work: Work) -> _Node:
        self._hierarchy.works[node] = work
        made = self._sibling(node)
        if not isinstance(made, cls):
            raise RuntimeError(f"a node that was added is a {type(made).__name__}")
        return made

    def launch(self, config: LaunchConfig, kernel: Kernel, *args: Any) -> KernelNode:
        """Adds a launch of a kernel behind this node. Arguments are those of `cuda_core.launch`.

        Raises `NotImplementedError` for clusters and cooperative launches.
        """
        from ._work_nodes import KernelNode

        check_argument("config", config, LaunchConfig)
        check_argument("kernel", kernel, Kernel)
        self._require_changes()
        require_plain(config, "clustered or cooperative graph kernel nodes are not supported")
        return self._add(KernelNode, kernel_work(config, kernel, args, self._context))

    def join(self, *nodes: GraphNode) -> EmptyNode:
        """Adds a node without work behind this one and others."""
        from ._work_nodes import EmptyNode

        self._require_changes()
        for node in nodes:
            if not isinstance(node, GraphNode):
                raise TypeError(f"expected GraphNode, got {type(node).__name__}")
            node._require()
        behind = [before for node in (self, *nodes) for before in node._behind()]
        return self._add(EmptyNode, EmptyWork(), list(dict.fromkeys(behind)))

    def allocate(
        self,
        size: int,
        *,
        device: Device | int | None = None,
        memory_type: GraphMemoryType | str = GraphMemoryType.DEVICE,
        peer_access: list[Device | int] | None = None,
    ) -> AllocNode:
        """Adds an allocation of so many bytes behind this node. Their address is the same at every launch, and their contents are
        unspecified at first.

        Raises `ValueError` for no kind of memory, and `CUDAError` for what is not memory of the graph's device alone.
        """
        from ._memory_nodes import AllocNode

        size = size_of(size)
        self._require_changes()
        if memory_type not in list(GraphMemoryType):
            kinds = ", ".join(repr(each.value) for each in GraphMemoryType)
            raise ValueError(f"memory_type must be one of {kinds}, got {memory_type!r}")
        device_id = self._context._device_id
        peers = tuple(Device(peer).device_id for peer in peer_access or ())
        others = {device_id if device is None else Device(device).device_id, *peers}
        if memory_type != GraphMemoryType.DEVICE or others != {device_id}:
            message = "the nodes of a graph allocate memory of its device, which no other device uses"
            raise CUDAError(f"CUDA_ERROR_NOT_SUPPORTED: {message}")
        node, memory = call(self._graph.add_allocation, self._behind(), size, "int8")
        address = memory.address
        self._hierarchy.allocations[address] = memory
        return self._note(AllocNode, node, AllocationWork(address, size, device_id, peers))

    def deallocate(self, dptr: int) -> FreeNode:
        """Adds the end of memory that a node has allocated behind this node."""
        from ._memory_nodes import FreeNode

        address = check_argument("dptr", dptr, int)
        self._require_changes()
        found = allocation_at(address, self._hierarchy)
        if found is None or found[0] != address:
            raise CUDAError(f"CUDA_ERROR_INVALID_VALUE: no memory that a graph allocates begins at {address:#x}")
        node = call(self._graph.add_free, self._behind(), found[1])
        return self._note(FreeNode, node, FreeWork(address))

    def memset(
        self, dst: Buffer | int, value: Any, width: int, height: int = 1, pitch: int = 0, *, dst_owner: Any = None
    ) -> MemsetNode:
        """Adds a fill behind this node: rows of so many elements, each of which is an int from 0 to 255, or 1, 2 or 4 bytes. The
        graph keeps a buffer, and the owner of an address.
        """
        from ._memory_nodes import MemsetNode

        width, height, pitch = size_of(width), size_of(height), size_of(pitch)
        self._require_changes()
        pattern = parse_fill_value(value)
        target = operand(dst, dst_owner, "dst", self._library, self._hierarchy)
        return self._add(MemsetNode, FillWork(target, target.address, pattern, width, height, pitch))

    def memcpy(
        self, dst: Buffer | int, src: Buffer | int, size: int, *, dst_owner: Any = None, src_owner: Any = None
    ) -> MemcpyNode:
        """Adds a copy of so many bytes behind this node. The graph keeps buffers, and the owners of addresses."""
        from ._memory_nodes import MemcpyNode

        size = size_of(size)
        self._require_changes()
        destination = operand(dst, dst_owner, "dst", self._library, self._hierarchy)
        source = operand(src, src_owner, "src", self._library, self._hierarchy)
        return self._add(MemcpyNode, copy_work(destination, source, size))

    def embed(self, child: GraphDefinition) -> ChildGraphNode:
        """Adds a copy of another graph behind this node."""
        from ._child_node import ChildGraphNode
        from ._definition import GraphDefinition

        check_argument("child", child, GraphDefinition)
        self._require_changes()
        node = call(self._graph.add, self._behind(), child._as_child())
        return self._note(ChildGraphNode, node, ChildWork(child._read_only_copy()))

    def record(self, event: Event) -> EventRecordNode:
        """Adds a record of an event behind this node."""
        from ._host_nodes import EventRecordNode

        check_argument("event", event, Event)
        self._require_changes()
        return self._add(EventRecordNode, EventWork(event, False))

    def wait(self, event: Event) -> EventWaitNode:
        """Adds a wait for the latest record of an event behind this node."""
        from ._host_nodes import EventWaitNode

        check_argument("event", event, Event)
        self._require_changes()
        return self._add(EventWaitNode, EventWork(event, True))

    def callback(self, fn: Any, *, user_data: Any = None) -> HostCallbackNode:
        """Adds a call of a function behind this node: one of Python without arguments, or one of ctypes that gets ``user_data``.
        It must not call this package.
        """
        from ._host_nodes import HostCallbackNode

        self._require_changes()
        return self._add(HostCallbackNode, call_work(fn, user_data))

    def _add_conditional(
        self, cls: builtins.type[_Node], condition: GraphCondition, kind: Literal["if", "while", "switch"], count: int
    ) -> _Node:
        check_argument("condition", condition, GraphCondition)
        self._require_changes()
        node = call(self._graph.add_conditional, self._behind(), condition._value, kind, count)
        bodies = tuple(call(self._graph.body, node, index) for index in range(count))
        return self._note(cls, node, ConditionalWork(condition, kind, bodies))

    def if_then(self, condition: GraphCondition) -> IfNode:
        """Adds a graph that runs if the condition is not 0 behind this node."""
        from ._conditional_nodes import IfNode

        return self._add_conditional(IfNode, condition, "if", 1)

    def if_else(self, condition: GraphCondition) -> IfElseNode:
        """Adds two graphs behind this node: one runs if the condition is not 0, and the other one otherwise."""
        from ._conditional_nodes import IfElseNode

        return self._add_conditional(IfElseNode, condition, "if", 2)

    def while_loop(self, condition: GraphCondition) -> WhileNode:
        """Adds a graph that runs again and again while the condition is not 0 behind this node."""
        from ._conditional_nodes import WhileNode

        return self._add_conditional(WhileNode, condition, "while", 1)

    def switch(self, condition: GraphCondition, count: int) -> SwitchNode:
        """Adds so many graphs behind this node, of which that runs whose number the condition is, if there is one."""
        from ._conditional_nodes import SwitchNode

        if count < 0:
            raise OverflowError("can't convert negative value to unsigned int")
        return self._add_conditional(SwitchNode, condition, "switch", count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphNode):
            return NotImplemented
        return self._node == other._node and (self._node is not None or self._graph == other._graph)

    def __hash__(self) -> int:
        return hash((GraphNode, self._graph.id, self._node))

    def _show(self, more: str = "") -> str:
        return f"<{type(self).__name__} handle={self.handle or 0:#x}{more}>"

    def __repr__(self) -> str:
        if not self.is_valid:
            return "<GraphNode destroyed>"
        return "<GraphNode entry>" if self._node is None else self._show()


def _class_of(graph: _anabranch.Graph, hierarchy: Hierarchy, node: _anabranch.Node | None) -> type[GraphNode]:
    """The class for a node."""
    if node is None:
        return GraphNode
    kind = call(graph.node_kind, node)
    if kind == "conditional":
        said = call(graph.node_parameters, node)
        kind = f"{said['condition']} {len(said['bodies'])}" if said["condition"] == "if" else said["condition"]
    return GraphNode._classes.get(kind, GraphNode)
