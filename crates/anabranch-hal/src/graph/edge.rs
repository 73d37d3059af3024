//! Edges of a graph.

use crate::GraphNodeHandle;

/// The kind of a dependency (`CUgraphDependencyType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct EdgeKind(pub u8);

impl EdgeKind {
    /// The later node begins when the earlier node has completed.
    pub const FULL: Self = Self(0);
    /// The later node, a kernel, may begin when the earlier node, a kernel, signals it (programmatic dependent launch).
    pub const PROGRAMMATIC: Self = Self(1);
}

/// The data of an edge (`CUgraphEdgeData`). The default is a full dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EdgeData {
    /// Which part of the earlier node the edge waits for. 0 means its completion. For a kernel, 1 means its
    /// programmatic trigger and 2 means the start of all its blocks.
    pub from_port: u8,
    /// Which part of the later node waits. 0 means all of it.
    pub to_port: u8,
    /// The kind of the dependency.
    pub kind: EdgeKind,
}

/// A node that another node depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dependency {
    /// The earlier node.
    pub node: GraphNodeHandle,
    /// The data of the edge.
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
    /// The later node, which depends on the earlier one.
    pub to: GraphNodeHandle,
    /// The data of the edge.
    pub data: EdgeData,
}
