//! The graph that a capture makes.

use crate::context::ContextCore;
use crate::graph::{GraphState, Node};
use crate::handles;
use anabranch_hal::{AddedNode, Dependency, Failure, GraphHandle, GraphNodeHandle, NodeParameters, Result, Status};
use std::collections::HashMap;
use std::sync::Arc;

/// The graph that a capture makes, or that it adds to.
#[derive(Debug)]
pub(crate) struct CaptureGraph {
    graph: Arc<GraphState>,
    /// The graph was there before, and stays its owner's unless the capture fails.
    existing: bool,
}

impl CaptureGraph {
    /// A new graph.
    pub(super) fn create(core: &Arc<ContextCore>) -> Self {
        Self { graph: GraphState::new(core), existing: false }
    }

    /// A graph that exists.
    ///
    /// # Safety
    /// The handle rule.
    pub(super) unsafe fn existing(graph: GraphHandle) -> Result<Self> {
        // SAFETY: the caller's word.
        let graph = unsafe { handles::graph(graph) }?.share();
        Ok(Self { graph: graph.ok_or(Failure::new(Status::INVALID_VALUE))?, existing: true })
    }

    pub(super) fn handle(&self) -> GraphHandle {
        self.graph.handle()
    }

    /// 1 when one of the nodes is not of the graph.
    ///
    /// # Safety
    /// The handle rule.
    pub(super) unsafe fn check(&self, dependencies: &[Dependency]) -> Result<()> {
        // SAFETY: the caller's word.
        dependencies.iter().try_for_each(|dependency| unsafe { self.graph.number_of(dependency.node) }.map(|_| ()))
    }

    /// Adds a node.
    ///
    /// # Safety
    /// The handle rule, for the node's parameters too.
    pub(super) unsafe fn add_node(&self, dependencies: &[Dependency], parameters: NodeParameters) -> Result<AddedNode> {
        // SAFETY: the caller's word.
        unsafe { self.graph.add_node(dependencies, parameters) }
    }

    /// The nodes that each node depends on, as the graph has it now.
    pub(super) fn parents(&self) -> HashMap<GraphNodeHandle, Vec<GraphNodeHandle>> {
        let contents = self.graph.lock();
        let before = |node: &Node| {
            node.before
                .iter()
                .filter_map(|(number, _)| contents.nodes.get(number))
                .map(|node| node.state.handle())
                .collect()
        };
        contents.nodes.values().map(|node| (node.state.handle(), before(node))).collect()
    }

    /// The capture has failed. Hardware destroys a graph that was there before, too.
    pub(super) fn give_up(self) {
        if self.existing {
            drop(self.graph.core.graphs.remove(self.graph.handle().as_raw()));
        }
    }

    /// The graph, which is now the caller's, or was already.
    pub(super) fn finish(self) -> GraphHandle {
        let handle = self.graph.handle();
        if !self.existing {
            self.graph.core.graphs.insert(Arc::clone(&self.graph));
        }
        handle
    }
}
