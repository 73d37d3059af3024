"""Streams, events and graphs shared by `anabranch.warp` and Warp, on an NVIDIA GPU: a line for each way.

    python examples/interoperation_warp.py

What is not installed is skipped. The exit status is 1 if anything else fails.
"""

from __future__ import annotations

import multiprocessing
import sys
import traceback
from collections.abc import Callable
from typing import Any

import anabranch.warp as wp

# So much that what is not ordered is seen.
COUNT = 1 << 24


def expect(found: object, expected: object) -> None:
    """Compares values."""
    if found != expected:
        raise AssertionError(f"{found}, and {expected} is right")


def ends(array: Any) -> set[int]:
    """The first and the last number of an array of Warp, when all work is complete."""
    wp.synchronize()
    numbers = array.numpy()
    return {int(numbers[0]), int(numbers[-1])}


def their_kernel() -> tuple[Any, Any]:
    """Warp, and a kernel of it that adds 1 to each number."""
    import warp

    warp.init()

    @warp.kernel  # type: ignore[untyped-decorator]
    def add_one(numbers: warp.array(dtype=int)):  # type: ignore[no-untyped-def,valid-type]
        index = warp.tid()
        numbers[index] = numbers[index] + 1

    return warp, add_one


def streams_have_the_same_properties() -> None:
    warp, _ = their_kernel()
    for priority in (0, -1, -5, 3):
        theirs, ours = warp.Stream("cuda:0", priority=priority), wp.Stream("cuda:0", priority=priority)
        expect((ours.priority, ours.is_blocking), (theirs.priority, theirs.is_blocking))
    their_device, our_device = warp.get_device("cuda:0"), wp.get_device("cuda:0")
    names = "alias ordinal name arch sm_count max_shared_memory_per_block is_uva uuid pci_bus_id is_primary context total_memory"
    for name in names.split():
        expect((name, getattr(our_device, name)), (name, getattr(their_device, name)))
    expect(our_device.is_ipc_supported, their_device.is_ipc_supported)


def we_work_on_a_stream_of_warp() -> None:
    warp, add_one = their_kernel()
    theirs = warp.Stream("cuda:0")
    ours = wp.Stream("cuda:0", cuda_stream=theirs.cuda_stream)
    again = warp.Stream("cuda:0", cuda_stream=ours.cuda_stream)
    expect((again.cuda_stream, ours.is_blocking, ours.priority), (theirs.cuda_stream, True, theirs.priority))
    with warp.ScopedStream(theirs):
        numbers = warp.full(COUNT, 3, dtype=int, device="cuda:0")
        warp.launch(add_one, dim=COUNT, inputs=[numbers])
    buffer = wp.get_device("cuda:0").anabranch_context.from_dlpack(numbers, stream=ours.anabranch_stream)
    with wp.ScopedStream(ours):
        wp.copy(buffer[:1], wp.full(1, 40, dtype=int))
    with warp.ScopedStream(again):
        warp.launch(add_one, dim=COUNT, inputs=[numbers])
    expect(ends(numbers), {41, 5})
    # Before the stream that they use by its handle.
    del buffer, ours


def warp_works_on_our_stream() -> None:
    warp, add_one = their_kernel()
    ours = wp.Stream("cuda:0")
    theirs = warp.Stream("cuda:0", cuda_stream=ours.cuda_stream)
    numbers = warp.zeros(COUNT, dtype=int, device="cuda:0")
    warp.synchronize()
    with warp.ScopedStream(theirs):
        warp.launch(add_one, dim=COUNT, inputs=[numbers])
    wp.synchronize_stream(ours)
    expect((theirs.is_complete, ends(numbers)), (True, {1}))


def events_go_both_ways() -> None:
    warp, _ = their_kernel()
    theirs, ours = warp.Stream("cuda:0"), wp.Stream("cuda:0")
    their_event = theirs.record_event()
    same = wp.Event("cuda:0", cuda_event=their_event.cuda_event)
    ours.wait_event(same)
    mine = ours.record_event()
    theirs.wait_event(warp.Event("cuda:0", cuda_event=mine.cuda_event))
    warp.synchronize_stream(theirs)
    expect(mine.is_complete, True)
    # Before the event that it uses by its handle.
    del same


def our_graph_captures_warp() -> None:
    warp, add_one = their_kernel()
    numbers = warp.zeros(COUNT, dtype=int, device="cuda:0")
    warp.launch(add_one, dim=COUNT, inputs=[numbers])
    warp.synchronize()
    ours = wp.Stream("cuda:0")
    theirs = warp.Stream("cuda:0", cuda_stream=ours.cuda_stream)
    with wp.ScopedCapture(stream=ours, capture_mode=wp.CaptureMode.RELAXED) as capture:
        with warp.ScopedStream(theirs, sync_enter=False):
            warp.launch(add_one, dim=COUNT, inputs=[numbers])
    for _ in range(3):
        wp.capture_launch(capture.graph, ours)
    wp.synchronize_stream(ours)
    expect(ends(numbers), {4})


def opens_an_event(handle: bytes) -> None:
    """Of another process."""
    wp.init()
    wp.get_stream("cuda:0").wait_event(wp.event_from_ipc_handle(handle, "cuda:0"))
    wp.synchronize()


def another_process_opens_our_event() -> None:
    event = wp.Event("cuda:0", interprocess=True)
    wp.get_stream("cuda:0").record_event(event)
    child = multiprocessing.get_context("spawn").Process(target=opens_an_event, args=(event.ipc_handle(),))
    child.start()
    child.join(60)
    expect(child.exitcode, 0)


def streams_of_torch_go_both_ways() -> None:
    import torch

    theirs = torch.cuda.Stream()
    expect(wp.stream_from_torch(theirs).cuda_stream, theirs.cuda_stream)
    ours = wp.Stream("cuda:0")
    with torch.cuda.stream(wp.stream_to_torch(ours)):
        tensor = torch.ones(COUNT, dtype=torch.int32, device="cuda")
    wp.synchronize_stream(ours)
    expect(int(tensor[-1]), 1)


WAYS: list[Callable[[], None]] = [
    streams_have_the_same_properties,
    we_work_on_a_stream_of_warp,
    warp_works_on_our_stream,
    events_go_both_ways,
    our_graph_captures_warp,
    another_process_opens_our_event,
    streams_of_torch_go_both_ways,
]


def main() -> int:
    """Goes all ways."""
    if wp.get_device("cuda:0").anabranch_device.backend != "cuda":
        print("skipped  all ways: there is no GPU")
        return 0
    failed = 0
    for way in WAYS:
        name = way.__name__.replace("_", " ")
        try:
            way()
            print(f"ok       {name}")
        except ImportError as error:
            print(f"skipped  {name}: {error}")
        except Exception as error:
            failed += 1
            traceback.print_exc()
            print(f"FAILED   {name}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    wp.config.log_level = wp.LOG_WARNING
    sys.exit(main())
