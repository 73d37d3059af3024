//! A thread's own capture mode.

use crate::context::ContextCore;
use crate::error::{Result, ResultExt};
use crate::thread_capture_mode;
use anabranch_hal::CaptureMode;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

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
        let _ = thread_capture_mode::set(self.context.driver(), self.before);
    }
}

impl fmt::Debug for CaptureModeGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CaptureModeGuard(before: {:?})", self.before)
    }
}
