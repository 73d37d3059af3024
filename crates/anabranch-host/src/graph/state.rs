//! A graph: its nodes and edges, behind one lock.
//!
//! Nodes have numbers in the order of their making. A copy of a graph keeps the numbers, and each of its nodes knows which
//! one it was copied from.

use super::conditional::ConditionalValue;
use super::node::{Action, Node, NodeState};
use super::retain::Retention;
use crate::context::ContextCore;
use crate::executable::ExecutableState;
use crate::handles;
use anabranch_hal::{Failure, GraphHandle, GraphNodeHandle, GraphNodeKind, Result, Retained, Status};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Numbers for nodes of all graphs: no two nodes are ever taken for each other.
static NEXT_NODE_ID: AtomicU64 = AtomicU64::new(1);

/// A graph.
pub(crate) struct GraphState {
    this: Weak<Self>,
    pub(crate) core: Arc<ContextCore>,
    pub(super) retention: Arc<Retention>,
    /// Whether it is run by a conditional node, which not every kind of node can be.
    pub(super) is_body: bool,
    contents: Mutex<Contents>,
}

/// What a graph consists of.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// By number.
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(super) next_number: u64,
    pub(crate) conditionals: Vec<ConditionalValue>,
    /// The newest executable graph made from it.
    pub(super) instance: Weak<ExecutableState>,
}

impl GraphState {
    /// An empty graph. Its handle is valid while somebody keeps it, such as [`ContextCore::graphs`].
    pub(crate) fn new(core: &Arc<ContextCore>) -> Arc<Self> {
        Self::with(core, Arc::default(), false, Contents::default())
    }

    pub(super) fn with(
        core: &Arc<ContextCore>,
        retention: Arc<Retention>,
        is_body: bool,
        contents: Contents,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            core: Arc::clone(core),
            retention,
            is_body,
            contents: Mutex::new(contents),
        })
    }

    /// The handle, which is its address.
    pub(crate) fn handle(&self) -> GraphHandle {
        GraphHandle::from_raw(std::ptr::from_ref(self) as usize)
    }

    /// Another share in this graph. `None`: it is being dropped.
    #[allow(dead_code, reason = "captures need it")]
    pub(crate) fn share(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    pub(super) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.this)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }

    /// Keeps an object for as long as the graph, a copy of it, or an executable graph made from one of them is there.
    pub(crate) fn retain(&self, object: Retained) {
        self.retention.add(object);
    }

    /// The number of a node. 1 when it is one of another graph, or was removed.
    ///
    /// # Safety
    /// The handle rule.
    pub(crate) unsafe fn number_of(&self, node: GraphNodeHandle) -> Result<u64> {
        // SAFETY: the caller's word.
        let node = unsafe { handles::node(node) }?;
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
        Node::new(NodeState::new(graph, number), 0, Arc::new(action))
    }

    /// A node by number; 1 when it was removed.
    pub(crate) fn node(&self, number: u64) -> Result<&Node> {
        self.nodes.get(&number).ok_or(Failure::new(Status::INVALID_VALUE))
    }

    pub(crate) fn node_mut(&mut self, number: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&number).ok_or(Failure::new(Status::INVALID_VALUE))
    }

    /// Whether it allocates or frees memory, which forbids much. The graphs inside of its nodes count too.
    pub(crate) fn has_memory_nodes(&self) -> bool {
        self.nodes.values().any(|node| match &*node.action {
            Action::Allocate(_) | Action::Free(_) => true,
            Action::Child(child) => child.lock().has_memory_nodes(),
            _ => false,
        })
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
