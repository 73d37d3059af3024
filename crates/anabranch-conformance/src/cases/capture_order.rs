//! What is reported first: the state of a capture, or errors in the arguments of a call.

use super::capture_calls::{REFUSED, Things};
use super::capture_order_calls::{
    ATTRIBUTE, BAD, BAD_GRIDS, CONTEXT, Call, EMPTY, EMPTY_POOLED, GOOD, HOST, QUESTIONS, REFUSED_QUESTIONS, Work,
};
use super::capture_raw::{Place, RawStream};
use super::capture_tools::{Bench, INVALIDATED, MODES, OK, UNSUPPORTED, answer, elsewhere};
use crate::case::{Case, Need, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::gate::quiesce;
use crate::live::Owner;
use anabranch::hal::{DependencyUpdate, EventHandle, Live};
use anabranch::{
    Capabilities, CaptureMode, CaptureStatus, EventFlags, EventRecordFlags, EventWaitFlags, InstantiateFlags, Status,
    StreamFlags, StreamHandle,
};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.order_of_work", "C13", of_work),
    Case::new("capture.order_of_host_functions", "C13", of_host_functions),
    Case::new("capture.order_of_empty_work", "C13", of_empty_work),
    Case::new("capture.order_of_empty_memory", "C13", of_empty_memory).needs(POOLS),
    Case::new("capture.order_of_bad_work", "C13", of_bad_work),
    Case::new("capture.order_of_bad_grids", "C13", of_bad_grids).needs(GRIDS),
    Case::new("capture.order_of_refused_calls", "C13", of_refused_calls),
    Case::new("capture.order_of_questions", "C13", of_questions),
    Case::new("capture.order_of_other_questions", "C13", of_other_questions),
    Case::new("capture.order_of_null_events", "C13", of_null_events),
    Case::new("capture.order_on_legacy_of_work", "C8", on_legacy_of_work),
    Case::new("capture.order_on_legacy_of_host_functions", "C8", on_legacy_of_host_functions),
    Case::new("capture.order_on_legacy_of_empty_work", "C8", on_legacy_of_empty_work),
    Case::new("capture.order_on_legacy_of_empty_memory", "C8", on_legacy_of_empty_memory).needs(POOLS),
    Case::new("capture.order_on_legacy_of_bad_work", "C8", on_legacy_of_bad_work),
    Case::new("capture.order_on_legacy_of_bad_grids", "C8", on_legacy_of_bad_grids).needs(GRIDS),
    Case::new("capture.order_on_legacy_of_questions", "C8", on_legacy_of_questions),
    Case::new("capture.order_on_legacy_of_other_questions", "C8", on_legacy_of_other_questions),
    Case::new("capture.order_on_legacy_of_refused_questions", "C8", on_legacy_of_refused_questions),
    Case::new("capture.legacy_begins", "C8", legacy_begins),
    Case::new("capture.legacy_ends", "C8", legacy_ends),
    Case::new("capture.legacy_changes_dependencies", "C8", legacy_changes_dependencies),
    Case::new("capture.legacy_waits_for_a_non_blocking_capture", "C8", legacy_waits_for_a_non_blocking_capture),
    Case::new("capture.legacy_is_used_by_another_thread", "C8", legacy_is_used_by_another_thread),
    Case::new("capture.legacy_beside_a_per_thread_capture", "C8", legacy_beside_a_per_thread_capture),
    Case::new("capture.instantiated_with_unknown_flags", "C3", instantiated_with_unknown_flags),
    Case::new("capture.instantiated_with_an_upload", "C3", instantiated_with_an_upload),
    Case::new("capture.instantiated_with_an_upload_on_legacy", "C8", instantiated_with_an_upload_on_legacy),
];

const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];
const GRIDS: &[Need] =
    &[Need::Capability(Capabilities::COOPERATIVE_LAUNCH), Need::Capability(Capabilities::CLUSTER_LAUNCH)];
const IMPLICIT: Status = Status::STREAM_CAPTURE_IMPLICIT;
const LEGACY: Live<'_, StreamHandle> = Live::<StreamHandle>::LEGACY;

/// Checks what the calls return in a stream whose capture is invalidated.
fn when_invalidated(environment: &Environment, calls: &[Call], status: Status) -> Verdict {
    let work = Work::new(environment)?;
    for mode in MODES {
        let stream = Place::primary(environment).free_stream()?;
        stream.begin(mode)?;
        stream.invalidate()?;
        for (what, call) in calls {
            equal(what, call(&work, stream.live()), status)?;
        }
        stream.ends("calls that were refused", CaptureStatus::Invalidated, INVALIDATED)?;
    }
    Ok(())
}

/// Checks that the calls return `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` in the legacy stream beside a blocking capture,
/// and invalidate it.
fn on_legacy(environment: &Environment, calls: &[Call]) -> Verdict {
    beside_a_capture(environment, calls, IMPLICIT, true)
}

/// Checks what the calls return in the legacy stream beside a blocking capture, and whether they invalidate it.
fn beside_a_capture(environment: &Environment, calls: &[Call], status: Status, invalidates: bool) -> Verdict {
    let (work, stream) = (Work::new(environment)?, Place::primary(environment).stream(StreamFlags::empty())?);
    quiesce(environment)?;
    for mode in MODES {
        for (what, call) in calls {
            stream.begin(mode)?;
            equal(what, call(&work, LEGACY), status)?;
            goes_on(&stream, what, !invalidates)?;
        }
    }
    Ok(())
}

/// Checks whether a capture is still valid, and ends it.
fn goes_on(stream: &RawStream<'_>, what: &str, valid: bool) -> Verdict {
    if valid {
        stream.ends(what, CaptureStatus::Active, OK)
    } else {
        stream.ends(what, CaptureStatus::Invalidated, INVALIDATED)
    }
}

fn of_work(environment: &Environment) -> Verdict {
    when_invalidated(environment, GOOD, INVALIDATED)
}

fn of_host_functions(environment: &Environment) -> Verdict {
    when_invalidated(environment, HOST, INVALIDATED)
}

fn of_empty_work(environment: &Environment) -> Verdict {
    when_invalidated(environment, EMPTY, INVALIDATED)
}

fn of_empty_memory(environment: &Environment) -> Verdict {
    when_invalidated(environment, EMPTY_POOLED, INVALIDATED)
}

fn of_bad_work(environment: &Environment) -> Verdict {
    when_invalidated(environment, BAD, INVALIDATED)
}

fn of_bad_grids(environment: &Environment) -> Verdict {
    when_invalidated(environment, BAD_GRIDS, INVALIDATED)
}

/// What cannot be captured returns the same as in a valid capture.
fn of_refused_calls(environment: &Environment) -> Verdict {
    for (what, call) in REFUSED {
        let things = Things::new(environment)?;
        things.bench.begin(CaptureMode::Relaxed)?;
        equal("querying", answer(things.bench.origin.query()), UNSUPPORTED)?;
        equal(what, call(&things), UNSUPPORTED)?;
        things.bench.is_invalidated(what)?;
    }
    Ok(())
}

fn of_questions(environment: &Environment) -> Verdict {
    when_invalidated(environment, QUESTIONS, INVALIDATED)
}

fn of_other_questions(environment: &Environment) -> Verdict {
    when_invalidated(environment, ATTRIBUTE, INVALIDATED)?;
    when_invalidated(environment, CONTEXT, INVALIDATED)
}

fn of_null_events(environment: &Environment) -> Verdict {
    const NULL: Live<'_, EventHandle> = Live::<EventHandle>::NULL;
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let stream = Place::primary(environment).free_stream()?;
    stream.begin(CaptureMode::Relaxed)?;
    stream.invalidate()?;
    let recorded = driver.event_record(&context.into(), NULL, stream.live(), EventRecordFlags::empty());
    equal("recording", status_of(recorded), INVALIDATED)?;
    let awaited = driver.stream_wait_event(&context.into(), stream.live(), NULL, EventWaitFlags::empty());
    equal("waiting", status_of(awaited), INVALIDATED)?;
    stream.ends("null events", CaptureStatus::Invalidated, INVALIDATED)
}

fn on_legacy_of_work(environment: &Environment) -> Verdict {
    on_legacy(environment, GOOD)
}

/// They are refused like other work, and the capture continues.
fn on_legacy_of_host_functions(environment: &Environment) -> Verdict {
    beside_a_capture(environment, HOST, IMPLICIT, false)
}

fn on_legacy_of_empty_work(environment: &Environment) -> Verdict {
    on_legacy(environment, EMPTY)
}

fn on_legacy_of_empty_memory(environment: &Environment) -> Verdict {
    on_legacy(environment, EMPTY_POOLED)
}

fn on_legacy_of_bad_work(environment: &Environment) -> Verdict {
    on_legacy(environment, BAD)
}

fn on_legacy_of_bad_grids(environment: &Environment) -> Verdict {
    on_legacy(environment, BAD_GRIDS)
}

fn on_legacy_of_questions(environment: &Environment) -> Verdict {
    on_legacy(environment, QUESTIONS)
}

fn on_legacy_of_other_questions(environment: &Environment) -> Verdict {
    on_legacy(environment, ATTRIBUTE)?;
    beside_a_capture(environment, CONTEXT, OK, false)
}

fn on_legacy_of_refused_questions(environment: &Environment) -> Verdict {
    on_legacy(environment, REFUSED_QUESTIONS)
}

/// A stream that captures, and whose work the legacy stream waits for.
fn blocking(environment: &Environment, mode: CaptureMode) -> Result<RawStream<'_>, crate::case::Failed> {
    let stream = Place::primary(environment).stream(StreamFlags::empty())?;
    quiesce(environment)?;
    stream.begin(mode)?;
    Ok(stream)
}

fn legacy_begins(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    for mode in MODES {
        let graph = environment.context().create_graph()?;
        let stream = blocking(environment, mode)?;
        let begun = status_of(driver.stream_begin_capture(&context.into(), LEGACY, mode));
        equal("beginning", begun, IMPLICIT)?;
        stream.ends("beginning on legacy", CaptureStatus::Invalidated, INVALIDATED)?;
        stream.begin(mode)?;
        // SAFETY: no capture begins, and there are no nodes.
        let begun = unsafe { driver.stream_begin_capture_to_graph(&context.into(), LEGACY, graph.live(), &[], mode) };
        equal("beginning into a graph", status_of(begun), IMPLICIT)?;
        stream.ends("beginning on legacy", CaptureStatus::Invalidated, INVALIDATED)?;
    }
    Ok(())
}

fn legacy_ends(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    for mode in MODES {
        let stream = blocking(environment, mode)?;
        equal("ending", status_of(driver.stream_end_capture(&context.into(), LEGACY)), IMPLICIT)?;
        stream.ends("ending on legacy", CaptureStatus::Invalidated, INVALIDATED)?;
    }
    Ok(())
}

fn legacy_changes_dependencies(environment: &Environment) -> Verdict {
    let (driver, call) = (environment.device().driver(), environment.context().live().into());
    for mode in MODES {
        for update in [DependencyUpdate::Add, DependencyUpdate::Set] {
            // SAFETY: there are no nodes.
            let change = || unsafe { driver.stream_update_capture_dependencies(&call, LEGACY, &[], update) };
            let stream = blocking(environment, mode)?;
            equal("changing dependencies", status_of(change()), IMPLICIT)?;
            stream.ends("changing dependencies on legacy", CaptureStatus::Invalidated, INVALIDATED)?;
            equal("while nothing captures", status_of(change()), Status::ILLEGAL_STATE)?;
        }
    }
    Ok(())
}

/// It would become a member, which the legacy stream cannot be.
fn legacy_waits_for_a_non_blocking_capture(environment: &Environment) -> Verdict {
    let place = Place::primary(environment);
    for mode in MODES {
        let (stream, event) = (place.free_stream()?, place.event(EventFlags::DISABLE_TIMING)?);
        stream.begin(mode)?;
        equal("recording", stream.record(&event, EventRecordFlags::empty()), OK)?;
        equal("waiting", place.wait(LEGACY, &event, EventWaitFlags::empty()), IMPLICIT)?;
        stream.ends("waiting on legacy", CaptureStatus::Invalidated, INVALIDATED)?;
    }
    Ok(())
}

fn legacy_is_used_by_another_thread(environment: &Environment) -> Verdict {
    let work = Work::new(environment)?;
    for (calls, invalidates) in [(GOOD, true), (HOST, false)] {
        for (what, call) in calls {
            for mode in MODES {
                let stream = blocking(environment, mode)?;
                equal(what, elsewhere(|| call(&work, LEGACY))?, IMPLICIT)?;
                goes_on(&stream, what, !invalidates)?;
            }
        }
    }
    Ok(())
}

fn legacy_beside_a_per_thread_capture(environment: &Environment) -> Verdict {
    let (work, stream) = (Work::new(environment)?, environment.context().per_thread_stream()?);
    quiesce(environment)?;
    for (calls, status, ended) in [(GOOD, CaptureStatus::Invalidated, INVALIDATED), (HOST, CaptureStatus::Active, OK)] {
        for (what, call) in calls {
            stream.begin_capture(CaptureMode::Relaxed)?;
            let (called, found) = (call(&work, LEGACY), stream.capture_status());
            equal("ending", answer(stream.end_capture()), ended)?;
            equal(what, called, IMPLICIT)?;
            equal("the capture's status", found?, status)?;
        }
    }
    Ok(())
}

/// They are looked at before the mode, and the capture continues.
fn instantiated_with_unknown_flags(environment: &Environment) -> Verdict {
    let graph = environment.context().create_graph()?;
    for mode in MODES {
        let stream = Place::primary(environment).free_stream()?;
        stream.begin(mode)?;
        let refused = graph.instantiate_with_flags(InstantiateFlags::from_bits_retain(1 << 31));
        equal("instantiating", answer(refused), Status::INVALID_VALUE)?;
        stream.ends("unknown flags", CaptureStatus::Active, OK)?;
    }
    Ok(())
}

/// An upload is work in a stream, which no mode prohibits.
fn instantiated_with_an_upload(environment: &Environment) -> Verdict {
    let graph = environment.context().create_graph()?;
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        let upload = |stream| answer(graph.instantiate_and_upload(InstantiateFlags::empty(), stream));
        equal("uploading in another stream", upload(&bench.other), OK)?;
        equal("the capture's status", bench.status()?, CaptureStatus::Active)?;
        equal("uploading in the capturing stream", upload(&bench.origin), UNSUPPORTED)?;
        bench.is_invalidated("uploading in the capturing stream")?;
    }
    Ok(())
}

fn instantiated_with_an_upload_on_legacy(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let graph = environment.context().create_graph()?;
    for mode in MODES {
        let stream = blocking(environment, mode)?;
        let made = driver.graph_instantiate(&context.into(), graph.live(), InstantiateFlags::UPLOAD, None);
        equal("uploading", status_of(made), IMPLICIT)?;
        stream.ends("uploading on legacy", CaptureStatus::Invalidated, INVALIDATED)?;
    }
    Ok(())
}
