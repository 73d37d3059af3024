"""Timers of blocks of code."""

from __future__ import annotations

import builtins
import cProfile
import operator
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .._anabranch import _restoring
from ._activity import TimingResult, _Collection, _collections, _results, _take, timing_print
from ._logger import get_logger, log_debug
from ._synchronize import synchronize as _synchronize


class _Depth(threading.local):
    """How many timers that print are open in the thread."""

    value = 0


class _Begun:
    """What a block has begun."""

    def __init__(self) -> None:
        self.collection: _Collection | None = None
        self.profile: cProfile.Profile | None = None
        self.is_indented = False
        self.is_ending = False


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
        # Innermost last.
        self._begun: tuple[_Begun, ...] = ()
        if dict is not None:
            dict.setdefault(name, [])

    def __enter__(self) -> ScopedTimer:
        if not self.active:
            return self
        if self.synchronize:
            _synchronize()
        if self.use_nvtx:
            self._nvtx: Any = __import__("nvtx")
        before, begun = self._begun, _Begun()
        try:
            self._begun = (*before, begun)
            if self.cuda_filter:
                collection = _Collection(operator.index(self.cuda_filter))
                if not self.synchronize:
                    _synchronize()
                begun.collection = collection
                _collections.append(collection)
            if self.detailed:
                begun.profile = self.cp = cProfile.Profile()
                self.cp.enable()
            if self.use_nvtx:
                self.nvtx_range_id = self._nvtx.start_range(self.name, color=self.color)
            if self.print:
                log_debug(f"{'    ' * self._depth.value}{self.name} ...")
                begun.is_indented = True
                self._depth.value += 1
            self.start = time.perf_counter_ns()
            return self
        except BaseException:
            # `with` does not call `__exit__` then.
            self._put_back(begun)
            self._begun = before
            raise

    @_restoring
    def _put_back(self, begun: _Begun) -> None:
        """Ends what a block has begun."""
        if begun.collection is not None:
            _take(begun.collection)
        if begun.profile is not None:
            begun.profile.disable()
        self._end_indentation(begun)

    def _end_indentation(self, begun: _Begun) -> None:
        if begun.is_indented:
            # Without a call in between, where a signal handler could raise an exception.
            begun.is_indented = False
            self._depth.value -= 1

    @_restoring
    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        before = self._begun
        if not before:
            return
        begun = before[-1]
        if not begun.is_ending:
            # Once, whatever it raises: this is called again then.
            begun.is_ending = True
            self._end(begun, exc_type)
        self._put_back(begun)
        # Last, and without a call, so that this is called again only if it is not done.
        self._begun = before[:-1]

    def _end(self, begun: _Begun, exc_type: type[BaseException] | None) -> None:
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
        if begun.collection is not None:
            _take(begun.collection)
            try:
                self.timing_results = _results(begun.collection, not self.synchronize)
            except Exception as error:
                failure = error
        if self.dict is not None:
            self.dict[self.name].append(self.elapsed)
        if self.print:
            self._end_indentation(begun)
            indent = "    " * self._depth.value
            if self.timing_results:
                self.report_func(self.timing_results, indent=indent)
            extra = f" {self.extra_msg}" if self.extra_msg else ""
            # An active timer prints at every level of messages.
            get_logger().info(f"{indent}{self.name} took {self.elapsed:.2f} ms{extra}")
        if failure is not None and exc_type is None:
            raise failure
