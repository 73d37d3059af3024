//! How an update pairs the nodes of two graphs.

use super::graph_raw::RawGraph;
use super::graph_tools::{chain, digit, launch, word};
use crate::case::{Case, Failed, Verdict, equal, refused};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::{Buffer, EdgeData, Event, Graph, GraphEdge, GraphUpdateResult, Node, NodeParameters, NodeWork, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.update_pairs_from_the_sinks", "G3", pairs_from_the_sinks),
    Case::new("graph.update_of_nodes_made_in_another_order", "G3", nodes_made_in_another_order),
    Case::new("graph.update_runs_in_the_order_of_the_edges", "G3", runs_in_the_order_of_the_edges),
    Case::new("graph.update_of_a_child_made_in_another_order", "G3", child_made_in_another_order),
    Case::new("graph.update_of_sinks_in_another_order", "G3", sinks_in_another_order),
    Case::new("graph.update_of_a_sink_that_was_none_for_a_while", "G3", sink_that_was_none_for_a_while),
    Case::new("graph.update_of_dependencies_in_another_order", "G3", dependencies_in_another_order),
    Case::new("graph.update_names_the_node_whose_edges_changed", "G3", names_the_node_whose_edges_changed),
    Case::new("graph.update_names_a_sink_too_many", "G3", names_a_sink_too_many),
    Case::new("graph.update_with_a_value_that_no_node_uses", "G3", with_a_value_that_no_node_uses),
];

type Found = (Status, Option<GraphUpdateResult>);

const DONE: Found = (Status::SUCCESS, None);
const KIND: Found = (Status::GRAPH_EXEC_UPDATE_FAILURE, Some(GraphUpdateResult::NODE_KIND_CHANGED));
const TOPOLOGY: Found = (Status::GRAPH_EXEC_UPDATE_FAILURE, Some(GraphUpdateResult::TOPOLOGY_CHANGED));

const fn edge(from: usize, to: usize) -> (usize, usize, EdgeData) {
    (from, to, EdgeData { from_port: 0, to_port: 0, kind: anabranch::EdgeKind::FULL })
}

/// A graph of nodes that record an event, wait for it, or do nothing: `r`, `w` and `e`. Each is given with those before it.
fn graph<'a>(environment: &'a Environment, event: &Event, nodes: &[(char, &[usize])]) -> Result<RawGraph<'a>, Failed> {
    let graph = RawGraph::new(environment)?;
    for (kind, after) in nodes {
        let parameters = match kind {
            'r' => NodeParameters::EventRecord(event.live().handle()),
            'w' => NodeParameters::EventWait(event.live().handle()),
            _ => NodeParameters::Empty,
        };
        graph.must_add(after, parameters)?;
    }
    Ok(graph)
}

/// What updating an executable graph of the first graph from the second one returns.
fn update(old: &RawGraph<'_>, new: &RawGraph<'_>) -> Result<Found, Failed> {
    let (status, result, _) = old.must_instantiate()?.update(new);
    Ok((status, result))
}

/// Two nodes change places, of which one is a sink before and the other one after.
fn pairs_from_the_sinks(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let graph = graph(environment, &event, &[('e', &[]), ('w', &[0]), ('w', &[1]), ('e', &[])])?;
    let executable = graph.must_instantiate()?;
    equal("removing an edge", graph.disconnect(&[edge(0, 1)])?, Status::SUCCESS)?;
    equal("adding an edge", graph.connect(&[edge(3, 1)])?, Status::SUCCESS)?;
    equal("the update", executable.update(&graph), (Status::SUCCESS, None, None))?;
    // What was updated is compared again.
    equal("another update", executable.update(&graph), (Status::SUCCESS, None, None))
}

fn nodes_made_in_another_order(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let old = graph(environment, &event, &[('r', &[]), ('w', &[]), ('e', &[0, 1])])?;
    let new = graph(environment, &event, &[('w', &[]), ('r', &[]), ('e', &[1, 0])])?;
    equal("the update", update(&old, &new)?, DONE)
}

/// A chain of kernels that append these digits, whose nodes are added from the last one to the first one.
fn backwards(environment: &Environment, word: &mut Buffer<u32>, digits: &[u32]) -> Result<Graph, Failed> {
    let mut graph = environment.context().create_graph()?;
    let mut later: Option<Node> = None;
    for &number in digits.iter().rev() {
        let node = graph.add((), digit(environment, word, number)?)?;
        let edge = later.map(|to| GraphEdge { from: node, to, data: EdgeData::default() });
        graph.add_edges(edge.as_slice())?;
        later = Some(node);
    }
    Ok(graph)
}

fn forwards(environment: &Environment, word: &mut Buffer<u32>, digits: &[u32]) -> Result<Graph, Failed> {
    let mut graph = environment.context().create_graph()?;
    let works = digits.iter().map(|&number| digit(environment, word, number)).collect::<Result<Vec<_>, _>>()?;
    chain(&mut graph, works)?;
    Ok(graph)
}

fn runs_in_the_order_of_the_edges(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let executable = forwards(environment, &mut word, &[1, 2, 3])?.instantiate()?;
    executable.update(&backwards(environment, &mut word, &[4, 5, 6])?)?;
    launch(&executable, &stream)?;
    equal("the order", stream.download(&word)?, vec![456])?;
    executable.update(&forwards(environment, &mut word, &[7, 8, 9])?)?;
    launch(&executable, &stream)?;
    equal("the order after another update", stream.download(&word)?, vec![456_789])
}

fn child_made_in_another_order(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let first = forwards(environment, &mut word, &[1, 2])?;
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::child(&first))?;
    graph.add(node, digit(environment, &mut word, 3)?)?;
    let executable = graph.instantiate()?;
    let backwards = backwards(environment, &mut word, &[4, 5])?;
    let changed = executable.set_node(node, NodeWork::child(&backwards));
    refused("nodes in another order", changed, Status::GRAPH_EXEC_UPDATE_FAILURE)?;
    executable.set_node(node, NodeWork::child(&forwards(environment, &mut word, &[6, 7])?))?;
    launch(&executable, &stream)?;
    equal("the order", stream.download(&word)?, vec![673])
}

fn sinks_in_another_order(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let old = graph(environment, &event, &[('r', &[]), ('w', &[])])?;
    let new = graph(environment, &event, &[('w', &[]), ('r', &[])])?;
    equal("the update", update(&old, &new)?, KIND)
}

/// A node that becomes a sink again comes after those that were sinks before.
fn sink_that_was_none_for_a_while(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let (old, new) = (
        graph(environment, &event, &[('r', &[]), ('w', &[])])?,
        graph(environment, &event, &[('r', &[]), ('w', &[]), ('e', &[0])])?,
    );
    equal("removing the node behind it", new.remove(2)?, Status::SUCCESS)?;
    equal("the update", update(&old, &new)?, KIND)?;
    let third = graph(environment, &event, &[('w', &[]), ('r', &[])])?;
    equal("the update by sinks in that order", update(&third, &new)?, DONE)
}

fn dependencies_in_another_order(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let old = graph(environment, &event, &[('r', &[]), ('w', &[]), ('e', &[0, 1])])?;
    let new = graph(environment, &event, &[('r', &[]), ('w', &[]), ('e', &[1, 0])])?;
    equal("the update", update(&old, &new)?, KIND)
}

fn names_the_node_whose_edges_changed(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let old = graph(environment, &event, &[('e', &[]), ('e', &[0]), ('e', &[1])])?;
    // As many nodes and sinks, and another number of edges into the sink.
    let new = graph(environment, &event, &[('e', &[]), ('e', &[0]), ('e', &[0, 1])])?;
    let (status, result, node) = old.must_instantiate()?.update(&new);
    equal("the update", (status, result), TOPOLOGY)?;
    equal("the node", node, Some(new.node(2)?))?;
    // As many edges, of which one leads to a node that is paired already.
    let (old, new) = (
        graph(environment, &event, &[('e', &[]), ('e', &[]), ('e', &[0]), ('e', &[1]), ('e', &[2, 3])])?,
        graph(environment, &event, &[('e', &[]), ('e', &[0]), ('e', &[1]), ('e', &[1]), ('e', &[2, 3])])?,
    );
    equal("the update by a node with two behind it", update(&old, &new)?, TOPOLOGY)
}

fn names_a_sink_too_many(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let old = graph(environment, &event, &[('e', &[]), ('e', &[0])])?;
    let new = graph(environment, &event, &[('e', &[]), ('e', &[])])?;
    let (status, result, node) = old.must_instantiate()?.update(&new);
    equal("a sink more", (status, result), TOPOLOGY)?;
    equal("the node", node, Some(new.node(0)?))?;
    let (status, result, node) = new.must_instantiate()?.update(&old);
    equal("a sink less", (status, result), TOPOLOGY)?;
    equal("the node of a sink less", node, None)
}

/// Only instantiating a graph looks for such values.
fn with_a_value_that_no_node_uses(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 1)?;
    let executable = graph.must_instantiate()?;
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let made = driver.graph_conditional_create(&context.into(), graph.live(), Some(0));
    made.map_err(|failure| Failed(format!("creating a value: {failure}")))?;
    equal("the update", executable.update(&graph), (Status::SUCCESS, None, None))?;
    equal("instantiating the graph", graph.try_instantiate(), Status::INVALID_VALUE)
}
