//! A graph: its handle, its nodes by number, what it retains, and the lock that excludes other threads.
//!
//! Drivers do not synchronize graphs, so every call of the driver with a graph is made under its lock. The bodies of a
//! graph's conditional nodes belong to the graph: they share its lock, and the graph retains what their nodes refer to,
//! because the graph is what is launched.

use crate::context::{ContextCore, other_context};
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::graph_frees::GraphFrees;
use crate::graph_traits::GraphTraits;
use crate::host_work::refuse_inside;
use crate::label::Label;
use crate::memory::{Allocation, Origin};
use crate::node::{Node, NodeTable};
use crate::ranks;
use crate::reaper;
use crate::retained::{Released, Retained, RetainedByNode};
use anabranch_hal::{
    Access, ConditionalHandle, ConditionalNode, Dependency, DevicePointer, EdgeData, GraphHandle, GraphNodeHandle,
    GraphNodeKind, Live, NodeParameters, ObjectHandle, Status,
};
use anabranch_sync::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Returns a new id for a graph, which is never reused in this process.
pub fn next_graph_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How many levels of graphs in nodes there are in a graph at most, children and bodies of conditional nodes alike.
/// Drivers, and this library, go through them level by level on the stack.
pub const MOST_LEVELS: usize = 64;

/// How many bodies a conditional node has at most.
pub const MOST_BODIES: usize = 4096;

/// The error of a graph with too many levels.
#[cold]
pub fn too_deep(operation: &'static str) -> Error {
    let message = format!("graphs would be nested more than {MOST_LEVELS} levels deep");
    Error::argument(Status::NOT_SUPPORTED, operation, message)
        .with_hint("add the nodes of inner graphs to the outer ones, or launch several graphs one after the other")
}

/// The error of a conditional node with too many bodies.
#[cold]
pub fn too_many_bodies(operation: &'static str) -> Error {
    let message = format!("a conditional node has at most {MOST_BODIES} bodies");
    Error::argument(Status::INVALID_VALUE, operation, message)
        .with_hint("choose among bodies that have conditional nodes themselves")
}

/// A graph of the driver, or a body of a conditional node of one.
pub struct GraphObject {
    context: Arc<ContextCore>,
    /// The driver's handle. It becomes null when a capture into the graph fails, which destroys the driver's graph.
    handle: AtomicUsize,
    id: u64,
    /// For a body: the graphs around it.
    around: SmallVec<[u64; 2]>,
    tree: Arc<Tree>,
    label: Label,
}

/// A graph with the bodies of its conditional nodes.
struct Tree {
    state: Mutex<TreeState>,
    frees: Arc<GraphFrees>,
    /// How many executable graphs were dropped and are not destroyed, because their context is not idle.
    executables_left: AtomicUsize,
}

#[derive(Default)]
struct TreeState {
    retained: RetainedByNode,
    /// By the id of the graph or body.
    graphs: HashMap<u64, Nodes>,
    /// The memory of the graph whose allocation was captured.
    captured: Vec<Range<u64>>,
    /// The memory that the graph allocates and does not free.
    left: Vec<Range<u64>>,
    /// How many levels there are below the graph itself.
    levels: usize,
    traits: GraphTraits,
    /// The conditional values of the graph and its bodies, in the order in which they were created.
    values: Vec<ConditionalHandle>,
    /// Whether nobody can use the graph any more: a change was made in part, or the driver has destroyed the graph.
    is_broken: bool,
    /// Whether a capture into the graph has not ended. Only that capture uses the graph, which the driver destroys if the capture
    /// fails.
    is_captured: bool,
}

/// The nodes of a graph or body.
struct Nodes {
    table: NodeTable,
    /// The bodies of its conditional nodes, with their ids.
    bodies: HashMap<Node, Vec<(u64, GraphHandle)>>,
    /// What its conditional nodes were added with, which drivers cannot be asked for.
    conditionals: HashMap<Node, ConditionalNode>,
}

/// A locked graph.
pub struct GraphGuard<'a> {
    object: &'a GraphObject,
    tree: MutexGuard<'a, TreeState>,
}

impl GraphObject {
    /// Takes ownership of a graph of the driver. `nodes`: those that are already known.
    ///
    /// # Safety
    /// The handle is null, or that of a graph of the context, which nobody else uses or destroys. The nodes are its own, and
    /// what they refer to is retained, or exists as long as they do.
    #[track_caller]
    pub unsafe fn new(
        context: &Arc<ContextCore>,
        handle: GraphHandle,
        id: u64,
        nodes: NodeTable,
        retained: Retained,
    ) -> Arc<Self> {
        let graphs =
            HashMap::from([(id, Nodes { table: nodes, bodies: HashMap::new(), conditionals: HashMap::new() })]);
        let mut retained = retained;
        // Nodes belong to it. What is made of the graph retains it with everything else: children, bodies and updates of graphs of
        // other contexts.
        retained.add(context);
        let retained = RetainedByNode::of_all(retained);
        let state = TreeState { retained, graphs, ..TreeState::default() };
        let state = Mutex::with_order(ranks::GRAPH, id, state);
        Arc::new(Self {
            context: context.clone(),
            handle: AtomicUsize::new(handle.as_raw()),
            id,
            around: SmallVec::new(),
            tree: Arc::new(Tree { state, frees: GraphFrees::new(), executables_left: AtomicUsize::new(0) }),
            label: Label::new(context, ObjectHandle::Graph(handle)),
        })
    }

    /// Whether an executable graph of it was dropped, and is not destroyed before its context is idle.
    pub(crate) fn has_executables_left(&self) -> bool {
        self.tree.executables_left.load(Ordering::Acquire) > 0
    }

    pub(crate) fn leave_executable(&self) {
        self.tree.executables_left.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn has_destroyed_executable(&self) {
        self.tree.executables_left.fetch_sub(1, Ordering::Release);
    }

    /// Notes that it may have nodes which this library does not know.
    pub fn note_unknown_nodes(&self) {
        self.tree.state.lock().traits.add(GraphTraits::of_unknown_nodes());
    }

    /// Where memory is freed that launches have left allocated.
    pub fn frees(&self) -> &Arc<GraphFrees> {
        &self.tree.frees
    }

    /// An empty graph.
    ///
    /// # Errors
    /// Any error that the driver returns.
    #[track_caller]
    pub fn create(context: &Arc<ContextCore>) -> Result<Arc<Self>> {
        let operation = "creating a graph";
        let handle = context.driver().graph_create(&context.call(operation)).during(operation, || context.place())?;
        let id = next_graph_id();
        // SAFETY: the graph was just made, and has no nodes.
        Ok(unsafe { Self::new(context, handle, id, NodeTable::new(id), Retained::default()) })
    }

    /// An empty graph. If the driver cannot create one, its handle is null, which every call refuses.
    #[track_caller]
    pub fn create_or_null(context: &Arc<ContextCore>) -> Arc<Self> {
        Self::create(context).unwrap_or_else(|_| {
            let id = next_graph_id();
            // SAFETY: the handle is null.
            unsafe { Self::new(context, GraphHandle::from_raw(0), id, NodeTable::new(id), Retained::default()) }
        })
    }

    /// The context.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The driver's handle.
    pub fn handle(&self) -> GraphHandle {
        GraphHandle::from_raw(self.handle.load(Ordering::Acquire))
    }

    /// Its id among graphs, which its nodes contain. Ids are never reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its number among the objects of the library, and its name.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The description of this graph in errors.
    pub fn place(&self) -> String {
        format!("graph {}{} of {}", self.id, self.label, self.context.place())
    }

    /// Whether it belongs to a conditional node.
    pub fn is_body(&self) -> bool {
        !self.around.is_empty()
    }

    /// How many graphs it is in.
    pub fn level(&self) -> usize {
        self.around.len()
    }

    /// Whether memory of the graph of that id can be used here.
    pub fn owns(&self, id: u64) -> bool {
        self.id == id || self.around.contains(&id)
    }

    /// Refuses memory that a node of this graph, which is added or changed by hand, cannot use.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` for memory of another graph, or of a capture; `CUDA_ERROR_INVALID_HANDLE (400)` for
    /// memory of another context; and what registered memory does not allow.
    pub fn require_reach(&self, memory: &Allocation, access: Access, operation: &'static str) -> Result<()> {
        match memory.origin() {
            Origin::Graph(graph) if self.owns(*graph) => Ok(()),
            Origin::Graph(_) | Origin::Captured { .. } => Err(memory.refuse_graph_memory(self.place())),
            _ if !memory.is_reached_from(&self.context) => Err(other_context(operation, "memory", self.place())),
            _ if memory.is_restricted() => memory.require_use(access, true, operation),
            _ => Ok(()),
        }
    }

    /// Whether both are the same graph, or bodies in it.
    pub fn shares_lock(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree)
    }

    /// The lock, which must be held to call the driver with this graph or its nodes.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function; `CUDA_ERROR_ILLEGAL_STATE (401)` if a change of the graph was
    /// made in part only, or a capture into it has not ended.
    #[track_caller]
    pub fn lock(&self, operation: &'static str) -> Result<GraphGuard<'_>> {
        let guard = self.lock_for_capture(operation)?;
        if guard.tree.is_captured { Err(self.captured(operation)) } else { Ok(guard) }
    }

    /// Like [`lock`](Self::lock), for the capture into the graph.
    ///
    /// # Errors
    /// Same as [`lock`](Self::lock), but while the capture has not ended.
    #[track_caller]
    pub(crate) fn lock_for_capture(&self, operation: &'static str) -> Result<GraphGuard<'_>> {
        refuse_inside(operation).map_err(|error| error.at(self.place()))?;
        let tree = self.tree.state.lock();
        if tree.is_broken { Err(self.broken(operation)) } else { Ok(GraphGuard { object: self, tree }) }
    }

    /// Locks it to note what a capture that has ended leaves behind, wherever this is.
    pub(crate) fn lock_at_end_of_capture(&self) -> GraphGuard<'_> {
        GraphGuard { object: self, tree: self.tree.state.lock() }
    }

    #[cold]
    fn captured(&self, operation: &'static str) -> Error {
        let message = "a capture into the graph has not ended";
        Error::argument(Status::ILLEGAL_STATE, operation, message).with_hint("end the capture first").at(self.place())
    }

    #[cold]
    fn broken(&self, operation: &'static str) -> Error {
        let message = "an earlier change of the graph, or a capture into it, has failed midway";
        Error::argument(Status::ILLEGAL_STATE, operation, message).with_hint("make the graph again").at(self.place())
    }

    /// Whether nobody can use the graph any more.
    pub fn is_broken(&self) -> bool {
        self.tree.state.lock().is_broken
    }

    /// Locks this graph and another. If they share a lock, it is locked once.
    ///
    /// # Errors
    /// Same as [`lock`](Self::lock).
    #[track_caller]
    pub fn lock_with<'a>(
        &'a self,
        other: Option<&'a Self>,
        operation: &'static str,
    ) -> Result<(GraphGuard<'a>, Option<GraphGuard<'a>>)> {
        match other.filter(|other| !self.shares_lock(other)) {
            Some(other) if other.root() < self.root() => {
                let other = other.lock(operation)?;
                Ok((self.lock(operation)?, Some(other)))
            }
            other => Ok((self.lock(operation)?, other.map(|other| other.lock(operation)).transpose()?)),
        }
    }

    fn root(&self) -> u64 {
        self.around.last().copied().unwrap_or(self.id)
    }

    /// A failed capture into the graph has destroyed the driver's graph.
    pub fn was_destroyed(&self) {
        let mut tree = self.tree.state.lock();
        (tree.is_broken, tree.is_captured) = (true, false);
        let before = std::mem::take(&mut tree.retained);
        self.handle.store(0, Ordering::Release);
        drop(tree);
        drop(before);
    }
}

impl GraphGuard<'_> {
    fn nodes(&mut self) -> &mut Nodes {
        let id = self.object.id;
        let empty = || Nodes { table: NodeTable::new(id), bodies: HashMap::new(), conditionals: HashMap::new() };
        self.tree.graphs.entry(id).or_insert_with(empty)
    }

    /// The number of a node of the graph. If the node was not known, it is from now on.
    pub fn enter(&mut self, node: GraphNodeHandle) -> Node {
        self.nodes().table.enter(node)
    }

    /// The graph, for calls of the context's driver.
    pub(crate) fn live(&self) -> Live<'_, GraphHandle> {
        // SAFETY: the graph is destroyed when its object is dropped, or by the end of a capture into it. From before that capture
        // begins until it has ended, only the capture itself locks the graph (`is_captured`), and if it has failed, nobody does
        // (`was_destroyed`). A body belongs to a node of a graph that whoever uses the body keeps. The lock excludes other threads,
        // from the graphs inside of its nodes too.
        unsafe { Live::new(self.object.handle()) }
    }

    /// Makes a change by several calls of the driver. If it fails, or unwinds, nobody can use the graph any more.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(Live<'_, GraphHandle>) -> Result<R>) -> Result<R> {
        self.break_off();
        let changed = change(self.live())?;
        self.tree.is_broken = false;
        Ok(changed)
    }

    /// A capture into the graph has begun, or has ended without failing. In between, nobody else locks the graph.
    pub(crate) fn set_captured(&mut self, is_captured: bool) {
        self.tree.is_captured = is_captured;
    }

    /// From now on, nobody can use the graph.
    pub(crate) fn break_off(&mut self) {
        self.tree.is_broken = true;
    }

    /// The driver's handle of a node, if it belongs to this graph.
    pub fn find(&self, node: Node) -> Option<Live<'_, GraphNodeHandle>> {
        let handle = self.tree.graphs.get(&self.object.id)?.table.find(node)?;
        // SAFETY: the table has nodes of this graph only, and those that are removed from the graph leave it. The lock excludes
        // other threads.
        Some(unsafe { Live::new(handle) })
    }

    /// How many levels of graphs there are in its nodes, or more if nodes were removed.
    pub fn levels_below(&self) -> usize {
        self.tree.levels.saturating_sub(self.object.level())
    }

    /// Notes that there are so many levels of graphs in a node.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if they are too many.
    pub fn add_levels(&mut self, levels: usize, operation: &'static str) -> Result<()> {
        let levels = self.object.level() + levels;
        if levels > MOST_LEVELS {
            return Err(too_deep(operation).at(self.object.place()));
        }
        self.tree.levels = self.tree.levels.max(levels);
        Ok(())
    }

    /// Notes that there are so many levels of graphs below the outermost graph.
    pub fn note_levels(&mut self, levels: usize) {
        self.tree.levels = self.tree.levels.max(levels);
    }

    /// What is true of the graph around this one, with all that is in its nodes.
    pub fn traits(&self) -> GraphTraits {
        self.tree.traits
    }

    /// Notes what is true of something that is about to be added.
    pub fn note(&mut self, traits: GraphTraits) {
        self.tree.traits.add(traits);
    }

    /// The conditional values of the graph and its bodies, in the order in which they were created.
    pub(crate) fn values(&self) -> &[ConditionalHandle] {
        &self.tree.values
    }

    /// Notes a conditional value.
    pub(crate) fn add_value(&mut self, value: ConditionalHandle) {
        self.tree.values.push(value);
    }

    /// Forgets a node that was removed, and what is in its bodies.
    pub fn remove(&mut self, node: Node) -> Vec<Released> {
        let nodes = self.nodes();
        nodes.table.remove(node);
        nodes.conditionals.remove(&node);
        let mut bodies = nodes.bodies.remove(&node).unwrap_or_default();
        let retained = &mut self.tree.retained;
        let mut released = vec![retained.remove(node)];
        while let Some((body, _)) = bodies.pop() {
            released.extend(self.tree.retained.nodes_of(body).into_iter().map(|node| self.tree.retained.remove(node)));
            let inside = self.tree.graphs.remove(&body);
            bodies.extend(inside.into_iter().flat_map(|inside| inside.bodies.into_values()).flatten());
        }
        released
    }

    /// The driver's handle of a node.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if it is not one of this graph.
    pub fn node(&self, node: Node, operation: &'static str) -> Result<Live<'_, GraphNodeHandle>> {
        self.find(node).ok_or_else(|| {
            let message = if node.graph() == self.object.id {
                "the node was removed from its graph"
            } else {
                "the node belongs to another graph"
            };
            Error::argument(Status::INVALID_VALUE, operation, message)
                .with_hint("use nodes of this very graph; a clone has nodes of its own, which find_in_clone returns")
                .at(self.object.place())
        })
    }

    /// The driver's handles of nodes.
    ///
    /// # Errors
    /// Same as [`node`](Self::node).
    pub fn dependencies(&self, nodes: &[(Node, EdgeData)], operation: &'static str) -> Result<Vec<Dependency>> {
        nodes.iter().map(|&(node, data)| Ok(Dependency { node: self.node(node, operation)?.handle(), data })).collect()
    }

    /// What a conditional node was added with, and its bodies.
    pub fn conditional(&self, node: Node) -> Option<ConditionalNode> {
        let nodes = self.tree.graphs.get(&self.object.id)?;
        let bodies = nodes.bodies.get(&node)?.iter().map(|&(_, handle)| handle).collect();
        Some(ConditionalNode { bodies, ..nodes.conditionals.get(&node)?.clone() })
    }

    /// Notes a conditional node with its bodies.
    pub fn add_conditional(&mut self, node: Node, parameters: ConditionalNode, bodies: Vec<GraphHandle>) {
        self.nodes().conditionals.insert(node, parameters);
        let bodies = bodies.into_iter().map(|body| (next_graph_id(), body)).collect();
        self.nodes().bodies.insert(node, bodies);
    }

    /// A body of a conditional node.
    pub fn body(&self, node: Node, index: usize) -> Option<Arc<GraphObject>> {
        let object = self.object;
        let &(id, handle) = self.tree.graphs.get(&object.id)?.bodies.get(&node)?.get(index)?;
        let mut around = SmallVec::from_slice(&[object.id]);
        around.extend_from_slice(&object.around);
        Some(Arc::new(GraphObject {
            context: object.context.clone(),
            handle: AtomicUsize::new(handle.as_raw()),
            id,
            around,
            tree: object.tree.clone(),
            label: Label::new(&object.context, ObjectHandle::Graph(handle)),
        }))
    }

    /// Notes memory whose allocation was captured, and the part of it that the graph does not free.
    pub fn has_captured(&mut self, memory: Vec<Range<u64>>, left: Vec<Range<u64>>) {
        self.tree.captured.extend(memory);
        self.tree.left.extend(left);
    }

    /// Whether there is memory whose allocation was captured.
    pub(crate) fn has_captured_memory(&self) -> bool {
        !self.tree.captured.is_empty()
    }

    /// Notes memory that a node allocates.
    pub fn allocates(&mut self, memory: Range<u64>) {
        self.tree.left.push(memory);
    }

    /// Notes that a node frees memory.
    pub fn frees(&mut self, address: DevicePointer) {
        self.tree.left.retain(|memory| memory.start != address.0);
    }

    /// The memory that a launch leaves allocated.
    pub fn left(&self) -> &[Range<u64>] {
        &self.tree.left
    }

    /// Refuses a graph that cannot be captured again.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if it allocates memory in captured work, or has conditional nodes.
    pub fn require_recapturable(&self, operation: &'static str) -> Result<()> {
        let has_bodies = self.tree.graphs.values().any(|nodes| !nodes.bodies.is_empty());
        if !self.has_captured_memory() && !has_bodies {
            return Ok(());
        }
        let message = "a graph that allocates memory, or has conditional nodes, cannot be captured again";
        Err(Error::argument(Status::NOT_SUPPORTED, operation, message)
            .with_hint("capture a new graph")
            .at(self.object.place()))
    }

    /// Refuses a node that fills memory whose allocation was captured. Other nodes read that memory, and may only read what
    /// was written. `may_be_any`: an executable graph was updated, and its node may do what another fill node of the graph does.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)`.
    pub fn refuse_initializer(
        &self,
        node: Live<'_, GraphNodeHandle>,
        may_be_any: bool,
        operation: &'static str,
    ) -> Result<()> {
        if !self.has_captured_memory() {
            return Ok(());
        }
        let context = &self.object.context;
        let (driver, call) = (context.driver(), context.call(operation));
        // Some kinds of nodes cannot be read, and none of those fills.
        if driver.graph_node_kind(&call, node).during(operation, || self.object.place())? != GraphNodeKind::FILL {
            return Ok(());
        }
        let parameters = driver.graph_node_parameters(&call, node).during(operation, || self.object.place())?;
        let NodeParameters::Fill(fill) = parameters else { return Ok(()) };
        let filled = fill.address.0;
        let fills_captured = self.tree.captured.iter().any(|memory| memory.contains(&filled));
        if fills_captured || may_be_any {
            let message = if fills_captured {
                "the node fills memory that the graph allocates, and other nodes read"
            } else {
                "since the update, the node may fill memory that the graph allocates, and other nodes read"
            };
            return Err(Error::argument(Status::INVALID_VALUE, operation, message)
                .with_hint("capture the graph again to fill the memory in another way")
                .at(self.object.place()));
        }
        Ok(())
    }

    /// What the graph and its bodies retain.
    pub fn retained(&self) -> &RetainedByNode {
        &self.tree.retained
    }

    /// What the graph retains, to be changed.
    pub fn retained_mut(&mut self) -> &mut RetainedByNode {
        &mut self.tree.retained
    }
}

impl Drop for GraphObject {
    fn drop(&mut self) {
        let handle = self.handle();
        if self.is_body() || handle.is_null() {
            return;
        }
        let (context, tree) = (self.context.clone(), self.tree.clone());
        reaper::now_or_later(move || {
            let operation = "destroying a graph";
            // SAFETY: the handle was owned by the value being dropped, and whatever uses the graph or its nodes holds a
            // reference to that.
            let result = unsafe { context.driver().graph_destroy(&context.call(operation), handle) };
            drop_error::report(result.during(operation, || context.place()));
            // What the nodes refer to is released after them.
            drop(tree);
        });
    }
}
