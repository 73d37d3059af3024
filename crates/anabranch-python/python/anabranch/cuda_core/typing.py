"""Types for annotations, and the names of formats."""

from __future__ import annotations

import sys
from typing import TypeAlias, Union

from ._stream import IsStreamType

__all__ = [
    "CompilerBackendType",
    "DevicePointerType",
    "GraphConditionalType",
    "GraphMemoryType",
    "IsStreamType",
    "ManagedMemoryLocationType",
    "ObjectCodeFormatType",
    "PCHStatusType",
    "SourceCodeType",
]

#: The address of a `Buffer`.
DevicePointerType: TypeAlias = Union[int, None]


if sys.version_info >= (3, 11):
    from enum import StrEnum as _Text
else:
    from enum import Enum

    class _Text(str, Enum):
        """A text of a few, as Python 3.11 has it."""

        def __str__(self) -> str:
            return str(self.value)


class SourceCodeType(_Text):
    """What a `Program` is written in."""

    CXX = "c++"
    PTX = "ptx"
    NVVM = "nvvm"


class ObjectCodeFormatType(_Text):
    """What an `ObjectCode` is."""

    PTX = "ptx"
    CUBIN = "cubin"
    LTOIR = "ltoir"
    FATBIN = "fatbin"
    OBJECT = "object"
    LIBRARY = "library"


class CompilerBackendType(_Text):
    """What compiles a `Program`."""

    NVRTC = "NVRTC"
    NVVM = "NVVM"
    NVJITLINK = "nvJitLink"
    DRIVER = "driver"


class PCHStatusType(_Text):
    """What became of a precompiled header."""

    CREATED = "created"
    NOT_ATTEMPTED = "not_attempted"
    FAILED = "failed"


class GraphConditionalType(_Text):
    """The kinds of conditional nodes."""

    IF = "if"
    WHILE = "while"
    SWITCH = "switch"


class GraphMemoryType(_Text):
    """The kinds of memory that graphs allocate."""

    DEVICE = "device"
    HOST = "host"
    MANAGED = "managed"


class ManagedMemoryLocationType(_Text):
    """Where managed memory is."""

    DEVICE = "device"
    HOST = "host"
    HOST_NUMA = "host_numa"
