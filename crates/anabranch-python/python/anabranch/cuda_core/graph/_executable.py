"""Graphs that can be launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._errors import AnabranchError
from .._stream import Stream, Stream_accept
from .._utils.classes import Uncopied
from .._utils.cuda_utils import CUDAError, call, check_argument, check_or_create_options, describe, failed, read_int
from ._options import GraphCompleteOptions

if TYPE_CHECKING:
    from ... import _anabranch
    from ._definition import GraphDefinition
    from ._executable_nodes import ExecutableGraphNode
    from ._graph_builder import GraphBuilder
    from ._node import GraphNode

__all__ = ["Graph"]


class Graph(Uncopied):
    """A graph that can be launched any number of times. `GraphBuilder.complete` and
    `GraphDefinition.instantiate` make it. It keeps what its work uses."""

    _inner: _anabranch.ExecutableGraph | None

    def __init__(self) -> None:
        raise RuntimeError("directly constructing a Graph instance is not supported")

    @classmethod
    def _instantiate(cls, graph: _anabranch.Graph, options: Any) -> Graph:
        chosen = check_or_create_options(GraphCompleteOptions, options, "Graph complete options")
        if chosen.device_launch:
            message = "graphs that kernels launch are not supported; use device_launch=False"
            raise CUDAError(f"CUDA_ERROR_NOT_SUPPORTED: {message}")
        upload = None if chosen.upload_stream is None else Stream_accept(chosen.upload_stream)._open()
        made = cls.__new__(cls)
        made._inner = call(
            graph.instantiate,
            upload=upload,
            auto_free_on_launch=chosen.auto_free_on_launch,
            use_node_priority=chosen.use_node_priority,
        )
        return made

    def _open(self) -> _anabranch.ExecutableGraph:
        if self._inner is None:
            raise RuntimeError("Graph has been closed")
        return self._inner

    @property
    def anabranch_graph(self) -> _anabranch.ExecutableGraph:
        """The graph of the package."""
        return self._open()

    def close(self) -> None:
        """Destroys the graph, behind its last launch."""
        inner, self._inner = self._inner, None
        if inner is not None:
            call(inner.close)

    @property
    def is_closed(self) -> bool:
        """Whether the graph is closed."""
        return self._inner is None

    @property
    def handle(self) -> int:
        """The handle of the driver, or 0 if the graph is closed."""
        return 0 if self._inner is None else read_int(self._inner, "handle")

    def __getitem__(self, node: GraphNode) -> ExecutableGraphNode:
        """A node of this graph, by that of the graph that it was made of, to be changed for later launches.

        Raises `TypeError` for a node that cannot be changed.
        """
        from ._executable_nodes import ExecutableGraphNode
        from ._node import GraphNode

        check_argument("node", node, GraphNode)
        self._open()
        return ExecutableGraphNode._of(self, node)

    # Nodes are no sequence.
    __iter__ = None

    def update(self, source: GraphBuilder | GraphDefinition) -> None:
        """Takes over the parameters of another graph with the same nodes and edges, for later launches.

        Raises `ValueError` if it is that of a builder that has not ended, and `CUDAError` for a graph of another form.
        """
        from ._definition import GraphDefinition
        from ._graph_builder import GraphBuilder

        inner = self._open()
        if isinstance(source, GraphDefinition):
            graph = source.anabranch_graph
        elif isinstance(source, GraphBuilder):
            graph = source._finished(ValueError("Graph has not finished building."))
        else:
            raise TypeError(f"expected GraphBuilder or GraphDefinition, got {type(source).__name__}")
        try:
            inner.update(graph)
        except AnabranchError as error:
            raise CUDAError(f"Graph update failed: {describe(error)}") from error

    def upload(self, stream: Stream) -> None:
        """Prepares the first launch in the order of a stream."""
        call(self._open().upload, Stream_accept(stream)._open())

    def launch(self, stream: Stream) -> None:
        """Launches the graph in the order of a stream. Launches of the same graph follow each other."""
        inner = self._inner or self._open()
        into = stream if isinstance(stream, Stream) else Stream_accept(stream)
        try:
            inner.launch(into._inner or into._open())
        except AnabranchError as error:
            raise failed(error) from error
