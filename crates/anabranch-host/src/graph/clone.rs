//! Copies of graphs.

use super::node::{Action, ConditionalAction, Node};
use super::state::{Contents, GraphState, Instance, Place};
use anabranch_hal::{Failure, GraphNodeHandle, Result, Status};
use std::sync::{Arc, Weak};

impl GraphState {
    /// A copy with everything inside of it. Nodes keep their numbers.
    pub(crate) fn copy(&self, place: Place) -> Arc<Self> {
        let source = self.lock();
        let copy = self.new_beside(place);
        let mut contents = Contents {
            next_number: source.next_number,
            has_memory_nodes: source.has_memory_nodes,
            conditionals: source.conditionals.clone(),
            ..Contents::default()
        };
        for (&number, node) in &source.nodes {
            let action = match &*node.action {
                Action::Child(child) => Arc::new(Action::Child(child.copy(place.of_child()))),
                Action::Conditional(conditional) => Arc::new(Action::Conditional(ConditionalAction {
                    handle: conditional.handle,
                    kind: conditional.kind,
                    bodies: conditional.bodies.iter().map(|body| body.copy(Place::Body)).collect(),
                })),
                _ => Arc::clone(&node.action),
            };
            let mut copied = Node::new(node.state.copy_for(copy.weak()), node.state.id, action);
            copied.before.clone_from(&node.before);
            copied.after.clone_from(&node.after);
            contents.nodes.insert(number, copied);
        }
        drop(source);
        *copy.lock() = contents;
        copy
    }

    /// A clone as callers ask for one. `CUDA_ERROR_NOT_SUPPORTED (801)` when it owns memory or graphs, or is one of a
    /// conditional node's.
    pub(crate) fn clone_graph(&self) -> Result<Arc<Self>> {
        if self.place == Place::Body || self.lock().owns_something() {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        Ok(self.copy(Place::Alone))
    }

    /// The node that was copied from the one with this number and id. `CUDA_ERROR_INVALID_VALUE (1)` when there is
    /// none.
    pub(crate) fn find_copy(&self, number: u64, id: u64) -> Result<GraphNodeHandle> {
        let contents = self.lock();
        let node = contents.nodes.get(&number).filter(|node| node.source == id);
        node.map(|node| node.state.handle()).ok_or(Failure::new(Status::INVALID_VALUE))
    }

    pub(crate) fn set_instance(&self, instance: Weak<dyn Instance>) {
        self.lock().instance = Some(instance);
    }

    pub(crate) fn instance(&self) -> Option<Arc<dyn Instance>> {
        self.lock().instance.as_ref()?.upgrade()
    }
}
