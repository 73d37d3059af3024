"""Options of graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._stream import Stream

__all__ = ["GraphCompleteOptions", "GraphDebugPrintOptions"]


@dataclass
class GraphDebugPrintOptions:
    """What `GraphBuilder.debug_dot_print` prints. Here, it prints all that it knows in any case."""

    verbose: bool = False
    runtime_types: bool = False
    kernel_node_params: bool = False
    memcpy_node_params: bool = False
    memset_node_params: bool = False
    host_node_params: bool = False
    event_node_params: bool = False
    ext_semas_signal_node_params: bool = False
    ext_semas_wait_node_params: bool = False
    kernel_node_attributes: bool = False
    handles: bool = False
    mem_alloc_node_params: bool = False
    mem_free_node_params: bool = False
    batch_mem_op_node_params: bool = False
    extra_topo_info: bool = False
    conditional_node_params: bool = False


@dataclass
class GraphCompleteOptions:
    """How a graph is made executable: whether each launch frees what the last one has allocated, a stream in which the
    first launch is prepared, whether kernels launch it, which is not supported here, and whether nodes have priorities of
    their own.
    """

    auto_free_on_launch: bool = False
    upload_stream: Stream | None = None
    device_launch: bool = False
    use_node_priority: bool = False
