//! Edges: what they order, which are refused, and cycles.

use super::graph_tools::{Refusal, add, chain, digit, handles, run, word};
use super::order_tools::Log;
use crate::case::{Case, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::{
    EdgeData, EdgeKind, Graph, GraphEdge, GraphInstantiateResult, InstantiateFlags, Node, NodeWork, Status,
};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.edges_order_nodes", "G1", edges_order_nodes),
    Case::new("graph.edges_of_a_diamond", "G1", edges_of_a_diamond),
    Case::new("graph.dependency_named_twice", "G1", dependency_named_twice),
    Case::new("graph.dependency_of_another_graph", "G1", dependency_of_another_graph),
    Case::new("graph.dependency_that_was_removed", "G1", dependency_that_was_removed),
    Case::new("graph.edge_to_itself", "G1", edge_to_itself),
    Case::new("graph.edge_added_twice", "G1", edge_added_twice),
    Case::new("graph.edge_that_says_nothing_new", "G1", edge_that_says_nothing_new),
    Case::new("graph.edge_of_another_graph", "G1", edge_of_another_graph),
    Case::new("graph.edge_removed", "G1", edge_removed),
    Case::new("graph.edge_that_is_not_there", "G1", edge_that_is_not_there),
    Case::new("graph.edges_before_a_bad_one_are_added", "G1", edges_before_a_bad_one_are_added),
    Case::new("graph.cycle", "G1", cycle),
    Case::new("graph.cycle_that_is_broken", "G1", cycle_that_is_broken),
    Case::new("graph.edge_data_reads_back", "G1", edge_data_reads_back),
    Case::new("graph.edge_data_refused", "G1", edge_data_refused),
    Case::new("graph.edge_data_and_a_second_edge", "G1", edge_data_and_a_second_edge),
    Case::new("graph.edge_removed_whatever_its_data", "G1", edge_removed_whatever_its_data),
];

fn plain(from: Node, to: Node) -> GraphEdge {
    GraphEdge { from, to, data: EdgeData::default() }
}

/// A graph of empty nodes, each of which depends on the previous one.
fn row(environment: &Environment, count: usize) -> anabranch::Result<(Graph, Vec<Node>)> {
    let mut graph = environment.context().create_graph()?;
    let nodes = chain(&mut graph, (0..count).map(|_| NodeWork::empty()))?;
    Ok((graph, nodes))
}

fn edges_order_nodes(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let mut nodes: Vec<Node> = Vec::new();
    for number in 1..=6 {
        nodes.push(graph.add((), digit(environment, &mut word, number)?)?);
    }
    // This order differs from the order in which the nodes were added.
    let order = [3, 1, 5, 0, 4, 2];
    let edges: Vec<GraphEdge> = order.windows(2).map(|pair| plain(nodes[pair[0]], nodes[pair[1]])).collect();
    graph.add_edges(&edges)?;
    run(&graph, &stream)?;
    equal("the order", stream.download(&word)?, vec![426_153])
}

fn edges_of_a_diamond(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let mut graph = environment.context().create_graph()?;
    let note = |number| super::graph_tools::note(&log, number);
    let top = graph.add((), note(1))?;
    let (left, right) = (graph.add(top, note(2))?, graph.add([top], note(3))?);
    graph.add([left, right], note(4))?;
    let executable = graph.instantiate()?;
    for _ in 0..8 {
        executable.launch(&stream)?;
    }
    stream.synchronize()?;
    for order in log.numbers().chunks(4) {
        holds(&format!("{order:?} is an order of the diamond"), order == [1, 2, 3, 4] || order == [1, 3, 2, 4])?;
    }
    equal("nodes that ran", log.numbers().len(), 32)
}

fn dependency_named_twice(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 1)?;
    refused("the same node twice", graph.add([nodes[0], nodes[0]], NodeWork::empty()), Status::INVALID_VALUE)?;
    equal("nodes", graph.nodes()?.len(), 1)
}

fn dependency_of_another_graph(environment: &Environment) -> Verdict {
    let ((mut graph, _), (_other, theirs)) = (row(environment, 1)?, row(environment, 1)?);
    refused("another graph's node", graph.add(theirs[0], NodeWork::empty()), Status::INVALID_VALUE)?;
    equal("nodes", graph.nodes()?.len(), 1)
}

fn dependency_that_was_removed(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 2)?;
    graph.remove_node(nodes[0])?;
    refused("a node that was removed", graph.add(nodes[0], NodeWork::empty()), Status::INVALID_VALUE)?;
    equal("nodes", graph.nodes()?, vec![nodes[1]])
}

fn edge_to_itself(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 3)?;
    refused("an edge to itself", graph.add_edges(&[plain(nodes[1], nodes[1])]), Status::INVALID_VALUE)?;
    equal("edges", graph.edges()?.len(), 2)?;
    Ok(run(&graph, &environment.stream()?)?)
}

fn edge_added_twice(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 3)?;
    refused("an edge that is there", graph.add_edges(&[plain(nodes[0], nodes[1])]), Status::INVALID_VALUE)?;
    equal("edges", graph.edges()?.len(), 2)?;
    Ok(run(&graph, &environment.stream()?)?)
}

fn edge_that_says_nothing_new(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 3)?;
    graph.add_edges(&[plain(nodes[0], nodes[2])])?;
    equal("edges", graph.edges()?.len(), 3)?;
    Ok(run(&graph, &environment.stream()?)?)
}

fn edge_of_another_graph(environment: &Environment) -> Verdict {
    let ((mut graph, mine), (_other, theirs)) = (row(environment, 3)?, row(environment, 1)?);
    for (from, to) in [(mine[0], theirs[0]), (theirs[0], mine[0])] {
        refused("adding it", graph.add_edges(&[plain(from, to)]), Status::INVALID_VALUE)?;
        refused("removing it", graph.remove_edges(&[plain(from, to)]), Status::INVALID_VALUE)?;
    }
    equal("edges", graph.edges()?.len(), 2)
}

fn edge_removed(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 3)?;
    graph.remove_edges(&[plain(nodes[0], nodes[1])])?;
    equal("edges", graph.edges()?, vec![plain(nodes[1], nodes[2])])?;
    equal("root nodes", graph.root_nodes()?.len(), 2)?;
    run(&graph, &environment.stream()?)?;
    graph.add_edges(&[plain(nodes[1], nodes[0])])?;
    equal("root nodes with the edge turned", graph.root_nodes()?, vec![nodes[1]])?;
    Ok(run(&graph, &environment.stream()?)?)
}

fn edge_that_is_not_there(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 3)?;
    refused("an absent edge", graph.remove_edges(&[plain(nodes[0], nodes[2])]), Status::INVALID_VALUE)?;
    refused("a turned edge", graph.remove_edges(&[plain(nodes[1], nodes[0])]), Status::INVALID_VALUE)?;
    equal("edges", graph.edges()?.len(), 2)
}

fn edges_before_a_bad_one_are_added(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 3)?;
    let implied = plain(nodes[0], nodes[2]);
    refused("the same edge twice", graph.add_edges(&[implied, implied]), Status::INVALID_VALUE)?;
    equal("edges", graph.edges()?.len(), 3)?;
    let first = plain(nodes[0], nodes[1]);
    refused("removing one twice", graph.remove_edges(&[first, plain(nodes[2], nodes[0])]), Status::INVALID_VALUE)?;
    equal("edges left", graph.edges()?.len(), 2)?;
    graph.add_edges(&[])?;
    Ok(graph.remove_edges(&[])?)
}

fn cycle(environment: &Environment) -> Verdict {
    let (mut graph, nodes) = row(environment, 3)?;
    graph.add_edges(&[plain(nodes[2], nodes[0])])?;
    equal("root nodes", graph.root_nodes()?.len(), 0)?;
    refused("a cycle", graph.instantiate(), Status::INVALID_VALUE)?;
    let refusal = Refusal::of(environment, &graph, InstantiateFlags::empty())?;
    equal("the reason", refusal.result, GraphInstantiateResult::INVALID_STRUCTURE)?;
    let all = handles(environment, &graph)?;
    holds("the node is one of the cycle", refusal.node.is_some_and(|node| all.contains(&node)))
}

fn cycle_that_is_broken(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let (one, two) = (digit(environment, &mut word, 1)?, digit(environment, &mut word, 2)?);
    let nodes = chain(&mut graph, [one, two])?;
    graph.add_edges(&[plain(nodes[1], nodes[0])])?;
    refused("a cycle of two", graph.instantiate(), Status::INVALID_VALUE)?;
    graph.remove_edges(&[plain(nodes[0], nodes[1])])?;
    run(&graph, &stream)?;
    equal("the order", stream.download(&word)?, vec![21])
}

/// Two kernels without an edge between them.
fn two_kernels(environment: &Environment) -> anabranch::Result<(Graph, Node, Node)> {
    let (_, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let first = graph.add((), add(environment, &mut word, 1, 1)?)?;
    let second = graph.add((), add(environment, &mut word, 1, 1)?)?;
    Ok((graph, first, second))
}

const fn programmatic(port: u8) -> EdgeData {
    EdgeData { from_port: port, to_port: 0, kind: EdgeKind::PROGRAMMATIC }
}

fn edge_data_reads_back(environment: &Environment) -> Verdict {
    for data in [EdgeData::default(), programmatic(1), programmatic(2)] {
        let (mut graph, from, to) = two_kernels(environment)?;
        let edge = GraphEdge { from, to, data };
        graph.add_edges(&[edge])?;
        equal("the edges", graph.edges()?, vec![edge])?;
        equal("what the second depends on", graph.dependencies_of(to)?, vec![(from, data)])?;
        equal("what depends on the first", graph.dependents_of(from)?, vec![(to, data)])?;
        run(&graph, &environment.stream()?)?;
    }
    Ok(())
}

fn edge_data_refused(environment: &Environment) -> Verdict {
    let (mut graph, from, to) = two_kernels(environment)?;
    for data in [
        programmatic(0),
        programmatic(9),
        EdgeData { from_port: 1, ..EdgeData::default() },
        EdgeData { to_port: 1, ..EdgeData::default() },
        EdgeData { kind: EdgeKind(7), ..EdgeData::default() },
    ] {
        refused(&format!("{data:?}"), graph.add_edges(&[GraphEdge { from, to, data }]), Status::INVALID_VALUE)?;
    }
    let (_, mut word) = word(environment)?;
    let from = graph.add((), NodeWork::fill(&mut word, 1u32)?)?;
    for data in [programmatic(1), EdgeData { from_port: 1, ..EdgeData::default() }] {
        let edge = GraphEdge { from, to, data };
        refused(&format!("{data:?} from a fill"), graph.add_edges(&[edge]), Status::INVALID_VALUE)?;
    }
    equal("edges", graph.edges()?.len(), 0)
}

fn edge_data_and_a_second_edge(environment: &Environment) -> Verdict {
    let (mut graph, from, to) = two_kernels(environment)?;
    graph.add_edges(&[GraphEdge { from, to, data: programmatic(1) }])?;
    refused("a plain edge beside it", graph.add_edges(&[plain(from, to)]), Status::INVALID_VALUE)?;
    equal("edges", graph.edges()?.len(), 1)
}

/// An edge is removed by its nodes. The data is not compared, and need not be possible.
fn edge_removed_whatever_its_data(environment: &Environment) -> Verdict {
    let (mut graph, from, to) = two_kernels(environment)?;
    let none = EdgeData::default();
    for (there, given) in [
        (none, programmatic(1)),
        (none, EdgeData { to_port: 1, ..none }),
        (none, EdgeData { kind: EdgeKind(7), ..none }),
        (programmatic(1), none),
        (programmatic(1), programmatic(2)),
    ] {
        graph.add_edges(&[GraphEdge { from, to, data: there }])?;
        graph.remove_edges(&[GraphEdge { from, to, data: given }])?;
        equal(&format!("{there:?} removed as {given:?}"), graph.edges()?.len(), 0)?;
    }
    Ok(())
}
