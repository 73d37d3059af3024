//! Graphs made ready to be launched.

use crate::{ContextHandle, ExecutableGraphHandle, GraphHandle, GraphNodeHandle, NodeParameters, Result, StreamHandle};
use bitflags::bitflags;

bitflags! {
    /// How a graph is made ready (`CUgraphInstantiate_flags`). Bits unknown to the driver are refused with 1.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct InstantiateFlags: u32 {
        /// Memory that the graph allocated and that is not freed is freed before the next launch.
        const AUTO_FREE_ON_LAUNCH = 0x1;
        /// It is uploaded at once, in the order of the stream that is given.
        const UPLOAD = 0x2;
        /// It can be launched from the device.
        const DEVICE_LAUNCH = 0x4;
        /// Nodes run with the priorities of their own, and not with that of the stream.
        const USE_NODE_PRIORITY = 0x8;
    }
}

/// Why a graph could not be made ready (`CUgraphInstantiateResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct GraphInstantiateResult(pub u32);

impl GraphInstantiateResult {
    /// It could.
    pub const SUCCESS: Self = Self(0);
    /// The status says why.
    pub const ERROR: Self = Self(1);
    /// The structure is not valid, such as a circle.
    pub const INVALID_STRUCTURE: Self = Self(2);
    /// A node cannot be launched from the device.
    pub const NODE_OPERATION_NOT_SUPPORTED: Self = Self(3);
    /// Nodes are of several contexts, and that cannot be launched from the device.
    pub const MULTIPLE_CONTEXTS_NOT_SUPPORTED: Self = Self(4);
    /// A conditional value is not used by any node.
    pub const CONDITIONAL_HANDLE_UNUSED: Self = Self(5);

    /// The reason in one clause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::SUCCESS => "nothing is wrong",
            Self::INVALID_STRUCTURE => "its structure is not valid, such as a circle",
            Self::NODE_OPERATION_NOT_SUPPORTED => "a node cannot be launched from the device",
            Self::MULTIPLE_CONTEXTS_NOT_SUPPORTED => "nodes of several contexts cannot be launched from the device",
            Self::CONDITIONAL_HANDLE_UNUSED => "a conditional value is used by no node",
            _ => "the driver does not say why",
        }
    }
}

/// Why an executable graph could not be updated (`CUgraphExecUpdateResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct GraphUpdateResult(pub u32);

impl GraphUpdateResult {
    /// It could.
    pub const SUCCESS: Self = Self(0);
    /// The status says why.
    pub const ERROR: Self = Self(1);
    /// Nodes or edges differ.
    pub const TOPOLOGY_CHANGED: Self = Self(2);
    /// A node is of another kind.
    pub const NODE_KIND_CHANGED: Self = Self(3);
    /// A kernel is another one, and the driver is too old to change that.
    pub const FUNCTION_CHANGED: Self = Self(4);
    /// Parameters differ in a way that an update cannot change.
    pub const PARAMETERS_CHANGED: Self = Self(5);
    /// A node cannot be updated at all.
    pub const NOT_SUPPORTED: Self = Self(6);
    /// A kernel is another one, of another context or with other needs.
    pub const UNSUPPORTED_FUNCTION_CHANGE: Self = Self(7);
    /// A node's attributes differ in a way that an update cannot change.
    pub const ATTRIBUTES_CHANGED: Self = Self(8);

    /// The reason in one clause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::SUCCESS => "nothing is wrong",
            Self::TOPOLOGY_CHANGED => "nodes or edges differ",
            Self::NODE_KIND_CHANGED => "a node is of another kind",
            Self::FUNCTION_CHANGED => "a kernel is another one",
            Self::PARAMETERS_CHANGED => "parameters differ that an update cannot change",
            Self::NOT_SUPPORTED => "a node cannot be updated",
            Self::UNSUPPORTED_FUNCTION_CHANGE => "a kernel is another one, of another context or with other needs",
            Self::ATTRIBUTES_CHANGED => "attributes differ that an update cannot change",
            _ => "the driver does not say why",
        }
    }
}

/// Executable graphs: made, changed, launched. They are graphs of their own; see [`Graphs`](crate::Graphs) for what that
/// means for threads.
pub trait ExecutableGraphs {
    /// Makes a graph ready to be launched. The upload, if flagged, goes to `upload`. What is wrong is in the failure's
    /// detail.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn graph_instantiate(
        &self,
        context: ContextHandle,
        graph: GraphHandle,
        flags: InstantiateFlags,
        upload: Option<StreamHandle>,
    ) -> Result<ExecutableGraphHandle>;

    /// Destroys an executable graph. Never blocks: a launch that is queued or runs is done first.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn executable_destroy(&self, context: ContextHandle, executable: ExecutableGraphHandle) -> Result<()>;

    /// The flags it was made with.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn executable_flags(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
    ) -> Result<InstantiateFlags>;

    /// Makes resources ready in the stream's order, so that the first launch need not.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn executable_upload(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Launches it in the stream's order, and behind all its own earlier launches.
    ///
    /// # Safety
    /// The handle rule; what its nodes do is sound at this place.
    unsafe fn executable_launch(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        stream: StreamHandle,
    ) -> Result<()>;

    /// Takes over the parameters of all nodes from a graph of the same structure, from the next launch on. 910 when that
    /// cannot be, with the reason and the node in the failure's detail.
    ///
    /// # Safety
    /// As [`graph_add_node`](crate::Graphs::graph_add_node), for all nodes.
    unsafe fn executable_update(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        graph: GraphHandle,
    ) -> Result<()>;

    /// Replaces the parameters of one node, from the next launch on. The node is that of the graph it was made from.
    ///
    /// # Safety
    /// As [`graph_add_node`](crate::Graphs::graph_add_node).
    unsafe fn executable_set_node_parameters(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> Result<()>;

    /// Lets a kernel, copy or fill do nothing, or do its work again, from the next launch on.
    ///
    /// # Safety
    /// The handle rule; what its nodes do is still sound.
    unsafe fn executable_set_node_enabled(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
        enabled: bool,
    ) -> Result<()>;

    /// Whether a kernel, copy or fill does its work.
    ///
    /// # Safety
    /// The handle rule.
    unsafe fn executable_node_enabled(
        &self,
        context: ContextHandle,
        executable: ExecutableGraphHandle,
        node: GraphNodeHandle,
    ) -> Result<bool>;
}
