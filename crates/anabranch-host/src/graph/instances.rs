//! The executable graphs that were made from a graph.

use super::state::{GraphState, Instance, Made};
use crate::engine::Position;
use anabranch_hal::{Failure, Result, Status};
use std::ptr;
use std::sync::{Arc, Weak};

/// So many executable graphs of a graph are noted before it is looked which of them there still are.
pub(super) const FEW: usize = 8;

impl GraphState {
    /// Notes that an executable graph was made from this graph, or updated from it.
    pub(crate) fn note_instance(&self, instance: Weak<dyn Instance>, updated: bool) {
        let mut contents = self.lock();
        let mut updated = updated;
        if updated {
            // It may have been made from this graph.
            contents.instances.retain(|made| {
                let is_own = made.instance.ptr_eq(&instance);
                updated &= !is_own || made.updated;
                !is_own
            });
        }
        if contents.instances.len() >= contents.most_instances {
            contents.instances.retain(|made| made.instance.strong_count() > 0);
            contents.most_instances = FEW.max(2 * contents.instances.len());
        }
        let with_memory = contents.marks.memory;
        contents.instances.push(Made { instance, with_memory, updated });
        contents.note_instance();
    }

    /// Refuses another executable graph beside one that was made when the graph had memory already.
    pub(crate) fn refuse_second_with_memory(&self, own: Option<&dyn Instance>) -> Result<()> {
        if self.lock().marks.memory { self.refuse_second(own, |made| made.with_memory) } else { Ok(()) }
    }

    /// Refuses another executable graph beside any that was made from this graph, and beside a clone, if the graph has a
    /// conditional node by now.
    pub(crate) fn refuse_second_with_conditionals(&self, own: Option<&dyn Instance>) -> Result<()> {
        let contents = self.lock();
        let is_cloned = contents.clones.iter().any(|clone| clone.strong_count() > 0);
        let has_conditionals = contents.conditionals.iter().any(|value| value.used);
        drop(contents);
        match (has_conditionals, is_cloned) {
            (false, _) => Ok(()),
            (true, false) => self.refuse_second(own, |made| !made.updated),
            (true, true) => Err(Failure::argument(
                Status::NOT_SUPPORTED,
                "a graph with conditional nodes has no executable graph while it has clones, in nodes too",
            )),
        }
    }

    fn refuse_second(&self, own: Option<&dyn Instance>, counts: impl Fn(&Made) -> bool) -> Result<()> {
        let is_own = |other: &Arc<dyn Instance>| own.is_some_and(|own| ptr::addr_eq(own, Arc::as_ptr(other)));
        // Without the lock, because an executable graph may be dropped here.
        let made = self.lock().instances.clone();
        let mut others = made.iter().filter(|made| counts(made)).filter_map(|made| made.instance.upgrade());
        if others.any(|other| !is_own(&other) && !other.is_destroyed()) {
            return Err(Failure::argument(
                Status::NOT_SUPPORTED,
                "a graph that allocates or has conditional nodes has one executable graph at a time",
            ));
        }
        Ok(())
    }

    /// The last launch of the last executable graph that was made when the graph had memory.
    pub(crate) fn last_launch_with_memory(&self) -> Option<Position> {
        let contents = self.lock();
        if !contents.marks.memory {
            return None;
        }
        let mut made = contents.instances.iter().rev().filter(|made| made.with_memory);
        let last = made.find_map(|made| made.instance.upgrade());
        // It may be dropped here.
        drop(contents);
        last.and_then(|last| last.last_launch())
    }
}
