//! What nodes do, replaced by what is captured anew.

use super::add::Adder;
use super::node::{Action, NodeState};
use super::replace::{attributes_stay, replaceable};
use super::state::GraphState;
use anabranch_hal::{AddedNode, Dependency, EdgeData, Failure, NodeParameters, RecaptureRecord, Result, Status};
use std::sync::Arc;

/// A recapture of a graph.
#[derive(Debug)]
pub(crate) struct Recapture {
    record: RecaptureRecord,
    /// The lowest number that the next node can have.
    next: u64,
}

fn mismatch(what: &str) -> Failure {
    Failure::argument(Status::INVALID_VALUE, what)
}

impl Recapture {
    pub(crate) fn new(record: &RecaptureRecord) -> Self {
        Self { record: record.clone(), next: 0 }
    }

    /// Whether all nodes were captured again.
    pub(crate) fn is_complete(&self, graph: &GraphState) -> bool {
        graph.lock().nodes.range(self.next..).next().is_none()
    }

    /// Replaces what the next node of the graph does. `CUDA_ERROR_INVALID_VALUE (1)` where it is of another kind or has other
    /// edges, and for a change that is refused: the recapture has failed.
    ///
    /// # Safety
    /// As for [`GraphState::add_node`].
    pub(crate) unsafe fn add_node(
        &mut self,
        graph: &GraphState,
        dependencies: &[Dependency],
        parameters: NodeParameters,
    ) -> Result<AddedNode> {
        let mut before = Vec::with_capacity(dependencies.len());
        // SAFETY: the caller promises that the nodes of `dependencies` exist.
        unsafe { graph.check_dependencies(dependencies, &mut before) }?;
        let (state, old) = self.next_node(graph, &mut before, &parameters)?;
        let address = match (&*old, &parameters) {
            (Action::Allocate(old), NodeParameters::Allocate(new)) => {
                if old.parameters.device != new.device || old.parameters.bytes != new.bytes {
                    return Err(mismatch("a recapture cannot allocate other memory than the graph does"));
                }
                Some(old.parameters.address)
            }
            (Action::Free(old), NodeParameters::Free(new)) => {
                if old.address != *new {
                    return Err(mismatch("a recapture cannot free other memory than the graph does"));
                }
                None
            }
            _ => {
                // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
                let new = unsafe { graph.make_action(Adder::Capture, &before, parameters) }?;
                self.replace(graph, &state, &old, new)?;
                None
            }
        };
        self.next = state.number + 1;
        Ok(AddedNode { node: state.handle(), address, bodies: Vec::new() })
    }

    /// The node that comes next, if it is of the kind that is captured and has these edges.
    fn next_node(
        &self,
        graph: &GraphState,
        before: &mut [(u64, EdgeData)],
        parameters: &NodeParameters,
    ) -> Result<(Arc<NodeState>, Arc<Action>)> {
        let contents = graph.lock();
        let (_, node) = contents
            .nodes
            .range(self.next..)
            .next()
            .ok_or_else(|| mismatch("a recapture cannot make more nodes than the graph has"))?;
        if node.kind() != parameters.kind() {
            return Err(mismatch("a recapture cannot make a node of another kind than the graph has in its place"));
        }
        let mut edges = node.before.clone();
        edges.sort_unstable_by_key(|&(from, _)| from);
        before.sort_unstable_by_key(|&(from, _)| from);
        if edges != *before {
            return Err(mismatch("a recapture cannot make a node depend on others than it does in the graph"));
        }
        Ok((Arc::clone(&node.state), Arc::clone(&node.action)))
    }

    fn replace(&self, graph: &GraphState, state: &Arc<NodeState>, old: &Action, new: Action) -> Result<()> {
        if !does_the_same(old, &new) {
            let stays = match &new {
                Action::Kernel(kernel) => attributes_stay(old, &kernel.parameters),
                _ => true,
            };
            let is_updatable = stays && replaceable(&graph.memory.table, old, &new).is_ok();
            self.record.note(state.handle(), is_updatable)?;
        }
        let before = std::mem::replace(&mut graph.lock().node_mut(state.number)?.action, Arc::new(new));
        // Dropped without the lock.
        drop(before);
        Ok(())
    }
}

/// Whether nodes of a kind have the same parameters.
fn does_the_same(old: &Action, new: &Action) -> bool {
    match (old, new) {
        (Action::Kernel(old), Action::Kernel(new)) => old.parameters == new.parameters,
        (Action::Copy(old), Action::Copy(new)) => old.parameters == new.parameters,
        (Action::Fill(old), Action::Fill(new)) => old == new,
        (Action::Host(old), Action::Host(new)) => old == new,
        (Action::Empty, Action::Empty) => true,
        (Action::EventWait(old), Action::EventWait(new)) | (Action::EventRecord(old), Action::EventRecord(new)) => {
            Arc::ptr_eq(old, new)
        }
        (Action::ExternalSignal(old), Action::ExternalSignal(new))
        | (Action::ExternalWait(old), Action::ExternalWait(new)) => old.parameters == new.parameters,
        (Action::Values(old), Action::Values(new)) => old.parameters == new.parameters,
        _ => false,
    }
}
