"""Builders of graphs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

from ..._anabranch import _finalizing
from ..._errors import AnabranchError
from .._stream import Stream
from .._utils.classes import Uncopied
from .._utils.cuda_utils import CUDAError, call, check_argument, check_int, describe, read_bool
from ._condition import GraphCondition
from ._definition import GraphDefinition
from ._executable import Graph
from ._hierarchy import Hierarchy
from ._host_callback import host_callback

if TYPE_CHECKING:
    from ... import _anabranch
    from ._options import GraphCompleteOptions, GraphDebugPrintOptions

    _Mode = Literal["global", "thread_local", "relaxed"]
    _Kind = Literal["primary", "forked", "body"]

__all__ = ["GraphBuilder"]

_MODES: dict[str, _Mode] = {"global": "global", "thread_local": "thread_local", "relaxed": "relaxed"}
_NOT_FINISHED = "Graph has not finished building."
_TAKEN = "the graph of a condition's body is a part of another graph since the builder of that has ended"


class _Capture:
    """What a builder knows of a capture."""

    def __init__(self) -> None:
        # How many builders have been split off, and not joined.
        self.forks = 0
        # What conditional nodes run.
        self.bodies: list[tuple[_anabranch.ConditionalNode, int, GraphBuilder]] = []


class GraphBuilder(Uncopied):
    """Captures what is submitted to a stream as a graph. `Device.create_graph_builder` and `Stream.create_graph_builder`
    make builders. A builder stands for its stream wherever one is expected.
    """

    _stream: Stream | None = None
    _kind: _Kind
    _mode: _Mode
    # The builder that began the capture, if that is another one: a cycle would keep builders that are dropped.
    _beginner: GraphBuilder | None
    _capture: _Capture
    _graph: _anabranch.Graph | None = None
    # The graph as the program has seen it.
    _definition: GraphDefinition | None = None
    # Whether the graph has become a part of another one.
    _is_taken: bool = False
    # The graph of a body, for the builder of its condition, which may end when this one is closed.
    _body: _anabranch.Graph | None = None

    def __init__(self) -> None:
        raise NotImplementedError(
            "directly creating a GraphBuilder object can be ambiguous. Please either call Device.create_graph_builder() or "
            "stream.create_graph_builder()"
        )

    @classmethod
    def _init(cls, stream: Stream, kind: _Kind = "primary", root: GraphBuilder | None = None) -> GraphBuilder:
        builder = cls.__new__(cls)
        builder._stream, builder._kind, builder._mode = stream, kind, "relaxed"
        builder._beginner = root
        builder._graph, builder._capture = None, _Capture()
        return builder

    @property
    def _root(self) -> GraphBuilder:
        return self if self._beginner is None else self._beginner

    def _open(self) -> Stream:
        if self._stream is None:
            raise RuntimeError("GraphBuilder has been closed")
        return self._stream

    def _status(self) -> str:
        return str(call(getattr, self._open()._open(), "capture_status"))

    def _have(self, graph: _anabranch.Graph) -> _anabranch.Graph:
        self._graph = graph
        if self._kind == "body":
            self._body = graph
        return graph

    def _finished(self, error: Exception) -> _anabranch.Graph:
        """The graph, or else the error."""
        self._open()
        if self._graph is None:
            raise error
        return self._graph

    def close(self) -> None:
        """Gives up the builder. A capture that was begun and not ended is ended, and its graph is dropped."""
        graph, definition = self._graph, self._definition
        try:
            # First, because this can be called again after a signal handler has ended it.
            self._end_capture()
        finally:
            self._stream = self._graph = self._definition = None
            # Those that were split off share the capture of the one that goes on.
            if self._kind != "forked":
                self._capture.bodies = []
            if graph is not None and graph is not self._body and definition is None:
                call(graph.close)

    def _end_capture(self) -> None:
        """Ends a capture that is this builder's to end."""
        stream = self._stream
        if stream is None or stream.is_closed or self._kind == "forked" or not self._captures:
            return
        inner = stream._open()
        if read_bool(inner, "is_capturing"):
            try:
                inner.end_capture()
            except AnabranchError as error:
                # One that was invalidated, or that builders were not joined to, has ended all the same.
                if read_bool(inner, "is_capturing"):
                    raise CUDAError(describe(error)) from error

    _began: bool = False

    @property
    def _captures(self) -> bool:
        """Whether a capture of the stream is this builder's, and not that of a later one."""
        return self._stream is not None and self._stream._capture is self._capture

    @_finalizing
    def __del__(self) -> None:
        # Not there if the constructor was not called.
        if not hasattr(self, "_capture") or sys is None or sys.is_finalizing():
            return
        try:
            self.close()
        except (AnabranchError, CUDAError):  # A host function may be running.
            pass

    @property
    def is_closed(self) -> bool:
        """Whether the builder is closed."""
        return self._stream is None

    @property
    def stream(self) -> Stream:
        """The stream."""
        return self._open()

    @property
    def anabranch_stream(self) -> _anabranch.Stream:
        """The stream of the package."""
        return self._open().anabranch_stream

    @property
    def is_join_required(self) -> bool:
        """Whether the builder was split off another one, and has to be joined before that ends."""
        return self._kind == "forked"

    def begin_building(self, mode: str | None = "relaxed") -> GraphBuilder:
        """Begins the capture. ``mode`` is which calls of other threads it forbids: "global", "thread_local" or "relaxed".
        Returns the builder.

        Raises `RuntimeError` if it has begun, and `ValueError` for another mode.
        """
        stream = self._open()
        if mode is not None and not isinstance(mode, str):
            raise TypeError(f"Argument 'mode' has incorrect type (expected str, got {type(mode).__name__})")
        if self._graph is not None:
            raise RuntimeError("Cannot resume building after building has ended.")
        if mode is None or mode not in _MODES:
            raise ValueError(f"Unsupported build mode: {mode}")
        if stream._default != "legacy" and self.is_building:
            raise RuntimeError("Graph builder is already building.")
        call(stream._open().begin_capture, _MODES[mode])
        self._mode, self._began = _MODES[mode], True
        self._capture = _Capture()
        stream._capture = self._capture if stream._default != "legacy" else None
        return self

    @property
    def is_building(self) -> bool:
        """Whether the capture goes on. Raises `RuntimeError` if a call that cannot be captured has invalidated it."""
        status = self._status()
        if status == "invalidated":
            raise RuntimeError(
                "Build process encountered an error and has been invalidated. Build process must now be ended."
            )
        return status == "active"

    def end_building(self) -> GraphBuilder:
        """Ends the capture. Returns the builder.

        Raises `RuntimeError` if it has not begun, or a builder of a condition's body has not ended, and `CUDAError` if other
        builders were not joined, or if the capture was invalidated.
        """
        stream = self._open()
        if self._status() == "none":
            raise RuntimeError("Graph builder is not building.")
        bodies = []
        for node, index, body in self._capture.bodies:
            if body._body is not None:
                bodies.append((node, index, body._body))
            elif body._began and not body.is_closed:
                raise RuntimeError("The graph builder of a condition's body has not finished building.")
        try:
            self._have(call(stream._open().end_capture, bodies))
        finally:
            if self._status() == "none":
                stream._capture = None
        for _, _, body in self._capture.bodies:
            body._is_taken = True
            if body._definition is not None:
                body._definition._hierarchy.read_only = _TAKEN
        return self

    @property
    def graph_definition(self) -> GraphDefinition:
        """The graph, to be inspected and to get more nodes. It is there when the builder has ended; for the body of a condition,
        also before it begins, and then it is built by hand only. That of a body can be changed until the other builder ends.

        Raises `RuntimeError` before, and for builders that were split off.
        """
        context = self._open().context
        unavailable = "graph_definition is unavailable "
        if self._kind == "forked":
            raise RuntimeError(
                unavailable + "on forked graph builders; access it through the primary builder instead."
            )
        graph = self._graph
        if graph is None:
            if self._began and self.is_building:
                raise RuntimeError(unavailable + "while capture is in progress; call end_building() first.")
            if self._kind != "body":
                message = "before begin_building() on a primary builder; no graph has been created yet."
                raise RuntimeError(unavailable + message)
            graph = self._have(call(context._open().create_graph))
        if self._definition is None:
            self._definition = GraphDefinition._of(graph, context, Hierarchy())
            self._definition._hierarchy.read_only = _TAKEN if self._is_taken else None
        return self._definition

    def complete(self, options: GraphCompleteOptions | None = None) -> Graph:
        """Makes a graph that can be launched. Raises `RuntimeError` before `end_building`."""
        return Graph._instantiate(self._finished(RuntimeError(_NOT_FINISHED)), options)

    def debug_dot_print(self, path: str, options: GraphDebugPrintOptions | None = None) -> None:
        """Writes the graph to a file in the language of Graphviz. Raises `RuntimeError` before `end_building`."""
        graph = self._finished(RuntimeError(_NOT_FINISHED))
        with open(path, "w", encoding="utf-8") as file:
            file.write(call(graph.to_dot))

    def split(self, count: int) -> tuple[GraphBuilder, ...]:
        """Splits the builder into so many: itself, and others whose work comes behind its work until now. They have to be
        joined before the end.

        Raises `ValueError` for less than two, and `RuntimeError` if the capture has not begun.
        """
        count = check_int("count", count)
        stream = self._open()
        if count < 2:
            raise ValueError(f"Invalid split count: expecting >= 2, got {count}")
        if not self.is_building:
            raise RuntimeError("Graph builder must be building before it can be split.")
        context = stream.context
        event = stream.record()
        builders: list[GraphBuilder] = [self]
        for _ in range(count - 1):
            other = Stream._init(None, None, context._device_id, context)
            other.wait(event)
            fork = GraphBuilder._init(other, "forked", self._root)
            fork._mode, fork._capture = self._mode, self._root._capture
            builders.append(fork)
            fork._capture.forks += 1
        return tuple(builders)

    @staticmethod
    def join(*graph_builders: GraphBuilder) -> GraphBuilder:
        """Joins builders: later work of the result comes behind the work of all. The others are closed.

        Raises `ValueError` for less than two.
        """
        if not all(isinstance(builder, GraphBuilder) for builder in graph_builders):
            raise TypeError("All arguments must be GraphBuilder instances")
        if len(graph_builders) < 2:
            raise ValueError("Must join with at least two graph builders")
        into = next((builder for builder in graph_builders if not builder.is_join_required), graph_builders[0])
        for builder in graph_builders:
            if builder is into:
                continue
            into.stream.wait(builder.stream)
            if builder._kind == "forked":
                builder._capture.forks -= 1
            builder.close()
        return into

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of the protocol, and the handle of the stream."""
        return self.stream.__cuda_stream__()

    def create_condition(self, default_value: int | None = None) -> GraphCondition:
        """Makes a value for one conditional node. With a default, it is set to that at every launch.

        Raises `RuntimeError` if the capture has not begun, while builders are split off, and in the body of a condition.
        """
        stream = self._open()
        if not self.is_building:
            raise RuntimeError("Cannot create a condition when graph is not being built")
        self._require_whole("A condition")
        return GraphCondition._of(call(stream._open().create_conditional, default_value, mode=self._mode))

    def _require_whole(self, what: str) -> None:
        if self._kind == "body":
            raise RuntimeError(f"{what} cannot be added to the body of a condition")
        if self._root._capture.forks:
            raise RuntimeError(f"{what} can be added when all split graph builders are joined")

    def _add_condition(
        self, condition: GraphCondition, kind: Literal["if", "while", "switch"], count: int
    ) -> tuple[GraphBuilder, ...]:
        check_argument("condition", condition, GraphCondition)
        stream = self._open()
        if not self.is_building:
            raise RuntimeError("Cannot add conditional node when not actively capturing")
        self._require_whole("A conditional node")
        node = call(stream._open().add_conditional, condition._value, kind, count, mode=self._mode)
        context = stream.context
        bodies = []
        for index in range(count):
            body = GraphBuilder._init(Stream._init(None, None, context._device_id, context), "body")
            self._capture.bodies.append((node, index, body))
            bodies.append(body)
        return tuple(bodies)

    def if_then(self, condition: GraphCondition) -> GraphBuilder:
        """Adds what runs if the condition is not 0. Returns its builder, which begins and ends before this one ends."""
        return self._add_condition(condition, "if", 1)[0]

    def if_else(self, condition: GraphCondition) -> tuple[GraphBuilder, GraphBuilder]:
        """Adds what runs if the condition is not 0, and what runs otherwise. Returns their builders."""
        then, otherwise = self._add_condition(condition, "if", 2)
        return then, otherwise

    def switch(self, condition: GraphCondition, count: int) -> tuple[GraphBuilder, ...]:
        """Adds so many cases, of which that runs whose number the condition is, if there is one. Returns their builders."""
        return self._add_condition(condition, "switch", check_int("count", count))

    def while_loop(self, condition: GraphCondition) -> GraphBuilder:
        """Adds what runs again and again while the condition is not 0. Returns its builder."""
        return self._add_condition(condition, "while", 1)[0]

    def embed(self, child: GraphBuilder) -> None:
        """Adds the graph of another builder, which has ended, as a node.

        Raises `ValueError` if the other has not ended, or this one has not begun.
        """
        check_argument("child", child, GraphBuilder)
        stream = self._open()
        graph = child._finished(ValueError("Child graph has not finished building."))
        if not self.is_building:
            raise ValueError("Parent graph is not being built.")
        if self._root._capture.forks:
            raise RuntimeError("A child graph can be added when all split graph builders are joined")
        call(stream._open().add_child, graph, mode=self._mode)

    def callback(self, fn: Any, *, user_data: Any = None) -> None:
        """Adds a function of Python without arguments, or a function of ctypes that gets ``user_data``: an address, or
        bytes that are copied. It must not call this package. The graph keeps it.

        Raises `RuntimeError` if the capture has not begun, and `ValueError` for ``user_data`` of a function of Python.
        """
        stream = self._open()
        if not self.is_building:
            raise RuntimeError("Cannot add callback when graph is not being built")
        call(stream._open().launch_host_func, host_callback(fn, user_data))

    # The names of `cuda.core.experimental`.

    def create_conditional_handle(self, default_value: int | None = None) -> GraphCondition:
        """The former name of `create_condition`."""
        return self.create_condition(default_value)

    def if_cond(self, handle: GraphCondition) -> GraphBuilder:
        """The former name of `if_then`."""
        return self.if_then(handle)

    def add_child(self, child_graph: GraphBuilder) -> None:
        """The former name of `embed`."""
        self.embed(child_graph)
