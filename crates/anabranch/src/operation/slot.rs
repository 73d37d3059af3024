//! The values that the steps of an operation hand on.

use super::OPERATION;
use super::each::drop_all;
use crate::error::{Error, Result};
use crate::ranks;
use anabranch_hal::Status;
use anabranch_sync::Mutex;
use std::sync::Arc;

/// The place of a value, which one step fills and a later one empties.
///
/// A value that is dropped in it while the thread unwinds does not unwind, which would end the process. So one step can own
/// several slots, and something else of the program if that is dropped first.
pub(super) struct Slot<T>(Arc<Held<T>>);

struct Held<T>(Mutex<Option<T>>);

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        drop_all(|| self.0.get_mut().take().is_some());
    }
}

impl<T> Slot<T> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Held(Mutex::new(ranks::OPERATION_VALUE, None))))
    }

    /// The same place.
    pub(super) fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// The place is empty, so that nothing is dropped under its lock.
    pub(super) fn fill(&self, value: T) {
        *self.0.0.lock() = Some(value);
    }

    /// # Errors
    /// [`CUDA_ERROR_UNKNOWN (999)`](crate::Status::UNKNOWN) if no step has filled it, which does not happen: steps
    /// are made in their order.
    pub(super) fn take(&self) -> Result<T> {
        let value = self.0.0.lock().take();
        value.ok_or_else(|| Error::argument(Status::UNKNOWN, OPERATION, "an earlier part has made no value"))
    }
}
