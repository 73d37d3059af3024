"""The names of `anabranch.cuda_core`: those that its page lists, with cuda.core's parameters; and the page's examples."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from cuda_core_support import HERE, nothing_is_current

import anabranch
from anabranch import cuda_core
from anabranch.cuda_core import experimental

# In the repository, and where continuous integration copies the tests to.
PAGES = [folder / "docs" / "python-cuda-core.md" for folder in (HERE.parent, HERE.parents[2])]
PAGE = next(page for page in PAGES if page.exists())

# The parameters of cuda.core 1.2 that are those of this module, too.
SIGNATURES = {
    "Buffer": "*args, **kwargs",
    "Buffer.__dlpack__": "stream=None, max_version=None, dl_device=None, copy=None",
    "Buffer.__dlpack_device__": "",
    "Buffer.__enter__": "",
    "Buffer.close": "stream=None",
    "Buffer.fill": "value, stream",
    "Buffer.from_handle": "ptr, size, mr=None, owner=None, stream=None",
    "Buffer.set_deallocation_stream": "stream",
    "Context": "*args, **kwargs",
    "Context.close": "",
    "Device.allocate": "size, stream",
    "Device.can_access_peer": "peer",
    "Device.create_event": "options=None",
    "Device.create_graph_builder": "",
    "Device.create_stream": "obj=None, options=None",
    "Device.get_all_devices": "",
    "Device.set_current": "ctx=None",
    "Device.sync": "",
    "DeviceMemoryResource": "device_id, options=None",
    "DeviceMemoryResource.allocate": "size, stream",
    "DeviceMemoryResource.close": "",
    "DeviceMemoryResourceOptions": "ipc_enabled=False, max_size=0",
    "Event": "*args, **kwargs",
    "Event.close": "",
    "Event.from_ipc_descriptor": "ipc_descriptor",
    "Event.sync": "",
    "EventOptions": "timing_enabled=False, blocking_sync=False, ipc_enabled=False",
    "GraphMemoryResource.allocate": "size, stream",
    "GraphMemoryResource.close": "",
    "GraphMemoryResource.deallocate": "ptr, size, stream",
    "Kernel": "*args, **kwargs",
    "LaunchConfig": "grid=None, cluster=None, block=None, shmem_size=None, is_cooperative=False, "
    "programmatic_stream_serialization=False",
    "LegacyPinnedMemoryResource.allocate": "size, stream=None",
    "MemoryResource.allocate": "size, stream",
    "MemoryResource.deallocate": "ptr, size, stream",
    "ObjectCode": "*args, **kwargs",
    "ObjectCode.from_cubin": "module, name='', symbol_mapping=None",
    "ObjectCode.from_fatbin": "module, name='', symbol_mapping=None",
    "ObjectCode.from_library": "module, name='', symbol_mapping=None",
    "ObjectCode.from_ltoir": "module, name='', symbol_mapping=None",
    "ObjectCode.from_object": "module, name='', symbol_mapping=None",
    "ObjectCode.from_ptx": "module, name='', symbol_mapping=None",
    "ObjectCode.get_kernel": "name",
    "Stream": "*args, **kwargs",
    "Stream.__cuda_stream__": "",
    "Stream.close": "",
    "Stream.create_graph_builder": "",
    "Stream.from_handle": "handle",
    "Stream.record": "event=None, options=None",
    "Stream.sync": "",
    "Stream.wait": "event_or_stream",
    "StreamOptions": "nonblocking=True, priority=None",
    "_event.IPCEventDescriptor": "*arg, **kwargs",
    "_module.KernelOccupancy.max_active_blocks_per_multiprocessor": "block_size, dynamic_shared_memory_size",
    "_module.KernelOccupancy.max_active_clusters": "config, stream",
    "_module.KernelOccupancy.max_potential_cluster_size": "config, stream",
    "_module.ParamInfo": "offset, size",
    "_stream.Stream_accept": "arg, allow_stream_protocol=False",
    "_stream.default_stream": "",
    "_utils.cuda_utils.ComputeCapability": "major, minor",
    "graph.Graph": "",
    "graph.Graph.close": "",
    "graph.Graph.launch": "stream",
    "graph.Graph.upload": "stream",
    "graph.ExecutableEventRecordNode.update": "event",
    "graph.ExecutableHostCallbackNode.update": "fn, user_data=None",
    "graph.ExecutableKernelNode.update": "config, kernel, args",
    "graph.ExecutableMemcpyNode.update": "dst, src, size",
    "graph.GraphDefinition.allocate": "size, device=None, memory_type=<GraphMemoryType.DEVICE: 'device'>, peer_access=None",
    "graph.GraphDefinition.create_condition": "default_value=None",
    "graph.GraphDefinition.instantiate": "options=None",
    "graph.GraphDefinition.join": "*nodes",
    "graph.GraphDefinition.launch": "config, kernel, *args",
    "graph.GraphDefinition.switch": "condition, count",
    "graph.GraphNode.callback": "fn, user_data=None",
    "graph.GraphNode.deallocate": "dptr",
    "graph.GraphNode.memcpy": "dst, src, size, dst_owner=None, src_owner=None",
    "graph.GraphNode.memset": "dst, value, width, height=1, pitch=0, dst_owner=None",
    "graph.KernelNode.update": "config=None, kernel=None, args=None",
    "graph.MemsetNode.update": "dst=None, value=None, width=None, height=None, pitch=None, dst_owner=None",
    "graph.GraphBuilder": "",
    "graph.GraphBuilder.begin_building": "mode='relaxed'",
    "graph.GraphBuilder.callback": "fn, user_data=None",
    "graph.GraphBuilder.close": "",
    "graph.GraphBuilder.complete": "options=None",
    "graph.GraphBuilder.end_building": "",
    "graph.GraphBuilder.join": "*graph_builders",
    "graph.GraphBuilder.split": "count",
    "graph.GraphCompleteOptions": "auto_free_on_launch=False, upload_stream=None, device_launch=False, use_node_priority=False",
    "graph.GraphDebugPrintOptions": "verbose=False, runtime_types=False, kernel_node_params=False, memcpy_node_params=False, "
    "memset_node_params=False, host_node_params=False, event_node_params=False, "
    "ext_semas_signal_node_params=False, ext_semas_wait_node_params=False, kernel_node_attributes=False, "
    "handles=False, mem_alloc_node_params=False, mem_free_node_params=False, "
    "batch_mem_op_node_params=False, extra_topo_info=False, conditional_node_params=False",
}
# Names that only `cuda.core.experimental` has.
FORMER = {
    "Event.is_timing_disabled",
    "Event.is_sync_busy_waited",
    "graph.GraphBuilder.add_child",
    "graph.GraphBuilder.create_conditional_handle",
    "graph.GraphBuilder.if_cond",
}
# Its names of formats and kinds.
TEXTS = {
    "SourceCodeType": {"CXX": "c++", "PTX": "ptx", "NVVM": "nvvm"},
    "ObjectCodeFormatType": {
        "PTX": "ptx",
        "CUBIN": "cubin",
        "LTOIR": "ltoir",
        "FATBIN": "fatbin",
        "OBJECT": "object",
        "LIBRARY": "library",
    },
    "CompilerBackendType": {"NVRTC": "NVRTC", "NVVM": "NVVM", "NVJITLINK": "nvJitLink", "DRIVER": "driver"},
    "PCHStatusType": {"CREATED": "created", "NOT_ATTEMPTED": "not_attempted", "FAILED": "failed"},
    "GraphMemoryType": {"DEVICE": "device", "HOST": "host", "MANAGED": "managed"},
    "ManagedMemoryLocationType": {"DEVICE": "device", "HOST": "host", "HOST_NUMA": "host_numa"},
    "GraphConditionalType": {"IF": "if", "WHILE": "while", "SWITCH": "switch"},
}


def rows() -> list[tuple[str, str]]:
    """The names of the page's tables, and what it says of each."""
    listed = []
    for line in PAGE.read_text().splitlines():
        row = re.fullmatch(r"\| (`[^|]*`) \| (there|differs|not there) \|.*\|", line)
        if row:
            listed += [(name, row[2]) for name in re.findall(r"`([\w.]+)`", row[1])]
    return listed


def member(name: str) -> Any:
    owner: Any = cuda_core
    for part in name.split("."):
        # What constructors set is annotated.
        annotated = isinstance(owner, type) and part in getattr(owner, "__annotations__", {})
        owner = getattr(owner, part, None) if annotated else getattr(owner, part)
    return owner


def test_the_page_lists_what_there_is():
    listed = dict(rows())
    assert len(listed) == len(rows()) > 300
    for name, says in listed.items():
        if says == "not there":
            with pytest.raises(AttributeError):
                member(name)
        else:
            member(name)
    for name in cuda_core.__all__:
        if not inspect.ismodule(getattr(cuda_core, name)):
            assert name in listed or f"_utils.cuda_utils.{name}" in listed, name
    for name in cuda_core.graph.__all__:
        assert f"graph.{name}" in listed, name
    for name in cuda_core.typing.__all__:
        assert f"typing.{name}" in listed, name
    # Everything public of the classes, too.
    for name in [name for name in listed if "." not in name or name.startswith("graph.")]:
        found = member(name) if listed[name] != "not there" and name.count(".") == name.startswith("graph.") else None
        for public in vars(found) if inspect.isclass(found) else ():
            is_option = name == "graph.GraphDebugPrintOptions"
            if not public.startswith(("_", "anabranch_")) and not is_option and f"{name}.{public}" not in FORMER:
                assert f"{name}.{public}" in listed, f"{name}.{public}"


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters(name):
    called = member(name)
    if inspect.isclass(called) and hasattr(called, "_fields"):
        assert ", ".join(called._fields) == SIGNATURES[name]
        return
    called = called.__init__ if inspect.isclass(called) else called
    parameters = [
        str(parameter.replace(annotation=parameter.empty))
        for parameter in inspect.signature(called).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    assert ", ".join(parameters) == SIGNATURES[name]


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    kind = getattr(cuda_core.typing, name)
    assert {item.name: item.value for item in kind} == TEXTS[name]
    assert all(str(item) == item.value == item for item in kind)


def test_what_the_module_wraps_is_at_hand():
    device = cuda_core.Device()
    device.set_current()
    stream = device.create_stream()
    builder = stream.create_graph_builder().begin_building()
    graph = builder.end_building().complete()
    buffer = device.allocate(4, stream=stream)
    assert device.anabranch_device == anabranch.default_device()
    assert device.context.anabranch_context == stream.anabranch_stream.context == graph.anabranch_graph.context
    assert stream.anabranch_stream.handle == stream.handle
    assert isinstance(stream.record().anabranch_event, anabranch.Event)
    assert buffer.anabranch_buffer.address == buffer.handle
    stream.anabranch_stream.fill(buffer.anabranch_buffer, 5)
    assert stream.anabranch_stream.download(buffer.anabranch_buffer).tolist() == [5] * 4


def test_everything_public_is_documented():
    for module in (cuda_core, cuda_core.graph, cuda_core.typing, experimental):
        assert module.__doc__
        for name in module.__all__:
            item = getattr(module, name)
            if not (inspect.isclass(item) or inspect.isfunction(item)):
                continue
            assert item.__doc__ and "NVIDIA" not in item.__doc__, name
            for attribute, value in vars(item).items() if inspect.isclass(item) else ():
                if not attribute.startswith("_") and (callable(value) or isinstance(value, (property, staticmethod))):
                    assert value.__doc__, f"{name}.{attribute}"


def test_the_examples_of_the_module():
    assert doctest.testmod(cuda_core).failed == 0


def test_the_examples_of_the_page(capfd):
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {"__name__": "__main__"})
        expected = re.findall(r"print\(.*\)  # (.*)$", example, re.MULTILINE)
        if "builder.callback" in example:
            expected = ["filled"] * 2
        if "GraphDefinition()" in example:
            expected = ["filled", "filled anew"]
        assert capfd.readouterr().out.splitlines() == expected
    assert Path(anabranch.__file__).exists()
