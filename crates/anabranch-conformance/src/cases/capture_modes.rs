//! Capture modes: which calls a thread may make during a capture.

use super::capture_calls::{
    ALLOWED, BAD_ALLOCATIONS, BAD_ARGUMENTS, BAD_HANDLES, BAD_LAUNCHES, BAD_STATES, PROHIBITED, PROHIBITED_POOLS,
    REFUSED, ask, prohibition,
};
use super::capture_tools::{Bench, MODES, OK, UNSUPPORTED, elsewhere, unsafe_call, usable};
use crate::case::{Case, Need, Verdict, equal};
use crate::environment::Environment;
use anabranch::{Capabilities, CaptureMode, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.prohibited_calls_global", "C3", prohibited_calls_global),
    Case::new("capture.prohibited_calls_thread_local", "C3", prohibited_calls_thread_local),
    Case::new("capture.prohibited_calls_relaxed", "C3", prohibited_calls_relaxed),
    Case::new("capture.prohibited_pool_calls", "C3", prohibited_pool_calls).needs(POOLS),
    Case::new("capture.prohibited_managed_memory", "C3", prohibited_managed_memory).needs(MANAGED),
    Case::new("capture.allowed_calls_global", "C3", allowed_calls_global),
    Case::new("capture.allowed_calls_thread_local", "C3", allowed_calls_thread_local),
    Case::new("capture.allowed_calls_relaxed", "C3", allowed_calls_relaxed),
    Case::new("capture.refused_calls", "C9", refused_calls),
    Case::new("capture.bad_launches_invalidate", "C9", bad_launches_invalidate),
    Case::new("capture.bad_arguments_do_no_harm", "X2", bad_arguments_do_no_harm),
    Case::new("capture.bad_allocations_do_no_harm", "X2", bad_allocations_do_no_harm).needs(POOLS),
    Case::new("capture.thread_relaxed", "C3", thread_relaxed),
    Case::new("capture.thread_mode_is_put_back", "C3", thread_mode_is_put_back),
    Case::new("capture.thread_mode_is_the_threads_own", "C3", thread_mode_is_the_threads_own),
    Case::new("capture.prohibition_ends", "C3", prohibition_ends),
];

const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];
const MANAGED: &[Need] = &[Need::Capability(Capabilities::MANAGED_MEMORY)];

fn prohibited_calls_global(environment: &Environment) -> Verdict {
    ask(environment, CaptureMode::Global, PROHIBITED, UNSUPPORTED, true)
}

fn prohibited_calls_thread_local(environment: &Environment) -> Verdict {
    ask(environment, CaptureMode::ThreadLocal, PROHIBITED, UNSUPPORTED, true)
}

fn prohibited_calls_relaxed(environment: &Environment) -> Verdict {
    ask(environment, CaptureMode::Relaxed, PROHIBITED, OK, false)
}

fn prohibited_pool_calls(environment: &Environment) -> Verdict {
    MODES
        .iter()
        .try_for_each(|&mode| ask(environment, mode, PROHIBITED_POOLS, prohibition(mode), mode != CaptureMode::Relaxed))
}

fn prohibited_managed_memory(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        let allocated = environment.context().allocate_managed::<u32>(16);
        equal("allocating", super::capture_tools::answer(allocated), prohibition(mode))?;
        if mode == CaptureMode::Relaxed {
            bench.ends_well("allocating managed memory")?;
        } else {
            bench.is_invalidated("allocating managed memory")?;
        }
    }
    Ok(())
}

fn allowed_calls_global(environment: &Environment) -> Verdict {
    ask(environment, CaptureMode::Global, ALLOWED, OK, false)
}

fn allowed_calls_thread_local(environment: &Environment) -> Verdict {
    ask(environment, CaptureMode::ThreadLocal, ALLOWED, OK, false)
}

fn allowed_calls_relaxed(environment: &Environment) -> Verdict {
    ask(environment, CaptureMode::Relaxed, ALLOWED, OK, false)
}

fn refused_calls(environment: &Environment) -> Verdict {
    MODES.iter().try_for_each(|&mode| ask(environment, mode, REFUSED, UNSUPPORTED, true))
}

fn bad_launches_invalidate(environment: &Environment) -> Verdict {
    MODES.iter().try_for_each(|&mode| ask(environment, mode, BAD_LAUNCHES, Status::INVALID_VALUE, true))
}

fn bad_arguments_do_no_harm(environment: &Environment) -> Verdict {
    MODES.iter().try_for_each(|&mode| {
        ask(environment, mode, BAD_ARGUMENTS, Status::INVALID_VALUE, false)?;
        ask(environment, mode, BAD_HANDLES, Status::INVALID_HANDLE, false)?;
        ask(environment, mode, BAD_STATES, Status::ILLEGAL_STATE, false)
    })
}

fn bad_allocations_do_no_harm(environment: &Environment) -> Verdict {
    MODES.iter().try_for_each(|&mode| ask(environment, mode, BAD_ALLOCATIONS, Status::OUT_OF_MEMORY, false))
}

/// The mode of the thread, and not that of the capture, determines whether a call is prohibited.
fn thread_relaxed(environment: &Environment) -> Verdict {
    for mode in MODES {
        let bench = Bench::capturing(environment, mode)?;
        let guard = environment.context().exchange_capture_mode(CaptureMode::Relaxed)?;
        equal("an unsafe call", unsafe_call(environment), OK)?;
        drop(guard);
        bench.ends_well("an unsafe call of a relaxed thread")?;
    }
    Ok(())
}

fn thread_mode_is_put_back(environment: &Environment) -> Verdict {
    let outer = environment.context().exchange_capture_mode(CaptureMode::Relaxed)?;
    equal("the mode of a thread", outer.before(), CaptureMode::Global)?;
    let inner = environment.context().exchange_capture_mode(CaptureMode::ThreadLocal)?;
    equal("the mode within", inner.before(), CaptureMode::Relaxed)?;
    drop(inner);
    let again = environment.context().exchange_capture_mode(CaptureMode::Relaxed)?;
    equal("the mode afterwards", again.before(), CaptureMode::Relaxed)?;
    drop(again);
    drop(outer);
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    equal("an unsafe call", unsafe_call(environment), UNSUPPORTED)?;
    bench.is_invalidated("an unsafe call")
}

fn thread_mode_is_the_threads_own(environment: &Environment) -> Verdict {
    let guard = environment.context().exchange_capture_mode(CaptureMode::Relaxed)?;
    let others = elsewhere(|| {
        let guard = environment.context().exchange_capture_mode(CaptureMode::ThreadLocal)?;
        Ok::<_, anabranch::Error>(guard.before())
    })??;
    equal("another thread's mode", others, CaptureMode::Global)?;
    let bench = Bench::capturing(environment, CaptureMode::Global)?;
    equal("an unsafe call of the other", elsewhere(|| unsafe_call(environment))?, UNSUPPORTED)?;
    drop(guard);
    bench.is_invalidated("an unsafe call of another thread")
}

fn prohibition_ends(environment: &Environment) -> Verdict {
    let (first, second) = (environment.stream()?, environment.stream()?);
    first.begin_capture(CaptureMode::Global)?;
    second.begin_capture(CaptureMode::Relaxed)?;
    first.end_capture()?;
    equal("an unsafe call during a relaxed capture", unsafe_call(environment), OK)?;
    second.end_capture()?;
    usable(environment, &[&first, &second])
}
