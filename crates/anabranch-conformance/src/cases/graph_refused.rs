//! Nodes that are refused, and the reasons.

use super::graph_tools::{graph_of, raw_digit, refuses, refuses_after, single_row};
use super::memory_raw::{GARBAGE, HUGE};
use crate::case::{Case, Verdict, equal, refused};
use crate::environment::Environment;
use anabranch::hal::{Copy3d, DeviceOrdinal, Value};
use anabranch::{
    AllocationNode, Buffer, ConditionalHandle, ConditionalKind, ConditionalNode, ContextFlags, DevicePointer,
    EventHandle, FillNode, FillPattern, FunctionHandle, GraphHandle, KernelNode, NodeParameters, NodeWork, Status,
    ValueOperation, WriteValueFlags,
};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.kernel_node_refused", "G1", kernel_node_refused),
    Case::new("graph.kernel_node_without_arguments", "G1", kernel_node_without_arguments),
    Case::new("graph.copy_node_refused", "G1", copy_node_refused),
    Case::new("graph.copy_node_of_overlapping_rows", "G1", copy_node_of_overlapping_rows),
    Case::new("graph.fill_node_refused", "G1", fill_node_refused),
    Case::new("graph.fill_node_of_rows_refused", "G1", fill_node_of_rows_refused),
    Case::new("graph.nodes_of_no_event", "G1", nodes_of_no_event),
    Case::new("graph.child_refused", "G1", child_refused),
    Case::new("graph.value_operations_of_none", "G1", value_operations_of_none),
    Case::new("graph.value_operations_too_many", "G1", value_operations_too_many),
    Case::new("graph.allocation_refused", "M4", allocation_refused),
    Case::new("graph.free_refused", "M4", free_refused),
    Case::new("graph.free_twice", "M4", free_twice),
    Case::new("graph.conditional_with_other_bodies", "G1", conditional_with_other_bodies),
    Case::new("graph.conditional_value_refused", "G1", conditional_value_refused),
    Case::new("graph.work_of_another_context", "G8", work_of_another_context),
];

fn kernel_node_refused(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let word = stream.allocate_zeroed::<u32>(1)?;
    let (mut graph, good) = (environment.context().create_graph()?, raw_digit(environment, word.device_pointer(), 1)?);
    let mut ask =
        |what: &str, node: KernelNode, status| refuses(what, &mut graph, NodeParameters::Kernel(node), status);
    ask("no function", KernelNode { function: FunctionHandle::from_raw(0), ..good.clone() }, Status::INVALID_HANDLE)?;
    ask("a grid without blocks", KernelNode { grid: [0, 1, 1], ..good.clone() }, Status::INVALID_VALUE)?;
    ask("too large a block", KernelNode { block: [2048, 1, 1], ..good.clone() }, Status::INVALID_VALUE)?;
    let much = KernelNode { dynamic_shared_bytes: 1 << 20, ..good };
    ask("too much shared memory", much, Status::INVALID_VALUE)
}

fn kernel_node_without_arguments(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let word = stream.allocate_zeroed::<u32>(1)?;
    let node = raw_digit(environment, word.device_pointer(), 1)?;
    let node = KernelNode { arguments: Vec::new(), ranges: Vec::new(), ..node };
    let mut graph = environment.context().create_graph()?;
    refuses("no arguments", &mut graph, NodeParameters::Kernel(node), Status::INVALID_VALUE)
}

fn two_words(environment: &Environment) -> anabranch::Result<(Buffer<u32>, Buffer<u32>)> {
    let stream = environment.stream()?;
    Ok((stream.allocate_zeroed(16)?, stream.allocate_zeroed(16)?))
}

fn copy_node_refused(environment: &Environment) -> Verdict {
    let (to, from) = two_words(environment)?;
    let (to, from) = (to.device_pointer(), from.device_pointer());
    let mut graph = environment.context().create_graph()?;
    let mut ask = |what: &str, to: DevicePointer, from: DevicePointer, extent: [usize; 3]| {
        let copy = Copy3d { source: single_row(from, 64), destination: single_row(to, 64), extent };
        refuses(what, &mut graph, NodeParameters::Copy(copy), Status::INVALID_VALUE)
    };
    ask("no bytes", to, from, [0, 1, 1])?;
    ask("no rows", to, from, [64, 0, 1])?;
    ask("no slices", to, from, [64, 1, 0])?;
    ask("to nowhere", DevicePointer::NULL, from, [64, 1, 1])?;
    ask("no bytes to nowhere", DevicePointer::NULL, from, [0, 1, 1])?;
    let copy = NodeWork::copy::<u32>(
        environment.stream()?.allocate_zeroed::<u32>(2)?.slice_mut(..0)?,
        environment.stream()?.allocate_zeroed::<u32>(2)?.slice(..0)?,
    );
    refused("nothing", copy.map(drop), Status::INVALID_VALUE)
}

fn copy_node_of_overlapping_rows(environment: &Environment) -> Verdict {
    let (to, from) = two_words(environment)?;
    let mut graph = environment.context().create_graph()?;
    let copy = Copy3d {
        source: single_row(from.device_pointer(), 8),
        destination: single_row(to.device_pointer(), 8),
        extent: [16, 2, 1],
    };
    refuses("rows wider than the pitch", &mut graph, NodeParameters::Copy(copy), Status::INVALID_VALUE)
}

fn fill_node_refused(environment: &Environment) -> Verdict {
    let (buffer, _other) = two_words(environment)?;
    let address = buffer.device_pointer();
    let mut graph = environment.context().create_graph()?;
    let good = FillNode { address, pitch: 0, pattern: FillPattern::U32(1), width: 4, height: 1 };
    let mut ask =
        |what: &str, fill: FillNode| refuses(what, &mut graph, NodeParameters::Fill(fill), Status::INVALID_VALUE);
    ask("no elements", FillNode { width: 0, ..good })?;
    ask("no rows", FillNode { height: 0, ..good })?;
    ask("nowhere", FillNode { address: DevicePointer::NULL, ..good })?;
    ask("64 bits", FillNode { pattern: FillPattern::U64(1), ..good })?;
    let odd = DevicePointer(address.0 + 1);
    ask("not aligned", FillNode { address: odd, pattern: FillPattern::U16(1), ..good })?;
    refused(
        "nothing",
        NodeWork::fill_zero(&mut environment.stream()?.upload::<u32>(&[])?).map(drop),
        Status::INVALID_VALUE,
    )
}

fn fill_node_of_rows_refused(environment: &Environment) -> Verdict {
    let (buffer, _other) = two_words(environment)?;
    let mut graph = environment.context().create_graph()?;
    for (what, pitch) in [("no pitch", 0), ("rows that overlap", 8), ("rows that are not aligned", 18)] {
        let address = buffer.device_pointer();
        let fill = FillNode { address, pitch, pattern: FillPattern::U32(1), width: 4, height: 2 };
        refuses(what, &mut graph, NodeParameters::Fill(fill), Status::INVALID_VALUE)?;
    }
    Ok(())
}

fn nodes_of_no_event(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    let (record, wait) =
        (NodeParameters::EventRecord(EventHandle::from_raw(0)), NodeParameters::EventWait(EventHandle::from_raw(0)));
    refuses("recording", &mut graph, record, Status::INVALID_VALUE)?;
    refuses("waiting", &mut graph, wait, Status::INVALID_VALUE)
}

fn child_refused(environment: &Environment) -> Verdict {
    let context = environment.context();
    let mut graph = context.create_graph()?;
    refuses("no graph", &mut graph, NodeParameters::Child(GraphHandle::from_raw(0)), Status::INVALID_VALUE)?;
    let mut allocating = context.create_graph()?;
    // SAFETY: nothing reads the memory.
    let (node, memory) = unsafe { allocating.add_allocation::<u32>((), 4) }?;
    // SAFETY: nothing uses the memory.
    unsafe { allocating.add_free(node, memory) }?;
    refused("one that allocates", graph.add((), NodeWork::child(&allocating)), Status::NOT_SUPPORTED)?;
    let mut deciding = context.create_graph()?;
    let value = deciding.create_conditional(Some(1))?;
    deciding.add_conditional((), value, ConditionalKind::If, 1)?;
    refused("one with a conditional node", graph.add((), NodeWork::child(&deciding)), Status::NOT_SUPPORTED)?;
    equal("nodes", graph.nodes()?.len(), 0)
}

fn value_operations_of_none(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    // SAFETY: there is no address.
    let graph = graph_of(environment, unsafe { NodeWork::value_operations(Vec::new()) })?;
    Ok(super::graph_tools::run(&graph, &stream)?)
}

fn value_operations_too_many(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let word = environment.context().allocate_zeroed::<u32>(&stream, 1)?;
    let mut graph = environment.context().create_graph()?;
    for count in [256, 257] {
        let write = ValueOperation::Write {
            address: word.device_pointer(),
            value: Value::U32(1),
            flags: WriteValueFlags::empty(),
        };
        let many = NodeParameters::ValueOperations(vec![write; count]);
        refuses(&format!("{count} operations"), &mut graph, many, Status::INVALID_VALUE)?;
    }
    Ok(())
}

fn allocation_refused(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    let good = AllocationNode {
        device: environment.device().ordinal(),
        bytes: 4096,
        access: Vec::new(),
        address: DevicePointer::NULL,
    };
    let mut ask =
        |what: &str, node: AllocationNode, status| refuses(what, &mut graph, NodeParameters::Allocate(node), status);
    ask("no bytes", AllocationNode { bytes: 0, ..good.clone() }, Status::INVALID_VALUE)?;
    ask("too many bytes", AllocationNode { bytes: HUGE, ..good.clone() }, Status::OUT_OF_MEMORY)?;
    ask("a missing device", AllocationNode { device: DeviceOrdinal(99), ..good }, Status::INVALID_VALUE)
}

fn free_refused(environment: &Environment) -> Verdict {
    let (stream, mut graph) = (environment.stream()?, environment.context().create_graph()?);
    let plain = environment.context().allocate_zeroed::<u32>(&stream, 4)?;
    let ordered = stream.allocate_zeroed::<u32>(4)?;
    stream.synchronize()?;
    for (what, address) in [
        ("plain memory", plain.device_pointer()),
        ("memory allocated in stream order", ordered.device_pointer()),
        ("nothing", DevicePointer::NULL),
        ("an unknown address", GARBAGE),
    ] {
        refuses(what, &mut graph, NodeParameters::Free(address), Status::INVALID_VALUE)?;
    }
    // SAFETY: nothing reads the memory.
    let (node, memory) = unsafe { graph.add_allocation::<u32>((), 16) }?;
    let inside = NodeParameters::Free(DevicePointer(memory.device_pointer().0 + 16));
    refuses_after("the middle", &mut graph, node, inside, Status::INVALID_VALUE)
}

fn free_twice(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (node, memory) = unsafe { graph.add_allocation::<u32>((), 16) }?;
    let address = memory.device_pointer();
    // SAFETY: nothing uses the memory.
    let free = unsafe { graph.add_free(node, memory) }?;
    let again = || NodeParameters::Free(address);
    refuses_after("after the first", &mut graph, free, again(), Status::INVALID_VALUE)?;
    refuses_after("beside the first", &mut graph, node, again(), Status::INVALID_VALUE)
}

fn conditional_with_other_bodies(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    let value = graph.create_conditional(Some(1))?;
    for (kind, count) in [
        (ConditionalKind::If, 0),
        (ConditionalKind::If, 3),
        (ConditionalKind::While, 0),
        (ConditionalKind::While, 2),
        (ConditionalKind::Switch, 0),
    ] {
        let what = format!("{kind:?} with {count}");
        refused(&what, graph.add_conditional((), value, kind, count), Status::INVALID_VALUE)?;
    }
    equal("nodes", graph.nodes()?.len(), 0)?;
    graph.add_conditional((), value, ConditionalKind::Switch, 5)?;
    equal("nodes", graph.nodes()?.len(), 1)
}

fn conditional_value_refused(environment: &Environment) -> Verdict {
    let (mut graph, mut other) = (environment.context().create_graph()?, environment.context().create_graph()?);
    let theirs = other.create_conditional(Some(1))?;
    let kind = ConditionalKind::If;
    refused("another graph's", graph.add_conditional((), theirs, kind, 1), Status::INVALID_VALUE)?;
    // The driver numbers the values of each graph separately. It detects this only if the graph has no value with that
    // number.
    let node =
        |handle| NodeParameters::Conditional(ConditionalNode { handle, kind, body_count: 1, bodies: Vec::new() });
    refuses("another graph's, for the driver", &mut graph, node(theirs.as_raw()), Status::INVALID_VALUE)?;
    refuses("none", &mut graph, node(ConditionalHandle(0)), Status::INVALID_VALUE)?;
    let mine = graph.create_conditional(Some(1))?;
    graph.add_conditional((), mine, kind, 1)?;
    refused("one that has a node", graph.add_conditional((), mine, kind, 1), Status::INVALID_VALUE)?;
    equal("nodes", graph.nodes()?.len(), 1)
}

/// The driver accepts most of this. In this library, a graph belongs to one context.
fn work_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (stream, near) = (other.create_stream()?, environment.stream()?.upload(&[1u32])?);
    let mut far = stream.allocate_zeroed::<u32>(1)?;
    let event = other.create_event()?;
    let mut graph = environment.context().create_graph()?;
    refused("memory", graph.add((), NodeWork::fill(&mut far, 1u32)?), Status::INVALID_HANDLE)?;
    refused("both", graph.add((), NodeWork::copy(&mut far, &near)?), Status::INVALID_HANDLE)?;
    refused("an event", graph.add((), NodeWork::event_record(&event)), Status::INVALID_HANDLE)?;
    let child = other.create_graph()?;
    refused("a child", graph.add((), NodeWork::child(&child)), Status::INVALID_HANDLE)?;
    equal("nodes", graph.nodes()?.len(), 0)
}
