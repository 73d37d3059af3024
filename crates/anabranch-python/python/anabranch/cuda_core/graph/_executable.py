"""Graphs that can be launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._errors import AnabranchError
from .._stream import Stream_accept
from .._utils.cuda_utils import CUDAError, call, check_or_create_options, describe, read_int
from ._options import GraphCompleteOptions

if TYPE_CHECKING:
    from ... import _anabranch
    from .._stream import Stream
    from ._graph_builder import GraphBuilder

__all__ = ["Graph"]


class Graph:
    """A graph that can be launched any number of times. `GraphBuilder.complete` makes it. It keeps what its work uses."""

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

    def update(self, source: GraphBuilder) -> None:
        """Takes over the parameters of a builder's graph with the same nodes and edges, for later launches.

        Raises `ValueError` if the builder has not ended, and `CUDAError` for a graph of another form.
        """
        from ._graph_builder import GraphBuilder

        inner = self._open()
        if not isinstance(source, GraphBuilder):
            raise TypeError(f"expected GraphBuilder or GraphDefinition, got {type(source).__name__}")
        graph = source._finished(ValueError("Graph has not finished building."))
        try:
            inner.update(graph)
        except AnabranchError as error:
            raise CUDAError(f"Graph update failed: {describe(error)}") from error

    def upload(self, stream: Stream) -> None:
        """Prepares the first launch in the order of a stream."""
        call(self._open().upload, Stream_accept(stream)._open())

    def launch(self, stream: Stream) -> None:
        """Launches the graph in the order of a stream. Launches of the same graph follow each other."""
        call(self._open().launch, Stream_accept(stream)._open())
