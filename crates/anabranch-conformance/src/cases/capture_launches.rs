//! Launches of graphs that wait for events of captures, and captures of which the driver keeps more than their nodes.

use super::capture_raw::{Place, RawEvent};
use super::capture_tools::{INVALIDATED, OK, UNSUPPORTED};
use super::graph_raw::RawGraph;
use super::graph_tools::{raw_digit, word};
use crate::case::{Case, Failed, Verdict, equal};
use crate::environment::Environment;
use anabranch::hal::Live;
use anabranch::{
    Buffer, CaptureMode, CaptureStatus, ContextFlags, EventFlags, EventRecordFlags, NodeParameters, NodeWork, Status,
    StreamHandle,
};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.joined_by_a_launch", "C4", joined_by_a_launch),
    Case::new("capture.joined_by_no_launch_that_waits_elsewhere", "C4", joined_by_no_launch_that_waits_elsewhere),
    Case::new("capture.joined_by_no_launch_of_another_context", "C4", joined_by_no_launch_of_another_context),
    Case::new("capture.launch_on_legacy_waits_for_its_event", "C4", launch_on_legacy_waits_for_its_event),
    Case::new("graph.update_from_a_capture_that_was_joined", "G3", update_from_a_capture_that_was_joined),
];

/// What a node of a graph does.
#[derive(Clone, Copy)]
enum Step {
    /// It appends a digit to the number.
    Digit(u32),
    /// It waits for the event.
    Wait,
}

/// A graph of nodes, each with those before it.
fn graph<'e>(
    environment: &'e Environment,
    (event, number): (&RawEvent<'_>, &Buffer<u32>),
    nodes: &[(Step, &[usize])],
) -> Result<RawGraph<'e>, Failed> {
    let graph = RawGraph::new(environment)?;
    for (step, after) in nodes {
        let parameters = match *step {
            Step::Digit(digit) => NodeParameters::Kernel(raw_digit(environment, number.device_pointer(), digit)?),
            Step::Wait => NodeParameters::EventWait(event.live().handle()),
        };
        graph.must_add(after, parameters)?;
    }
    Ok(graph)
}

/// The stream of the launch waits itself, wherever the node is in the first branch, and so it joins the capture.
fn joined_by_a_launch(environment: &Environment) -> Verdict {
    let (stream, number) = word(environment)?;
    let place = Place::primary(environment);
    for nodes in [&[(Step::Wait, &[][..]), (Step::Digit(1), &[0])][..], &[(Step::Digit(1), &[]), (Step::Wait, &[0])]] {
        let (origin, other, event) = (place.free_stream()?, place.free_stream()?, place.event(EventFlags::empty())?);
        let graph = graph(environment, (&event, &number), nodes)?;
        let executable = graph.must_instantiate()?;
        origin.begin(CaptureMode::Relaxed)?;
        equal("filling", origin.fill(&number), OK)?;
        equal("recording", origin.record(&event, EventRecordFlags::empty()), OK)?;
        equal("launching", executable.launch_in(other.live()), OK)?;
        equal("the stream's status", other.status()?, CaptureStatus::Active)?;
        equal("what its next node depends on", other.dependencies()?, origin.dependencies()?)?;
        equal("another launch", executable.launch_in(other.live()), UNSUPPORTED)?;
        origin.ends("the launches", CaptureStatus::Invalidated, INVALIDATED)?;
        equal("the stream's status at the end", other.status()?, CaptureStatus::None)?;
        environment.context().synchronize()?;
    }
    equal("the number", stream.download(&number)?, vec![11])
}

/// What is not in the first branch does not run in the stream of the launch.
fn joined_by_no_launch_that_waits_elsewhere(environment: &Environment) -> Verdict {
    let (stream, number) = word(environment)?;
    let place = Place::primary(environment);
    let (origin, event) = (place.free_stream()?, place.event(EventFlags::empty())?);
    let graph = graph(environment, (&event, &number), &[(Step::Digit(1), &[]), (Step::Wait, &[])])?;
    let executable = graph.must_instantiate()?;
    origin.begin(CaptureMode::Relaxed)?;
    equal("recording", origin.record(&event, EventRecordFlags::empty()), OK)?;
    equal("launching", executable.launch_in(legacy()), OK)?;
    origin.ends("the launch", CaptureStatus::Active, OK)?;
    environment.context().synchronize()?;
    equal("the number", stream.download(&number)?, vec![1])
}

fn joined_by_no_launch_of_another_context(environment: &Environment) -> Verdict {
    let (stream, number) = word(environment)?;
    let context = environment.device().create_context(ContextFlags::empty())?;
    let (place, elsewhere) = (Place::primary(environment), Place::new(environment, &context));
    let (origin, other) = (place.free_stream()?, elsewhere.free_stream()?);
    let event = place.event(EventFlags::empty())?;
    let graph = graph(environment, (&event, &number), &[(Step::Wait, &[]), (Step::Digit(1), &[0])])?;
    let executable = graph.must_instantiate()?;
    origin.begin(CaptureMode::Relaxed)?;
    equal("recording", origin.record(&event, EventRecordFlags::empty()), OK)?;
    equal("launching", executable.launch_in(other.live()), OK)?;
    equal("the stream's status", other.status()?, CaptureStatus::None)?;
    origin.ends("the launch", CaptureStatus::Active, OK)?;
    context.synchronize()?;
    environment.context().synchronize()?;
    equal("the number", stream.download(&number)?, vec![1])
}

/// The legacy stream cannot join a capture. What comes before the wait has run then, and what comes after it has not.
fn launch_on_legacy_waits_for_its_event(environment: &Environment) -> Verdict {
    let (stream, number) = word(environment)?;
    let place = Place::primary(environment);
    let (origin, event) = (place.free_stream()?, place.event(EventFlags::empty())?);
    let nodes = [(Step::Digit(1), &[][..]), (Step::Wait, &[0]), (Step::Digit(2), &[1])];
    let graph = graph(environment, (&event, &number), &nodes)?;
    let executable = graph.must_instantiate()?;
    origin.begin(CaptureMode::Relaxed)?;
    equal("recording", origin.record(&event, EventRecordFlags::empty()), OK)?;
    equal("launching", executable.launch_in(legacy()), Status::STREAM_CAPTURE_IMPLICIT)?;
    origin.ends("the launch", CaptureStatus::Invalidated, INVALIDATED)?;
    environment.context().synchronize()?;
    equal("the number", stream.download(&number)?, vec![1])
}

fn legacy() -> Live<'static, StreamHandle> {
    // SAFETY: the default streams always exist.
    unsafe { Live::new(StreamHandle::from_raw(0)) }
}

/// The nodes that the origin's next one would depend on become sinks at the end, in this order: that of the origin comes first,
/// although that of the fork was captured before it.
fn update_from_a_capture_that_was_joined(environment: &Environment) -> Verdict {
    let (stream, mut filled) = word(environment)?;
    stream.synchronize()?;
    let (origin, fork) = (environment.stream()?, environment.stream()?);
    origin.begin_capture(CaptureMode::Relaxed)?;
    fork.wait_event(&origin.record_event()?)?;
    fork.fill(&mut filled, 1)?;
    origin.launch_repeatable_host_func(|| ())?;
    origin.wait_event(&fork.record_event()?)?;
    let captured = origin.end_capture()?;
    let mut made = environment.context().create_graph()?;
    made.add((), NodeWork::host_func(|| ()))?;
    made.add((), NodeWork::fill(&mut filled, 1u32)?)?;
    Ok(made.instantiate()?.update(&captured)?)
}
