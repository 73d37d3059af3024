"""The streams, events and graphs of Warp, on GPUs or on the software device.

>>> import anabranch.warp as wp
>>> wp.config.log_level = wp.LOG_WARNING
>>> wp.init()
>>> numbers = wp.zeros(3, dtype=int)
>>> with wp.ScopedStream(wp.Stream("cuda:0")):
...     with wp.ScopedCapture() as capture:
...         wp.copy(numbers, wp.full_like(numbers, 7))
...
>>> wp.capture_launch(capture.graph)
"""

from . import config as config
from ._activity import (
    TIMING_ALL as TIMING_ALL,
    TIMING_GRAPH as TIMING_GRAPH,
    TIMING_KERNEL as TIMING_KERNEL,
    TIMING_KERNEL_BUILTIN as TIMING_KERNEL_BUILTIN,
    TIMING_MEMCPY as TIMING_MEMCPY,
    TIMING_MEMSET as TIMING_MEMSET,
    TimingResult as TimingResult,
    timing_begin as timing_begin,
    timing_end as timing_end,
    timing_print as timing_print,
)
from ._arrays import (
    bfloat16 as bfloat16,
    clone as clone,
    copy as copy,
    empty as empty,
    empty_like as empty_like,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    from_dlpack as from_dlpack,
    from_numpy as from_numpy,
    full as full,
    full_like as full_like,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    ones as ones,
    ones_like as ones_like,
    to_dlpack as to_dlpack,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    zeros as zeros,
    zeros_like as zeros_like,
)
from ._capture import (
    CaptureMode as CaptureMode,
    ScopedCapture as ScopedCapture,
    capture_begin as capture_begin,
    capture_debug_dot_print as capture_debug_dot_print,
    capture_end as capture_end,
    capture_launch as capture_launch,
)
from ._conditions import capture_if as capture_if, capture_while as capture_while
from ._device import Device as Device
from ._event import Event as Event, event_from_ipc_handle as event_from_ipc_handle
from ._graph import Graph as Graph
from ._launch import launch as launch
from ._logger import (
    LOG_DEBUG as LOG_DEBUG,
    LOG_ERROR as LOG_ERROR,
    LOG_INFO as LOG_INFO,
    LOG_WARNING as LOG_WARNING,
    Logger as Logger,
    ScopedLogger as ScopedLogger,
    ScopedLogLevel as ScopedLogLevel,
    get_logger as get_logger,
    set_logger as set_logger,
)
from ._pools import (
    ScopedMempool as ScopedMempool,
    get_mempool_release_threshold as get_mempool_release_threshold,
    get_mempool_used_mem_current as get_mempool_used_mem_current,
    get_mempool_used_mem_high as get_mempool_used_mem_high,
    is_mempool_enabled as is_mempool_enabled,
    is_mempool_supported as is_mempool_supported,
    set_mempool_enabled as set_mempool_enabled,
    set_mempool_release_threshold as set_mempool_release_threshold,
)
from ._runtime import (
    DeviceLike as DeviceLike,
    get_cuda_device as get_cuda_device,
    get_cuda_device_count as get_cuda_device_count,
    get_cuda_devices as get_cuda_devices,
    get_cuda_driver_version as get_cuda_driver_version,
    get_device as get_device,
    get_devices as get_devices,
    get_preferred_device as get_preferred_device,
    init as init,
    is_conditional_graph_supported as is_conditional_graph_supported,
    is_cpu_available as is_cpu_available,
    is_cuda_available as is_cuda_available,
    is_device_available as is_device_available,
    map_cuda_device as map_cuda_device,
    set_device as set_device,
    unmap_cuda_device as unmap_cuda_device,
)
from ._scopes import ScopedDevice as ScopedDevice, ScopedStream as ScopedStream
from ._stream import (
    Stream as Stream,
    get_stream as get_stream,
    record_event as record_event,
    set_stream as set_stream,
    wait_event as wait_event,
    wait_stream as wait_stream,
)
from ._synchronize import (
    get_event_elapsed_time as get_event_elapsed_time,
    synchronize as synchronize,
    synchronize_device as synchronize_device,
    synchronize_event as synchronize_event,
    synchronize_stream as synchronize_stream,
)
from ._timer import ScopedTimer as ScopedTimer
from ._torch import (
    device_from_torch as device_from_torch,
    device_to_torch as device_to_torch,
    stream_from_torch as stream_from_torch,
    stream_to_torch as stream_to_torch,
)
