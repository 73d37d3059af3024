"""Captures: work that is submitted becomes a graph, and does not run."""

from __future__ import annotations

import enum
import os
from types import TracebackType
from typing import Literal

from .._anabranch import _restoring
from .._errors import AnabranchError
from . import _runtime, config
from ._activity import TIMING_GRAPH, activity
from ._device import Device
from ._failure import described
from ._graph import Graph
from ._runtime import DeviceLike
from ._stream import Stream


class CaptureMode(enum.IntEnum):
    """Which calls a capture forbids while it is in progress: those that could not be captured, such as a wait of the host."""

    GLOBAL = 0
    """Calls of all threads."""

    THREAD_LOCAL = 1
    """Calls of the thread that captures."""

    RELAXED = 2
    """None."""


_MODES: dict[CaptureMode, Literal["global", "thread_local", "relaxed"]] = {
    CaptureMode.GLOBAL: "global",
    CaptureMode.THREAD_LOCAL: "thread_local",
    CaptureMode.RELAXED: "relaxed",
}


def _place(device: DeviceLike, stream: Stream | None) -> tuple[Device, Stream]:
    """The device and the stream of a capture."""
    if stream is not None:
        return stream.device, stream
    device = _runtime.get_device(device)
    if not device.is_cuda:
        raise RuntimeError("Must be a CUDA device")
    return device, device.stream


def capture_begin(
    device: DeviceLike = None,
    stream: Stream | None = None,
    force_module_load: bool | None = None,
    external: bool = False,
    apic: bool = False,
    capture_mode: CaptureMode = CaptureMode.THREAD_LOCAL,
) -> None:
    """Begins a capture in a stream, or in the current stream of a device. `capture_end` ends it.

    Streams that wait for the stream join the capture. `external` says that another library has begun the capture already and
    will end it. `force_module_load` has no effect.

    Raises ``RuntimeError`` for the device "cpu", for `apic`, if the stream captures already, or if an external capture is not in
    progress, and ``ValueError`` for another mode.
    """
    device, stream = _place(device, stream)
    if apic:
        raise RuntimeError("graphs of this module cannot be saved: begin the capture without apic")
    if config.verify_cuda:
        raise RuntimeError("Cannot use CUDA error verification during graph capture")
    if external and not stream.is_capturing:
        raise RuntimeError("External capture reported, but the stream is not capturing")
    if not external and stream.is_capturing:
        raise RuntimeError("Graph capture already in progress on this stream")
    mode = _MODES[CaptureMode(capture_mode)]
    graph: Graph | None = None
    try:
        if not external:
            stream.anabranch_stream.begin_capture(mode)
        graph = Graph(device, stream.anabranch_stream.capture_id or 0)
        graph._mode, graph._is_external = mode, external
        device.captures[stream] = graph
        device.runtime.captures[graph.capture_id] = graph
    except AnabranchError:
        # Nothing has begun.
        raise
    except BaseException:
        # A signal handler has raised it, and nobody would end the capture.
        if graph is not None:
            graph._is_external = external
        if graph is not None or not external:
            _give_up(device, stream, graph)
        raise


def capture_end(device: DeviceLike = None, stream: Stream | None = None) -> Graph:
    """Ends the capture of a stream, or of the current stream of a device, and returns its graph.

    The stream waits for those that have joined the capture first. An external capture goes on, and its graph has no work.
    Raises ``RuntimeError`` if the stream does not capture, or if the capture has failed.
    """
    device, stream = _place(device, stream)
    graph = device.captures.get(stream)
    if graph is None:
        raise RuntimeError("Graph capture is not active on this stream")
    native = stream.anabranch_stream
    try:
        for member in tuple(graph._joined):
            other = member.anabranch_stream
            if member is not stream and other.capture_id == graph.capture_id:
                native.wait(other)
        if not graph._is_external:
            graph._native = native.end_capture()
        graph._joined = {}
    except BaseException as error:
        # Also that of a signal handler.
        _give_up(device, stream, graph)
        if not isinstance(error, AnabranchError):
            raise
        raise described("CUDA graph capture failed.", error, " ") from error
    _forget(device, stream, graph)
    return graph


@_restoring
def _forget(device: Device, stream: Stream, graph: Graph) -> None:
    """Notes that a capture has ended."""
    device.runtime.captures.pop(graph.capture_id, None)
    device.captures.pop(stream, None)


@_restoring
def _give_up(device: Device, stream: Stream, graph: Graph | None) -> None:
    """Ends a capture whose graph is not wanted. There is no graph if the capture has just begun."""
    if graph is None or not graph._is_external:
        _abandon(stream)
    if graph is not None:
        _forget(device, stream, graph)


def _abandon(stream: Stream) -> None:
    """Ends a capture whose graph is not wanted."""
    try:
        stream.anabranch_stream.end_capture().close()
    except AnabranchError:
        # What has failed before says more.
        pass


class ScopedCapture:
    """Captures what is submitted within ``with``.

    `graph` is the graph, and ``None`` before the end. `active` says whether the capture is in progress.
    """

    graph: Graph

    def __init__(
        self,
        device: DeviceLike = None,
        stream: Stream | None = None,
        force_module_load: bool | None = None,
        external: bool = False,
        apic: bool = False,
        capture_mode: CaptureMode = CaptureMode.THREAD_LOCAL,
    ) -> None:
        """The arguments are those of `capture_begin`."""
        self.device = device
        self.stream = stream
        self.force_module_load = force_module_load
        self.external = external
        self.apic = apic
        self.capture_mode = capture_mode
        self.active = False
        # Programs pass it on after the end, when it is there.
        self.graph = None  # type: ignore[assignment]

    def __enter__(self) -> ScopedCapture:
        capture_begin(
            self.device, self.stream, self.force_module_load, self.external, self.apic, self.capture_mode
        )
        self.active = True
        return self

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.active:
            return
        device, stream = _place(self.device, self.stream)
        try:
            self.graph = capture_end(device, stream)
        except Exception:
            # An exception of the body says more, unless a signal handler has raised this one before the end.
            if exc_type is None or stream in device.captures:
                raise
        finally:
            self.active = stream in device.captures


def capture_launch(graph: Graph, stream: Stream | None = None) -> None:
    """Launches a graph in a stream of its device, or in the current one.

    Raises ``RuntimeError`` if the stream is of another device, or if the driver refuses: while the stream captures, for example,
    which invalidates the capture.
    """
    if stream is None:
        stream = graph.device.stream
    elif stream.device is not graph.device and stream.device != graph.device:
        raise RuntimeError(
            f"Cannot launch graph from device {graph.device} on stream from device {stream.device}"
        )
    executable = graph._instantiated(stream)
    with activity(TIMING_GRAPH, stream, "graph"):
        try:
            executable.launch(stream.anabranch_stream)
        except AnabranchError as error:
            raise described("Graph launch error", error) from error


def capture_debug_dot_print(graph: Graph, path: str | os.PathLike[str], verbose: bool = True) -> None:
    """Writes a graph to a file in the language of Graphviz. `verbose` has no effect: all is written that is known.

    Raises ``RuntimeError`` if the graph or the file cannot be had.
    """
    if graph.anabranch_graph is None:
        raise RuntimeError("Graph debug dot print error: the capture of the graph has not ended here")
    try:
        text = graph.anabranch_graph.to_dot()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except (AnabranchError, OSError) as error:
        raise RuntimeError(f"Graph debug dot print error: {error}") from error
