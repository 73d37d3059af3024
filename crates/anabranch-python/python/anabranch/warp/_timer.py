"""Timers of blocks of code."""

from __future__ import annotations

import builtins
import cProfile
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .._anabranch import _restoring
from ._activity import TimingResult, _collections, timing_begin, timing_end, timing_print
from ._logger import get_logger, log_debug
from ._synchronize import synchronize as _synchronize


class _Depth(threading.local):
    """How many timers that print are open in the thread."""

    value = 0


class ScopedTimer:
    """Measures how long the block of ``with`` takes, and prints it.

    `elapsed` is the time in milliseconds, `timing_results` what was collected by `cuda_filter`, and `extra_msg` a text that can
    be set in the block and is printed after the time. Without ``ScopedTimer.enabled``, timers that are created do nothing.
    """

    enabled = True
    _depth = _Depth()

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,
        detailed: bool = False,
        dict: builtins.dict[str, list[float]] | None = None,
        use_nvtx: bool = False,
        color: int | str = "rapids",
        synchronize: bool = False,
        cuda_filter: int = 0,
        report_func: Callable[..., object] | None = None,
        skip_tape: bool = False,
    ) -> None:
        """Makes a timer.

        With `active` false, it does nothing. `print` prints the time through the logger, and `detailed` what `cProfile`
        measures. `dict` gets the time appended to its list `name`. `use_nvtx` also shows the block to NVIDIA's tools by the
        package `nvtx`, in `color`. With `synchronize`, it waits for all devices before it begins and ends. `cuda_filter` has
        the flags of the activities that are collected, which ``report_func(results, indent=…)`` prints, or else `timing_print`.
        `skip_tape` has no effect.
        """
        self.name = name
        self.active = active and self.enabled
        self.print = print
        self.detailed = detailed
        self.dict = dict
        self.use_nvtx = use_nvtx
        self.color = color
        self.synchronize = synchronize
        self.skip_tape = skip_tape
        self.elapsed = 0.0
        self.cuda_filter = cuda_filter
        self.report_func: Callable[..., object] = report_func or timing_print
        self.extra_msg = ""
        self.timing_results: list[TimingResult] = []
        # How many collections and timers were open before; None if this one is not.
        self._before: tuple[int, int] | None = None
        self._is_ending = False
        if dict is not None:
            dict.setdefault(name, [])

    def __enter__(self) -> ScopedTimer:
        if not self.active:
            return self
        if self.synchronize:
            _synchronize()
        if self.use_nvtx:
            self._nvtx: Any = __import__("nvtx")
        self._before, self._is_ending = (len(_collections), self._depth.value), False
        try:
            if self.cuda_filter:
                timing_begin(self.cuda_filter, synchronize=not self.synchronize)
            if self.detailed:
                self.cp = cProfile.Profile()
                self.cp.enable()
            if self.use_nvtx:
                self.nvtx_range_id = self._nvtx.start_range(self.name, color=self.color)
            if self.print:
                log_debug(f"{'    ' * self._depth.value}{self.name} ...")
                self._depth.value += 1
            self.start = time.perf_counter_ns()
            return self
        except BaseException:
            # `with` does not call `__exit__` then.
            self._put_back()
            raise

    @_restoring
    def _put_back(self) -> None:
        """Ends what has begun."""
        if self._before is not None:
            collections, self._depth.value = self._before
            del _collections[collections:]
            if self.detailed and hasattr(self, "cp"):
                self.cp.disable()
            self._before = None

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is None:
            return
        if self._is_ending:
            # A signal handler has ended this method, which does not wait or print again.
            return self._put_back()
        self._is_ending = True
        try:
            self._end(exc_type)
        finally:
            self._put_back()

    def _end(self, exc_type: type[BaseException] | None) -> None:
        # The block is reported before an error of its work is raised.
        failure: Exception | None = None
        if self.synchronize:
            try:
                _synchronize()
            except Exception as error:
                failure = error
        self.elapsed = (time.perf_counter_ns() - self.start) / 1e6
        if self.use_nvtx:
            self._nvtx.end_range(self.nvtx_range_id)
        if self.detailed:
            self.cp.disable()
            self.cp.print_stats(sort="tottime")
        self.timing_results = []
        if self.cuda_filter:
            try:
                self.timing_results = timing_end(synchronize=not self.synchronize)
            except Exception as error:
                failure = error
        if self.dict is not None:
            self.dict[self.name].append(self.elapsed)
        if self.print:
            self._depth.value -= 1
            indent = "    " * self._depth.value
            if self.timing_results:
                self.report_func(self.timing_results, indent=indent)
            extra = f" {self.extra_msg}" if self.extra_msg else ""
            # An active timer prints at every level of messages.
            get_logger().info(f"{indent}{self.name} took {self.elapsed:.2f} ms{extra}")
        if failure is not None and exc_type is None:
            raise failure
