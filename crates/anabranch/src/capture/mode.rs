//! A thread's own capture mode.

use crate::context::{Context, ContextCore};
use crate::error::{Result, ResultExt};
use anabranch_hal::{CaptureMode, Driver};
use std::marker::PhantomData;
use std::sync::Arc;

/// Gives the thread its capture mode back when it is dropped. See [`Context::exchange_capture_mode`].
#[must_use = "the mode holds until the guard is dropped"]
pub struct CaptureModeGuard {
    context: Arc<ContextCore>,
    before: CaptureMode,
    /// Of one thread.
    thread: PhantomData<*const ()>,
}

/// Gives back what no capture can depend on, though captures of this or other threads prohibit that.
pub(crate) fn unprohibited<R>(driver: &dyn Driver, give_back: impl FnOnce() -> R) -> R {
    // A driver too old to capture prohibits nothing.
    let before = driver.thread_exchange_capture_mode(CaptureMode::Relaxed);
    let result = give_back();
    if let Ok(before) = before {
        // Exchanging modes does not fail where it succeeded before.
        let _ = driver.thread_exchange_capture_mode(before);
    }
    result
}

impl CaptureModeGuard {
    pub(crate) fn enter(context: &Arc<ContextCore>, mode: CaptureMode) -> Result<Self> {
        let before = context
            .driver()
            .thread_exchange_capture_mode(mode)
            .during("exchanging the thread's capture mode", || context.place())?;
        Ok(Self { context: context.clone(), before, thread: PhantomData })
    }

    /// The mode that the thread had before, and will have again.
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

impl std::fmt::Debug for CaptureModeGuard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CaptureModeGuard(before: {:?})", self.before)
    }
}

impl Context {
    /// Exchanges the calling thread's own capture mode, for all devices of this driver, until the guard is dropped. A
    /// thread begins with [`CaptureMode::Global`]: it is refused potentially unsafe calls, such as allocating outside of
    /// stream order, while any thread captures globally, and while it captures itself in a mode that is not relaxed. With
    /// [`CaptureMode::Relaxed`] it is refused none. Follows `cuThreadExchangeStreamCaptureMode`.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureModeGuard> {
        CaptureModeGuard::enter(self.core(), mode)
    }
}
