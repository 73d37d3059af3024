"""Graphs: builders that capture streams, and what they build."""

from ._condition import GraphCondition
from ._executable import Graph
from ._graph_builder import GraphBuilder
from ._options import GraphCompleteOptions, GraphDebugPrintOptions

__all__ = ["Graph", "GraphBuilder", "GraphCompleteOptions", "GraphCondition", "GraphDebugPrintOptions"]
