//! The per-thread default streams.

use super::order_tools::{does_not_wait, spin, waits};
use super::order_trace::Trace;
use crate::case::{Case, Failed, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{EventFlags, Status, StreamFlags};

pub(super) const CASES: &[Case] = &[
    Case::new("per_thread_stream.legacy_waits_for_it", "D3", legacy_waits_for_it),
    Case::new("per_thread_stream.waits_for_legacy", "D3", waits_for_legacy),
    Case::new("per_thread_stream.blocking_ignores_it", "D3", blocking_ignores_it),
    Case::new("per_thread_stream.ignores_blocking", "D3", ignores_blocking),
    Case::new("per_thread_stream.non_blocking_ignores_it", "D3", non_blocking_ignores_it),
    Case::new("per_thread_stream.is_one_for_a_thread", "D3", is_one_for_a_thread),
    Case::new("per_thread_stream.is_another_for_another_thread", "D3", is_another_for_another_thread),
    Case::new("per_thread_stream.threads_ignore_each_other", "D3", threads_ignore_each_other),
    Case::new("per_thread_stream.waits_for_an_event_of_another_thread", "D3", waits_for_an_event_of_another_thread),
    Case::new("per_thread_stream.is_refused_on_another_thread", "D3", is_refused_on_another_thread),
    Case::new("per_thread_stream.legacy_synchronize_covers_it", "D4", legacy_synchronize_covers_it),
    Case::new("per_thread_stream.default_streams_have_no_flags", "D3", default_streams_have_no_flags),
];

fn legacy_waits_for_it(environment: &Environment) -> Verdict {
    let context = environment.context();
    waits(environment, &context.per_thread_stream()?, &context.legacy_stream()?)
}

fn waits_for_legacy(environment: &Environment) -> Verdict {
    let context = environment.context();
    waits(environment, &context.legacy_stream()?, &context.per_thread_stream()?)
}

fn blocking_ignores_it(environment: &Environment) -> Verdict {
    does_not_wait(environment, &environment.context().per_thread_stream()?, &environment.blocking_stream()?)
}

fn ignores_blocking(environment: &Environment) -> Verdict {
    does_not_wait(environment, &environment.blocking_stream()?, &environment.context().per_thread_stream()?)
}

fn non_blocking_ignores_it(environment: &Environment) -> Verdict {
    does_not_wait(environment, &environment.context().per_thread_stream()?, &environment.stream()?)
}

fn is_one_for_a_thread(environment: &Environment) -> Verdict {
    let (first, second) = (environment.context().per_thread_stream()?, environment.context().per_thread_stream()?);
    equal("its id", second.id(), first.id())?;
    holds("both are the same stream", first == second)?;
    let gate = Gate::shut(environment, &first)?;
    equal("querying it by the second handle", second.query()?, false)?;
    gate.open();
    second.synchronize()?;
    Ok(())
}

/// Runs `body` on another thread.
fn elsewhere(body: impl FnOnce() -> Verdict + Send) -> Verdict {
    let ended = std::thread::scope(|scope| scope.spawn(body).join());
    ended.unwrap_or_else(|_| Err(Failed("the other thread panicked".to_owned())))
}

fn is_another_for_another_thread(environment: &Environment) -> Verdict {
    let own = environment.context().per_thread_stream()?;
    elsewhere(|| {
        let other = environment.context().per_thread_stream()?;
        holds("the ids differ", other.id() != own.id())?;
        holds("they are different streams", other != own)
    })
}

fn threads_ignore_each_other(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let own = environment.context().per_thread_stream()?;
    let gate = Gate::shut(environment, &own)?;
    trace.append(&own, 1)?;
    elsewhere(|| {
        let other = environment.context().per_thread_stream()?;
        trace.append(&other, 2)?;
        other.synchronize()?;
        equal("the number while the gate is shut", trace.read()?, 2)
    })?;
    gate.open();
    own.synchronize()?;
    equal("the order", trace.read()?, 21)
}

fn waits_for_an_event_of_another_thread(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let own = environment.context().per_thread_stream()?;
    let gate = Gate::shut(environment, &own)?;
    trace.append(&own, 1)?;
    let event = own.record_event_with_flags(EventFlags::DISABLE_TIMING)?;
    elsewhere(|| {
        let other = environment.context().per_thread_stream()?;
        other.wait_event(&event)?;
        trace.append(&other, 2)?;
        trace.is_untouched()?;
        equal("querying it while the gate is shut", other.query()?, false)?;
        gate.open();
        other.synchronize()?;
        equal("the order", trace.read()?, 12)
    })
}

fn is_refused_on_another_thread(environment: &Environment) -> Verdict {
    let own = environment.context().per_thread_stream()?;
    elsewhere(|| {
        refused("querying", own.query(), Status::INVALID_HANDLE)?;
        refused("synchronizing", own.synchronize(), Status::INVALID_HANDLE)?;
        refused("launching a host function", own.launch_host_func(|| ()), Status::INVALID_HANDLE)
    })?;
    own.synchronize()?;
    Ok(())
}

fn legacy_synchronize_covers_it(environment: &Environment) -> Verdict {
    let (own, done) = (environment.context().per_thread_stream()?, environment.context().create_signal()?);
    spin(environment, &own, 5)?;
    own.write_signal(&done, 1)?;
    environment.context().legacy_stream()?.synchronize()?;
    equal("what the per-thread stream writes last", done.get(), 1)
}

fn default_streams_have_no_flags(environment: &Environment) -> Verdict {
    let context = environment.context();
    equal("of the legacy stream", context.legacy_stream()?.flags()?, StreamFlags::empty())?;
    equal("of the per-thread stream", context.per_thread_stream()?.flags()?, StreamFlags::empty())
}
