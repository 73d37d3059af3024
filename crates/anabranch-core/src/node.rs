//! Nodes, as programs identify them.

use anabranch_hal::{EdgeData, GraphNodeHandle};
use std::collections::HashMap;

/// A node of one graph. Using it with another graph, or after it was removed, is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    graph: u64,
    number: u64,
}

impl Node {
    /// The id of its graph.
    pub fn graph(self) -> u64 {
        self.graph
    }

    /// Its number within its graph, from 0, in the order in which nodes became known. Numbers are not reused.
    pub fn number(self) -> u64 {
        self.number
    }
}

/// The known nodes of a graph.
pub struct NodeTable {
    graph: u64,
    next: u64,
    handles: HashMap<u64, GraphNodeHandle>,
    numbers: HashMap<GraphNodeHandle, u64>,
}

impl NodeTable {
    /// An empty table for the graph of that id.
    pub fn new(graph: u64) -> Self {
        Self { graph, next: 0, handles: HashMap::new(), numbers: HashMap::new() }
    }

    /// The node of that handle.
    pub fn enter(&mut self, handle: GraphNodeHandle) -> Node {
        let number = *self.numbers.entry(handle).or_insert_with(|| {
            let number = self.next;
            self.next += 1;
            self.handles.insert(number, handle);
            number
        });
        Node { graph: self.graph, number }
    }

    /// The handle of a node.
    pub fn find(&self, node: Node) -> Option<GraphNodeHandle> {
        if node.graph == self.graph { self.handles.get(&node.number).copied() } else { None }
    }

    /// Forgets a node that was removed, whose handle the driver may reuse.
    pub fn remove(&mut self, node: Node) {
        if let Some(handle) = self.handles.remove(&node.number) {
            self.numbers.remove(&handle);
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// The nodes that a new one depends on: `()` or `[]` for none, a [`Node`], a list of nodes, or a list of nodes with the
/// data of the edges.
pub trait Dependencies: sealed::Sealed {
    /// The nodes with their edges' data.
    #[doc(hidden)]
    fn list(&self) -> Vec<(Node, EdgeData)>;
}

macro_rules! dependencies {
    ($([$($generics:tt)*] $list:ty, $this:ident => $result:expr;)*) => { $(
        impl<$($generics)*> sealed::Sealed for $list {}

        impl<$($generics)*> Dependencies for $list {
            fn list(&self) -> Vec<(Node, EdgeData)> {
                let $this = self;
                $result
            }
        }
    )* };
}

fn plain(nodes: &[Node]) -> Vec<(Node, EdgeData)> {
    nodes.iter().map(|&node| (node, EdgeData::default())).collect()
}

dependencies! {
    [] (), _nothing => Vec::new();
    [] Node, node => vec![(*node, EdgeData::default())];
    [] &[Node], nodes => plain(nodes);
    [] &Vec<Node>, nodes => plain(nodes);
    [const N: usize] [Node; N], nodes => plain(nodes);
    [const N: usize] &[Node; N], nodes => plain(&nodes[..]);
    [] &[(Node, EdgeData)], nodes => nodes.to_vec();
    [] &Vec<(Node, EdgeData)>, nodes => nodes.to_vec();
    [const N: usize] [(Node, EdgeData); N], nodes => nodes.to_vec();
}
