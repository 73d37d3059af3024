"""What a call costs in this package, CuPy, cuda.core and Warp: nanoseconds on the calling thread, medians.

    python benchmarks/speed.py [cuda:0] [LIBRARY ...]

Each library is measured in a process of its own, several times in turns. What is not installed is left out.
"""

import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

Calls = dict[str, Callable[[], object]]

ROUNDS = 5
BATCHES = 15
# Calls in a batch: so few that no queue of a driver is full.
BATCH = 300

# Neither kernel does anything that takes time.
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry empty() { ret; }
.visible .entry four(.param .u64 to, .param .u64 from, .param .f32 factor, .param .u32 count) { ret; }
"""
CUDA = """
extern "C" __global__ void empty() {}
extern "C" __global__ void four(float* to, const float* from, float factor, unsigned count) {}
"""


def anabranch_calls(device_name: str) -> tuple[Calls, Callable[[], object]]:
    import anabranch

    device = anabranch.device(device_name)
    context = device.context()
    stream, other = context.create_stream(), context.create_stream()
    event = context.create_event(timing=False)
    module = context.load_module(PTX)
    empty, four = module.kernel("empty"), module.kernel("four")
    to, source = stream.allocate(64, "float32"), stream.allocate(64, "float32")
    config = anabranch.LaunchConfig(1, 64)
    reads = anabranch.Reads(source)
    with stream.capture() as capture:
        stream.launch(empty, config)
    graph = capture.graph.instantiate()

    def record_and_wait() -> None:
        stream.record(event)
        other.wait(event)

    def launch_and_synchronize() -> None:
        stream.launch(empty, config)
        stream.synchronize()

    calls: Calls = {
        "record": lambda: stream.record(event),
        "record and wait": record_and_wait,
        "query": stream.query,
        "empty launch": lambda: stream.launch(empty, config),
        "launch, 4 arguments": lambda: stream.launch(four, config, to, reads, 2.0, 64),
        "graph launch": lambda: graph.launch(stream),
        "launch and synchronize": launch_and_synchronize,
    }
    return calls, context.synchronize


def cupy_calls(device_name: str) -> tuple[Calls, Callable[[], object]]:
    import cupy

    cupy.cuda.Device(int(device_name.rpartition(":")[2])).use()
    stream, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    event = cupy.cuda.Event(disable_timing=True)
    module = cupy.RawModule(code=CUDA)
    empty, four = module.get_function("empty"), module.get_function("four")
    stream.use()
    to, source = cupy.zeros(64, cupy.float32), cupy.zeros(64, cupy.float32)
    factor, count = cupy.float32(2), cupy.uint32(64)
    empty((1,), (64,), ())
    stream.begin_capture()
    empty((1,), (64,), ())
    graph = stream.end_capture()

    def record_and_wait() -> None:
        event.record(stream)
        other.wait_event(event)

    def launch_and_synchronize() -> None:
        empty((1,), (64,), ())
        stream.synchronize()

    calls: Calls = {
        "record": lambda: event.record(stream),
        "record and wait": record_and_wait,
        "query": lambda: stream.done,
        "empty launch": lambda: empty((1,), (64,), ()),
        "launch, 4 arguments": lambda: four((1,), (64,), (to, source, factor, count)),
        "graph launch": lambda: graph.launch(stream),
        "launch and synchronize": launch_and_synchronize,
    }
    return calls, cupy.cuda.runtime.deviceSynchronize


def cuda_core_calls(device_name: str) -> tuple[Calls, Callable[[], object]]:
    import ctypes

    try:
        from cuda.core import Device, LaunchConfig, ObjectCode, launch
    except ImportError:
        from cuda.core.experimental import Device, LaunchConfig, ObjectCode, launch

    device = Device(int(device_name.rpartition(":")[2]))
    device.set_current()
    stream, other = device.create_stream(), device.create_stream()
    event = device.create_event()
    code = ObjectCode.from_ptx(PTX.encode())
    empty, four = code.get_kernel("empty"), code.get_kernel("four")
    to, source = device.allocate(256, stream=stream), device.allocate(256, stream=stream)
    factor, count = ctypes.c_float(2), ctypes.c_uint32(64)
    config = LaunchConfig(grid=1, block=64)
    launch(stream, config, empty)
    builder = stream.create_graph_builder()
    builder.begin_building()
    launch(builder, config, empty)
    graph = builder.end_building().complete()

    def record_and_wait() -> None:
        stream.record(event)
        other.wait(event)

    def launch_and_synchronize() -> None:
        launch(stream, config, empty)
        stream.sync()

    calls: Calls = {
        "record": lambda: stream.record(event),
        "record and wait": record_and_wait,
        "empty launch": lambda: launch(stream, config, empty),
        "launch, 4 arguments": lambda: launch(stream, config, four, to, source, factor, count),
        "graph launch": lambda: graph.launch(stream),
        "launch and synchronize": launch_and_synchronize,
    }
    return calls, device.sync


def warp_calls(device_name: str) -> tuple[Calls, Callable[[], object]]:
    import warp

    warp.config.quiet = True
    warp.init()
    warp.set_device(device_name)

    @warp.kernel
    def empty():
        pass

    @warp.kernel
    def four(to: warp.array(dtype=float), source: warp.array(dtype=float), factor: float, count: int):
        pass

    stream, other = warp.Stream(device_name), warp.Stream(device_name)
    event = warp.Event(device_name)
    to, source = warp.zeros(64, dtype=float), warp.zeros(64, dtype=float)
    warp.launch(empty, dim=64, stream=stream)
    warp.launch(four, dim=64, inputs=[to, source, 2.0, 64], stream=stream)
    with warp.ScopedCapture(stream=stream) as capture:
        warp.launch(empty, dim=64, stream=stream)
    graph = capture.graph

    def record_and_wait() -> None:
        stream.record_event(event)
        other.wait_event(event)

    def launch_and_synchronize() -> None:
        warp.launch(empty, dim=64, stream=stream)
        warp.synchronize_stream(stream)

    calls: Calls = {
        "record": lambda: stream.record_event(event),
        "record and wait": record_and_wait,
        "query": lambda: stream.is_complete,
        "empty launch": lambda: warp.launch(empty, dim=64, stream=stream),
        "launch, 4 arguments": lambda: warp.launch(four, dim=64, inputs=[to, source, 2.0, 64], stream=stream),
        "graph launch": lambda: warp.capture_launch(graph, stream=stream),
        "launch and synchronize": launch_and_synchronize,
    }
    return calls, warp.synchronize


LIBRARIES = {
    "anabranch": anabranch_calls,
    "cupy": cupy_calls,
    "cuda.core": cuda_core_calls,
    "warp": warp_calls,
}


def measure(library: str, device_name: str) -> dict[str, float]:
    """The median over batches of a call's nanoseconds. The device is idle before each batch."""
    calls, synchronize = LIBRARIES[library](device_name)
    medians = {}
    for name, call in calls.items():
        times = []
        for _ in range(BATCHES + 2):
            synchronize()
            start = time.perf_counter_ns()
            for _ in range(BATCH):
                call()
            times.append((time.perf_counter_ns() - start) / BATCH)
        # The first batches make what is made once.
        medians[name] = statistics.median(times[2:])
    synchronize()
    return medians


def is_installed(library: str) -> bool:
    try:
        return importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--measure"]:
        print(json.dumps(measure(arguments[1], arguments[2])))
        return 0
    device_name = arguments[0] if arguments else "cuda:0"
    libraries = [library for library in arguments[1:] or LIBRARIES if is_installed(library)]
    rounds: dict[str, list[dict[str, float]]] = {library: [] for library in libraries}
    for _ in range(ROUNDS):
        for library in libraries:
            command = [sys.executable, __file__, "--measure", library, device_name]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            if done.returncode:
                print(f"{library}: {done.stderr.strip()[-600:]}", file=sys.stderr)
                continue
            rounds[library].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{'ns':<24}" + "".join(f"{library:>12}" for library in libraries))
    names = list(dict.fromkeys(name for measured in rounds.values() for one in measured for name in one))
    for name in names:
        cells = []
        for library in libraries:
            times = [one[name] for one in rounds[library] if name in one]
            cells.append(f"{statistics.median(times):12,.0f}" if times else f"{'-':>12}")
        print(f"{name:<24}" + "".join(cells))
    return 0 if all(rounds.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
