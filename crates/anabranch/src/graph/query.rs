//! Looking at a graph: its nodes, edges, kinds and parameters.

use super::{Graph, GraphEdge, Node};
use crate::error::{Result, ResultExt};
use anabranch_hal::{Edge, EdgeData, GraphNodeKind, NodeParameters};

impl Graph {
    /// All nodes.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn nodes(&self) -> Result<Vec<Node>> {
        let mut state = self.object.lock();
        let context = self.object.context();
        // SAFETY: the graph is live and locked.
        let handles = unsafe { context.driver().graph_nodes(context.handle(), self.as_raw()) }
            .during("listing a graph's nodes", || self.object.place())?;
        Ok(handles.into_iter().map(|handle| state.nodes.enter(handle)).collect())
    }

    /// The nodes that depend on none.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn root_nodes(&self) -> Result<Vec<Node>> {
        let mut state = self.object.lock();
        let context = self.object.context();
        // SAFETY: the graph is live and locked.
        let handles = unsafe { context.driver().graph_root_nodes(context.handle(), self.as_raw()) }
            .during("listing a graph's root nodes", || self.object.place())?;
        Ok(handles.into_iter().map(|handle| state.nodes.enter(handle)).collect())
    }

    /// All edges, with their data.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn edges(&self) -> Result<Vec<GraphEdge>> {
        let mut state = self.object.lock();
        let context = self.object.context();
        // SAFETY: the graph is live and locked.
        let edges = unsafe { context.driver().graph_edges(context.handle(), self.as_raw()) }
            .during("listing a graph's edges", || self.object.place())?;
        let mut edge =
            |Edge { from, to, data }| GraphEdge { from: state.nodes.enter(from), to: state.nodes.enter(to), data };
        Ok(edges.into_iter().map(&mut edge).collect())
    }

    /// The nodes that a node depends on, with the data of the edges.
    ///
    /// # Errors
    /// 1 when the node is not of this graph.
    pub fn dependencies_of(&self, node: Node) -> Result<Vec<(Node, EdgeData)>> {
        self.require(node, "listing a node's dependencies")?;
        let edges = self.edges()?.into_iter().filter(|edge| edge.to == node);
        Ok(edges.map(|edge| (edge.from, edge.data)).collect())
    }

    /// The nodes that depend on a node, with the data of the edges.
    ///
    /// # Errors
    /// 1 when the node is not of this graph.
    pub fn dependents_of(&self, node: Node) -> Result<Vec<(Node, EdgeData)>> {
        self.require(node, "listing a node's dependents")?;
        let edges = self.edges()?.into_iter().filter(|edge| edge.from == node);
        Ok(edges.map(|edge| (edge.to, edge.data)).collect())
    }

    fn require(&self, node: Node, operation: &'static str) -> Result<()> {
        self.object.node(&self.object.lock(), node, operation).map(|_| ())
    }

    /// The kind of a node.
    ///
    /// # Errors
    /// 1 when the node is not of this graph.
    pub fn node_kind(&self, node: Node) -> Result<GraphNodeKind> {
        let operation = "asking for a node's kind";
        let state = self.object.lock();
        let handle = self.object.node(&state, node, operation)?;
        let context = self.object.context();
        // SAFETY: the node is of this graph, which is locked.
        unsafe { context.driver().graph_node_kind(context.handle(), handle) }.during(operation, || self.object.place())
    }

    /// What the driver says of a node's parameters. Handles in it are borrowed: they are valid as long as the graph.
    ///
    /// # Errors
    /// 1 when the node is not of this graph; 801 where the driver cannot say.
    pub fn node_parameters(&self, node: Node) -> Result<NodeParameters> {
        let operation = "asking for a node's parameters";
        let state = self.object.lock();
        let handle = self.object.node(&state, node, operation)?;
        let context = self.object.context();
        // SAFETY: the node is of this graph, which is locked.
        unsafe { context.driver().graph_node_parameters(context.handle(), handle) }
            .during(operation, || self.object.place())
    }
}
