//! Events of captures that are invalidated or over, and the order in which two events are looked at.

use super::capture_raw::{Place, RawEvent, RawStream};
use super::capture_tools::{INVALIDATED, MODES, OK, elsewhere, usable};
use crate::case::{Case, Failed, Verdict, equal};
use crate::environment::Environment;
use anabranch::hal::Live;
use anabranch::{
    CaptureMode, CaptureStatus, ContextFlags, EventFlags, EventRecordFlags, EventWaitFlags, Status, StreamHandle,
};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.stale_event_is_queried", "C7", is_queried),
    Case::new("capture.stale_event_is_awaited", "C5", is_awaited),
    Case::new("capture.stale_event_is_awaited_by_a_capture", "C5", is_awaited_by_a_capture),
    Case::new("capture.stale_event_is_awaited_on_legacy", "C5", is_awaited_on_legacy),
    Case::new("capture.stale_event_is_awaited_externally", "C6", is_awaited_externally),
    Case::new("capture.stale_event_is_awaited_externally_by_a_capture", "C6", is_awaited_externally_by_a_capture),
    Case::new("capture.events_are_measured_in_turn", "C7", are_measured_in_turn),
    Case::new("capture.event_of_another_context_is_measured", "C7", of_another_context_is_measured),
    Case::new("capture.event_without_timing_is_measured", "C7", without_timing_is_measured),
    Case::new("capture.external_record_of_another_context", "C6", external_record_of_another_context),
    Case::new("capture.origin_destroyed", "C2", origin_destroyed),
    Case::new("capture.end_elsewhere_unjoined", "C2", end_elsewhere_unjoined),
];

const INVALID: Status = Status::INVALID_VALUE;
const CAPTURED: Status = Status::CAPTURED_EVENT;

/// A stream that captures, and an event that was recorded in it.
fn captured(environment: &Environment, mode: CaptureMode) -> Result<(RawStream<'_>, RawEvent<'_>), Failed> {
    let place = Place::primary(environment);
    let (stream, event) = (place.free_stream()?, place.event(EventFlags::empty())?);
    stream.begin(mode)?;
    equal("recording", stream.record(&event, EventRecordFlags::empty()), OK)?;
    Ok((stream, event))
}

/// Calls `body` with an event of an invalidated capture, then with one of a capture that is over.
fn with_stale_events(environment: &Environment, mut body: impl FnMut(&str, &RawEvent<'_>) -> Verdict) -> Verdict {
    for mode in MODES {
        let (stream, event) = captured(environment, mode)?;
        stream.invalidate()?;
        body("an event of an invalidated capture", &event)?;
        stream.ends("looking at its event", CaptureStatus::Invalidated, INVALIDATED)?;
        body("an event of a failed capture", &event)?;
        let (stream, event) = captured(environment, mode)?;
        equal("ending", stream.end(), OK)?;
        body("an event of a complete capture", &event)?;
    }
    usable(environment, &[])
}

fn is_queried(environment: &Environment) -> Verdict {
    with_stale_events(environment, |what, event| {
        equal(&format!("querying {what}"), event.query(), INVALID)?;
        equal(&format!("synchronizing with {what}"), event.synchronize(), INVALID)?;
        equal(&format!("measuring with {what}"), event.measure(event), INVALID)
    })
}

fn is_awaited(environment: &Environment) -> Verdict {
    let other = Place::primary(environment).free_stream()?;
    with_stale_events(environment, |what, event| {
        equal(what, other.wait(event), INVALID)?;
        equal("the status of the stream that waits", other.status()?, CaptureStatus::None)
    })
}

fn is_awaited_by_a_capture(environment: &Environment) -> Verdict {
    let other = Place::primary(environment).free_stream()?;
    with_stale_events(environment, |what, event| {
        other.begin(CaptureMode::Relaxed)?;
        equal(what, other.wait(event), INVALID)?;
        other.ends(what, CaptureStatus::Invalidated, INVALIDATED)
    })
}

fn is_awaited_on_legacy(environment: &Environment) -> Verdict {
    let place = Place::primary(environment);
    with_stale_events(environment, |what, event| {
        equal(what, place.wait(Live::<StreamHandle>::LEGACY, event, EventWaitFlags::empty()), INVALID)
    })
}

fn is_awaited_externally(environment: &Environment) -> Verdict {
    let other = Place::primary(environment).free_stream()?;
    with_stale_events(environment, |what, event| equal(what, other.wait_externally(event), INVALID))
}

fn is_awaited_externally_by_a_capture(environment: &Environment) -> Verdict {
    let other = Place::primary(environment).free_stream()?;
    with_stale_events(environment, |what, event| {
        other.begin(CaptureMode::Relaxed)?;
        equal(what, other.wait_externally(event), INVALID)?;
        other.ends(what, CaptureStatus::Invalidated, INVALIDATED)
    })
}

fn are_measured_in_turn(environment: &Environment) -> Verdict {
    let never = Place::primary(environment).event(EventFlags::empty())?;
    let (stream, event) = captured(environment, CaptureMode::Global)?;
    equal("from one never recorded to a captured one", never.measure(&event), Status::INVALID_HANDLE)?;
    equal("from a captured one to one never recorded", event.measure(&never), CAPTURED)?;
    stream.ends("measuring", CaptureStatus::Active, OK)?;
    equal("from one never recorded to a stale one", never.measure(&event), Status::INVALID_HANDLE)?;
    equal("from a stale one to one never recorded", event.measure(&never), INVALID)
}

fn of_another_context_is_measured(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let foreign = Place::new(environment, &other).event(EventFlags::empty())?;
    let (stream, event) = captured(environment, CaptureMode::Global)?;
    equal("from a captured one", event.measure(&foreign), CAPTURED)?;
    equal("to a captured one", foreign.measure(&event), Status::INVALID_HANDLE)?;
    stream.ends("measuring", CaptureStatus::Active, OK)
}

fn without_timing_is_measured(environment: &Environment) -> Verdict {
    let place = Place::primary(environment);
    let (stream, event) = (place.free_stream()?, place.event(EventFlags::DISABLE_TIMING)?);
    stream.begin(CaptureMode::Global)?;
    equal("recording", stream.record(&event, EventRecordFlags::empty()), OK)?;
    equal("measuring", event.measure(&event), CAPTURED)?;
    stream.ends("measuring", CaptureStatus::Active, OK)?;
    equal("measuring afterwards", event.measure(&event), INVALID)
}

/// The record is the node's, and the event keeps what it has captured.
fn external_record_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let foreign = Place::new(environment, &other).event(EventFlags::DISABLE_TIMING)?;
    for mode in MODES {
        let stream = Place::primary(environment).free_stream()?;
        stream.begin(mode)?;
        equal("recording", stream.record(&foreign, EventRecordFlags::empty()), Status::INVALID_HANDLE)?;
        equal("what the next node depends on", stream.dependencies()?.len(), 0)?;
        equal("recording externally", stream.record(&foreign, EventRecordFlags::EXTERNAL), OK)?;
        equal("what the next node depends on", stream.dependencies()?.len(), 1)?;
        stream.ends("an external record", CaptureStatus::Active, OK)?;
    }
    equal("querying the event", foreign.query(), OK)
}

/// Nobody could end the capture any more.
fn origin_destroyed(environment: &Environment) -> Verdict {
    for mode in MODES {
        let fork = Place::primary(environment).free_stream()?;
        let (origin, event) = captured(environment, mode)?;
        equal("waiting", fork.wait(&event), OK)?;
        equal("the status of the fork", fork.status()?, CaptureStatus::Active)?;
        equal("destroying the origin", origin.destroy(), OK)?;
        equal("the status of the fork", fork.status()?, CaptureStatus::None)?;
        equal("querying the event", event.query(), INVALID)?;
        usable(environment, &[])?;
        fork.begin(mode)?;
        fork.ends("destroying the origin of another", CaptureStatus::Active, OK)?;
    }
    Ok(())
}

/// That a capture is not joined comes before its thread.
fn end_elsewhere_unjoined(environment: &Environment) -> Verdict {
    let word = environment.context().allocate_zeroed::<u32>(&environment.stream()?, 1)?;
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal] {
        let fork = Place::primary(environment).free_stream()?;
        let (origin, event) = captured(environment, mode)?;
        equal("waiting", fork.wait(&event), OK)?;
        equal("filling", fork.fill(&word), OK)?;
        equal("ending", elsewhere(|| origin.end())?, Status::STREAM_CAPTURE_UNJOINED)?;
        equal("ending again", origin.end(), Status::ILLEGAL_STATE)?;
    }
    Ok(())
}
