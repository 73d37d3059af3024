//! Graphs with nodes that have been disabled, which drivers do not run in their turn everywhere.

use super::{ExecutableCore, LAUNCHING, State};
use crate::error::{Error, Result, ResultExt};
use crate::graph_traits::GraphTraits;
use anabranch_hal::{Capabilities, GraphNodeHandle, GraphNodeKind, Live, Status};

impl ExecutableCore {
    /// Refuses an update of a graph that fills memory of its own, if a node is disabled: nodes keep their places, and the place may
    /// be that of the node which fills the memory afterwards.
    pub(super) fn refuse_to_move_disabled(&self, state: &State, operation: &'static str) -> Result<()> {
        if state.disabled.is_empty() || !self.has_captured_memory {
            return Ok(());
        }
        let message = "a node is disabled, and an update may let it fill the memory that the graph allocates";
        Err(Error::argument(Status::INVALID_VALUE, operation, message)
            .with_hint("enable the nodes before the update, and disable none of those that fill memory behind it")
            .at(self.source.place()))
    }

    /// Refuses to disable a node, if the driver is not known to run what is left. NVIDIA's driver (CUDA 13.0) runs graphs that begin
    /// with a disabled fill before the event that the stream waits for, and what comes behind them before them; and it loses the
    /// context, now and then, by two launches of a graph that begins with a disabled node before a conditional one.
    pub(super) fn refuse_to_disable(
        &self,
        node: Live<'_, GraphNodeHandle>,
        traits: GraphTraits,
        operation: &'static str,
    ) -> Result<()> {
        let context = &self.context;
        if context.device().can(Capabilities::DISABLED_NODES_BESIDE_CONTEXTS) {
            return Ok(());
        }
        let refuse = |message: &str, hint| {
            Err(Error::argument(Status::NOT_SUPPORTED, operation, message).with_hint(hint).at(self.source.place()))
        };
        let kind = context.driver().graph_node_kind(&context.call(operation), node);
        let kind = kind.during(operation, || self.source.place())?;
        // The driver refuses others.
        let can_be_disabled = [GraphNodeKind::KERNEL, GraphNodeKind::COPY, GraphNodeKind::FILL].contains(&kind);
        if traits.has_conditions && can_be_disabled {
            return refuse(
                "the driver may fail to run a graph of which a node is disabled and another one is conditional",
                "make the node's work conditional too, or launch it in a graph of its own",
            );
        }
        if kind != GraphNodeKind::FILL {
            return Ok(());
        }
        refuse(
            "the driver does not keep the order of graphs of which a fill node is disabled",
            "fill by a kernel, or give the node memory that nothing else uses",
        )
    }

    /// Refuses to launch a graph of which a node has been disabled, if its work may come behind work of another context and the driver
    /// is not known to keep that order. NVIDIA's driver (CUDA 13.0) runs such a graph before its turn in a stream of another context,
    /// and random programs of two contexts read wrong values in its own streams too.
    #[cold]
    pub(super) fn refuse_beside_other_contexts(&self, is_elsewhere: bool) -> Result<()> {
        let context = &self.context;
        let is_in_order = context.device().can(Capabilities::DISABLED_NODES_BESIDE_CONTEXTS);
        if is_in_order || !(is_elsewhere || context.is_beside_others()) {
            return Ok(());
        }
        let message = if is_elsewhere {
            "nodes of the graph have been disabled, and the stream belongs to another context".to_owned()
        } else {
            format!(
                "nodes of the graph have been disabled, and {} has other contexts or green contexts",
                context.place()
            )
        };
        Err(Error::argument(Status::NOT_SUPPORTED, LAUNCHING, message).at(self.source.place()).with_hint(
            "the driver may run such a graph before work of other contexts that it comes behind: disable nodes only in programs with \
             one context for each device, or instantiate the graph again and give its nodes other work",
        ))
    }
}
