"""Graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from .._errors import AnabranchError
from ._failure import described

if TYPE_CHECKING:
    from .._anabranch import ExecutableGraph
    from .._anabranch import Graph as NativeGraph
    from ._device import Device
    from ._stream import Stream


class Graph:
    """Work that was captured. `capture_launch` runs it any number of times.

    `device` is its device, and `capture_id` the number of the capture.
    """

    def __init__(self, device: Device, capture_id: int = 0) -> None:
        """Is called by `capture_begin`."""
        self.device = device
        self.capture_id = capture_id
        self.apic = False
        self._mode: Any = "thread_local"
        self._is_external = False
        # The streams that have joined the capture, in the order in which they joined.
        self._joined: dict[Stream, None] = {}
        self._native: NativeGraph | None = None
        self._executable: ExecutableGraph | None = None

    @property
    def anabranch_graph(self) -> NativeGraph | None:
        """The graph of the package `anabranch`, after the end of the capture."""
        return self._native

    @property
    def graph(self) -> int | None:
        """The handle of the graph, after the end of the capture."""
        return None if self._native is None else self._native.handle

    @property
    def graph_exec(self) -> int | None:
        """The handle of the executable graph, after the first launch."""
        return None if self._executable is None else self._executable.handle

    @property
    def is_loaded(self) -> bool:
        """Whether it was loaded from a file, which is not possible here: false."""
        return False

    @property
    def params(self) -> dict[str, dict[str, int]]:
        """The parameters of a graph that was loaded from a file: none."""
        return {}

    def set_param(self, name: str, arr: Any) -> NoReturn:
        """Raises ``RuntimeError``, as for any graph that was not loaded from a file."""
        raise RuntimeError("set_param() is only supported on loaded APIC graphs")

    def get_param(self, name: str, arr: Any) -> NoReturn:
        """Raises ``RuntimeError``, as for any graph that was not loaded from a file."""
        raise RuntimeError("get_param() is only supported on loaded APIC graphs")

    def get_param_ptr(self, name: str) -> NoReturn:
        """Raises ``RuntimeError``, as for any graph that was not loaded from a file."""
        raise RuntimeError("get_param_ptr() is only supported on loaded APIC graphs")

    def _captured(self) -> NativeGraph:
        """The graph of the package `anabranch`, if its capture has ended here."""
        if self._native is None:
            raise RuntimeError("Graph creation error: the graph belongs to the program that has ended its capture")
        return self._native

    def _instantiated(self, stream: Stream) -> ExecutableGraph:
        """The executable graph, which is made at the first launch, and prepared in that stream."""
        if self._executable is None:
            native, upload = self._captured(), stream.anabranch_stream
            try:
                self._executable = native.instantiate(upload=upload, auto_free_on_launch=True)
            except AnabranchError as error:
                raise described("Graph creation error", error) from error
        return self._executable
