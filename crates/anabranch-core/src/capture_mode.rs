//! A thread's own capture mode.

use crate::context::ContextCore;
use crate::error::{Result, ResultExt};
use crate::host_work::refuse_inside;
use crate::thread_capture_mode;
use anabranch_hal::CaptureMode;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

const EXCHANGING: &str = "exchanging the thread's capture mode";

/// Ends a thread's capture mode when it is dropped: the thread then has the mode of the guard that was made last of those that
/// there still are, or the mode that it had before all of them.
#[must_use = "the mode holds until the guard is dropped"]
pub struct CaptureModeGuard {
    context: Arc<ContextCore>,
    before: CaptureMode,
    ticket: u64,
    /// It belongs to one thread.
    thread: PhantomData<*const ()>,
}

impl CaptureModeGuard {
    /// Exchanges the thread's mode.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function; otherwise only an error of earlier asynchronous work.
    pub fn enter(context: &Arc<ContextCore>, mode: CaptureMode) -> Result<Self> {
        refuse_inside(EXCHANGING).map_err(|error| error.at(context.place()))?;
        let before = context.driver().thread_exchange_capture_mode(mode).during(EXCHANGING, || context.place())?;
        let ticket = thread_capture_mode::guard(context.shared_driver(), before);
        Ok(Self { context: context.clone(), before, ticket, thread: PhantomData })
    }

    /// The mode that the thread had when the guard was made.
    pub fn before(&self) -> CaptureMode {
        self.before
    }
}

impl Drop for CaptureModeGuard {
    fn drop(&mut self) {
        if let Some(mode) = thread_capture_mode::restored(self.ticket, self.before) {
            // Exchanging modes does not fail where it succeeded before.
            let _ = thread_capture_mode::set(self.context.driver(), mode);
        }
    }
}

impl fmt::Debug for CaptureModeGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CaptureModeGuard(before: {:?})", self.before)
    }
}
