//! Errors of queued work, and of calls from inside of it.

use anabranch_hal::{Detail, Failure, InsideWork, Result, Status};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Refuses driver calls from host work and kernels, as the hardware's driver does.
#[inline]
pub(crate) fn permitted() -> Result<()> {
    if InsideWork::is_entered() { Err(Failure::new(Status::NOT_PERMITTED)) } else { Ok(()) }
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

/// The message of a panic.
#[cold]
pub(crate) fn panic_message(payload: Box<dyn Any + Send>) -> String {
    let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is no text".to_owned()
    };
    // A payload may be anything, even something that panics when it is dropped. What that panic says is left out.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    message
}
