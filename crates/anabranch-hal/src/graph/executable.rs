//! Executable graphs.

use crate::{Call, ExecutableGraphHandle, GraphHandle, GraphNodeHandle, Live, NodeParameters, Result, StreamHandle};
use bitflags::bitflags;

bitflags! {
    /// Flags for instantiating a graph (`CUgraphInstantiate_flags`). The driver refuses unknown bits with
    /// `CUDA_ERROR_INVALID_VALUE (1)`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InstantiateFlags: u32 {
        /// Each launch first frees memory that the graph allocated and that was not freed.
        const AUTO_FREE_ON_LAUNCH = 0x1;
        /// Uploads the executable graph immediately, in the order of the given stream.
        const UPLOAD = 0x2;
        /// The executable graph can be launched from the device.
        const DEVICE_LAUNCH = 0x4;
        /// Each node runs with its own priority instead of that of the stream.
        const USE_NODE_PRIORITY = 0x8;
    }
}

/// Creating, updating and launching executable graphs.
///
/// An executable graph counts as a graph of its own. As with [`Graphs`](crate::Graphs), two threads must not use it at
/// the same time, which a [`Live`] of it promises.
pub trait ExecutableGraphs {
    /// Instantiates a graph (`cuGraphInstantiate`). With [`InstantiateFlags::UPLOAD`] the upload is queued in the
    /// stream `upload`.
    ///
    /// # Errors
    ///
    /// The detail of the failure gives the reason and the node, if they are known. `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph
    /// was asked to add an allocation, a free or a conditional node before an executable graph of it was made that still
    /// exists.
    fn graph_instantiate(
        &self,
        call: &Call<'_>,
        graph: Live<'_, GraphHandle>,
        flags: InstantiateFlags,
        upload: Option<Live<'_, StreamHandle>>,
    ) -> Result<ExecutableGraphHandle>;

    /// Destroys an executable graph. This never blocks. Launches that are queued or running complete normally.
    ///
    /// # Safety
    ///
    /// The executable graph exists, and nobody uses it during the call or afterwards.
    unsafe fn executable_destroy(&self, call: &Call<'_>, executable: ExecutableGraphHandle) -> Result<()>;

    /// Returns the flags that the graph was instantiated with.
    fn executable_flags(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
    ) -> Result<InstantiateFlags>;

    /// Uploads an executable graph in stream order, so that its first launch need not (`cuGraphUpload`).
    fn executable_upload(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Launches an executable graph in stream order. The launch also follows all earlier launches of the same
    /// executable graph.
    ///
    /// # Safety
    ///
    /// What the nodes do must be sound at this point of the stream, and remain sound until the launch is complete.
    unsafe fn executable_launch(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()>;

    /// Takes the parameters of all nodes from a graph with the same structure. Later launches use them.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)` if the update is not possible. The detail of the failure gives the
    /// reason and the node. `CUDA_ERROR_NOT_SUPPORTED (801)` if the graph can have one executable graph only, and has another
    /// one.
    ///
    /// # Safety
    ///
    /// The requirements of [`graph_add_node`](crate::Graphs::graph_add_node) apply to all nodes.
    unsafe fn executable_update(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        graph: Live<'_, GraphHandle>,
    ) -> Result<()>;

    /// Replaces the parameters of one node. Later launches use them. The node is identified by its handle in the graph
    /// that was instantiated.
    ///
    /// # Safety
    ///
    /// The requirements of [`graph_add_node`](crate::Graphs::graph_add_node) apply.
    unsafe fn executable_set_node_parameters(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        parameters: &NodeParameters,
    ) -> Result<()>;

    /// Enables or disables a kernel, copy or fill node for later launches. A disabled node does nothing, but still
    /// orders the nodes before and after it.
    ///
    /// # Safety
    ///
    /// What the nodes do must still be sound.
    unsafe fn executable_set_node_enabled(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
        enabled: bool,
    ) -> Result<()>;

    /// Returns whether a kernel, copy or fill node is enabled.
    fn executable_node_enabled(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        node: Live<'_, GraphNodeHandle>,
    ) -> Result<bool>;
}
