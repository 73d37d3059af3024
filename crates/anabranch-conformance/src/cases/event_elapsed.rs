//! The time between two events.

use super::order_tools::spin;
use crate::case::{Case, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{ContextFlags, EventFlags, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("event_elapsed.both_unrecorded", "E6", both_unrecorded),
    Case::new("event_elapsed.one_unrecorded", "E6", one_unrecorded),
    Case::new("event_elapsed.timing_disabled", "E6", timing_disabled),
    Case::new("event_elapsed.end_not_complete", "E6", end_not_complete),
    Case::new("event_elapsed.neither_complete", "E6", neither_complete),
    Case::new("event_elapsed.measures_a_kernel", "E6", measures_a_kernel),
    Case::new("event_elapsed.is_negative_backwards", "E6", is_negative_backwards),
    Case::new("event_elapsed.is_zero_to_itself", "E6", is_zero_to_itself),
    Case::new("event_elapsed.between_two_streams", "E6", between_two_streams),
    Case::new("event_elapsed.means_the_last_records", "E6", means_the_last_records),
    Case::new("event_elapsed.of_blocking_sync_events", "E6", of_blocking_sync_events),
    Case::new("event_elapsed.across_contexts", "E6", across_contexts),
];

fn both_unrecorded(environment: &Environment) -> Verdict {
    let (start, end) = (environment.context().create_event()?, environment.context().create_event()?);
    refused("measuring", end.elapsed_since(&start), Status::INVALID_HANDLE)
}

fn one_unrecorded(environment: &Environment) -> Verdict {
    let (recorded, fresh) = (environment.stream()?.record_event()?, environment.context().create_event()?);
    recorded.synchronize()?;
    refused("to one never recorded", fresh.elapsed_since(&recorded), Status::INVALID_HANDLE)?;
    refused("from one never recorded", recorded.elapsed_since(&fresh), Status::INVALID_HANDLE)
}

fn timing_disabled(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let timed = stream.record_event()?;
    let untimed = stream.record_event_with_flags(EventFlags::DISABLE_TIMING)?;
    stream.synchronize()?;
    refused("to an event without timing", untimed.elapsed_since(&timed), Status::INVALID_HANDLE)?;
    refused("from an event without timing", timed.elapsed_since(&untimed), Status::INVALID_HANDLE)
}

fn end_not_complete(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let start = stream.record_event()?;
    start.synchronize()?;
    let gate = Gate::shut(environment, &stream)?;
    let end = stream.record_event()?;
    refused("while the stream has pending work", end.elapsed_since(&start), Status::NOT_READY)?;
    gate.open();
    end.synchronize()?;
    holds("the time is not negative", end.elapsed_since(&start)? >= 0.0)
}

fn neither_complete(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let gate = Gate::shut(environment, &stream)?;
    let (start, end) = (stream.record_event()?, stream.record_event()?);
    refused("while the stream has pending work", end.elapsed_since(&start), Status::NOT_READY)?;
    refused("of one event", start.elapsed_since(&start), Status::NOT_READY)?;
    gate.open();
    stream.synchronize()?;
    holds("the time is not negative", end.elapsed_since(&start)? >= 0.0)
}

fn measures_a_kernel(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let start = stream.record_event()?;
    spin(environment, &stream, 5)?;
    let end = stream.record_event()?;
    end.synchronize()?;
    let milliseconds = end.elapsed_since(&start)?;
    holds(&format!("5 ms of work measured as {milliseconds} ms takes at least 4 ms"), milliseconds >= 4.0)
}

fn is_negative_backwards(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let start = stream.record_event()?;
    spin(environment, &stream, 1)?;
    let end = stream.record_event()?;
    end.synchronize()?;
    let (forth, back) = (end.elapsed_since(&start)?, start.elapsed_since(&end)?);
    holds("forth is positive", forth > 0.0)?;
    equal("back", back, -forth)
}

fn is_zero_to_itself(environment: &Environment) -> Verdict {
    let event = environment.stream()?.record_event()?;
    event.synchronize()?;
    equal("the time", event.elapsed_since(&event)?, 0.0)
}

fn between_two_streams(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let start = first.record_event()?;
    spin(environment, &first, 5)?;
    second.wait_stream(&first)?;
    let end = second.record_event()?;
    end.synchronize()?;
    let milliseconds = end.elapsed_since(&start)?;
    holds(&format!("5 ms of work measured as {milliseconds} ms takes at least 4 ms"), milliseconds >= 4.0)
}

fn means_the_last_records(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (start, end) = (stream.record_event()?, stream.record_event()?);
    end.synchronize()?;
    spin(environment, &stream, 5)?;
    stream.record(&end)?;
    end.synchronize()?;
    holds("the second record of the end counts", end.elapsed_since(&start)? >= 4.0)?;
    stream.record(&start)?;
    start.synchronize()?;
    holds("the second record of the start counts", end.elapsed_since(&start)? <= 0.0)
}

fn of_blocking_sync_events(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let start = stream.record_event_with_flags(EventFlags::BLOCKING_SYNC)?;
    let end = stream.record_event_with_flags(EventFlags::BLOCKING_SYNC)?;
    end.synchronize()?;
    holds("the time is not negative", end.elapsed_since(&start)? >= 0.0)
}

fn across_contexts(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (start, end) = (environment.stream()?.record_event()?, other.create_stream()?.record_event()?);
    start.synchronize()?;
    end.synchronize()?;
    refused("measuring", end.elapsed_since(&start), Status::INVALID_HANDLE)
}
