"""The package as a whole: what importing it does, its errors, and the ends of processes."""

from __future__ import annotations

import doctest
import importlib.util
import pickle
import sys

import pytest

import anabranch
from anabranch.__main__ import main

from conftest import DEVICE


def test_names_are_there():
    for name in anabranch.__all__:
        assert getattr(anabranch, name) is not None


def test_everything_public_is_documented():
    for name in anabranch.__all__:
        item = getattr(anabranch, name)
        if name == "__version__":
            continue
        assert item.__doc__, name
        for member, value in vars(item).items() if isinstance(item, type) else ():
            if not member.startswith("_") and callable(value):
                assert value.__doc__, f"{name}.{member}"


def test_examples(device):
    assert doctest.testmod(anabranch).failed == 0
    assert doctest.testmod(anabranch.current).failed == 0


def test_importing_starts_no_driver_and_no_thread(run_python):
    program = """
import os, sys
before, modules = set(os.listdir("/proc/self/task")), set(sys.modules)
import anabranch
assert set(os.listdir("/proc/self/task")) == before
libraries = open("/proc/self/maps").read()
assert "libcuda" not in libraries and "nvrtc" not in libraries
# What costs time.
assert not {"numpy", "asyncio", "ctypes", "typing"} & (set(sys.modules) - modules), sys.modules
"""
    result = run_python(program)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="a module of CPython")
def test_other_interpreters_are_refused(run_python):
    program = f"""
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    kinds = [("legacy",), ()]
else:
    import _xxsubinterpreters as interpreters
    kinds = [{{"isolated": False}}, {{}}]
PROGRAM = '''
try:
    import anabranch
    print("imported")
except ImportError as error:
    assert "interpreter" in str(error), error
'''
def refuse():
    for kind in kinds:
        other = interpreters.create(*kind) if isinstance(kind, tuple) else interpreters.create(**kind)
        interpreters.run_string(other, "import sys; sys.path[:] = " + repr(sys.path) + PROGRAM)
        interpreters.destroy(other)
# Before the import of the main one, and after it.
refuse()
import anabranch
refuse()
try:
    anabranch.device({DEVICE!r}).context().create_stream().allocate(2**60)
except anabranch.OutOfMemoryError:
    print("caught")
"""
    result = run_python(program)
    assert (result.stdout, result.returncode) == ("caught\n", 0), result.stderr


def test_errors_say_what_happened():
    with pytest.raises(anabranch.AnabranchError) as caught:
        anabranch.device("host:77")
    error = caught.value
    assert (error.status, error.name) == (101, "CUDA_ERROR_INVALID_DEVICE")
    assert error.operation == "opening a device"
    assert error.place == "host:77"
    assert "CUDA_ERROR_INVALID_DEVICE (101)" in str(error)
    assert not error.is_asynchronous and not error.is_sticky
    assert isinstance(error, RuntimeError)


def test_errors_can_be_pickled():
    with pytest.raises(anabranch.AnabranchError) as caught:
        anabranch.device("host:77")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.status) == (type(caught.value), str(caught.value), 101)


def test_out_of_memory_is_a_memory_error(context):
    with pytest.raises(MemoryError) as caught:
        context.create_stream().allocate(1 << 62, "float64")
    assert isinstance(caught.value, anabranch.OutOfMemoryError)
    assert caught.value.name == "CUDA_ERROR_OUT_OF_MEMORY"


def test_devices(device):
    assert anabranch.device("host") == anabranch.device("host:0")
    assert device in anabranch.devices()
    assert hash(device) == hash(anabranch.device(device.name))
    assert device != anabranch.device("host").context()
    assert device.properties["max_threads_per_block"] >= 1024
    assert len(device.properties["uuid"]) == 16
    assert "memory_pools" in device.properties["capabilities"]
    assert device.driver_version >= (12, 0)
    least, greatest = device.stream_priority_range
    assert greatest <= least
    assert device.name in repr(device)
    assert all(reason for _, reason in anabranch.absent_backends())


def test_command(capsys):
    assert main(["devices"]) == 0
    assert "host:0" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--version"])
    assert anabranch.__version__ in capsys.readouterr().out


EXIT = """
import anabranch, os, threading
device = anabranch.device(os.environ["ANABRANCH_TEST_DEVICE"])
context = device.context()
stream = context.create_stream()
"""


@pytest.mark.parametrize(
    "alive",
    [
        """
import time
def run():
    while True:
        time.sleep(0.01)
stream.launch_host_func(run)
time.sleep(0.1)
""",
        """
import time
def run(*arguments):
    end = time.time() + 1.5
    while time.time() < end:
        pass
stream.add_callback(run)
time.sleep(0.1)
""",
        # Everything there is, in globals, in cycles, and in modules.
        """
buffer, pinned, event = stream.allocate(10), context.allocate_pinned(10), stream.record()
with stream.capture() as capture:
    stream.fill(buffer, 1)
    stream.launch_host_func(int)
graph = capture.graph.instantiate()
graph.launch(stream)
cycle = [stream, event]
cycle.append(cycle)
import builtins
builtins.kept = [pinned, graph, stream.completed()]
""",
        # A function that is running, one that waits for it, and a thread that waits for both.
        """
import time
stream.launch_host_func(time.sleep, 0.2)
stream.launch_host_func(lambda: 1 / 0)
threading.Thread(target=stream.synchronize, daemon=True).start()
""",
        # A function that never ends, and threads that wait for it.
        """
stream.launch_host_func(threading.Event().wait)
for _ in range(4):
    threading.Thread(target=stream.synchronize, daemon=True).start()
""",
        # Threads in the middle of calls.
        """
def work():
    while True:
        stream.launch_host_func(int)
        stream.query()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
""",
        # An exception that nobody has asked for.
        """
stream.launch_host_func(lambda: [][0])
""",
        # What exit functions do.
        """
import atexit
atexit.register(stream.synchronize)
atexit.register(stream.close)
stream.launch_host_func(int)
""",
    ],
)
def test_nothing_crashes_at_exit(run_python, alive):
    result = run_python(EXIT + alive + "\nprint('end')\n")
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "end"), result.stderr
    assert "Fatal" not in result.stderr and "panicked" not in result.stderr, result.stderr


def test_the_first_host_function_reads_no_module(run_python):
    """A thread that reads one from inside of native code when the interpreter ends takes the process down."""
    program = """
import sys
before = set(sys.modules)
stream.launch_host_func(int)
stream.add_callback(lambda *arguments: None)
stream.synchronize()
print(set(sys.modules) - before)
"""
    result = run_python(EXIT + program)
    assert (result.returncode, result.stdout) == (0, "set()\n"), result.stderr


def test_threads_that_make_short_calls_survive_the_exit(run_python):
    """Some are about to come back to the interpreter when it ends."""
    program = """
def work():
    while True:
        stream.query()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
"""
    for _ in range(10):
        result = run_python(EXIT + program)
        assert (result.returncode, result.stderr) == (0, "")


def test_importing_numpy_arrays_survives_the_exit(run_python, on_host):
    pytest.importorskip("numpy")
    program = EXIT + "import numpy\nbuffer = context.from_dlpack(numpy.zeros(100))\nview = numpy.asarray(buffer)\n"
    result = run_python(program)
    assert (result.returncode, result.stderr) == (0, "")


def test_control_c_ends_a_wait(run_python):
    waits = ["stream.synchronize()", "context.synchronize()", "stream.record().synchronize()", "stream.download(buffer)"]
    waits += ["stream.upload(b'1234')", "stream.copy_from_host(buffer, b'1234')"]
    if DEVICE == "host":
        waits.append("buffer._memoryview()")
    if DEVICE == "host" and importlib.util.find_spec("numpy"):
        waits.append("numpy.asarray(buffer)")
    for wait in waits:
        program = (
            EXIT
            + f"""
import signal, time
try:
    import numpy
except ImportError:
    pass
# Whoever runs the tests in the background may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
buffer = stream.allocate(4)
stream.launch_host_func(threading.Event().wait)
started = threading.Event()
def interrupt():
    started.wait()
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    started.set()
    {wait}
except KeyboardInterrupt:
    print("interrupted")
"""
        )
        result = run_python(program)
        assert (result.returncode, result.stdout) == (0, "interrupted\n"), (wait, result.stderr)


def test_a_child_of_a_fork_is_refused(run_python):
    program = (
        EXIT
        + """
buffer = stream.allocate(4)
child = os.fork()
if child == 0:
    try:
        stream.synchronize()
    except anabranch.AnabranchError as error:
        assert error.name == "CUDA_ERROR_NOT_INITIALIZED", error
        buffer.close()
        del stream, buffer
        os._exit(7)
    os._exit(1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
stream.synchronize()
"""
    )
    result = run_python(program)
    assert (result.returncode, result.stdout) == (0, "7\n"), result.stderr


def test_a_child_of_a_fork_waits_for_no_thread_of_its_parent(run_python):
    """The threads that the child does not have may have had locks."""
    program = (
        EXIT
        + """
import signal, threading
import numpy as np
buffer = context.allocate_pinned(4)
def import_tensors():
    while True:
        context.from_dlpack(np.zeros(4))
for _ in range(2):
    threading.Thread(target=import_tensors, daemon=True).start()
for _ in range(40):
    view = np.from_dlpack(buffer)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        del view
        try:
            context.from_dlpack(np.zeros(3))
        except anabranch.AnabranchError as error:
            os._exit(error.status)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 3, status
os._exit(7)
"""
    )
    result = run_python(program)
    assert result.returncode == 7, result.stderr


def test_a_child_of_a_fork_before_the_first_call_can_use_devices(run_python):
    program = """
import anabranch, os
child = os.fork()
if child == 0:
    anabranch.device("host").context().synchronize()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    result = run_python(program)
    assert (result.returncode, result.stdout) == (0, "7\n"), result.stderr


