//! Executable graphs.

use super::node::Node;
use super::parts::GraphParts;
use super::{Graph, GraphObject, GraphState, NodeWork};
use crate::capture::unprohibited;
use crate::context::{Context, ContextCore, other_context};
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::memory::{Allocation, Sharing};
use crate::reaper;
use crate::stream::{Operation, Stream, StreamCore};
use anabranch_hal::{Access, Detail, ExecutableGraphHandle, GraphUpdateResult, InstantiateFlags, Status};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A graph made ready to be launched, any number of times, on any stream of its driver. It runs one launch at a time: each
/// follows the earlier work of its stream, and all earlier launches of the same executable. Any thread may launch and
/// change it. Dropping it while a launch is queued or runs is fine, and never waits.
///
/// A launch is ordered behind the earlier uses of the buffers in it, and later uses behind it, as for any other work.
///
/// Follows the Driver API's group *Graph Management* (`CUgraphExec`).
pub struct ExecutableGraph {
    core: Arc<ExecutableCore>,
}

pub(crate) struct ExecutableCore {
    id: u64,
    context: Arc<ContextCore>,
    handle: ExecutableGraphHandle,
    /// The graph that it was made from, whose nodes name those of the executable.
    source: Arc<GraphObject>,
    state: Mutex<State>,
}

/// What is under the lock, which all calls of the driver with the executable are made under.
struct State {
    parts: GraphParts,
    /// The memory that the host reaches too.
    host_visible: Vec<(Arc<Allocation>, Access)>,
    /// The stream of the last launch, which comes after all launches before it.
    last: Option<Arc<StreamCore>>,
}

impl State {
    fn take_over(&mut self, parts: &GraphParts) {
        self.parts.merge(parts);
        self.find_host_visible();
    }

    /// If a launch in the stream finds all memory as the stream itself left it: what keeps it so until the launch is queued.
    fn standing(&self, stream: &Arc<StreamCore>, operation: &Operation<'_>) -> Option<Sharing> {
        let mut memory = self.parts.memory();
        if memory.len() == 0 {
            return None;
        }
        let sharing = Sharing::begin();
        memory.all(|(memory, access)| memory.stands(stream, access, operation)).then_some(sharing)
    }

    /// Orders a launch behind the earlier uses of all memory.
    fn order(&self, stream: &Arc<StreamCore>, operation: &Operation<'_>) -> Result<()> {
        if stream.context().is_order_strict() {
            self.parts.memory().try_for_each(|(memory, access)| memory.check_order(stream, access, operation.name))?;
        }
        self.parts.memory().try_for_each(|(memory, access)| memory.order(stream, access, operation))
    }

    /// Queues a launch while the host is kept from memory that it reaches too.
    #[inline(never)]
    fn without_host(&self, queue: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut guards = SmallVec::<[_; 4]>::new();
        for (memory, access) in &self.host_visible {
            guards.push(memory.host_access().launching(*access)?);
        }
        queue()
    }

    fn find_host_visible(&mut self) {
        let visible = self.parts.memory().filter(|(memory, _)| memory.is_host_visible());
        self.host_visible = visible.map(|(memory, access)| (memory.clone(), access)).collect();
    }
}

/// Why a [whole-graph update](ExecutableGraph::update) was refused.
#[derive(Clone, Debug)]
pub struct UpdateError {
    error: Error,
    result: GraphUpdateResult,
    node: Option<Node>,
}

impl UpdateError {
    /// The error: 910 when the graphs do not fit.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The reason.
    pub fn result(&self) -> GraphUpdateResult {
        self.result
    }

    /// The node, of the graph that the update came from, that it is about, where there is one.
    pub fn node(&self) -> Option<Node> {
        self.node
    }
}

impl fmt::Display for UpdateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, formatter)?;
        match self.node {
            Some(node) => write!(formatter, " (node {})", node.number()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UpdateError {}

impl From<UpdateError> for Error {
    fn from(error: UpdateError) -> Self {
        error.error
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl ExecutableGraph {
    pub(super) fn new(graph: &Graph, flags: InstantiateFlags, upload: Option<&Stream>) -> Result<Self> {
        let operation = "instantiating a graph";
        let source = graph.object();
        let context = source.context();
        if let Some(stream) = upload {
            context.require_same_driver(stream.core().context(), operation)?;
        }
        let stream = upload.map(|stream| stream.core().handle(operation)).transpose()?;
        let graph_state = source.lock();
        // SAFETY: the graph is live and locked, the stream is borrowed.
        let handle = unsafe { context.driver().graph_instantiate(context.handle(), source.handle(), flags, stream) }
            .during(operation, || source.place())
            .map_err(explain_instantiation)?;
        let mut parts = GraphParts::default();
        parts.merge(&graph_state.parts);
        drop(graph_state);
        let mut state = State { parts, host_visible: Vec::new(), last: None };
        state.find_host_visible();
        let core = ExecutableCore {
            id: next_id(),
            context: context.clone(),
            handle,
            source: source.clone(),
            state: Mutex::new(state),
        };
        Ok(Self { core: Arc::new(core) })
    }

    /// Launches it in the order of `stream`, and returns at once.
    ///
    /// # Errors
    /// 1 when memory that the graph allocated in its last launch is still allocated; 401 while the host uses pinned or
    /// managed memory of the graph; 101 when the stream is of another back end; 900 while the stream captures, which spoils
    /// the capture: [`NodeWork::child`] puts a graph into another.
    #[inline]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        let name = "launching a graph";
        let core = stream.core();
        let context = &self.core.context;
        if !Arc::ptr_eq(context, core.context()) {
            context.require_same_driver(core.context(), name)?;
        }
        let handle = core.handle(name)?;
        let operation = core.operation(name);
        let mut state = self.core.state.lock();
        // Before the host is kept out, in the order of locks that whoever captures a use of the memory has too.
        let standing = state.standing(core, &operation);
        if standing.is_none() && state.parts.memory().len() > 0 {
            operation.exclude_others();
        }
        let is_launched = Cell::new(false);
        let queue = || {
            if standing.is_none() {
                state.order(core, &operation)?;
            }
            // SAFETY: the executable is live and locked and the stream is borrowed; what the nodes refer to is kept, and
            // was just ordered.
            unsafe { context.driver().executable_launch(context.handle(), self.core.handle, handle) }
                .during(name, || core.place())?;
            is_launched.set(true);
            // While the host is kept out, because it looks at the stamps.
            core.queued(&operation, || state.parts.memory().for_each(|(memory, access)| memory.stamp(core, access)))
        };
        let result = if state.host_visible.is_empty() { queue() } else { state.without_host(queue) };
        if is_launched.get() && !state.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, core)) {
            state.last = Some(core.clone());
        }
        result
    }

    /// Makes resources ready in the order of `stream`, so that the next launch need not.
    ///
    /// # Errors
    /// 101 when the stream is of another back end.
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        let operation = "uploading a graph";
        let core = stream.core();
        let context = &self.core.context;
        context.require_same_driver(core.context(), operation)?;
        let handle = core.handle(operation)?;
        let _lock = self.core.state.lock();
        // SAFETY: the executable is live and locked, the stream is borrowed.
        unsafe { context.driver().executable_upload(context.handle(), self.core.handle, handle) }
            .during(operation, || core.place())
    }

    /// Takes over what all nodes do from a graph of the same structure, from the next launch on.
    ///
    /// # Errors
    /// 910 when the structure differs or a node cannot be changed so, with the reason and the node.
    pub fn update(&self, graph: &Graph) -> Result<(), UpdateError> {
        let operation = "updating an executable graph";
        let mut state = self.core.state.lock();
        let source = graph.object();
        let mut graph_state = source.lock();
        let context = &self.core.context;
        let updated =
            // SAFETY: both are live and locked; what the graph keeps is taken over.
            unsafe { context.driver().executable_update(context.handle(), self.core.handle, source.handle()) };
        match updated {
            Ok(()) => {
                // What was kept before may be in use by a launch, and stays.
                state.take_over(&graph_state.parts);
                Ok(())
            }
            Err(failure) => {
                let (result, node) = match failure.detail.as_deref() {
                    Some(Detail::Update { result, node }) => (*result, *node),
                    _ => (GraphUpdateResult::ERROR, None),
                };
                let node = node.map(|node| graph_state.nodes.enter(node));
                Err(UpdateError { error: Error::driver(operation, failure).at(source.place()), result, node })
            }
        }
    }

    /// Replaces what a node does by other work of the same kind, from the next launch on. The node is that of the graph
    /// that this was made from, which is untouched.
    ///
    /// # Errors
    /// 1 when the work is of another kind or differs too much, or the node is not of that graph.
    pub fn set_node(&self, node: Node, work: NodeWork<'_>) -> Result<()> {
        let operation = "changing a node of an executable graph";
        let context = &self.core.context;
        if let Some(other) = &work.context
            && other.handle() != context.handle()
        {
            return Err(other_context(operation, "work", self.core.source.place()));
        }
        if let Some(graph) =
            work.memory.iter().find_map(|kept| kept.memory.graph().filter(|&graph| !self.core.source.owns(graph)))
        {
            let message = format!("the memory belongs to graph {graph}");
            return Err(Error::argument(Status::INVALID_VALUE, operation, message).at(self.core.source.place()));
        }
        if work.child.as_ref().is_some_and(|child| Arc::ptr_eq(child, &self.core.source)) {
            return Err(super::own_child(operation));
        }
        let mut state = self.core.state.lock();
        let (source, child) = lock_both(&self.core.source, work.child.as_deref());
        let handle = self.core.source.node(&source, node, operation)?;
        let mut parts = GraphParts::default();
        for kept in &work.memory {
            parts.add(&kept.memory, kept.access);
        }
        for object in &work.kept {
            parts.keep(object.clone());
        }
        if let Some(child) = &child {
            parts.merge(&child.parts);
        }
        state.take_over(&parts);
        // SAFETY: the executable, its source and the child are live and locked; what the work refers to is kept.
        unsafe {
            context.driver().executable_set_node_parameters(
                context.handle(),
                self.core.handle,
                handle,
                &work.parameters,
            )
        }
        .during(operation, || self.core.source.place())
    }

    /// Lets a kernel, copy or fill do nothing, or do its work again, from the next launch on.
    ///
    /// # Errors
    /// 1 for other kinds of node, and when the node is not of the graph that this was made from.
    pub fn set_node_enabled(&self, node: Node, enabled: bool) -> Result<()> {
        let operation = "enabling a node of an executable graph";
        let _lock = self.core.state.lock();
        let source = self.core.source.lock();
        let handle = self.core.source.node(&source, node, operation)?;
        let context = &self.core.context;
        // SAFETY: the executable and its source are live and locked. A node without effect leaves memory initialised as it
        // was.
        unsafe { context.driver().executable_set_node_enabled(context.handle(), self.core.handle, handle, enabled) }
            .during(operation, || self.core.source.place())
    }

    /// Whether a kernel, copy or fill does its work.
    ///
    /// # Errors
    /// As [`set_node_enabled`](Self::set_node_enabled).
    pub fn is_node_enabled(&self, node: Node) -> Result<bool> {
        let operation = "asking whether a node is enabled";
        let _lock = self.core.state.lock();
        let source = self.core.source.lock();
        let handle = self.core.source.node(&source, node, operation)?;
        let context = &self.core.context;
        // SAFETY: the executable and its source are live and locked.
        unsafe { context.driver().executable_node_enabled(context.handle(), self.core.handle, handle) }
            .during(operation, || self.core.source.place())
    }

    /// The flags that it was made with.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn flags(&self) -> Result<InstantiateFlags> {
        let _lock = self.core.state.lock();
        let context = &self.core.context;
        // SAFETY: the executable is live and locked.
        unsafe { context.driver().executable_flags(context.handle(), self.core.handle) }
            .during("asking for the flags of an executable graph", || context.place())
    }

    /// A number that is unique among the executable graphs of this process for ever.
    pub fn id(&self) -> u64 {
        self.core.id
    }

    /// The number of the graph that it was made from, which its nodes carry. Unique in this process for ever.
    pub fn graph_id(&self) -> u64 {
        self.core.source.number()
    }

    /// The context of the graph that it was made from.
    pub fn context(&self) -> Context {
        Context::from_core(self.core.context.clone())
    }

    /// The driver's handle. It is valid as long as this executable. Drivers do not synchronise executable graphs: whoever
    /// uses the handle sees to it that no other thread uses this meanwhile.
    pub fn as_raw(&self) -> ExecutableGraphHandle {
        self.core.handle
    }
}

impl Drop for ExecutableCore {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let (parts, last) = (std::mem::take(&mut state.parts), state.last.take());
        let source = self.source.clone();
        let (context, handle) = (self.context.clone(), self.handle);
        reaper::now_or_later(move || {
            // SAFETY: the handle was owned by the value being dropped, so this is its last use.
            let result = unprohibited(context.driver(), || unsafe {
                context.driver().executable_destroy(context.handle(), handle)
            });
            drop_error::report(result.during("destroying an executable graph", || context.place()));
            // A launch may still use what is kept. Where no event can be had the context is lost, and nothing runs any more.
            let checkpoint = last.filter(|_| !parts.is_empty()).and_then(|stream| stream.checkpoint().ok().flatten());
            match checkpoint {
                Some(checkpoint) => reaper::after(vec![checkpoint.event], move || drop((parts, source))),
                None => drop((parts, source)),
            }
        });
    }
}

/// Locks the graph that an executable was made from, and one that becomes a child in it, which is another. They are always
/// locked in the same order, because another thread may do the same with the two the other way round.
fn lock_both<'a>(
    source: &'a GraphObject,
    child: Option<&'a GraphObject>,
) -> (MutexGuard<'a, GraphState>, Option<MutexGuard<'a, GraphState>>) {
    match child {
        Some(child) if child.number() < source.number() => {
            let child = child.lock();
            (source.lock(), Some(child))
        }
        child => (source.lock(), child.map(GraphObject::lock)),
    }
}

/// Adds what usually is the cause.
fn explain_instantiation(error: Error) -> Error {
    match error.status() {
        Status::NOT_SUPPORTED => error.with_hint(
            "a graph that allocates memory has one executable at a time, and conditional bodies hold only kernels, copies, \
             fills, children, empty and conditional nodes",
        ),
        _ => error,
    }
}

impl fmt::Debug for ExecutableGraph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ExecutableGraph(of graph {}, {:?})", self.core.source.number(), self.core.handle)
    }
}
