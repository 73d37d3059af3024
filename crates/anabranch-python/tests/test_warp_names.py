"""The names of `anabranch.warp`: those that its page lists, with Warp's parameters and defaults."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from warp_support import wp

__all__ = ["wp"]

TESTS = Path(__file__).parent
# In the repository, and where continuous integration copies the tests to.
PAGES = [folder / "docs" / "python-warp.md" for folder in (TESTS.parent, TESTS.parents[2])]
PAGE = next(page for page in PAGES if page.exists())

# The parameters of Warp 1.19 that are those of this module, too.
SIGNATURES = {
    "Event": "device=None, cuda_event=None, enable_timing=False, interprocess=False",
    "Event.ipc_handle": "self",
    "ScopedCapture": "device=None, stream=None, force_module_load=None, external=False, apic=False, capture_mode=1",
    "ScopedDevice": "device",
    "ScopedLogLevel": "log_level",
    "ScopedLogger": "logger",
    "ScopedMempool": "device, enable",
    "ScopedStream": "stream, sync_enter=True, sync_exit=False",
    "ScopedTimer": "name, active=True, print=True, detailed=False, dict=None, use_nvtx=False, color='rapids', "
    "synchronize=False, cuda_filter=0, report_func=None, skip_tape=False",
    "Stream": "device=None, priority=0, **kwargs",
    "Stream.record_event": "self, event=None, external=False",
    "Stream.wait_event": "self, event, external=False",
    "Stream.wait_stream": "self, other_stream, event=None, external=False",
    "Device.set_stream": "self, stream, sync=True",
    "Graph": "device, capture_id=0",
    "Graph.set_param": "self, name, arr",
    "Graph.get_param": "self, name, arr",
    "Graph.get_param_ptr": "self, name",
    "TimingResult": "device, name, filter, elapsed",
    "capture_begin": "device=None, stream=None, force_module_load=None, external=False, apic=False, capture_mode=1",
    "capture_debug_dot_print": "graph, path, verbose=True",
    "capture_end": "device=None, stream=None",
    "capture_if": "condition, on_true=None, on_false=None, stream=None, **kwargs",
    "capture_launch": "graph, stream=None",
    "capture_while": "condition, while_body, stream=None, **kwargs",
    "copy": "dest, src, dest_offset=0, src_offset=0, count=0, stream=None",
    "device_from_torch": "torch_device",
    "device_to_torch": "warp_device",
    "event_from_ipc_handle": "handle, device=None",
    "get_cuda_device": "ordinal=None",
    "get_cuda_device_count": "",
    "get_cuda_devices": "",
    "get_cuda_driver_version": "",
    "get_device": "ident=None",
    "get_devices": "",
    "get_event_elapsed_time": "start_event, end_event, synchronize=True",
    "get_logger": "",
    "get_mempool_release_threshold": "device=None",
    "get_mempool_used_mem_current": "device=None",
    "get_mempool_used_mem_high": "device=None",
    "get_preferred_device": "",
    "get_stream": "device=None",
    "init": "",
    "is_conditional_graph_supported": "",
    "is_cpu_available": "",
    "is_cuda_available": "",
    "is_device_available": "device",
    "is_mempool_enabled": "device",
    "is_mempool_supported": "device",
    "map_cuda_device": "alias, context=None",
    "record_event": "event=None, external=False",
    "set_device": "ident",
    "set_logger": "logger",
    "set_mempool_enabled": "device, enable",
    "set_mempool_release_threshold": "device, threshold",
    "set_stream": "stream, device=None, sync=False",
    "stream_from_torch": "stream_or_device=None",
    "stream_to_torch": "stream_or_device=None",
    "synchronize": "",
    "synchronize_device": "device=None",
    "synchronize_event": "event",
    "synchronize_stream": "stream_or_device=None",
    "timing_begin": "cuda_filter=4294967295, synchronize=True",
    "timing_end": "synchronize=True",
    "timing_print": "results, indent=''",
    "unmap_cuda_device": "alias",
    "wait_event": "event, external=False",
    "wait_stream": "other_stream, event=None, external=False",
}


def rows():
    """The names of each row of the page's tables, and what it says of them."""
    for line in PAGE.read_text().splitlines():
        row = re.fullmatch(r"\| (`[^|]*`) \| ([a-z ]+) \|.*\|", line)
        if row:
            yield re.findall(r"`([\w.]+)`", row[1]), row[2]


def instances(wp):
    with wp.ScopedCapture() as capture:
        pass
    timer = wp.ScopedTimer("timer")
    scopes = wp.ScopedStream(wp.Stream()), wp.ScopedDevice("cpu")
    for scope in scopes:
        with scope:
            pass
    objects = (wp.get_device(), wp.Stream(), wp.Event(), capture, capture.graph, timer, *scopes)
    return {type(instance).__name__: instance for instance in objects}


def test_the_page_lists_what_is_there(wp):
    objects, listed = instances(wp), set()
    for names, says in rows():
        assert says in ("there", "differs", "not there"), names
        for name in names:
            assert name not in listed, f"{name} is listed twice"
            listed.add(name)
            owner, _, member = name.rpartition(".")
            found = hasattr(objects[owner] if owner else wp, member)
            assert found == (says != "not there"), f"{name} is listed as {says}"
    public = {name for name in vars(wp) if not name.startswith("_")}
    assert public <= listed, f"the page does not list {public - listed}"
    for owner, instance in objects.items():
        members = {name for name in dir(type(instance)) if not name.startswith(("_", "anabranch_"))}
        assert {f"{owner}.{member}" for member in members} <= listed


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_are_those_of_warp(wp, name):
    owner, _, member = name.rpartition(".")
    signature = inspect.signature(getattr(getattr(wp, owner) if owner else wp, member))
    parameters = [
        parameter.replace(
            annotation=parameter.empty,
            default=int(parameter.default) if isinstance(parameter.default, wp.CaptureMode) else parameter.default,
        )
        for parameter in signature.parameters.values()
    ]
    assert ", ".join(str(parameter) for parameter in parameters) == SIGNATURES[name]


def test_examples_of_the_page_run(wp, capsys):
    pytest.importorskip("numpy")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {"__name__": "__main__"})
        expected = re.findall(r"print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert expected and capsys.readouterr().out.splitlines() == expected


def test_nothing_else_is_imported():
    program = """
import sys
import anabranch
assert "anabranch.warp" not in sys.modules
import anabranch.warp
assert not {"numpy", "torch", "cupy", "warp", "nvtx"} & sys.modules.keys()
from anabranch.warp import _runtime
assert _runtime.runtime is None
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
