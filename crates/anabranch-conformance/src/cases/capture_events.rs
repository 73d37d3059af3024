//! Queries and synchronization of captured events and capturing streams.

use super::capture_tools::{Bench, MODES, UNSUPPORTED, shape};
use crate::case::{Case, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{CaptureMode, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.stream_is_queried", "C7", stream_is_queried),
    Case::new("capture.stream_is_synchronized", "C7", stream_is_synchronized),
    Case::new("capture.context_is_synchronized", "C7", context_is_synchronized),
    Case::new("capture.event_is_queried", "C7", event_is_queried),
    Case::new("capture.event_is_synchronized", "C7", event_is_synchronized),
    Case::new("capture.event_is_measured", "C7", event_is_measured),
    Case::new("capture.event_after_a_failed_capture", "C7", event_after_a_failed_capture),
    Case::new("capture.event_is_recorded_elsewhere", "C7", event_is_recorded_elsewhere),
    Case::new("capture.event_is_dropped", "C7", event_is_dropped),
];

fn stream_is_queried(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        refused("querying", bench.origin.query(), UNSUPPORTED)?;
        bench.is_invalidated("querying the stream")?;
    }
    Ok(())
}

fn stream_is_synchronized(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        refused("synchronizing", bench.origin.synchronize(), UNSUPPORTED)?;
        bench.is_invalidated("synchronizing the stream")?;
    }
    Ok(())
}

fn context_is_synchronized(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        refused("synchronizing", environment.context().synchronize(), UNSUPPORTED)?;
        bench.is_invalidated("synchronizing the context")?;
    }
    Ok(())
}

fn event_is_queried(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        refused("querying", bench.captured.query(), Status::CAPTURED_EVENT)?;
        bench.is_invalidated("querying a captured event")?;
    }
    Ok(())
}

fn event_is_synchronized(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    refused("synchronizing", bench.captured.synchronize(), Status::CAPTURED_EVENT)?;
    bench.is_invalidated("synchronizing a captured event")
}

fn event_is_measured(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    let measured = bench.captured.elapsed_since(&bench.recorded[0]);
    refused("measuring", measured, Status::CAPTURED_EVENT)?;
    bench.ends_well("measuring with a captured event").map(drop)
}

fn event_after_a_failed_capture(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    refused("querying the stream", bench.origin.query(), UNSUPPORTED)?;
    bench.is_invalidated("querying the stream")?;
    refused("querying", bench.captured.query(), Status::INVALID_VALUE)?;
    refused("waiting", bench.other.wait_event(&bench.captured), Status::INVALID_VALUE)?;
    bench.other.record(&bench.captured)?;
    bench.other.synchronize()?;
    holds("the event recorded again is complete", bench.captured.query()?)?;
    bench.is_usable("a failed capture")
}

/// The event then refers to the other stream, and no longer belongs to the capture.
fn event_is_recorded_elsewhere(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let gate = Gate::shut(environment, &bench.other)?;
    bench.begin(CaptureMode::Relaxed)?;
    bench.other.record(&bench.captured)?;
    let pending = bench.captured.query();
    let graph = bench.origin.end_capture()?;
    equal("querying while the gate is shut", pending?, false)?;
    equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    gate.open();
    bench.captured.synchronize()?;
    bench.is_usable("recording a captured event elsewhere")
}

fn event_is_dropped(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    let event = bench.origin.record_event()?;
    bench.other.wait_event(&event)?;
    drop(event);
    bench.put(&bench.other)?;
    bench.follow(&bench.origin, &bench.other)?;
    let graph = bench.ends_well("dropping a captured event")?;
    equal("nodes, roots and edges", shape(&graph)?, [2, 1, 1])
}
