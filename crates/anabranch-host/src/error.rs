//! Errors of queued work, and of calls from inside of it.

use crate::ranks;
use anabranch_hal::{Detail, Failure, InsideWork, InsideWorkBefore, Result, Status};
use anabranch_sync::require_none_held;

/// Refuses driver calls from host work and kernels, as the hardware's driver does.
#[inline]
pub(crate) fn permitted() -> Result<()> {
    if InsideWork::is_entered() { Err(Failure::new(Status::NOT_PERMITTED)) } else { Ok(()) }
}

/// Marks the thread as inside of work until the result is dropped. No lock of this crate is held meanwhile.
///
/// # Safety
/// As of [`InsideWorkBefore::note`].
#[inline]
#[track_caller]
pub(crate) unsafe fn enter_work() -> InsideWorkBefore {
    require_none_held(ranks::PRIMARY);
    // SAFETY: the caller promises it.
    unsafe { InsideWorkBefore::enter() }
}

/// A panic of a kernel.
#[derive(Debug)]
pub(crate) struct StreamFailure {
    /// The number of its entry in its stream.
    pub(crate) sequence: u64,
    pub(crate) message: String,
}

impl From<StreamFailure> for Failure {
    fn from(failure: StreamFailure) -> Self {
        Self::with_detail(Status::LAUNCH_FAILED, Detail::Panic(failure.message))
    }
}
