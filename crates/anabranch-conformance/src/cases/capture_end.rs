//! How captures end, successfully or not.

use super::capture_tools::{Bench, INVALIDATED, MODES, OK, UNSUPPORTED, answer, elsewhere, shape, unsafe_call, usable};
use super::order_trace::Trace;
use crate::case::{Case, Verdict, equal, holds, refused};
use crate::environment::Environment;
use anabranch::{CaptureMode, CaptureStatus, Status, Stream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.end_without_a_capture", "C2", end_without_a_capture),
    Case::new("capture.end_twice", "C2", end_twice),
    Case::new("capture.end_elsewhere_global", "C2", end_elsewhere_global),
    Case::new("capture.end_elsewhere_thread_local", "C2", end_elsewhere_thread_local),
    Case::new("capture.end_elsewhere_relaxed", "C2", end_elsewhere_relaxed),
    Case::new("capture.end_on_a_fork", "C2", end_on_a_fork),
    Case::new("capture.begun_by_a_thread_that_ended_global", "C2", begun_by_a_thread_that_ended_global),
    Case::new("capture.begun_by_a_thread_that_ended_thread_local", "C2", begun_by_a_thread_that_ended_thread_local),
    Case::new("capture.begun_by_a_thread_that_ended_relaxed", "C2", begun_by_a_thread_that_ended_relaxed),
    Case::new(
        "capture.of_the_default_stream_of_a_thread_that_ended",
        "C2",
        of_the_default_stream_of_a_thread_that_ended,
    ),
    Case::new("capture.origin_dropped", "C2", origin_dropped),
    Case::new("capture.closure_fails", "C2", closure_fails),
    Case::new("capture.closure_panics", "C2", closure_panics),
    Case::new("capture.closure_invalidates", "C2", closure_invalidates),
];

fn end_without_a_capture(environment: &Environment) -> Verdict {
    let (stream, per_thread) = (environment.stream()?, environment.context().per_thread_stream()?);
    for stream in [&stream, &environment.blocking_stream()?] {
        refused("ending", stream.end_capture(), Status::ILLEGAL_STATE)?;
        equal("the status", stream.capture_status()?, CaptureStatus::None)?;
    }
    usable(environment, &[&stream, &per_thread])
}

fn end_twice(environment: &Environment) -> Verdict {
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    equal("nodes, roots and edges", shape(&bench.origin.end_capture()?)?, [1, 1, 0])?;
    bench.ends_with("ending", Status::ILLEGAL_STATE)
}

/// Ends a capture in the given mode on other threads, for every mode of those threads.
fn end_elsewhere(environment: &Environment, mode: CaptureMode, status: Status) -> Verdict {
    for own in MODES {
        let bench = Bench::capturing(environment, mode)?;
        let ended = elsewhere(|| {
            let _mode = environment.context().exchange_capture_mode(own)?;
            Ok::<_, anabranch::Error>(answer(bench.origin.end_capture()))
        })??;
        equal(&format!("ending on a thread with mode {own:?}"), ended, status)?;
        equal("the status", bench.status()?, CaptureStatus::None)?;
        bench.ends_with("ending on another thread", Status::ILLEGAL_STATE)?;
    }
    Ok(())
}

fn end_elsewhere_global(environment: &Environment) -> Verdict {
    end_elsewhere(environment, CaptureMode::Global, Status::STREAM_CAPTURE_WRONG_THREAD)
}

fn end_elsewhere_thread_local(environment: &Environment) -> Verdict {
    end_elsewhere(environment, CaptureMode::ThreadLocal, Status::STREAM_CAPTURE_WRONG_THREAD)
}

fn end_elsewhere_relaxed(environment: &Environment) -> Verdict {
    end_elsewhere(environment, CaptureMode::Relaxed, OK)
}

fn end_on_a_fork(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        bench.fork(&bench.other)?;
        refused("ending on the fork", bench.other.end_capture(), Status::STREAM_CAPTURE_UNMATCHED)?;
        equal("the fork's status", bench.other.capture_status()?, CaptureStatus::Invalidated)?;
        bench.is_invalidated("ending on a fork")?;
    }
    Ok(())
}

/// Starts a thread that begins a capture and exits.
fn begun_by_another_thread(environment: &Environment, mode: CaptureMode) -> Result<Bench<'_>, crate::case::Failed> {
    let bench = Bench::new(environment)?;
    elsewhere(|| bench.origin.begin_capture(mode))??;
    equal("the status", bench.status()?, CaptureStatus::Active)?;
    Ok(bench)
}

/// The capture continues to prohibit unsafe calls on other threads.
fn begun_by_a_thread_that_ended_global(environment: &Environment) -> Verdict {
    let bench = begun_by_another_thread(environment, CaptureMode::Global)?;
    equal("an unsafe call here", unsafe_call(environment), UNSUPPORTED)?;
    equal("launching", bench.trace.ask(&bench.origin), INVALIDATED)?;
    bench.is_invalidated("an unsafe call here")
}

fn begun_by_a_thread_that_ended_thread_local(environment: &Environment) -> Verdict {
    let bench = begun_by_another_thread(environment, CaptureMode::ThreadLocal)?;
    equal("an unsafe call here", unsafe_call(environment), OK)?;
    bench.put(&bench.origin)?;
    equal("the status", bench.status()?, CaptureStatus::Active)?;
    bench.ends_with("the thread's end", Status::STREAM_CAPTURE_WRONG_THREAD)
}

fn begun_by_a_thread_that_ended_relaxed(environment: &Environment) -> Verdict {
    let bench = begun_by_another_thread(environment, CaptureMode::Relaxed)?;
    equal("an unsafe call here", unsafe_call(environment), OK)?;
    bench.put(&bench.origin)?;
    equal("nodes, roots and edges", shape(&bench.ends_well("the thread's end")?)?, [1, 1, 0])
}

fn of_the_default_stream_of_a_thread_that_ended(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    elsewhere(|| {
        let stream = environment.context().per_thread_stream()?;
        stream.begin_capture(CaptureMode::Relaxed)?;
        trace.append(&stream, 1)
    })??;
    let own = environment.context().per_thread_stream()?;
    equal("the status of this thread's stream", own.capture_status()?, CaptureStatus::None)?;
    let others = elsewhere(|| environment.context().per_thread_stream()?.capture_status())??;
    equal("the status of a third thread's stream", others, CaptureStatus::None)?;
    equal("an unsafe call", unsafe_call(environment), OK)
}

/// Dropping the stream discards the capture.
fn origin_dropped(environment: &Environment) -> Verdict {
    for mode in MODES {
        let (trace, fork) = (Trace::new(environment)?, environment.stream()?);
        let origin = environment.stream()?;
        origin.begin_capture(mode)?;
        trace.append(&origin, 1)?;
        fork.wait_stream(&origin)?;
        trace.append(&fork, 2)?;
        origin.wait_stream(&fork)?;
        drop(origin);
        usable(environment, &[&fork])?;
        equal("the number", trace.read()?, 0)?;
    }
    Ok(())
}

fn closure_fails(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    for mode in MODES {
        let mut seen = None;
        let failed = bench.origin.capture(mode, |scope| {
            seen = Some(scope.mode());
            scope.fork(&bench.other)?;
            scope.begin_capture(mode)
        });
        refused("the capture", failed, Status::ILLEGAL_STATE)?;
        equal("the scope's mode", seen, Some(mode))?;
        bench.is_usable("a closure that failed")?;
    }
    Ok(())
}

fn closure_panics(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    for mode in MODES {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            bench.origin.capture(mode, |scope| {
                scope.fork(&bench.other)?;
                // This does not call the panic hook, which would print a message.
                resume_unwind(Box::new(17u32))
            })
        }));
        let payload = unwound.map(drop).err().and_then(|payload| payload.downcast_ref::<u32>().copied());
        equal("what the capture unwound with", payload, Some(17))?;
        bench.is_usable("a closure that panicked")?;
    }
    Ok(())
}

/// The closure ignores the error of a prohibited call.
fn closure_invalidates(environment: &Environment) -> Verdict {
    let bench = Bench::new(environment)?;
    let invalidate = |stream: &Stream| holds("querying a capturing stream fails", stream.query().is_err());
    for mode in MODES {
        let mut verdict = Ok(());
        let captured = bench.origin.capture(mode, |scope| {
            verdict = invalidate(scope);
            Ok(())
        });
        verdict?;
        refused("the capture", captured, INVALIDATED)?;
        bench.is_usable("a closure that invalidated the capture")?;
    }
    Ok(())
}
