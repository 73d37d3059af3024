//! Which node refers to what.

use super::{References, Released, Retained, RetainedMemory};
use crate::error::Error;
use crate::node::Node;
use std::collections::HashMap;
use std::sync::Arc;

/// What a graph retains, with the nodes that refer to it, as far as that is known.
#[derive(Clone, Default)]
pub struct RetainedByNode {
    all: Retained,
    nodes: HashMap<Node, Arc<References>>,
}

impl RetainedByNode {
    /// What no node in particular refers to.
    pub fn of_all(all: Retained) -> Self {
        Self { all, nodes: HashMap::new() }
    }

    /// Everything.
    pub fn all(&self) -> &Retained {
        &self.all
    }

    /// Takes the memory out, when nothing else is done with this any more than to drop it.
    pub fn take_memory(&mut self) -> Vec<RetainedMemory> {
        self.all.take_memory()
    }

    /// Retains everything that another one retains, whatever becomes of the nodes.
    pub fn merge(&mut self, other: &Retained) {
        self.all.merge(other);
    }

    /// Retains what a node is about to refer to.
    pub fn hold(&mut self, references: &References) {
        self.all.hold(references);
    }

    /// After a call that was to give work to a node: what is [held](Self::hold) belongs to that node from now on, which does
    /// not refer to what it referred to before. If the call was refused, nothing refers to it. If that is not known, it is
    /// retained as long as the graph, beside what the node referred to before.
    pub fn settle(&mut self, references: References, given: Result<Node, &Error>) -> Released {
        match given {
            Ok(node) => match self.nodes.insert(node, Arc::new(references)) {
                Some(before) => self.all.release(&before),
                None => Released::default(),
            },
            Err(error) if error.is_without_effect() => self.all.release(&references),
            Err(_) => Released::default(),
        }
    }

    /// Releases what a node referred to, which was removed.
    pub fn remove(&mut self, node: Node) -> Released {
        self.nodes.remove(&node).map_or_else(Released::default, |before| self.all.release(&before))
    }

    /// The nodes of a graph of that id that refer to something.
    pub fn nodes_of(&self, graph: u64) -> Vec<Node> {
        self.nodes.keys().copied().filter(|node| node.graph() == graph).collect()
    }
}
