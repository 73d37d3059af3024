//! What an executable graph needs that kernels can launch.
//!
//! No kernel of a host device launches graphs. Such executable graphs are checked as hardware checks them, and launched by
//! the host.

use super::check::refused;
use crate::engine::ContextCore;
use crate::graph::{Action, Contents, GraphState};
use anabranch_hal::{GraphInstantiateResult, Result, Status};
use std::sync::Arc;

/// Refuses a graph without nodes, with nodes other than kernels, copies and fills, or with work of several contexts. Copies
/// belong to the context that instantiates the graph, which is that of the stream for an upload.
pub(super) fn check(graph: &GraphState, current: &Arc<ContextCore>) -> Result<()> {
    let contents = graph.lock();
    let mut first = None;
    check_nodes(&contents, &graph.core, current, &mut first)?;
    // Child graphs without nodes are no work.
    match first {
        Some(_) => Ok(()),
        None => Err(refused(Status::INVALID_VALUE, GraphInstantiateResult::ERROR, None)),
    }
}

fn check_nodes(
    graph: &Contents,
    core: &Arc<ContextCore>,
    current: &Arc<ContextCore>,
    first: &mut Option<u64>,
) -> Result<()> {
    graph.nodes.values().try_for_each(|node| {
        let refused = |result| Err(refused(Status::INVALID_VALUE, result, Some(node.state.handle())));
        let context = match &*node.action {
            Action::Kernel(kernel) => kernel.core.id,
            Action::Copy(_) => current.id,
            Action::Fill(_) => core.id,
            Action::Child(child) => return check_nodes(&child.lock(), &child.core, current, first),
            _ => return refused(GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED),
        };
        if *first.get_or_insert(context) == context {
            Ok(())
        } else {
            refused(GraphInstantiateResult::MULTIPLE_CONTEXTS_NOT_SUPPORTED)
        }
    })
}
