//! Of several differences between two graphs, the one that an update tells.

use super::graph_raw::RawGraph;
use super::graph_tools::{raw_digit, word};
use crate::case::{Case, Failed, Verdict, equal};
use crate::environment::Environment;
use anabranch::{
    Buffer, ConditionalKind, ConditionalNode, DevicePointer, EdgeData, EdgeKind, FillNode, FillPattern,
    GraphNodeHandle, GraphUpdateResult, KernelNode, NodeParameters, Status,
};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.update_tells_the_last_pair_first", "G3", tells_the_last_pair_first),
    Case::new("graph.update_tells_edges_before_kinds", "G3", tells_edges_before_kinds),
    Case::new("graph.update_tells_kinds_before_pairs", "G3", tells_kinds_before_pairs),
    Case::new("graph.update_names_the_last_sink_of_no_pair", "G3", names_the_last_sink_of_no_pair),
    Case::new("graph.update_compares_sinks_first", "G3", compares_sinks_first),
    Case::new("graph.update_after_a_node_was_refused", "G3", after_a_node_was_refused),
    Case::new("graph.update_after_a_launch_was_refused", "G3", after_a_launch_was_refused),
    Case::new("graph.update_from_a_body", "G3", from_a_body),
];

const PLAIN: EdgeData = EdgeData { from_port: 0, to_port: 0, kind: EdgeKind::FULL };

fn refused(
    result: GraphUpdateResult,
    node: GraphNodeHandle,
) -> (Status, Option<GraphUpdateResult>, Option<GraphNodeHandle>) {
    (Status::GRAPH_EXEC_UPDATE_FAILURE, Some(result), Some(node))
}

fn tells_the_last_pair_first(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let kernel = || Ok::<_, Failed>(NodeParameters::Kernel(raw_digit(environment, word.device_pointer(), 1)?));
    let (old, new) = (RawGraph::new(environment)?, RawGraph::new(environment)?);
    for _ in 0..2 {
        old.must_add(&[], NodeParameters::Empty)?;
        new.must_add(&[], kernel()?)?;
    }
    let kind = refused(GraphUpdateResult::NODE_KIND_CHANGED, new.node(1)?);
    equal("two sinks of another kind", old.must_instantiate()?.update(&new), kind)
}

fn tells_edges_before_kinds(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let kernel = NodeParameters::Kernel(raw_digit(environment, word.device_pointer(), 1)?);
    let (old, new) = (RawGraph::row(environment, 2)?, RawGraph::row(environment, 2)?);
    old.must_add(&[1], NodeParameters::Empty)?;
    new.must_add(&[0, 1], kernel)?;
    let edges = refused(GraphUpdateResult::TOPOLOGY_CHANGED, new.node(2)?);
    equal("a sink with more edges and of another kind", old.must_instantiate()?.update(&new), edges)
}

/// The last sinks pair the first node of the one graph with the second of the other, so that the other sinks do not fit. They
/// are of other kinds too.
fn tells_kinds_before_pairs(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let kernel = NodeParameters::Kernel(raw_digit(environment, word.device_pointer(), 1)?);
    let (old, new) = (RawGraph::row(environment, 3)?, RawGraph::row(environment, 2)?);
    old.must_add(&[0], NodeParameters::Empty)?;
    new.must_add(&[1], kernel)?;
    new.must_add(&[1], NodeParameters::Empty)?;
    let kind = refused(GraphUpdateResult::NODE_KIND_CHANGED, new.node(2)?);
    equal("a sink of another kind", old.must_instantiate()?.update(&new), kind)
}

/// Sinks are taken from the last on: the second of three is the first for which there is none left.
fn names_the_last_sink_of_no_pair(environment: &Environment) -> Verdict {
    let (old, new) = (RawGraph::row(environment, 3)?, RawGraph::row(environment, 3)?);
    equal("removing edges", new.disconnect(&[(0, 1, PLAIN), (1, 2, PLAIN)])?, Status::SUCCESS)?;
    // The sinks are now 2, 0 and 1, in this order.
    let edges = refused(GraphUpdateResult::TOPOLOGY_CHANGED, new.node(0)?);
    equal("three sinks instead of one", old.must_instantiate()?.update(&new), edges)
}

/// The last pair of sinks is of equal nodes, and what they depend on differs. The other pair of sinks is told of.
fn compares_sinks_first(environment: &Environment) -> Verdict {
    let (old, new) = (RawGraph::row(environment, 2)?, RawGraph::row(environment, 2)?);
    old.must_add(&[0, 1], NodeParameters::Empty)?;
    old.must_add(&[0], NodeParameters::Empty)?;
    new.must_add(&[1], NodeParameters::Empty)?;
    new.must_add(&[1], NodeParameters::Empty)?;
    let edges = refused(GraphUpdateResult::TOPOLOGY_CHANGED, new.node(2)?);
    equal("a sink with fewer edges", old.must_instantiate()?.update(&new), edges)
}

/// A node that is refused was linked before: what it would depend on becomes a sink again, behind the others.
fn after_a_node_was_refused(environment: &Environment) -> Verdict {
    for parameters in [NodeParameters::Empty, NodeParameters::Free(DevicePointer::NULL)] {
        let graph = RawGraph::row(environment, 1)?;
        graph.must_add(&[], NodeParameters::Empty)?;
        graph.must_add(&[1], NodeParameters::Empty)?;
        let executable = graph.must_instantiate()?;
        equal("unchanged", executable.update(&graph).0, Status::SUCCESS)?;
        // A free is refused for its address, and an empty node because it would depend on the node twice.
        let twice = if matches!(parameters, NodeParameters::Empty) { 2 } else { 1 };
        graph.refuses("a node", &vec![(0, PLAIN); twice], &parameters, Status::INVALID_VALUE)?;
        let edges = refused(GraphUpdateResult::TOPOLOGY_CHANGED, graph.node(0)?);
        equal("with the sinks in another order", executable.update(&graph), edges)?;
    }
    Ok(())
}

/// A kernel is looked at before its dependencies, but for arguments that are all missing. A fill of 64 bits is no node at all.
fn after_a_launch_was_refused(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let kernel = raw_digit(environment, word.device_pointer(), 1)?;
    let pattern = FillPattern::U64(1);
    let fill = FillNode { address: word.device_pointer(), pitch: 0, pattern, width: 1, height: 1 };
    for (what, parameters, is_linked) in [
        ("no blocks", NodeParameters::Kernel(KernelNode { grid: [0, 1, 1], ..kernel.clone() }), false),
        ("no arguments", NodeParameters::Kernel(KernelNode { arguments: Vec::new(), ..kernel }), true),
        ("64 bits", NodeParameters::Fill(fill), false),
        (
            "an address that is not aligned",
            NodeParameters::Fill(FillNode { address: odd(&word), pattern: FillPattern::U32(1), ..fill }),
            false,
        ),
    ] {
        let graph = RawGraph::row(environment, 1)?;
        graph.must_add(&[], NodeParameters::Empty)?;
        graph.must_add(&[1], NodeParameters::Empty)?;
        let executable = graph.must_instantiate()?;
        graph.refuses(what, &[(0, PLAIN)], &parameters, Status::INVALID_VALUE)?;
        let changed = refused(GraphUpdateResult::TOPOLOGY_CHANGED, graph.node(0)?);
        let expected = if is_linked { changed } else { (Status::SUCCESS, None, None) };
        equal(&format!("an update after {what}"), executable.update(&graph), expected)?;
    }
    Ok(())
}

fn odd(word: &Buffer<u32>) -> DevicePointer {
    word.device_pointer().byte_add(1)
}

fn from_a_body(environment: &Environment) -> Verdict {
    let (graph, old) = (RawGraph::new(environment)?, RawGraph::new(environment)?);
    let (handle, kind) = (graph.value()?, ConditionalKind::If);
    let node = ConditionalNode { handle, kind, body_count: 1, bodies: Vec::new() };
    graph.must_add(&[], NodeParameters::Conditional(node))?;
    let body = graph.body(0, 0)?;
    equal("the body", old.must_instantiate()?.update(&body), (Status::INVALID_VALUE, None, None))?;
    equal("the body as a child", body.become_child()?, Status::NOT_SUPPORTED)
}
