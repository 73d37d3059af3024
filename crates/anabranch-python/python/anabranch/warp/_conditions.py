"""Branches and loops that depend on a number in the memory of the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._anabranch import Buffer, Capture
from . import _runtime
from ._capture import capture_launch
from ._graph import Graph
from ._runtime import CONDITIONAL_GRAPHS
from ._stream import Stream

Part = Callable[[Capture], None]


def capture_if(
    condition: Buffer,
    on_true: Callable[..., object] | Graph | None = None,
    on_false: Callable[..., object] | Graph | None = None,
    stream: Stream | None = None,
    **kwargs: Any,
) -> None:
    """Captures a branch: at each launch, `on_true` runs if the first number of the condition is not 0, or else `on_false`.

    Either is a function, which is called once, at once, with `kwargs`, and submits work to `stream`; a graph without allocations
    and conditions; or ``None``. `condition` is a buffer of int32, and `stream` the one that captures: by default, the current one
    of its device. If it does not capture, this reads the number, and calls one function or launches one graph.

    Raises ``TypeError`` for other conditions or branches, and ``RuntimeError`` for other graphs, or if the driver is older than
    CUDA 12.4, or 12.8 with `on_false`.
    """
    if on_true is None and on_false is None:
        return
    stream, graph = _place(condition, stream)
    if graph is None:
        name, branch = ("on_true", on_true) if _read(condition, stream) else ("on_false", on_false)
        if branch is not None:
            _run(branch, f"{name} must be a Callable or a Graph", stream, kwargs)
        return
    parts = [
        _part(branch, f"{name} must be a Callable or a Graph", stream, kwargs)
        for name, branch in (("on_true", on_true), ("on_false", on_false))
    ]
    _require_conditions()
    stream.anabranch_stream.capture(graph._mode).if_(condition, parts[0], None if on_false is None else parts[1])


def capture_while(
    condition: Buffer,
    while_body: Callable[..., object] | Graph,
    stream: Stream | None = None,
    **kwargs: Any,
) -> None:
    """Captures a loop: at each launch, `while_body` runs as long as the first number of the condition is not 0.

    The arguments and errors are those of `capture_if`. The body has to change the condition. If the stream does not capture,
    this reads the number, and calls the function or launches the graph, until the number is 0.
    """
    stream, graph = _place(condition, stream)
    message = "while_body must be a callable or a graph"
    if graph is None:
        while _read(condition, stream):
            _run(while_body, message, stream, kwargs)
        return
    part = _part(while_body, message, stream, kwargs)
    _require_conditions()
    stream.anabranch_stream.capture(graph._mode).while_(condition, part)


def _place(condition: Buffer, stream: Stream | None) -> tuple[Stream, Graph | None]:
    """The stream, and the graph of its capture if it captures."""
    if not isinstance(condition, Buffer) or condition.dtype != "int32" or condition.size == 0:
        raise TypeError("Condition must be a Warp array of int32 with a single element")
    device = _runtime.get().device_of(condition.context)
    stream = device.stream if stream is None else stream
    return stream, device.captures.get(stream)


def _read(condition: Buffer, stream: Stream) -> bool:
    first = condition.reshape(condition.size)[:1]
    return bool(stream.anabranch_stream.download(first)[0])


def _run(branch: Callable[..., object] | Graph, message: str, stream: Stream, kwargs: dict[str, Any]) -> None:
    """Runs a branch without a capture."""
    if isinstance(branch, Graph):
        capture_launch(branch, stream)
    elif callable(branch):
        branch(**kwargs)
    else:
        raise TypeError(message)


def _part(
    branch: Callable[..., object] | Graph | None, message: str, stream: Stream, kwargs: dict[str, Any]
) -> Part:
    """What captures a branch."""
    if branch is not None and not isinstance(branch, Graph) and not callable(branch):
        raise TypeError(message)

    def part(capture: Capture) -> None:
        if isinstance(branch, Graph):
            capture.child(branch._captured())
        elif branch is not None:
            stream._capture_with(capture.stream, functools.partial(branch, **kwargs))

    return part


def _require_conditions() -> None:
    if _runtime.get().driver_version < CONDITIONAL_GRAPHS:
        raise RuntimeError("Conditional graph nodes require CUDA driver 12.4+")
