//! A graph: its nodes and edges, behind one lock.
//!
//! Nodes have numbers in the order of their making. A copy of a graph keeps the numbers, and each of its nodes knows which
//! one it was copied from.

use super::ancestors::AncestorSets;
use super::conditional::ConditionalValue;
use super::memory::BlockUses;
use super::node::{Action, Node, NodeState};
use crate::engine::{ContextCore, Position};
use crate::handles::handle;
use crate::memory::HostMemory;
use crate::ranks;
use anabranch_hal::{Failure, GraphHandle, GraphNodeHandle, GraphNodeKind, Live, Result, Status};
use anabranch_sync::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Numbers for nodes of all graphs: no two nodes are ever taken for each other.
static NEXT_NODE_ID: AtomicU64 = AtomicU64::new(1);

/// Numbers for graphs, in whose order they are locked: a graph is older than those in its nodes.
static NEXT_GRAPH: AtomicU64 = AtomicU64::new(0);

/// A graph.
pub(crate) struct GraphState {
    this: Weak<Self>,
    pub(crate) core: Arc<ContextCore>,
    pub(crate) memory: Arc<HostMemory>,
    pub(crate) place: Place,
    /// The graph that the values of conditional nodes belong to. `None`: this one.
    root: Option<Weak<Self>>,
    contents: Mutex<Contents>,
}

/// Where a graph is, which decides what nodes it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere but in its handle.
    Alone,
    /// In a node.
    Child,
    /// In a conditional node, or in a node of such a graph.
    Body,
}

impl Place {
    /// Where the graph of a node is.
    pub(super) fn of_child(self) -> Self {
        if self == Self::Body { Self::Body } else { Self::Child }
    }
}

/// What a graph consists of.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// By number.
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(super) next_number: u64,
    /// How often a node became a sink.
    pub(super) sinks_made: u64,
    /// The values of conditional nodes of this graph, and of those inside of it.
    pub(crate) conditionals: Vec<ConditionalValue>,
    /// What it was ever asked for that forbids other calls. The graphs of its nodes do not count.
    pub(crate) marks: Marks,
    pub(super) blocks: BlockUses,
    pub(super) ancestors: AncestorSets,
    /// The executable graphs that were made or updated from it, from the first on.
    pub(crate) instances: Vec<Made>,
    /// Of how many it is looked next which of them there still are.
    pub(super) most_instances: usize,
    /// The graphs that were cloned from it, for callers or for nodes.
    pub(super) clones: Vec<Weak<GraphState>>,
}

/// What restricts a graph for as long as it exists, also when a node is refused or removed. Hardware notes it before it looks
/// at what the node depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// An allocation or a free: nothing can be removed any more.
    pub(crate) memory: bool,
    /// A value for a conditional node.
    pub(crate) value: bool,
}

/// An executable graph that was made or updated from a graph.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) instance: Weak<dyn Instance>,
    /// Whether the graph was marked as one with memory then.
    pub(crate) with_memory: bool,
    /// Whether it was made from another graph.
    pub(crate) updated: bool,
}

impl Marks {
    /// Whether nodes own memory or graphs, which forbids clones, a second executable graph, and being a child.
    pub(crate) fn own_something(self) -> bool {
        self.memory || self.value
    }
}

/// An executable graph, as the graph knows it that it was made from.
pub(crate) trait Instance: fmt::Debug + Send + Sync {
    /// Whether its handle is destroyed. Launches may still run.
    fn is_destroyed(&self) -> bool;

    /// Its last launch.
    fn last_launch(&self) -> Option<Position>;
}

handle!(GraphState, GraphHandle, INVALID_VALUE);
handle!(NodeState, GraphNodeHandle, INVALID_VALUE);

impl GraphState {
    /// An empty graph. Its handle is valid while somebody keeps it.
    pub(crate) fn new(core: &Arc<ContextCore>, memory: &Arc<HostMemory>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            core: Arc::clone(core),
            memory: Arc::clone(memory),
            place: Place::Alone,
            root: None,
            contents: Mutex::with_order(ranks::GRAPH, NEXT_GRAPH.fetch_add(1, Ordering::Relaxed), Contents::default()),
        })
    }

    /// An empty graph of the same context.
    pub(crate) fn new_beside(&self, place: Place) -> Arc<Self> {
        self.new_with_root(place, None)
    }

    /// An empty graph for a conditional node of this graph.
    pub(super) fn new_body(&self) -> Arc<Self> {
        self.new_with_root(Place::Body, Some(self.root.clone().unwrap_or_else(|| self.weak())))
    }

    fn new_with_root(&self, place: Place, root: Option<Weak<Self>>) -> Arc<Self> {
        let order = NEXT_GRAPH.fetch_add(1, Ordering::Relaxed);
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            core: Arc::clone(&self.core),
            memory: Arc::clone(&self.memory),
            place,
            root,
            contents: Mutex::with_order(ranks::GRAPH, order, Contents::default()),
        })
    }

    /// The handle, which is its address.
    pub(crate) fn handle(&self) -> GraphHandle {
        GraphHandle::from_raw(std::ptr::from_ref(self) as usize)
    }

    /// Another reference to this graph. `None`: it is being dropped.
    pub(crate) fn share(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// The graph that the values of conditional nodes belong to: this one, or the one that this is inside of.
    pub(super) fn root(&self) -> Result<Arc<Self>> {
        self.root.as_ref().unwrap_or(&self.this).upgrade().ok_or(Failure::new(Status::INVALID_VALUE))
    }

    pub(super) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.this)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }

    /// The number of a node. `CUDA_ERROR_INVALID_VALUE (1)` when it is one of another graph, or was removed.
    pub(crate) fn number_of(&self, node: Live<'_, GraphNodeHandle>) -> Result<u64> {
        let node = NodeState::of(node)?;
        if std::ptr::eq(node.graph.as_ptr(), self) {
            Ok(node.number)
        } else {
            Err(Failure::argument(Status::INVALID_VALUE, "a node belongs to another graph"))
        }
    }
}

impl Contents {
    /// A new node without edges, not yet entered.
    pub(super) fn make_node(&mut self, graph: Weak<GraphState>, action: Action) -> Node {
        let number = self.next_number;
        self.next_number += 1;
        let sink_since = self.note_sink();
        Node { sink_since, ..Node::new(NodeState::new(graph, number), 0, Arc::new(action)) }
    }

    /// Counts a node that becomes a sink.
    pub(super) fn note_sink(&mut self) -> u64 {
        self.sinks_made += 1;
        self.sinks_made
    }

    /// A node by number; `CUDA_ERROR_INVALID_VALUE (1)` when it was removed.
    pub(crate) fn node(&self, number: u64) -> Result<&Node> {
        self.nodes.get(&number).ok_or(Failure::new(Status::INVALID_VALUE))
    }

    pub(crate) fn node_mut(&mut self, number: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&number).ok_or(Failure::new(Status::INVALID_VALUE))
    }
}

impl NodeState {
    fn new(graph: Weak<GraphState>, number: u64) -> Arc<Self> {
        Arc::new(Self { graph, number, id: NEXT_NODE_ID.fetch_add(1, Ordering::Relaxed) })
    }

    pub(super) fn copy_for(&self, graph: Weak<GraphState>) -> Arc<Self> {
        Self::new(graph, self.number)
    }

    pub(crate) fn handle(&self) -> GraphNodeHandle {
        GraphNodeHandle::from_raw(std::ptr::from_ref(self) as usize)
    }

    /// The graph that it is a node of.
    pub(crate) fn graph(&self) -> Result<Arc<GraphState>> {
        self.graph.upgrade().ok_or(Failure::new(Status::INVALID_VALUE))
    }
}

impl Node {
    pub(crate) fn kind(&self) -> GraphNodeKind {
        self.action.kind()
    }
}

impl fmt::Debug for GraphState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GraphState").field("core", &self.core.id).finish_non_exhaustive()
    }
}
