//! Capture information, and the dependencies of the next node.

use super::capture_tools::{Bench, UNSUPPORTED, capture, is_made_of, run, shape, unsafe_call, usable};
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::hal::GraphNodeKind;
use anabranch::{CaptureMode, CaptureStatus, DependencyUpdate, EdgeData, Node, NodeWork, Result, Status, Stream};
use std::collections::HashSet;

pub(super) const CASES: &[Case] = &[
    Case::new("capture.info_without_a_capture", "C11", info_without_a_capture),
    Case::new("capture.info_of_an_invalidated_capture", "C11", info_of_an_invalidated_capture),
    Case::new("capture.ids_are_unique", "C11", ids_are_unique),
    Case::new("capture.id_of_a_fork", "C11", id_of_a_fork),
    Case::new("capture.graph_is_the_one_returned", "C11", graph_is_the_one_returned),
    Case::new("capture.dependencies_of_a_line", "C11", dependencies_of_a_line),
    Case::new("capture.dependencies_of_forks_and_joins", "C11", dependencies_of_forks_and_joins),
    Case::new("capture.dependencies_added", "C11", dependencies_added),
    Case::new("capture.dependencies_set", "C11", dependencies_set),
    Case::new("capture.dependencies_set_to_none", "C11", dependencies_set_to_none),
    Case::new("capture.dependencies_on_other_graphs", "C11", dependencies_on_other_graphs),
    Case::new("capture.dependencies_without_a_capture", "C11", dependencies_without_a_capture),
    Case::new("capture.dependencies_taken_from_a_fork", "C11", dependencies_taken_from_a_fork),
    Case::new("capture.dependencies_order_what_runs", "C11", dependencies_order_what_runs),
];

fn depends_on(stream: &Stream) -> Result<Vec<Node>> {
    Ok(stream.capture_info()?.dependencies.into_iter().map(|(node, _)| node).collect())
}

fn info_without_a_capture(environment: &Environment) -> Verdict {
    let context = environment.context();
    for stream in [environment.stream()?, context.legacy_stream()?, context.per_thread_stream()?] {
        let info = stream.capture_info()?;
        equal("the status", info.status, CaptureStatus::None)?;
        equal("the graph", info.graph, None)?;
        equal("the dependencies", info.dependencies, vec![])?;
        equal("whether it captures", stream.is_capturing()?, false)?;
    }
    Ok(())
}

fn info_of_an_invalidated_capture(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    equal("an unsafe call", unsafe_call(environment), UNSUPPORTED)?;
    equal("the status", bench.origin.capture_info()?.status, CaptureStatus::Invalidated)?;
    bench.is_invalidated("an unsafe call")
}

fn ids_are_unique(environment: &Environment) -> Verdict {
    let (first, second, mut seen) = (environment.stream()?, environment.stream()?, HashSet::new());
    for _ in 0..20 {
        first.begin_capture(CaptureMode::Global)?;
        second.begin_capture(CaptureMode::Relaxed)?;
        for stream in [&first, &second] {
            let id = stream.capture_info()?.id;
            equal("the id, queried again", stream.capture_info()?.id, id)?;
            holds("the id is new", seen.insert(id))?;
        }
        first.end_capture()?;
        second.end_capture()?;
    }
    usable(environment, &[&first, &second])
}

fn id_of_a_fork(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.other.wait_event(&bench.captured)?;
    let (origin, fork) = (bench.origin.capture_info()?, bench.other.capture_info()?);
    equal("the id of the fork", fork.id, origin.id)?;
    equal("the graph of the fork", fork.graph, origin.graph)?;
    equal("what the fork depends on", fork.dependencies, origin.dependencies)?;
    bench.ends_well("a fork without nodes").map(drop)
}

fn graph_is_the_one_returned(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    let info = bench.origin.capture_info()?;
    let graph = bench.ends_well("asking")?;
    equal("the graph", info.graph, Some(graph.as_raw()))?;
    let nodes: Vec<Node> = info.dependencies.into_iter().map(|(node, _)| node).collect();
    equal("the nodes", graph.nodes()?, nodes)
}

fn dependencies_of_a_line(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let mut nodes = Vec::new();
    let graph = capture(&bench.origin, CaptureMode::Global, || {
        equal("at first", depends_on(&bench.origin)?, vec![])?;
        for _ in 0..4 {
            bench.put(&bench.origin)?;
            let last = depends_on(&bench.origin)?;
            equal("how many nodes the next one depends on", last.len(), 1)?;
            nodes.extend(last);
        }
        Ok(())
    })?;
    for pair in nodes.windows(2) {
        let [before, after] = pair else { continue };
        equal("what a node depends on", graph.dependencies_of(*after)?, vec![(*before, EdgeData::default())])?;
    }
    Ok(())
}

fn dependencies_of_forks_and_joins(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    let last = |stream: &Stream| -> Result<Vec<Node>> {
        let mut nodes = depends_on(stream)?;
        nodes.sort();
        Ok(nodes)
    };
    let joined_event = environment.context().create_event()?;
    let root = last(&bench.origin)?;
    bench.fork(&bench.other)?;
    bench.put(&bench.origin)?;
    let (left, right) = (last(&bench.origin)?, last(&bench.other)?);
    bench.other.record(&joined_event)?;
    let mut both: Vec<Node> = left.iter().chain(&right).copied().collect();
    both.sort();
    for what in ["joined", "joined twice"] {
        bench.origin.wait_event(&joined_event)?;
        equal(what, last(&bench.origin)?, both.clone())?;
    }
    bench.origin.wait_event(&bench.captured)?;
    let mut all: Vec<Node> = both.iter().chain(&root).copied().collect();
    all.sort();
    equal("with an older event of its own", last(&bench.origin)?, all)?;
    bench.put(&bench.origin)?;
    equal("after the next node", last(&bench.origin)?.len(), 1)?;
    let graph = bench.ends_well("forks and joins")?;
    equal("nodes, roots and edges", shape(&graph)?, [4, 1, 5])
}

fn dependencies_added(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    let first = depends_on(&bench.origin)?;
    bench.put(&bench.origin)?;
    let second = depends_on(&bench.origin)?;
    bench.origin.update_capture_dependencies_with_mode(&second, DependencyUpdate::Add)?;
    equal("what was there, added", depends_on(&bench.origin)?, second.clone())?;
    bench.origin.update_capture_dependencies_with_mode(&first, DependencyUpdate::Add)?;
    equal("an older one, added", depends_on(&bench.origin)?.len(), 2)?;
    bench.put(&bench.origin)?;
    let graph = bench.ends_well("adding dependencies")?;
    equal("nodes, roots and edges", shape(&graph)?, [3, 1, 3])
}

fn dependencies_set(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    let first = depends_on(&bench.origin)?;
    bench.put(&bench.origin)?;
    bench.origin.update_capture_dependencies_with_mode(&first, DependencyUpdate::Set)?;
    equal("what was set", depends_on(&bench.origin)?, first.clone())?;
    let twice: Vec<Node> = first.iter().chain(&first).copied().collect();
    bench.origin.update_capture_dependencies_with_mode(&twice, DependencyUpdate::Set)?;
    equal("what was set twice", depends_on(&bench.origin)?, first)?;
    bench.put(&bench.origin)?;
    let graph = bench.ends_well("setting dependencies")?;
    equal("nodes, roots and edges", shape(&graph)?, [3, 1, 2])
}

fn dependencies_set_to_none(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    bench.put(&bench.origin)?;
    bench.origin.update_capture_dependencies_with_mode((), DependencyUpdate::Set)?;
    equal("what was set", depends_on(&bench.origin)?, vec![])?;
    bench.put(&bench.origin)?;
    let graph = bench.ends_well("setting no dependencies")?;
    equal("nodes, roots and edges", shape(&graph)?, [3, 2, 1])?;
    is_made_of(&graph, &[GraphNodeKind::KERNEL; 3])
}

fn dependencies_on_other_graphs(environment: &Environment) -> Verdict {
    let mut graph = environment.context().create_graph()?;
    let foreign = graph.add((), NodeWork::empty())?;
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    let own = depends_on(&bench.origin)?;
    for update in [DependencyUpdate::Add, DependencyUpdate::Set] {
        let updated = bench.origin.update_capture_dependencies_with_mode(foreign, update);
        refused("a node of another graph", updated, Status::INVALID_VALUE)?;
        equal("what the next one depends on", depends_on(&bench.origin)?, own.clone())?;
    }
    bench.ends_well("depending on another graph").map(drop)
}

fn dependencies_without_a_capture(environment: &Environment) -> Verdict {
    let (stream, legacy) = (environment.stream()?, environment.context().legacy_stream()?);
    for stream in [&stream, &legacy] {
        for update in [DependencyUpdate::Add, DependencyUpdate::Set] {
            refused("updating", stream.update_capture_dependencies_with_mode((), update), Status::ILLEGAL_STATE)?;
        }
    }
    usable(environment, &[&stream])
}

/// If a node is removed from the dependencies of a fork, no path from it to the origin is required.
fn dependencies_taken_from_a_fork(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    let root = depends_on(&bench.origin)?;
    bench.fork(&bench.other)?;
    bench.other.update_capture_dependencies_with_mode(&root, DependencyUpdate::Set)?;
    let graph = bench.ends_well("taking a fork's node out")?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])
}

/// The third kernel depends only on the first, and the fourth depends on all others.
fn dependencies_order_what_runs(environment: &Environment) -> Verdict {
    let (stream, trace, log) = (environment.stream()?, Trace::new(environment)?, super::order_tools::Log::default());
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let graph = capture(&stream, CaptureMode::Relaxed, || {
        trace.append(&stream, 1)?;
        first.extend(depends_on(&stream)?);
        let inside = log.clone();
        stream.launch_repeatable_host_func(move || inside.push(2))?;
        second.extend(depends_on(&stream)?);
        stream.update_capture_dependencies_with_mode(&first, DependencyUpdate::Set)?;
        trace.append(&stream, 3)?;
        stream.update_capture_dependencies_with_mode(&second, DependencyUpdate::Add)?;
        trace.append(&stream, 4)
    })?;
    equal("nodes, roots and edges", shape(&graph)?, [4, 1, 4])?;
    run(&graph, &stream)?;
    equal("the order", trace.read()?, 134)?;
    equal("the log of the host function", log.numbers(), vec![2])
}
