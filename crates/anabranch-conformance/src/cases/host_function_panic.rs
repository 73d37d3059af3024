//! Panics of host functions and callbacks.

use super::order_tools::Log;
use super::order_trace::Trace;
use crate::case::{Case, Failed, Verdict, equal, holds};
use crate::environment::Environment;
use anabranch::{Error, ErrorKind, Result, Status, Stream};

pub(super) const CASES: &[Case] = &[
    Case::new("host_function_panic.is_reported_once", "H1", is_reported_once),
    Case::new("host_function_panic.query_reports_it", "H1", query_reports_it),
    Case::new("host_function_panic.context_reports_it", "H1", context_reports_it),
    Case::new("host_function_panic.later_work_runs", "H1", later_work_runs),
    Case::new("host_function_panic.other_streams_are_unharmed", "H1", other_streams_are_unharmed),
    Case::new("host_function_panic.first_of_several_is_reported", "H1", first_of_several_is_reported),
    Case::new("host_function_panic.is_not_sticky", "X1", is_not_sticky),
    Case::new("host_function_panic.of_a_callback", "H2", of_a_callback),
    Case::new("host_function_panic.in_a_drop", "H1", in_a_drop),
];

/// Panics without printing a message to standard error, because the panic is expected.
fn panic(message: &'static str) {
    std::panic::resume_unwind(Box::new(message));
}

fn panic_in(stream: &Stream, message: &'static str) -> Result<()> {
    stream.launch_host_func(move || panic(message))
}

/// Checks that the result reports a panic with this message.
fn reports<T>(result: Result<T>, message: &str) -> Result<Error, Failed> {
    let Err(error) = result else { return Err(Failed(format!("the panic `{message}` was not reported"))) };
    equal("the kind of error", error.kind(), ErrorKind::Panicked)?;
    equal("its status", error.status(), Status::LAUNCH_FAILED)?;
    holds(&format!("`{error}` has the message `{message}`"), error.to_string().contains(message))?;
    Ok(error)
}

fn is_reported_once(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    panic_in(&stream, "once")?;
    reports(stream.synchronize(), "once")?;
    stream.synchronize()?;
    holds("querying afterwards", stream.query()?)
}

fn query_reports_it(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    panic_in(&stream, "asked")?;
    let answer = loop {
        match stream.query() {
            Ok(false) => std::thread::yield_now(),
            answer => break answer,
        }
    };
    reports(answer, "asked")?;
    holds("querying afterwards", stream.query()?)
}

fn context_reports_it(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    panic_in(&stream, "of a context")?;
    reports(environment.context().synchronize(), "of a context")?;
    environment.context().synchronize()?;
    stream.synchronize()?;
    Ok(())
}

fn later_work_runs(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (stream, log) = (environment.stream()?, Log::default());
    trace.append(&stream, 1)?;
    panic_in(&stream, "in between")?;
    trace.append(&stream, 2)?;
    log.push_in(&stream, 3)?;
    reports(stream.synchronize(), "in between")?;
    equal("kernels before and after", trace.read()?, 12)?;
    equal("host functions after", log.numbers(), vec![3])
}

fn other_streams_are_unharmed(environment: &Environment) -> Verdict {
    let (stream, other, log) = (environment.stream()?, environment.stream()?, Log::default());
    panic_in(&stream, "elsewhere")?;
    other.wait_stream(&stream)?;
    log.push_in(&other, 1)?;
    other.synchronize()?;
    equal("host functions of a stream that waits for it", log.numbers(), vec![1])?;
    reports(stream.synchronize(), "elsewhere").map(drop)
}

fn first_of_several_is_reported(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    panic_in(&stream, "the first")?;
    panic_in(&stream, "the second")?;
    reports(stream.synchronize(), "the first")?;
    stream.synchronize()?;
    Ok(())
}

fn is_not_sticky(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    panic_in(&stream, "no fault")?;
    let error = reports(stream.synchronize(), "no fault")?;
    equal("whether the error says that the context is lost", error.is_sticky(), false)?;
    equal("whether it says that earlier work failed", error.is_asynchronous(), true)?;
    let event = stream.record_event()?;
    event.synchronize()?;
    equal("work afterwards", stream.download(&stream.upload(&[4u32])?)?, vec![4])
}

fn of_a_callback(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    stream.add_callback(|_, _| panic("of a callback"))?;
    log.push_in(&stream, 1)?;
    reports(stream.synchronize(), "of a callback")?;
    stream.synchronize()?;
    equal("host functions after", log.numbers(), vec![1])
}

/// A value that a host function captured may panic when it is dropped. Nothing else is affected.
fn in_a_drop(environment: &Environment) -> Verdict {
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic("in a drop");
        }
    }
    let (stream, log) = (environment.stream()?, Log::default());
    let captured = PanicsWhenDropped;
    stream.launch_host_func(move || drop(captured))?;
    log.push_in(&stream, 1)?;
    reports(stream.synchronize(), "in a drop")?;
    equal("host functions after", log.numbers(), vec![1])
}
