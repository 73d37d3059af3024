"""Streams, events and graphs by their handles, for `runtime`.

As in C, a handle is trusted: who passes one makes sure that its object exists. Frequent functions have no decorator, which costs more
than their calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch import AnabranchError

from . import _devices
from ._arguments import c_int
from ._constants import (
    streamCaptureModeGlobal,
    streamCaptureModeRelaxed,
    streamCaptureModeThreadLocal,
    streamCaptureStatusInvalidated,
)
from ._errors import CUDARuntimeError, of_runtime

INVALIDATED = "the stream was capturing, but an error has invalidated the capture sequence"
INVALID_VALUE = 1
OPERATING_SYSTEM = 304

_MODES = (streamCaptureModeGlobal, streamCaptureModeThreadLocal, streamCaptureModeRelaxed)


@of_runtime
def streamCreate() -> int:
    """Creates a stream of the current device, and returns its handle."""
    return _devices.raw().streams.create()


@of_runtime
def streamCreateWithFlags(flags: int) -> int:
    """Creates a stream: ``streamDefault`` or ``streamNonBlocking``."""
    return _devices.raw().streams.create(flags)


@of_runtime
def streamCreateWithPriority(flags: int, priority: int) -> int:
    """Creates a stream with a priority. Smaller numbers are more urgent."""
    return _devices.raw().streams.create(flags, priority)


@of_runtime
def streamDestroy(stream: int) -> None:
    """Destroys a stream. Its queued work still runs."""
    _devices.raw().streams.destroy(stream)


@of_runtime
def streamGetFlags(stream: int) -> int:
    """The flags that a stream was created with."""
    return _devices.raw().streams.flags(stream)


@of_runtime
def streamGetPriority(stream: int) -> int:
    """The priority of a stream."""
    return _devices.raw().streams.priority(stream)


def streamSynchronize(stream: int) -> None:
    """Waits until all work of a stream is complete."""
    try:
        _devices.raw().streams.synchronize(stream)
    except AnabranchError as error:
        raise CUDARuntimeError(error.status) from error


def streamQuery(stream: int) -> int:
    """The status of a stream: 0 if its work is complete, 600 if it is not, or an error."""
    try:
        return _devices.raw().streams.query(stream)
    except AnabranchError as error:
        raise CUDARuntimeError(error.status) from error


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:
    """Lets later work of a stream wait for an event."""
    try:
        _devices.raw().streams.wait_event(stream, event, flags)
    except AnabranchError as error:
        raise CUDARuntimeError(error.status) from error


@of_runtime
def streamAddCallback(stream: int, callback: Callable[[int, int, Any], object], arg: Any, flags: int = 0) -> None:
    """Calls a function once behind all work of a stream until now, with the stream, a status, and ``arg``."""
    if flags != 0:
        raise CUDARuntimeError(INVALID_VALUE)
    _devices.raw().streams.add_callback(stream, callback, arg)


@of_runtime
def launchHostFunc(stream: int, callback: Callable[[Any], object], arg: Any) -> None:
    """Calls a function with ``arg`` behind all work of a stream until now. A function that is captured is kept for ever."""
    _devices.raw().streams.launch_host_func(stream, callback, arg)


@of_runtime
def streamBeginCapture(stream: int, mode: int = streamCaptureModeRelaxed) -> None:
    """Begins a capture."""
    mode = c_int(mode)
    if mode not in _MODES:
        raise CUDARuntimeError(INVALID_VALUE)
    _devices.raw().streams.begin_capture(stream, mode)


@of_runtime
def streamEndCapture(stream: int) -> int:
    """Ends a capture, and returns the handle of its graph."""
    return _devices.raw().streams.end_capture(stream)


@of_runtime
def streamIsCapturing(stream: int) -> bool:
    """Whether a stream captures. A capture that an error has invalidated is a ``RuntimeError``."""
    status = _devices.raw().streams.capture_status(stream)
    if status == streamCaptureStatusInvalidated:
        raise RuntimeError(INVALIDATED)
    return status != 0


@of_runtime
def eventCreate() -> int:
    """Creates an event of the current device, and returns its handle."""
    return _devices.raw().events.create()


@of_runtime
def eventCreateWithFlags(flags: int) -> int:
    """Creates an event: a sum of ``eventBlockingSync``, ``eventDisableTiming`` and ``eventInterprocess``."""
    return _devices.raw().events.create(flags)


@of_runtime
def eventDestroy(event: int) -> None:
    """Destroys an event. Queued waits for it still happen."""
    _devices.raw().events.destroy(event)


@of_runtime
def eventElapsedTime(start: int, end: int) -> float:
    """The time between two events in milliseconds."""
    return _devices.raw().events.elapsed(start, end)


def eventQuery(event: int) -> int:
    """The status of an event: 0 if it is complete, 600 if it is not, or an error."""
    try:
        return _devices.raw().events.query(event)
    except AnabranchError as error:
        raise CUDARuntimeError(error.status) from error


def eventRecord(event: int, stream: int) -> None:
    """Records an event behind all work of a stream until now."""
    try:
        _devices.raw().events.record(event, stream)
    except AnabranchError as error:
        raise CUDARuntimeError(error.status) from error


def eventSynchronize(event: int) -> None:
    """Waits until an event is complete."""
    try:
        _devices.raw().events.synchronize(event)
    except AnabranchError as error:
        raise CUDARuntimeError(error.status) from error


@of_runtime
def ipcGetEventHandle(event: int) -> bytes:
    """Describes an event for other processes, in 64 bytes."""
    return _devices.raw().events.export(event)


@of_runtime
def ipcOpenEventHandle(handle: bytes) -> int:
    """Opens an event of another process."""
    return _devices.raw().events.open(handle)


@of_runtime
def graphInstantiate(graph: int) -> int:
    """Makes an executable graph, and returns its handle."""
    return _devices.raw().graphs.instantiate(graph)


@of_runtime
def graphDestroy(graph: int) -> None:
    """Destroys a graph. Executable graphs made of it can still be launched."""
    _devices.raw().graphs.destroy(graph)


@of_runtime
def graphExecDestroy(graphExec: int) -> None:
    """Destroys an executable graph. Launches that are queued still run."""
    _devices.raw().graphs.destroy_executable(graphExec)


def graphLaunch(graphExec: int, stream: int) -> None:
    """Launches an executable graph in a stream."""
    try:
        _devices.raw().graphs.launch(graphExec, stream)
    except AnabranchError as error:
        raise CUDARuntimeError(error.status) from error


@of_runtime
def graphUpload(graphExec: int, stream: int) -> None:
    """Prepares the first launch of an executable graph in the order of a stream."""
    _devices.raw().graphs.upload(graphExec, stream)


@of_runtime
def graphDebugDotPrint(graph: int, path: str, flags: int) -> None:
    """Writes a graph in the language of Graphviz to a file, always with all details: ``flags`` change nothing."""
    text = _devices.raw().graphs.to_dot(graph)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CUDARuntimeError(OPERATING_SYSTEM) from error
