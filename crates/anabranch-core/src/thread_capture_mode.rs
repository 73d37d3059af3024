//! The calls that change a thread's capture mode.

use anabranch_hal::{CaptureMode, Driver};

/// Sets the thread's capture mode, and returns the mode before.
///
/// The mode belongs to the thread, not to one call: a thread that goes on in the wrong mode invalidates captures of
/// others. A layer that unwinds in the call must not bring this about, so the call is made again.
pub(crate) fn set(driver: &dyn Driver, mode: CaptureMode) -> Option<CaptureMode> {
    const ATTEMPTS: usize = 3;
    (0..ATTEMPTS).find_map(|_| driver.thread_exchange_capture_mode(mode).ok())
}

/// Relaxes the capture mode of a thread of this library, which releases and asks only what no capture can depend on.
pub(crate) fn relax_this_thread(driver: &dyn Driver) {
    // A driver too old to capture has no captures to invalidate.
    let _ = set(driver, CaptureMode::Relaxed);
}

/// Calls `action` with the thread's capture mode relaxed, for calls that no capture can depend on. These calls are then
/// not prohibited by captures of this or other threads, and do not invalidate them.
pub fn with_relaxed_capture_mode<R>(driver: &dyn Driver, action: impl FnOnce() -> R) -> R {
    // A driver too old to capture prohibits nothing.
    let before = set(driver, CaptureMode::Relaxed);
    let result = action();
    match before {
        Some(CaptureMode::Relaxed) | None => {}
        Some(before) => _ = set(driver, before),
    }
    result
}
