//! What cannot be instantiated.

use super::cycle::find_cycle;
use crate::graph::{Action, Contents, GraphState, can_be_in_body};
use crate::memory::AllocationTable;
use anabranch_hal::{Detail, Failure, GraphInstantiateResult, GraphNodeHandle, Result, Status};

/// Why a graph cannot be instantiated.
pub(crate) fn refused(status: Status, result: GraphInstantiateResult, node: Option<GraphNodeHandle>) -> Failure {
    Failure::with_detail(status, Detail::Instantiate { result, node })
}

impl GraphState {
    /// Refuses values for conditional nodes that no node asks for.
    pub(super) fn refuse_unused_values(&self) -> Result<()> {
        if self.lock().conditionals.iter().all(|value| value.used) {
            return Ok(());
        }
        Err(refused(Status::INVALID_VALUE, GraphInstantiateResult::CONDITIONAL_HANDLE_UNUSED, None))
    }

    /// Refuses nodes that a conditional node cannot run, also kernels and fills of another context than its own.
    pub(super) fn refuse_in_bodies(&self) -> Result<()> {
        check_bodies(&self.lock(), &self.memory.table, None)
    }

    /// Refuses cycles. Hardware has noted by then that an executable graph allocates the memory.
    pub(super) fn refuse_cycles(&self) -> Result<()> {
        let contents = self.lock();
        match find_cycle(&contents) {
            Some(node) => {
                contents.note_instance();
                Err(refused(Status::INVALID_VALUE, GraphInstantiateResult::INVALID_STRUCTURE, Some(node)))
            }
            None => Ok(()),
        }
    }
}

/// `context`: that of the conditional node, if this is a body.
fn check_bodies(graph: &Contents, table: &AllocationTable, context: Option<u64>) -> Result<()> {
    graph.nodes.values().try_for_each(|node| {
        let refused = |result| Err(refused(Status::INVALID_VALUE, result, Some(node.state.handle())));
        if context.is_some() && !can_be_in_body(node.kind()) {
            return refused(GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED);
        }
        match &*node.action {
            Action::Kernel(kernel) if context.is_some_and(|context| context != kernel.core.id) => {
                refused(GraphInstantiateResult::MULTIPLE_CONTEXTS_NOT_SUPPORTED)
            }
            // A fill is work of the context that its memory belongs to.
            Action::Fill(fill)
                if context.is_some() && table.owner_of(fill.address.0).is_some_and(|owner| context != Some(owner)) =>
            {
                refused(GraphInstantiateResult::MULTIPLE_CONTEXTS_NOT_SUPPORTED)
            }
            Action::Child(child) => check_bodies(&child.lock(), table, context),
            Action::Conditional(conditional) => {
                conditional.bodies.iter().try_for_each(|body| check_bodies(&body.lock(), table, Some(body.core.id)))
            }
            _ => Ok(()),
        }
    })
}
