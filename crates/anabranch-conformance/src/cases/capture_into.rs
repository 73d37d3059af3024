//! Captures into existing graphs.

use super::capture_tools::{Bench, INVALIDATED, MODES, UNSUPPORTED, answer, is_made_of, run, shape, usable};
use super::order_trace::Trace;
use crate::case::{Case, Failed, Verdict, equal, refused};
use crate::environment::Environment;
use anabranch::hal::GraphNodeKind;
use anabranch::{CaptureMode, CaptureStatus, EdgeData, Graph, Node, NodeWork, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.into_a_graph_below_a_node", "C12", into_a_graph_below_a_node),
    Case::new("capture.into_a_graph_below_nothing", "C12", into_a_graph_below_nothing),
    Case::new("capture.into_a_graph_below_several_nodes", "C12", into_a_graph_below_several_nodes),
    Case::new("capture.into_a_graph_again_and_again", "C12", into_a_graph_again_and_again),
    Case::new("capture.into_a_graph_that_is_given_back", "C12", into_a_graph_that_is_given_back),
    Case::new("capture.into_a_graph_below_another_graphs_node", "C12", into_a_graph_below_another_graphs_node),
    Case::new("capture.into_a_graph_on_legacy", "C12", into_a_graph_on_legacy),
    Case::new("capture.into_a_graph_while_capturing", "C12", into_a_graph_while_capturing),
    Case::new("capture.into_a_graph_and_a_fork", "C12", into_a_graph_and_a_fork),
    Case::new("capture.into_a_graph_invalidated", "C12", into_a_graph_invalidated),
];

fn graph_of_one(environment: &Environment) -> Result<(Graph, Node), Failed> {
    let mut graph = environment.context().create_graph()?;
    let node = graph.add((), NodeWork::empty())?;
    Ok((graph, node))
}

fn into_a_graph_below_a_node(environment: &Environment) -> Verdict {
    let (stream, mut word) = (environment.stream()?, environment.stream()?.upload(&[1u32])?);
    for mode in MODES {
        let (mut graph, node) = graph_of_one(environment)?;
        stream.capture_into(&mut graph, node, mode, |scope| scope.fill(&mut word, 2u32))?;
        equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
        let added: Vec<Node> = graph.dependents_of(node)?.into_iter().map(|(node, _)| node).collect();
        let [fill] = added[..] else { return Err(Failed(format!("nodes below the node: {added:?}"))) };
        equal("the kind of the new node", graph.node_kind(fill)?, GraphNodeKind::FILL)?;
        equal("what it depends on", graph.dependencies_of(fill)?, vec![(node, EdgeData::default())])?;
        stream.fill(&mut word, 1u32)?;
        run(&graph, &stream)?;
        equal("the word", stream.download(&word)?, vec![2])?;
    }
    usable(environment, &[&stream])
}

fn into_a_graph_below_nothing(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let (graph, _) = graph_of_one(environment)?;
    bench.origin.begin_capture_to_graph(graph, (), CaptureMode::Relaxed).map_err(|(error, _)| error)?;
    equal("what the first node will depend on", bench.origin.capture_info()?.dependencies, vec![])?;
    bench.put(&bench.origin)?;
    let graph = bench.ends_well("capturing into a graph")?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 2, 0])?;
    is_made_of(&graph, &[GraphNodeKind::EMPTY, GraphNodeKind::KERNEL])
}

fn into_a_graph_below_several_nodes(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let (mut graph, first) = graph_of_one(environment)?;
    let second = graph.add((), NodeWork::empty())?;
    let begun = bench.origin.begin_capture_to_graph(graph, [first, second], CaptureMode::Global);
    begun.map_err(|(error, _)| error)?;
    let mut nodes: Vec<Node> = bench.origin.capture_info()?.dependencies.into_iter().map(|(node, _)| node).collect();
    nodes.sort();
    equal("what the first node will depend on", nodes, vec![first, second])?;
    bench.put(&bench.origin)?;
    bench.put(&bench.origin)?;
    equal("nodes, roots and edges", shape(&bench.ends_well("capturing into a graph")?)?, [4, 2, 3])
}

fn into_a_graph_again_and_again(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.stream()?, Trace::new(environment)?);
    let mut graph = environment.context().create_graph()?;
    let mut last: Vec<Node> = Vec::new();
    for digit in 1..=4 {
        let mut verdict = Ok(());
        let mut nodes = Vec::new();
        stream.capture_into(&mut graph, &last, CaptureMode::Global, |scope| {
            verdict = trace.append(scope, digit);
            nodes.extend(scope.capture_info()?.dependencies.into_iter().map(|(node, _)| node));
            Ok(())
        })?;
        verdict?;
        last = nodes;
    }
    equal("nodes, roots and edges", shape(&graph)?, [4, 1, 3])?;
    run(&graph, &stream)?;
    equal("the order", trace.read()?, 1234)?;
    usable(environment, &[&stream])
}

fn into_a_graph_that_is_given_back(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let (graph, node) = graph_of_one(environment)?;
    let handle = graph.as_raw();
    bench.origin.begin_capture_to_graph(graph, node, CaptureMode::Global).map_err(|(error, _)| error)?;
    equal("the graph of the capture", bench.origin.capture_info()?.graph, Some(handle))?;
    bench.put(&bench.origin)?;
    let graph = bench.ends_well("capturing into a graph")?;
    equal("the graph given back", graph.as_raw(), handle)?;
    equal("whether the node is still known", graph.node_kind(node)?, GraphNodeKind::EMPTY)
}

fn into_a_graph_below_another_graphs_node(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let ((graph, _), (_other, foreign)) = (graph_of_one(environment)?, graph_of_one(environment)?);
    let begun = bench.origin.begin_capture_to_graph(graph, foreign, CaptureMode::Relaxed);
    let Err((error, graph)) = begun else { return Err(Failed("it began".to_owned())) };
    equal("beginning", error.status(), Status::INVALID_VALUE)?;
    equal("the status", bench.status()?, CaptureStatus::None)?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    bench.is_usable("a capture that did not begin")
}

fn into_a_graph_on_legacy(environment: &Environment) -> Verdict {
    let (graph, node) = graph_of_one(environment)?;
    let begun = environment.context().legacy_stream()?.begin_capture_to_graph(graph, node, CaptureMode::Relaxed);
    let Err((error, graph)) = begun else { return Err(Failed("it began".to_owned())) };
    equal("beginning", error.status(), UNSUPPORTED)?;
    run(&graph, &environment.stream()?)?;
    usable(environment, &[])
}

fn into_a_graph_while_capturing(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    let (mut graph, node) = graph_of_one(environment)?;
    let captured = bench.origin.capture_into(&mut graph, node, CaptureMode::Global, |_| Ok(()));
    equal("capturing", answer(captured), Status::ILLEGAL_STATE)?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    bench.ends_well("beginning into a graph").map(drop)
}

fn into_a_graph_and_a_fork(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let (graph, node) = graph_of_one(environment)?;
    bench.origin.begin_capture_to_graph(graph, node, CaptureMode::ThreadLocal).map_err(|(error, _)| error)?;
    bench.follow(&bench.other, &bench.origin)?;
    bench.put(&bench.origin)?;
    bench.put(&bench.other)?;
    bench.follow(&bench.origin, &bench.other)?;
    bench.put(&bench.origin)?;
    let graph = bench.ends_well("a fork and a join")?;
    equal("nodes, roots and edges", shape(&graph)?, [4, 1, 4])?;
    run(&graph, &bench.other)
}

/// The driver destroys the graph, and the library replaces it with an empty one.
fn into_a_graph_invalidated(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let (mut graph, node) = graph_of_one(environment)?;
    let mut queried = None;
    let captured = bench.origin.capture_into(&mut graph, node, CaptureMode::Global, |scope| {
        queried = Some(answer(scope.query()));
        Ok(())
    });
    equal("querying", queried, Some(UNSUPPORTED))?;
    refused("the capture", captured, INVALIDATED)?;
    equal("nodes, roots and edges", shape(&graph)?, [0, 0, 0])?;
    refused("a node from before the capture", graph.add(node, NodeWork::empty()), Status::INVALID_VALUE)?;
    let node = graph.add((), NodeWork::empty())?;
    bench.is_usable("an invalidated capture into a graph")?;
    let mut word = bench.other.upload(&[1u32])?;
    bench.origin.capture_into(&mut graph, node, CaptureMode::Global, |scope| scope.fill(&mut word, 2u32))?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
    run(&graph, &bench.origin)?;
    equal("the word", bench.other.download(&word)?, vec![2])
}
