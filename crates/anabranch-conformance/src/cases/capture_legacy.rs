//! The legacy default stream while a stream captures.

use super::capture_tools::{Bench, MODES, OK, answer, shape};
use crate::case::{Case, Failed, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::gate::quiesce;
use crate::live::Owner;
use anabranch::hal::CopyKind;
use anabranch::{CaptureMode, ExecutableGraph, Status, Stream};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.legacy_launch", "C8", legacy_launch),
    Case::new("capture.legacy_query", "C8", legacy_query),
    Case::new("capture.legacy_synchronize", "C8", legacy_synchronize),
    Case::new("capture.legacy_record", "C8", legacy_record),
    Case::new("capture.legacy_wait", "C8", legacy_wait),
    Case::new("capture.legacy_graph_launch", "C8", legacy_graph_launch),
    Case::new("capture.legacy_synchronous_copy", "C8", legacy_synchronous_copy),
    Case::new("capture.legacy_is_asked_for_its_status", "C8", legacy_is_asked_for_its_status),
    Case::new("capture.legacy_beside_a_non_blocking_capture", "C8", legacy_beside_a_non_blocking_capture),
    Case::new("capture.other_blocking_streams_beside_a_capture", "C8", other_blocking_streams_beside_a_capture),
];

const IMPLICIT: Status = Status::STREAM_CAPTURE_IMPLICIT;

struct Beside<'e> {
    bench: Bench<'e>,
    legacy: Stream,
    executable: ExecutableGraph,
}

fn beside(environment: &Environment, mode: CaptureMode, origin: Stream) -> Result<Beside<'_>, Failed> {
    let bench = Bench::with_origin(environment, origin)?;
    let executable = environment.context().create_graph()?.instantiate()?;
    let legacy = environment.context().legacy_stream()?;
    // When the library has memory to free, one of its threads queries whether the legacy stream is idle.
    quiesce(environment)?;
    bench.begin(mode)?;
    Ok(Beside { bench, legacy, executable })
}

/// Checks that the call returns `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` and invalidates the capture of a blocking
/// stream, in every mode.
fn invalidates(environment: &Environment, what: &str, call: fn(&Beside<'_>) -> Status) -> Verdict {
    for mode in MODES {
        let beside = beside(environment, mode, environment.blocking_stream()?)?;
        equal(what, call(&beside), IMPLICIT)?;
        beside.bench.is_invalidated(what)?;
    }
    Ok(())
}

fn legacy_launch(environment: &Environment) -> Verdict {
    invalidates(environment, "launching", |beside| beside.bench.trace.ask(&beside.legacy))
}

fn legacy_query(environment: &Environment) -> Verdict {
    invalidates(environment, "querying", |beside| answer(beside.legacy.query()))
}

fn legacy_synchronize(environment: &Environment) -> Verdict {
    invalidates(environment, "synchronizing", |beside| answer(beside.legacy.synchronize()))
}

fn legacy_record(environment: &Environment) -> Verdict {
    invalidates(environment, "recording", |beside| answer(beside.legacy.record(&beside.bench.recorded[0])))
}

fn legacy_wait(environment: &Environment) -> Verdict {
    invalidates(environment, "waiting", |beside| answer(beside.legacy.wait_event(&beside.bench.recorded[0])))
}

fn legacy_graph_launch(environment: &Environment) -> Verdict {
    invalidates(environment, "launching a graph", |beside| answer(beside.executable.launch(&beside.legacy)))
}

fn legacy_synchronous_copy(environment: &Environment) -> Verdict {
    invalidates(environment, "copying synchronously", |beside| {
        let (driver, context) = (beside.bench.environment.device().driver(), beside.bench.environment.context().live());
        let address = beside.bench.trace.address().0;
        // SAFETY: the range is live; the driver refuses the copy.
        status_of(unsafe { driver.copy(&context.into(), CopyKind::DeviceToDevice, address, address, 4) })
    })
}

fn legacy_is_asked_for_its_status(environment: &Environment) -> Verdict {
    for mode in MODES {
        let beside = beside(environment, mode, environment.blocking_stream()?)?;
        equal("querying the capture status", answer(beside.legacy.capture_status()), IMPLICIT)?;
        equal("querying the capture information", answer(beside.legacy.capture_info()), IMPLICIT)?;
        beside.bench.ends_well("querying the legacy stream's capture status")?;
        equal("querying the capture status afterwards", answer(beside.legacy.capture_status()), OK)?;
    }
    Ok(())
}

fn legacy_beside_a_non_blocking_capture(environment: &Environment) -> Verdict {
    for mode in MODES {
        let beside = beside(environment, mode, environment.stream()?)?;
        beside.bench.put(&beside.legacy)?;
        beside.legacy.record(&beside.bench.recorded[0])?;
        equal("querying the capture status", answer(beside.legacy.capture_status()), OK)?;
        let graph = beside.bench.ends_well("launching in the legacy stream")?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    Ok(())
}

fn other_blocking_streams_beside_a_capture(environment: &Environment) -> Verdict {
    for mode in MODES {
        let (other, per_thread) = (environment.blocking_stream()?, environment.context().per_thread_stream()?);
        let beside = beside(environment, mode, environment.blocking_stream()?)?;
        beside.bench.put(&other)?;
        beside.bench.put(&per_thread)?;
        let new = environment.blocking_stream()?;
        beside.bench.put(&new)?;
        let graph = beside.bench.ends_well("launching in other blocking streams")?;
        equal("nodes, roots and edges", shape(&graph)?, [1, 1, 0])?;
    }
    Ok(())
}
