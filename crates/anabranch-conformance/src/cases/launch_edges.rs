//! The edges that captured launches have instead of events and overlap. NVIDIA does not say what they are for launch completion
//! events; that is what an H100 answers.

use super::launch_attributes::{append, event, is_made, one};
use crate::case::{Case, Failed, Need, Verdict, equal, holds};
use crate::environment::Environment;
use anabranch::{Capabilities, CaptureMode, EdgeKind, Event, Graph, LaunchConfig};

const CLUSTERS: &[Need] = &[Need::Capability(Capabilities::CLUSTER_LAUNCH)];

pub(super) const CASES: &[Case] = &[
    Case::new("launch_attributes.captured_programmatic_event", "S8", captured_programmatic_event).needs(CLUSTERS),
    Case::new("launch_attributes.captured_completion_event", "S8", captured_completion_event).needs(CLUSTERS),
    Case::new("launch_attributes.captured_event_does_not_cover_the_launch", "S8", captured_event_does_not_cover)
        .needs(CLUSTERS),
    Case::new("launch_attributes.captured_event_in_its_own_stream", "S8", captured_event_in_its_own_stream)
        .needs(CLUSTERS),
    Case::new("launch_attributes.captured_event_before_serialization", "S8", captured_event_before_serialization)
        .needs(CLUSTERS),
    Case::new("launch_attributes.captured_events_of_one_launch", "S8", captured_events_of_one_launch).needs(CLUSTERS),
    Case::new("launch_attributes.captured_event_and_the_end", "S8", captured_event_and_the_end).needs(CLUSTERS),
    Case::new("launch_attributes.captured_serialization", "S8", captured_serialization).needs(CLUSTERS),
];

/// A point of a launch that an event is recorded at.
#[derive(Clone, Copy)]
enum Point {
    Trigger,
    TriggerAtBlockStart,
    Completion,
}

impl Point {
    fn recorded_by<'e>(self, config: LaunchConfig<'e>, event: &'e Event) -> LaunchConfig<'e> {
        match self {
            Self::Trigger => config.programmatic_event(event),
            Self::TriggerAtBlockStart => config.programmatic_event_at_block_start(event),
            Self::Completion => config.launch_completion_event(event),
        }
    }
}

/// The kind and the port of an edge.
type EdgeEnd = (EdgeKind, u8);

const FULL: EdgeEnd = (EdgeKind::FULL, 0);
const COMPLETION: EdgeEnd = (EdgeKind::FULL, 2);
const TRIGGER: EdgeEnd = (EdgeKind::PROGRAMMATIC, 1);
const BLOCK_START: EdgeEnd = (EdgeKind::PROGRAMMATIC, 2);

/// Those of all edges.
fn ends(graph: &Graph) -> Result<Vec<EdgeEnd>, Failed> {
    Ok(graph.edges()?.iter().map(|edge| (edge.data.kind, edge.data.from_port)).collect())
}

/// What the second stream does behind the event.
#[derive(Clone, Copy)]
enum Behind {
    /// A kernel that uses the memory of the first.
    SameMemory,
    /// A kernel with memory of its own.
    OwnMemory,
    /// The same, which may overlap with what is before it.
    Overlapping,
    /// A fill of its own memory.
    Fill,
}

/// Whether the driver knows launch completion events, which came with CUDA 12.3.
fn has_completion_events(environment: &Environment) -> Result<bool, Failed> {
    let stream = environment.stream()?;
    let (mut word, event) = (stream.upload(&[4u32])?, event(environment)?);
    is_made("a launch", append(environment, &stream, &mut word, 2, &one().launch_completion_event(&event)))
}

/// Captures a launch that records an event, and work in a second stream that waits for it. Returns the edge between them.
fn captured(environment: &Environment, point: Point, behind: Behind) -> Result<EdgeEnd, Failed> {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let (mut word, mut own) = (stream.upload(&[4u32])?, other.upload(&[0u32])?);
    let event = event(environment)?;
    environment.context().synchronize()?;
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        append(environment, scope, &mut word, 2, &point.recorded_by(one(), &event))?;
        other.wait(&event)?;
        match behind {
            Behind::SameMemory => append(environment, &other, &mut word, 3, &one())?,
            Behind::OwnMemory => append(environment, &other, &mut own, 3, &one())?,
            Behind::Overlapping => {
                append(environment, &other, &mut own, 3, &one().programmatic_stream_serialization())?;
            }
            Behind::Fill => other.fill(&mut own, 3)?,
        }
        scope.join(&other)
    })?;
    let edges = graph.edges()?;
    equal("edges", edges.len(), 1)?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    stream.synchronize()?;
    let expected = if matches!(behind, Behind::SameMemory) { (vec![423], vec![0]) } else { (vec![42], vec![3]) };
    equal("the digits", (stream.download(&word)?, other.download(&own)?), expected)?;
    Ok((edges[0].data.kind, edges[0].data.from_port))
}

fn captured_programmatic_event(environment: &Environment) -> Verdict {
    equal("a trigger", captured(environment, Point::Trigger, Behind::OwnMemory)?, TRIGGER)?;
    equal("the begin of blocks", captured(environment, Point::TriggerAtBlockStart, Behind::OwnMemory)?, BLOCK_START)
}

fn captured_completion_event(environment: &Environment) -> Verdict {
    if has_completion_events(environment)? {
        equal("a kernel", captured(environment, Point::Completion, Behind::OwnMemory)?, COMPLETION)?;
        equal("a fill", captured(environment, Point::Completion, Behind::Fill)?, COMPLETION)?;
    }
    Ok(())
}

/// Kernels that use the same memory run one after the other all the same.
fn captured_event_does_not_cover(environment: &Environment) -> Verdict {
    equal("a trigger", captured(environment, Point::Trigger, Behind::SameMemory)?, FULL)?;
    equal("the begin of blocks", captured(environment, Point::TriggerAtBlockStart, Behind::SameMemory)?, FULL)?;
    if has_completion_events(environment)? {
        equal("the launch", captured(environment, Point::Completion, Behind::SameMemory)?, FULL)?;
    }
    Ok(())
}

fn captured_event_before_serialization(environment: &Environment) -> Verdict {
    for point in [Point::Trigger, Point::TriggerAtBlockStart] {
        equal("an event of blocks", captured(environment, point, Behind::Overlapping)?, TRIGGER)?;
    }
    if has_completion_events(environment)? {
        equal("the launch", captured(environment, Point::Completion, Behind::Overlapping)?, TRIGGER)?;
    }
    Ok(())
}

/// The stream comes after the end of the launch already.
fn captured_event_in_its_own_stream(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (mut word, event, is_known) =
        (stream.upload(&[4u32])?, event(environment)?, has_completion_events(environment)?);
    for point in [Point::Trigger, Point::TriggerAtBlockStart, Point::Completion] {
        if matches!(point, Point::Completion) && !is_known {
            continue;
        }
        stream.synchronize()?;
        let graph = stream.capture(CaptureMode::Relaxed, |scope| {
            append(environment, scope, &mut word, 2, &point.recorded_by(one(), &event))?;
            scope.wait(&event)?;
            scope.fill(&mut word, 7)
        })?;
        let ends = ends(&graph)?;
        equal("edges", ends, vec![FULL])?;
    }
    Ok(())
}

/// The later of two points, for a stream that waits for both.
fn captured_events_of_one_launch(environment: &Environment) -> Verdict {
    if !has_completion_events(environment)? {
        return Ok(());
    }
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let (mut word, mut own) = (stream.upload(&[4u32])?, other.upload(&[0u32])?);
    let (completion, trigger) = (event(environment)?, event(environment)?);
    for (point, expected) in [(Point::Trigger, TRIGGER), (Point::TriggerAtBlockStart, BLOCK_START)] {
        environment.context().synchronize()?;
        let config = point.recorded_by(one().launch_completion_event(&completion), &trigger);
        let graph = stream.capture(CaptureMode::Relaxed, |scope| {
            append(environment, scope, &mut word, 2, &config)?;
            other.wait(&completion)?;
            other.wait(&trigger)?;
            append(environment, &other, &mut own, 3, &one())?;
            scope.join(&other)
        })?;
        let ends = ends(&graph)?;
        equal("edges", ends, vec![expected])?;
    }
    Ok(())
}

/// The end, for a stream that waits for an earlier point too, before or afterwards.
fn captured_event_and_the_end(environment: &Environment) -> Verdict {
    let is_known = has_completion_events(environment)?;
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let (mut word, early, end) = (stream.upload(&[4u32])?, event(environment)?, event(environment)?);
    for point in [Point::Trigger, Point::TriggerAtBlockStart, Point::Completion] {
        if matches!(point, Point::Completion) && !is_known {
            continue;
        }
        for events in [[&early, &end], [&end, &early]] {
            environment.context().synchronize()?;
            let graph = stream.capture(CaptureMode::Relaxed, |scope| {
                append(environment, scope, &mut word, 2, &point.recorded_by(one(), &early))?;
                scope.record(&end)?;
                events.iter().try_for_each(|event| other.wait(*event))?;
                append(environment, &other, &mut word, 3, &one())?;
                scope.join(&other)
            })?;
            let ends = ends(&graph)?;
            equal("edges", ends, vec![FULL])?;
        }
    }
    Ok(())
}

fn captured_serialization(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut word = stream.upload(&[0u32])?;
    stream.synchronize()?;
    stream.begin_capture(CaptureMode::Relaxed)?;
    let overlapping = one().programmatic_stream_serialization();
    for (digit, config) in [(1, overlapping), (2, overlapping), (3, one())] {
        append(environment, &stream, &mut word, digit, &config)?;
    }
    let graph = stream.end_capture()?;
    let ends = ends(&graph)?;
    equal("edges", ends.len(), 2)?;
    holds("one edge is programmatic", ends.contains(&TRIGGER))?;
    holds("one edge is full", ends.contains(&FULL))?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    executable.launch(&stream)?;
    stream.synchronize()?;
    equal("the digits", stream.download(&word)?, vec![123_123])
}
