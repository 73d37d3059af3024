//! Nodes, added and removed.

use super::node::{Action, NodeState};
use super::state::{GraphState, Place};
use anabranch_hal::{
    AddedNode, Dependency, Failure, GraphNodeHandle, GraphNodeKind, Live, NodeParameters, Result, Status,
};
use std::sync::Arc;

/// What adds a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adder {
    /// A call for the graph.
    Call,
    /// A capture.
    Capture,
}

impl GraphState {
    /// Adds a node, checked as hardware checks it, to this graph, which may be one that a capture makes.
    ///
    /// # Safety
    /// The nodes of `dependencies` and the objects of the handles in the parameters exist, kernels as long as the node and
    /// its copies do; what the node does at each launch is sound.
    pub(crate) unsafe fn add_node(
        &self,
        adder: Adder,
        dependencies: &[Dependency],
        parameters: NodeParameters,
    ) -> Result<AddedNode> {
        if self.place == Place::Child && matches!(parameters.kind(), GraphNodeKind::ALLOCATE | GraphNodeKind::FREE) {
            return Err(Failure::argument(Status::NOT_SUPPORTED, "the graph of a node cannot allocate or free memory"));
        }
        // SAFETY: the caller promises that the objects of the handles exist.
        unsafe { self.check_objects(&parameters) }?;
        let to_kernel = matches!(parameters, NodeParameters::Kernel(_));
        // SAFETY: the caller promises that the nodes of `dependencies` exist.
        let before = unsafe { self.check_dependencies(dependencies) }?;
        // Memory is taken last.
        if matches!(parameters, NodeParameters::Allocate(_)) {
            self.lock().check_all_data(&before, to_kernel)?;
        }
        // What a node needs is made without the lock, because another graph, or this one, may be copied for it. As on
        // hardware, what is wrong with it is told before what is wrong with the data of edges.
        // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
        let action = unsafe { self.make_action(adder, &before, parameters) }?;
        self.lock().check_all_data(&before, to_kernel)?;
        if let Action::Conditional(conditional) = &action {
            self.root()?.lock().use_conditional(conditional.handle)?;
        }
        let mut contents = self.lock();
        match &action {
            Action::Allocate(allocate) => allocate.block.note_allocation(),
            Action::Free(free) => free.block.note_free(contents.allocates(&free.block)),
            _ => {}
        }
        let mut node = contents.make_node(self.weak(), action);
        contents.link(&before, node.state.number);
        node.before = before;
        let added = AddedNode {
            node: node.state.handle(),
            address: match &*node.action {
                Action::Allocate(allocate) => Some(allocate.parameters.address),
                _ => None,
            },
            bodies: match &*node.action {
                Action::Conditional(conditional) => conditional.bodies.iter().map(|body| body.handle()).collect(),
                _ => Vec::new(),
            },
        };
        contents.nodes.insert(node.state.number, node);
        Ok(added)
    }

    /// Removes a node and its edges.
    pub(crate) fn remove_node(&self, number: u64) -> Result<()> {
        let mut contents = self.lock();
        if contents.marks.memory {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        contents.unlink_all(number);
        let node = contents.nodes.remove(&number);
        drop(contents);
        // Dropped without the lock.
        let node = node.ok_or(Failure::new(Status::INVALID_VALUE))?;
        self.release_conditionals(&node.action);
        Ok(())
    }
}

/// Whether a conditional node can run nodes of that kind.
pub(crate) fn can_be_in_body(kind: GraphNodeKind) -> bool {
    matches!(
        kind,
        GraphNodeKind::KERNEL
            | GraphNodeKind::COPY
            | GraphNodeKind::FILL
            | GraphNodeKind::EMPTY
            | GraphNodeKind::CHILD
            | GraphNodeKind::CONDITIONAL
    )
}

/// The graph of a node, and the node's number in it.
pub(crate) fn locate(node: Live<'_, GraphNodeHandle>) -> Result<(Arc<GraphState>, u64)> {
    let node = NodeState::of(node)?;
    Ok((node.graph()?, node.number))
}
