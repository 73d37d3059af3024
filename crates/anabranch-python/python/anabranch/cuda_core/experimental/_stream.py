"""Streams, where they were before version 1."""

from .._stream import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    IsStreamType,
    Stream,
    StreamOptions,
    default_stream,
)

__all__ = [
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "IsStreamType",
    "Stream",
    "StreamOptions",
    "default_stream",
]
