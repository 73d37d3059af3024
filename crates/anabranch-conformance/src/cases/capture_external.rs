//! External events, which graphs record and wait for.

use super::capture_tools::{Bench, MODES, is_made_of, run, shape};
use super::order_trace::Trace;
use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::hal::GraphNodeKind;
use anabranch::{Capabilities, CaptureMode, EventFlags, EventRecordFlags, EventWaitFlags, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.external_record_is_a_node", "C6", external_record_is_a_node),
    Case::new("capture.external_record_at_every_launch", "C6", external_record_at_every_launch),
    Case::new("capture.external_wait_is_a_node", "C6", external_wait_is_a_node),
    Case::new("capture.external_wait_at_the_launch", "C6", external_wait_at_the_launch),
    Case::new("capture.external_wait_for_any_event", "C6", external_wait_for_any_event),
    Case::new("capture.external_flag_beside_a_capture", "C6", external_flag_beside_a_capture),
    Case::new("capture.interprocess_events", "C6", interprocess_events).needs(INTERPROCESS),
];

const INTERPROCESS: &[Need] = &[Need::Capability(Capabilities::INTERPROCESS_EVENTS)];

fn external_record_is_a_node(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        bench.origin.record_with_flags(&bench.recorded[0], EventRecordFlags::EXTERNAL)?;
        let graph = bench.ends_well("an external record")?;
        equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
        is_made_of(&graph, &[GraphNodeKind::KERNEL, GraphNodeKind::EVENT_RECORD])?;
        holds("the event still refers to the record outside", bench.recorded[0].query()?)?;
        run(&graph, &bench.origin)?;
    }
    Ok(())
}

fn external_record_at_every_launch(environment: &Environment) -> Verdict {
    let (stream, waiting, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let event = environment.context().create_event()?;
    stream.begin_capture(CaptureMode::Global)?;
    let appended = trace.append(&stream, 1);
    let recorded = stream.record_with_flags(&event, EventRecordFlags::EXTERNAL);
    let executable = stream.end_capture()?.instantiate()?;
    appended?;
    recorded?;
    for number in [1, 11] {
        let gate = Gate::shut(environment, &stream)?;
        executable.launch(&stream)?;
        waiting.wait_event(&event)?;
        equal("querying the event", event.query()?, false)?;
        equal("querying the stream that waits", waiting.query()?, false)?;
        gate.open();
        waiting.synchronize()?;
        equal("the number", trace.read()?, number)?;
    }
    stream.synchronize()?;
    Ok(())
}

fn external_wait_is_a_node(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        bench.origin.wait_event_with_flags(&bench.recorded[0], EventWaitFlags::EXTERNAL)?;
        let graph = bench.ends_well("an external wait")?;
        equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
        is_made_of(&graph, &[GraphNodeKind::KERNEL, GraphNodeKind::EVENT_WAIT])?;
        run(&graph, &bench.origin)?;
    }
    Ok(())
}

/// The node waits for what the event has captured by the time of the launch.
fn external_wait_at_the_launch(environment: &Environment) -> Verdict {
    let (stream, earlier, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let event = earlier.record_event()?;
    stream.begin_capture(CaptureMode::Global)?;
    let waited = stream.wait_event_with_flags(&event, EventWaitFlags::EXTERNAL);
    let appended = trace.append(&stream, 2);
    let executable = stream.end_capture()?.instantiate()?;
    waited?;
    appended?;
    let gate = Gate::shut(environment, &earlier)?;
    trace.append(&earlier, 1)?;
    earlier.record(&event)?;
    executable.launch(&stream)?;
    trace.is_untouched()?;
    equal("querying the launch", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    equal("the order", trace.read()?, 12)
}

fn external_wait_for_any_event(environment: &Environment) -> Verdict {
    let never = environment.context().create_event()?;
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    for event in [&never, &bench.captured, &bench.recorded[0]] {
        bench.origin.wait_event_with_flags(event, EventWaitFlags::EXTERNAL)?;
    }
    let graph = bench.ends_well("external waits for all kinds of event")?;
    equal("nodes, roots and edges", shape(&graph)?, [4, 1, 3])
}

fn external_flag_beside_a_capture(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    let record = bench.other.record_with_flags(&bench.recorded[0], EventRecordFlags::EXTERNAL);
    refused("recording", record, Status::ILLEGAL_STATE)?;
    for event in [&bench.recorded[0], &bench.captured] {
        let waited = bench.other.wait_event_with_flags(event, EventWaitFlags::EXTERNAL);
        refused("waiting", waited, Status::ILLEGAL_STATE)?;
    }
    bench.ends_well("the external flag elsewhere").map(drop)
}

fn interprocess_events(environment: &Environment) -> Verdict {
    let flags = EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING;
    let event = environment.context().create_event_with_flags(flags)?;
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    bench.origin.record_with_flags(&event, EventRecordFlags::EXTERNAL)?;
    let graph = bench.ends_well("an external record of an event between processes")?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])?;
    run(&graph, &bench.origin)?;
    holds("the event is complete", event.query()?)
}
