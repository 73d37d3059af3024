//! Copies of graphs.

use super::ancestors::AncestorSets;
use super::conditional::ConditionalValue;
use super::instances::FEW;
use super::node::{Action, ConditionalAction, Node};
use super::state::{Contents, GraphState, Place};
use anabranch_hal::{Failure, GraphNodeHandle, Result, Status};
use std::sync::Arc;

impl GraphState {
    /// A copy with everything inside of it. Nodes keep their numbers.
    pub(crate) fn copy(&self, place: Place) -> Arc<Self> {
        let source = self.lock();
        let copy = self.new_beside(place);
        copy.become_copy(&source, source.conditionals.clone(), |node| match &*node.action {
            Action::Child(child) => Arc::new(Action::Child(child.copy(place.of_child()))),
            Action::Conditional(conditional) => {
                let bodies = conditional.bodies.iter().map(|body| body.copy(Place::Body)).collect();
                Arc::new(Action::Conditional(ConditionalAction { bodies, ..*conditional }))
            }
            _ => Arc::clone(&node.action),
        });
        copy
    }

    /// A copy that this graph knows of.
    pub(super) fn copy_noted(&self, place: Place) -> Arc<Self> {
        let copy = self.copy(place);
        let mut contents = self.lock();
        contents.clones.retain(|clone| clone.strong_count() > 0);
        contents.clones.push(Arc::downgrade(&copy));
        copy
    }

    /// Becomes a copy of another graph, with other values, whose nodes do what `action_of` returns. The graphs in the actions
    /// are younger than this one, because graphs are locked from the oldest on.
    pub(crate) fn become_copy(
        self: &Arc<Self>,
        source: &Contents,
        conditionals: Vec<ConditionalValue>,
        action_of: impl Fn(&Node) -> Arc<Action>,
    ) {
        let nodes = source.nodes.iter().map(|(&number, node)| {
            let state = node.state.copy_for(self.weak());
            (number, Node { state, source: node.state.id, action: action_of(node), ..node.clone() })
        });
        let contents = Contents {
            nodes: nodes.collect(),
            next_number: source.next_number,
            sinks_made: source.sinks_made,
            marks: source.marks,
            blocks: source.blocks.clone(),
            ancestors: AncestorSets::default(),
            conditionals,
            instances: Vec::new(),
            most_instances: FEW,
            clones: Vec::new(),
        };
        *self.lock() = contents;
    }

    /// A clone as callers ask for one. `CUDA_ERROR_NOT_SUPPORTED (801)` when it owns memory or graphs, or is one of a
    /// conditional node's.
    pub(crate) fn clone_graph(&self) -> Result<Arc<Self>> {
        if self.place == Place::Body || self.lock().marks.own_something() {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        Ok(self.copy_noted(Place::Alone))
    }

    /// The node that was copied from the one with this number and id. `CUDA_ERROR_INVALID_VALUE (1)` when there is
    /// none.
    pub(crate) fn find_copy(&self, number: u64, id: u64) -> Result<GraphNodeHandle> {
        let contents = self.lock();
        let node = contents.nodes.get(&number).filter(|node| node.source == id);
        node.map(|node| node.state.handle()).ok_or(Failure::new(Status::INVALID_VALUE))
    }
}
