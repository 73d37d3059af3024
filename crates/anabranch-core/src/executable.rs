//! Executable graphs.

mod destroy;
mod disabled;
mod launches;

use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use crate::event::WaitedByGraph;
use crate::exclusion::Excluding;
use crate::graph_object::{GraphGuard, GraphObject};
use crate::graph_traits::GraphTraits;
use crate::host_work::{Launching, refuse_inside};
use crate::label::Label;
use crate::memory::{Allocation, MemoryAccess};
use crate::node::Node;
use crate::node_work::NodeWork;
use crate::ranks;
use crate::reaper;
use crate::retained::RetainedByNode;
use crate::stream::OpenStream;
use crate::submission::{Submission, is_ordered_for};
use anabranch_hal::{
    Access, Call, Detail, Driver, ExecutableGraphHandle, Failure, GraphInstantiateResult, GraphUpdateResult,
    InstantiateFlags, Live, ObjectHandle, Status, StreamHandle,
};
use anabranch_sync::{Mutex, MutexGuard};
use destroy::{DestroyedOnDrop, Destruction};
use launches::Launches;
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

const LAUNCHING: &str = "launching a graph";

/// A graph that was instantiated.
pub struct ExecutableCore {
    context: Arc<ContextCore>,
    handle: ExecutableGraphHandle,
    /// The graph that it was made from, whose nodes identify those of the executable graph.
    source: Arc<GraphObject>,
    /// How many conditional values that graph had.
    values: usize,
    /// Whether that graph had memory whose allocation was captured.
    has_captured_memory: bool,
    /// The memory that a launch leaves allocated.
    left: Vec<Range<u64>>,
    state: Mutex<State>,
    label: Label,
}

/// The state under the lock. All calls of the driver with the executable graph are made under it.
struct State {
    retained: RetainedByNode,
    /// The memory that the host accesses too.
    host_visible: Vec<(Arc<Allocation>, Access)>,
    waited: WaitedByGraph,
    /// What may be true of its nodes and edges.
    traits: GraphTraits,
    /// Whether a launch has nothing to mind but device memory: nothing that waits for the host or for events, and no memory of the
    /// host.
    is_of_memory_only: bool,
    /// Whether `host_visible`, `waited` and `is_of_memory_only` are those of what is retained.
    is_noted: bool,
    /// Whether a node has ever been disabled.
    had_disabled_nodes: bool,
    /// The nodes that are disabled, unless an update has moved them.
    disabled: Vec<Node>,
    /// Whether it may have been updated, so that it is not known which node does what: an update pairs nodes by the driver's rules.
    is_updated: bool,
    /// Whether it may have been updated from another graph last, whose conditional values it has.
    has_other_values: bool,
    launches: Launches,
}

impl State {
    fn new(retained: RetainedByNode, traits: GraphTraits) -> Self {
        let (host_visible, waited) = (Vec::new(), WaitedByGraph::default());
        let (is_of_memory_only, had_disabled_nodes, launches) = (false, false, Launches::default());
        let mut state = Self {
            retained,
            host_visible,
            waited,
            traits,
            is_of_memory_only,
            is_noted: false,
            had_disabled_nodes,
            disabled: Vec::new(),
            is_updated: false,
            has_other_values: false,
            launches,
        };
        state.note_retained();
        state
    }

    /// Called when what is retained has changed: the next launch looks at all of it, and not each of many changes.
    fn forget_noted(&mut self) {
        self.waited = WaitedByGraph::default();
        self.host_visible = Vec::new();
        (self.is_of_memory_only, self.is_noted) = (false, false);
    }

    fn note_retained(&mut self) {
        self.is_noted = true;
        self.waited = WaitedByGraph::of(self.retained.all());
        let visible = self.retained.all().memory().filter(|(memory, _)| memory.is_host_visible());
        self.host_visible = visible.map(|(memory, access)| (memory.clone(), access)).collect();
        self.is_of_memory_only = self.host_visible.is_empty()
            && self.waited.is_empty()
            && self.retained.all().host_work().is_empty()
            && !self.traits.waits_for_host;
    }

    fn accesses(&self) -> impl ExactSizeIterator<Item = MemoryAccess<'_>> + Clone {
        self.retained.all().memory().map(|(memory, access)| MemoryAccess { memory, access })
    }

    /// If earlier work in the launch's own stream already orders all memory: the guard that keeps it so until the
    /// launch is queued.
    fn ordered(&self, submission: &Submission<'_>) -> Option<Excluding<'_>> {
        let mut accesses = self.accesses();
        if accesses.len() == 0 {
            return None;
        }
        let excluding = Excluding::begin_sorted(accesses.clone());
        accesses.all(|MemoryAccess { memory, access }| is_ordered_for(memory, submission, access)).then_some(excluding)
    }
}

/// Why a whole-graph update was refused.
#[derive(Clone, Debug)]
pub struct RefusedUpdate {
    /// The error.
    pub error: Error,
    /// The reason.
    pub result: GraphUpdateResult,
    /// The node that the error refers to, if any. It belongs to the graph that the update came from: there is none if the driver
    /// names one within a child.
    pub node: Option<Node>,
}

impl ExecutableCore {
    /// Instantiates a graph, and uploads it in the order of a stream, if there is one.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for a cycle, or a conditional value that no node uses;
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph allocates memory and already has an executable graph.
    #[track_caller]
    pub fn instantiate(
        source: &Arc<GraphObject>,
        flags: InstantiateFlags,
        upload: Option<&OpenStream>,
    ) -> Result<Arc<Self>> {
        let operation = "instantiating a graph";
        let context = source.context();
        if let Some(stream) = upload {
            context.require_same_driver(stream.context(), operation)?;
        }
        let stream = upload.map(|stream| stream.handle(operation)).transpose()?;
        let make = |guard: &GraphGuard<'_>| -> Result<_> {
            let traits = guard.traits();
            // The driver crashes when it uploads a graph of which a node waits for the start of a kernel only.
            let (flags, stream) = if traits.has_early_edges && flags.contains(InstantiateFlags::UPLOAD) {
                refuse_upload(context, stream.unwrap_or(Live::<StreamHandle>::NULL), operation)?;
                (flags - InstantiateFlags::UPLOAD, None)
            } else {
                (flags, stream)
            };
            let handle = context
                .driver()
                .graph_instantiate(&context.call(operation), guard.live(), flags, stream)
                .map_err(|failure| explain_instantiation(failure, operation, upload).at(source.place()))?;
            Ok((handle, traits))
        };
        let mut guard = source.lock(operation)?;
        let mut made = make(&guard);
        // A graph that allocates memory has one executable graph at a time.
        if made.as_ref().is_err_and(|error| error.status() == Status::NOT_SUPPORTED) && source.has_executables_left() {
            drop(guard);
            reaper::comes_about(|| !source.has_executables_left());
            guard = source.lock(operation)?;
            made = make(&guard);
        }
        let (handle, traits) = made?;
        let (retained, left) = (guard.retained().clone(), guard.left().to_vec());
        let (values, has_captured_memory) = (guard.values().len(), guard.has_captured_memory());
        drop(guard);
        Ok(Arc::new(Self {
            context: context.clone(),
            handle,
            source: source.clone(),
            values,
            has_captured_memory,
            left,
            state: Mutex::new(ranks::EXECUTABLE_GRAPH, State::new(retained, traits)),
            label: Label::new(context, ObjectHandle::ExecutableGraph(handle)),
        }))
    }

    /// The context of the graph that it was made from.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The driver's handle.
    pub fn handle(&self) -> ExecutableGraphHandle {
        self.handle
    }

    /// The executable graph, for calls of the context's driver. Its state is locked, so that no other thread uses it.
    fn live<'a>(&'a self, _locked: &'a MutexGuard<'_, State>) -> Live<'a, ExecutableGraphHandle> {
        // SAFETY: the executable graph is destroyed when this is dropped. All calls with it are made under the lock of its state.
        unsafe { Live::new(self.handle) }
    }

    /// The graph that it was made from.
    pub fn source(&self) -> &Arc<GraphObject> {
        &self.source
    }

    /// Its number among the objects of the library, and its name.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The state, for calls of the driver.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function.
    #[track_caller]
    fn lock(&self, operation: &'static str) -> Result<MutexGuard<'_, State>> {
        refuse_inside(operation).map_err(|error| error.at(self.source.place()))?;
        Ok(self.state.lock())
    }

    /// Launches it in the order of a stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if memory that the graph allocated in its last launch is still allocated;
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` while the host accesses pinned or managed memory of the graph, or another library
    /// submits work that uses its memory, and if it waits for an event that was recorded in a capture that has not ended;
    /// `CUDA_ERROR_INVALID_DEVICE (101)` if the stream belongs to another driver;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, which invalidates the capture, or a capture that
    /// has not ended uses memory of the graph; `CUDA_ERROR_NOT_SUPPORTED (801)` if a node has been disabled and the device has other
    /// contexts, without [`Capabilities::DISABLED_NODES_BESIDE_CONTEXTS`](anabranch_hal::Capabilities).
    #[inline]
    #[track_caller]
    pub fn launch(&self, stream: &OpenStream) -> Result<()> {
        let operation = LAUNCHING;
        if !Arc::ptr_eq(&self.context, stream.context()) {
            self.context.require_same_driver(stream.context(), operation)?;
        }
        // Before the lock: this refuses calls inside of a host function, whose thread may have the lock.
        let handle = stream.handle(operation)?;
        let mut state = self.state.lock();
        if state.had_disabled_nodes && !stream.is_capturing() {
            self.refuse_beside_other_contexts(!Arc::ptr_eq(&self.context, stream.context()))?;
        }
        if !state.is_of_memory_only || !self.left.is_empty() {
            return self.launch_minding_the_host(state, stream, handle, Location::caller());
        }
        let submission = Submission::begin_with(stream, handle, operation, Location::caller())?.not_capturable();
        let ordered = state.ordered(&submission);
        let queued = self.queue(&submission, &state, ordered);
        self.note_launch(&mut state, stream, &queued);
        queued?
    }

    /// [`launch`](Self::launch) for what has host functions, waits for events or the host, uses memory that the host accesses, or
    /// leaves memory allocated.
    #[inline(never)]
    fn launch_minding_the_host(
        &self,
        mut state: MutexGuard<'_, State>,
        stream: &OpenStream,
        handle: Live<'_, StreamHandle>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        if !state.is_noted {
            state.note_retained();
        }
        let kept = state.waited.keep();
        if !self.left.is_empty() && !stream.is_capturing() {
            self.source.frees().come_before(stream)?;
        }
        let submission = Submission::begin_with(stream, handle, LAUNCHING, location)?.not_capturable();
        if let Some(kept) = &kept {
            kept.refuse_captured(&submission).map_err(|error| error.at(self.source.place()))?;
        }
        let ordered = state.ordered(&submission);
        // Before it runs, because that may panic at once.
        let host_work = state.retained.all().host_work();
        let launching = Launching::begin(host_work, || stream.launch_place(Some(self.label.id())));
        let queued = if state.host_visible.is_empty() {
            self.queue(&submission, &state, ordered)
        } else {
            let mut guards = SmallVec::<[_; 4]>::new();
            let excluded = state.host_visible.iter().try_for_each(|(memory, access)| {
                guards.push(memory.host_access().launching(*access)?);
                Ok(())
            });
            // While the host is excluded, because it looks at the access history.
            excluded.and_then(|()| self.queue(&submission, &state, ordered))
        };
        let is_queued = matches!(queued, Ok(Ok(())));
        if is_queued && !self.left.is_empty() {
            self.source.frees().are_followed();
        }
        kept.into_iter().filter(|_| is_queued).for_each(|kept| kept.are_waited_for(stream));
        launching.into_iter().for_each(|launching| launching.end(is_queued));
        self.note_launch(&mut state, stream, &queued);
        queued?
    }

    /// Notes the stream of a launch.
    #[inline(always)]
    fn note_launch(&self, state: &mut State, stream: &OpenStream, queued: &Result<Result<()>>) {
        match queued {
            Ok(Ok(())) => state.launches.queued(stream.core()),
            Ok(Err(_)) => state.launches.refused(stream.core()),
            Err(_) => {}
        }
    }

    /// The driver's answer to the launch. `ordered`: what [`State::ordered`] has returned. An error of this itself: nothing was
    /// queued.
    #[inline(always)]
    fn queue<'a>(
        &self,
        submission: &Submission<'_>,
        state: &'a MutexGuard<'_, State>,
        ordered: Option<Excluding<'a>>,
    ) -> Result<Result<()>> {
        let excluding = match ordered {
            Some(excluding) => excluding,
            None => submission.order(state.accesses())?,
        };
        excluding.require_no_foreign_use(submission.operation()).map_err(|error| error.at(self.source.place()))?;
        // Of the context that the work is pending in, and of that whose memory it uses.
        let waits_for_host = state.traits.waits_for_host;
        let of_stream = submission.stream().submit_host_bound_if(waits_for_host);
        let of_memory = self.context.submit_host_bound_if(waits_for_host);
        let launched = submission.queue(|call, stream| {
            // SAFETY: what the nodes refer to is retained until the launch is complete, and all uses of it were just ordered.
            unsafe { self.context.driver().executable_launch(call, self.live(state), stream) }
        });
        if submission.stream().is_capturing() {
            // It was refused for that, and nothing runs.
            return launched.map(Ok);
        }
        // Some nodes may run where the driver has refused a later one.
        submission.note_even_if_refused(&launched);
        drop((of_stream, of_memory));
        submission.finish(state.accesses());
        drop(excluding);
        Ok(launched)
    }

    /// Calls the driver with the executable, which is locked.
    fn driver_call<R>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&dyn Driver, &Call<'_>) -> anabranch_hal::Result<R>,
    ) -> Result<R> {
        call(self.context.driver(), &self.context.call(operation)).during(operation, || self.source.place())
    }

    /// Prepares a launch in the order of a stream, so that the next launch does not have to, unless a node of the graph waits for
    /// less than the end of another.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)` if the stream belongs to another driver;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if the stream is capturing, which invalidates the capture.
    #[track_caller]
    pub fn upload(&self, stream: &OpenStream) -> Result<()> {
        let operation = "uploading a graph";
        self.context.require_same_driver(stream.context(), operation)?;
        let handle = stream.handle(operation)?;
        let state = self.lock(operation)?;
        if state.traits.has_early_edges {
            return refuse_upload(stream.context(), handle, operation);
        }
        self.driver_call(operation, |driver, call| driver.executable_upload(call, self.live(&state), handle))?;
        stream.shared().work().note();
        Ok(())
    }

    /// Replaces the work of all nodes by that of a graph with the same structure, from the next launch on.
    ///
    /// # Errors
    /// `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)` if the structure differs or a node cannot be changed in this way,
    /// with the reason and the node.
    #[track_caller]
    pub fn update(&self, graph: &GraphObject) -> Result<(), RefusedUpdate> {
        let operation = "updating an executable graph";
        let refused = |error| RefusedUpdate { error, result: GraphUpdateResult::ERROR, node: None };
        self.context.require_same_driver(graph.context(), operation).map_err(refused)?;
        let mut state = self.lock(operation).map_err(refused)?;
        let mut guard = graph.lock(operation).map_err(refused)?;
        self.refuse_to_move_disabled(&state, operation).map_err(refused)?;
        let call = self.context.call(operation);
        // Each node gets the work of a node in the same place of the structure, of which there may be several, in the graph that it
        // was made from too. So what is retained belongs to no node, and giving a node other work releases none of it.
        let retained = RetainedByNode::of_all(guard.retained().all().clone());
        // SAFETY: the graph is locked, and retains what its nodes refer to. Afterwards it is retained, unless nothing was updated.
        let updated = unsafe { self.context.driver().executable_update(&call, self.live(&state), guard.live()) };
        let is_of_other = !graph.shares_lock(&self.source);
        let updated = updated.map_err(|failure| {
            let (result, node) = match failure.detail.as_deref() {
                Some(Detail::Update { result, node }) => (*result, *node),
                _ => (GraphUpdateResult::ERROR, None),
            };
            // It may be within a child, whose nodes are not those of the graph.
            let nodes =
                node.and_then(|_| self.context.driver().graph_nodes(&call, guard.live()).ok()).unwrap_or_default();
            let node = node.filter(|node| nodes.contains(node)).map(|node| guard.enter(node));
            RefusedUpdate { error: Error::driver(operation, failure).at(graph.place()), result, node }
        });
        if let Err(refused) = &updated
            && refused.error.is_without_effect()
        {
            // What is retained of the other graph is dropped outside of locks.
            drop((guard, state));
            drop(retained);
            return updated;
        }
        state.is_updated = true;
        state.traits.add(guard.traits());
        let mut before = if updated.is_ok() {
            state.has_other_values = is_of_other;
            std::mem::replace(&mut state.retained, retained)
        } else {
            // It is not known which nodes were updated.
            state.has_other_values |= is_of_other;
            state.retained.merge(retained.all());
            retained
        };
        state.note_retained();
        let launches = state.launches.clone();
        drop((guard, state));
        // Memory knows the launches that use it: whoever accesses or frees it comes after them.
        drop(before.take_memory());
        launches.drop_behind(before);
        updated
    }

    /// Replaces the work of a node by other work of the same kind, from the next launch on.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if the work is of another kind or differs too much, or the node does not belong
    /// to the graph that this executable graph was made from, or fills memory whose allocation was captured.
    #[track_caller]
    pub fn set_node(&self, node: Node, work: &NodeWork) -> Result<()> {
        let operation = "changing a node of an executable graph";
        let source = &self.source;
        source.check_work(work, operation)?;
        work.memory.iter().try_for_each(|memory| source.require_reach(memory.memory(), memory.access(), operation))?;
        let mut state = self.lock(operation)?;
        let (guard, child) = source.lock_with(work.child.as_deref(), operation)?;
        if let Some((_, value)) = work.conditional
            && (state.has_other_values || !guard.values()[..self.values].contains(&value))
        {
            let message =
                "the executable graph was made without the conditional value, or updated from another graph since";
            return Err(Error::argument(Status::INVALID_VALUE, operation, message)
                .with_hint("change the node of the graph, and make an executable graph of that")
                .at(source.place()));
        }
        let references = work.references(child.as_ref().map(|child| child.retained().all()));
        state.retained.hold(&references);
        state.traits.add(GraphTraits::of_node(&work.parameters));
        child.iter().for_each(|child| state.traits.add(child.traits()));
        let changed = guard.node(node, operation).and_then(|handle| {
            guard.refuse_initializer(handle, state.is_updated, operation)?;
            // SAFETY: what the work refers to is retained; a child is copied, and locked.
            self.driver_call(operation, |driver, call| unsafe {
                driver.executable_set_node_parameters(call, self.live(&state), handle, &work.parameters)
            })
        });
        let is_affected = !state.is_of_memory_only
            || state.traits.waits_for_host
            || references.has_host_work()
            || references.has_host_visible_memory()
            || WaitedByGraph::is_any_in(&references);
        let mut released = state.retained.settle(references, changed.as_ref().map(|()| node));
        if is_affected {
            state.forget_noted();
        }
        let launches = state.launches.clone();
        drop((guard, child, state));
        // Memory knows the launches that use it: whoever accesses or frees it comes after them.
        drop(released.take_memory());
        if !released.is_empty() {
            launches.drop_behind(released);
        }
        changed
    }

    /// Disables or enables a kernel, copy or fill node, from the next launch on. A disabled node does nothing.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for other kinds of nodes, for nodes that fill memory whose allocation was captured,
    /// and if the node does not belong to the graph that this executable graph was made from; `CUDA_ERROR_NOT_SUPPORTED (801)` to
    /// disable fills, or nodes beside conditional ones, without [`Capabilities::DISABLED_NODES_BESIDE_CONTEXTS`](anabranch_hal::Capabilities).
    #[track_caller]
    pub fn set_node_enabled(&self, node: Node, enabled: bool) -> Result<()> {
        let operation = "enabling a node of an executable graph";
        let mut state = self.lock(operation)?;
        let source = self.source.lock(operation)?;
        let handle = source.node(node, operation)?;
        source.refuse_initializer(handle, state.is_updated, operation)?;
        if !enabled {
            self.refuse_to_disable(handle, state.traits, operation)?;
        }
        state.had_disabled_nodes |= !enabled;
        // SAFETY: the node does what it did before, or nothing, and what it refers to is retained. It does not write memory that
        // other nodes rely on being written.
        let set = self.driver_call(operation, |driver, call| unsafe {
            driver.executable_set_node_enabled(call, self.live(&state), handle, enabled)
        });
        let may_be_set = set.as_ref().map_or_else(|error| !error.is_without_effect(), |()| true);
        if enabled && set.is_ok() {
            state.disabled.retain(|&disabled| disabled != node);
        } else if !enabled && may_be_set && !state.disabled.contains(&node) {
            state.disabled.push(node);
        }
        set
    }

    /// Whether a kernel, copy or fill node is enabled.
    ///
    /// # Errors
    /// Same as [`set_node_enabled`](Self::set_node_enabled).
    #[track_caller]
    pub fn is_node_enabled(&self, node: Node) -> Result<bool> {
        let operation = "asking whether a node is enabled";
        let state = self.lock(operation)?;
        let source = self.source.lock(operation)?;
        let handle = source.node(node, operation)?;
        self.driver_call(operation, |driver, call| driver.executable_node_enabled(call, self.live(&state), handle))
    }

    /// The flags that it was instantiated with.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn flags(&self) -> Result<InstantiateFlags> {
        let operation = "reading the flags of an executable graph";
        let state = self.lock(operation)?;
        self.driver_call(operation, |driver, call| driver.executable_flags(call, self.live(&state)))
    }
}

impl Drop for ExecutableCore {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let (retained, launches) = (std::mem::take(&mut state.retained), std::mem::take(&mut state.launches));
        let (source, left) = (self.source.clone(), std::mem::take(&mut self.left));
        let handle = DestroyedOnDrop { context: self.context.clone(), handle: self.handle };
        let when = Destruction::of(&self.context, state.traits.has_conditions, self.has_captured_memory);
        reaper::now_or_later(move || {
            launches.free_left(source.frees(), &left);
            when.destroy(&launches, handle, retained, source);
        });
    }
}

/// Refuses an upload that does nothing where it would be refused if it did: beside captures. A query of the stream is refused as it
/// is, and invalidates the capture as it does.
#[cold]
fn refuse_upload(context: &Arc<ContextCore>, stream: Live<'_, StreamHandle>, operation: &'static str) -> Result<()> {
    match context.driver().stream_query(&context.call(operation), stream) {
        Err(failure) if failure.status != Status::NOT_READY => Err(failure).during(operation, || context.place()),
        _ => Ok(()),
    }
}

/// Adds the usual cause.
fn explain_instantiation(failure: Failure, operation: &'static str, upload: Option<&OpenStream>) -> Error {
    let result = match failure.detail.as_deref() {
        Some(Detail::Instantiate { result, .. }) => *result,
        _ => GraphInstantiateResult::SUCCESS,
    };
    let error = Error::driver(operation, failure);
    match error.status() {
        Status::NOT_SUPPORTED => error.with_hint(
            "a graph that allocates or frees memory or has conditional nodes has one executable graph at a time, and conditional \
             bodies hold only kernels, copies, fills, children, empty and conditional nodes",
        ),
        _ if result == GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED => error.with_hint(
            "conditional bodies hold only kernels, copies, fills, children, empty and conditional nodes, and graphs that are \
             launched from the device only kernels, copies, fills and children",
        ),
        _ if !upload.is_some_and(|stream| stream.is_capturing()) => error.of_another_capture(),
        _ => error,
    }
}
