//! What this library keeps of a capture: the streams in it, the memory they use and what else its graph must keep.

use super::part::{CapturedCondition, Part};
use super::uses::CapturedUses;
use crate::clock::Clock;
use crate::context::ContextCore;
use crate::error::Result;
use crate::graph::{Graph, GraphObject, GraphParts, Node, NodeTable, next_graph_number};
use crate::memory::Allocation;
use crate::stream::{Ownership, StreamCore, StreamShared};
use anabranch_hal::{Access, DevicePointer, GraphHandle, GraphNodeHandle};
use parking_lot::Mutex;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Which capture a stream takes part in. Whatever stands for the same stream shares it.
#[derive(Default)]
pub(crate) struct CaptureSlot {
    active: AtomicBool,
    /// How often the stream began to take part in one, or was about to.
    begun: AtomicU64,
    /// Whether work that was captured used memory that is not settled yet.
    pending: AtomicBool,
    /// The address of what the capture was made to keep last through this stream.
    kept: AtomicUsize,
    state: Mutex<Option<Arc<CaptureState>>>,
}

impl CaptureSlot {
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    #[cold]
    pub(crate) fn get(&self) -> Option<Arc<CaptureState>> {
        self.state.lock().clone()
    }

    /// Called before the driver lets the stream take part.
    pub(crate) fn begins(&self) {
        self.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// What does not change while the stream takes part in no capture. `None`: it takes part in one.
    #[inline(always)]
    pub(crate) fn outside(&self) -> Option<u64> {
        let begun = self.begun.load(Ordering::Acquire);
        (!self.is_active()).then_some(begun)
    }

    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Makes the capture keep an object, which is the same again and again for most streams.
    pub(crate) fn keep<T: Any + Send + Sync>(&self, object: &Arc<T>) {
        let address = Arc::as_ptr(object).cast::<()>() as usize;
        if self.kept.load(Ordering::Relaxed) != address
            && let Some(state) = self.get()
        {
            state.keep(object);
            self.kept.store(address, Ordering::Relaxed);
        }
    }

    fn set(&self, state: &Arc<CaptureState>) {
        self.kept.store(0, Ordering::Relaxed);
        self.pending.store(false, Ordering::Relaxed);
        *self.state.lock() = Some(state.clone());
        self.active.store(true, Ordering::Release);
    }

    /// Forgets the capture, unless the stream takes part in another meanwhile.
    fn clear(&self, state: &CaptureState) {
        let mut slot = self.state.lock();
        if slot.as_ref().is_some_and(|current| std::ptr::eq(&raw const **current, state)) {
            self.active.store(false, Ordering::Release);
            // Dropped after the lock, because it drops what the capture kept.
            let gone = slot.take();
            drop(slot);
            drop(gone);
        }
    }
}

/// A capture that was begun through this library.
pub(crate) struct CaptureState {
    /// The number of the graph that is being made.
    graph: u64,
    origin: u64,
    /// What this is a part of.
    whole: Whole,
    /// The graph that is captured into, if it was there before.
    into: Option<Arc<GraphObject>>,
    inner: Mutex<Inner>,
}

/// What a capture is a part of.
pub(crate) enum Whole {
    /// Nothing.
    Itself,
    /// Another capture, which it will be put into as the body of a conditional node.
    Capture(Arc<CaptureState>),
    /// A body of a conditional node that is there already.
    Body(Arc<GraphObject>),
}

/// What is left of a capture that is over.
pub(crate) struct FinishedCapture {
    graph: u64,
    into: Option<Arc<GraphObject>>,
    nodes: NodeTable,
    pub(crate) parts: GraphParts,
    conditions: Vec<CapturedCondition>,
}

struct Inner {
    over: bool,
    streams: Vec<Weak<StreamShared>>,
    uses: CapturedUses,
    parts: GraphParts,
    nodes: NodeTable,
    /// What stands for conditional nodes, where this capture is a part of another.
    conditions: Vec<CapturedCondition>,
    /// Uses of memory in conditional parts that have been captured since the last [`CaptureState::adopt`].
    inside: Vec<(u64, Access)>,
}

impl CaptureState {
    pub(crate) fn new(origin: &StreamCore, into: Option<&Arc<GraphObject>>, whole: Whole) -> Arc<Self> {
        let graph = into.map_or_else(next_graph_number, |into| into.number());
        let inner = Inner {
            over: false,
            streams: Vec::new(),
            uses: CapturedUses::default(),
            parts: GraphParts::default(),
            nodes: NodeTable::new(graph),
            conditions: Vec::new(),
            inside: Vec::new(),
        };
        Arc::new(Self { graph, origin: origin.id(), whole, into: into.cloned(), inner: Mutex::new(inner) })
    }

    /// The node of that handle, which belongs to the graph that is being made.
    pub(crate) fn enter_node(&self, node: GraphNodeHandle) -> Node {
        match &self.into {
            Some(into) => into.lock().nodes.enter(node),
            None => self.inner.lock().nodes.enter(node),
        }
    }

    /// The handle of a node of the graph that is being made.
    pub(crate) fn find_node(&self, node: Node) -> Option<GraphNodeHandle> {
        match &self.into {
            Some(into) => into.lock().nodes.find(node),
            None => self.inner.lock().nodes.find(node),
        }
    }

    pub(crate) fn graph(&self) -> u64 {
        self.graph
    }

    pub(crate) fn is_origin(&self, stream: &StreamCore) -> bool {
        self.origin == stream.id()
    }

    /// Whether memory of the graph of that number can be used here.
    pub(crate) fn owns(&self, graph: u64) -> bool {
        self.graph == graph
            || match &self.whole {
                Whole::Itself => false,
                Whole::Capture(outer) => outer.owns(graph),
                Whole::Body(body) => body.owns(graph),
            }
    }

    /// Notes that a stream takes part.
    pub(crate) fn admit(self: &Arc<Self>, stream: &StreamCore) {
        let mut inner = self.inner.lock();
        if inner.over {
            return;
        }
        let shared = stream.shared();
        if !inner.streams.iter().any(|known| known.as_ptr() == Arc::as_ptr(shared)) {
            inner.streams.push(Arc::downgrade(shared));
        }
        shared.capture().set(self);
    }

    /// Keeps something for as long as the graph can run.
    pub(crate) fn keep<T: Any + Send + Sync>(&self, object: &Arc<T>) {
        self.inner.lock().parts.keep(object.clone());
    }

    /// Orders a use of memory within the capture, and keeps the memory for the graph.
    pub(crate) fn use_memory(
        self: &Arc<Self>,
        memory: &Arc<Allocation>,
        stream: &Arc<StreamCore>,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        self.use_graph_memory(memory, stream, access, operation)?;
        self.inner.lock().parts.add(memory, access);
        Ok(())
    }

    /// As [`use_memory`](Self::use_memory), of memory that work uses which was captured already.
    #[cold]
    pub(crate) fn keep_memory(self: &Arc<Self>, memory: &Arc<Allocation>, stream: &Arc<StreamCore>, access: Access) {
        // Nothing in the capture has used it before, or the stream would have been drawn in earlier; so there is nothing to
        // be ordered behind, and nothing to be refused.
        let _ = self.use_graph_memory(memory, stream, access, "capturing");
        self.inner.lock().parts.add(memory, access);
    }

    /// The streams that take part, in an order that all captures have them in.
    pub(crate) fn streams(&self) -> Vec<Arc<StreamShared>> {
        let mut streams: Vec<_> = self.inner.lock().streams.iter().filter_map(Weak::upgrade).collect();
        streams.sort_by_key(|stream| stream.key());
        streams
    }

    /// Orders a use of memory that the graph itself allocates.
    pub(crate) fn use_graph_memory(
        self: &Arc<Self>,
        memory: &Allocation,
        stream: &Arc<StreamCore>,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        self.check_order(memory.address(), stream, access, operation)?;
        memory.used_in(self);
        self.order(memory.address(), stream, access)
    }

    /// In strict mode, refuses a use that does not come after the uses before it.
    pub(crate) fn check_order(
        &self,
        address: DevicePointer,
        stream: &StreamCore,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        if !stream.context().is_order_strict() {
            return Ok(());
        }
        match self.inner.lock().uses.unfollowed(address.0, stream.id(), access) {
            Some(earlier) => Err(stream.refuse_order(&format!("stream {earlier}"), operation)),
            None => Ok(()),
        }
    }

    /// As [`check_order`](Self::check_order), for all memory at once.
    pub(crate) fn check_join_all(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if !stream.context().is_order_strict() {
            return Ok(());
        }
        match self.inner.lock().uses.any_unfollowed(stream.id()) {
            Some(earlier) => Err(stream.refuse_order(&format!("stream {earlier}"), operation)),
            None => Ok(()),
        }
    }

    /// Draws a stream in that is about to use memory which the capture uses. `false`: the capture is over, or the memory is
    /// not used in it any more.
    pub(crate) fn draw_in(
        self: &Arc<Self>,
        stream: &Arc<StreamCore>,
        address: DevicePointer,
        operation: &'static str,
    ) -> Result<bool> {
        let Some(last) = self.last_stream(stream, address) else { return Ok(false) };
        if stream.context().is_order_strict() {
            return Err(stream.refuse_order(&last.place(), operation));
        }
        // What goes wrong is said by the use, which then has no capture.
        let drawn_in = stream.wait_for(&last).is_ok() && stream.is_capturing();
        if drawn_in {
            stream.count_inserted(1);
        }
        Ok(drawn_in)
    }

    /// As [`check_order`](Self::check_order), for a stream that would be drawn in.
    pub(crate) fn check_draw_in(
        &self,
        stream: &StreamCore,
        address: DevicePointer,
        operation: &'static str,
    ) -> Result<()> {
        match self.last_stream(stream, address) {
            Some(last) if stream.context().is_order_strict() => Err(stream.refuse_order(&last.place(), operation)),
            _ => Ok(()),
        }
    }

    /// The stream that used memory in the capture last, if that goes on.
    fn last_stream(&self, stream: &StreamCore, address: DevicePointer) -> Option<Arc<StreamCore>> {
        let last = {
            let inner = self.inner.lock();
            if inner.over { None } else { inner.uses.last_stream(address.0) }
        }?;
        let streams = stream.context().streams();
        streams.into_iter().find(|stream| stream.id() == last && stream.is_live())
    }

    /// Whether the capture goes on, and the memory is used in it.
    pub(crate) fn uses(&self, address: DevicePointer) -> bool {
        let inner = self.inner.lock();
        !inner.over && inner.uses.last_stream(address.0).is_some()
    }

    fn order(&self, address: DevicePointer, stream: &StreamCore, access: Access) -> Result<()> {
        stream.shared().capture().pending.store(true, Ordering::Relaxed);
        let before = self.inner.lock().uses.follow(address.0, stream.id(), access);
        stream.add_captured_dependencies(&before.nodes)?;
        stream.count_inserted(before.streams);
        Ok(())
    }

    /// Orders later work of `stream` behind everything that has used memory in the capture.
    pub(crate) fn join_all(&self, stream: &StreamCore) -> Result<()> {
        let before = self.inner.lock().uses.follow_all(stream.id());
        stream.add_captured_dependencies(&before.nodes)?;
        stream.count_inserted(before.streams);
        Ok(())
    }

    /// Called after work of `stream` was captured: what it used is found again by the nodes that the stream has come to.
    pub(crate) fn settle(&self, stream: &StreamCore) {
        stream.shared().capture().pending.store(false, Ordering::Relaxed);
        if let Some(nodes) = stream.captured_dependencies() {
            self.inner.lock().uses.settle(stream.id(), &nodes);
        }
    }

    /// How far a stream has followed others.
    pub(crate) fn clock(&self, stream: &StreamCore) -> Clock {
        self.inner.lock().uses.clock(stream.id())
    }

    /// The stream has waited for one that had come as far as `clock`.
    pub(crate) fn has_followed(&self, stream: &StreamCore, clock: &Clock) {
        self.inner.lock().uses.merge(stream.id(), clock);
    }

    /// Whether this is a part of another capture.
    pub(crate) fn is_part(&self) -> bool {
        !matches!(self.whole, Whole::Itself)
    }

    /// Remembers what stands for a conditional node.
    pub(super) fn add_condition(&self, condition: CapturedCondition) {
        self.inner.lock().conditions.push(condition);
    }

    /// Takes over what a part, which was just put into a conditional node that `stream` captured, uses and keeps.
    pub(crate) fn adopt(&self, part: &GraphObject, stream: &Arc<StreamCore>) -> Result<()> {
        let inside = {
            let state = part.lock();
            let mut inner = self.inner.lock();
            inner.parts.merge(&state.parts);
            std::mem::take(&mut inner.inside)
        };
        inside.into_iter().try_for_each(|(address, access)| self.order(DevicePointer(address), stream, access))?;
        self.settle(stream);
        Ok(())
    }

    /// A stream is dropped, or its handle given up, while it takes part. If the capture began there, it is given up: else
    /// the streams in it could not be used again, because nobody could end it any more.
    pub(crate) fn stream_ends(&self, stream: &StreamCore, ownership: Ownership) {
        if ownership == Ownership::Foreign || !self.is_origin(stream) {
            return;
        }
        let context = stream.context();
        let streams = self.streams();
        // Where others queue work in them for so long, the capture is given up all the same.
        let _alone: Vec<_> = streams.iter().map(|stream| stream.change_part()).collect();
        // SAFETY: the stream is live: it is ended by the caller, after this.
        let ended = unsafe { context.driver().stream_end_capture(context.handle(), stream.raw()) };
        let finished = self.finish();
        match ended {
            // Dropped at once, unless it was there before.
            Ok(graph) => drop(finished.into_graph(context, graph)),
            // On another thread it fails, and is over all the same.
            Err(_) => finished.failed(),
        }
    }

    /// Memory that a capture allocated is dropped: within the capture that frees it, at each launch; later it stays the
    /// graph's.
    pub(crate) fn drop_graph_memory(graph: u64, address: DevicePointer, home: &Arc<StreamCore>) {
        let Some(capture) = home.capture().filter(|capture| capture.graph == graph) else { return };
        // Where an edge or the free cannot be had, the memory stays allocated after a launch, as if it were kept.
        if capture.order(address, home, Access::Write).is_ok() {
            home.free_captured(address);
        }
        capture.inner.lock().uses.forget(address.0);
    }

    /// Lets all streams go, and returns what the graph must keep.
    pub(crate) fn finish(&self) -> FinishedCapture {
        let (streams, uses, parts, nodes, conditions) = {
            let mut inner = self.inner.lock();
            inner.over = true;
            (
                std::mem::take(&mut inner.streams),
                std::mem::take(&mut inner.uses),
                std::mem::take(&mut inner.parts),
                std::mem::replace(&mut inner.nodes, NodeTable::new(self.graph)),
                std::mem::take(&mut inner.conditions),
            )
        };
        for stream in streams {
            if let Some(stream) = stream.upgrade() {
                stream.capture().clear(self);
            }
        }
        if let Whole::Capture(outer) = &self.whole {
            outer.inner.lock().inside.extend(uses.accesses());
        }
        FinishedCapture { graph: self.graph, into: self.into.clone(), nodes, parts, conditions }
    }
}

impl FinishedCapture {
    /// The capture has failed, and with it a graph that was there before.
    pub(crate) fn failed(self) {
        if let Some(object) = self.into {
            object.start_anew();
        }
    }

    /// The graph, with all that it must keep.
    pub(super) fn into_graph(self, context: &Arc<ContextCore>, handle: GraphHandle) -> Part {
        let object = match self.into {
            Some(object) => {
                object.take_over(&self.parts);
                object
            }
            None => GraphObject::captured(context, handle, self.graph, self.nodes, self.parts),
        };
        Part { graph: Graph::from_object(object), conditions: self.conditions }
    }
}
