"""What nodes of graphs do, as the module has been told."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ... import _anabranch
from .._event import Event
from .._launch_config import LaunchConfig
from .._launcher import library_arguments
from .._module import Kernel
from .._utils.cuda_utils import CUDAError, call, parse_fill_value, size_of
from ._condition import GraphCondition
from ._host_callback import host_callback
from ._operand import Operand

if TYPE_CHECKING:
    from .._context import Context
    from ._definition import GraphDefinition


class Work:
    """What a node does."""

    def to_library(self) -> _anabranch.NodeWork:
        """The work of the package."""
        raise CUDAError("CUDA_ERROR_NOT_SUPPORTED: the work of such a node is not changed")


class EmptyWork(Work):
    """Nothing."""

    def to_library(self) -> _anabranch.NodeWork:
        """The work of the package."""
        return _anabranch.NodeWork.empty()


@dataclass
class KernelWork(Work):
    """A launch. The kernel and the arguments are not known if it was captured."""

    config: LaunchConfig
    kernel: Kernel | None
    launched: _anabranch.Kernel | None
    arguments: list[Any] | None

    def to_library(self) -> _anabranch.NodeWork:
        """The work of the package."""
        if self.launched is None or self.arguments is None:
            raise unknown("arguments")
        config = call(
            _anabranch.LaunchConfig,
            self.config.grid,
            self.config.block,
            dynamic_shared_bytes=self.config.shmem_size,
        )
        return call(_anabranch.NodeWork.kernel, self.launched, config, *self.arguments)


def kernel_work(config: LaunchConfig, kernel: Kernel, arguments: Any, context: Context) -> KernelWork:
    """A launch with these arguments. Raises `TypeError` for arguments that kernels do not take."""
    len(arguments)
    launched = kernel._in(context)
    return KernelWork(config, kernel, launched, [_kept(each) for each in library_arguments(arguments, launched, context)])


def _kept(argument: Any) -> Any:
    """An argument that nobody changes."""
    if isinstance(argument, _anabranch.Buffer):
        return argument[:]
    if isinstance(argument, (int, float, bytes, _anabranch.Reads, _anabranch.Scalar)):
        return argument
    return bytes(memoryview(argument))


def require_plain(config: LaunchConfig, message: str) -> None:
    """Raises `NotImplementedError` for clusters and cooperative launches."""
    if config.cluster is not None or config.is_cooperative:
        raise NotImplementedError(message)


@dataclass
class FillWork(Work):
    """Elements of 1, 2 or 4 bytes in rows."""

    target: Operand | None
    address: int
    pattern: bytes
    width: int
    height: int
    pitch: int

    def to_library(self) -> _anabranch.NodeWork:
        """The work of the package."""
        if self.target is None:
            raise unknown("dst")
        row = self.width * len(self.pattern)
        if self.height > 1 and self.pitch != row:
            if self.pitch < row:
                raise CUDAError("CUDA_ERROR_INVALID_VALUE: rows are longer than the pitch")
            raise CUDAError("CUDA_ERROR_NOT_SUPPORTED: rows that do not follow each other are filled by a node for each")
        return call(_anabranch.NodeWork.fill_pattern, self.target.first(row * self.height), self.pattern)

    def changed(
        self, target: Operand | None, value: Any, width: int | None, height: int | None, pitch: int | None
    ) -> FillWork:
        """The work with some parameters replaced."""
        return FillWork(
            self.target if target is None else target,
            self.address if target is None else target.address,
            self.pattern if value is None else parse_fill_value(value),
            self.width if width is None else size_of(width),
            self.height if height is None else size_of(height),
            self.pitch if pitch is None else size_of(pitch),
        )


@dataclass
class CopyWork(Work):
    """Bytes that are copied. The memory is not known if it was captured."""

    destination: Operand | None
    source: Operand | None
    addresses: tuple[int, int]
    places: tuple[str, str]
    size: int
    is_plain: bool = True

    def to_library(self) -> _anabranch.NodeWork:
        """The work of the package."""
        if self.destination is None or self.source is None:
            raise unknown("dst and src")
        return call(_anabranch.NodeWork.copy, self.destination.first(self.size), self.source.first(self.size))

    def located(self) -> CopyWork:
        """The same work, with the addresses and places of its memory."""
        if self.destination is None or self.source is None:
            raise unknown("dst and src")
        addresses = self.destination.address, self.source.address
        return replace(self, addresses=addresses, places=(self.destination.place, self.source.place))


def copy_work(destination: Operand, source: Operand, size: int) -> CopyWork:
    """A copy of so many bytes."""
    return CopyWork(destination, source, (0, 0), ("D", "D"), size).located()


@dataclass
class ChildWork(Work):
    """Another graph, of which the node has a copy, and this is another one. It is not known if it was captured."""

    copy: GraphDefinition | None

    def end(self) -> None:
        """Lets the copy be of nothing any more."""
        if self.copy is not None:
            self.copy._hierarchy.gone.add(self.copy._graph.id)


@dataclass
class EventWork(Work):
    """A record of an event, or a wait for it."""

    event: Event
    is_wait: bool

    def to_library(self) -> _anabranch.NodeWork:
        """The work of the package."""
        make = _anabranch.NodeWork.event_wait if self.is_wait else _anabranch.NodeWork.event_record
        return call(make, self.event._open())


@dataclass
class CallWork(Work):
    """A function of the host. A captured one is not known."""

    function: Callable[[], object] | None
    callback: Any
    address: int

    def to_library(self) -> _anabranch.NodeWork:
        """The work of the package."""
        if self.function is None:
            raise unknown("function")
        return call(_anabranch.NodeWork.host_func, self.function)


def call_work(fn: Any, user_data: Any) -> CallWork:
    """A call of a function of Python, or of ctypes with its data."""
    function = host_callback(fn, user_data)
    pointer: Any = getattr(ctypes, "_CFuncPtr")
    if isinstance(fn, pointer):
        return CallWork(function, None, ctypes.cast(fn, ctypes.c_void_p).value or 0)
    return CallWork(function, fn, 0)


@dataclass
class AllocationWork(Work):
    """Memory that the graph allocates."""

    address: int
    size: int
    device_id: int
    peers: tuple[int, ...]


@dataclass
class FreeWork(Work):
    """The end of such memory."""

    address: int


@dataclass
class ConditionalWork(Work):
    """Graphs that run or not. The condition is not known if it was captured."""

    condition: GraphCondition | None
    kind: str
    bodies: tuple[_anabranch.Graph, ...]


def unknown(what: str) -> CUDAError:
    """The error for a part of captured work that is needed."""
    return CUDAError(f"CUDA_ERROR_NOT_SUPPORTED: the work of this node was captured: replace it with its {what}")
