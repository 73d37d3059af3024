//! The graph that a capture makes.

use crate::engine::ContextCore;
use crate::graph::{Adder, GraphState, Node, Recapture};
use crate::memory::HostMemory;
use anabranch_hal::{
    AddedNode, Dependency, EdgeData, Failure, GraphHandle, GraphNodeHandle, Live, NodeParameters, RecaptureRecord,
    Result, Status,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The graph that a capture makes, or that it adds to.
#[derive(Debug)]
pub(crate) struct CaptureGraph {
    graph: Arc<GraphState>,
    /// The graph was there before, and stays its owner's unless the capture fails.
    existing: bool,
    /// Nodes of the graph are replaced, and none added.
    recapture: Option<Recapture>,
}

impl CaptureGraph {
    /// A new graph.
    pub(super) fn create(core: &Arc<ContextCore>, memory: &Arc<HostMemory>) -> Self {
        Self { graph: GraphState::new(core, memory), existing: false, recapture: None }
    }

    /// A graph that exists.
    pub(super) fn existing(graph: Live<'_, GraphHandle>) -> Result<Self> {
        let graph = GraphState::of(graph)?.share();
        Ok(Self { graph: graph.ok_or(Failure::new(Status::INVALID_VALUE))?, existing: true, recapture: None })
    }

    /// A graph that exists, whose nodes are to be replaced.
    pub(super) fn recaptured(graph: Live<'_, GraphHandle>, record: &RecaptureRecord) -> Result<Self> {
        Ok(Self { recapture: Some(Recapture::new(record)), ..Self::existing(graph)? })
    }

    /// Whether a node that is refused ends the capture.
    pub(super) fn is_recapture(&self) -> bool {
        self.recapture.is_some()
    }

    /// Whether a recapture has replaced all nodes.
    pub(super) fn is_complete(&self) -> bool {
        self.recapture.as_ref().is_none_or(|recapture| recapture.is_complete(&self.graph))
    }

    pub(super) fn handle(&self) -> GraphHandle {
        self.graph.handle()
    }

    /// `CUDA_ERROR_INVALID_VALUE (1)` when a node does not belong to the graph, or no edge from it has that data.
    ///
    /// # Safety
    /// The nodes of `dependencies` exist.
    pub(super) unsafe fn check(&self, dependencies: &[Dependency]) -> Result<()> {
        // SAFETY: the caller promises that the nodes of `dependencies` exist.
        unsafe { self.graph.check_edges_from(dependencies, true) }
    }

    /// Adds a node, or replaces what the next one does.
    ///
    /// # Safety
    /// As for [`GraphState::add_node`].
    pub(super) unsafe fn add_node(
        &mut self,
        dependencies: &[Dependency],
        parameters: NodeParameters,
    ) -> Result<AddedNode> {
        if let Some(recapture) = &mut self.recapture {
            // SAFETY: the caller promises that the nodes and the objects of the handles exist, and that the node is sound.
            return unsafe { recapture.add_node(&self.graph, dependencies, parameters) };
        }
        // SAFETY: the caller promises that the nodes and the objects of the handles exist, and that the node is sound.
        unsafe { self.graph.add_node(Adder::Capture, dependencies, parameters) }
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

    /// Counts the sinks among some nodes anew.
    pub(super) fn renew_sinks(&self, nodes: &[Dependency]) {
        // SAFETY: the nodes are of the graph, or somebody promised that they exist until the capture ends.
        let numbers = nodes.iter().filter_map(|node| self.graph.number_of(unsafe { Live::new(node.node) }).ok());
        let numbers: Vec<_> = numbers.map(|number| (number, EdgeData::default())).collect();
        self.graph.lock().renew_sinks(&numbers);
    }

    /// The graph, and whether it was there before.
    pub(super) fn finish(self) -> (Arc<GraphState>, bool) {
        (self.graph, self.existing)
    }
}
