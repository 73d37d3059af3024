"""Nodes of graphs that can be launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .._event import Event
from .._launch_config import LaunchConfig
from .._module import Kernel
from .._utils.classes import Uncopied
from .._utils.cuda_utils import call, check_argument, parse_fill_value, size_of
from ._child_node import ChildGraphNode
from ._definition import GraphDefinition
from ._host_nodes import EventRecordNode, EventWaitNode, HostCallbackNode
from ._memory_nodes import MemcpyNode, MemsetNode
from ._node import GraphNode
from ._operand import operand
from ._work_nodes import KernelNode
from ._works import EventWork, FillWork, call_work, copy_work, kernel_work, require_plain

if TYPE_CHECKING:
    from ... import _anabranch
    from .._memory import Buffer
    from ._executable import Graph

__all__ = [
    "ExecutableChildGraphNode",
    "ExecutableEventRecordNode",
    "ExecutableEventWaitNode",
    "ExecutableGraphNode",
    "ExecutableHostCallbackNode",
    "ExecutableKernelNode",
    "ExecutableMemcpyNode",
    "ExecutableMemsetNode",
]


class ExecutableGraphNode(Uncopied):
    """A node of a graph that can be launched. ``graph[node]`` makes it. Its changes apply to later launches, and the graph that
    the other one was made of does not change.
    """

    _executable: Graph
    _source: GraphNode

    _classes: ClassVar[dict[type[GraphNode], type[ExecutableGraphNode]]] = {}

    def __init__(self) -> None:
        raise RuntimeError("directly constructing an executable graph node is not supported")

    @classmethod
    def _of(cls, executable: Graph, node: GraphNode) -> ExecutableGraphNode:
        node._require()
        made = cls._classes.get(type(node))
        if made is None:
            raise TypeError(f"{type(node).__name__} does not support executable updates")
        view = made.__new__(made)
        view._executable, view._source = executable, node
        return view

    def _open(self) -> _anabranch.ExecutableGraph:
        if self._executable._inner is None:
            raise RuntimeError("executable graph has been closed")
        if not self._source.is_valid:
            raise RuntimeError("source graph node is no longer valid")
        return self._executable._inner

    def _set(self, work: _anabranch.NodeWork) -> None:
        call(self._open().set_node, self._source._named(), work)

    def __repr__(self) -> str:
        node = self._source.handle or 0
        return f"<{type(self).__name__} graph={self._executable.handle:#x} node={node:#x}>"


class _Switched(ExecutableGraphNode):
    """A node that launches may leave out."""

    @property
    def is_enabled(self) -> bool:
        """Whether launches run the node."""
        return call(self._open().is_node_enabled, self._source._named())

    def enable(self) -> None:
        """Lets launches run the node."""
        call(self._open().set_node_enabled, self._source._named(), True)

    def disable(self) -> None:
        """Lets launches leave the node out."""
        call(self._open().set_node_enabled, self._source._named(), False)


class ExecutableKernelNode(_Switched):
    """A launch of a kernel."""

    def update(self, *, config: LaunchConfig, kernel: Kernel, args: Any) -> None:
        """Replaces the launch. Raises `NotImplementedError` for clusters and cooperative launches."""
        check_argument("config", config, LaunchConfig)
        check_argument("kernel", kernel, Kernel)
        require_plain(config, "updating clustered or cooperative kernel nodes is not supported")
        self._open()
        self._set(kernel_work(config, kernel, args, self._source._context).to_library())


class ExecutableMemsetNode(_Switched):
    """A fill of memory."""

    def update(self, *, dst: Buffer | int, value: Any, width: int, height: int = 1, pitch: int = 0) -> None:
        """Replaces the fill."""
        width, height, pitch = size_of(width), size_of(height), size_of(pitch)
        pattern = parse_fill_value(value)
        self._open()
        target = operand(dst, None, "dst", self._source._library, self._source._hierarchy)
        self._set(FillWork(target, target.address, pattern, width, height, pitch).to_library())


class ExecutableMemcpyNode(_Switched):
    """A copy of memory."""

    def update(self, *, dst: Buffer | int, src: Buffer | int, size: int) -> None:
        """Replaces the copy."""
        size = size_of(size)
        self._open()
        context, hierarchy = self._source._library, self._source._hierarchy
        destination = operand(dst, None, "dst", context, hierarchy)
        self._set(copy_work(destination, operand(src, None, "src", context, hierarchy), size).to_library())


class ExecutableChildGraphNode(ExecutableGraphNode):
    """A copy of another graph."""

    def update(self, child: GraphDefinition) -> None:
        """Replaces the graph by a copy of another one with the same nodes and edges."""
        check_argument("child", child, GraphDefinition)
        self._set(child._as_child())


class ExecutableEventRecordNode(ExecutableGraphNode):
    """A record of an event."""

    def update(self, event: Event) -> None:
        """Replaces the event."""
        check_argument("event", event, Event)
        self._set(EventWork(event, False).to_library())


class ExecutableEventWaitNode(ExecutableGraphNode):
    """A wait for an event."""

    def update(self, event: Event) -> None:
        """Replaces the event."""
        check_argument("event", event, Event)
        self._set(EventWork(event, True).to_library())


class ExecutableHostCallbackNode(ExecutableGraphNode):
    """A call of a function of the host."""

    def update(self, fn: Any, *, user_data: Any = None) -> None:
        """Replaces the function, as `GraphNode.callback` takes it."""
        self._set(call_work(fn, user_data).to_library())


ExecutableGraphNode._classes.update(
    {
        KernelNode: ExecutableKernelNode,
        MemsetNode: ExecutableMemsetNode,
        MemcpyNode: ExecutableMemcpyNode,
        ChildGraphNode: ExecutableChildGraphNode,
        EventRecordNode: ExecutableEventRecordNode,
        EventWaitNode: ExecutableEventWaitNode,
        HostCallbackNode: ExecutableHostCallbackNode,
    }
)
