//! Edges of a graph.

use crate::GraphNodeHandle;

/// What kind of dependency an edge is (`CUgraphDependencyType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EdgeKind(pub u8);

impl EdgeKind {
    /// The later node begins when the earlier one has ended.
    pub const FULL: Self = Self(0);
    /// Between kernels: the later one may begin when the earlier one says so (programmatic dependent launch).
    pub const PROGRAMMATIC: Self = Self(1);
}

/// The data of an edge (`CUgraphEdgeData`). The default is a full dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EdgeData {
    /// Which part of the earlier node's work is waited for. 0 is all of it; a kernel also has 1, its programmatic
    /// trigger, and 2, the start of all of its blocks.
    pub from_port: u8,
    /// Which part of the later node's work waits. 0 is all of it.
    pub to_port: u8,
    /// The kind of the dependency.
    pub kind: EdgeKind,
}

/// A node that another depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dependency {
    /// The earlier node.
    pub node: GraphNodeHandle,
    /// The edge's data.
    pub data: EdgeData,
}

impl From<GraphNodeHandle> for Dependency {
    fn from(node: GraphNodeHandle) -> Self {
        Self { node, data: EdgeData::default() }
    }
}

/// An edge of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The earlier node.
    pub from: GraphNodeHandle,
    /// The node that depends on it.
    pub to: GraphNodeHandle,
    /// The edge's data.
    pub data: EdgeData,
}
