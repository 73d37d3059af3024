//! What is true of a graph as a whole, with the graphs in its nodes.

use anabranch_hal::{EdgeData, NodeParameters, ValueOperation};

/// What may be true of a graph. It stays so when nodes or edges are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphTraits {
    /// Whether a node may have an edge that does not wait for the end of the node before.
    pub has_early_edges: bool,
    /// Whether a node may wait for something that the host does, or for work of another context or process, which may.
    pub waits_for_host: bool,
    /// Whether a node may be conditional.
    pub has_conditions: bool,
}

impl GraphTraits {
    /// Those of edges.
    pub fn of_edges(edges: impl IntoIterator<Item = EdgeData>) -> Self {
        Self { has_early_edges: edges.into_iter().any(|data| data != EdgeData::default()), ..Self::default() }
    }

    /// Those of nodes that are not known.
    pub fn of_unknown_nodes() -> Self {
        Self { waits_for_host: true, has_conditions: true, ..Self::default() }
    }

    /// Those of a node, without its edges and the graph in it.
    pub fn of_node(parameters: &NodeParameters) -> Self {
        let waits_for_host = match parameters {
            NodeParameters::Host(_) | NodeParameters::ExternalWait(_) | NodeParameters::EventWait(_) => true,
            NodeParameters::ValueOperations(operations) => {
                operations.iter().any(|operation| matches!(operation, ValueOperation::Wait { .. }))
            }
            _ => false,
        };
        Self { waits_for_host, has_conditions: matches!(parameters, NodeParameters::Conditional(_)), ..Self::default() }
    }

    /// Those of both.
    pub fn add(&mut self, other: Self) {
        self.has_early_edges |= other.has_early_edges;
        self.waits_for_host |= other.waits_for_host;
        self.has_conditions |= other.has_conditions;
    }
}
