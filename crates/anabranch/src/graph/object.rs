//! A graph underneath: its handle, its nodes by number, and the lock that stands between it and other threads.

use super::node::{Node, NodeTable};
use super::parts::GraphParts;
use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::memory::Allocation;
use crate::reaper;
use anabranch_hal::{Access, Dependency, EdgeData, GraphHandle, GraphNodeHandle, Retained, Status};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// A number for a graph, never used again in this process.
pub(crate) fn next_graph_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A graph of the driver. Drivers do not synchronise graphs, so every call that concerns this one is made under its lock.
pub(crate) struct GraphObject {
    context: Arc<ContextCore>,
    /// The driver's handle. It changes only when a capture into the graph fails, which destroys the driver's graph.
    handle: AtomicUsize,
    number: u64,
    owner: Owner,
    state: Mutex<GraphState>,
}

/// Who owns a graph of the driver.
enum Owner {
    /// The object.
    Itself,
    /// A conditional node of another graph.
    Parent(Weak<GraphObject>),
}

/// What is known of a graph.
pub(crate) struct GraphState {
    pub(crate) nodes: NodeTable,
    /// The graphs of its conditional nodes.
    pub(crate) bodies: HashMap<Node, Vec<Arc<GraphObject>>>,
    pub(crate) parts: GraphParts,
}

impl GraphObject {
    pub(crate) fn new(context: &Arc<ContextCore>, handle: GraphHandle, number: u64, parts: GraphParts) -> Arc<Self> {
        let state = GraphState { nodes: NodeTable::new(number), bodies: HashMap::new(), parts };
        Arc::new(Self {
            context: context.clone(),
            handle: AtomicUsize::new(handle.as_raw()),
            number,
            owner: Owner::Itself,
            state: Mutex::new(state),
        })
    }

    /// A graph that was captured, with the nodes that are known already.
    pub(crate) fn captured(
        context: &Arc<ContextCore>,
        handle: GraphHandle,
        number: u64,
        nodes: NodeTable,
        parts: GraphParts,
    ) -> Arc<Self> {
        let state = GraphState { nodes, bodies: HashMap::new(), parts };
        Arc::new(Self {
            context: context.clone(),
            handle: AtomicUsize::new(handle.as_raw()),
            number,
            owner: Owner::Itself,
            state: Mutex::new(state),
        })
    }

    /// Takes over what was captured into this graph.
    pub(crate) fn take_over(&self, parts: &GraphParts) {
        self.lock().parts.merge(parts);
        if let Some(parent) = self.parent() {
            parent.take_over(parts);
        }
    }

    /// A graph that belongs to a conditional node of another.
    pub(crate) fn body(parent: &Arc<GraphObject>, handle: GraphHandle) -> Arc<Self> {
        let number = next_graph_number();
        let state = GraphState { nodes: NodeTable::new(number), bodies: HashMap::new(), parts: GraphParts::default() };
        let context = parent.context.clone();
        Arc::new(Self {
            context,
            handle: AtomicUsize::new(handle.as_raw()),
            number,
            owner: Owner::Parent(Arc::downgrade(parent)),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    pub(crate) fn handle(&self) -> GraphHandle {
        GraphHandle::from_raw(self.handle.load(Ordering::Acquire))
    }

    /// The driver has destroyed the graph, because a capture into it has failed. An empty one takes its place.
    pub(crate) fn start_anew(&self) {
        let mut state = self.lock();
        state.nodes.clear();
        state.bodies.clear();
        let before = std::mem::take(&mut state.parts);
        // What belongs to a conditional node goes with it. A null handle is refused by every call.
        let handle = match self.owner {
            // SAFETY: the context's handle is live as long as its core.
            Owner::Itself => unsafe { self.context.driver().graph_create(self.context.handle()) }.ok(),
            Owner::Parent(_) => None,
        };
        self.handle.store(handle.map_or(0, GraphHandle::as_raw), Ordering::Release);
        drop(state);
        drop(before);
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn place(&self) -> String {
        format!("graph {} of {}", self.number, self.context.place())
    }

    /// The lock, which whoever calls the driver with this graph or its nodes holds.
    pub(crate) fn lock(&self) -> MutexGuard<'_, GraphState> {
        self.state.lock()
    }

    /// Whether it belongs to a conditional node.
    pub(crate) fn is_body(&self) -> bool {
        matches!(self.owner, Owner::Parent(_))
    }

    fn parent(&self) -> Option<Arc<GraphObject>> {
        match &self.owner {
            Owner::Parent(parent) => parent.upgrade(),
            _ => None,
        }
    }

    /// Whether memory of the graph of that number can be used here.
    pub(crate) fn owns(&self, number: u64) -> bool {
        self.number == number || self.parent().is_some_and(|parent| parent.owns(number))
    }

    /// Keeps an object for as long as the graph, or anything made from it, can run.
    pub(crate) fn keep(&self, state: &mut GraphState, object: Retained) {
        // The graphs around this one are what is launched.
        if let Some(parent) = self.parent() {
            parent.keep(&mut parent.lock(), object.clone());
        }
        state.parts.keep(object);
    }

    /// Keeps memory that a node is about to use, or refuses it.
    pub(crate) fn keep_memory(
        &self,
        state: &mut GraphState,
        memory: &Arc<Allocation>,
        access: Access,
        operation: &'static str,
    ) -> Result<()> {
        if let Some(graph) = memory.graph() {
            return if self.owns(graph) { Ok(()) } else { Err(memory.refuse_graph_memory(self.place())) };
        }
        if !Arc::ptr_eq(memory.context(), &self.context) && memory.context().handle() != self.context.handle() {
            let pinned = memory.is_pinned() && memory.context().device().same_driver(self.context.device());
            if !pinned {
                return Err(crate::context::other_context(operation, "memory", self.place()));
            }
        }
        state.parts.add(memory, access);
        self.hand_up(memory, access);
        Ok(())
    }

    /// Keeps what a child keeps.
    pub(crate) fn keep_parts(&self, state: &mut GraphState, parts: &GraphParts) {
        state.parts.merge(parts);
        if let Some(parent) = self.parent() {
            parent.take_over(parts);
        }
    }

    /// Tells the graphs around this one of its memory, because they are what is launched.
    fn hand_up(&self, memory: &Arc<Allocation>, access: Access) {
        if let Some(parent) = self.parent() {
            parent.lock().parts.add(memory, access);
            parent.hand_up(memory, access);
        }
    }

    /// The driver's handle of a node, if it is one of this graph.
    pub(crate) fn node(&self, state: &GraphState, node: Node, operation: &'static str) -> Result<GraphNodeHandle> {
        state.nodes.find(node).ok_or_else(|| {
            let message = if node.graph() == self.number {
                "the node was removed from its graph"
            } else {
                "the node belongs to another graph"
            };
            Error::argument(Status::INVALID_VALUE, operation, message)
                .with_hint("use nodes of this very graph; a clone has nodes of its own, which find_in_clone returns")
                .at(self.place())
        })
    }

    /// The driver's handles of nodes.
    pub(crate) fn dependencies(
        &self,
        state: &GraphState,
        nodes: &[(Node, EdgeData)],
        operation: &'static str,
    ) -> Result<Vec<Dependency>> {
        nodes.iter().map(|&(node, data)| Ok(Dependency { node: self.node(state, node, operation)?, data })).collect()
    }
}

impl Drop for GraphObject {
    fn drop(&mut self) {
        if !matches!(self.owner, Owner::Itself) {
            return;
        }
        let (context, handle) = (self.context.clone(), self.handle());
        if handle.is_null() {
            return;
        }
        reaper::now_or_later(move || {
            // SAFETY: the handle was owned by the value being dropped, and whatever uses the graph or its nodes keeps it.
            let result = unsafe { context.driver().graph_destroy(context.handle(), handle) };
            drop_error::report(result.during("destroying a graph", || context.place()));
        });
    }
}
