//! A thread's own capture mode.

use crate::context::ContextCore;
use crate::error::{Result, ResultExt};
use anabranch_hal::{CaptureMode, Driver};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Calls `action` with the thread's capture mode relaxed, for calls that no capture can depend on. These calls are then
/// not prohibited by captures of this or other threads, and do not invalidate them.
pub fn with_relaxed_capture_mode<R>(driver: &dyn Driver, action: impl FnOnce() -> R) -> R {
    // A driver too old to capture prohibits nothing.
    let before = driver.thread_exchange_capture_mode(CaptureMode::Relaxed);
    let result = action();
    match before {
        Ok(CaptureMode::Relaxed) | Err(_) => {}
        // Exchanging modes does not fail where it succeeded before.
        Ok(before) => _ = driver.thread_exchange_capture_mode(before),
    }
    result
}

/// Restores the thread's capture mode when it is dropped.
#[must_use = "the mode holds until the guard is dropped"]
pub struct CaptureModeGuard {
    context: Arc<ContextCore>,
    before: CaptureMode,
    /// It belongs to one thread.
    thread: PhantomData<*const ()>,
}

impl CaptureModeGuard {
    /// Exchanges the thread's mode.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn enter(context: &Arc<ContextCore>, mode: CaptureMode) -> Result<Self> {
        let before = context
            .driver()
            .thread_exchange_capture_mode(mode)
            .during("exchanging the thread's capture mode", || context.place())?;
        Ok(Self { context: context.clone(), before, thread: PhantomData })
    }

    /// The mode that the thread had before, which is restored.
    pub fn before(&self) -> CaptureMode {
        self.before
    }
}

impl Drop for CaptureModeGuard {
    fn drop(&mut self) {
        // Exchanging modes does not fail where it succeeded before.
        let _ = self.context.driver().thread_exchange_capture_mode(self.before);
    }
}

impl fmt::Debug for CaptureModeGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CaptureModeGuard(before: {:?})", self.before)
    }
}
