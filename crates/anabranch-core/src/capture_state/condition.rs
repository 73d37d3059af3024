//! Nodes of a capture with graphs inside: conditional nodes, and child graphs.

use super::{CaptureState, Capturing, InsidePart, Whole};
use crate::conditional_part::CapturedCondition;
use crate::error::{Error, Result};
use crate::graph_object::{GraphGuard, GraphObject, MOST_LEVELS, too_deep};
use crate::memory::Allocation;
use crate::stream::StreamCore;
use anabranch_hal::{Access, DevicePointer, Status};
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A conditional node that is being captured. Memory of the graph that is dropped in the meantime is freed behind the node,
/// because its parts may use the memory.
pub struct OpenCondition {
    capture: Arc<CaptureState>,
    /// Whether its parts are being captured.
    has_open_parts: Cell<bool>,
    /// The ids of the graphs of its parts.
    parts: RefCell<Vec<u64>>,
}

impl OpenCondition {
    /// The capture that the node is captured in.
    pub fn capture(&self) -> &Arc<CaptureState> {
        &self.capture
    }

    /// Notes a capture as one of its parts.
    pub fn add_part(&self, part: &CaptureState) {
        self.parts.borrow_mut().push(part.graph());
    }

    /// Refuses a condition whose parts use memory of a part of another condition, which is being captured: the node of that one
    /// runs behind the node of this one, whatever the program says.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check_others(&self, operation: &'static str, stream: &StreamCore) -> Result<()> {
        let parts = self.parts.borrow();
        let is_own = |inside: &InsidePart| parts.contains(&inside.part);
        let own: Vec<_> = {
            let inner = self.capture.inner.lock();
            inner.inside.iter().filter(|inside| is_own(inside)).map(InsidePart::memory).collect()
        };
        if self.capture.parts_conflict(&own, &|inside| !is_own(inside)) {
            return Err(used_in_a_part(operation, stream));
        }
        Ok(())
    }

    /// All parts are captured, and the node comes next: uses of memory come behind what the parts use from now on. Before this,
    /// `capturing` was taken, so that nobody else captures until the node is there.
    pub fn close_parts(&self) {
        if self.has_open_parts.replace(false) {
            self.capture.open_conditions.fetch_sub(1, Ordering::Relaxed);
        }
        let (mut inner, parts) = (self.capture.inner.lock(), self.parts.borrow());
        let own = inner.inside.iter_mut().filter(|inside| parts.contains(&inside.part));
        own.for_each(|inside| inside.is_closing = true);
    }
}

impl Drop for OpenCondition {
    fn drop(&mut self) {
        self.close_parts();
        let released = {
            let mut inner = self.capture.inner.lock();
            // What is left where it failed.
            inner.inside.retain(|inside| !self.parts.get_mut().contains(&inside.part));
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
        inner.traits.has_conditions = true;
        self.open_conditions.fetch_add(1, Ordering::Relaxed);
        drop(inner);
        let (has_open_parts, parts) = (Cell::new(true), RefCell::default());
        Ok(OpenCondition { capture: self.clone(), has_open_parts, parts })
    }

    /// A graph with so many levels of graphs in its nodes is about to be captured.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if there are too many levels of graphs.
    pub fn open_child(&self, levels_below: usize, operation: &'static str) -> Result<()> {
        let levels = self.level() + 1 + levels_below;
        if levels > MOST_LEVELS {
            return Err(too_deep(operation));
        }
        let mut inner = self.inner.lock();
        inner.levels = inner.levels.max(levels);
        Ok(())
    }

    /// Retains what a graph retains of which a node was captured.
    pub fn retain_all(&self, child: &GraphGuard<'_>) {
        let mut inner = self.inner.lock();
        inner.retained.merge(child.retained().all());
        inner.traits.add(child.traits());
    }

    /// Refuses a use of memory that a conditional part uses which is being captured. The node runs behind everything that is
    /// captured meanwhile, so that the use would come before the part, whatever the program says.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check_parts(&self, memory: &Allocation, access: Access, stream: &StreamCore) -> Result<()> {
        if self.open_conditions.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        if self.parts_conflict(&[(memory.address().0, access)], &|inside| !inside.is_closing) {
            return Err(used_in_a_part("using memory in a capture", stream));
        }
        Ok(())
    }

    /// Whether conditional parts use memory in a way that one of these uses must be ordered with: parts that are being captured, and
    /// of those whose node is not captured yet, the ones that count.
    ///
    /// When a part ends, or a node with parts is captured, what they use moves outwards, to what they are a part of, and is there
    /// before it is gone from where it was. So it is looked for from the inside out: a use that was there before cannot be missed.
    pub(super) fn parts_conflict(&self, uses: &[(u64, Access)], counts: &dyn Fn(&InsidePart) -> bool) -> bool {
        let open = self.inner.lock().open_parts.clone();
        open.iter().filter_map(Weak::upgrade).any(|part| part.conflicts(uses))
            || conflict(self.inner.lock().inside.iter().filter(|inside| counts(inside)).map(InsidePart::memory), uses)
    }

    /// Whether this part, or one inside of it, uses memory in a way that one of these uses must be ordered with.
    fn conflicts(&self, uses: &[(u64, Access)]) -> bool {
        self.parts_conflict(uses, &|_| true) || conflict(self.inner.lock().history.accesses(), uses)
    }

    /// Notes a placeholder of a conditional node.
    pub fn add_condition(&self, condition: CapturedCondition) {
        self.inner.lock().conditions.push(condition);
    }
}

impl Capturing {
    /// Takes over what a part uses and retains. `stream` has just captured the conditional node that contains the part.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn adopt(&self, part: &GraphObject, stream: &StreamCore) -> Result<()> {
        let is_inside = |inside: &InsidePart| inside.part == part.id();
        let used: Vec<_> = {
            let guard = part.lock("capturing a condition")?;
            let mut inner = self.inner.lock();
            inner.retained.merge(guard.retained().all());
            inner.inside.iter().filter(|inside| is_inside(inside)).map(InsidePart::memory).collect()
        };
        used.into_iter().try_for_each(|(address, access)| self.order(DevicePointer(address), stream, access, None))?;
        self.settle(stream);
        // Only now, so that there is no moment in which they are nowhere.
        self.inner.lock().inside.retain(|inside| !is_inside(inside));
        Ok(())
    }
}

impl InsidePart {
    fn memory(&self) -> (u64, Access) {
        (self.address, self.access)
    }
}

#[cold]
fn used_in_a_part(operation: &'static str, stream: &StreamCore) -> Error {
    Error::argument(Status::ILLEGAL_STATE, operation, "a conditional part that is being captured uses the memory")
        .with_hint("use it inside of the part, or before or after the condition")
        .at(stream.place())
}

/// Whether one of the earlier uses must be ordered with one of the later ones.
fn conflict(earlier: impl IntoIterator<Item = (u64, Access)>, later: &[(u64, Access)]) -> bool {
    earlier.into_iter().any(|(address, earlier)| {
        let mut later = later.iter().filter(|later| later.0 == address);
        later.any(|&(_, later)| earlier == Access::Write || later == Access::Write)
    })
}
