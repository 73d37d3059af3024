//! Captures that replace what the nodes of a graph do.

use super::capture_tools::{INVALIDATED, MODES, UNSUPPORTED, answer, shape, usable};
use super::order_trace::Trace;
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::{Capabilities, CaptureMode, CaptureScope, Graph, RecaptureChanges, Status, Stream};

const AGAIN: &[Need] = &[Need::Capability(Capabilities::RECAPTURE)];

pub(super) const CASES: &[Case] = &[
    Case::new("capture.again_replaces_what_nodes_do", "C14", replaces_what_nodes_do).needs(AGAIN),
    Case::new("capture.again_the_same", "C14", the_same).needs(AGAIN),
    Case::new("capture.again_kernels_and_a_fork", "C14", kernels_and_a_fork).needs(AGAIN),
    Case::new("capture.again_leaves_executable_graphs", "C14", leaves_executable_graphs).needs(AGAIN),
    Case::new("capture.again_with_other_nodes", "C14", with_other_nodes).needs(AGAIN),
    Case::new("capture.again_with_other_edges", "C14", with_other_edges).needs(AGAIN),
    Case::new("capture.again_with_changes_that_are_refused", "C14", with_changes_that_are_refused).needs(AGAIN),
    Case::new("capture.again_where_nothing_can_begin", "C14", where_nothing_can_begin).needs(AGAIN),
];

/// What is captured: one operation after the other.
type Body<'b> = dyn Fn(&CaptureScope<'_>) -> anabranch::Result<()> + 'b;

fn capture(stream: &Stream, body: &Body<'_>) -> anabranch::Result<Graph> {
    stream.capture(CaptureMode::Relaxed, |scope| body(scope))
}

fn replaces_what_nodes_do(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    for mode in MODES {
        let (mut first, mut second) = (stream.upload(&[0u32])?, stream.upload(&[0u32])?);
        let mut graph = stream.capture(mode, |scope| {
            scope.fill(&mut first, 1u32)?;
            scope.copy(&mut second, &first)
        })?;
        let nodes = graph.nodes()?;
        let changed = stream.recapture(&mut graph, RecaptureChanges::Any, mode, |scope| {
            scope.fill(&mut first, 2u32)?;
            scope.copy(&mut second, &first)
        })?;
        equal("the nodes", graph.nodes()?, nodes)?;
        equal("how many nodes have changed", changed.len(), 1)?;
        holds("an executable graph can be updated", changed[0].is_updatable)?;
        equal("the kind of what has changed", graph.node_kind(changed[0].node)?, anabranch::GraphNodeKind::FILL)?;
        graph.instantiate()?.launch(&stream)?;
        equal("the words", (stream.download(&first)?, stream.download(&second)?), (vec![2], vec![2]))?;
    }
    usable(environment, &[&stream])
}

fn the_same(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (source, mut copy) = (stream.upload(&[7u32, 8])?, stream.upload(&[0u32; 2])?);
    let mut graph = stream.capture(CaptureMode::Global, |scope| scope.copy(&mut copy, &source))?;
    for changes in [RecaptureChanges::Nothing, RecaptureChanges::Updatable, RecaptureChanges::Any] {
        let changed =
            stream.recapture(&mut graph, changes, CaptureMode::Global, |scope| scope.copy(&mut copy, &source))?;
        equal("what has changed", changed, vec![])?;
    }
    graph.instantiate()?.launch(&stream)?;
    equal("the copy", stream.download(&copy)?, vec![7, 8])
}

/// Captures two digits in a row, and two others beside each other in between.
fn digits(trace: &Trace<'_>, scope: &CaptureScope<'_>, other: &Stream, digit: u32) -> Verdict {
    trace.append(scope, digit)?;
    scope.fork(other)?;
    trace.append(other, 2)?;
    scope.join(other)?;
    trace.append(scope, 3)
}

fn kernels_and_a_fork(environment: &Environment) -> Verdict {
    let (stream, other, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let mut verdict = Ok(());
    let mut graph = stream.capture(CaptureMode::Global, |scope| {
        verdict = digits(&trace, scope, &other, 1);
        Ok(())
    })?;
    verdict?;
    let before = shape(&graph)?;
    let mut verdict = Ok(());
    let changed = stream.recapture(&mut graph, RecaptureChanges::Updatable, CaptureMode::Global, |scope| {
        verdict = digits(&trace, scope, &other, 9);
        Ok(())
    })?;
    verdict?;
    equal("how many nodes have changed", changed.len(), 1)?;
    equal("nodes, roots and edges", shape(&graph)?, before)?;
    graph.instantiate()?.launch(&stream)?;
    stream.synchronize()?;
    equal("the order", trace.read()?, 923)?;
    usable(environment, &[&stream, &other])
}

fn leaves_executable_graphs(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[0u32])?;
    let mut graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut word, 1u32))?;
    let executable = graph.instantiate()?;
    stream.recapture(&mut graph, RecaptureChanges::Any, CaptureMode::Global, |scope| scope.fill(&mut word, 2u32))?;
    executable.launch(&stream)?;
    equal("before the update", stream.download(&word)?, vec![1])?;
    executable.update(&graph)?;
    executable.launch(&stream)?;
    equal("after the update", stream.download(&word)?, vec![2])
}

/// Captures two host functions, and then `again` in their place, which must fail.
fn fails(environment: &Environment, what: &str, again: &Body<'_>) -> Verdict {
    let stream = environment.stream()?;
    let mut graph = capture(&stream, &|scope| {
        scope.launch_repeatable_host_func(|| ())?;
        scope.launch_repeatable_host_func(|| ())
    })?;
    let recaptured = stream.recapture(&mut graph, RecaptureChanges::Any, CaptureMode::Relaxed, |scope| again(scope));
    if recaptured.is_ok() {
        return Err(Failed(format!("{what}: the recapture succeeded")));
    }
    equal(&format!("{what}: what is in the place of the graph"), shape(&graph)?, [0, 0, 0])?;
    usable(environment, &[&stream])
}

fn with_other_nodes(environment: &Environment) -> Verdict {
    let function = |scope: &CaptureScope<'_>| scope.launch_repeatable_host_func(|| ());
    fails(environment, "no nodes", &|_| Ok(()))?;
    fails(environment, "fewer nodes", &function)?;
    fails(environment, "more nodes", &|scope| (0..3).try_for_each(|_| function(scope)))?;
    // Errors of single calls do not matter.
    fails(environment, "more nodes, whatever the calls return", &|scope| {
        let _ = (0..4).map(|_| function(scope)).collect::<Vec<_>>();
        Ok(())
    })?;
    let event = environment.context().create_event()?;
    fails(environment, "a node of another kind", &|scope| {
        function(scope)?;
        scope.record_with_flags(&event, anabranch::EventRecordFlags::EXTERNAL).map(drop)
    })
}

fn with_other_edges(environment: &Environment) -> Verdict {
    let other = environment.stream()?;
    fails(environment, "nodes beside each other", &|scope| {
        scope.fork(&other)?;
        scope.launch_repeatable_host_func(|| ())?;
        other.launch_repeatable_host_func(|| ())?;
        scope.join(&other)
    })
}

fn with_changes_that_are_refused(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (mut small, mut large) = (stream.upload(&[0u32])?, stream.upload(&[0u32; 64])?);
    for (changes, fits) in
        [(RecaptureChanges::Nothing, false), (RecaptureChanges::Updatable, true), (RecaptureChanges::Any, true)]
    {
        let mut graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut small, 1u32))?;
        let (mut later, mut is_refused) = (Ok(()), false);
        let recaptured = stream.recapture(&mut graph, changes, CaptureMode::Global, |scope| {
            let filled = scope.fill(&mut small, 2u32);
            if !fits {
                is_refused = filled.is_err();
                later = scope.fill(&mut large, 3u32);
            }
            Ok(())
        });
        equal(&format!("{changes:?}: whether the change is refused"), is_refused, !fits)?;
        equal(&format!("{changes:?}: whether it succeeds"), recaptured.is_ok(), fits)?;
        if !fits {
            refused("work behind it", later, INVALIDATED)?;
            equal("what is in the place of the graph", shape(&graph)?, [0, 0, 0])?;
        }
    }
    equal("what did not run", stream.download(&large)?, vec![0; 64])?;
    usable(environment, &[&stream])
}

fn where_nothing_can_begin(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[0u32])?;
    let mut graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut word, 1u32))?;
    let legacy = environment.context().legacy_stream()?;
    let (any, mode) = (RecaptureChanges::Any, CaptureMode::Relaxed);
    refused("in the legacy stream", legacy.recapture(&mut graph, any, mode, |_| Ok(())), UNSUPPORTED)?;
    stream.begin_capture(mode)?;
    let begun = stream.recapture(&mut graph, any, mode, |_| Ok(()));
    equal("while the stream captures", answer(begun), Status::ILLEGAL_STATE)?;
    stream.end_capture()?;
    graph.instantiate()?.launch(&stream)?;
    equal("what the graph still does", stream.download(&word)?, vec![1])?;
    usable(environment, &[&stream])
}
