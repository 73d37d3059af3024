//! The values that decide what conditional nodes run.

use super::state::{Contents, GraphState};
use anabranch_hal::{ConditionalHandle, Failure, Result, Status};
use std::sync::atomic::{AtomicU64, Ordering};

/// Handles are numbers, unique in the process, that are easy to tell from a number passed by mistake.
static NEXT_HANDLE: AtomicU64 = AtomicU64::new(0xc0_0000_0001);

/// A value as its graph knows it. Each executable graph has a value of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionalValue {
    pub(crate) handle: ConditionalHandle,
    /// What every launch begins with.
    pub(crate) default: Option<u32>,
    /// Whether a node of the graph asks for it.
    pub(crate) used: bool,
}

impl GraphState {
    /// Makes a value for a conditional node.
    pub(crate) fn create_conditional(&self, default: Option<u32>) -> ConditionalHandle {
        let handle = ConditionalHandle(NEXT_HANDLE.fetch_add(1, Ordering::Relaxed));
        self.lock().conditionals.push(ConditionalValue { handle, default, used: false });
        handle
    }
}

impl Contents {
    /// Notes that a new node asks for a value. `CUDA_ERROR_INVALID_VALUE (1)` when it is not one of the graph, or
    /// another node asks for it.
    pub(super) fn use_conditional(&mut self, handle: ConditionalHandle) -> Result<()> {
        let value = self.conditionals.iter_mut().find(|value| value.handle == handle && !value.used);
        let value = value.ok_or_else(|| {
            Failure::argument(Status::INVALID_VALUE, "the value is not of this graph, or another node uses it")
        })?;
        value.used = true;
        Ok(())
    }
}
