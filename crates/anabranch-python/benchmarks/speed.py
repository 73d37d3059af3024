"""What a call costs in this package, CuPy, cuda.core and Warp: nanoseconds on the calling thread, medians and minima.

    python benchmarks/speed.py [cuda:0] [LIBRARY ...]

Each library is in a process of its own. All of these stay, and take turns on one core, a few hundred calls at a time, so that what
else the machine does, and its clock, is the same for all. They are started anew a few times, because it is chance where the memory of
a process lies, which is worth some percent. `driver` is the driver's functions in a loop of C, which a compiler of C
is needed for. What is not installed is left out. `raw` is this package's calls with plain numbers. Another installation of this
package is measured, too, as `before`, if ANABRANCH_BEFORE is its folder.
"""

import ctypes
import importlib.util
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

Calls = dict[str, Callable[[], object]]

# How often the processes are started, and each library has its turn with each call then.
STARTS = int(os.environ.get("STARTS", "4"))
ROUNDS = int(os.environ.get("ROUNDS", "20"))
# Calls in a turn: so few that no queue of a driver is full.
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


def raw_calls(device_name: str) -> tuple[Calls, Callable[[], object]]:
    import anabranch

    context = anabranch.device(device_name).context()
    stream, other, event = context.create_stream(), context.create_stream(), context.create_event(timing=False)
    handles = stream.handle, other.handle, event.handle
    # They keep what the handles stand for.
    keep = stream, other, event
    streams, events = context.raw.streams, context.raw.events

    def record_and_wait() -> None:
        events.record(handles[2], handles[0])
        streams.wait_event(handles[1], handles[2])

    calls: Calls = {
        "record": lambda: events.record(handles[2], handles[0]),
        "record and wait": record_and_wait,
        "query": lambda: streams.query(handles[0]),
    }
    return calls, lambda: (context.synchronize(), keep)


LIBRARIES = {
    "anabranch": anabranch_calls,
    "cupy": cupy_calls,
    "cuda.core": cuda_core_calls,
    "warp": warp_calls,
    "raw": raw_calls,
}


def driver_batches(device_name: str) -> tuple[dict[str, Callable[[], float]], Callable[[], object]]:
    """Batches that are measured in C."""
    import anabranch

    folder = tempfile.mkdtemp()
    library = os.path.join(folder, "driver.so")
    source = pathlib.Path(__file__).with_name("driver.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, str(source), "-ldl"], check=True)
    measured = ctypes.CDLL(library).measure
    shutil.rmtree(folder)
    measured.restype = ctypes.c_int64
    context = anabranch.device(device_name).context()
    stream, other = context.create_stream(), context.create_stream()
    event = context.create_event(timing=False)
    module = context.load_module(PTX)
    empty, four = module.kernel("empty"), module.kernel("four")
    to, source_buffer = stream.allocate(64, "float32"), stream.allocate(64, "float32")
    with stream.capture() as capture:
        stream.launch(empty, (1, 64))
    graph = capture.graph.instantiate()
    values = [ctypes.c_uint64(to.address), ctypes.c_uint64(source_buffer.address), ctypes.c_float(2), ctypes.c_uint32(64)]
    arguments = (ctypes.c_void_p * 4)(*[ctypes.addressof(value) for value in values])
    handles = [ctypes.c_void_p(one.handle) for one in (stream, other, event, empty, four)]
    keep = stream, other, event, module, to, source_buffer, values, arguments

    def batch(name: str) -> Callable[[], float]:
        def measure() -> float:
            found = measured(name.encode(), BATCH, *handles, arguments, ctypes.c_void_p(graph.handle))
            if found < 0:
                raise RuntimeError(f"the driver refuses: {name}")
            return found / BATCH

        return measure

    names = (
        "record",
        "record and wait",
        "query",
        "empty launch",
        "launch, 4 arguments",
        "graph launch",
        "launch and synchronize",
    )
    return {name: batch(name) for name in names}, lambda: (context.synchronize(), keep)


def batches(library: str, device_name: str) -> tuple[dict[str, Callable[[], float]], Callable[[], object]]:
    """What measures one batch of each call: nanoseconds of one."""
    if library == "driver":
        return driver_batches(device_name)
    calls, synchronize = LIBRARIES[library](device_name)

    def batch(call: Callable[[], object]) -> Callable[[], float]:
        def measure() -> float:
            start = time.perf_counter_ns()
            for _ in range(BATCH):
                call()
            return (time.perf_counter_ns() - start) / BATCH

        return measure

    return {name: batch(call) for name, call in calls.items()}, synchronize


def serve(library: str, device_name: str, core: int) -> None:
    """Measures a batch for each name that it reads."""
    measured, synchronize = batches(library, device_name)
    for batch in measured.values():
        # The first calls make what is made once, threads of the library among it: they are not bound to the core.
        batch()
        synchronize()
    os.sched_setaffinity(0, {core})
    print(*measured, sep="|", flush=True)
    for line in sys.stdin:
        batch = measured[line.strip()]
        synchronize()
        print(batch(), flush=True)
    synchronize()


class Server:
    """The process of a library."""

    def __init__(self, library: str, device_name: str, core: int) -> None:
        environment = dict(os.environ)
        if library == "before":
            environment["PYTHONPATH"] = environment["ANABRANCH_BEFORE"]
            library = "anabranch"
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", library, device_name, str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.names = [name for name in self.read().split("|") if name]

    def read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def measure(self, name: str) -> float:
        assert self.process.stdin
        print(name, file=self.process.stdin, flush=True)
        return float(self.read())

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


def is_installed(library: str) -> bool:
    if library == "before":
        return "ANABRANCH_BEFORE" in os.environ
    if library == "driver":
        return shutil.which("cc") is not None
    try:
        return library == "raw" or importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        return False


Times = dict[tuple[str, str], list[float]]


def measure_once(libraries: list[str], device_name: str, core: int) -> Times:
    """What the calls of libraries have cost, by call and library: one process of each, in turns."""
    servers = {library: Server(library, device_name, core) for library in libraries}
    found: Times = {}
    order = [library for library in servers if servers[library].names]
    for _ in range(ROUNDS):
        for name in dict.fromkeys(name for server in servers.values() for name in server.names):
            for library in order:
                if name in servers[library].names:
                    found.setdefault((name, library), []).append(servers[library].measure(name))
        # Nobody always follows the same one.
        order = order[1:] + order[:1]
    for server in servers.values():
        server.end()
    return found


def report(starts: list[Times], libraries: list[str]) -> None:
    """Prints the costs, and how much faster this package is than the fastest other one, by the medians of each start."""
    names = list(dict.fromkeys(name for found in starts for name, _ in found))
    for title, summary in ("median", statistics.median), ("minimum", min):
        print(f"{title + ', ns':<24}" + "".join(f"{library:>11}" for library in libraries))
        for name in names:
            cells = [[time for found in starts for time in found.get((name, library), [])] for library in libraries]
            print(f"{name:<24}" + "".join(f"{summary(times):11,.0f}" if times else f"{'-':>11}" for times in cells))
    others = [library for library in ("cupy", "cuda.core", "warp") if library in libraries]
    print(f"{'faster, %':<24}{'median':>11}{'from':>11}{'to':>11}")
    for name in names:
        gains = []
        for found in starts:
            theirs = [statistics.median(found[name, library]) for library in others if (name, library) in found]
            if theirs and (name, "anabranch") in found:
                gains.append(100 * (1 - statistics.median(found[name, "anabranch"]) / min(theirs)))
        if gains:
            print(f"{name:<24}{statistics.median(gains):11.1f}{min(gains):11.1f}{max(gains):11.1f}")


def main() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--serve"]:
        serve(arguments[1], arguments[2], int(arguments[3]))
        return 0
    device_name = arguments[0] if arguments else "cuda:0"
    core = max(os.sched_getaffinity(0))
    known = [*LIBRARIES, *(["driver"] if device_name.startswith("cuda") else []), "before"]
    chosen = [library for library in arguments[1:] or known if is_installed(library)]
    starts = [measure_once(chosen, device_name, core) for _ in range(STARTS)]
    report(starts, chosen)
    return 0 if all(any(name for name, measured in starts[0] if measured == library) for library in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
