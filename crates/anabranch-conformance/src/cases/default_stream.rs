//! The legacy default stream, and the streams that it is ordered with.

use super::order_tools::{Log, comes_first, comes_second, does_not_wait, spin, waits};
use super::order_trace::{Trace, settle};
use crate::case::{Case, Verdict, equal, holds};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::hal::StreamHandle;
use anabranch::{BorrowedStream, EventFlags, FillPattern, Result};

pub(super) const CASES: &[Case] = &[
    Case::new("default_stream.legacy_waits_for_blocking", "D1", legacy_waits_for_blocking),
    Case::new("default_stream.blocking_waits_for_legacy", "D1", blocking_waits_for_legacy),
    Case::new("default_stream.null_handle_waits_for_blocking", "D1", null_handle_waits_for_blocking),
    Case::new("default_stream.blocking_waits_for_null_handle", "D1", blocking_waits_for_null_handle),
    Case::new("default_stream.blocking_streams_are_independent", "D1", blocking_streams_are_independent),
    Case::new("default_stream.work_between_two_blocking_streams", "D1", work_between_two_blocking_streams),
    Case::new("default_stream.blocking_stream_made_later_waits", "D1", blocking_stream_made_later_waits),
    Case::new("default_stream.destroyed_blocking_stream_is_waited_for", "D1", destroyed_blocking_stream_is_waited_for),
    Case::new("default_stream.host_functions_are_ordered", "D1", host_functions_are_ordered),
    Case::new("default_stream.fills_are_ordered", "D1", fills_are_ordered),
    Case::new("default_stream.wait_of_legacy_holds_blocking_up", "D1", wait_of_legacy_holds_blocking_up),
    Case::new("default_stream.legacy_ignores_non_blocking", "D2", legacy_ignores_non_blocking),
    Case::new("default_stream.non_blocking_ignores_legacy", "D2", non_blocking_ignores_legacy),
    Case::new("default_stream.query_covers_blocking", "D4", query_covers_blocking),
    Case::new("default_stream.query_leaves_non_blocking_out", "D4", query_leaves_non_blocking_out),
    Case::new("default_stream.synchronize_covers_blocking", "D4", synchronize_covers_blocking),
    Case::new("default_stream.synchronize_leaves_non_blocking_out", "D4", synchronize_leaves_non_blocking_out),
    Case::new("default_stream.record_covers_blocking", "D4", record_covers_blocking),
    Case::new("default_stream.record_leaves_non_blocking_out", "D4", record_leaves_non_blocking_out),
    Case::new("default_stream.non_blocking_waits_through_an_event", "D4", non_blocking_waits_through_an_event),
    Case::new("default_stream.is_not_covered_by_blocking", "D4", is_not_covered_by_blocking),
];

fn legacy_waits_for_blocking(environment: &Environment) -> Verdict {
    waits(environment, &environment.blocking_stream()?, &environment.context().legacy_stream()?)
}

fn blocking_waits_for_legacy(environment: &Environment) -> Verdict {
    waits(environment, &environment.context().legacy_stream()?, &environment.blocking_stream()?)
}

fn null_handle(environment: &Environment) -> Result<BorrowedStream<'_>> {
    // SAFETY: the null handle is the legacy stream of every context, as long as the context lives.
    unsafe { BorrowedStream::from_raw(environment.context(), StreamHandle::NULL) }
}

fn null_handle_waits_for_blocking(environment: &Environment) -> Verdict {
    let legacy = null_handle(environment)?;
    waits(environment, &environment.blocking_stream()?, &legacy)
}

fn blocking_waits_for_null_handle(environment: &Environment) -> Verdict {
    let legacy = null_handle(environment)?;
    waits(environment, &legacy, &environment.blocking_stream()?)
}

fn blocking_streams_are_independent(environment: &Environment) -> Verdict {
    does_not_wait(environment, &environment.blocking_stream()?, &environment.blocking_stream()?)
}

fn work_between_two_blocking_streams(environment: &Environment) -> Verdict {
    // One for each of the streams that go on afterwards: they run at the same time.
    let traces = [Trace::new(environment)?, Trace::new(environment)?];
    let (first, last) = (environment.blocking_stream()?, environment.blocking_stream()?);
    let legacy = environment.context().legacy_stream()?;
    let gate = Gate::shut(environment, &first)?;
    for (stream, digit) in [(&first, 1), (&legacy, 2)] {
        traces.iter().try_for_each(|trace| trace.append(stream, digit))?;
    }
    traces[0].append(&last, 3)?;
    traces[1].append(&first, 4)?;
    traces.iter().try_for_each(Trace::is_untouched)?;
    gate.open();
    last.synchronize()?;
    first.synchronize()?;
    equal("the order of the first, the legacy and the last stream", traces[0].read()?, 123)?;
    equal("the order of the first, the legacy and the first stream", traces[1].read()?, 124)
}

fn blocking_stream_made_later_waits(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let legacy = environment.context().legacy_stream()?;
    let gate = Gate::shut(environment, &legacy)?;
    trace.append(&legacy, 1)?;
    let later = environment.blocking_stream()?;
    trace.append(&later, 2)?;
    comes_second(&trace, &gate, &legacy, &later)
}

fn destroyed_blocking_stream_is_waited_for(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (legacy, blocking) = (environment.context().legacy_stream()?, environment.blocking_stream()?);
    let gate = Gate::shut(environment, &blocking)?;
    trace.append(&blocking, 1)?;
    drop(blocking);
    trace.append(&legacy, 2)?;
    comes_second(&trace, &gate, &legacy, &legacy)
}

fn host_functions_are_ordered(environment: &Environment) -> Verdict {
    let (log, idle) = (Log::default(), environment.stream()?);
    let (blocking, legacy) = (environment.blocking_stream()?, environment.context().legacy_stream()?);
    let gate = Gate::shut(environment, &blocking)?;
    log.push_in(&blocking, 1)?;
    log.push_in(&legacy, 2)?;
    log.push_in(&blocking, 3)?;
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    blocking.synchronize()?;
    equal("the order", log.numbers(), vec![1, 2, 3])
}

fn fills_are_ordered(environment: &Environment) -> Verdict {
    let home = environment.stream()?;
    let (blocking, legacy) = (environment.blocking_stream()?, environment.context().legacy_stream()?);
    let word = home.allocate_zeroed::<u32>(1)?;
    home.synchronize()?;
    let gate = Gate::shut(environment, &blocking)?;
    // SAFETY: the word lives until both streams are synchronized, or the gate is opened and the failure reported.
    unsafe { blocking.fill_raw(word.device_pointer(), FillPattern::U32(1), 1)? };
    // SAFETY: the word lives until both streams are synchronized, or the gate is opened and the failure reported.
    unsafe { legacy.fill_raw(word.device_pointer(), FillPattern::U32(2), 1)? };
    let early = home.download(&word);
    gate.open();
    legacy.synchronize()?;
    equal("the word while the gate is shut", early?, vec![0])?;
    equal("the last writer", home.download(&word)?, vec![2])
}

fn wait_of_legacy_holds_blocking_up(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (held, blocking) = (environment.stream()?, environment.blocking_stream()?);
    let legacy = environment.context().legacy_stream()?;
    let gate = Gate::shut(environment, &held)?;
    trace.append(&held, 1)?;
    legacy.wait_event(&held.record_event()?)?;
    trace.append(&blocking, 2)?;
    comes_second(&trace, &gate, &held, &blocking)
}

fn legacy_ignores_non_blocking(environment: &Environment) -> Verdict {
    does_not_wait(environment, &environment.stream()?, &environment.context().legacy_stream()?)
}

fn non_blocking_ignores_legacy(environment: &Environment) -> Verdict {
    does_not_wait(environment, &environment.context().legacy_stream()?, &environment.stream()?)
}

fn query_covers_blocking(environment: &Environment) -> Verdict {
    let (blocking, legacy) = (environment.blocking_stream()?, environment.context().legacy_stream()?);
    let gate = Gate::shut(environment, &blocking)?;
    equal("querying the legacy stream while a blocking stream has pending work", legacy.query()?, false)?;
    gate.open();
    blocking.synchronize()?;
    holds("querying the legacy stream afterwards", legacy.query()?)
}

fn query_leaves_non_blocking_out(environment: &Environment) -> Verdict {
    let (stream, legacy) = (environment.stream()?, environment.context().legacy_stream()?);
    let gate = Gate::shut(environment, &stream)?;
    holds("querying the legacy stream while a non-blocking stream has pending work", legacy.query()?)?;
    gate.open();
    stream.synchronize()?;
    Ok(())
}

fn synchronize_covers_blocking(environment: &Environment) -> Verdict {
    let (blocking, done) = (environment.blocking_stream()?, environment.context().create_signal()?);
    spin(environment, &blocking, 5)?;
    blocking.write_signal(&done, 1)?;
    environment.context().legacy_stream()?.synchronize()?;
    equal("what the blocking stream writes last", done.get(), 1)
}

fn synchronize_leaves_non_blocking_out(environment: &Environment) -> Verdict {
    let (stream, legacy) = (environment.stream()?, environment.context().legacy_stream()?);
    let gate = Gate::shut(environment, &stream)?;
    legacy.synchronize()?;
    equal("the non-blocking stream still has pending work", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    Ok(())
}

fn record_covers_blocking(environment: &Environment) -> Verdict {
    let (blocking, legacy) = (environment.blocking_stream()?, environment.context().legacy_stream()?);
    let gate = Gate::shut(environment, &blocking)?;
    let event = legacy.record_event_with_flags(EventFlags::DISABLE_TIMING)?;
    equal("an event on the legacy stream while a blocking stream has pending work", event.query()?, false)?;
    gate.open();
    event.synchronize()?;
    holds("the blocking stream is complete when the event is", blocking.query()?)
}

fn record_leaves_non_blocking_out(environment: &Environment) -> Verdict {
    let (stream, legacy) = (environment.stream()?, environment.context().legacy_stream()?);
    let gate = Gate::shut(environment, &stream)?;
    legacy.record_event_with_flags(EventFlags::DISABLE_TIMING)?.synchronize()?;
    equal("the non-blocking stream still has pending work", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    Ok(())
}

fn non_blocking_waits_through_an_event(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (blocking, stream) = (environment.blocking_stream()?, environment.stream()?);
    let legacy = environment.context().legacy_stream()?;
    let gate = Gate::shut(environment, &blocking)?;
    trace.append(&blocking, 1)?;
    stream.wait_event(&legacy.record_event()?)?;
    trace.append(&stream, 2)?;
    comes_second(&trace, &gate, &blocking, &stream)
}

/// A blocking stream waits for legacy work that was queued *before* its own work. A query of it covers no other legacy
/// work.
fn is_not_covered_by_blocking(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (blocking, legacy) = (environment.blocking_stream()?, environment.context().legacy_stream()?);
    trace.append(&blocking, 2)?;
    let gate = Gate::shut(environment, &legacy)?;
    trace.append(&legacy, 1)?;
    comes_first(&trace, &gate, &legacy, &blocking)
}
