//! Graphs that allocate memory.

use super::graph_raw::RawGraph;
use super::graph_tools::{graph_of, launch, run, word};
use super::memory_raw::Raw;
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::gate::quiesce;
use crate::live::Owner;
use anabranch::{
    AllocationNode, Buffer, Capabilities, CaptureMode, DevicePointer, Graph, GraphMemoryAttribute, GraphNodeKind,
    InstantiateFlags, NodeParameters, NodeWork, Result, Status,
};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.memory_is_used_along_the_graph", "M4", memory_is_used_along_the_graph),
    Case::new("graph.memory_has_one_address", "M4", memory_has_one_address),
    Case::new("graph.memory_address_is_used_again", "M4", memory_address_is_used_again),
    Case::new("graph.memory_of_other_graphs", "M4", memory_of_other_graphs),
    Case::new("graph.memory_used_outside", "M4", memory_used_outside),
    Case::new("graph.memory_captured", "M4", memory_captured),
    Case::new("graph.memory_captured_and_kept", "M4", memory_captured_and_kept),
    Case::new("graph.memory_captured_free_of_other_memory", "M4", memory_captured_free_of_other_memory),
    Case::new("graph.memory_still_allocated", "G6", memory_still_allocated),
    Case::new("graph.memory_freed_outside", "G6", memory_freed_outside),
    Case::new("graph.memory_freed_before_any_launch", "G6", memory_freed_before_any_launch),
    Case::new("graph.memory_freed_at_launches", "G6", memory_freed_at_launches),
    Case::new("graph.memory_freed_by_another_graph", "G6", memory_freed_by_another_graph),
    Case::new("graph.memory_outlives_its_executable", "G6", memory_outlives_its_executable),
    Case::new("graph.memory_goes_with_its_executable", "G6", memory_goes_with_its_executable),
    Case::new("graph.memory_attributes", "M4", memory_attributes)
        .needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
    Case::new("graph.memory_high_water_marks_are_reset", "M4", memory_high_water_marks_are_reset),
    Case::new("graph.memory_is_used_in_units", "M4", memory_is_used_in_units)
        .needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
    Case::new("graph.memory_is_reserved_in_units", "M4", memory_is_reserved_in_units)
        .needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
    Case::new("graph.memory_lists_no_access_of_its_own_device", "M4", memory_lists_no_access_of_its_own_device)
        .needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
];

/// A graph that allocates numbers and leaves them allocated.
fn leaves(environment: &Environment) -> Result<(Graph, DevicePointer)> {
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (_, memory) = unsafe { graph.add_allocation::<u32>((), 1024) }?;
    let address = memory.device_pointer();
    Ok((graph, address))
}

/// Frees memory in stream order. Any allocation is accepted.
fn free(raw: &Raw, address: DevicePointer) -> Status {
    // SAFETY: nothing uses the memory.
    status_of(unsafe { raw.driver().free_async(&raw.context().into(), address, raw.stream().live()) })
}

fn memory_is_used_along_the_graph(environment: &Environment) -> Verdict {
    let (stream, mut result) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    // SAFETY: the fill comes before the copy that reads the memory.
    let (allocated, mut memory) = unsafe { graph.add_allocation::<u32>((), 1000) }?;
    let filled = graph.add(allocated, NodeWork::fill(&mut memory, 7u32)?)?;
    let copied = graph.add(filled, NodeWork::copy(&mut result, memory.slice(999..)?)?)?;
    // SAFETY: the free comes after all uses.
    unsafe { graph.add_free(copied, memory) }?;
    let executable = graph.instantiate()?;
    for _ in 0..3 {
        stream.fill(&mut result, 0u32)?;
        launch(&executable, &stream)?;
        equal("what was copied", stream.download(&result)?, vec![7])?;
    }
    Ok(())
}

fn memory_has_one_address(environment: &Environment) -> Verdict {
    let (stream, mut seen) = (environment.stream()?, environment.stream()?.allocate_zeroed::<u32>(1)?);
    let mut graph = environment.context().create_graph()?;
    // SAFETY: `add` reads the number after the fill.
    let (node, mut memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    let address = memory.device_pointer();
    let filled = graph.add(node, NodeWork::fill(&mut memory, 3u32)?)?;
    let added = graph.add(filled, super::graph_tools::digit(environment, &mut memory, 4)?)?;
    let copied = graph.add(added, NodeWork::copy(&mut seen, &memory)?)?;
    // SAFETY: the free comes after all uses.
    unsafe { graph.add_free(copied, memory) }?;
    let executable = graph.instantiate()?;
    for _ in 0..2 {
        launch(&executable, &stream)?;
        match graph.node_parameters(node)? {
            NodeParameters::Allocate(found) => equal("the address", found.address, address)?,
            other => return Err(Failed(format!("the node is {other:?}"))),
        }
        equal("the number", stream.download(&seen)?, vec![34])?;
    }
    Ok(())
}

fn memory_address_is_used_again(environment: &Environment) -> Verdict {
    const LENGTH: usize = 1 << 20;
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (allocated, first) = unsafe { graph.add_allocation::<u32>((), LENGTH) }?;
    let address = first.device_pointer();
    // SAFETY: nothing uses the memory.
    let freed = unsafe { graph.add_free(allocated, first) }?;
    // SAFETY: nothing reads the memory.
    let (again, second) = unsafe { graph.add_allocation::<u32>(freed, LENGTH) }?;
    equal("the address after the free", second.device_pointer(), address)?;
    // SAFETY: nothing uses the memory.
    unsafe { graph.add_free(again, second) }?;
    run(&graph, &environment.stream()?)?;
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (_, first) = unsafe { graph.add_allocation::<u32>((), LENGTH) }?;
    // SAFETY: nothing reads the memory.
    let (_, second) = unsafe { graph.add_allocation::<u32>((), LENGTH) }?;
    holds("addresses side by side differ", first.device_pointer() != second.device_pointer())
}

/// The driver would accept this. The library refuses it, because it cannot know when the memory is allocated.
fn memory_of_other_graphs(environment: &Environment) -> Verdict {
    let (mut owner, mut other) = (environment.context().create_graph()?, environment.context().create_graph()?);
    // SAFETY: nothing reads the memory.
    let (_, mut memory): (_, Buffer<u32>) = unsafe { owner.add_allocation((), 4) }?;
    refused("using it", other.add((), NodeWork::fill(&mut memory, 1u32)?), Status::INVALID_VALUE)?;
    // SAFETY: the driver or the library refuses the call.
    refused("freeing it", unsafe { other.add_free((), memory) }, Status::INVALID_VALUE)?;
    equal("nodes", other.nodes()?.len(), 0)
}

fn memory_used_outside(environment: &Environment) -> Verdict {
    let (stream, mut graph) = (environment.stream()?, environment.context().create_graph()?);
    // SAFETY: nothing reads the memory.
    let (_, mut memory): (_, Buffer<u32>) = unsafe { graph.add_allocation((), 4) }?;
    refused("filling it", stream.fill(&mut memory, 1u32), Status::INVALID_VALUE)?;
    refused("downloading it", stream.download(&memory), Status::INVALID_VALUE)
}

fn memory_captured(environment: &Environment) -> Verdict {
    let (stream, mut result) = word(environment)?;
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        let memory = scope.allocate_zeroed::<u32>(10)?;
        scope.copy(&mut result, memory.slice(9..)?)
    })?;
    let kinds = graph.nodes()?.into_iter().map(|node| graph.node_kind(node)).collect::<Result<Vec<_>>>()?;
    let count = |kind| kinds.iter().filter(|&&found| found == kind).count();
    equal("allocations", count(GraphNodeKind::ALLOCATE), 1)?;
    equal("frees", count(GraphNodeKind::FREE), 1)?;
    equal("copies", count(GraphNodeKind::COPY), 1)?;
    let executable = graph.instantiate()?;
    for _ in 0..2 {
        stream.fill(&mut result, 5u32)?;
        launch(&executable, &stream)?;
        equal("what was copied", stream.download(&result)?, vec![0])?;
    }
    Ok(())
}

fn memory_captured_and_kept(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut kept = None;
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        kept = Some(scope.allocate_zeroed::<u32>(10)?);
        Ok(())
    })?;
    let Some(mut memory) = kept else { return Err(Failed("nothing was allocated".to_owned())) };
    refused("filling it outside", stream.fill(&mut memory, 1u32), Status::INVALID_VALUE)?;
    let executable = graph.instantiate()?;
    launch(&executable, &stream)?;
    refused("a second launch", executable.launch(&stream), Status::INVALID_VALUE)?;
    let raw = Raw::new(environment)?;
    equal("freeing it outside", free(&raw, memory.device_pointer()), Status::SUCCESS)?;
    raw.synchronize()?;
    launch(&executable, &stream)?;
    equal("freeing it outside again", free(&raw, memory.device_pointer()), Status::SUCCESS)?;
    raw.synchronize()
}

fn memory_captured_free_of_other_memory(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let memory = environment.stream()?.allocate_zeroed::<u32>(4)?;
    environment.context().synchronize()?;
    let graph = raw.stream().capture(CaptureMode::Relaxed, |_| {
        // The capture continues, and ending it shows whether it was invalidated.
        let status = free(&raw, memory.device_pointer());
        if status == Status::INVALID_VALUE { Ok(()) } else { raw.stream().upload(&[status.0 as u32]).map(drop) }
    })?;
    equal("nodes", graph.nodes()?.len(), 0)
}

fn memory_still_allocated(environment: &Environment) -> Verdict {
    let (stream, raw) = (environment.stream()?, Raw::new(environment)?);
    let (graph, address) = leaves(environment)?;
    let executable = graph.instantiate()?;
    launch(&executable, &stream)?;
    refused("a second launch", executable.launch(&stream), Status::INVALID_VALUE)?;
    refused("a launch in another stream", executable.launch(raw.stream()), Status::INVALID_VALUE)?;
    equal("freeing it", free(&raw, address), Status::SUCCESS)?;
    raw.synchronize()
}

fn memory_freed_outside(environment: &Environment) -> Verdict {
    let (stream, raw) = (environment.stream()?, Raw::new(environment)?);
    let (graph, address) = leaves(environment)?;
    let executable = graph.instantiate()?;
    for _ in 0..2 {
        launch(&executable, &stream)?;
        equal("freeing it in stream order", free(&raw, address), Status::SUCCESS)?;
        raw.synchronize()?;
        equal("freeing it twice", free(&raw, address), Status::INVALID_VALUE)?;
    }
    launch(&executable, &stream)?;
    // SAFETY: nothing uses the memory.
    equal("freeing it at once", unsafe { raw.free(address) }, Status::SUCCESS)?;
    launch(&executable, &stream)?;
    equal("freeing it for the last time", free(&raw, address), Status::SUCCESS)?;
    raw.synchronize()
}

fn memory_freed_before_any_launch(environment: &Environment) -> Verdict {
    let (stream, raw) = (environment.stream()?, Raw::new(environment)?);
    let (graph, address) = leaves(environment)?;
    let executable = graph.instantiate()?;
    equal("in stream order", free(&raw, address), Status::INVALID_VALUE)?;
    // SAFETY: the driver or the library refuses the call.
    equal("at once", unsafe { raw.free(address) }, Status::INVALID_VALUE)?;
    launch(&executable, &stream)?;
    equal("after a launch", free(&raw, address), Status::SUCCESS)?;
    raw.synchronize()
}

fn memory_freed_at_launches(environment: &Environment) -> Verdict {
    let (stream, other, raw) = (environment.stream()?, environment.stream()?, Raw::new(environment)?);
    let (graph, address) = leaves(environment)?;
    let executable = graph.instantiate_with_flags(InstantiateFlags::AUTO_FREE_ON_LAUNCH)?;
    for stream in [&stream, &stream, &other] {
        executable.launch(stream)?;
    }
    other.synchronize()?;
    equal("freeing it outside", free(&raw, address), Status::SUCCESS)?;
    raw.synchronize()?;
    Ok(launch(&executable, &stream)?)
}

fn memory_goes_with_its_executable(environment: &Environment) -> Verdict {
    let (stream, raw) = (environment.stream()?, Raw::new(environment)?);
    let (graph, address) = leaves(environment)?;
    for _ in 0..2 {
        launch(&graph.instantiate()?, &stream)?;
        quiesce(environment)?;
        equal("freeing it again", free(&raw, address), Status::INVALID_VALUE)?;
    }
    Ok(())
}

fn memory_freed_by_another_graph(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (graph, address) = leaves(environment)?;
    // SAFETY: the launches below determine when the memory is allocated.
    let freeing = graph_of(environment, unsafe { NodeWork::free(address) })?;
    let (executable, freeing) = (graph.instantiate()?, freeing.instantiate()?);
    refused("freeing what is not allocated", freeing.launch(&stream), Status::INVALID_VALUE)?;
    for _ in 0..2 {
        executable.launch(&stream)?;
        refused("allocating what is allocated", executable.launch(&stream), Status::INVALID_VALUE)?;
        freeing.launch(&stream)?;
        refused("freeing it twice", freeing.launch(&stream), Status::INVALID_VALUE)?;
    }
    Ok(stream.synchronize()?)
}

fn memory_outlives_its_executable(environment: &Environment) -> Verdict {
    let (stream, raw, graph) = (environment.stream()?, Raw::new(environment)?, RawGraph::new(environment)?);
    let device = environment.device().ordinal();
    let node = AllocationNode { device, bytes: 4096, access: Vec::new(), address: DevicePointer::NULL };
    graph.must_add(&[], NodeParameters::Allocate(node))?;
    let address = match graph.parameters(0)? {
        Ok(NodeParameters::Allocate(node)) => node.address,
        other => return Err(Failed(format!("the node is {other:?}"))),
    };
    let first = graph.must_instantiate()?;
    equal("the first launch", first.launch(&stream), Status::SUCCESS)?;
    stream.synchronize()?;
    drop(first);
    let second = graph.must_instantiate()?;
    equal("the launch of another", second.launch(&stream), Status::INVALID_VALUE)?;
    equal("freeing it", free(&raw, address), Status::SUCCESS)?;
    raw.synchronize()?;
    equal("the launch after that", second.launch(&stream), Status::SUCCESS)?;
    stream.synchronize()?;
    drop(second);
    equal("freeing it after the executable graph was destroyed", free(&raw, address), Status::SUCCESS)?;
    raw.synchronize()
}

const USED: GraphMemoryAttribute = GraphMemoryAttribute::UsedCurrent;
const RESERVED: GraphMemoryAttribute = GraphMemoryAttribute::ReservedCurrent;

fn memory_attributes(environment: &Environment) -> Verdict {
    const BYTES: u64 = 4 << 20;
    let (stream, raw, device) = (environment.stream()?, Raw::new(environment)?, environment.device());
    quiesce(environment)?;
    device.trim_graph_memory()?;
    let numbers =
        || -> Result<[u64; 2]> { Ok([device.graph_memory_attribute(USED)?, device.graph_memory_attribute(RESERVED)?]) };
    let before = numbers()?;
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (_, memory): (_, Buffer<u8>) = unsafe { graph.add_allocation((), BYTES as usize) }?;
    let executable = graph.instantiate()?;
    equal("before a launch", numbers()?, before)?;
    launch(&executable, &stream)?;
    let after = numbers()?;
    holds("a launch uses memory", after[0] >= before[0] + BYTES && after[1] >= before[1] + BYTES)?;
    for (high, current) in [(GraphMemoryAttribute::UsedHigh, after[0]), (GraphMemoryAttribute::ReservedHigh, after[1])]
    {
        holds(&format!("{high:?} is no less"), device.graph_memory_attribute(high)? >= current)?;
    }
    device.trim_graph_memory()?;
    holds("what is allocated is not trimmed", numbers()?[1] >= before[1] + BYTES)?;
    equal("freeing it", free(&raw, memory.device_pointer()), Status::SUCCESS)?;
    raw.synchronize()?;
    equal("freed, and retained for the next launch", numbers()?, after)?;
    device.trim_graph_memory()?;
    equal("freed and trimmed", numbers()?, before)?;
    launch(&executable, &stream)?;
    equal("freeing it again", free(&raw, memory.device_pointer()), Status::SUCCESS)?;
    raw.synchronize()
}

fn memory_high_water_marks_are_reset(environment: &Environment) -> Verdict {
    let device = environment.device();
    quiesce(environment)?;
    for (high, current) in [(GraphMemoryAttribute::UsedHigh, USED), (GraphMemoryAttribute::ReservedHigh, RESERVED)] {
        device.reset_graph_memory_high(high)?;
        equal("the high-water mark", device.graph_memory_attribute(high)?, device.graph_memory_attribute(current)?)?;
        refused("the current value", device.reset_graph_memory_high(current), Status::INVALID_VALUE)?;
    }
    Ok(())
}

/// What the first launch of a graph that allocates so many bytes adds to an attribute.
fn added(environment: &Environment, bytes: usize, attribute: GraphMemoryAttribute) -> Result<u64, Failed> {
    let (stream, raw, device) = (environment.stream()?, Raw::new(environment)?, environment.device());
    quiesce(environment)?;
    device.trim_graph_memory()?;
    let before = device.graph_memory_attribute(attribute)?;
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (_, memory): (_, Buffer<u8>) = unsafe { graph.add_allocation((), bytes) }?;
    let executable = graph.instantiate()?;
    launch(&executable, &stream)?;
    let after = device.graph_memory_attribute(attribute)?;
    equal("freeing it", free(&raw, memory.device_pointer()), Status::SUCCESS)?;
    raw.synchronize()?;
    Ok(after - before)
}

fn memory_is_used_in_units(environment: &Environment) -> Verdict {
    for bytes in [1, 1000, (4 << 20) + 1] {
        equal(&format!("used with {bytes} bytes"), added(environment, bytes, USED)?, 32 << 20)?;
    }
    Ok(())
}

fn memory_is_reserved_in_units(environment: &Environment) -> Verdict {
    const UNIT: u64 = 32 << 20;
    for (bytes, reserved) in [(1, UNIT), (UNIT as usize, UNIT), (UNIT as usize + 1, 2 * UNIT)] {
        equal(&format!("reserved with {bytes} bytes"), added(environment, bytes, RESERVED)?, reserved)?;
    }
    Ok(())
}

fn memory_lists_no_access_of_its_own_device(environment: &Environment) -> Verdict {
    let graph = RawGraph::new(environment)?;
    let device = environment.device().ordinal();
    let node = AllocationNode { device, bytes: 64, access: vec![device], address: DevicePointer::NULL };
    graph.must_add(&[], NodeParameters::Allocate(node))?;
    match graph.parameters(0)? {
        Ok(NodeParameters::Allocate(found)) => equal("access", (found.device, found.access), (device, Vec::new())),
        other => Err(Failed(format!("the node is {other:?}"))),
    }
}
