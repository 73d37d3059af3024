//! Recaptures: captures that replace what the nodes of a graph do.

use super::{CaptureEnd, CaptureState, Whole};
use crate::context::ContextCore;
use crate::error::{Error, Result};
use crate::graph_object::GraphObject;
use crate::lost_context::is_lost;
use crate::node::Node;
use crate::stream::StreamCore;
use anabranch_hal::{Failure, RecaptureRecord, Status};
use std::sync::Arc;

/// A node that does something else after a recapture than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecapturedNode {
    /// The node, which is the same as before.
    pub node: Node,
    /// Whether an executable graph that was made from the graph before can be updated with the change.
    pub is_updatable: bool,
}

impl CaptureState {
    /// A recapture of a graph that is about to begin on a stream.
    pub fn again(origin: &StreamCore, graph: &Arc<GraphObject>, end: CaptureEnd, record: RecaptureRecord) -> Arc<Self> {
        Self::new_with(origin, Some(graph), Whole::Itself, end, Some(record))
    }

    /// Refuses work if an earlier call of the recapture has failed. The driver may have ended the capture then, and would run the
    /// work.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)`.
    pub fn refuse_failed(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if self.recapture.is_none() || !self.inner.lock().has_failed {
            return Ok(());
        }
        let message = "an earlier call of the recapture has failed, and with it the recapture";
        Err(Error::argument(Status::STREAM_CAPTURE_INVALIDATED, operation, message)
            .with_hint("end the capture, and capture the graph anew")
            .at(stream.place()))
    }

    /// Refuses what a recapture cannot capture. The recapture goes on.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)`.
    pub fn refuse_in_recapture(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if self.recapture.is_none() {
            return Ok(());
        }
        Err(Error::argument(
            Status::NOT_SUPPORTED,
            operation,
            "a recapture captures neither allocations nor conditions nor other graphs",
        )
        .with_hint("capture a new graph instead; what is only allocated can be allocated before the recapture")
        .at(stream.place()))
    }

    /// Called if the driver has refused work of the capture, which ends a recapture.
    pub fn work_has_failed(&self) {
        self.inner.lock().has_failed |= self.recapture.is_some();
    }

    /// The nodes that a recapture has changed, after it has ended well.
    ///
    /// # Errors
    /// Same as [`GraphObject::lock`].
    pub fn recaptured(&self, operation: &'static str) -> Result<Vec<RecapturedNode>> {
        let (Some(into), Some(record)) = (&self.into, &self.recapture) else { return Ok(Vec::new()) };
        let mut graph = into.lock(operation)?;
        let nodes = record.nodes().into_iter();
        Ok(nodes.map(|each| RecapturedNode { node: graph.enter(each.node), is_updatable: each.is_updatable }).collect())
    }

    /// Called if the driver's end of the capture has failed. In a lost context it does not say whether the capture has ended: it
    /// may use the record for ever.
    pub fn end_has_failed(&self, context: &ContextCore, failure: &Failure) {
        if is_lost(context.driver(), &context.call("asking whether a context is lost"), failure) {
            std::mem::forget(self.recapture.clone());
        }
    }
}
