"""Functions that graphs call on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# What the driver calls: a function of an address.
EXPECTED = "ctypes.CFUNCTYPE(None, ctypes.c_void_p)"


def host_callback(fn: Any, user_data: Any) -> Callable[[], object]:
    """A function without arguments, which keeps what it uses."""
    import ctypes

    pointer: Any = getattr(ctypes, "_CFuncPtr")
    if isinstance(fn, pointer):
        if fn.restype is not None or list(fn.argtypes or ()) != [ctypes.c_void_p]:
            raise TypeError(
                f"host callback has prototype restype={fn.restype}, argtypes={fn.argtypes}; CUDA requires a callback "
                f"matching CUhostFn (void (*)(void*)), declared as {EXPECTED}. Alternatively, pass a Python callable."
            )
        if user_data is None or isinstance(user_data, int):
            return lambda: fn(user_data)
        copied = ctypes.create_string_buffer(bytes(user_data), len(user_data))
        return lambda: fn(ctypes.addressof(copied))
    if not callable(fn):
        raise TypeError(f"callback must be callable, got {type(fn).__name__}")
    if user_data is not None:
        raise ValueError("user_data is only supported with ctypes function pointers")
    # Not more arguments than it is called with.
    return lambda: fn()
