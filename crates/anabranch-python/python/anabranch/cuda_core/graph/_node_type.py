"""The kinds of nodes, by the driver's names and numbers."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CUgraphNodeType"]


class CUgraphNodeType(IntEnum):
    """What a node is. The names and numbers are those of the driver."""

    CU_GRAPH_NODE_TYPE_KERNEL = 0
    CU_GRAPH_NODE_TYPE_MEMCPY = 1
    CU_GRAPH_NODE_TYPE_MEMSET = 2
    CU_GRAPH_NODE_TYPE_HOST = 3
    CU_GRAPH_NODE_TYPE_GRAPH = 4
    CU_GRAPH_NODE_TYPE_EMPTY = 5
    CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6
    CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7
    CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL = 8
    CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT = 9
    CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10
    CU_GRAPH_NODE_TYPE_MEM_FREE = 11
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12
    CU_GRAPH_NODE_TYPE_CONDITIONAL = 13


# By the names that the package has for the kinds.
TYPES = {
    "kernel": CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL,
    "copy": CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY,
    "fill": CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET,
    "host function": CUgraphNodeType.CU_GRAPH_NODE_TYPE_HOST,
    "child graph": CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH,
    "empty": CUgraphNodeType.CU_GRAPH_NODE_TYPE_EMPTY,
    "event wait": CUgraphNodeType.CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    "event record": CUgraphNodeType.CU_GRAPH_NODE_TYPE_EVENT_RECORD,
    "external signal": CUgraphNodeType.CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
    "external wait": CUgraphNodeType.CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
    "allocation": CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEM_ALLOC,
    "free": CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEM_FREE,
    "value operations": CUgraphNodeType.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
    "conditional": CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL,
}
