//! Conditional nodes of a capture.

use super::{CaptureState, Whole};
use crate::conditional_part::CapturedCondition;
use crate::error::Result;
use crate::graph_object::{GraphObject, MOST_LEVELS, too_deep};
use crate::stream::StreamCore;
use anabranch_hal::DevicePointer;
use std::sync::Arc;

/// A conditional node that is being captured. Memory of the graph that is dropped in the meantime is freed behind the node,
/// because its parts may use the memory.
pub struct OpenCondition {
    capture: Arc<CaptureState>,
}

impl OpenCondition {
    /// The capture that the node is captured in.
    pub fn capture(&self) -> &Arc<CaptureState> {
        &self.capture
    }
}

impl Drop for OpenCondition {
    fn drop(&mut self) {
        let released = {
            let mut inner = self.capture.inner.lock();
            inner.conditions_open -= 1;
            if inner.conditions_open == 0 { std::mem::take(&mut inner.released) } else { Vec::new() }
        };
        for (address, home) in released {
            self.capture.free_graph_memory(address, &home);
        }
    }
}

impl CaptureState {
    /// How many graphs the one that is being captured is in.
    fn level(&self) -> usize {
        let (mut level, mut capture) = (0, self);
        loop {
            match &capture.whole {
                Whole::Itself => return level,
                Whole::Capture(outer) => (level, capture) = (level + 1, outer),
                Whole::Body(body) => return level + body.level(),
            }
        }
    }

    /// A conditional node is about to be captured.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if there are too many levels of graphs.
    pub fn open_condition(self: &Arc<Self>, operation: &'static str) -> Result<OpenCondition> {
        let levels = self.level() + 1;
        if levels > MOST_LEVELS {
            return Err(too_deep(operation));
        }
        let mut inner = self.inner.lock();
        inner.levels = inner.levels.max(levels);
        inner.conditions_open += 1;
        drop(inner);
        Ok(OpenCondition { capture: self.clone() })
    }

    /// Notes a placeholder of a conditional node.
    pub fn add_condition(&self, condition: CapturedCondition) {
        self.inner.lock().conditions.push(condition);
    }

    /// Takes over what a part uses and retains. `stream` has just captured the conditional node that contains the part.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn adopt(&self, part: &GraphObject, stream: &StreamCore) -> Result<()> {
        let inside = {
            let guard = part.lock();
            let mut inner = self.inner.lock();
            inner.retained.merge(guard.retained());
            std::mem::take(&mut inner.inside)
        };
        inside
            .into_iter()
            .try_for_each(|(address, access)| self.order(DevicePointer(address), stream, access, None))?;
        self.settle(stream);
        Ok(())
    }
}
