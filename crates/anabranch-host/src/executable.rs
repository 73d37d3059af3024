//! Graphs made ready to be launched.

mod conditionals;
mod launch;
mod plan;
mod run;
mod step;
mod update;

pub(crate) use conditionals::Conditionals;
pub(crate) use launch::{GraphLaunch, Retired};
pub(crate) use run::{NodeWait, Run};

use crate::context::ContextCore;
use crate::driver::HostDriver;
use crate::engine::host_work::permitted;
use crate::engine::stream::Position;
use crate::graph::{GraphState, LaunchMemory, Place};
use crate::handles;
use crate::stream::resolve;
use anabranch_hal::{
    ContextHandle, ExecutableGraphHandle, ExecutableGraphs, Failure, GraphHandle, GraphNodeHandle, InstantiateFlags,
    NodeParameters, Result, Status, StreamHandle,
};
use parking_lot::Mutex;
use plan::{Flat, Plan, Shape};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A graph made ready to be launched.
pub(crate) struct ExecutableState {
    this: Weak<Self>,
    core: Arc<ContextCore>,
    flags: InstantiateFlags,
    shape: Arc<Shape>,
    run: Arc<Run>,
    memory: LaunchMemory,
    /// The graph as it was. It keeps what the graph retains, also after an update from another one.
    original: Arc<GraphState>,
    destroyed: AtomicBool,
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

impl ExecutableState {
    fn new(graph: &GraphState, flags: InstantiateFlags) -> Result<Arc<Self>> {
        if graph.place == Place::Body {
            return Err(Failure::argument(Status::NOT_SUPPORTED, "the graph belongs to a conditional node"));
        }
        let owns_something = graph.lock().owns_something();
        let earlier = if owns_something { graph.instance() } else { None };
        if earlier.as_ref().is_some_and(|earlier| !earlier.destroyed.load(Ordering::Acquire)) {
            return Err(Failure::argument(
                Status::NOT_SUPPORTED,
                "a graph that allocates or has conditional nodes is made ready once at a time",
            ));
        }
        // Launches of an earlier one that was destroyed may still use the memory.
        let last = earlier.and_then(|earlier| earlier.launches.lock().last.clone());
        // Of the graph itself, so that what is wrong is told by its own nodes.
        Flat::new(graph)?.check()?;
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
            run: Run::new(&graph.core, &shape),
            shape,
            memory,
            original: Arc::clone(&source),
            destroyed: AtomicBool::new(false),
            launches: Mutex::new(Launches { plan: Arc::new(plan), last, source }),
        });
        graph.set_instance(Arc::downgrade(&executable));
        Ok(executable)
    }

    /// Another share in this executable graph. `None`: it is being dropped.
    pub(crate) fn share(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }
}

impl fmt::Debug for ExecutableState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ExecutableState").field("flags", &self.flags).finish_non_exhaustive()
    }
}

/// An executable graph for a call.
///
/// # Safety
/// The handle rule.
unsafe fn usable<'a>(context: ContextHandle, executable: ExecutableGraphHandle) -> Result<&'a ExecutableState> {
    permitted()?;
    // SAFETY: the caller's word.
    unsafe { handles::context(context) }?.core.check()?;
    // SAFETY: the caller's word.
    unsafe { handles::executable(executable) }
}

impl ExecutableGraphs for HostDriver {
    unsafe fn graph_instantiate(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        flags: InstantiateFlags,
        upload: Option<StreamHandle>,
    ) -> Result<ExecutableGraphHandle> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?.core.check()?;
        // SAFETY: the handle rule.
        let graph = unsafe { handles::graph(graph) }?;
        self.shared.captures.before_unsafe_call()?;
        if !InstantiateFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        if flags.contains(InstantiateFlags::DEVICE_LAUNCH) {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        let executable = ExecutableState::new(graph, flags)?;
        if flags.contains(InstantiateFlags::UPLOAD) {
            // SAFETY: the handle rule.
            let stream = unsafe { resolve(context, upload.unwrap_or(StreamHandle::LEGACY)) }?;
            if let Some(recording) = stream.recording()? {
                return recording.refuse();
            }
            executable.memory.map()?;
        }
        Ok(ExecutableGraphHandle::from_raw(graph.core.executables.insert(executable)))
    }

    unsafe fn executable_destroy(&self, context: ContextHandle, executable: ExecutableGraphHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?;
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { handles::executable(executable) }?.core);
        self.shared.captures.before_unsafe_call()?;
        let removed = core.executables.remove(executable.as_raw()).ok_or(Failure::new(Status::INVALID_VALUE))?;
        removed.destroyed.store(true, Ordering::Release);
        // Launches that are queued have shares of their own.
        drop(removed);
        core.check()
    }

    unsafe fn executable_flags(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
    ) -> Result<InstantiateFlags> {
        // SAFETY: the handle rule.
        let executable = unsafe { usable(context, executable) }?;
        // Hardware does not tell of the others.
        Ok(executable.flags & InstantiateFlags::AUTO_FREE_ON_LAUNCH)
    }

    unsafe fn executable_upload(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: the handle rule.
        let executable = unsafe { usable(context, executable) }?;
        match stream.recording()? {
            Some(recording) => recording.refuse(),
            None => executable.memory.map(),
        }
    }

    unsafe fn executable_launch(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        // SAFETY: the handle rule.
        let executable = unsafe { handles::executable(executable) }?;
        if let Some(recording) = stream.recording()? {
            return recording.refuse();
        }
        executable.share().ok_or(Failure::new(Status::INVALID_VALUE))?.launch(&stream)
    }

    unsafe fn executable_update(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        graph: GraphHandle,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { usable(context, executable)?.update(handles::graph(graph)?) }
    }

    unsafe fn executable_set_node_parameters(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()> {
        // SAFETY: the handle rule, and the caller's word for the parameters.
        unsafe { usable(context, executable)?.set_parameters(node, parameters.clone()) }
    }

    unsafe fn executable_set_node_enabled(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        enabled: bool,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        unsafe { usable(context, executable)?.set_enabled(node, enabled) }
    }

    unsafe fn executable_node_enabled(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
    ) -> Result<bool> {
        // SAFETY: the handle rule.
        unsafe { usable(context, executable)?.is_enabled(node) }
    }
}
