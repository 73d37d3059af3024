"""Takes the place of ``cupy.cuda.graph``: captured work that can be launched."""

from __future__ import annotations

from typing import Any

import anabranch

from ._arguments import refuse_to_copy
from ._errors import CUDARuntimeError, of_runtime
from .stream import _native_of, get_current_stream

__all__ = ["Graph"]


class Graph:
    """Work that a stream has captured: `Stream.end_capture` returns it. It keeps what the work uses."""

    __slots__ = ("_captured", "_executable")

    _captured: anabranch.Graph
    _executable: anabranch.ExecutableGraph

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "currently this class cannot be initiated by the user and must be created via stream capture"
        )

    __reduce__ = refuse_to_copy

    @classmethod
    def _of(cls, captured: anabranch.Graph, executable: anabranch.ExecutableGraph) -> Graph:
        graph = cls.__new__(cls)
        graph._captured, graph._executable = captured, executable
        return graph

    @property
    def graph(self) -> int:
        """The handle of the graph."""
        return self._captured.handle

    @property
    def graphExec(self) -> int:
        """The handle of the executable graph."""
        return self._executable.handle

    def launch(self, stream: Any = None) -> None:
        """Launches the graph in a stream, or in the current one."""
        # Without a decorator, which costs more than the call.
        try:
            self._executable.launch(_native_of(get_current_stream() if stream is None else stream))
        except anabranch.AnabranchError as error:
            raise CUDARuntimeError(error.status) from error

    @of_runtime
    def upload(self, stream: Any = None) -> None:
        """Prepares the first launch in the order of a stream, or of the current one."""
        self._executable.upload(_native_of(get_current_stream() if stream is None else stream))

    @of_runtime
    def debug_dot_str(self, flags: int = 0) -> str:
        """The graph in the language of Graphviz, always with all details: ``flags`` change nothing."""
        return self._captured.to_dot()
