//! Graphs that become nodes of a capture.

use crate::context::other_context;
use crate::error::Result;
use crate::graph_object::GraphObject;
use crate::memory::MemoryAccess;
use crate::stream::OpenStream;
use crate::submission::Submission;
use anabranch_hal::NodeParameters;

const OPERATION: &str = "capturing a graph";

impl OpenStream {
    /// Captures a node that runs a copy of a graph. The capture uses the memory that the graph uses, and retains what it
    /// retains. If the driver refuses the graph, no graph comes of the capture.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if the stream is not capturing, or in strict order; `CUDA_ERROR_INVALID_HANDLE (400)`
    /// for a graph of another context; `CUDA_ERROR_NOT_SUPPORTED (801)` for a graph that allocates memory or has conditional
    /// nodes, for more than [`MOST_LEVELS`](crate::graph_object::MOST_LEVELS) levels of graphs, and in a recapture.
    #[track_caller]
    pub fn capture_child(&self, child: &GraphObject) -> Result<()> {
        if !child.context().is_same(self.context()) {
            return Err(other_context(OPERATION, "graph", self.place()));
        }
        let (memory, levels) = {
            let guard = child.lock(OPERATION)?;
            let memory: Vec<_> =
                guard.retained().all().memory().map(|(memory, access)| (memory.clone(), access)).collect();
            (memory, guard.levels_below())
        };
        let submission = Submission::begin(self, OPERATION)?;
        let capture = submission.capturing().ok_or_else(|| self.not_capturing(OPERATION))?;
        capture.refuse_in_recapture(self, OPERATION)?;
        capture.open_child(levels, OPERATION).map_err(|error| error.at(self.place()))?;
        let accesses = memory.iter().map(|&(ref memory, access)| MemoryAccess { memory, access });
        let _excluding = submission.order(accesses.clone())?;
        capture.change(|| {
            // The graph is copied, and stays as it is meanwhile.
            let guard = child.lock(OPERATION)?;
            self.add_captured_node(OPERATION, &NodeParameters::Child(child.handle()))?;
            capture.retain_all(&guard);
            Ok(())
        })?;
        submission.finish(accesses);
        Ok(())
    }
}
