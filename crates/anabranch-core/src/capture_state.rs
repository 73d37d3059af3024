//! The library's state of a capture: its member streams, the memory that they use, and what its graph must retain.

mod history;

pub use history::{CapturedClock, MissingOrder};

use crate::conditional_part::{CapturedCondition, Part};
use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::graph_object::{GraphObject, MOST_LEVELS, next_graph_id, too_deep};
use crate::memory::{Allocation, Origin};
use crate::node::{Node, NodeTable};
use crate::ranks;
use crate::raw_event::RawEvent;
use crate::retained::Retained;
use crate::stream::{Capture, Ownership, StreamCore, StreamShared};
use anabranch_hal::{
    Access, CaptureStatus, Dependency, DependencyUpdate, DevicePointer, EventFlags, EventWaitFlags, GraphHandle,
    GraphNodeHandle, Status,
};
use anabranch_sync::Mutex;
use history::CapturedHistory;
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A capture that was begun through this library.
pub struct CaptureState {
    /// The id of the graph that is being captured.
    graph: u64,
    /// The id of the origin.
    origin: u64,
    /// What this capture is a part of.
    whole: Whole,
    ends_with_closure: AtomicBool,
    /// The existing graph that is captured into, if any.
    into: Option<Arc<GraphObject>>,
    inner: Mutex<Inner>,
}

/// Who ends a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureEnd {
    /// A call that ends the capture of a stream.
    Call,
    /// The closure that captures, which lends out what belongs to this very capture.
    Closure,
}

/// What a capture is a part of.
pub enum Whole {
    /// Nothing.
    Itself,
    /// Another capture. This one becomes the body of a conditional node in it.
    Capture(Arc<CaptureState>),
    /// A body of an existing conditional node.
    Body(Arc<GraphObject>),
}

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

/// What remains of a capture that has ended.
pub struct FinishedCapture {
    graph: u64,
    into: Option<Arc<GraphObject>>,
    nodes: NodeTable,
    retained: Retained,
    conditions: Vec<CapturedCondition>,
    allocated: Vec<Range<u64>>,
    levels: usize,
}

struct Inner {
    has_ended: bool,
    members: Vec<Weak<StreamShared>>,
    history: CapturedHistory,
    retained: Retained,
    nodes: NodeTable,
    /// Placeholders of conditional nodes, if this capture is a part of another.
    conditions: Vec<CapturedCondition>,
    /// Uses of memory in conditional parts that were captured since the last [`CaptureState::adopt`].
    inside: Vec<(u64, Access)>,
    /// How many levels of graphs in nodes were captured, those around this one included.
    levels: usize,
    /// How many conditional nodes are being captured.
    conditions_open: usize,
    /// Memory of the graph that was dropped in the meantime, with the streams that it is freed in.
    released: Vec<(DevicePointer, Arc<StreamCore>)>,
    /// Whether the program has replaced what a stream's next node depends on.
    has_restarts: bool,
    /// The memory whose allocation was captured.
    allocated: Vec<Range<u64>>,
}

impl Inner {
    /// Whether the nodes of uses must be known, because not all work is in one chain.
    fn has_branches(&self) -> bool {
        self.members.len() > 1 || self.has_restarts
    }
}

/// The capture that a stream is a member of, if it was begun through this library.
#[inline(always)]
pub fn capture_of(stream: &StreamCore) -> Option<Arc<CaptureState>> {
    if stream.is_capturing() { membership(stream) } else { None }
}

#[cold]
fn membership(stream: &StreamCore) -> Option<Arc<CaptureState>> {
    let capture: Arc<dyn Any + Send + Sync> = stream.shared().membership().get()?;
    capture.downcast().ok()
}

/// The capture that used a piece of memory last, if it still exists.
pub fn capture_of_memory(memory: &Allocation) -> Option<Arc<CaptureState>> {
    memory.captured_in()?.downcast().ok()
}

impl CaptureState {
    /// A capture that is about to begin on a stream.
    pub fn new(origin: &StreamCore, into: Option<&Arc<GraphObject>>, whole: Whole, end: CaptureEnd) -> Arc<Self> {
        let graph = into.map_or_else(next_graph_id, |into| into.id());
        let inner = Inner {
            has_ended: false,
            members: Vec::new(),
            history: CapturedHistory::default(),
            retained: Retained::default(),
            nodes: NodeTable::new(graph),
            conditions: Vec::new(),
            inside: Vec::new(),
            levels: 0,
            conditions_open: 0,
            released: Vec::new(),
            has_restarts: false,
            allocated: Vec::new(),
        };
        Arc::new(Self {
            graph,
            origin: origin.id(),
            whole,
            ends_with_closure: AtomicBool::new(end == CaptureEnd::Closure),
            into: into.cloned(),
            inner: Mutex::new(ranks::CAPTURE, inner),
        })
    }

    /// The number of a node of the graph that is being captured.
    pub fn enter_node(&self, node: GraphNodeHandle) -> Node {
        match &self.into {
            Some(into) => into.lock().enter(node),
            None => self.inner.lock().nodes.enter(node),
        }
    }

    /// The handle of a node of the graph that is being captured.
    pub fn find_node(&self, node: Node) -> Option<GraphNodeHandle> {
        match &self.into {
            Some(into) => into.lock().find(node),
            None => self.inner.lock().nodes.find(node),
        }
    }

    /// The id of the graph that is being captured.
    pub fn graph(&self) -> u64 {
        self.graph
    }

    /// Whether nobody but the closure that captures can end the capture.
    pub fn ends_with_closure(&self) -> bool {
        self.ends_with_closure.load(Ordering::Relaxed)
    }

    /// The closure that captured is over, and has not ended the capture.
    pub fn end_by_call(&self) {
        self.ends_with_closure.store(false, Ordering::Relaxed);
    }

    /// Whether the capture has ended.
    pub fn has_ended(&self) -> bool {
        self.inner.lock().has_ended
    }

    /// Whether the capture began on the stream.
    pub fn is_origin(&self, stream: &StreamCore) -> bool {
        self.origin == stream.id()
    }

    /// Whether this is a part of another capture, or of a graph.
    pub fn is_part(&self) -> bool {
        !matches!(self.whole, Whole::Itself)
    }

    /// Whether memory that a graph allocates can be used here.
    pub fn owns(&self, memory: &Allocation) -> bool {
        let is_here = match memory.origin() {
            Origin::Graph(graph) => self.graph == *graph,
            Origin::Captured { capture, .. } => capture.as_ptr().addr() == std::ptr::from_ref(self).addr(),
            _ => return false,
        };
        is_here
            || match (&self.whole, memory.origin()) {
                (Whole::Capture(outer), _) => outer.owns(memory),
                (Whole::Body(body), Origin::Graph(graph)) => body.owns(*graph),
                _ => false,
            }
    }

    /// Makes a stream join the capture by `join`, a call of the driver.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if another thread submits work to the stream for too long; otherwise any error
    /// that the driver returns.
    #[cold]
    pub fn join(self: &Arc<Self>, stream: &StreamCore, join: impl FnOnce() -> Result<()>) -> Result<()> {
        // Before the lock of the sync event, which submissions to other streams may need.
        let _exclusive =
            stream.shared().membership().change().ok_or_else(|| refuse_busy(stream, "joining a capture"))?;
        stream.join_with(join, || self.admit(stream))
    }

    fn admit(self: &Arc<Self>, stream: &StreamCore) {
        let mut inner = self.inner.lock();
        if inner.has_ended {
            return;
        }
        let shared = stream.shared();
        if !inner.members.iter().any(|known| known.as_ptr() == Arc::as_ptr(shared)) {
            inner.members.push(Arc::downgrade(shared));
        }
        shared.membership().set(self.clone());
    }

    /// Retains an object for as long as the graph can run.
    pub fn retain<T: Any + Send + Sync>(&self, object: &Arc<T>) {
        self.inner.lock().retained.add(object);
    }

    /// Changes what the graph will retain.
    pub fn retain_with(&self, retain: impl FnOnce(&mut Retained)) {
        retain(&mut self.inner.lock().retained);
    }

    /// Orders a use of memory within the capture, and retains the memory for the graph, unless the graph allocates it.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` in strict order, for a use that the user has not ordered.
    pub fn use_memory(
        self: &Arc<Self>,
        memory: &Arc<Allocation>,
        stream: &StreamCore,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        self.check_order(memory.address(), stream, access, operation)?;
        memory.used_in(self);
        self.order(memory.address(), stream, access, Some(memory).filter(|memory| memory.graph().is_none()))
    }

    /// Like [`use_memory`](Self::use_memory), for memory that is retained elsewhere.
    ///
    /// # Errors
    /// Same as [`use_memory`](Self::use_memory).
    pub fn use_unretained(
        self: &Arc<Self>,
        memory: &Allocation,
        stream: &StreamCore,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        self.check_order(memory.address(), stream, access, operation)?;
        memory.used_in(self);
        self.order(memory.address(), stream, access, None)
    }

    /// Like [`use_memory`](Self::use_memory), for memory used by work that was already captured.
    #[cold]
    pub fn used_by_captured_work(self: &Arc<Self>, memory: &Arc<Allocation>, stream: &StreamCore, access: Access) {
        // Nothing in the capture has used it before, or the stream would have joined earlier; so there is nothing to be ordered
        // behind, and nothing to be refused.
        let _ = self.use_memory(memory, stream, access, "capturing");
    }

    /// The streams that are members, in an order that is the same for all captures.
    pub fn members(&self) -> Vec<Arc<StreamShared>> {
        let mut members: Vec<_> = self.inner.lock().members.iter().filter_map(Weak::upgrade).collect();
        members.sort_by_key(|stream| stream.timeline().key());
        members
    }

    /// The error in strict order of a use that the program has not ordered.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check_order(
        &self,
        address: DevicePointer,
        stream: &StreamCore,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        if !stream.context().is_order_strict() {
            return Ok(());
        }
        match self.inner.lock().history.unordered(address.0, stream.id(), access) {
            Some(earlier) => Err(stream.refuse_order(&format!("stream {earlier}"), operation)),
            None => Ok(()),
        }
    }

    /// Like [`check_order`](Self::check_order), for all memory at once.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check_order_of_all(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if !stream.context().is_order_strict() {
            return Ok(());
        }
        match self.inner.lock().history.any_unordered(stream.id()) {
            Some(earlier) => Err(stream.refuse_order(&format!("stream {earlier}"), operation)),
            None => Ok(()),
        }
    }

    /// Makes a stream that is about to use memory of the capture join the capture. `false`: the capture has ended, or
    /// no longer uses the memory.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` in strict order.
    pub fn join_for_memory(
        self: &Arc<Self>,
        stream: &Arc<StreamCore>,
        address: DevicePointer,
        operation: &'static str,
    ) -> Result<bool> {
        let Some(last) = self.last_stream(stream, address) else { return Ok(false) };
        if stream.context().is_order_strict() {
            return Err(stream.refuse_order(&last.place(), operation));
        }
        // The error of a failure is reported by the use, which then has no capture.
        let joined = wait_for_stream(stream, &last).is_ok() && stream.is_capturing();
        if joined {
            stream.count_orders(1);
        }
        Ok(joined)
    }

    /// Like [`check_order`](Self::check_order), for a stream that would join.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)`.
    pub fn check_join(&self, stream: &StreamCore, address: DevicePointer, operation: &'static str) -> Result<()> {
        match self.last_stream(stream, address) {
            Some(last) if stream.context().is_order_strict() => Err(stream.refuse_order(&last.place(), operation)),
            _ => Ok(()),
        }
    }

    /// The stream that used memory in the capture last, if the capture has not ended.
    fn last_stream(&self, stream: &StreamCore, address: DevicePointer) -> Option<Arc<StreamCore>> {
        let last = {
            let inner = self.inner.lock();
            if inner.has_ended { None } else { inner.history.last_stream(address.0) }
        }?;
        let streams = stream.context().streams();
        streams.into_iter().find(|stream| stream.id() == last && stream.is_live())
    }

    /// Whether the capture has not ended, and uses the memory.
    pub fn uses(&self, address: DevicePointer) -> bool {
        let inner = self.inner.lock();
        !inner.has_ended && inner.history.last_stream(address.0).is_some()
    }

    /// Orders a use of memory, and retains the memory that is given.
    fn order(
        &self,
        address: DevicePointer,
        stream: &StreamCore,
        access: Access,
        retained: Option<&Arc<Allocation>>,
    ) -> Result<()> {
        stream.shared().membership().set_pending(true);
        let missing = {
            let mut inner = self.inner.lock();
            if let Some(memory) = retained {
                inner.retained.add_memory(memory, access);
            }
            inner.history.follow(address.0, stream.id(), access)
        };
        add_dependencies(stream, &missing.nodes)?;
        stream.count_orders(missing.streams);
        Ok(())
    }

    /// Orders later work of `stream` after everything that has used memory in the capture.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn order_behind_all(&self, stream: &StreamCore) -> Result<()> {
        let missing = self.inner.lock().history.follow_all(stream.id());
        add_dependencies(stream, &missing.nodes)?;
        stream.count_orders(missing.streams);
        Ok(())
    }

    /// Called after work of `stream` was captured: the nodes that the stream has made are noted with the memory that
    /// the work used.
    pub fn settle(&self, stream: &StreamCore) {
        stream.shared().membership().set_pending(false);
        let mut inner = self.inner.lock();
        if !inner.has_branches() {
            return inner.history.settle(stream.id(), None);
        }
        drop(inner);
        if let Some(nodes) = dependencies(stream) {
            self.inner.lock().history.settle(stream.id(), Some(&nodes));
        }
    }

    /// The program updates the nodes that the stream's next node depends on, by `update`, a call of the driver.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn update_dependencies(
        &self,
        stream: &StreamCore,
        nodes: &[GraphNodeHandle],
        kind: DependencyUpdate,
        update: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.resolve(stream);
        update()?;
        let mut inner = self.inner.lock();
        if kind == DependencyUpdate::Set {
            inner.has_restarts = true;
            inner.history.restart(stream.id());
        }
        inner.history.follow_nodes(stream.id(), nodes);
        Ok(())
    }

    /// Called when another stream is about to join: from then on, the nodes of what this stream has captured alone must
    /// be known.
    fn resolve(&self, stream: &StreamCore) {
        if !self.inner.lock().has_branches()
            && let Some(nodes) = dependencies(stream)
        {
            self.inner.lock().history.resolve(stream.id(), &nodes);
        }
    }

    /// How far a stream has followed others. Called where another stream may join as a result.
    pub fn clock(&self, stream: &StreamCore) -> CapturedClock {
        self.resolve(stream);
        self.inner.lock().history.clock(stream.id())
    }

    /// Notes that the stream has waited for one that had come as far as `clock`.
    pub fn has_followed(&self, stream: &StreamCore, clock: &CapturedClock) {
        self.inner.lock().history.merge(stream.id(), clock);
    }

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

    /// Notes memory whose allocation was captured.
    pub fn has_allocated(&self, address: DevicePointer, bytes: usize) {
        self.inner.lock().allocated.push(address.0..address.0 + bytes as u64);
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

    /// Ends the memberships of all streams, and returns what the graph has to retain.
    pub fn finish(&self) -> FinishedCapture {
        let (members, history, retained, nodes, conditions, allocated, levels) = {
            let mut inner = self.inner.lock();
            inner.has_ended = true;
            (
                std::mem::take(&mut inner.members),
                std::mem::take(&mut inner.history),
                std::mem::take(&mut inner.retained),
                std::mem::replace(&mut inner.nodes, NodeTable::new(self.graph)),
                std::mem::take(&mut inner.conditions),
                std::mem::take(&mut inner.allocated),
                inner.levels,
            )
        };
        for stream in members.iter().filter_map(Weak::upgrade) {
            stream.membership().clear(self);
        }
        if let Whole::Capture(outer) = &self.whole {
            let mut outer = outer.inner.lock();
            outer.inside.extend(history.accesses());
            outer.levels = outer.levels.max(levels);
        }
        let into = self.into.clone();
        FinishedCapture { graph: self.graph, into, nodes, retained, conditions, allocated, levels }
    }

    /// Frees memory of the graph at each launch, after all that has used it.
    fn free_graph_memory(&self, address: DevicePointer, home: &StreamCore) {
        // Another thread may be ending the capture, after which the free would run outside of it, beside launches of the graph.
        let membership = home.shared().membership();
        let _submitting = membership.submitting();
        if !membership.is_of(self) {
            return;
        }
        // Where an edge or the free cannot be had, the memory stays allocated after a launch, as if it were still used.
        if self.order(address, home, Access::Write, None).is_ok() {
            let operation = "freeing memory of a graph";
            let context = home.context();
            let freed = home.while_live(|handle| {
                // SAFETY: the stream does not end meanwhile; all captured uses of the memory are before this.
                unsafe { context.driver().free_async(&context.call(operation), address, handle) }
                    .during(operation, || home.place())
            });
            drop_error::report(freed.unwrap_or(Ok(())));
        }
        self.inner.lock().history.forget(address.0);
    }
}

impl Capture for CaptureState {
    /// If the capture began in this stream, it is abandoned: otherwise its streams could not be used again, because
    /// nobody could end it any more.
    fn stream_ends(&self, stream: &StreamCore, ownership: Ownership) {
        if ownership == Ownership::Foreign || !self.is_origin(stream) {
            return;
        }
        let context = stream.context();
        let members = self.members();
        // Where others submit work to them for so long, the capture is given up all the same.
        let _exclusive: Vec<_> = members.iter().map(|stream| stream.membership().change()).collect();
        let call = context.call("giving a capture up");
        // SAFETY: the stream is live: it is ended by the caller, after this.
        let ended = unsafe { context.driver().stream_end_capture(&call, stream.raw()) };
        let finished = self.finish();
        match ended {
            // Destroyed at once, unless it was there before.
            Ok(graph) => drop(finished.into_part(context, graph)),
            // On another thread it fails, and has ended all the same.
            Err(_) => finished.failed(),
        }
    }

    /// Before the end of the capture, the memory is freed at each launch. Afterwards it remains the graph's.
    fn release_memory(&self, address: DevicePointer, home: &Arc<StreamCore>) {
        {
            let mut inner = self.inner.lock();
            if inner.conditions_open > 0 {
                inner.released.push((address, home.clone()));
                return;
            }
        }
        self.free_graph_memory(address, home);
    }
}

impl FinishedCapture {
    /// Called if the capture has failed, and with it an existing graph that it was captured into.
    pub fn failed(self) {
        if let Some(object) = self.into {
            object.start_anew();
        }
    }

    /// The graph, with everything that it must retain.
    pub fn into_part(self, context: &Arc<ContextCore>, handle: GraphHandle) -> Part {
        let graph = match self.into {
            Some(object) => {
                object.lock().retained_mut().merge(&self.retained);
                object
            }
            None => GraphObject::new(context, handle, self.graph, self.nodes, self.retained),
        };
        let mut guard = graph.lock();
        guard.has_captured(self.allocated);
        // Of a part, these are counted from the graph around it, which has them too.
        guard.note_levels(self.levels);
        drop(guard);
        Part { graph, conditions: self.conditions, levels: self.levels }
    }
}

/// The error of a capture for which a submission has taken too long.
#[cold]
pub fn refuse_busy(stream: &StreamCore, operation: &'static str) -> Error {
    let message = "another thread is submitting work to a stream of the capture, and does not come to an end";
    Error::argument(Status::ILLEGAL_STATE, operation, message)
        .with_hint("use the streams of a capture on one thread at a time, and copy from or to plain memory before")
        .at(stream.place())
}

/// Makes later work of a stream wait for the work that is in `earlier` now. If `earlier` is capturing, the stream joins
/// the capture.
///
/// # Errors
/// Any error that the driver returns.
pub fn wait_for_stream(stream: &StreamCore, earlier: &StreamCore) -> Result<()> {
    match capture_of(earlier) {
        Some(capture) if !stream.is_same(earlier) => wait_for_captured(stream, earlier, &capture),
        _ => stream.follow(earlier).map(drop),
    }
}

/// Makes later work of a stream wait, within a capture, for the work that `earlier` has captured so far.
#[cold]
fn wait_for_captured(stream: &StreamCore, earlier: &StreamCore, capture: &Arc<CaptureState>) -> Result<()> {
    let operation = "ordering a stream behind another";
    let context = stream.context();
    let event = RawEvent::create(context, EventFlags::DISABLE_TIMING)?;
    let clock = capture.clock(earlier);
    if !earlier.record_other(&event)? {
        return Ok(());
    }
    let handle = stream.handle(operation)?;
    capture.join(stream, || {
        let call = context.call(operation);
        // SAFETY: the caller has the stream open, and the event is borrowed.
        unsafe { context.driver().stream_wait_event(&call, handle, event.handle(), EventWaitFlags::empty()) }
            .during(operation, || stream.place())
    })?;
    capture.has_followed(stream, &clock);
    Ok(())
}

/// The nodes of the capture that the stream's next node will depend on, or `None` if the capture is invalidated.
fn dependencies(stream: &StreamCore) -> Option<Vec<GraphNodeHandle>> {
    let context = stream.context();
    let info = stream.while_live(|handle| {
        let call = context.call("asking for what a stream captures");
        // SAFETY: the stream does not end meanwhile.
        unsafe { context.driver().stream_capture_info(&call, handle, true) }
    })?;
    info.ok().filter(|info| info.status == CaptureStatus::Active).map(|info| info.dependencies)
}

/// Makes the next node that the stream captures depend on these too.
fn add_dependencies(stream: &StreamCore, nodes: &[GraphNodeHandle]) -> Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    let operation = "ordering a stream behind another";
    let nodes: SmallVec<[Dependency; 4]> = nodes.iter().copied().map(Dependency::from).collect();
    let context = stream.context();
    let added = stream.while_live(|handle| {
        let call = context.call(operation);
        // SAFETY: the stream does not end meanwhile; the nodes are of the graph that it captures, from which none can be
        // removed.
        unsafe { context.driver().stream_update_capture_dependencies(&call, handle, &nodes, DependencyUpdate::Add) }
            .during(operation, || stream.place())
    });
    added.unwrap_or(Ok(()))
}
