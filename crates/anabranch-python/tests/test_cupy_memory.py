"""Memory and pools of `anabranch.cupy.cuda`."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import sys
import threading
import weakref

import pytest
from conftest import is_deleted

from anabranch.cupy import cuda
from anabranch.cupy.cuda import runtime


@pytest.fixture
def pool():
    # The pool of this test alone.
    device = runtime.getDevice()
    own = runtime.memPoolCreate(runtime.MemPoolProps(1, 0, 1, device))
    former = runtime.deviceGetMemPool(device)
    yield cuda.MemoryAsyncPool(own)
    gc.collect()
    cuda.Device().synchronize()
    runtime.deviceSetMemPool(device, former)
    runtime.memPoolDestroy(own)


def test_the_pool_and_its_statistics(pool):
    assert (pool.used_bytes(), pool.get_limit()) == (0, 0)
    memory = pool.malloc(1000)
    # Sizes are multiples of 512 bytes.
    assert memory.mem.size == 1024 and pool.used_bytes() >= 1024
    assert pool.total_bytes() == pool.used_bytes() + pool.free_bytes()
    assert isinstance(memory.mem, cuda.MemoryAsync) and memory.mem.stream_ref() is cuda.get_current_stream()
    del memory
    pool.free_all_blocks()
    assert pool.used_bytes() == 0
    pool.set_limit(size=4096)
    assert pool.get_limit() == 4096
    pool.set_limit(fraction=0.5)
    assert pool.get_limit() == cuda.Device().mem_info[1] // 2
    pool.set_limit()
    assert pool.get_limit() == 0
    with pytest.raises(ValueError, match="^memory limit fraction out of range: 1.5$"):
        pool.set_limit(fraction=1.5)
    with pytest.raises(ValueError, match="^size and fraction cannot be specified at one time$"):
        pool.set_limit(1, 0.5)
    with pytest.raises(ValueError, match="^memory limit size out of range: -1$"):
        pool.set_limit(-1)
    with pytest.raises(NotImplementedError, match="^This function is not supported in MemoryAsyncPool$"):
        pool.n_free_blocks()
    with pytest.raises(cuda.memory.OutOfMemoryError, match="^Out of memory allocating 1,152,921,504,606,846,976 bytes$"):
        pool.malloc(1 << 60)


def test_which_pool():
    device = runtime.getDevice()
    default = runtime.deviceGetDefaultMemPool(device)
    for handles in ("default", "current", default, [default] * runtime.getDeviceCount()):
        assert cuda.MemoryAsyncPool(handles)._pools[device] == default
    with pytest.raises(ValueError, match="^handle must be 'default'"):
        cuda.MemoryAsyncPool("create")
    with pytest.raises(runtime.CUDARuntimeError):
        cuda.MemoryAsyncPool(5)
    # What was refused was not chosen.
    assert runtime.deviceGetMemPool(device) == default


def test_the_limit_of_the_environment(monkeypatch):
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", "10%")
    assert cuda.MemoryAsyncPool().get_limit() == int(cuda.Device().mem_info[1] * 0.1)
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", "12345")
    assert cuda.MemoryAsyncPool().get_limit() == 12345
    monkeypatch.setenv("CUPY_GPU_MEMORY_LIMIT", "much")
    with pytest.raises(ValueError, match="CUPY_GPU_MEMORY_LIMIT"):
        cuda.MemoryAsyncPool()
    monkeypatch.delenv("CUPY_GPU_MEMORY_LIMIT")
    assert cuda.MemoryAsyncPool().get_limit() == 0


def test_memory_is_freed_in_its_stream(pool):
    # A copy to memory that is not pinned would wait.
    opened, result = threading.Event(), cuda.alloc_pinned_memory(4)
    with cuda.Stream(non_blocking=True) as stream:
        memory = pool.malloc(512)
    try:
        stream.launch_host_func(lambda _: opened.wait(), None)
        memory.memset_async(7, 512, stream)
        memory.copy_to_host_async(result.ptr, 4, stream)
        # The stream is pending, and its work still uses the memory.
        del memory
    finally:
        opened.set()
    stream.synchronize()
    assert ctypes.string_at(result.ptr, 4) == b"\x07" * 4 and pool.used_bytes() == 0


def test_memory_that_a_host_function_drops(pool):
    memory = [pool.malloc(512)]
    stream = cuda.Stream(non_blocking=True)
    stream.launch_host_func(lambda _: memory.clear(), None)
    stream.synchronize()
    assert not memory
    # Nothing is freed in a host function. The next allocation does it.
    other = pool.malloc(512)
    cuda.Stream.null.synchronize()
    assert pool.used_bytes() == 512
    del other


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("of_the_stream", [False, True])
def test_memory_that_is_dropped_while_a_stream_captures(pool, mode, of_the_stream):
    stream = cuda.Stream()
    with stream if of_the_stream else cuda.Stream.null:
        memory = pool.malloc(512)
    cuda.Device().synchronize()
    stream.begin_capture(mode)
    del memory
    # It is freed when the capture ends, which is as valid as before.
    stream.end_capture().launch(stream)
    cuda.Device().synchronize()
    assert pool.used_bytes() == 0


def test_memory_that_a_capture_has_allocated_is_freed_in_it():
    stream = cuda.Stream()
    stream.begin_capture()
    with stream:
        memory = cuda.malloc_async(512)
        memory.memset_async(0, 512)
    del memory
    graph = stream.end_capture()
    for _ in range(2):
        graph.launch(stream)
    stream.synchronize()


@pytest.mark.parametrize("kind", [cuda.Memory, cuda.ManagedMemory, cuda.PinnedMemory])
def test_what_is_dropped_invalidates_no_capture(kind):
    memory = kind(64)
    stream = cuda.Stream()
    stream.begin_capture(runtime.streamCaptureModeGlobal)
    del memory
    stream.end_capture()


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without a global lock, it is freed at another time",
)
def test_memory_that_cannot_be_freed_disturbs_nobody(monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: said.append(hook.exc_value.name))
    memory = [cuda.Memory(8)]
    address = memory[0].ptr
    stream = cuda.Stream(non_blocking=True)
    stream.launch_host_func(lambda _: memory.clear(), None)
    stream.synchronize()
    runtime.free(address)
    assert cuda.Memory(8).ptr and said == ["CUDA_ERROR_INVALID_VALUE"]


@pytest.mark.parametrize("kind", [cuda.Memory, cuda.ManagedMemory])
def test_places_in_memory(kind):
    memory = kind(16)
    assert int(memory) == memory.ptr and memory.size == 16 and memory.device == cuda.Device()
    start = cuda.MemoryPointer(memory, 0)
    assert int(start + 4) == (4 + start).ptr == start.ptr + 4 and (start + 4 - 4).ptr == start.ptr
    start += 4
    start -= 4
    assert start.mem is memory and start.device_id == memory.device_id and start.device == memory.device
    assert repr(start) == f"<MemoryPointer 0x{start.ptr:x} device={memory.device_id} mem={memory!r}>"
    assert cuda.MemoryPointer(memory, 4).ptr == memory.ptr + 4

    source, result = (ctypes.c_uint8 * 16)(*range(16)), (ctypes.c_uint8 * 16)()
    stream = cuda.Stream(non_blocking=True)
    start.copy_from(ctypes.c_void_p(ctypes.addressof(source)), 16)
    (start + 8).copy_from(start, 4)
    (start + 14).memset(9, 2)
    cuda.Device().synchronize()
    start.copy_to_host(ctypes.addressof(result), 16)
    assert bytes(result) == bytes([*range(8), 0, 1, 2, 3, 12, 13, 9, 9])

    start.copy_from_async(ctypes.addressof(source), 16, stream)
    (start + 8).copy_from_async(start, 4, stream)
    (start + 14).memset_async(9, 2, stream)
    with stream:
        (start + 13).memset_async(1, 1)
        start.copy_to_host_async(ctypes.addressof(result), 16)
    stream.synchronize()
    assert bytes(result) == bytes([*range(8), 0, 1, 2, 3, 12, 1, 9, 9])


def test_managed_memory_moves():
    memory = cuda.ManagedMemory(4096)
    stream = cuda.Stream()
    memory.prefetch(stream)
    memory.prefetch(stream, device_id=-1)
    stream.synchronize()
    assert cuda.malloc_managed(0).ptr == 0


def test_memory_of_others():
    address = runtime.malloc(8)
    owner = object()
    memory = cuda.UnownedMemory(address, 8, owner)
    assert (memory.ptr, memory.size, memory.device_id) == (address, 8, runtime.getDevice())
    assert memory._owner is owner
    assert cuda.UnownedMemory(5, 6, None, 0).ptr == 5
    runtime.free(address)


def test_allocators():
    assert cuda.get_allocator() is cuda.malloc_async
    assert isinstance(cuda.alloc(8).mem, cuda.MemoryAsync)
    with cuda.using_allocator(cuda.malloc_managed):
        assert isinstance(cuda.alloc(8).mem, cuda.ManagedMemory)
        with pytest.raises(ValueError, match="^Can't change the global allocator inside"):
            cuda.set_allocator()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(cuda.get_allocator()))
        thread.start()
        thread.join()
        assert seen == [cuda.malloc_async]
        with cuda.using_allocator():
            assert isinstance(cuda.alloc(8).mem, cuda.Memory)
    try:
        cuda.set_allocator()
        assert isinstance(cuda.alloc(8).mem, cuda.Memory)
    finally:
        cuda.set_allocator(cuda.malloc_async)


def test_pinned_memory():
    numpy = pytest.importorskip("numpy")
    memory = cuda.alloc_pinned_memory(64)
    assert isinstance(memory, cuda.PinnedMemoryPointer) and isinstance(memory.mem, cuda.PinnedMemory)
    assert memory.size() == 64 and (memory + 8).size() == 56 and (memory + 8 - 8).ptr == int(memory) == int(memory.mem)
    array = numpy.asarray(memory).view("uint32")
    array[:] = range(16)
    if sys.version_info >= (3, 12):
        assert (numpy.frombuffer(memory + 4, "uint32", 3) == [1, 2, 3]).all()
        assert numpy.frombuffer(memory + 64, "uint8").size == 0
    stream = cuda.Stream(non_blocking=True)
    with stream:
        device = cuda.alloc(64)
        device.copy_from_host_async(memory.ptr, 64)
        back = cuda.alloc_pinned_memory(64)
        device.copy_to_host_async(back.ptr, 64)
    stream.synchronize()
    assert (numpy.asarray(back).view("uint32") == range(16)).all()
    # The array keeps the memory.
    del memory
    gc.collect()
    assert array[5] == 5
    assert cuda.alloc_pinned_memory(0).size() == 0


def test_out_of_memory():
    error = cuda.memory.OutOfMemoryError(1234567, 100, 9000)
    expected = "Out of memory allocating 1,234,567 bytes (allocated so far: 100 bytes, limit set to: 9,000 bytes)."
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == expected and isinstance(error, MemoryError)
    assert str(cuda.memory.OutOfMemoryError(5, 1)) == "Out of memory allocating 5 bytes (allocated so far: 1 bytes)."


@pytest.mark.parametrize(
    "make",
    [
        cuda.Memory,
        cuda.ManagedMemory,
        cuda.PinnedMemory,
        lambda size: cuda.MemoryAsync(size, cuda.Stream()),
        type("Derived", (cuda.Memory,), {}),
    ],
)
def test_memory_is_not_copied(make):
    memory = make(64)
    pointer = (cuda.PinnedMemoryPointer if isinstance(memory, cuda.PinnedMemory) else cuda.MemoryPointer)(memory, 8)
    message = f"^objects of the class {type(memory).__name__} can be neither copied nor pickled$"
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=message):
            duplicate(memory)
    for duplicate in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=message):
            duplicate(pointer)
    # The copy of a pointer keeps the same memory.
    copied = copy.copy(pointer)
    assert copied.mem is memory and copied.ptr == pointer.ptr


def test_nothing_is_said_at_the_end(run_python):
    program = """
from anabranch.cupy import cuda
kept = [cuda.Memory(8), cuda.alloc(8), cuda.ManagedMemory(8), cuda.alloc_pinned_memory(8), cuda.Stream(), cuda.Event()]
cycle = [kept]
cycle.append(cycle)
del kept
"""
    result = run_python(program)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_child_of_a_fork_leaks_quietly(run_python):
    program = """
import os
from anabranch.cupy import cuda
kept = [cuda.Memory(8), cuda.alloc(8), cuda.alloc_pinned_memory(8), cuda.Stream(), cuda.Event()]
child = os.fork()
if child == 0:
    kept.clear()
    try:
        cuda.Stream.null.synchronize()
    except cuda.runtime.CUDARuntimeError as error:
        assert str(error) == "cudaErrorInitializationError: initialization error", error
        os._exit(7)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    result = run_python(program)
    assert (result.returncode, result.stdout) == (0, "7\n"), result.stderr
    assert "ignored" not in result.stderr


def test_a_view_keeps_pinned_memory_whoever_asks_for_it() -> None:
    pointer = cuda.alloc_pinned_memory(64)
    kept = weakref.ref(pointer.mem)
    view = pointer._view()
    view[:4] = b"abcd"
    del pointer
    gc.collect()
    assert kept() is not None and bytes(view[:4]) == b"abcd"
    del view
    gc.collect()
    assert is_deleted(kept)
