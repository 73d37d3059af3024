//! Why a graph could not be made ready, or updated. Failures know these reasons, and so they are apart from graphs.

/// Why a graph could not be instantiated (`CUgraphInstantiateResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct GraphInstantiateResult(pub u32);

impl GraphInstantiateResult {
    /// The graph was instantiated.
    pub const SUCCESS: Self = Self(0);
    /// The status gives the reason.
    pub const ERROR: Self = Self(1);
    /// The structure of the graph is invalid. For example, it has a cycle.
    pub const INVALID_STRUCTURE: Self = Self(2);
    /// A node cannot be launched from the device, or be in the body of a conditional node.
    pub const NODE_OPERATION_NOT_SUPPORTED: Self = Self(3);
    /// The nodes belong to several contexts, so the graph cannot be launched from the device, or run by a conditional node.
    pub const MULTIPLE_CONTEXTS_NOT_SUPPORTED: Self = Self(4);
    /// No node uses one of the conditional values.
    pub const CONDITIONAL_HANDLE_UNUSED: Self = Self(5);

    /// The reason, as a clause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::SUCCESS => "nothing is wrong",
            Self::INVALID_STRUCTURE => "its structure is not valid, for example, it has a cycle",
            Self::NODE_OPERATION_NOT_SUPPORTED => {
                "a node is of a kind that cannot be launched from the device, or cannot be in the body of a conditional node"
            }
            Self::MULTIPLE_CONTEXTS_NOT_SUPPORTED => {
                "nodes of several contexts can neither be launched from the device nor run by one conditional node"
            }
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
    /// The executable graph was updated.
    pub const SUCCESS: Self = Self(0);
    /// The status gives the reason.
    pub const ERROR: Self = Self(1);
    /// The graphs have different nodes or edges.
    pub const TOPOLOGY_CHANGED: Self = Self(2);
    /// A node has a different kind.
    pub const NODE_KIND_CHANGED: Self = Self(3);
    /// A node has a different kernel, and the driver is too old to change it.
    pub const FUNCTION_CHANGED: Self = Self(4);
    /// Parameters differ in a way that an update does not support.
    pub const PARAMETERS_CHANGED: Self = Self(5);
    /// A node does not support updates.
    pub const NOT_SUPPORTED: Self = Self(6);
    /// A node has a kernel of a different context, or with different requirements.
    pub const UNSUPPORTED_FUNCTION_CHANGE: Self = Self(7);
    /// Attributes of a node differ in a way that an update does not support.
    pub const ATTRIBUTES_CHANGED: Self = Self(8);

    /// The reason, as a clause.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::SUCCESS => "nothing is wrong",
            Self::TOPOLOGY_CHANGED => "nodes or edges differ",
            Self::NODE_KIND_CHANGED => "a node has a different kind",
            Self::FUNCTION_CHANGED => "a node has a different kernel",
            Self::PARAMETERS_CHANGED => "parameters differ that an update cannot change",
            Self::NOT_SUPPORTED => "a node cannot be updated",
            Self::UNSUPPORTED_FUNCTION_CHANGE => {
                "a node has a kernel of a different context, or with different requirements"
            }
            Self::ATTRIBUTES_CHANGED => "attributes differ that an update cannot change",
            _ => "the driver does not say why",
        }
    }
}
