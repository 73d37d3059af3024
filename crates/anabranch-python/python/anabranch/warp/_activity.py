"""How long copies, fills, launches and graphs take on the device: the calls of this module, by events around each."""

from __future__ import annotations

import contextlib
import operator
from typing import TYPE_CHECKING

from ._event import Event
from ._synchronize import synchronize as _synchronize
from ._device import Device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._stream import Stream

TIMING_KERNEL = 1
"""Launches of kernels."""

TIMING_KERNEL_BUILTIN = 2
"""Kernels of Warp itself. There are none here."""

TIMING_MEMCPY = 4
"""Copies."""

TIMING_MEMSET = 8
"""Fills."""

TIMING_GRAPH = 16
"""Launches of graphs."""

TIMING_ALL = 0xFFFFFFFF
"""All of these."""


class TimingResult:
    """How long one activity took: its `device`, its `name`, the flag `filter`, and the milliseconds `elapsed`."""

    def __init__(self, device: Device, name: str, filter: int, elapsed: float) -> None:
        """Is called by `timing_end`."""
        self.device = device
        self.name = name
        self.filter = filter
        self.elapsed = elapsed


class _Collection:
    """What `timing_begin` collects."""

    def __init__(self, flags: int) -> None:
        self.flags = flags
        self.ranges: list[tuple[Device, str, int, Event, Event]] = []


# Innermost last.
_collections: list[_Collection] = []


# Entered by launches that are not measured, in place of a generator, which costs more than they do.
_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


def activity(flag: int, stream: Stream, name: str) -> contextlib.AbstractContextManager[None]:
    """Measures the work that is submitted to a stream within ``with``, if it is collected. Captured work is not measured."""
    return _measured(_collections[-1], flag, stream, name) if _collections else _NOTHING


@contextlib.contextmanager
def _measured(collection: _Collection, flag: int, stream: Stream, name: str) -> Iterator[None]:
    if not collection.flags & flag or stream.is_capturing:
        yield
        return
    start = stream.record_event(Event(stream.device, enable_timing=True))
    yield
    end = stream.record_event(Event(stream.device, enable_timing=True))
    collection.ranges.append((stream.device, name, flag, start, end))


def timing_begin(cuda_filter: int = TIMING_ALL, synchronize: bool = True) -> None:
    """Begins to measure activities of this module: those with the flags of `cuda_filter`. May be nested.

    Waits for all devices first, unless `synchronize` is false. Raises ``RuntimeError`` as the function `synchronize` does, and
    ``TypeError`` for flags that are no integer.
    """
    cuda_filter = operator.index(cuda_filter)
    if synchronize:
        _synchronize()
    _collections.append(_Collection(cuda_filter))


def _take(collection: _Collection) -> None:
    """Takes a collection away, wherever it is."""
    with contextlib.suppress(ValueError):
        _collections.remove(collection)


def timing_end(synchronize: bool = True) -> list[TimingResult]:
    """Ends what `timing_begin` began, and returns how long each activity took.

    Waits for all devices first, unless `synchronize` is false: their work is complete then. Raises ``RuntimeError`` as the
    function `synchronize` does, or if nothing was begun; the times are lost then.
    """
    if not _collections:
        raise RuntimeError("no timing was begun: call timing_begin first")
    return _results(_collections.pop(), synchronize)


def _results(collection: _Collection, synchronize: bool) -> list[TimingResult]:
    if synchronize:
        _synchronize()
    return [
        TimingResult(device, name, flag, end.anabranch_event.elapsed_since(start.anabranch_event))
        for device, name, flag, start, end in collection.ranges
    ]


def timing_print(results: list[TimingResult], indent: str = "") -> None:
    """Prints times as tables: of each activity, of those of one name, and of each device. Lines begin with `indent`."""
    if not results:
        print("No activity")
        return
    rule = "-" * (max(len("Activity"), *(len(result.name) for result in results)) + 1)
    _print_heading(indent, "CUDA timeline", "Time            | Device ", "Activity", rule)
    for result in results:
        print(f"{indent}{result.elapsed:12.6f} ms | {result.device.alias:7s} | {result.name}")
    for title, column, names in (
        ("CUDA activity summary", "Activity", [result.name for result in results]),
        ("CUDA device summary", "Device", [result.device.alias for result in results]),
    ):
        totals: dict[str, list[float]] = {}
        for name, result in zip(names, results):
            totals.setdefault(name, []).append(result.elapsed)
        print()
        _print_heading(indent, title, "Total time      | Count  ", column, rule)
        for name, times in totals.items():
            print(f"{indent}{sum(times):12.6f} ms | {len(times):7d} | {name}")


def _print_heading(indent: str, title: str, columns: str, last: str, rule: str) -> None:
    line = f"{indent}----------------+---------+{rule}"
    print(f"{indent}{title}:\n{line}\n{indent}{columns} | {last}\n{line}")
