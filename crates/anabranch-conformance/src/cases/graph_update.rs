//! Updates of whole graphs, and the reasons why they are refused.

use super::capture_tools::capture;
use super::graph_tools::{chain, digit, graph_of, launch, note, raw_digit, single_row, word};
use super::order_tools::Log;
use crate::case::{Case, Failed, Need, Verdict, equal};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::kernels;
use anabranch::hal::{Copy3d, Value};
use anabranch::{
    Buffer, Capabilities, CaptureMode, ContextFlags, EdgeData, ExecutableGraph, FillNode, FillPattern, Graph,
    GraphEdge, GraphUpdateResult, KernelNode, Node, NodeParameters, NodeWork, Region, Status, ValueOperation, Volume,
    VolumeMut, WriteValueFlags,
};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.update_counts_from_the_next_launch", "G3", update_counts_from_the_next_launch),
    Case::new("graph.update_from_its_own_graph", "G3", update_from_its_own_graph),
    Case::new("graph.update_of_every_kind", "G3", update_of_every_kind),
    Case::new("graph.update_of_what_owns_something", "G3", update_of_what_owns_something),
    Case::new("graph.update_of_memory_of_another_graph", "G3", update_of_memory_of_another_graph)
        .needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
    Case::new("graph.update_of_nodes", "G3", update_of_nodes),
    Case::new("graph.update_of_edges", "G3", update_of_edges),
    Case::new("graph.update_of_a_kind", "G3", update_of_a_kind),
    Case::new("graph.update_of_a_kernel", "G3", update_of_a_kernel),
    Case::new("graph.update_of_a_kernel_of_another_context", "G3", update_of_a_kernel_of_another_context),
    Case::new("graph.update_of_copies", "G3", update_of_copies),
    Case::new("graph.update_of_captured_copies", "G3", update_of_captured_copies),
    Case::new("graph.update_of_fills", "G3", update_of_fills),
    Case::new("graph.update_of_a_child", "G3", update_of_a_child),
    Case::new("graph.update_of_value_operations", "G3", update_of_value_operations),
    Case::new("graph.update_refused_changes_nothing", "G3", update_refused_changes_nothing),
    Case::new(
        "graph.update_refused_for_parameters_changes_nothing",
        "G3",
        update_refused_for_parameters_changes_nothing,
    ),
    Case::new("graph.update_orders_new_buffers", "G3", update_orders_new_buffers),
];

/// Checks that an update is refused with `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)` and the given reason.
fn update_refused(
    what: &str,
    executable: &ExecutableGraph,
    graph: &Graph,
    result: GraphUpdateResult,
) -> Result<Option<Node>, Failed> {
    match executable.update(graph) {
        Ok(()) => Err(Failed(format!("{what}: the update succeeded"))),
        Err(error) => {
            equal(what, error.error().status(), Status::GRAPH_EXEC_UPDATE_FAILURE)?;
            equal(&format!("{what}: the reason"), error.result(), result)?;
            Ok(error.node())
        }
    }
}

/// Checks that an update from a graph of one node is refused because of that node.
fn refused_for_its_node(what: &str, executable: &ExecutableGraph, graph: &Graph, result: GraphUpdateResult) -> Verdict {
    let node = update_refused(what, executable, graph, result)?;
    equal(&format!("{what}: the node"), node, graph.nodes()?.first().copied())
}

fn update_counts_from_the_next_launch(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let executable = graph_of(environment, note(&log, 1))?.instantiate()?;
    let other = graph_of(environment, note(&log, 2))?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    executable.update(&other)?;
    executable.launch(&stream)?;
    gate.open();
    stream.synchronize()?;
    equal("what ran", log.numbers(), vec![1, 2])?;
    drop(other);
    launch(&executable, &stream)?;
    equal("what runs from now on", log.numbers(), vec![1, 2, 2])
}

fn update_from_its_own_graph(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let nodes = chain(&mut graph, [digit(environment, &mut word, 1)?, digit(environment, &mut word, 2)?])?;
    let executable = graph.instantiate()?;
    executable.update(&graph)?;
    graph.set_node(nodes[1], digit(environment, &mut word, 3)?)?;
    executable.update(&graph)?;
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![13])
}

fn update_of_every_kind(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let (context, other) = (environment.context(), stream.upload(&[0u32])?);
    let log = Log::default();
    let mut make = |number: u32| -> anabranch::Result<Graph> {
        let (event, signal) = (context.create_event()?, context.create_signal()?);
        let child = graph_of(environment, note(&log, number))?;
        let mut graph = context.create_graph()?;
        let works = [
            NodeWork::copy(&mut word, &other)?,
            digit(environment, &mut word, number)?,
            NodeWork::empty(),
            note(&log, number),
            NodeWork::event_record(&event),
            NodeWork::event_wait(&event),
            NodeWork::write_signal(&signal, u64::from(number)),
        ];
        let nodes = chain(&mut graph, works)?;
        graph.add(nodes[6], NodeWork::child(&child))?;
        Ok(graph)
    };
    let executable = make(1)?.instantiate()?;
    launch(&executable, &stream)?;
    executable.update(&make(2)?)?;
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![2])?;
    equal("what ran", log.numbers(), vec![1, 1, 2, 2])
}

fn update_of_what_owns_something(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context());
    let mut graph = context.create_graph()?;
    // SAFETY: nothing reads the memory.
    let (node, memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    // SAFETY: nothing uses the memory.
    unsafe { graph.add_free(node, memory) }?;
    let executable = graph.instantiate()?;
    executable.update(&graph)?;
    launch(&executable, &stream)?;
    let mut graph = context.create_graph()?;
    let value = graph.create_conditional(Some(0))?;
    graph.add_conditional((), value, anabranch::ConditionalKind::If, 1)?;
    let executable = graph.instantiate()?;
    executable.update(&graph)?;
    Ok(launch(&executable, &stream)?)
}

fn update_of_memory_of_another_graph(environment: &Environment) -> Verdict {
    let (stream, mut result) = word(environment)?;
    let mut capture = |value: u32| {
        stream.capture(CaptureMode::Relaxed, |scope| {
            let mut memory = scope.allocate_zeroed::<u32>(1)?;
            scope.fill(&mut memory, value)?;
            scope.copy(&mut result, &memory)
        })
    };
    let (first, second) = (capture(1)?, capture(2)?);
    let executable = first.instantiate()?;
    update_refused("the graph of other memory", &executable, &second, GraphUpdateResult::ERROR)?;
    drop(second);
    launch(&executable, &stream)?;
    equal("what was copied", stream.download(&result)?, vec![1])
}

fn empties(environment: &Environment, count: usize) -> anabranch::Result<Graph> {
    let (_, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    for _ in 0..count {
        graph.add((), digit(environment, &mut word, 1)?)?;
    }
    Ok(graph)
}

fn update_of_nodes(environment: &Environment) -> Verdict {
    let changed = GraphUpdateResult::TOPOLOGY_CHANGED;
    for (what, before, after) in [("a node more", 1, 2), ("a node less", 2, 1), ("none left", 1, 0)] {
        let executable = empties(environment, before)?.instantiate()?;
        let node = update_refused(what, &executable, &empties(environment, after)?, changed)?;
        equal(&format!("{what}: the node"), node, None)?;
        launch(&executable, &environment.stream()?)?;
    }
    Ok(())
}

fn update_of_edges(environment: &Environment) -> Verdict {
    let (apart, mut joined) = (empties(environment, 2)?, empties(environment, 2)?);
    let nodes = joined.nodes()?;
    joined.add_edges(&[GraphEdge { from: nodes[0], to: nodes[1], data: EdgeData::default() }])?;
    let changed = GraphUpdateResult::TOPOLOGY_CHANGED;
    update_refused("an edge more", &apart.instantiate()?, &joined, changed)?;
    update_refused("an edge less", &joined.instantiate()?, &apart, changed)?;
    Ok(())
}

fn update_of_a_kind(environment: &Environment) -> Verdict {
    let (_, mut word) = word(environment)?;
    let executable = graph_of(environment, digit(environment, &mut word, 1)?)?.instantiate()?;
    let other = graph_of(environment, NodeWork::fill(&mut word, 1u32)?)?;
    update_refused("a fill for a kernel", &executable, &other, GraphUpdateResult::NODE_KIND_CHANGED)?;
    Ok(())
}

fn update_of_a_kernel(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let executable = graph_of(environment, digit(environment, &mut word, 1)?)?.instantiate()?;
    let good = raw_digit(environment, word.device_pointer(), 3)?;
    // SAFETY: the number outlives the launch.
    let other = unsafe { NodeWork::from_parameters(NodeParameters::Kernel(KernelNode { grid: [2, 1, 1], ..good })) };
    executable.update(&graph_of(environment, other)?)?;
    let store = environment.kernel("store")?;
    // SAFETY: `store` writes only the number that its first argument points to.
    let other = unsafe { NodeWork::kernel(&store, &super::graph_tools::one(), (&mut word, 9u32)) }?;
    executable.update(&graph_of(environment, other)?)?;
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![9])
}

fn update_of_a_kernel_of_another_context(environment: &Environment) -> Verdict {
    let context = environment.device().create_context(ContextFlags::empty())?;
    let module = kernels::program().load(&context)?;
    let mut far = context.create_stream()?.allocate_zeroed::<u32>(1)?;
    let mut other = context.create_graph()?;
    // SAFETY: it is never launched.
    unsafe {
        other.add_kernel((), &module.kernel("add")?, &super::graph_tools::one(), (&mut far, 10u32, 1u32))?;
    }
    let (_, mut word) = word(environment)?;
    let executable = graph_of(environment, digit(environment, &mut word, 1)?)?.instantiate()?;
    let reason = GraphUpdateResult::UNSUPPORTED_FUNCTION_CHANGE;
    refused_for_its_node("a kernel of another context", &executable, &other, reason)
}

/// A graph of one node with driver-level parameters.
fn raw(environment: &Environment, parameters: NodeParameters) -> anabranch::Result<Graph> {
    // SAFETY: it is launched only while the objects that the parameters refer to exist.
    graph_of(environment, unsafe { NodeWork::from_parameters(parameters) })
}

fn update_of_copies(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (to, from): (Buffer<u8>, Buffer<u8>) = (stream.allocate_zeroed(1024)?, stream.allocate_zeroed(1024)?);
    let pinned = environment.context().allocate_pinned::<u8>(1024)?;
    stream.synchronize()?;
    let (to, from) = (to.device_pointer(), from.device_pointer());
    let copy = |bytes, rows| {
        let (mut source, mut destination) = (single_row(from, 256), single_row(to, 256));
        (source.height, destination.height) = (rows, rows);
        Copy3d { source, destination, extent: [bytes, rows, 1] }
    };
    let host = |mut copy: Copy3d, source: bool, destination: bool| {
        for (end, host) in [(&mut copy.source, source), (&mut copy.destination, destination)] {
            if host {
                (end.address, end.host) = (pinned.device_pointer().0, true);
            }
        }
        copy
    };
    let graph = |copy| raw(environment, NodeParameters::Copy(copy));
    let flat = graph(copy(64, 1))?.instantiate()?;
    flat.update(&graph(copy(128, 1))?)?;
    launch(&flat, &stream)?;
    let changed = GraphUpdateResult::PARAMETERS_CHANGED;
    refused_for_its_node("from the host", &flat, &graph(host(copy(64, 1), true, false))?, changed)?;
    refused_for_its_node("several rows", &flat, &graph(copy(64, 4))?, changed)?;
    let rows = graph(copy(64, 2))?.instantiate()?;
    refused_for_its_node("more rows", &rows, &graph(copy(64, 4))?, changed)?;
    let down = graph(host(copy(64, 1), false, true))?.instantiate()?;
    refused_for_its_node("the other way", &down, &graph(host(copy(64, 1), true, false))?, changed)?;
    launch(&flat, &stream)?;
    Ok(launch(&rows, &stream)?)
}

/// No context is current on this thread, unless another library makes one so.
fn update_of_captured_copies(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context());
    let device = stream.upload(&[1u32, 2, 3, 4])?;
    let (mut other, mut rows) = (stream.allocate_zeroed::<u32>(4)?, context.allocate_pinned::<u32>(4)?);
    let mut pinned = context.allocate_pinned::<u32>(4)?;
    let region = Region { extent: [1, 2, 1], ..Region::default() };
    let graph = capture(&stream, CaptureMode::Relaxed, || {
        stream.copy(&mut other, &device)?;
        stream.copy(&mut pinned, &other)?;
        stream.copy_region(VolumeMut::new(&mut rows, 2, 2), Volume::new(&device, 2, 2), &region)?;
        Ok(stream.copy(&mut other, &pinned)?)
    })?;
    let executable = graph.instantiate()?;
    for times in 0..3 {
        executable.update(&graph)?;
        launch(&executable, &stream)?;
        equal(&format!("what was copied {times} times"), pinned.read(<[u32]>::to_vec)?, vec![1, 2, 3, 4])?;
        equal("the first of each row", rows.read(<[u32]>::to_vec)?, vec![1, 0, 3, 0])?;
    }
    equal("what was copied back", stream.download(&other)?, vec![1, 2, 3, 4])
}

fn update_of_fills(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let buffer = stream.allocate_zeroed::<u32>(64)?;
    stream.synchronize()?;
    let fill = |value, width, height| {
        let pitch = if height > 1 { 64 } else { 0 };
        let pattern = FillPattern::U32(value);
        FillNode { address: buffer.device_pointer(), pitch, pattern, width, height }
    };
    let graph = |fill| raw(environment, NodeParameters::Fill(fill));
    let flat = graph(fill(1, 4, 1))?.instantiate()?;
    flat.update(&graph(fill(2, 4, 1))?)?;
    flat.update(&graph(fill(2, 8, 1))?)?;
    flat.update(&graph(FillNode { pattern: FillPattern::U8(3), width: 16, ..fill(0, 0, 1) })?)?;
    launch(&flat, &stream)?;
    equal(
        "what was filled",
        stream.download(buffer.slice(..5)?)?,
        vec![0x0303_0303; 4].into_iter().chain([0]).collect(),
    )?;
    let changed = GraphUpdateResult::PARAMETERS_CHANGED;
    refused_for_its_node("several rows", &flat, &graph(fill(1, 4, 2))?, changed)?;
    let rows = graph(fill(1, 4, 2))?.instantiate()?;
    rows.update(&graph(fill(2, 4, 2))?)?;
    refused_for_its_node("more rows", &rows, &graph(fill(1, 4, 3))?, changed)?;
    launch(&rows, &stream)?;
    let other = environment.device().create_context(ContextFlags::empty())?;
    let mut theirs = other.allocate_zeroed::<u32>(&other.create_stream()?, 4)?;
    let mut ours = environment.context().allocate_zeroed::<u32>(&stream, 4)?;
    let mut of_other = other.create_graph()?;
    of_other.add((), NodeWork::fill(&mut theirs, 1u32)?)?;
    let executable = graph_of(environment, NodeWork::fill(&mut ours, 1u32)?)?.instantiate()?;
    refused_for_its_node("a fill of another context", &executable, &of_other, changed)
}

fn update_of_a_child(environment: &Environment) -> Verdict {
    let (one, two) = (empties(environment, 1)?, empties(environment, 2)?);
    let executable = graph_of(environment, NodeWork::child(&one))?.instantiate()?;
    let other = graph_of(environment, NodeWork::child(&two))?;
    let node = update_refused("a node more", &executable, &other, GraphUpdateResult::TOPOLOGY_CHANGED)?;
    equal("the node", node, None)
}

fn update_of_value_operations(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    // The driver does not accept stream-ordered memory here.
    let words = environment.context().allocate_zeroed::<u64>(&stream, 2)?;
    stream.synchronize()?;
    let address = words.device_pointer();
    let write = |value| ValueOperation::Write { address, value, flags: WriteValueFlags::empty() };
    let graph = |operations: Vec<ValueOperation>| raw(environment, NodeParameters::ValueOperations(operations));
    let executable = graph(vec![write(Value::U32(5))])?.instantiate()?;
    executable.update(&graph(vec![write(Value::U32(6))])?)?;
    launch(&executable, &stream)?;
    equal("the value", stream.download(&words)?, vec![6, 0])?;
    let changed = GraphUpdateResult::PARAMETERS_CHANGED;
    let two = graph(vec![write(Value::U32(6)); 2])?;
    refused_for_its_node("an operation more", &executable, &two, changed)?;
    let wide = graph(vec![write(Value::U64(6))])?;
    refused_for_its_node("another operation", &executable, &wide, changed)
}

fn update_refused_changes_nothing(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    chain(&mut graph, [digit(environment, &mut word, 1)?, digit(environment, &mut word, 2)?])?;
    let executable = graph.instantiate()?;
    let mut other = environment.context().create_graph()?;
    chain(&mut other, [digit(environment, &mut word, 8)?, NodeWork::empty()])?;
    update_refused("another kind", &executable, &other, GraphUpdateResult::NODE_KIND_CHANGED)?;
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![12])
}

/// Whichever node is compared first: the one that differs, or one that could have been updated.
fn update_refused_for_parameters_changes_nothing(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let source = stream.upload(&[7u32])?;
    let mut copied = stream.allocate_zeroed::<u32>(1)?;
    let pinned = environment.context().allocate_pinned::<u32>(1)?;
    let changed = GraphUpdateResult::PARAMETERS_CHANGED;
    for is_copy_first in [true, false] {
        let mut graph = |copy, number| -> Result<Graph, Failed> {
            let mut works = [copy, digit(environment, &mut word, number)?];
            if !is_copy_first {
                works.reverse();
            }
            let mut graph = environment.context().create_graph()?;
            chain(&mut graph, works)?;
            Ok(graph)
        };
        let executable = graph(NodeWork::copy(&mut copied, &source)?, 1)?.instantiate()?;
        let other = graph(NodeWork::copy(&mut copied, &pinned)?, 2)?;
        update_refused("a copy from the host", &executable, &other, changed)?;
        drop(other);
        launch(&executable, &stream)?;
        equal("what was copied", stream.download(&copied)?, vec![7])?;
    }
    equal("the number", stream.download(&word)?, vec![11])
}

/// The library orders launches after uses of buffers that an update added.
fn update_orders_new_buffers(environment: &Environment) -> Verdict {
    let (stream, mut first) = word(environment)?;
    let (other, mut second) = word(environment)?;
    let executable = graph_of(environment, digit(environment, &mut first, 1)?)?.instantiate()?;
    executable.update(&graph_of(environment, digit(environment, &mut second, 2)?)?)?;
    let gate = Gate::shut(environment, &other)?;
    other.fill(&mut second, 1)?;
    executable.launch(&stream)?;
    equal("querying the launch's stream while the gate is shut", stream.query()?, false)?;
    gate.open();
    equal("the number", other.download(&second)?, vec![12])?;
    equal("the other number", stream.download(&first)?, vec![0])
}
