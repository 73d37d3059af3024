"""Calls without a stream: they use the current stream, which ``with stream:`` has entered.

>>> import anabranch
>>> from anabranch import current
>>> context = anabranch.device("host").context()
>>> with context.create_stream():
...     numbers = current.upload([1, 2, 3], dtype="int32")
...     current.fill(numbers[:1], 5)
...     current.download(numbers).tolist()
[5, 2, 3]

A call uses the current stream of the context that its buffers or its kernel belong to. `upload` and `allocate` have
neither, and use the stream that was entered last. Without a current stream, the calls raise an error; there is no default.
"""

from __future__ import annotations

from ._current import current_stream
from ._errors import make

# `typing` would take half of the time to import this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._anabranch import Buffer, Context, Event, ExecutableGraph, Kernel, LaunchConfig, Stream

__all__ = [
    "allocate",
    "copy",
    "copy_from_host",
    "copy_to_host",
    "download",
    "fill",
    "launch",
    "launch_graph",
    "record",
    "synchronize",
    "upload",
]

ILLEGAL_STATE = 401


def _stream(operation: str, context: Context | None = None) -> Stream:
    stream = current_stream(context)
    if stream is not None:
        return stream
    where = "" if context is None else f" of {context.device.name}"
    hint = "enter one by `with stream:` before, or call the method of a stream instead"
    details = {
        "status": ILLEGAL_STATE,
        "name": "CUDA_ERROR_ILLEGAL_STATE",
        "operation": operation,
        "detail": f"no stream{where} is current",
        "hint": hint,
    }
    raise make("", f"{operation}: no stream{where} is current [CUDA_ERROR_ILLEGAL_STATE (401)]; {hint}", details)


def allocate(shape: Any, dtype: Any = None) -> Buffer:
    """Like `Stream.allocate`."""
    return _stream("allocating").allocate(shape, dtype)


def upload(data: Any, dtype: Any = None) -> Buffer:
    """Like `Stream.upload`."""
    return _stream("uploading").upload(data, dtype)


def download(buffer: Buffer) -> memoryview:
    """Like `Stream.download`."""
    return _stream("downloading", buffer.context).download(buffer)


def copy(destination: Buffer, source: Buffer) -> None:
    """Like `Stream.copy`."""
    _stream("copying", destination.context).copy(destination, source)


def copy_from_host(buffer: Buffer, data: Any) -> None:
    """Like `Stream.copy_from_host`."""
    _stream("copying", buffer.context).copy_from_host(buffer, data)


def copy_to_host(destination: Any, buffer: Buffer) -> None:
    """Like `Stream.copy_to_host`."""
    _stream("copying", buffer.context).copy_to_host(destination, buffer)


def fill(buffer: Buffer, value: float) -> None:
    """Like `Stream.fill`."""
    _stream("filling", buffer.context).fill(buffer, value)


def launch(kernel: Kernel, config: LaunchConfig | tuple[Any, Any], *arguments: Any) -> None:
    """Like `Stream.launch`."""
    _stream("launching a kernel", kernel.context).launch(kernel, config, *arguments)


def launch_graph(graph: ExecutableGraph) -> None:
    """Like `ExecutableGraph.launch`."""
    graph.launch(_stream("launching a graph", graph.context))


def record(event: Event | None = None, *, timing: bool = True) -> Event:
    """Like `Stream.record`."""
    context = None if event is None else event.context
    return _stream("recording an event", context).record(event, timing=timing)


def synchronize() -> None:
    """Like `Stream.synchronize`."""
    _stream("synchronizing").synchronize()
