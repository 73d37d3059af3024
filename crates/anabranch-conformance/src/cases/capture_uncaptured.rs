//! Work before, during and after a capture that is not captured.

use super::capture_tools::{Bench, MODES, capture, shape, usable};
use super::order_tools::Log;
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::CaptureMode;

pub(super) const CASES: &[Case] = &[
    Case::new("capture.work_before_and_after", "C10", work_before_and_after),
    Case::new("capture.work_of_other_streams", "C10", work_of_other_streams),
    Case::new("capture.work_of_a_fork_before_and_after", "C10", work_of_a_fork_before_and_after),
    Case::new("capture.nothing_to_wait_for_afterwards", "C10", nothing_to_wait_for_afterwards),
    Case::new("capture.buffers_before_and_after", "C10", buffers_before_and_after),
    Case::new("capture.launches_among_other_work", "C10", launches_among_other_work),
    Case::new("capture.event_recorded_before", "C10", event_recorded_before),
];

/// The next uncaptured work follows the last uncaptured work.
fn work_before_and_after(environment: &Environment) -> Verdict {
    for mode in MODES {
        let (stream, trace) = (environment.stream()?, Trace::new(environment)?);
        let gate = Gate::shut(environment, &stream)?;
        trace.append(&stream, 1)?;
        let graph = capture(&stream, mode, || trace.append(&stream, 5))?;
        trace.append(&stream, 2)?;
        trace.is_untouched()?;
        gate.open();
        stream.synchronize()?;
        equal("the order", trace.read()?, 12)?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    Ok(())
}

fn work_of_other_streams(environment: &Environment) -> Verdict {
    let (stream, other, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let log = Log::default();
    stream.begin_capture(CaptureMode::Relaxed)?;
    let captured = trace.append(&stream, 5);
    let appended = trace.append(&other, 1);
    let logged = log.push_in(&other, 1);
    let waited = other.synchronize();
    let seen = trace.read();
    let graph = stream.end_capture()?;
    captured?;
    appended?;
    logged?;
    waited?;
    equal("the number during the capture", seen?, 1)?;
    equal("what ran during the capture", log.numbers(), vec![1])?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])
}

fn work_of_a_fork_before_and_after(environment: &Environment) -> Verdict {
    let (origin, fork, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let gate = Gate::shut(environment, &fork)?;
    trace.append(&fork, 1)?;
    let graph = capture(&origin, CaptureMode::Global, || {
        fork.wait_stream(&origin)?;
        trace.append(&fork, 5)?;
        Ok(origin.wait_stream(&fork)?)
    })?;
    trace.append(&fork, 2)?;
    trace.is_untouched()?;
    origin.synchronize()?;
    gate.open();
    fork.synchronize()?;
    equal("the order", trace.read()?, 12)?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    usable(environment, &[&origin, &fork])
}

fn nothing_to_wait_for_afterwards(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.stream()?, Trace::new(environment)?);
    let graph = capture(&stream, CaptureMode::Global, || trace.append(&stream, 5))?;
    equal("querying", stream.query()?, true)?;
    let event = stream.record_event()?;
    event.synchronize()?;
    equal("querying an event", event.query()?, true)?;
    stream.synchronize()?;
    environment.context().synchronize()?;
    equal("the number", trace.read()?, 0)?;
    drop(graph);
    usable(environment, &[&stream])
}

/// Uses in a capture do not count. The library orders later uses after launches.
fn buffers_before_and_after(environment: &Environment) -> Verdict {
    let (stream, reader, trace) = (environment.stream()?, environment.stream()?, Trace::new(environment)?);
    let mut word = stream.upload(&[1u32])?;
    let graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut word, 2u32))?;
    equal("the word before any launch", reader.download(&word)?, vec![1])?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    executable.launch(&stream)?;
    reader.fill(&mut word, 3u32)?;
    trace.is_untouched()?;
    equal("querying a later use while the gate is shut", reader.query()?, false)?;
    gate.open();
    reader.synchronize()?;
    equal("the word", reader.download(&word)?, vec![3])
}

fn launches_among_other_work(environment: &Environment) -> Verdict {
    let (stream, trace) = (environment.stream()?, Trace::new(environment)?);
    let graph = capture(&stream, CaptureMode::Global, || {
        trace.append(&stream, 2)?;
        trace.append(&stream, 3)
    })?;
    let executable = graph.instantiate()?;
    let gate = Gate::shut(environment, &stream)?;
    trace.append(&stream, 1)?;
    executable.launch(&stream)?;
    trace.append(&stream, 4)?;
    executable.launch(&stream)?;
    trace.append(&stream, 5)?;
    trace.is_untouched()?;
    gate.open();
    stream.synchronize()?;
    equal("the order", trace.read()?, 1_234_235)
}

/// The capture does not affect an event that was recorded before it.
fn event_recorded_before(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let gate = Gate::shut(environment, &bench.origin)?;
    let event = bench.origin.record_event()?;
    bench.begin(CaptureMode::Relaxed)?;
    let pending = event.query();
    let graph = bench.origin.end_capture()?;
    equal("querying while the gate is shut", pending?, false)?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    bench.other.wait_event(&event)?;
    equal("querying the stream that waits", bench.other.query()?, false)?;
    gate.open();
    bench.other.synchronize()?;
    equal("querying afterwards", event.query()?, true)?;
    bench.is_usable("a capture after an event")
}
