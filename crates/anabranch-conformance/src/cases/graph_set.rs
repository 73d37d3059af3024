//! Changing, disabling and enabling single nodes of executable graphs.

use super::graph_tools::{chain, digit, graph_of, launch, note, one, run, single_row, word};
use super::order_tools::Log;
use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::kernels;
use anabranch::hal::{Copy3d, CopyPlace};
use anabranch::{
    Buffer, Capabilities, ConditionalKind, ContextFlags, ExecutableGraph, FillNode, FillPattern, Graph, GraphNodeKind,
    Node, NodeParameters, NodeWork, Status, Stream, flush_deferred_drops,
};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case::new("graph.executable_node_counts_from_the_next_launch", "G3", counts_from_the_next_launch),
    Case::new("graph.executable_node_alone_is_changed", "G3", alone_is_changed),
    Case::new("graph.executable_node_of_every_kind", "G3", every_kind),
    Case::new("graph.executable_node_with_another_kernel", "G3", another_kernel),
    Case::new("graph.executable_node_of_another_graph", "G8", another_graph),
    Case::new("graph.executable_node_of_another_kind", "G3", another_kind),
    Case::new("graph.executable_copy_changed", "G3", copy_changed),
    Case::new("graph.executable_copy_of_other_memory", "G3", copy_of_other_memory)
        .needs(&[Need::Capability(Capabilities::MANAGED_MEMORY), Need::Capability(Capabilities::MEMORY_POOLS)]),
    Case::new("graph.executable_copy_of_rows", "G3", copy_of_rows),
    Case::new("graph.executable_fill_changed", "G3", fill_changed),
    Case::new("graph.executable_child_of_another_shape", "G3", child_of_another_shape),
    Case::new("graph.executable_child_that_can_be_none", "G3", child_that_can_be_none)
        .needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
    Case::new("graph.executable_node_retains_new_buffers", "G5", retains_new_buffers),
    Case::new("graph.enabled_at_first", "G4", enabled_at_first),
    Case::new("graph.disabled_kernel", "G4", disabled_kernel),
    Case::new("graph.disabled_copy_and_fill", "G4", disabled_copy_and_fill),
    Case::new("graph.disabled_node_keeps_the_order", "G4", disabled_node_keeps_the_order),
    Case::new("graph.disabled_from_the_next_launch", "G4", disabled_from_the_next_launch),
    Case::new("graph.disabled_kinds_refused", "G4", disabled_kinds_refused),
];

fn counts_from_the_next_launch(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), digit(environment, &mut word, 1)?)?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    executable.set_node(node, digit(environment, &mut word, 2)?)?;
    executable.launch(&stream)?;
    gate.open();
    equal("the number", stream.download(&word)?, vec![12])
}

fn alone_is_changed(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let nodes = chain(&mut graph, [digit(environment, &mut word, 1)?, digit(environment, &mut word, 2)?])?;
    let (changed, other) = (graph.instantiate()?, graph.instantiate()?);
    changed.set_node(nodes[1], digit(environment, &mut word, 5)?)?;
    launch(&changed, &stream)?;
    launch(&other, &stream)?;
    run(&graph, &stream)?;
    equal("the number", stream.download(&word)?, vec![151_212])
}

fn every_kind(environment: &Environment) -> Verdict {
    let (stream, context, log) = (environment.stream()?, environment.context(), Log::default());
    let (first, second) = (context.create_event()?, context.create_event()?);
    let signal = context.create_signal()?;
    let (child, other) = (graph_of(environment, note(&log, 1))?, graph_of(environment, note(&log, 4))?);
    let mut graph = context.create_graph()?;
    let host = graph.add((), note(&log, 2))?;
    let record = graph.add(host, NodeWork::event_record(&first))?;
    let wait = graph.add(record, NodeWork::event_wait(&first))?;
    let write = graph.add(wait, NodeWork::write_signal(&signal, 3))?;
    let inner = graph.add(write, NodeWork::child(&child))?;
    let executable = graph.instantiate()?;
    executable.set_node(host, note(&log, 5))?;
    executable.set_node(record, NodeWork::event_record(&second))?;
    executable.set_node(wait, NodeWork::event_wait(&second))?;
    executable.set_node(inner, NodeWork::child(&other))?;
    launch(&executable, &stream)?;
    equal("what ran", log.numbers(), vec![5, 4])?;
    holds("the event is complete", second.query()?)?;
    equal("the signal", signal.get(), 3)
}

fn another_kernel(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), digit(environment, &mut word, 1)?)?;
    let executable = graph.instantiate()?;
    // SAFETY: `store` writes only the number that its first argument points to.
    let store = unsafe { NodeWork::kernel(&environment.kernel("store")?, &one(), (&mut word, 8u32)) }?;
    executable.set_node(node, store)?;
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![8])?;
    let context = environment.device().create_context(ContextFlags::empty())?;
    let module = kernels::program().load(&context)?;
    let mut far = context.create_stream()?.allocate_zeroed::<u32>(1)?;
    // SAFETY: the driver or the library refuses the call.
    let far = unsafe { NodeWork::kernel(&module.kernel("add")?, &one(), (&mut far, 10u32, 1u32)) }?;
    refused("a kernel of another context", executable.set_node(node, far), Status::INVALID_HANDLE)?;
    launch(&executable, &stream)?;
    equal("the number afterwards", stream.download(&word)?, vec![8])
}

fn another_graph(environment: &Environment) -> Verdict {
    let (_, mut word) = word(environment)?;
    let (graph, other) = (
        graph_of(environment, digit(environment, &mut word, 1)?)?,
        graph_of(environment, digit(environment, &mut word, 1)?)?,
    );
    let (executable, theirs) = (graph.instantiate()?, other.nodes()?[0]);
    let invalid = Status::INVALID_VALUE;
    refused("replacing", executable.set_node(theirs, digit(environment, &mut word, 2)?), invalid)?;
    refused("switching off", executable.set_node_enabled(theirs, false), invalid)?;
    refused("asking", executable.is_node_enabled(theirs), invalid)?;
    let clone = graph.try_clone()?;
    let cloned = graph.find_in_clone(graph.nodes()?[0], &clone)?;
    refused("a clone's node", executable.set_node_enabled(cloned, false), invalid)
}

fn another_kind(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let event = environment.context().create_event()?;
    let mut graph = environment.context().create_graph()?;
    let kernel = graph.add((), digit(environment, &mut word, 1)?)?;
    let wait = graph.add(kernel, NodeWork::event_wait(&event))?;
    let executable = graph.instantiate()?;
    let invalid = Status::INVALID_VALUE;
    refused("a fill for a kernel", executable.set_node(kernel, NodeWork::fill(&mut word, 1u32)?), invalid)?;
    refused("a record for a wait", executable.set_node(wait, NodeWork::event_record(&event)), invalid)?;
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![1])
}

fn copy_changed(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let source = stream.upload(&[1u32, 2, 3, 4])?;
    let (mut first, mut second) = (stream.allocate_zeroed::<u32>(4)?, stream.allocate_zeroed::<u32>(4)?);
    let pinned = environment.context().allocate_pinned::<u32>(4)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::copy(&mut first, &source)?)?;
    let executable = graph.instantiate()?;
    executable.set_node(node, NodeWork::copy(first.slice_mut(..2)?, source.slice(2..)?)?)?;
    launch(&executable, &stream)?;
    equal("another size", stream.download(&first)?, vec![3, 4, 0, 0])?;
    executable.set_node(node, NodeWork::copy(&mut second, &source)?)?;
    launch(&executable, &stream)?;
    equal("another buffer", stream.download(&second)?, vec![1, 2, 3, 4])?;
    let invalid = Status::INVALID_VALUE;
    refused("from the host", executable.set_node(node, NodeWork::copy(&mut first, &pinned)?), invalid)?;
    let rows = Copy3d {
        source: single_row(source.device_pointer(), 8),
        destination: single_row(first.device_pointer(), 8),
        extent: [8, 2, 1],
    };
    let rows = Copy3d {
        source: CopyPlace { height: 2, ..rows.source },
        destination: CopyPlace { height: 2, ..rows.destination },
        ..rows
    };
    // SAFETY: the driver or the library refuses the call.
    let rows = unsafe { NodeWork::from_parameters(NodeParameters::Copy(rows)) };
    refused("several rows", executable.set_node(node, rows), invalid)?;
    launch(&executable, &stream)?;
    equal("the first buffer afterwards", stream.download(&first)?, vec![3, 4, 0, 0])
}

fn copy_of_other_memory(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context());
    let (plain, managed) = (context.allocate_zeroed::<u32>(&stream, 4)?, context.allocate_managed::<u32>(4)?);
    let (pooled, pooled_too) = (stream.upload(&[1u32, 2, 3, 4])?, stream.upload(&[5u32, 6, 7, 8])?);
    let mut to_plain = context.allocate_zeroed::<u32>(&stream, 4)?;
    let mut to_pooled = stream.allocate_zeroed::<u32>(4)?;
    stream.synchronize()?;
    let (mut graph, invalid) = (context.create_graph()?, Status::INVALID_VALUE);
    let node = graph.add((), NodeWork::copy(&mut to_plain, &plain)?)?;
    let executable = graph.instantiate()?;
    refused("from a pool", executable.set_node(node, NodeWork::copy(&mut to_plain, &pooled)?), invalid)?;
    refused("to a pool", executable.set_node(node, NodeWork::copy(&mut to_pooled, &plain)?), invalid)?;
    executable.set_node(node, NodeWork::copy(&mut to_plain, &managed)?)?;
    let other = graph_of(environment, NodeWork::copy(&mut to_plain, &pooled)?)?;
    let update = executable.update(&other).map_err(|refused| refused.error().status());
    equal("an update", update, Err(Status::GRAPH_EXEC_UPDATE_FAILURE))?;
    let mut graph = context.create_graph()?;
    let node = graph.add((), NodeWork::copy(&mut to_pooled, &pooled)?)?;
    let executable = graph.instantiate()?;
    refused("from no pool", executable.set_node(node, NodeWork::copy(&mut to_pooled, &plain)?), invalid)?;
    refused("from managed memory", executable.set_node(node, NodeWork::copy(&mut to_pooled, &managed)?), invalid)?;
    executable.set_node(node, NodeWork::copy(&mut to_pooled, &pooled_too)?)?;
    launch(&executable, &stream)?;
    equal("what was copied", stream.download(&to_pooled)?, vec![5, 6, 7, 8])
}

fn copy_of_rows(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (source, other) = (stream.upload(&[1u32, 2, 3, 4])?, stream.upload(&[5u32, 6, 7, 8])?);
    let target = stream.allocate_zeroed::<u32>(4)?;
    stream.synchronize()?;
    let copy = |from: &Buffer<u32>, rows| {
        let place = |address| CopyPlace { height: 2, ..single_row(address, 8) };
        let (source, destination) = (place(from.device_pointer()), place(target.device_pointer()));
        // SAFETY: the buffers outlive the launches.
        unsafe { NodeWork::from_parameters(NodeParameters::Copy(Copy3d { source, destination, extent: [8, rows, 1] })) }
    };
    let (mut graph, invalid) = (environment.context().create_graph()?, Status::INVALID_VALUE);
    let node = graph.add((), copy(&source, 2))?;
    let executable = graph.instantiate()?;
    refused("from another buffer", executable.set_node(node, copy(&other, 2)), invalid)?;
    refused("one row", executable.set_node(node, copy(&source, 1)), invalid)?;
    launch(&executable, &stream)?;
    equal("what was copied", stream.download(&target)?, vec![1, 2, 3, 4])
}

fn fill_changed(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (mut first, mut second) = (stream.allocate_zeroed::<u32>(4)?, stream.allocate_zeroed::<u32>(4)?);
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::fill(first.slice_mut(..2)?, 1u32)?)?;
    let executable = graph.instantiate()?;
    executable.set_node(node, NodeWork::fill(first.slice_mut(..3)?, 9u32)?)?;
    launch(&executable, &stream)?;
    equal("another value and width", stream.download(&first)?, vec![9, 9, 9, 0])?;
    executable.set_node(node, NodeWork::fill(&mut second, 2u32)?)?;
    launch(&executable, &stream)?;
    equal("another buffer", stream.download(&second)?, vec![2; 4])?;
    let fill = |pattern, width, height| {
        let parameters = FillNode { address: first.device_pointer(), pitch: 8, pattern, width, height };
        // SAFETY: the buffer outlives the launches.
        unsafe { NodeWork::from_parameters(NodeParameters::Fill(parameters)) }
    };
    executable.set_node(node, fill(FillPattern::U8(1), 16, 1))?;
    launch(&executable, &stream)?;
    equal("another element", stream.download(&first)?, vec![0x0101_0101; 4])?;
    let rows = fill(FillPattern::U32(5), 1, 2);
    refused("several rows", executable.set_node(node, rows), Status::INVALID_VALUE)
}

fn child_of_another_shape(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let (child, nothing) = (graph_of(environment, note(&log, 1))?, environment.context().create_graph()?);
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::child(&child))?;
    let executable = graph.instantiate()?;
    let refusal = executable.set_node(node, NodeWork::child(&nothing));
    refused("a child without nodes", refusal, Status::GRAPH_EXEC_UPDATE_FAILURE)?;
    launch(&executable, &stream)?;
    equal("what ran", log.numbers(), vec![1])
}

fn child_that_can_be_none(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let (mut graph, mut child) = (environment.context().create_graph()?, environment.context().create_graph()?);
    let node = graph.add((), digit(environment, &mut word, 1)?)?;
    let executable = graph.instantiate()?;
    refused("a kernel", executable.set_node(node, NodeWork::child(&child)), Status::INVALID_VALUE)?;
    // SAFETY: nothing uses the memory.
    let (_allocation, _memory) = unsafe { child.add_allocation::<u32>((), 1) }?;
    let refusal = executable.set_node(node, NodeWork::child(&child));
    refused("a child that allocates", refusal, Status::GRAPH_EXEC_UPDATE_FAILURE)?;
    launch(&executable, &stream)?;
    equal("the number", stream.download(&word)?, vec![1])
}

fn retains_new_buffers(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut result = stream.allocate_zeroed::<u32>(1000)?;
    let first = stream.upload(&[1u32; 1000])?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::copy(&mut result, &first)?)?;
    let executable = graph.instantiate()?;
    let second = stream.upload(&[2u32; 1000])?;
    executable.set_node(node, NodeWork::copy(&mut result, &second)?)?;
    drop((first, second, graph));
    stream.synchronize()?;
    let _others = [stream.upload(&[8u32; 1000])?, stream.upload(&[9u32; 1000])?];
    executable.launch(&stream)?;
    drop(executable);
    equal("what was copied", stream.download(&result)?, vec![2; 1000])
}

/// A graph of three nodes: a kernel that appends 1, a fill with 5, and a copy of the filled memory to `seen`.
fn three(environment: &Environment) -> anabranch::Result<(Graph, [Node; 3], [anabranch::Buffer<u32>; 3])> {
    let (stream, mut number) = word(environment)?;
    let (mut filled, mut seen) = (stream.upload(&[3u32])?, stream.upload(&[4u32])?);
    stream.synchronize()?;
    let mut graph = environment.context().create_graph()?;
    let kernel = graph.add((), digit(environment, &mut number, 1)?)?;
    let fill = graph.add(kernel, NodeWork::fill(&mut filled, 5u32)?)?;
    let copy = graph.add(fill, NodeWork::copy(&mut seen, &filled)?)?;
    Ok((graph, [kernel, fill, copy], [number, filled, seen]))
}

/// Launches a graph with a disabled node when the contexts of earlier cases are closed, beside which some devices refuse that.
fn launch_when_alone(executable: &ExecutableGraph, stream: &Stream) -> anabranch::Result<()> {
    for _ in 0..200 {
        match executable.launch(stream) {
            Err(error) if error.status() == Status::NOT_SUPPORTED => {
                flush_deferred_drops();
                std::thread::sleep(Duration::from_millis(5));
            }
            launched => return launched,
        }
    }
    executable.launch(stream)
}

/// Whether fill nodes can be disabled: some drivers lose the order of such graphs.
fn can_disable_fills(environment: &Environment) -> bool {
    environment.device().capabilities().contains(Capabilities::DISABLED_NODES_BESIDE_CONTEXTS)
}

fn enabled_at_first(environment: &Environment) -> Verdict {
    let (graph, nodes, _buffers) = three(environment)?;
    let executable = graph.instantiate()?;
    for node in nodes {
        holds("it is enabled", executable.is_node_enabled(node)?)?;
        if graph.node_kind(node)? == GraphNodeKind::FILL && !can_disable_fills(environment) {
            refused("a fill", executable.set_node_enabled(node, false), Status::NOT_SUPPORTED)?;
            holds("it is enabled as before", executable.is_node_enabled(node)?)?;
            continue;
        }
        executable.set_node_enabled(node, false)?;
        equal("it is enabled", executable.is_node_enabled(node)?, false)?;
        executable.set_node_enabled(node, true)?;
        holds("it is enabled again", executable.is_node_enabled(node)?)?;
    }
    Ok(())
}

fn disabled_kernel(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (graph, [kernel, ..], [number, ..]) = three(environment)?;
    let (executable, other) = (graph.instantiate()?, graph.instantiate()?);
    executable.set_node_enabled(kernel, false)?;
    launch_when_alone(&executable, &stream)?;
    equal("while it is off", stream.download(&number)?, vec![0])?;
    launch(&other, &stream)?;
    equal("in another executable", stream.download(&number)?, vec![1])?;
    executable.set_node_enabled(kernel, true)?;
    launch(&executable, &stream)?;
    equal("when it is on again", stream.download(&number)?, vec![11])
}

fn disabled_copy_and_fill(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (graph, [_, fill, copy], [_, filled, seen]) = three(environment)?;
    let executable = graph.instantiate()?;
    executable.set_node_enabled(copy, false)?;
    if !can_disable_fills(environment) {
        launch_when_alone(&executable, &stream)?;
        equal("with the copy off", (stream.download(&filled)?, stream.download(&seen)?), (vec![5], vec![4]))?;
        executable.set_node_enabled(copy, true)?;
        launch_when_alone(&executable, &stream)?;
        return equal("with none off", (stream.download(&filled)?, stream.download(&seen)?), (vec![5], vec![5]));
    }
    executable.set_node_enabled(fill, false)?;
    launch_when_alone(&executable, &stream)?;
    equal("with both off", (stream.download(&filled)?, stream.download(&seen)?), (vec![3], vec![4]))?;
    executable.set_node_enabled(copy, true)?;
    launch(&executable, &stream)?;
    equal("with the fill off", (stream.download(&filled)?, stream.download(&seen)?), (vec![3], vec![3]))?;
    executable.set_node_enabled(fill, true)?;
    launch(&executable, &stream)?;
    equal("with none off", (stream.download(&filled)?, stream.download(&seen)?), (vec![5], vec![5]))
}

fn disabled_node_keeps_the_order(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let log = Log::default();
    let mut graph = environment.context().create_graph()?;
    let nodes = chain(&mut graph, [note(&log, 1), digit(environment, &mut word, 1)?, note(&log, 2)])?;
    let executable = graph.instantiate()?;
    executable.set_node_enabled(nodes[1], false)?;
    for _ in 0..20 {
        launch_when_alone(&executable, &stream)?;
    }
    stream.synchronize()?;
    equal("the order", log.numbers(), [1, 2].repeat(20))
}

fn disabled_from_the_next_launch(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), digit(environment, &mut word, 1)?)?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    executable.set_node_enabled(node, false)?;
    launch_when_alone(&executable, &stream)?;
    gate.open();
    equal("how often it ran", stream.download(&word)?, vec![1])
}

fn disabled_kinds_refused(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let (event, signal, log) = (context.create_event()?, context.create_signal()?, Log::default());
    let child = graph_of(environment, note(&log, 1))?;
    let mut graph = context.create_graph()?;
    let works = [
        NodeWork::host_func(|| ()),
        NodeWork::child(&child),
        NodeWork::empty(),
        NodeWork::event_wait(&event),
        NodeWork::event_record(&event),
        NodeWork::write_signal(&signal, 1),
    ];
    let mut nodes = Vec::new();
    for work in works {
        nodes.push(graph.add((), work)?);
    }
    // SAFETY: nothing reads the memory.
    let (allocation, memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    // SAFETY: nothing uses the memory.
    let free = unsafe { graph.add_free(allocation, memory) }?;
    let value = graph.create_conditional(Some(0))?;
    let conditional = graph.add_conditional((), value, ConditionalKind::If, 1)?;
    nodes.extend([allocation, free, conditional]);
    let executable = graph.instantiate()?;
    for node in nodes {
        let what = graph.node_kind(node)?.to_string();
        refused(&what, executable.set_node_enabled(node, false), Status::INVALID_VALUE)?;
        refused(&what, executable.is_node_enabled(node), Status::INVALID_VALUE)?;
    }
    launch(&executable, &stream)?;
    equal("what ran", log.numbers(), vec![1])
}
