"""Graphs: builders that capture streams, graphs that are built by hand, their nodes, and what is made of them."""

from ._child_node import ChildGraphNode
from ._condition import GraphCondition
from ._conditional_nodes import ConditionalNode, IfElseNode, IfNode, SwitchNode, WhileNode
from ._definition import GraphDefinition
from ._executable import Graph
from ._executable_nodes import (
    ExecutableChildGraphNode,
    ExecutableEventRecordNode,
    ExecutableEventWaitNode,
    ExecutableGraphNode,
    ExecutableHostCallbackNode,
    ExecutableKernelNode,
    ExecutableMemcpyNode,
    ExecutableMemsetNode,
)
from ._graph_builder import GraphBuilder
from ._host_nodes import EventRecordNode, EventWaitNode, HostCallbackNode
from ._memory_nodes import AllocNode, FreeNode, MemcpyNode, MemsetNode
from ._node import GraphNode
from ._options import GraphCompleteOptions, GraphDebugPrintOptions
from ._work_nodes import EmptyNode, KernelNode

__all__ = [
    "AllocNode",
    "ChildGraphNode",
    "ConditionalNode",
    "EmptyNode",
    "EventRecordNode",
    "EventWaitNode",
    "ExecutableChildGraphNode",
    "ExecutableEventRecordNode",
    "ExecutableEventWaitNode",
    "ExecutableGraphNode",
    "ExecutableHostCallbackNode",
    "ExecutableKernelNode",
    "ExecutableMemcpyNode",
    "ExecutableMemsetNode",
    "FreeNode",
    "Graph",
    "GraphBuilder",
    "GraphCompleteOptions",
    "GraphCondition",
    "GraphDebugPrintOptions",
    "GraphDefinition",
    "GraphNode",
    "HostCallbackNode",
    "IfElseNode",
    "IfNode",
    "KernelNode",
    "MemcpyNode",
    "MemsetNode",
    "SwitchNode",
    "WhileNode",
]
