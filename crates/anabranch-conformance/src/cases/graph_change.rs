//! Changes of graphs, clones and child graphs.

use super::graph_tools::{add, chain, digit, graph_of, launch, note, raw_digit, run, word};
use super::order_tools::Log;
use crate::case::{Case, Verdict, equal, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{
    ConditionalKind, EdgeData, FunctionHandle, Graph, GraphEdge, KernelNode, NodeParameters, NodeWork, Status,
};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.set_node", "G3", set_node),
    Case::new("graph.set_node_of_another_kind", "G3", set_node_of_another_kind),
    Case::new("graph.set_node_refused", "G3", set_node_refused),
    Case::new("graph.remove_node", "G1", remove_node),
    Case::new("graph.remove_node_that_owns_something", "G1", remove_node_that_owns_something),
    Case::new("graph.remove_conditional_node", "G1", remove_conditional_node),
    Case::new("graph.remove_from_a_graph_that_allocates", "G1", remove_from_a_graph_that_allocates),
    Case::new("graph.remove_node_of_a_launch_in_flight", "G5", remove_node_of_a_launch_in_flight),
    Case::new("graph.clone_has_nodes_of_its_own", "G1", clone_has_nodes_of_its_own),
    Case::new("graph.clone_lives_on_its_own", "G1", clone_lives_on_its_own),
    Case::new("graph.clone_of_every_kind", "G1", clone_of_every_kind),
    Case::new("graph.clone_has_no_other_nodes", "G1", clone_has_no_other_nodes),
    Case::new("graph.clone_refused", "G6", clone_refused),
    Case::new("graph.child_runs_in_its_place", "G1", child_runs_in_its_place),
    Case::new("graph.child_is_copied_when_added", "G1", child_is_copied_when_added),
    Case::new("graph.child_of_nothing", "G1", child_of_nothing),
    Case::new("graph.child_in_a_child", "G1", child_in_a_child),
    Case::new("graph.child_of_its_own_clone", "G1", child_of_its_own_clone),
    Case::new("graph.child_twice", "G1", child_twice),
];

fn set_node(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), digit(environment, &mut word, 1)?)?;
    let before = graph.instantiate()?;
    graph.set_node(node, digit(environment, &mut word, 2)?)?;
    launch(&before, &stream)?;
    equal("the executable graph created before", stream.download(&word)?, vec![1])?;
    run(&graph, &stream)?;
    equal("the executable graph created after", stream.download(&word)?, vec![12])
}

fn set_node_of_another_kind(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let (event, signal) = (environment.context().create_event()?, environment.context().create_signal()?);
    let other = stream.upload(&[3u32])?;
    let mut works = || -> anabranch::Result<[NodeWork<'static>; 7]> {
        Ok([
            digit(environment, &mut word, 1)?,
            NodeWork::copy(&mut word, &other)?,
            NodeWork::fill(&mut word, 1u32)?,
            NodeWork::host_func(|| ()),
            NodeWork::event_wait(&event),
            NodeWork::event_record(&event),
            NodeWork::write_signal(&signal, 1),
        ])
    };
    let mut graph = environment.context().create_graph()?;
    let nodes = chain(&mut graph, works()?)?;
    // Each node is given the work of its neighbour.
    let mut wrong = works()?;
    wrong.rotate_right(1);
    for (&node, work) in nodes.iter().zip(wrong) {
        let what = format!("{work:?} for node {}", node.number());
        refused(&what, graph.set_node(node, work), Status::INVALID_VALUE)?;
    }
    let empty = graph.add((), NodeWork::empty())?;
    refused("for an empty node", graph.set_node(empty, NodeWork::host_func(|| ())), Status::INVALID_VALUE)?;
    // SAFETY: nothing reads the memory.
    let (allocation, _memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    refused("for an allocation", graph.set_node(allocation, NodeWork::host_func(|| ())), Status::INVALID_VALUE)
}

fn set_node_refused(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), digit(environment, &mut word, 1)?)?;
    let good = raw_digit(environment, word.device_pointer(), 2)?;
    let bad = [
        ("no function", KernelNode { function: FunctionHandle::from_raw(0), ..good.clone() }, Status::INVALID_HANDLE),
        ("a grid without blocks", KernelNode { grid: [0, 1, 1], ..good }, Status::INVALID_VALUE),
    ];
    for (what, parameters, status) in bad {
        // SAFETY: the driver or the library refuses the call.
        let work = unsafe { NodeWork::from_parameters(NodeParameters::Kernel(parameters)) };
        refused(what, graph.set_node(node, work), status)?;
    }
    run(&graph, &stream)?;
    equal("it does what it did", stream.download(&word)?, vec![1])
}

fn remove_node(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let works = [1, 2, 3].map(|number| digit(environment, &mut word, number));
    let nodes = chain(&mut graph, works.into_iter().collect::<Result<Vec<_>, _>>()?)?;
    graph.remove_node(nodes[1])?;
    equal("nodes", graph.nodes()?.len(), 2)?;
    equal("edges", graph.edges()?.len(), 0)?;
    equal("root nodes", graph.root_nodes()?.len(), 2)?;
    graph.remove_node(nodes[2])?;
    run(&graph, &stream)?;
    equal("what is left runs", stream.download(&word)?, vec![1])
}

fn remove_node_that_owns_something(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (kept, _memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    // SAFETY: nothing reads the memory.
    let (allocation, memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    // SAFETY: nothing uses the memory.
    let free = unsafe { graph.add_free(allocation, memory) }?;
    let value = graph.create_conditional(Some(1))?;
    let conditional = graph.add_conditional((), value, ConditionalKind::If, 1)?;
    for node in [kept, allocation, free, conditional] {
        refused(&format!("node {}", node.number()), graph.remove_node(node), Status::NOT_SUPPORTED)?;
    }
    equal("nodes", graph.nodes()?.len(), 4)?;
    equal("edges", graph.edges()?.len(), 1)
}

fn remove_conditional_node(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    let value = graph.create_conditional(Some(1))?;
    let empty = graph.add((), NodeWork::empty())?;
    let conditional = graph.add_conditional(empty, value, ConditionalKind::Switch, 2)?;
    graph.remove_node(conditional)?;
    equal("nodes", graph.nodes()?, vec![empty])?;
    refused("a value that no node uses", graph.instantiate(), Status::INVALID_VALUE)
}

/// Nothing can be removed, not even nodes and edges that have nothing to do with the memory.
fn remove_from_a_graph_that_allocates(environment: &Environment) -> Verdict {
    let (_, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let first = graph.add((), digit(environment, &mut word, 1)?)?;
    let second = graph.add(first, digit(environment, &mut word, 2)?)?;
    // SAFETY: nothing uses the memory.
    let (allocated, _memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    refused("removing a node", graph.remove_node(second), Status::NOT_SUPPORTED)?;
    for (what, from, to) in [("an edge", first, second), ("an absent edge", allocated, second)] {
        let edge = GraphEdge { from, to, data: EdgeData::default() };
        refused(what, graph.remove_edges(&[edge]), Status::NOT_SUPPORTED)?;
    }
    refused("no edge", graph.remove_edges(&[]), Status::NOT_SUPPORTED)?;
    equal("nodes", graph.nodes()?.len(), 3)?;
    equal("edges", graph.edges()?.len(), 1)
}

fn remove_node_of_a_launch_in_flight(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let mut graph = environment.context().create_graph()?;
    let nodes = chain(&mut graph, [note(&log, 1), note(&log, 2)])?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    graph.remove_node(nodes[1])?;
    gate.open();
    stream.synchronize()?;
    equal("what ran", log.numbers(), vec![1, 2])?;
    launch(&executable, &stream)?;
    equal("what ran later", log.numbers(), vec![1, 2, 1, 2])
}

fn clone_has_nodes_of_its_own(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let nodes = chain(&mut graph, [digit(environment, &mut word, 1)?, digit(environment, &mut word, 2)?])?;
    let mut clone = graph.try_clone()?;
    equal("nodes", clone.nodes()?.len(), 2)?;
    equal("edges", clone.edges()?.len(), 1)?;
    let found = graph.find_in_clone(nodes[1], &clone)?;
    equal("the node is another", found == nodes[1], false)?;
    equal("its kind", clone.node_kind(found)?, graph.node_kind(nodes[1])?)?;
    clone.set_node(found, digit(environment, &mut word, 5)?)?;
    run(&graph, &stream)?;
    run(&clone, &stream)?;
    equal("the original, then the clone", stream.download(&word)?, vec![1215])
}

fn clone_lives_on_its_own(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), digit(environment, &mut word, 1)?)?;
    let clone = graph.try_clone()?;
    graph.add(node, digit(environment, &mut word, 2)?)?;
    equal("nodes of the clone", clone.nodes()?.len(), 1)?;
    drop(graph);
    run(&clone, &stream)?;
    equal("the clone's launch", stream.download(&word)?, vec![1])?;
    let second = clone.try_clone()?;
    drop(clone);
    run(&second, &stream)?;
    equal("the launch of a clone's clone", stream.download(&word)?, vec![11])
}

/// A graph with a child graph, an event, a host function and value operations.
fn assortment(environment: &Environment, log: &Log) -> anabranch::Result<Graph> {
    let context = environment.context();
    let (event, signal) = (context.create_event()?, context.create_signal()?);
    let child = graph_of(environment, note(log, 1))?;
    let mut graph = context.create_graph()?;
    let first = graph.add((), NodeWork::child(&child))?;
    let second = graph.add(first, NodeWork::event_record(&event))?;
    let third = graph.add(second, NodeWork::event_wait(&event))?;
    let fourth = graph.add(third, note(log, 2))?;
    graph.add(fourth, NodeWork::write_signal(&signal, 1))?;
    Ok(graph)
}

fn clone_of_every_kind(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let graph = assortment(environment, &log)?;
    let clone = graph.try_clone()?;
    drop(graph);
    equal("nodes", clone.nodes()?.len(), 5)?;
    run(&clone, &stream)?;
    equal("what ran", log.numbers(), vec![1, 2])
}

fn clone_has_no_other_nodes(environment: &Environment) -> Verdict {
    let mut graph = graph_of(environment, NodeWork::empty())?;
    let node = graph.nodes()?[0];
    let (mut clone, other) = (graph.try_clone()?, graph_of(environment, NodeWork::empty())?);
    let cloned = graph.find_in_clone(node, &clone)?;
    let invalid = Status::INVALID_VALUE;
    refused("another graph's node", other.find_in_clone(other.nodes()?[0], &clone), invalid)?;
    refused("the clone's own node", clone.find_in_clone(cloned, &clone), invalid)?;
    refused("in the original", clone.find_in_clone(cloned, &graph), invalid)?;
    let later = graph.add((), NodeWork::empty())?;
    refused("a node added later", graph.find_in_clone(later, &clone), invalid)?;
    let second = clone.try_clone()?;
    refused("across two clones", graph.find_in_clone(node, &second), invalid)?;
    clone.remove_node(cloned)?;
    refused("a node removed from the clone", graph.find_in_clone(node, &clone), invalid)
}

fn clone_refused(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    // SAFETY: nothing reads the memory.
    let (_node, _memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    refused("a graph that allocates", graph.try_clone(), Status::NOT_SUPPORTED)?;
    let mut graph = environment.context().create_graph()?;
    let value = graph.create_conditional(Some(0))?;
    graph.add_conditional((), value, ConditionalKind::While, 1)?;
    refused("a graph with a conditional node", graph.try_clone(), Status::NOT_SUPPORTED)
}

fn child_runs_in_its_place(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut child = environment.context().create_graph()?;
    chain(&mut child, [digit(environment, &mut word, 2)?, digit(environment, &mut word, 3)?])?;
    let mut graph = environment.context().create_graph()?;
    let first = graph.add((), digit(environment, &mut word, 1)?)?;
    let second = graph.add(first, NodeWork::child(&child))?;
    graph.add(second, digit(environment, &mut word, 4)?)?;
    run(&graph, &stream)?;
    equal("the order", stream.download(&word)?, vec![1234])
}

fn child_is_copied_when_added(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut child = graph_of(environment, digit(environment, &mut word, 1)?)?;
    let graph = graph_of(environment, NodeWork::child(&child))?;
    let node = child.nodes()?[0];
    child.set_node(node, digit(environment, &mut word, 7)?)?;
    child.add(node, digit(environment, &mut word, 8)?)?;
    drop(child);
    run(&graph, &stream)?;
    equal("what it was when it was added", stream.download(&word)?, vec![1])
}

fn child_of_nothing(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let (nothing, mut graph) = (environment.context().create_graph()?, environment.context().create_graph()?);
    let first = graph.add((), digit(environment, &mut word, 1)?)?;
    let second = graph.add(first, NodeWork::child(&nothing))?;
    graph.add(second, digit(environment, &mut word, 2)?)?;
    run(&graph, &stream)?;
    equal("the order across it", stream.download(&word)?, vec![12])
}

fn child_in_a_child(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = graph_of(environment, digit(environment, &mut word, 5)?)?;
    for number in (1..5).rev() {
        let mut around = environment.context().create_graph()?;
        let first = around.add((), digit(environment, &mut word, number)?)?;
        around.add(first, NodeWork::child(&graph))?;
        graph = around;
    }
    run(&graph, &stream)?;
    equal("the order", stream.download(&word)?, vec![12_345])
}

fn child_of_its_own_clone(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let mut last = graph.add((), add(environment, &mut word, 1, 1)?)?;
    for _ in 0..6 {
        let clone = graph.try_clone()?;
        last = graph.add(last, NodeWork::child(&clone))?;
    }
    run(&graph, &stream)?;
    equal("how many kernels ran", stream.download(&word)?, vec![64])
}

fn child_twice(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let child = graph_of(environment, digit(environment, &mut word, 6)?)?;
    let mut graph = environment.context().create_graph()?;
    let first = graph.add((), NodeWork::child(&child))?;
    graph.add(first, NodeWork::child(&child))?;
    run(&graph, &stream)?;
    run(&child, &stream)?;
    equal("the number", stream.download(&word)?, vec![666])
}
