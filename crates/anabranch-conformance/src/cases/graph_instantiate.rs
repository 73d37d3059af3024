//! Instantiating graphs: flags, reasons for failure, and later changes that do not affect the executable graph.

use super::graph_tools::{Refusal, digit, graph_of, handles, launch, note, run, word};
use super::order_tools::Log;
use crate::case::{Case, Verdict, equal, refused};
use crate::environment::Environment;
use anabranch::{ConditionalKind, Graph, GraphInstantiateResult, InstantiateFlags, NodeWork, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.instantiated_twice", "G2", instantiated_twice),
    Case::new("graph.instantiated_flags_read_back", "G2", instantiated_flags_read_back),
    Case::new("graph.instantiated_with_unknown_flags", "G2", instantiated_with_unknown_flags),
    Case::new("graph.instantiated_and_uploaded", "G2", instantiated_and_uploaded),
    Case::new("graph.instantiated_for_the_device", "G2", instantiated_for_the_device),
    Case::new("graph.instantiated_before_it_was_changed", "G3", instantiated_before_it_was_changed),
    Case::new("graph.instantiated_with_an_unused_value", "G1", instantiated_with_an_unused_value),
    Case::new("graph.instantiated_twice_with_allocations", "G6", instantiated_twice_with_allocations),
    Case::new("graph.instantiated_twice_with_conditionals", "G6", instantiated_twice_with_conditionals),
];

fn instantiated_twice(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let graph = graph_of(environment, digit(environment, &mut word, 2)?)?;
    let (first, second) = (graph.instantiate()?, graph.instantiate()?);
    equal("the graph that they were made from", first.graph_id(), second.graph_id())?;
    launch(&first, &stream)?;
    launch(&second, &stream)?;
    drop(first);
    launch(&second, &stream)?;
    equal("the number", stream.download(&word)?, vec![222])
}

fn instantiated_flags_read_back(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let graph = graph_of(environment, NodeWork::empty())?;
    let (none, free) = (InstantiateFlags::empty(), InstantiateFlags::AUTO_FREE_ON_LAUNCH);
    equal("no flags", graph.instantiate()?.flags()?, none)?;
    equal("uploaded immediately", graph.instantiate_and_upload(none, &stream)?.flags()?, none)?;
    let (_, mut word) = word(environment)?;
    let graph = graph_of(environment, digit(environment, &mut word, 1)?)?;
    // The driver does not report this flag.
    let priorities = graph.instantiate_with_flags(InstantiateFlags::USE_NODE_PRIORITY)?;
    equal("with the priorities of nodes", priorities.flags()?, none)?;
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (node, memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    // SAFETY: nothing uses the memory.
    unsafe { graph.add_free(node, memory) }?;
    equal("freeing at launches", graph.instantiate_with_flags(free)?.flags()?, free)
}

fn instantiated_with_unknown_flags(environment: &Environment) -> Verdict {
    let graph = graph_of(environment, NodeWork::empty())?;
    let unknown = InstantiateFlags::from_bits_retain(16);
    refused("flag 16", graph.instantiate_with_flags(unknown), Status::INVALID_VALUE)
}

fn instantiated_and_uploaded(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let graph = graph_of(environment, digit(environment, &mut word, 3)?)?;
    let executable = graph.instantiate_and_upload(InstantiateFlags::empty(), &stream)?;
    launch(&executable, &stream)?;
    executable.upload(&environment.context().legacy_stream()?)?;
    executable.upload(&stream)?;
    launch(&executable, &stream)?;
    equal("an upload runs nothing", stream.download(&word)?, vec![33])
}

fn instantiated_for_the_device(environment: &Environment) -> Verdict {
    let (_, mut word) = word(environment)?;
    let flag = InstantiateFlags::DEVICE_LAUNCH;
    let kernel = graph_of(environment, digit(environment, &mut word, 1)?)?;
    equal("a kernel", kernel.instantiate_with_flags(flag)?.flags()?, flag)?;
    let host = graph_of(environment, note(&Log::default(), 1))?;
    refused("a host function", host.instantiate_with_flags(flag), Status::INVALID_VALUE)?;
    let refusal = Refusal::of(environment, &host, flag)?;
    equal("the reason", refusal.result, GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED)?;
    equal("the node", refusal.node, handles(environment, &host)?.first().copied())?;
    let nothing = environment.context().create_graph()?;
    refused("an empty graph", nothing.instantiate_with_flags(flag), Status::INVALID_VALUE)?;
    let both = flag | InstantiateFlags::AUTO_FREE_ON_LAUNCH;
    refused("freeing at launches too", kernel.instantiate_with_flags(both), Status::INVALID_VALUE)
}

fn instantiated_before_it_was_changed(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = graph_of(environment, digit(environment, &mut word, 1)?)?;
    let executable = graph.instantiate()?;
    let node = graph.nodes()?[0];
    graph.add(node, digit(environment, &mut word, 2)?)?;
    graph.set_node(node, digit(environment, &mut word, 3)?)?;
    launch(&executable, &stream)?;
    equal("the executable graph created before", stream.download(&word)?, vec![1])?;
    run(&graph, &stream)?;
    equal("the executable graph created after", stream.download(&word)?, vec![132])
}

fn instantiated_with_an_unused_value(environment: &Environment) -> Verdict {
    let mut graph = graph_of(environment, NodeWork::empty())?;
    let value = graph.create_conditional(Some(1))?;
    refused("a value without a node", graph.instantiate(), Status::INVALID_VALUE)?;
    let refusal = Refusal::of(environment, &graph, InstantiateFlags::empty())?;
    let expected = Refusal {
        status: Status::INVALID_VALUE,
        result: GraphInstantiateResult::CONDITIONAL_HANDLE_UNUSED,
        node: None,
    };
    equal("the reason", refusal, expected)?;
    graph.add_conditional((), value, ConditionalKind::If, 1)?;
    Ok(run(&graph, &environment.stream()?)?)
}

/// Checks that a second executable graph is refused while the first one exists.
fn one_at_a_time(graph: &Graph) -> Verdict {
    let first = graph.instantiate()?;
    refused("a second", graph.instantiate(), Status::NOT_SUPPORTED)?;
    drop(first);
    graph.instantiate()?;
    Ok(())
}

fn instantiated_twice_with_allocations(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (node, memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    // SAFETY: nothing uses the memory.
    unsafe { graph.add_free(node, memory) }?;
    one_at_a_time(&graph)
}

fn instantiated_twice_with_conditionals(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    let value = graph.create_conditional(Some(1))?;
    graph.add_conditional((), value, ConditionalKind::If, 1)?;
    let first = graph.instantiate()?;
    refused("a second", graph.instantiate(), Status::NOT_SUPPORTED)?;
    launch(&first, &environment.stream()?).map_err(Into::into)
}
