//! Errors of queued work.

use anabranch_hal::{Detail, Failure, Status};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A panic in an entry of a stream.
#[derive(Debug)]
pub(crate) struct StreamFailure {
    /// The entry's number in its stream.
    pub(crate) sequence: u64,
    pub(crate) message: String,
}

impl From<StreamFailure> for Failure {
    fn from(failure: StreamFailure) -> Self {
        Self::with_detail(Status::LAUNCH_FAILED, Detail::Panic(failure.message))
    }
}

/// Drops what may hold objects of the caller's, where nobody is left to be told of a panic in it.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        panic_message(payload);
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
