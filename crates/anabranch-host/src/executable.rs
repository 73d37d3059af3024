//! Executable graphs.

mod conditionals;
mod launch;
mod pairing;
mod plan;
mod replace;
mod run;
mod step;
mod update;

use crate::engine::{ContextCore, Position};
use crate::graph::{GraphState, Instance, LaunchMemory, Place};
use crate::handles::handle;
use crate::ranks;
use anabranch_hal::{ExecutableGraphHandle, Failure, InstantiateFlags, Result, Status};
use anabranch_sync::Mutex;
pub(crate) use plan::refused;
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
    /// Instantiates a graph.
    pub(crate) fn new(graph: &GraphState, flags: InstantiateFlags) -> Result<Arc<Self>> {
        if graph.place == Place::Body {
            return Err(Failure::argument(Status::NOT_SUPPORTED, "the graph belongs to a conditional node"));
        }
        // Of the graph itself, so that an error names its own nodes.
        Flat::new(graph)?.check()?;
        let earlier = graph.instance();
        refuse_second(earlier.as_deref())?;
        // Launches of an earlier one that was destroyed may still use the memory.
        let last = earlier.and_then(|earlier| earlier.last_launch());
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
        let mut contents = graph.lock();
        if contents.marks.own_something() {
            let instance: Weak<Self> = Arc::downgrade(&executable);
            contents.instance = Some(instance);
        }
        drop(contents);
        Ok(executable)
    }

    /// Another reference to this executable graph. `None`: it is being dropped.
    pub(crate) fn share(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }
}

/// Refuses what would be a second executable graph of a graph that owns something.
fn refuse_second(instance: Option<&dyn Instance>) -> Result<()> {
    match instance {
        Some(instance) if !instance.is_destroyed() => Err(Failure::argument(
            Status::NOT_SUPPORTED,
            "a graph that allocates or has conditional nodes has one executable graph at a time",
        )),
        _ => Ok(()),
    }
}

impl fmt::Debug for ExecutableState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ExecutableState").field("flags", &self.flags).finish_non_exhaustive()
    }
}
