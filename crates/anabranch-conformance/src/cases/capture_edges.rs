//! The edges that a capture makes, as callers name them.

use super::capture_order_calls::Work;
use super::capture_raw::{Place, RawStream};
use super::capture_tools::{MODES, OK};
use crate::case::{Case, Failed, Verdict, equal};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{Dependency, DependencyUpdate, GraphNodeHandle};
use anabranch::{CaptureMode, CaptureStatus, EdgeData, EdgeKind, Graph, NodeWork, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.into_a_graph_below_one_node_twice", "C12", into_a_graph_below_one_node_twice),
    Case::new("capture.into_a_graph_by_edges_that_cannot_be", "C12", into_a_graph_by_edges_that_cannot_be),
    Case::new("capture.dependencies_by_programmatic_edges", "C11", by_programmatic_edges),
    Case::new("capture.dependencies_by_programmatic_edges_to_no_kernel", "C11", by_programmatic_edges_to_no_kernel),
    Case::new("capture.dependencies_by_edges_that_cannot_be", "C11", by_edges_that_cannot_be),
    Case::new("capture.dependencies_twice_with_other_data", "C11", twice_with_other_data),
];

const INVALID: Status = Status::INVALID_VALUE;

fn programmatic(from_port: u8) -> EdgeData {
    EdgeData { from_port, to_port: 0, kind: EdgeKind::PROGRAMMATIC }
}

/// Data that no edge from any node has.
const NEVER: [EdgeData; 4] = [
    EdgeData { from_port: 0, to_port: 1, kind: EdgeKind::FULL },
    EdgeData { from_port: 3, to_port: 0, kind: EdgeKind::PROGRAMMATIC },
    EdgeData { from_port: 0, to_port: 0, kind: EdgeKind::PROGRAMMATIC },
    EdgeData { from_port: 0, to_port: 0, kind: EdgeKind(200) },
];

/// A graph of one empty node.
fn graph(environment: &Environment) -> Result<(Graph, GraphNodeHandle), Failed> {
    let mut graph = environment.context().create_graph()?;
    graph.add((), NodeWork::empty())?;
    let driver = environment.device().driver();
    let nodes = driver.graph_nodes(&environment.context().live().into(), graph.live());
    match nodes.ok().and_then(|nodes| nodes.first().copied()) {
        Some(node) => Ok((graph, node)),
        None => Err(Failed("a graph of one node has none".to_owned())),
    }
}

fn into_a_graph_below_one_node_twice(environment: &Environment) -> Verdict {
    let word = environment.context().allocate_zeroed::<u32>(&environment.stream()?, 1)?;
    let (graph, node) = graph(environment)?;
    let stream = Place::primary(environment).free_stream()?;
    let twice = [node.into(), node.into()];
    equal("beginning", stream.begin_into(&graph, &twice, CaptureMode::Relaxed), OK)?;
    equal("what the first node depends on", stream.dependencies()?, vec![node.into()])?;
    equal("filling", stream.fill(&word), OK)?;
    equal("ending", stream.end(), OK)?;
    equal("edges", graph.edges()?.len(), 1)
}

fn into_a_graph_by_edges_that_cannot_be(environment: &Environment) -> Verdict {
    let (graph, node) = graph(environment)?;
    let stream = Place::primary(environment).free_stream()?;
    for data in NEVER.into_iter().chain([programmatic(1)]) {
        let dependencies = [Dependency { node, data }];
        for mode in MODES {
            equal(&format!("beginning, {data:?}"), stream.begin_into(&graph, &dependencies, mode), INVALID)?;
            equal("the capture's status", stream.status()?, CaptureStatus::None)?;
        }
        let twice = [node.into(), Dependency { node, data }];
        equal("beginning", stream.begin_into(&graph, &twice, CaptureMode::Relaxed), INVALID)?;
    }
    Ok(())
}

/// A stream that captures, and has captured a kernel.
fn after_a_kernel<'e>(
    environment: &'e Environment,
    work: &Work<'_>,
) -> Result<(RawStream<'e>, GraphNodeHandle), Failed> {
    let stream = Place::primary(environment).free_stream()?;
    stream.begin(CaptureMode::Relaxed)?;
    equal("launching", work.launch(stream.live(), |_| ()), OK)?;
    match stream.dependencies()?.first() {
        Some(dependency) => Ok((stream, dependency.node)),
        None => Err(Failed("a captured kernel is no dependency".to_owned())),
    }
}

fn by_programmatic_edges(environment: &Environment) -> Verdict {
    let work = Work::new(environment)?;
    for port in [1, 2] {
        let (stream, node) = after_a_kernel(environment, &work)?;
        let dependency = Dependency { node, data: programmatic(port) };
        equal("setting", stream.update(&[dependency], DependencyUpdate::Set), OK)?;
        equal("what was set", stream.dependencies()?, vec![dependency])?;
        equal("launching", work.launch(stream.live(), |_| ()), OK)?;
        stream.ends("a programmatic edge", CaptureStatus::Active, OK)?;
    }
    Ok(())
}

/// The data is looked at when it is set, as if a kernel were to come. What comes is not looked at.
fn by_programmatic_edges_to_no_kernel(environment: &Environment) -> Verdict {
    let work = Work::new(environment)?;
    let word = environment.context().allocate_zeroed::<u32>(&environment.stream()?, 1)?;
    for port in [1, 2] {
        let (stream, node) = after_a_kernel(environment, &work)?;
        let dependency = Dependency { node, data: programmatic(port) };
        equal("setting", stream.update(&[dependency], DependencyUpdate::Set), OK)?;
        equal("filling", stream.fill(&word), OK)?;
        stream.ends("a programmatic edge to a fill", CaptureStatus::Active, OK)?;
    }
    Ok(())
}

fn by_edges_that_cannot_be(environment: &Environment) -> Verdict {
    let (work, word) =
        (Work::new(environment)?, environment.context().allocate_zeroed::<u32>(&environment.stream()?, 1)?);
    for update in [DependencyUpdate::Add, DependencyUpdate::Set] {
        let (stream, node) = after_a_kernel(environment, &work)?;
        for data in NEVER {
            let updated = stream.update(&[Dependency { node, data }], update);
            equal(&format!("from a kernel, {data:?}"), updated, INVALID)?;
        }
        equal("what the next node depends on", stream.dependencies()?, vec![node.into()])?;
        equal("filling", stream.fill(&word), OK)?;
        let filled = stream.dependencies()?;
        let from_fill: Vec<_> =
            filled.iter().map(|dependency| Dependency { data: programmatic(1), ..*dependency }).collect();
        equal("from a fill", stream.update(&from_fill, update), INVALID)?;
        equal("what the next node depends on", stream.dependencies()?, filled)?;
        stream.ends("edges that cannot be", CaptureStatus::Active, OK)?;
    }
    Ok(())
}

/// A node is depended on once, in full if one of its edges is full.
fn twice_with_other_data(environment: &Environment) -> Verdict {
    let work = Work::new(environment)?;
    let (stream, node) = after_a_kernel(environment, &work)?;
    let (partly, fully) = (Dependency { node, data: programmatic(1) }, Dependency::from(node));
    for dependencies in [[partly, fully], [fully, partly]] {
        equal("setting", stream.update(&dependencies, DependencyUpdate::Set), OK)?;
        equal("what was set", stream.dependencies()?, vec![fully])?;
    }
    equal("setting", stream.update(&[partly, partly], DependencyUpdate::Set), OK)?;
    equal("what was set", stream.dependencies()?, vec![partly])?;
    equal("adding", stream.update(&[fully], DependencyUpdate::Add), OK)?;
    equal("what was added", stream.dependencies()?, vec![fully])?;
    stream.ends("edges of two kinds", CaptureStatus::Active, OK)
}
