"""Settings, which are assigned: ``wp.config.log_level = wp.LOG_WARNING``.

Warp's other settings are about the compilation of its kernels. They can be assigned, and have no effect here.
"""

from __future__ import annotations

version: str = "1.19.0"
"""The version of Warp whose interface this module has."""

log_level: int = 20
"""Messages below this level are not logged: 10 for debugging, 20 for information, 30 for warnings, 40 for errors."""

verbose_warnings: bool = False
"""Whether warnings are printed with the place in the source that they are about."""

verify_cuda: bool = False
"""Whether `launch` waits for the kernel and raises its errors. Nothing can be captured then."""

print_launches: bool = False
"""Whether `launch` logs each launch."""

enable_graph_capture_module_load_by_default: bool = True
"""Accepted, without effect: modules are loaded by `Context.load_module`."""
