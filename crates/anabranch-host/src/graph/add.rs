//! Nodes, added and removed.

use super::node::{Action, NodeState};
use super::parameters::{child_of, lacks_arguments};
use super::state::{GraphState, Place};
use anabranch_hal::{
    AddedNode, Dependency, Failure, FillNode, FillPattern, GraphNodeHandle, GraphNodeKind, Live, NodeParameters,
    Result, Status,
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

/// What is to be added.
enum Checked {
    /// What the node does.
    Action(Action),
    /// What it is to do, which is looked at after what it depends on.
    Parameters(NodeParameters),
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
        let to_kernel = matches!(parameters, NodeParameters::Kernel(_));
        // SAFETY: the caller promises all that this asks for.
        let checked = unsafe { self.check_first(dependencies, parameters) }?;
        let mut before = Vec::with_capacity(dependencies.len());
        // SAFETY: the caller promises that the nodes of `dependencies` exist.
        let dependencies = unsafe { self.check_dependencies(dependencies, &mut before) };
        // What a node needs is made without the lock, because another graph, or this one, may be copied for it.
        let action = dependencies.and_then(|()| match checked {
            Checked::Action(action) => Ok(action),
            // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
            Checked::Parameters(parameters) => unsafe { self.make_action(adder, &before, parameters) },
        });
        let action = match action {
            Ok(action) => action,
            Err(failure) => {
                self.lock().renew_sinks(&before);
                return Err(failure);
            }
        };
        // Of a capture, it was looked at when the stream was made to depend on the nodes, as if a kernel were to come.
        if adder == Adder::Call {
            self.lock().check_all_data(&before, to_kernel)?;
        }
        if let Action::Conditional(conditional) = &action {
            self.root()?.lock().use_conditional(conditional.handle)?;
        }
        let mut contents = self.lock();
        match &action {
            Action::Allocate(allocate) => allocate.block.note_allocation(),
            Action::Free(free) => free.block.note_free(contents.blocks.allocates(&free.block)),
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
        contents.blocks.note(node.state.number, &node.action);
        contents.nodes.insert(node.state.number, node);
        Ok(added)
    }

    /// Looks at what hardware looks at before what a new node depends on: kernels but for missing arguments, fills of 64 bits or of
    /// an address that is not aligned, child graphs, and nodes of memory.
    ///
    /// # Safety
    /// As for [`add_node`](Self::add_node).
    unsafe fn check_first(&self, dependencies: &[Dependency], parameters: NodeParameters) -> Result<Checked> {
        let marks_memory = match &parameters {
            // SAFETY: the caller promises that the function exists.
            NodeParameters::Kernel(kernel) if !unsafe { lacks_arguments(kernel) } => {
                // SAFETY: the caller promises that the function exists, and that the node is sound.
                return unsafe { self.make_plain(parameters) }.map(Checked::Action);
            }
            // The driver is never asked, because its nodes have no such patterns.
            NodeParameters::Fill(FillNode { pattern: FillPattern::U64(_), .. }) => {
                return Err(Failure::argument(Status::INVALID_VALUE, "a node fills with patterns of 1, 2 or 4 bytes"));
            }
            NodeParameters::Fill(fill) if !fill.address.0.is_multiple_of(fill.pattern.width() as u64) => {
                // SAFETY: as the caller promises.
                return unsafe { self.make_plain(parameters) }.map(Checked::Action);
            }
            NodeParameters::Child(child) => {
                // SAFETY: the caller promises that the graph exists.
                child_of(unsafe { Live::new(*child) })?;
                false
            }
            NodeParameters::Allocate(allocation) => {
                self.check_allocation(allocation)?;
                true
            }
            NodeParameters::Free(_) => true,
            _ => false,
        };
        if marks_memory {
            // SAFETY: the caller promises that the nodes of `dependencies` exist.
            unsafe { self.check_edges_from(dependencies, false) }?;
            self.lock().marks.memory = true;
        }
        Ok(Checked::Parameters(parameters))
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
