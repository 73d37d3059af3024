//! The values that decide what conditional nodes run.

use super::node::Action;
use super::state::{Contents, GraphState};
use anabranch_hal::{ConditionalHandle, Failure, Result, Status};
use std::sync::Arc;
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
    /// Makes a value for a conditional node of this graph, or of any that is inside of one with it.
    pub(crate) fn create_conditional(&self, default: Option<u32>) -> Result<ConditionalHandle> {
        let handle = ConditionalHandle(NEXT_HANDLE.fetch_add(1, Ordering::Relaxed));
        let root = self.root()?;
        let mut contents = root.lock();
        contents.marks.value = true;
        contents.conditionals.push(ConditionalValue { handle, default, used: false });
        Ok(handle)
    }

    /// Notes that the node that did this, and those inside of it, ask for no value any more.
    pub(super) fn release_conditionals(&self, action: &Action) {
        let Action::Conditional(conditional) = action else { return };
        if let Ok(root) = self.root() {
            let mut contents = root.lock();
            let released = contents.conditionals.iter_mut().find(|value| value.handle == conditional.handle);
            if let Some(value) = released {
                value.used = false;
            }
        }
        for body in &conditional.bodies {
            let inside: Vec<_> = body.lock().nodes.values().map(|node| Arc::clone(&node.action)).collect();
            inside.iter().for_each(|action| self.release_conditionals(action));
        }
    }
}

impl Contents {
    /// Whether a value is one of the graph that no node asks for.
    pub(super) fn is_unused(&self, handle: ConditionalHandle) -> bool {
        self.conditionals.iter().any(|value| value.handle == handle && !value.used)
    }

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
