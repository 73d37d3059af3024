"""Calls of the driver with handles and addresses that are plain numbers, as in C: `Context.raw`.

For code that was written so, and for what other libraries have made. Nothing is checked that the driver does not check.
"""

from ._anabranch import Raw, RawEvents, RawGraphs, RawMemory, RawPools, RawStreams

__all__ = ["Raw", "RawEvents", "RawGraphs", "RawMemory", "RawPools", "RawStreams"]
