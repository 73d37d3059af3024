//! Events of other contexts and devices.

use super::order_trace::settle;
use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{Context, ContextFlags, EventFlags, Status, Stream};

pub(super) const CASES: &[Case] = &[
    Case::new("event_contexts.record_in_another_context", "E4", record_in_another_context),
    Case::new("event_contexts.record_on_another_context_stays_usable", "E4", record_stays_usable),
    Case::new("event_contexts.wait_for_another_context", "E4", wait_for_another_context),
    Case::new("event_contexts.another_context_waits", "E4", another_context_waits),
    Case::new("event_contexts.wait_stream_of_another_context", "E4", wait_stream_of_another_context),
    Case::new("event_contexts.legacy_streams_are_of_one_context", "D1", legacy_streams_are_of_one_context),
    Case::new("event_contexts.record_on_another_device", "E4", record_on_another_device).needs(TWO),
    Case::new("event_contexts.wait_for_another_device", "E4", wait_for_another_device).needs(TWO),
    Case::new("event_contexts.another_device_waits", "E4", another_device_waits).needs(TWO),
];

const TWO: &[Need] = &[Need::TwoDevices];

fn other_context(environment: &Environment) -> anabranch::Result<Context> {
    environment.device().create_context(ContextFlags::empty())
}

fn record_in_another_context(environment: &Environment) -> Verdict {
    let other = other_context(environment)?;
    let (own, foreign) = (environment.stream()?, other.create_stream()?);
    refused("an event of the other context", own.record(&other.create_event()?), Status::INVALID_HANDLE)?;
    let event = environment.context().create_event()?;
    refused("on a stream of the other context", foreign.record(&event), Status::INVALID_HANDLE)
}

fn record_stays_usable(environment: &Environment) -> Verdict {
    let other = other_context(environment)?;
    let (own, foreign, event) = (environment.stream()?, other.create_stream()?, other.create_event()?);
    refused("recording", own.record(&event), Status::INVALID_HANDLE)?;
    holds("the event is as good as never recorded", event.query()?)?;
    foreign.record(&event)?;
    event.synchronize()?;
    own.synchronize()?;
    Ok(())
}

/// Checks that `second` waits for an event recorded in `first`, in whichever contexts the two are.
fn waits_across(environment: &Environment, first: &Stream, second: &Stream) -> Verdict {
    let (idle, word) = (environment.stream()?, environment.context().create_signal()?);
    let gate = Gate::shut(environment, first)?;
    first.write_signal(&word, 1)?;
    let event = first.record_event_with_flags(EventFlags::DISABLE_TIMING)?;
    second.wait_event(&event)?;
    second.write_signal(&word, 2)?;
    settle(&idle)?;
    equal("the word while the gate is shut", word.get(), 0)?;
    equal("querying the second stream", second.query()?, false)?;
    equal("querying the event", event.query()?, false)?;
    gate.open();
    second.synchronize()?;
    equal("the last writer", word.get(), 2)?;
    first.synchronize()?;
    equal("the last writer, once the first stream is done too", word.get(), 2)
}

fn wait_for_another_context(environment: &Environment) -> Verdict {
    let other = other_context(environment)?;
    waits_across(environment, &other.create_stream()?, &environment.stream()?)
}

fn another_context_waits(environment: &Environment) -> Verdict {
    let other = other_context(environment)?;
    waits_across(environment, &environment.stream()?, &other.create_stream()?)
}

fn wait_stream_of_another_context(environment: &Environment) -> Verdict {
    let other = other_context(environment)?;
    let (first, second, idle) = (other.create_stream()?, environment.stream()?, environment.stream()?);
    let word = environment.context().create_signal()?;
    let gate = Gate::shut(environment, &first)?;
    first.write_signal(&word, 1)?;
    second.wait_stream(&first)?;
    second.write_signal(&word, 2)?;
    settle(&idle)?;
    equal("the word while the gate is shut", word.get(), 0)?;
    gate.open();
    second.synchronize()?;
    equal("the last writer", word.get(), 2)?;
    first.synchronize()?;
    Ok(())
}

fn legacy_streams_are_of_one_context(environment: &Environment) -> Verdict {
    let other = other_context(environment)?;
    let (blocking, legacy) =
        (other.create_stream_with_flags(anabranch::StreamFlags::empty())?, environment.context().legacy_stream()?);
    let gate = Gate::shut(environment, &blocking)?;
    legacy.launch_host_func(|| ())?;
    legacy.synchronize()?;
    equal("the other context's blocking stream still has pending work", blocking.query()?, false)?;
    gate.open();
    blocking.synchronize()?;
    Ok(())
}

fn record_on_another_device(environment: &Environment) -> Verdict {
    let event = environment.peer()?.context()?.create_event()?;
    refused("recording", environment.stream()?.record(&event), Status::INVALID_HANDLE)
}

fn wait_for_another_device(environment: &Environment) -> Verdict {
    let other = environment.peer()?.context()?;
    waits_across(environment, &other.create_stream()?, &environment.stream()?)
}

fn another_device_waits(environment: &Environment) -> Verdict {
    let other = environment.peer()?.context()?;
    waits_across(environment, &environment.stream()?, &other.create_stream()?)
}
