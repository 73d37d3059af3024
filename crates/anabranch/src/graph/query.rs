//! The contents of a graph: nodes, edges, kinds and parameters.

use super::Graph;
use crate::error::Result;
use crate::event::Event;
use anabranch_core::graph::GraphEdge;
use anabranch_core::node::Node;
use anabranch_hal::{EdgeData, GraphNodeKind, NodeParameters};

impl Graph {
    /// All nodes.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn nodes(&self) -> Result<Vec<Node>> {
        self.object.nodes()
    }

    /// The nodes without dependencies.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn root_nodes(&self) -> Result<Vec<Node>> {
        self.object.root_nodes()
    }

    /// All edges, with their data.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    #[track_caller]
    pub fn edges(&self) -> Result<Vec<GraphEdge>> {
        self.object.edges()
    }

    /// The nodes that a node depends on, with the data of the edges. It looks through all edges: for many nodes, ask for
    /// [`edges`](Self::edges) once.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the node does not belong to this graph.
    #[track_caller]
    pub fn dependencies_of(&self, node: Node) -> Result<Vec<(Node, EdgeData)>> {
        self.object.require(node, "listing a node's dependencies")?;
        let edges = self.edges()?.into_iter().filter(|edge| edge.to == node);
        Ok(edges.map(|edge| (edge.from, edge.data)).collect())
    }

    /// The nodes that depend on a node, with the data of the edges. It looks through all edges: for many nodes, ask for
    /// [`edges`](Self::edges) once.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the node does not belong to this graph.
    #[track_caller]
    pub fn dependents_of(&self, node: Node) -> Result<Vec<(Node, EdgeData)>> {
        self.object.require(node, "listing a node's dependents")?;
        let edges = self.edges()?.into_iter().filter(|edge| edge.from == node);
        Ok(edges.map(|edge| (edge.to, edge.data)).collect())
    }

    /// The kind of a node.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the node does not belong to this graph.
    #[track_caller]
    pub fn node_kind(&self, node: Node) -> Result<GraphNodeKind> {
        self.object.node_kind(node)
    }

    /// The parameters of a node as the driver reports them. Handles in them are borrowed: they are valid as long as the
    /// graph.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if the node does not belong to this graph;
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the driver does not report it.
    #[track_caller]
    pub fn node_parameters(&self, node: Node) -> Result<NodeParameters> {
        self.object.node_parameters(node)
    }

    /// The event that a node records or waits for. It stays usable when the graph has let go of it. `None` for other nodes, and
    /// if the graph does not keep the event: another library has added the node.
    ///
    /// # Errors
    /// Same as [`node_parameters`](Self::node_parameters).
    #[track_caller]
    pub fn node_event(&self, node: Node) -> Result<Option<Event>> {
        Ok(self.object.node_event(node)?.map(Event::of_raw))
    }
}
