//! What a recapture changes in the nodes of its graph.

use crate::{Failure, GraphNodeHandle, Result, Status};
use anabranch_sync::{Mutex, ranks};
use std::sync::Arc;

ranks! { from 4000;
    /// The nodes that a recapture has changed. Drivers note them while they hold locks of their own.
    RECAPTURED,
}

/// What a recapture may change in the nodes of its graph. It never changes the nodes themselves, their kinds and edges, and
/// what they allocate and free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RecaptureChanges {
    /// All parameters of the nodes.
    #[default]
    Any,
    /// What an executable graph that was made from the graph before can be updated with.
    Updatable,
    /// Nothing: the same work is captured again.
    Nothing,
}

/// A node whose parameters a recapture has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecapturedNode {
    /// The node.
    pub node: GraphNodeHandle,
    /// Whether an executable graph that was made from the graph before can be updated with the change
    /// (`CU_GRAPH_RECAPTURE_ELIGIBLE_FOR_UPDATE`).
    pub is_updatable: bool,
}

/// What a recapture may change, and the nodes that it has changed so far. It stands for the callback of
/// `cuStreamBeginRecaptureToGraph`, so that drivers run no code of the program while they capture. Clones are the same record.
#[derive(Clone, Debug)]
pub struct RecaptureRecord(Arc<Record>);

#[derive(Debug)]
struct Record {
    changes: RecaptureChanges,
    nodes: Mutex<Vec<RecapturedNode>>,
}

impl RecaptureRecord {
    /// A recapture that is about to begin.
    pub fn new(changes: RecaptureChanges) -> Self {
        Self(Arc::new(Record { changes, nodes: Mutex::new(RECAPTURED, Vec::new()) }))
    }

    /// Notes that the parameters of a node change. For drivers.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE (1)` if they may not, which ends the recapture.
    pub fn note(&self, node: GraphNodeHandle, is_updatable: bool) -> Result<()> {
        self.0.note(node, is_updatable)
    }

    /// The record's address, which is the same for its clones. For drivers that give it to a callback.
    pub fn as_raw(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }

    /// Like [`note`](Self::note), with the address of the record.
    ///
    /// # Errors
    ///
    /// As for [`note`](Self::note).
    ///
    /// # Safety
    ///
    /// The address is that of a record, of which somebody keeps a clone during the call.
    pub unsafe fn note_raw(record: *const (), node: GraphNodeHandle, is_updatable: bool) -> Result<()> {
        // SAFETY: the caller promises that the address is that of a record that exists.
        unsafe { &*record.cast::<Record>() }.note(node, is_updatable)
    }

    /// The nodes that have changed, in the order in which they were captured.
    pub fn nodes(&self) -> Vec<RecapturedNode> {
        self.0.nodes.lock().clone()
    }
}

impl Record {
    fn note(&self, node: GraphNodeHandle, is_updatable: bool) -> Result<()> {
        let refused = match self.changes {
            RecaptureChanges::Any => None,
            RecaptureChanges::Updatable if is_updatable => None,
            RecaptureChanges::Updatable => {
                Some("a node changes in a way that executable graphs cannot be updated with")
            }
            RecaptureChanges::Nothing => Some("a node does something else than before"),
        };
        if let Some(why) = refused {
            return Err(Failure::argument(Status::INVALID_VALUE, why));
        }
        self.nodes.lock().push(RecapturedNode { node, is_updatable });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{RecaptureChanges, RecaptureRecord};
    use crate::{GraphNodeHandle, Status};

    #[test]
    fn what_may_not_change_is_refused_and_not_noted() {
        let node = GraphNodeHandle::from_raw;
        let refused = [
            (RecaptureChanges::Any, [false, false]),
            (RecaptureChanges::Updatable, [false, true]),
            (RecaptureChanges::Nothing, [true, true]),
        ];
        for (changes, refused) in refused {
            let record = RecaptureRecord::new(changes);
            for (is_updatable, refused) in [true, false].into_iter().zip(refused) {
                let noted = record.note(node(1 + usize::from(is_updatable)), is_updatable);
                let expected = if refused { Err(Status::INVALID_VALUE) } else { Ok(()) };
                assert_eq!(noted.map_err(|failure| failure.status), expected, "{changes:?} {is_updatable}");
            }
            assert_eq!(record.nodes().len(), refused.iter().filter(|refused| !**refused).count(), "{changes:?}");
        }
    }
}
