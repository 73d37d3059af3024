//! Events: what a record captures, and what a wait binds to.

use super::order_tools::{comes_first, comes_second, spin};
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal, holds};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::EventFlags;

pub(super) const CASES: &[Case] = &[
    Case::new("event.never_recorded_is_complete", "E3", never_recorded_is_complete),
    Case::new("event.query_pending", "E5", query_pending),
    Case::new("event.true_query_is_a_synchronization", "E5", true_query_is_a_synchronization),
    Case::new("event.synchronize_waits", "E1", synchronize_waits),
    Case::new("event.record_captures_earlier_work_only", "E1", record_captures_earlier_work_only),
    Case::new("event.record_replaces_a_complete_one", "E1", record_replaces_a_complete_one),
    Case::new("event.record_replaces_a_pending_one", "E1", record_replaces_a_pending_one),
    Case::new("event.wait_orders_two_streams", "E2", wait_orders_two_streams),
    Case::new("event.wait_leaves_later_work_out", "E2", wait_leaves_later_work_out),
    Case::new("event.wait_binds_at_call", "E2", wait_binds_at_call),
    Case::new("event.wait_before_record_does_nothing", "E2", wait_before_record_does_nothing),
    Case::new("event.wait_keeps_the_record_it_was_bound_to", "E2", wait_keeps_the_record_it_was_bound_to),
    Case::new("event.query_and_synchronize_mean_the_last_record", "E2", query_and_synchronize_mean_the_last_record),
    Case::new("event.wait_in_its_own_stream", "E2", wait_in_its_own_stream),
    Case::new("event.one_record_holds_up_several_streams", "E2", one_record_holds_up_several_streams),
    Case::new("event.waits_are_transitive", "E2", waits_are_transitive),
    Case::new("event.wait_stream_binds_at_call", "E2", wait_stream_binds_at_call),
    Case::new("event.wait_stream_orders_two_streams", "E2", wait_stream_orders_two_streams),
    Case::new("event.wait_stream_for_itself", "E2", wait_stream_for_itself),
];

const UNTIMED: EventFlags = EventFlags::DISABLE_TIMING;

fn never_recorded_is_complete(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    equal("query", event.query()?, true)?;
    event.synchronize()?;
    stream.wait_event(&event)?;
    stream.synchronize()?;
    Ok(())
}

fn query_pending(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let gate = Gate::shut(environment, &stream)?;
    let (timed, untimed) = (stream.record_event()?, stream.record_event_with_flags(UNTIMED)?);
    equal("query of an event with timing while the stream has pending work", timed.query()?, false)?;
    equal("query of one that does not", untimed.query()?, false)?;
    gate.open();
    untimed.synchronize()?;
    holds("query after synchronizing", untimed.query()?)?;
    holds("query of the one recorded before", timed.query()?)
}

fn true_query_is_a_synchronization(environment: &Environment) -> Verdict {
    let (stream, done) = (environment.stream()?, environment.context().create_signal()?);
    spin(environment, &stream, 1)?;
    stream.write_signal(&done, 1)?;
    let event = stream.record_event_with_flags(UNTIMED)?;
    while !event.query()? {
        std::thread::yield_now();
    }
    equal("what the work wrote", done.get(), 1)
}

fn synchronize_waits(environment: &Environment) -> Verdict {
    for flags in [EventFlags::empty(), UNTIMED, EventFlags::BLOCKING_SYNC, EventFlags::BLOCKING_SYNC | UNTIMED] {
        let (stream, done) = (environment.stream()?, environment.context().create_signal()?);
        spin(environment, &stream, 2)?;
        stream.write_signal(&done, 1)?;
        stream.record_event_with_flags(flags)?.synchronize()?;
        equal("what the work wrote", done.get(), 1)?;
    }
    Ok(())
}

fn record_captures_earlier_work_only(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let stream = environment.stream()?;
    trace.append(&stream, 1)?;
    let event = stream.record_event()?;
    let gate = Gate::shut(environment, &stream)?;
    trace.append(&stream, 2)?;
    event.synchronize()?;
    equal("the number when the event is complete", trace.read()?, 1)?;
    equal("the stream still has pending work", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    equal("the number at the end", trace.read()?, 12)
}

fn record_replaces_a_complete_one(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    stream.record(&event)?;
    event.synchronize()?;
    let gate = Gate::shut(environment, &stream)?;
    event.record(&stream)?;
    equal("query after the second record", event.query()?, false)?;
    gate.open();
    event.synchronize()?;
    holds("the stream is complete when the event is", stream.query()?)
}

fn record_replaces_a_pending_one(environment: &Environment) -> Verdict {
    let (held, idle) = (environment.stream()?, environment.stream()?);
    let event = environment.context().create_event()?;
    let gate = Gate::shut(environment, &held)?;
    held.record(&event)?;
    equal("query after the first record", event.query()?, false)?;
    idle.record(&event)?;
    event.synchronize()?;
    holds("query after the second record, on an idle stream", event.query()?)?;
    equal("the first stream still has pending work", held.query()?, false)?;
    gate.open();
    held.synchronize()?;
    Ok(())
}

fn wait_orders_two_streams(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    second.wait_event(&first.record_event()?)?;
    trace.append(&second, 2)?;
    comes_second(&trace, &gate, &first, &second)
}

fn wait_leaves_later_work_out(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let event = first.record_event_with_flags(UNTIMED)?;
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    second.wait_event(&event)?;
    trace.append(&second, 2)?;
    comes_first(&trace, &gate, &first, &second)
}

fn wait_binds_at_call(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let event = first.record_event()?;
    second.wait_event(&event)?;
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    first.record(&event)?;
    trace.append(&second, 2)?;
    comes_first(&trace, &gate, &first, &second)
}

fn wait_before_record_does_nothing(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let event = environment.context().create_event()?;
    second.wait_event(&event)?;
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    first.record(&event)?;
    trace.append(&second, 2)?;
    comes_first(&trace, &gate, &first, &second)
}

fn wait_keeps_the_record_it_was_bound_to(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second, idle) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    let event = first.record_event_with_flags(UNTIMED)?;
    second.wait_event(&event)?;
    idle.record(&event)?;
    event.synchronize()?;
    trace.append(&second, 2)?;
    comes_second(&trace, &gate, &first, &second)
}

fn query_and_synchronize_mean_the_last_record(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    let event = environment.context().create_event_with_flags(UNTIMED)?;
    let (near, far) = (Gate::shut(environment, &first)?, Gate::shut(environment, &second)?);
    first.record(&event)?;
    equal("query of the first record", event.query()?, false)?;
    near.open();
    event.synchronize()?;
    second.record(&event)?;
    equal("query of the second record", event.query()?, false)?;
    far.open();
    event.synchronize()?;
    holds("the second stream is complete", second.query()?)
}

fn wait_in_its_own_stream(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let stream = environment.stream()?;
    let gate = Gate::shut(environment, &stream)?;
    trace.append(&stream, 1)?;
    stream.wait_event(&stream.record_event()?)?;
    trace.append(&stream, 2)?;
    comes_second(&trace, &gate, &stream, &stream)
}

fn one_record_holds_up_several_streams(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second, third) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    let event = first.record_event_with_flags(UNTIMED)?;
    second.wait_event(&event)?;
    third.wait_event(&event)?;
    trace.append(&second, 2)?;
    trace.is_untouched()?;
    equal("query of the second stream", second.query()?, false)?;
    equal("query of the third stream", third.query()?, false)?;
    gate.open();
    second.synchronize()?;
    third.synchronize()?;
    equal("the order", trace.read()?, 12)
}

fn waits_are_transitive(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second, third) = (environment.stream()?, environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    second.wait_event(&first.record_event_with_flags(UNTIMED)?)?;
    // The second stream contains only the wait. Its record covers the wait.
    third.wait_event(&second.record_event_with_flags(UNTIMED)?)?;
    trace.append(&third, 2)?;
    comes_second(&trace, &gate, &first, &third)
}

fn wait_stream_binds_at_call(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    second.wait_stream(&first)?;
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    trace.append(&second, 2)?;
    comes_first(&trace, &gate, &first, &second)
}

fn wait_stream_orders_two_streams(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    second.wait(&first)?;
    trace.append(&second, 2)?;
    comes_second(&trace, &gate, &first, &second)
}

fn wait_stream_for_itself(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let gate = Gate::shut(environment, &stream)?;
    stream.wait_stream(&stream)?;
    stream.wait_stream(&stream.to_borrowed())?;
    gate.open();
    stream.synchronize()?;
    Ok(())
}
