//! Calls for graphs.

use super::super::answer::Answer;
use super::super::call::{GraphCall, NodeSpec};
use super::super::slots::{ContextSlot, EdgeSlot, GraphSlot, New, NodeSlot};
use super::captures::{edge_data, edge_text};
use super::objects::{GraphOwner, MemoryKind, live};
use super::{Stage, plain, told};
use anabranch::hal::{
    AddedNode, Call, Driver, Edge, GraphHandle, GraphMemoryAttribute, GraphNodeHandle, Live, NodeParameters, Status,
};
use std::collections::BTreeMap;
use std::hash::Hasher;

/// FNV-1a, which is the same in every version of the standard library.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

fn hash(words: impl IntoIterator<Item = u64>) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    words.into_iter().for_each(|word| hasher.write(&word.to_le_bytes()));
    hasher.finish()
}

/// A number for the shape of a graph: the kinds of its nodes and how they depend on each other, in whatever order a driver
/// lists them. Each node starts with its kind, and repeatedly takes in those of its neighbours (Weisfeiler and Leman).
fn shape(kinds: &BTreeMap<GraphNodeHandle, u64>, edges: &[Edge]) -> u64 {
    let mut colors = kinds.clone();
    for _ in 0..4 {
        let next = |node: GraphNodeHandle, own: u64| {
            let mut around: Vec<u64> = edges
                .iter()
                .filter_map(|edge| {
                    let (side, other) = match (edge.from == node, edge.to == node) {
                        (true, _) => (1, edge.to),
                        (_, true) => (2, edge.from),
                        _ => return None,
                    };
                    let data = [edge.data.from_port, edge.data.to_port, edge.data.kind.0].map(u64::from);
                    let other = colors.get(&other).copied().unwrap_or_default();
                    Some(hash([side, other].into_iter().chain(data)))
                })
                .collect();
            around.sort_unstable();
            hash(std::iter::once(own).chain(around))
        };
        colors = colors.iter().map(|(&node, &own)| (node, next(node, own))).collect();
    }
    let mut colors: Vec<u64> = colors.into_values().collect();
    colors.sort_unstable();
    hash(colors)
}

/// The nodes and edges of a graph in one line.
pub(super) fn summary(driver: &dyn Driver, call: &Call<'_>, graph: Live<'_, GraphHandle>) -> Result<String, Status> {
    let failed = |failure: anabranch::hal::Failure| failure.status;
    let nodes = driver.graph_nodes(call, graph).map_err(failed)?;
    let edges = driver.graph_edges(call, graph).map_err(failed)?;
    let roots = driver.graph_root_nodes(call, graph).map_err(failed)?.len();
    let (mut kinds, mut counts) = (BTreeMap::new(), BTreeMap::<u32, usize>::new());
    for node in nodes {
        let kind = driver.graph_node_kind(call, live(node)).map_err(failed)?.0;
        kinds.insert(node, u64::from(kind));
        *counts.entry(kind).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(kind, count)| format!("{kind}:{count}")).collect();
    Ok(format!(
        "nodes={} edges={} roots={roots} kinds={} shape={:08x}",
        kinds.len(),
        edges.len(),
        counts.join("/"),
        shape(&kinds, &edges) as u32
    ))
}

/// The context in which a node of a graph of that context does its work.
pub(super) fn node_context(graph: ContextSlot, work: &NodeSpec) -> ContextSlot {
    match work {
        NodeSpec::In(context, work) => node_context(*context, work),
        _ => graph,
    }
}

fn attribute(number: u8) -> GraphMemoryAttribute {
    match number % 4 {
        0 => GraphMemoryAttribute::UsedCurrent,
        1 => GraphMemoryAttribute::UsedHigh,
        2 => GraphMemoryAttribute::ReservedCurrent,
        _ => GraphMemoryAttribute::ReservedHigh,
    }
}

impl Stage {
    /// The nodes and edges of a graph in one line.
    pub(super) fn summary(&self, slot: GraphSlot) -> Result<String, Status> {
        match self.objects.graphs.get(&slot) {
            Some(graph) => summary(&*self.driver, &self.harness.call(graph.context), live(graph.handle)),
            None => Err(Status::INVALID_HANDLE),
        }
    }

    fn summary_text(&self, slot: GraphSlot) -> String {
        self.summary(slot).unwrap_or_else(|status| format!("failed {}", status.0))
    }

    /// The answer to a call that may have changed the edges of a graph, also if it failed.
    fn changed(&self, graph: GraphSlot, result: anabranch::hal::Result<()>) -> Answer {
        let mut answer = plain(result);
        answer.detail = self.summary_text(graph);
        answer
    }

    fn edges(&self, edges: &[EdgeSlot]) -> Option<Vec<Edge>> {
        let node = |slot: NodeSlot| {
            let (node, _) = self.objects.open_node(slot).filter(|_| self.exists(slot.graph))?;
            Some(node.handle())
        };
        let edge =
            |edge: &EdgeSlot| Some(Edge { from: node(edge.from)?, to: node(edge.to)?, data: edge_data(edge.data) });
        edges.iter().map(edge).collect()
    }

    fn node_names(&self, graph: GraphSlot, nodes: &[GraphNodeHandle]) -> String {
        let mut names: Vec<String> = nodes.iter().map(|&node| self.objects.node_name(graph, node)).collect();
        names.sort_unstable();
        names.join(",")
    }

    pub(super) fn graph_call(&mut self, call: &GraphCall) -> Option<Answer> {
        let driver = self.driver.clone();
        Some(match call {
            GraphCall::Create { graph: New(slot), context } => {
                told(driver.graph_create(&self.harness.call(*context)), |handle| {
                    self.objects.add_graph(*slot, handle, *context, GraphOwner::Program);
                    String::new()
                })
            }
            GraphCall::Destroy { graph } => {
                let (handle, context) = self.objects.graph(*graph)?;
                if self.objects.graphs.get(graph)?.owner != GraphOwner::Program {
                    return None;
                }
                self.objects.forget_graph(*graph);
                // SAFETY: the slot is empty now. The graph belongs to no node and to no capture.
                plain(unsafe { driver.graph_destroy(&self.call_for(context), handle.handle()) })
            }
            GraphCall::Clone { graph, clone: New(slot) } => {
                let (handle, context) = self.objects.graph(*graph)?;
                told(driver.graph_clone(&self.call_for(context), handle), |clone| {
                    self.objects.add_graph(*slot, clone, context, GraphOwner::Program);
                    self.summary_text(*slot)
                })
            }
            GraphCall::FindInClone { node, clone } => {
                let (original, context) = self.objects.node(*node)?;
                let (handle, _) = self.objects.graph(*clone)?;
                told(driver.graph_find_in_clone(&self.call_for(context), original, handle), |found| {
                    self.objects.find_node(NodeSlot { graph: *clone, index: node.index }, found);
                    self.objects.node_name(*clone, found)
                })
            }
            GraphCall::AddNode { node: New(slot), dependencies, work: node } => {
                let graph = &slot.graph;
                let (handle, context) = self.objects.open_graph(*graph).filter(|_| self.exists(*graph))?;
                let dependencies = self.dependencies(dependencies)?;
                let parameters = self.parameters(*graph, context, node)?;
                let context = node_context(context, node);
                let call = self.harness.call(context);
                // SAFETY: nodes and objects exist, and events are kept until the program is over. What the node does is
                // sound whenever it runs: it uses memory of the harness only.
                let added = unsafe { driver.graph_add_node(&call, handle, &dependencies, &parameters) };
                told(added, |added| self.added(*slot, context, node, &added))
            }
            GraphCall::DestroyNode { node } => {
                let (handle, context) = self.objects.node(*node)?;
                // SAFETY: if the node is destroyed, its slot is emptied.
                let destroyed = unsafe { driver.graph_destroy_node(&self.call_for(context), handle.handle()) };
                if destroyed.is_ok() {
                    self.objects.forget_node(*node);
                }
                self.changed(node.graph, destroyed)
            }
            GraphCall::NodeKind { node } => {
                let (handle, context) = self.objects.open_node(*node).filter(|_| self.exists(node.graph))?;
                told(driver.graph_node_kind(&self.call_for(context), handle), |kind| kind.0.to_string())
            }
            GraphCall::NodeParameters { node } => {
                let (handle, context) = self.objects.open_node(*node).filter(|_| self.exists(node.graph))?;
                let parameters = match driver.graph_node_parameters(&self.call_for(context), handle) {
                    // CUDA devices do not return these.
                    Ok(NodeParameters::Conditional(_)) => Err(Status::NOT_SUPPORTED.into()),
                    parameters => parameters,
                };
                told(parameters, |parameters| self.parameters_text(context, &parameters))
            }
            GraphCall::NodeSetParameters { node, parameters } => {
                let (handle, context) = self.objects.node(*node)?;
                let call = self.harness.call(node_context(context, parameters));
                let parameters = self.parameters(node.graph, context, parameters)?;
                // SAFETY: as for added nodes.
                plain(unsafe { driver.graph_node_set_parameters(&call, handle, &parameters) })
            }
            GraphCall::Nodes { graph } => {
                let (handle, context) = self.objects.open_graph(*graph).filter(|_| self.exists(*graph))?;
                let nodes = driver.graph_nodes(&self.call_for(context), handle);
                told(nodes, |nodes| format!("{} {}", self.node_names(*graph, &nodes), self.summary_text(*graph)))
            }
            GraphCall::RootNodes { graph } => {
                let (handle, context) = self.objects.open_graph(*graph).filter(|_| self.exists(*graph))?;
                let nodes = driver.graph_root_nodes(&self.call_for(context), handle);
                told(nodes, |nodes| self.node_names(*graph, &nodes))
            }
            GraphCall::Edges { graph } => {
                let (handle, context) = self.objects.open_graph(*graph).filter(|_| self.exists(*graph))?;
                told(driver.graph_edges(&self.call_for(context), handle), |edges| {
                    let name = |node| self.objects.node_name(*graph, node);
                    let text = |edge: &Edge| format!("{}>{}{}", name(edge.from), name(edge.to), edge_text(edge.data));
                    let mut edges: Vec<String> = edges.iter().map(text).collect();
                    edges.sort_unstable();
                    edges.join(",")
                })
            }
            GraphCall::AddEdges { graph, edges } => {
                let (handle, context) = self.objects.graph(*graph)?;
                let edges = self.edges(edges)?;
                // SAFETY: the nodes exist.
                let added = unsafe { driver.graph_add_edges(&self.call_for(context), handle, &edges) };
                self.changed(*graph, added)
            }
            GraphCall::RemoveEdges { graph, edges } => {
                let (handle, context) = self.objects.graph(*graph)?;
                let edges = self.edges(edges)?;
                // SAFETY: the nodes exist.
                let removed = unsafe { driver.graph_remove_edges(&self.call_for(context), handle, &edges) };
                self.changed(*graph, removed)
            }
            GraphCall::ConditionalCreate { graph, value: New(value), default } => {
                let (handle, context) = self.objects.graph(*graph)?;
                let created = driver.graph_conditional_create(&self.harness.call(context), handle, *default);
                told(created, |created| {
                    self.objects.conditionals.insert(*value, (created, *graph, *default));
                    String::new()
                })
            }
            GraphCall::MemoryAttribute { attribute: number } => {
                plain(driver.graph_memory_attribute(self.harness.ordinal(0), attribute(*number)).map(drop))
            }
            GraphCall::MemoryReset { attribute: number } => {
                plain(driver.graph_memory_reset(self.harness.ordinal(0), attribute(*number)))
            }
            GraphCall::MemoryTrim {} => plain(driver.graph_memory_trim(self.harness.ordinal(0))),
            GraphCall::MemoryAttributeOf { device, attribute: number } => {
                plain(driver.graph_memory_attribute(self.harness.ordinal(*device), attribute(*number)).map(drop))
            }
            GraphCall::MemoryResetOf { device, attribute: number } => {
                plain(driver.graph_memory_reset(self.harness.ordinal(*device), attribute(*number)))
            }
            GraphCall::MemoryTrimOf { device } => plain(driver.graph_memory_trim(self.harness.ordinal(*device))),
        })
    }

    /// Notes a node and what came with it, and names it.
    fn added(&mut self, slot: NodeSlot, context: ContextSlot, spec: &NodeSpec, added: &AddedNode) -> String {
        self.objects.find_node(slot, added.node);
        let Some(found) = self.objects.node_slot(slot.graph, added.node) else { return "no name".to_owned() };
        let mut text = if found == slot { String::new() } else { found.to_string() };
        match spec.work() {
            NodeSpec::Allocate { memory: New(memory), bytes }
            | NodeSpec::AllocateShared { memory: New(memory), bytes } => match added.address {
                Some(address) => {
                    text.push_str(&self.allocated(*memory, address, context, MemoryKind::Graph, *bytes));
                    if let Some(memory) = self.objects.memory.get_mut(memory) {
                        memory.graph = Some(slot.graph);
                    }
                }
                None => text.push_str(" no address"),
            },
            NodeSpec::Conditional { first: New(first), .. } => {
                text.push_str(&format!("bodies={}", added.bodies.len()));
                let owner = GraphOwner::Node(found);
                for (offset, &body) in added.bodies.iter().enumerate() {
                    self.objects.add_graph(GraphSlot(first.0 + offset as u16), body, context, owner);
                }
            }
            _ => {}
        }
        text
    }
}
