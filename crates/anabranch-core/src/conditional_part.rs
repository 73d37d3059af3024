//! Parts of a capture that run on a condition.
//!
//! A part is captured into a graph of its own, and then put into the body of a conditional node: as a child, or, if it
//! has conditional nodes itself, node by node, because no driver accepts a child with conditional nodes. Until then, an
//! empty node is the placeholder for each of its conditional nodes.

use crate::conditional_setter::setting_kernel;
use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use crate::graph_object::GraphObject;
use crate::memory::Allocation;
use crate::node::Node;
use anabranch_hal::{
    ConditionalHandle, ConditionalKind, ConditionalNode, Dependency, DevicePointer, Driver, Edge, EdgeData,
    GraphHandle, GraphNodeHandle, GraphNodeKind, Live, NodeParameters, Status,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const OPERATION: &str = "putting a captured part into a conditional node";

/// What was captured, with placeholders for conditional nodes.
pub struct Part {
    /// The graph.
    pub graph: Arc<GraphObject>,
    /// The conditional nodes.
    pub conditions: Vec<CapturedCondition>,
    /// How many levels of graphs in nodes there are, those around this one included.
    pub levels: usize,
}

/// The number in device memory that determines what a conditional node runs.
#[derive(Clone)]
pub struct Condition {
    /// The memory.
    pub memory: Arc<Allocation>,
    /// The number's address.
    pub address: DevicePointer,
}

/// A condition within a part.
pub struct CapturedCondition {
    /// The placeholder node.
    pub placeholder: GraphNodeHandle,
    /// How the number determines what runs.
    pub kind: ConditionalKind,
    /// The number.
    pub condition: Condition,
    /// What runs.
    pub parts: Vec<Part>,
}

/// A graph inside a conditional node, while it is filled.
struct Body<'a> {
    context: &'a Arc<ContextCore>,
    graph: Live<'a, GraphHandle>,
}

impl Part {
    /// Puts the part into a body. `again`: a value to set again at its end.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn put_into(
        &self,
        context: &Arc<ContextCore>,
        graph: Live<'_, GraphHandle>,
        again: Option<(ConditionalHandle, &Condition)>,
    ) -> Result<()> {
        let body = Body { context, graph };
        let ends = if self.conditions.is_empty() {
            vec![body.add(&[], &NodeParameters::Child(self.graph.handle()))?]
        } else {
            body.copy(self, &[])?
        };
        if let Some((handle, condition)) = again {
            body.add_setting(&ends, handle, condition)?;
        }
        Ok(())
    }
}

impl Part {
    /// Copies the part into an existing body, after some of its nodes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if a node does not belong to the body; otherwise any error that the driver
    /// returns, after which nobody can use the graph.
    pub fn copy_into(&self, graph: &GraphObject, dependencies: &[(Node, EdgeData)]) -> Result<()> {
        let (mut guard, own) = graph.lock_with(Some(&self.graph), OPERATION)?;
        let below = guard.dependencies(dependencies, OPERATION)?;
        guard.note_levels(self.levels);
        if let Some(own) = &own {
            guard.retained_mut().merge(own.retained().all());
            guard.note(own.traits());
        }
        let below: Vec<_> = below.iter().map(|dependency| dependency.node).collect();
        guard.change(|body| {
            let body = Body { context: graph.context(), graph: body };
            if self.conditions.is_empty() && body.has_children(self)? {
                // Drivers take a graph in a graph in a body, and no node with a graph among others.
                return body.add(&below, &NodeParameters::Child(self.graph.handle())).map(drop);
            }
            body.copy(self, &below).map(drop)
        })
    }
}

impl Body<'_> {
    fn driver(&self) -> &dyn Driver {
        self.context.driver()
    }

    fn add(&self, after: &[GraphNodeHandle], parameters: &NodeParameters) -> Result<GraphNodeHandle> {
        self.add_with_bodies(after, parameters).map(|(node, _)| node)
    }

    fn add_with_bodies(
        &self,
        after: &[GraphNodeHandle],
        parameters: &NodeParameters,
    ) -> Result<(GraphNodeHandle, Vec<GraphHandle>)> {
        let after: Vec<_> = after.iter().copied().map(Dependency::from).collect();
        let added =
            // SAFETY: the dependencies are nodes of the body. The graph that it belongs to retains what the node refers to.
            unsafe { self.driver().graph_add_node(&self.context.call(OPERATION), self.graph, &after, parameters) }
                .during(OPERATION, || self.context.place())?;
        Ok((added.node, added.bodies))
    }

    /// Adds a kernel that sets a conditional value.
    fn add_setting(
        &self,
        after: &[GraphNodeHandle],
        handle: ConditionalHandle,
        condition: &Condition,
    ) -> Result<GraphNodeHandle> {
        let kernel = setting_kernel(self.context, handle, condition.address)?;
        self.add(after, &NodeParameters::Kernel(kernel))
    }

    /// Whether a node of the part contains a graph.
    fn has_children(&self, part: &Part) -> Result<bool> {
        let (driver, call) = (self.driver(), &self.context.call(OPERATION));
        // SAFETY: the part owns its graph, and only this thread knows it.
        let source = unsafe { Live::new(part.graph.handle()) };
        for node in driver.graph_nodes(call, source).during(OPERATION, || self.context.place())? {
            // SAFETY: the node was just read from the part's graph.
            let kind = driver.graph_node_kind(call, unsafe { Live::new(node) });
            if kind.during(OPERATION, || self.context.place())? == GraphNodeKind::CHILD {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies a part's nodes and edges into the body, after the given nodes, with conditional nodes in place of their
    /// placeholders. Returns the nodes that nothing depends on.
    fn copy(&self, part: &Part, below: &[GraphNodeHandle]) -> Result<Vec<GraphNodeHandle>> {
        let (driver, call) = (self.driver(), &self.context.call(OPERATION));
        // SAFETY: the part owns its graph, and only this thread knows it.
        let source = unsafe { Live::new(part.graph.handle()) };
        let nodes = driver.graph_nodes(call, source).during(OPERATION, || self.context.place())?;
        let edges = driver.graph_edges(call, source).during(OPERATION, || self.context.place())?;
        // What edges to, and from, each node become edges to and from. In the order of the nodes, which updates go by.
        let mut copies = Vec::new();
        let conditions: HashMap<_, _> = part.conditions.iter().map(|known| (known.placeholder, known)).collect();
        for node in nodes {
            let copied = match conditions.get(&node) {
                Some(condition) => self.add_condition(condition)?,
                None => {
                    // SAFETY: the node was just read from the part's graph.
                    let live = unsafe { Live::new(node) };
                    let parameters =
                        driver.graph_node_parameters(call, live).during(OPERATION, || self.context.place())?;
                    // CUDA 13.0 refuses to put such a node into a body.
                    if let NodeParameters::Child(_) = parameters {
                        let message = "a body with conditions of its own contains a graph that was captured as a node";
                        return Err(Error::argument(Status::NOT_SUPPORTED, OPERATION, message)
                            .with_hint("capture the graph in a condition of its own")
                            .at(self.context.place()));
                    }
                    let copy = self.add(&[], &parameters)?;
                    (copy, copy)
                }
            };
            copies.push((node, copied));
        }
        let by_node: HashMap<_, _> = copies.iter().copied().collect();
        let copied = |edge: &Edge| {
            let (from, to) = (by_node.get(&edge.from)?, by_node.get(&edge.to)?);
            let plain = from.0 == from.1 && to.0 == to.1;
            Some(Edge { from: from.1, to: to.0, data: if plain { edge.data } else { EdgeData::default() } })
        };
        let mut copied: Vec<Edge> = edges.iter().filter_map(copied).collect();
        let follows: HashSet<_> = edges.iter().map(|edge| edge.to).collect();
        for &(_, (to, _)) in copies.iter().filter(|(node, _)| !follows.contains(node)) {
            copied.extend(below.iter().map(|&from| Edge { from, to, data: EdgeData::default() }));
        }
        // CUDA gives all edges of one call the data of the first.
        for copied in copied.chunk_by(|edge, next| edge.data == next.data) {
            // SAFETY: the nodes of the edges are of the body.
            unsafe { driver.graph_add_edges(call, self.graph, copied) }.during(OPERATION, || self.context.place())?;
        }
        let followed: HashSet<_> = edges.iter().map(|edge| edge.from).collect();
        Ok(copies.iter().filter(|(node, _)| !followed.contains(node)).map(|&(_, (_, end))| end).collect())
    }

    /// Adds a conditional node with everything that belongs to it. Returns its first and its last node.
    fn add_condition(&self, captured: &CapturedCondition) -> Result<(GraphNodeHandle, GraphNodeHandle)> {
        let CapturedCondition { kind, condition, parts, .. } = captured;
        let handle = self
            .driver()
            .graph_conditional_create(&self.context.call(OPERATION), self.graph, None)
            .during(OPERATION, || self.context.place())?;
        let begin = self.add_setting(&[], handle, condition)?;
        let node = NodeParameters::Conditional(ConditionalNode {
            handle,
            kind: *kind,
            body_count: u32::try_from(parts.len()).unwrap_or(u32::MAX),
            bodies: Vec::new(),
        });
        let (end, bodies) = self.add_with_bodies(&[begin], &node)?;
        for (graph, part) in bodies.into_iter().zip(parts) {
            let again = (*kind == ConditionalKind::While).then_some((handle, condition));
            // SAFETY: the body is one of the node that was just added to this body, which no other thread uses.
            let graph = unsafe { Live::new(graph) };
            part.put_into(self.context, graph, again)?;
        }
        Ok((begin, end))
    }
}
