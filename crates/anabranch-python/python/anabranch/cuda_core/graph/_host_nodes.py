"""Nodes of events, and those that call functions of the host."""

from __future__ import annotations

from typing import Any

from .._event import Event
from .._utils.cuda_utils import CUDAError, call, check_argument
from ._node import GraphNode
from ._works import CallWork, EmptyWork, EventWork, Work, call_work

__all__ = ["EventRecordNode", "EventWaitNode", "HostCallbackNode"]


class _EventNode(GraphNode):
    """A node of an event."""

    _is_wait: bool

    def _captured(self) -> Work:
        self._require()
        inner = call(self._graph.node_event, self._named())
        if inner is None:
            # Another library has added the node, and the graph does not keep its event.
            return EmptyWork()
        return EventWork(Event._of(inner, self._context, blocking=inner.is_blocking_sync, interprocess=False), self._is_wait)

    def _event(self) -> Event:
        work = self._work_or_captured()
        if isinstance(work, EventWork) and work.event.is_closed and self.is_valid:
            # The program has closed its object, and not the event.
            work = self._captured()
        if not isinstance(work, EventWork):
            raise CUDAError("CUDA_ERROR_NOT_SUPPORTED: another library has added this node, and the graph does not keep its event")
        return work.event

    def _update(self, event: Event) -> None:
        check_argument("event", event, Event)
        self._require_changes()
        work = EventWork(event, self._is_wait)
        call(self._graph.set_node, self._named(), work.to_library())
        self._hierarchy.works[self._named()] = work

    def __repr__(self) -> str:
        if isinstance(self._work_or_captured(), EventWork):
            return self._show(f" event={self._event().handle:#x}")
        return super().__repr__()


class EventRecordNode(_EventNode):
    """A record of an event."""

    _is_wait = False

    def update(self, event: Event) -> None:
        """Replaces the event in the graph."""
        self._update(event)

    @property
    def event(self) -> Event:
        """The event."""
        return self._event()


class EventWaitNode(_EventNode):
    """A wait for an event."""

    _is_wait = True

    def update(self, event: Event) -> None:
        """Replaces the event in the graph."""
        self._update(event)

    @property
    def event(self) -> Event:
        """The event."""
        return self._event()


class HostCallbackNode(GraphNode):
    """A call of a function of the host."""

    def _captured(self) -> Work:
        return CallWork(None, None, 0)

    def _told(self) -> CallWork:
        work = self._work_or_captured()
        assert isinstance(work, CallWork)
        return work

    def update(self, fn: Any, *, user_data: Any = None) -> None:
        """Replaces the function in the graph, as `GraphNode.callback` takes it."""
        self._require_changes()
        work = call_work(fn, user_data)
        call(self._graph.set_node, self._named(), work.to_library())
        self._hierarchy.works[self._named()] = work

    @property
    def callback(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The function of Python. ``None`` for one of ctypes, and for one that was captured."""
        return self._told().callback

    def __repr__(self) -> str:
        told = self._told()
        if told.callback is None:
            return self._show(f" cfunc={told.address:#x}")
        return self._show(f" callback={getattr(told.callback, '__name__', '?')}")


GraphNode._classes.update(
    {"event record": EventRecordNode, "event wait": EventWaitNode, "host function": HostCallbackNode}
)
