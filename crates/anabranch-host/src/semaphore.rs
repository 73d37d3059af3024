//! Timeline semaphores, which this process and others share as a number in a file.

use crate::engine::{ContextCore, NumberCondition, Outcome, Turn, Work};
use crate::handles::handle;
use crate::shared_file::SharedNumber;
use anabranch_hal::{ExternalSemaphoreHandle, ExternalSemaphoreOperation, Live, Result};
use std::sync::Arc;

/// A semaphore that was imported.
#[derive(Debug)]
pub(crate) struct SemaphoreState {
    pub(crate) core: Arc<ContextCore>,
    number: Arc<SharedNumber>,
}

handle!(SemaphoreState, ExternalSemaphoreHandle, INVALID_HANDLE);

impl SemaphoreState {
    pub(crate) fn new(core: &Arc<ContextCore>, number: SharedNumber) -> Arc<Self> {
        Arc::new(Self { core: Arc::clone(core), number: Arc::new(number) })
    }

    /// The numbers and values of operations. They keep the numbers.
    ///
    /// # Safety
    /// The semaphores exist.
    pub(crate) unsafe fn resolve(operations: &[ExternalSemaphoreOperation]) -> Result<Vec<NumberCondition>> {
        let resolve = |operation: &ExternalSemaphoreOperation| {
            // SAFETY: the caller promises that the semaphore exists.
            let state = Self::of(unsafe { Live::new(operation.semaphore) })?;
            Ok(NumberCondition { number: Arc::clone(&state.number), value: operation.value })
        };
        operations.iter().map(resolve).collect()
    }
}

/// A signal of a semaphore, in the order of a stream.
#[derive(Debug)]
pub(crate) struct SignalSemaphore(pub(crate) NumberCondition);

impl Work for SignalSemaphore {
    fn run(&mut self, turn: &Turn<'_>) -> Outcome {
        self.0.number.raise(self.0.value);
        turn.engine.values.changed();
        Outcome::Done
    }
}
