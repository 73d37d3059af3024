"""Buffers."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

from ... import _anabranch
from ..._anabranch import _finalizing, _restoring
from ..._errors import AnabranchError
from .. import _state
from .._stream import Stream, Stream_accept, default_stream
from .._utils.cuda_utils import (
    CUDAError,
    call,
    check_argument,
    check_int,
    failed,
    parse_fill_value,
    read_int,
    size_of,
)
from ._resource import MemoryResource

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from ..graph import GraphBuilder
    from ..typing import DevicePointerType

__all__ = ["Buffer"]


class Buffer:
    """Memory of so many bytes. Memory resources and `Device.allocate` make buffers, and `Buffer.from_handle` takes memory of
    others. DLPack has it as elements of int8.
    """

    _inner: _anabranch.Buffer | None
    _address: int
    _size: int
    _resource: MemoryResource | None
    _owner: object
    _stream: Stream | None
    # Whether the memory is the resource's to free, and not the package's.
    _is_foreign: bool
    # Has the thread that closes the buffer.
    _closed_by: dict[str, int]
    _is_deallocated: bool
    # What the resource has raised.
    _failure: Exception | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("Buffer objects cannot be instantiated directly. Please use MemoryResource APIs.")

    def __reduce__(self) -> NoReturn:
        # A copy would free the memory of the original, and only memory for other processes is pickled.
        self._require_open()
        raise RuntimeError("Memory resource is not IPC-enabled")

    @classmethod
    def _of(cls, inner: _anabranch.Buffer, size: int, resource: MemoryResource, stream: Stream | None) -> Self:
        buffer = cls._make(read_int(inner, "address") if size else 0, size, resource, stream)
        buffer._inner = inner
        if size:
            _AT[buffer._address] = buffer
        return buffer

    @classmethod
    def _make(cls, address: int, size: int, resource: MemoryResource | None, stream: Stream | None) -> Self:
        buffer = cls.__new__(cls)
        buffer._inner, buffer._address, buffer._size = None, address, size
        buffer._resource, buffer._stream, buffer._owner = resource, stream, None
        buffer._is_foreign, buffer._is_deallocated = False, False
        buffer._closed_by, buffer._failure = {}, None
        return buffer

    @staticmethod
    def from_handle(
        ptr: DevicePointerType,
        size: int,
        mr: MemoryResource | None = None,
        owner: object | None = None,
        *,
        stream: Stream | GraphBuilder | None = None,
    ) -> Buffer:
        """A buffer of memory at an address, of so many bytes. With ``mr``, that frees it, in the order of ``stream`` or of
        the default stream; ``owner`` is only kept. At the address of another buffer, it shares and keeps the memory of
        that. Drivers trust addresses: a wrong one loses the context.

        Raises `ValueError` if both are given, or a stream without ``mr``.
        """
        return Buffer._from_handle(ptr, size, mr, owner, stream)

    @classmethod
    def _from_handle(
        cls,
        ptr: DevicePointerType,
        size: int,
        mr: MemoryResource | None,
        owner: object | None,
        stream: Stream | GraphBuilder | None,
    ) -> Self:
        size = size_of(size)
        if mr is not None:
            check_argument("mr", mr, MemoryResource)
        if mr is not None and owner is not None:
            raise ValueError("owner and memory resource cannot be both specified together")
        if stream is not None and mr is None:
            raise ValueError("stream requires a memory resource (mr)")
        # ``None`` is an address of closed buffers only, and fails.
        given: Any = ptr
        address = size_of(int(given))
        freed_in = None
        if mr is not None:
            freed_in = default_stream() if stream is None else Stream_accept(stream)
        buffer = cls._make(address, size, mr, freed_in)
        buffer._owner, buffer._is_foreign = owner, True
        known = _AT.get(address)
        if known is None:
            if address:
                _AT[address] = buffer
        elif known._inner is not None and size <= known._size:
            # The package orders uses of one memory by one object.
            buffer._inner = known._inner[:size]
        return buffer

    def _require_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("Buffer has been closed")

    def _open(self, context: _anabranch.Context) -> _anabranch.Buffer:
        """The buffer of the package."""
        self._require_open()
        if self._inner is None:
            self._inner = call(context.buffer_from_address, self._address, self._size, self._owner)
        return self._inner

    def _here(self) -> _anabranch.Buffer:
        """The buffer of the package, for a call without a stream."""
        self._require_open()
        return self._inner if self._inner is not None else self._open(_state.current_context()._open())

    @property
    def anabranch_buffer(self) -> _anabranch.Buffer:
        """The buffer of the package, of elements of int8."""
        return self._here()

    def close(self, stream: Stream | GraphBuilder | None = None) -> None:
        """Frees the memory behind its uses and behind the work of a stream: this one, or that of the allocation."""
        freed_in = self._stream if stream is None else Stream_accept(stream)
        if self._is_closed:
            return
        # Also if a signal handler ends this, and somebody else frees it.
        self._stream = freed_in
        self._free()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    @property
    def _is_closed(self) -> bool:
        return bool(self._closed_by)

    @_restoring
    def _free(self) -> None:
        """Frees the memory, in one of the threads that call this. Can be called again if a signal handler has ended it."""
        this = threading.get_ident()
        if self._closed_by.setdefault("thread", this) != this:
            return
        inner = self._inner
        if self._address and _AT.get(self._address) is self:
            _AT.pop(self._address, None)
        if inner is not None:
            _follow(self._stream, inner)
            call(inner.close)
            self._inner = None
        resource, self._owner = self._resource, None
        if self._is_foreign and resource is not None and not self._is_deallocated:
            stream = default_stream() if self._stream is None else self._stream
            self._is_deallocated = True
            try:
                resource.deallocate(self._address, self._size, stream=stream)
            except Exception as error:
                self._failure = error

    def set_deallocation_stream(self, stream: Stream | GraphBuilder) -> None:
        """The stream behind whose work the memory will be freed."""
        freed_in = Stream_accept(stream)
        self._require_open()
        self._stream = freed_in

    @_finalizing
    def __del__(self) -> None:
        # At the end of the process, all memory is freed, and modules may be gone.
        if not hasattr(self, "_failure") or self._is_closed or sys is None or sys.is_finalizing():
            return
        self._free()
        if self._failure is not None:
            print(f"Warning: mr.deallocate() failed during Buffer destruction: {self._failure}", file=sys.stderr)

    def __enter__(self) -> Buffer:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        self.close()

    def copy_to(self, dst: Buffer | None = None, *, stream: Stream | GraphBuilder, options: None = None) -> Buffer:
        """Copies this buffer to another one of the same size, or to a new one of its memory resource. Returns that.

        Raises `ValueError` for another size, or if there is neither.
        """
        into = Stream_accept(stream)
        self._require_open()
        _require_no_options("copy_to", options)
        if dst is None:
            if self._resource is None:
                raise ValueError(
                    "a destination buffer must be provided (this buffer does not have a memory_resource)"
                )
            dst = self._resource.allocate(self._size, stream=stream)
        _copy(into, check_argument("dst", dst, Buffer), self)
        return dst

    def copy_from(self, src: Buffer, *, stream: Stream | GraphBuilder, options: None = None) -> None:
        """Copies another buffer of the same size to this one. Raises `ValueError` for another size."""
        into = Stream_accept(stream)
        self._require_open()
        _require_no_options("copy_from", options)
        _copy(into, self, check_argument("src", src, Buffer))

    def fill(self, value: Any, *, stream: Stream | GraphBuilder) -> None:
        """Fills the buffer with an int from 0 to 255, or with 1, 2 or 4 bytes again and again.

        Raises `ValueError` for other numbers of bytes, or if they do not divide the size.
        """
        into = stream if isinstance(stream, Stream) else Stream_accept(stream)
        self._require_open()
        pattern = parse_fill_value(value)
        if self._size % len(pattern):
            raise ValueError(f"buffer size ({self._size}) must be divisible by {len(pattern)}")
        inner = into._inner or into._open()
        if not self._size:
            return
        try:
            inner.fill_pattern(self._inner if self._inner is not None else self._open(inner.context), pattern)
        except AnabranchError as error:
            raise failed(error) from error

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for another library, whose stream follows the uses of the memory."""
        if stream is not None:
            stream = check_int("stream", stream)
        for name, value, kind in (("max_version", max_version, tuple), ("dl_device", dl_device, tuple), ("copy", copy, bool)):
            if value is not None:
                check_argument(name, value, kind)
        if dl_device is not None:
            raise BufferError("Sorry, not supported: dl_device other than None")
        if copy is True:
            raise BufferError("Sorry, not supported: copy=True")
        if max_version is not None and len(max_version) != 2:
            raise BufferError(f"Expected max_version tuple[int, int], got {max_version}")
        return call(self._here().__dlpack__, stream=stream, max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind and the number of the device, in the terms of DLPack."""
        return call(self._here().__dlpack_device__)

    if sys.version_info >= (3, 12):

        def __buffer__(self, flags: int, /) -> memoryview:
            """A view of memory of the host, which keeps the buffer. Waits until work that uses it is complete."""
            return memoryview(_Viewed(self))

    @property
    def handle(self) -> int:
        """The address, or 0 if the buffer is closed."""
        return 0 if self._is_closed else self._address

    @property
    def size(self) -> int:
        """The number of bytes, or 0 if the buffer is closed."""
        return 0 if self._is_closed else self._size

    @property
    def is_closed(self) -> bool:
        """Whether the buffer is closed."""
        return self._is_closed

    @property
    def memory_resource(self) -> MemoryResource | None:
        """The memory resource, if there is one."""
        return self._resource

    @property
    def owner(self) -> object:
        """Who owns the memory, as `from_handle` was told."""
        return self._owner

    @property
    def device_id(self) -> int:
        """The number of the device, or -1 for pinned and managed memory."""
        self._require_open()
        if isinstance(self._inner, (_anabranch.PinnedBuffer, _anabranch.ManagedBuffer)):
            return -1
        if self._resource is not None:
            return self._resource.device_id
        return _state.device_id_of(self._here().context.device)

    @property
    def is_device_accessible(self) -> bool:
        """Whether devices can use the memory."""
        self._require_open()
        return True if self._resource is None else self._resource.is_device_accessible

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can use the memory."""
        self._require_open()
        if self._resource is not None:
            return self._resource.is_host_accessible
        inner = self._here()
        is_shared = isinstance(inner, (_anabranch.PinnedBuffer, _anabranch.ManagedBuffer))
        return is_shared or inner.context.device.backend == "host"

    @property
    def is_managed(self) -> bool:
        """Whether it is managed memory."""
        self._require_open()
        if self._resource is not None:
            return self._resource.is_managed
        return isinstance(self._inner, _anabranch.ManagedBuffer)

    @property
    def is_mapped(self) -> bool:
        """Whether it is memory of another process. It never is here."""
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Buffer):
            return NotImplemented
        return (self.handle, self.size) == (other.handle, other.size)

    def __hash__(self) -> int:
        return hash((self.handle, self.size))

    def __repr__(self) -> str:
        return f"<Buffer ptr={self.handle:#x} size={self.size}>"


if sys.version_info >= (3, 12):

    class _Viewed:
        """What a view keeps. A view of the package's buffer would not keep that of the program, which closes it at its end."""

        def __init__(self, buffer: Buffer) -> None:
            self._buffer = buffer

        def __buffer__(self, flags: int, /) -> memoryview:
            return call(self._buffer._here().__buffer__, flags)


# The open buffers by their addresses, for launches that get an address.
_AT: WeakValueDictionary[int, Buffer] = WeakValueDictionary()


def buffer_at(address: int) -> Buffer | None:
    """The open buffer that begins at an address."""
    return _AT.get(address)


def _require_no_options(call_name: str, options: object) -> None:
    if options is not None:
        raise TypeError(f"{call_name}: options are not supported here: pass options=None")


def _copy(stream: Stream, destination: Buffer, source: Buffer) -> None:
    if source.size != destination.size:
        raise ValueError(
            f"buffer sizes mismatch between src and dst (sizes are: src={source.size}, dst={destination.size})"
        )
    inner = stream._inner or stream._open()
    if not source.size:
        return
    to, of = destination._inner, source._inner
    try:
        if to is None or of is None:
            context = inner.context
            to, of = destination._open(context), source._open(context)
        inner.copy(to, of)
    except AnabranchError as error:
        raise failed(error) from error


def _follow(stream: Stream | None, inner: _anabranch.Buffer) -> None:
    """Lets the end of the memory come behind the work of a stream, which may use the memory by its address."""
    if stream is None or stream.is_closed:
        return
    try:
        # This may be another thread than that which allocated, without a current context.
        kind = stream._default
        used = stream._open() if kind is None else _state.default_stream(inner.context, kind)
        if not used.is_capturing:
            used.note_use(inner)
    except (AnabranchError, CUDAError, RuntimeError):
        # The stream cannot be used any more, or not here. Known uses come before the end in any case.
        return
