//! What a capture may wait for, and how it is isolated from other work.

use super::capture_tools::{Bench, INVALIDATED, MODES, shape, usable};
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::{CaptureMode, CaptureStatus, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.waits_for_an_event_of_outside", "C5", waits_for_an_event_of_outside),
    Case::new("capture.waits_for_a_stream_of_outside", "C5", waits_for_a_stream_of_outside),
    Case::new("capture.fork_waits_for_an_event_of_outside", "C5", fork_waits_for_an_event_of_outside),
    Case::new("capture.waits_for_an_event_of_legacy", "C5", waits_for_an_event_of_legacy),
    Case::new("capture.waits_for_an_event_never_recorded", "C5", waits_for_an_event_never_recorded),
    Case::new("capture.waits_for_another_capture", "C5", waits_for_another_capture),
    Case::new("capture.waits_for_the_stream_of_another_capture", "C5", waits_for_the_stream_of_another_capture),
    Case::new("capture.waits_for_a_capture_that_ended", "C5", waits_for_a_capture_that_ended),
    Case::new("capture.free_stream_waits_for_a_capture_that_ended", "C5", free_stream_waits_for_one_that_ended),
    Case::new("capture.waits_for_its_own_event", "C5", waits_for_its_own_event),
    Case::new("capture.uses_memory_in_use_outside", "C5", uses_memory_in_use_outside),
];

fn waits_for_an_event_of_outside(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        let waited = bench.origin.wait_event(&bench.recorded[0]);
        refused("waiting", waited, Status::STREAM_CAPTURE_ISOLATION)?;
        bench.is_invalidated("waiting for an event recorded outside the capture")?;
    }
    Ok(())
}

fn waits_for_a_stream_of_outside(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    refused("waiting", bench.origin.wait_stream(&bench.other), Status::STREAM_CAPTURE_ISOLATION)?;
    equal("the status of the other", bench.other.capture_status()?, CaptureStatus::None)?;
    bench.is_invalidated("waiting for a stream outside the capture")
}

fn fork_waits_for_an_event_of_outside(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.fork(&bench.other)?;
    refused("waiting", bench.other.wait_event(&bench.recorded[0]), Status::STREAM_CAPTURE_ISOLATION)?;
    equal("the status of the fork", bench.other.capture_status()?, CaptureStatus::Invalidated)?;
    bench.is_invalidated("waiting for an event recorded outside, in a fork")
}

fn waits_for_an_event_of_legacy(environment: &Environment) -> Verdict {
    let event = environment.context().legacy_stream()?.record_event()?;
    let bench = Bench::with_origin(environment, environment.blocking_stream()?)?;
    bench.begin(CaptureMode::Global)?;
    refused("waiting", bench.origin.wait_event(&event), Status::STREAM_CAPTURE_ISOLATION)?;
    bench.is_invalidated("waiting for an event recorded in the legacy stream")
}

fn waits_for_an_event_never_recorded(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        bench.origin.wait_event(&event)?;
        let graph = bench.ends_well("waiting for an event that was never recorded")?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    Ok(())
}

fn waits_for_another_capture(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.other.begin_capture(CaptureMode::Global)?;
    refused("waiting", bench.other.wait_event(&bench.captured), Status::STREAM_CAPTURE_MERGE)?;
    equal("the status of the waiting one", bench.other.capture_status()?, CaptureStatus::Invalidated)?;
    equal("the status of the other one", bench.status()?, CaptureStatus::Invalidated)?;
    refused("ending the waiting one", bench.other.end_capture(), INVALIDATED)?;
    bench.is_invalidated("waiting for another capture")
}

fn waits_for_the_stream_of_another_capture(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    bench.other.begin_capture(CaptureMode::Relaxed)?;
    refused("waiting", bench.other.wait_stream(&bench.origin), Status::STREAM_CAPTURE_MERGE)?;
    refused("ending the waiting one", bench.other.end_capture(), INVALIDATED)?;
    bench.is_invalidated("waiting for the stream of another capture")
}

fn waits_for_a_capture_that_ended(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.origin.end_capture()?;
    bench.origin.begin_capture(CaptureMode::Global)?;
    refused("waiting", bench.origin.wait_event(&bench.captured), Status::INVALID_VALUE)?;
    bench.is_invalidated("waiting for a capture that has ended")
}

/// The wait is refused until the event is recorded again.
fn free_stream_waits_for_one_that_ended(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.origin.end_capture()?;
    refused("waiting", bench.other.wait_event(&bench.captured), Status::INVALID_VALUE)?;
    refused("querying", bench.captured.query(), Status::INVALID_VALUE)?;
    refused("synchronizing", bench.captured.synchronize(), Status::INVALID_VALUE)?;
    bench.origin.record(&bench.captured)?;
    bench.other.wait_event(&bench.captured)?;
    bench.captured.synchronize()?;
    holds("the event recorded again is complete", bench.captured.query()?)?;
    bench.is_usable("waiting for a capture that has ended")
}

fn waits_for_its_own_event(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    bench.origin.wait_event(&bench.captured)?;
    bench.put(&bench.origin)?;
    let graph = bench.ends_well("waiting for its own event")?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])
}

/// The library orders a launch after uses outside the graph. It does not order the capture.
fn uses_memory_in_use_outside(environment: &Environment) -> Verdict {
    let (stream, user, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let mut word = user.upload(&[1u32])?;
    let gate = crate::gate::Gate::shut(environment, &user)?;
    user.fill(&mut word, 2u32)?;
    let graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut word, 3u32))?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    trace.is_untouched()?;
    equal("querying the launch while the gate is shut", stream.query()?, false)?;
    gate.open();
    equal("the word", user.download(&word)?, vec![3])?;
    usable(environment, &[&stream, &user])
}
