"""Timers, activities and messages of `anabranch.warp`."""

from __future__ import annotations

import re
import sys
import types

import pytest
from conftest import KERNELS
from warp_support import wp

__all__ = ["wp"]


def test_a_timer_prints(wp, capsys):
    times = {}
    with wp.ScopedTimer("outer", dict=times) as outer:
        with wp.ScopedTimer("inner", dict=times) as inner:
            inner.extra_msg = "for nothing"
        with wp.ScopedTimer("quiet", print=False, dict=times):
            pass
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"    inner took \d+\.\d\d ms for nothing", lines[0])
    assert re.fullmatch(r"outer took \d+\.\d\d ms", lines[1]) and len(lines) == 2
    assert times == {"outer": [outer.elapsed], "inner": [inner.elapsed], "quiet": times["quiet"]}
    assert outer.elapsed >= inner.elapsed >= 0 and len(times["quiet"]) == 1


def test_a_timer_for_debugging(wp, capsys):
    with wp.ScopedLogLevel(wp.LOG_DEBUG), wp.ScopedTimer("outer"), wp.ScopedTimer("inner"):
        pass
    assert capsys.readouterr().out.splitlines()[:2] == ["outer ...", "    inner ..."]


def test_timers_that_do_nothing(wp, capsys, monkeypatch):
    times = {}
    with wp.ScopedTimer("inactive", active=False, dict=times) as timer:
        pass
    assert timer.elapsed == 0 and times == {"inactive": []}
    monkeypatch.setattr(wp.ScopedTimer, "enabled", False)
    with wp.ScopedTimer("disabled"):
        pass
    assert not capsys.readouterr().out


def test_a_detailed_timer(wp, capsys):
    with wp.ScopedTimer("detailed", detailed=True):
        sorted([2, 1])
    assert "function calls" in capsys.readouterr().out


def test_a_timer_waits(wp, gate):
    stream = wp.Stream()
    with pytest.raises(KeyError), wp.ScopedTimer("waits", synchronize=True, print=False):
        gate.hold(stream.anabranch_stream)
        gate.open()
        raise KeyError
    assert stream.is_complete


def test_a_timer_reports_errors_of_work_at_its_end(wp, capsys):
    def fail():
        raise KeyError("mine")

    with pytest.raises(RuntimeError, match="Failed to synchronize device cuda:0"):
        with wp.ScopedTimer("fails", synchronize=True):
            wp.get_stream().anabranch_stream.launch_host_func(fail)
    assert "fails took" in capsys.readouterr().out
    with wp.ScopedTimer("next") as timer:
        pass
    assert timer.elapsed >= 0 and not capsys.readouterr().out.startswith(" ")


def test_a_timer_shows_itself_to_other_tools(wp, monkeypatch):
    calls = []
    nvtx = types.ModuleType("nvtx")
    nvtx.start_range = lambda name, color: calls.append((name, color)) or 7
    nvtx.end_range = calls.append
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    with wp.ScopedTimer("shown", use_nvtx=True, color="cyan", print=False):
        assert calls == [("shown", "cyan")]
    assert calls[1:] == [7]


def test_activities(wp, capsys):
    add = wp.get_device().anabranch_context.load_module(KERNELS.read_text()).kernel("add")
    source, target = wp.full(8, 3, dtype=int), wp.zeros(8, dtype=int)
    with wp.ScopedCapture() as capture:
        wp.copy(target, source)
    reports = []
    with wp.ScopedTimer("all", cuda_filter=wp.TIMING_ALL, report_func=lambda *_, **keywords: reports.append(keywords)) as timer:
        wp.launch(add, 8, [source, 1, 8])
        wp.copy(target, source)
        wp.copy(memoryview(bytearray(32)).cast("i"), source)
        wp.copy(target, source, count=4)
        wp.full(4, 1.5)
        wp.from_numpy([1, 2], dtype=int)
        wp.capture_launch(capture.graph)
    names = [(result.name, result.filter) for result in timer.timing_results]
    assert names == [
        ("forward kernel add", wp.TIMING_KERNEL),
        ("memcpy DtoD", wp.TIMING_MEMCPY),
        ("memcpy DtoH", wp.TIMING_MEMCPY),
        ("memcpy DtoD", wp.TIMING_MEMCPY),
        ("memset", wp.TIMING_MEMSET),
        ("memcpy HtoD", wp.TIMING_MEMCPY),
        ("graph", wp.TIMING_GRAPH),
    ]
    assert all(result.elapsed >= 0 and result.device == "cuda:0" for result in timer.timing_results)
    assert reports == [{"indent": ""}]
    wp.timing_print(timer.timing_results, indent="  ")
    text = capsys.readouterr().out
    assert "  CUDA timeline:\n  ----------------+---------+-------------------\n  Time            | Device  | Activity\n" in text
    assert re.search(r"^  +\d+\.\d{6} ms \|       2 \| memcpy DtoD$", text, re.MULTILINE)
    assert re.search(r"^  +\d+\.\d{6} ms \|       7 \| cuda:0$", text, re.MULTILINE)
    wp.timing_print([])
    assert capsys.readouterr().out == "No activity\n"


def test_activities_are_filtered_and_nested(wp):
    with pytest.raises(RuntimeError, match="no timing was begun"):
        wp.timing_end()
    wp.timing_begin(wp.TIMING_MEMSET)
    wp.full(4, 1)
    wp.timing_begin(wp.TIMING_MEMCPY, synchronize=False)
    wp.copy(wp.zeros(4), wp.full(4, 1.0))
    assert [result.name for result in wp.timing_end()] == ["memcpy DtoD"]
    with wp.ScopedCapture():
        wp.full(4, 1)
    assert [result.name for result in wp.timing_end()] == ["memset"]
    assert wp.TIMING_ALL == 0xFFFFFFFF and wp.TIMING_KERNEL_BUILTIN == 2


class Collector:
    def __init__(self):
        self.messages = []

    def debug(self, message):
        self.messages.append(("debug", message))

    def info(self, message):
        self.messages.append(("info", message))

    def warning(self, message, category=None, stacklevel=1):
        self.messages.append(("warning", message))

    def error(self, message):
        self.messages.append(("error", message))


def test_loggers(wp, capsys):
    collector, printer = Collector(), wp.get_logger()
    assert isinstance(collector, wp.Logger)
    with wp.ScopedLogger(collector):
        assert wp.get_logger() is collector
        # A timer prints at every level.
        with wp.ScopedLogLevel(wp.LOG_ERROR), wp.ScopedTimer("told"):
            assert wp.config.log_level == wp.LOG_ERROR
        with wp.ScopedLogger(None):
            assert wp.get_logger() is not collector
    assert wp.get_logger() is printer and wp.config.log_level == wp.LOG_WARNING
    assert [kind for kind, _ in collector.messages] == ["info"] and not capsys.readouterr().out
    wp.set_logger(collector)
    wp.set_logger(None)
    assert wp.get_logger() is not collector
    for wrong in (5, object(), type("Half", (), {"debug": print})()):
        for call in (wp.set_logger, wp.ScopedLogger):
            with pytest.raises(TypeError, match="logger must implement the Logger protocol"):
                call(wrong)


def test_messages_are_printed(wp, capsys, monkeypatch):
    logger = wp.get_logger()
    logger.debug("one")
    logger.info("two")
    logger.error("three")
    logger.warning("four", UserWarning)
    monkeypatch.setattr(wp.config, "verbose_warnings", True)
    logger.warning("five", UserWarning, stacklevel=2)
    out, err = capsys.readouterr()
    assert out == "one\ntwo\n"
    assert err.splitlines()[:2] == ["Warp Error: three", "Warp UserWarning: four"]
    assert "five (" in err and "logger.warning" in err
    assert (wp.LOG_DEBUG, wp.LOG_INFO, wp.LOG_WARNING, wp.LOG_ERROR) == (10, 20, 30, 40)
