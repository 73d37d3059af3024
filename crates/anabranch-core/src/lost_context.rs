//! Whether an error is that of a lost context.

use crate::thread_capture_mode::with_relaxed_capture_mode;
use anabranch_hal::{Call, Detail, Driver, EventFlags, Failure, Result as DriverResult, Status};

/// Whether a call has failed because its context is lost. The code says so, or, if it can have other causes or nobody knows it, calls
/// that have nothing to do with the first, or with each other, fail with the same code, as every call in a lost context does.
pub fn is_lost(driver: &dyn Driver, call: &Call<'_>, failure: &Failure) -> bool {
    if failure.status.is_sticky() {
        return true;
    }
    if is_of_one_call(failure) {
        return false;
    }
    [make_event, ask_for_memory].iter().all(|ask| match ask(driver, call) {
        Err(again) => again.status.is_sticky() || (again.status == failure.status && !is_of_one_call(&again)),
        Ok(()) => false,
    })
}

/// Whether nothing follows from a failure for other calls: work is not complete, an argument is wrong, a capture or a host function
/// prohibits the call, there is no memory for it, the driver does not have it, or a layer has unwound.
fn is_of_one_call(failure: &Failure) -> bool {
    const CAPTURES: std::ops::RangeInclusive<i32> =
        Status::STREAM_CAPTURE_UNSUPPORTED.0..=Status::STREAM_CAPTURE_WRONG_THREAD.0;
    matches!(
        failure.status,
        Status::NOT_READY
            | Status::INVALID_VALUE
            | Status::INVALID_HANDLE
            | Status::OUT_OF_MEMORY
            | Status::NOT_PERMITTED
            | Status::NOT_SUPPORTED
    ) || CAPTURES.contains(&failure.status.0)
        || matches!(failure.detail.as_deref(), Some(Detail::MissingSymbol { .. } | Detail::Panic(_)))
}

/// How much memory there is. The answer takes nothing that may be short, such as descriptors or threads.
fn ask_for_memory(driver: &dyn Driver, call: &Call<'_>) -> DriverResult<()> {
    driver.memory_info(call).map(drop)
}

/// Makes an event. It asks nothing of one that is there: a layer may refuse all questions about those.
fn make_event(driver: &dyn Driver, call: &Call<'_>) -> DriverResult<()> {
    with_relaxed_capture_mode(driver, || {
        let event = driver.event_create(call, EventFlags::DISABLE_TIMING)?;
        // SAFETY: the event was just made, and nobody else knows it.
        let _ = unsafe { driver.event_destroy(call, event) };
        Ok(())
    })
}
