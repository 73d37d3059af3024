//! Executable graphs.

mod check;
mod conditionals;
mod cycle;
mod device_launch;
mod exclusion;
mod launch;
mod pairing;
mod plan;
mod run;
mod step;
mod update;

use crate::engine::{ContextCore, Position};
use crate::graph::{GraphState, Instance, LaunchMemory, Place};
use crate::handles::handle;
use crate::ranks;
use anabranch_hal::{ExecutableGraphHandle, Failure, InstantiateFlags, Result, Status};
use anabranch_sync::Mutex;
pub(crate) use check::refused;
use plan::{Flat, Plan, Shape};
use run::Run;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// An executable graph.
pub(crate) struct ExecutableState {
    this: Weak<Self>,
    pub(crate) core: Arc<ContextCore>,
    pub(crate) flags: InstantiateFlags,
    shape: Arc<Shape>,
    run: Arc<Run>,
    pub(crate) memory: LaunchMemory,
    /// The graph as it was instantiated. It keeps what the nodes use, also after an update from another graph.
    original: Arc<GraphState>,
    pub(crate) destroyed: AtomicBool,
    launches: Mutex<Launches>,
}

/// What the next launch will be like.
#[derive(Debug)]
struct Launches {
    plan: Arc<Plan>,
    /// The last launch.
    last: Option<Position>,
    /// The graph whose nodes' work is launched.
    source: Arc<GraphState>,
}

handle!(ExecutableState, ExecutableGraphHandle, INVALID_VALUE);

impl Instance for ExecutableState {
    fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    fn last_launch(&self) -> Option<Position> {
        self.launches.lock().last.clone()
    }
}

impl ExecutableState {
    /// Instantiates a graph, in a call for a context. The errors name nodes of the graph itself.
    pub(crate) fn new(graph: &GraphState, flags: InstantiateFlags, current: &Arc<ContextCore>) -> Result<Arc<Self>> {
        if graph.place == Place::Body {
            return Err(Failure::argument(Status::NOT_SUPPORTED, "the graph belongs to a conditional node"));
        }
        graph.refuse_unused_values()?;
        if flags.contains(InstantiateFlags::DEVICE_LAUNCH) {
            device_launch::check(graph, current)?;
        }
        graph.refuse_in_bodies()?;
        graph.refuse_second_with_memory(None)?;
        graph.refuse_second_with_conditionals(None)?;
        graph.refuse_cycles()?;
        // Launches of an earlier one that was destroyed may still use the memory.
        let last = graph.last_launch_with_memory();
        let source = graph.copy(Place::Alone);
        let flat = Flat::new(&source)?;
        let conditionals = flat.conditionals();
        let steps = flat.steps(conditionals.as_ref());
        let shape = Arc::new(flat.into_shape());
        let sources = [(0, Arc::clone(&source))].into();
        let plan = Plan { shape: Arc::clone(&shape), steps, conditionals, sources };
        let memory = source.lock().launch_memory();
        let executable = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            core: Arc::clone(&graph.core),
            flags,
            run: Run::new(&graph.core, &graph.memory, &shape),
            shape,
            memory,
            original: Arc::clone(&source),
            destroyed: AtomicBool::new(false),
            launches: Mutex::new(ranks::LAUNCHES, Launches { plan: Arc::new(plan), last, source }),
        });
        let instance: Weak<Self> = Arc::downgrade(&executable);
        graph.note_instance(instance, false);
        Ok(executable)
    }

    /// Another reference to this executable graph. `None`: it is being dropped.
    pub(crate) fn share(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }
}

impl fmt::Debug for ExecutableState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ExecutableState").field("flags", &self.flags).finish_non_exhaustive()
    }
}
