//! A graph as data, for people and programs to inspect.

use super::Graph;
use crate::error::Result;
use anabranch_core::context::ContextCore;
use anabranch_core::node::Node;
use anabranch_hal::{
    BarrierScope, Call, ConditionalKind, CopyPlace, EdgeKind, GraphHandle, GraphNodeHandle, GraphNodeKind,
    KernelAttributes, Live, NodeParameters, Reduction, Value, ValueOperation,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// A graph as data. Only the library makes one, so that it is nested no deeper than a graph can be.
#[derive(Clone, Debug, Serialize)]
pub struct GraphDescription {
    pub(super) nodes: Vec<NodeDescription>,
    pub(super) edges: Vec<EdgeDescription>,
}

impl GraphDescription {
    /// The nodes.
    pub fn nodes(&self) -> &[NodeDescription] {
        &self.nodes
    }

    /// The edges.
    pub fn edges(&self) -> &[EdgeDescription] {
        &self.edges
    }
}

/// A node as data.
#[derive(Clone, Debug, Serialize)]
pub struct NodeDescription {
    pub(super) number: u64,
    pub(super) kind: String,
    pub(super) label: String,
    pub(super) parameters: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) graphs: Vec<GraphDescription>,
}

impl NodeDescription {
    /// The number of the node in its graph.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its kind, such as `kernel`.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The name of the kernel, or a short description of the work.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The parameters by name.
    pub fn parameters(&self) -> &BTreeMap<&'static str, String> {
        &self.parameters
    }

    /// The graphs inside a child or conditional node.
    pub fn graphs(&self) -> &[GraphDescription] {
        &self.graphs
    }
}

/// An edge as data.
#[derive(Clone, Debug, Serialize)]
pub struct EdgeDescription {
    pub(super) from: u64,
    pub(super) to: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
}

impl EdgeDescription {
    /// The number of the earlier node.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// The number of the node that depends on it.
    pub fn to(&self) -> u64 {
        self.to
    }

    /// `programmatic` if the edge is not a full dependency.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }
}

impl Graph {
    /// The graph as data: kinds, kernel names and parameters of all nodes, including the graphs inside nodes.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn describe(&self) -> Result<GraphDescription> {
        let nodes = self.nodes()?;
        let edges = self.edges()?;
        let state = self.object.lock("describing a graph")?;
        let describer = Describer { context: self.object.context() };
        let handle = |node: Node| state.find(node);
        let nodes = nodes.into_iter().filter_map(|node| Some(describer.node(node.number(), handle(node)?))).collect();
        let edges = edges
            .iter()
            .map(|edge| EdgeDescription {
                from: edge.from.number(),
                to: edge.to.number(),
                kind: edge_kind(edge.data.kind),
            })
            .collect();
        Ok(GraphDescription { nodes, edges })
    }
}

fn edge_kind(kind: EdgeKind) -> Option<String> {
    match kind {
        EdgeKind::FULL => None,
        EdgeKind::PROGRAMMATIC => Some("programmatic".to_owned()),
        EdgeKind(other) => Some(format!("kind {other}")),
    }
}

struct Describer<'a> {
    context: &'a ContextCore,
}

impl Describer<'_> {
    fn call(&self) -> Call<'_> {
        self.context.call("describing a graph")
    }

    /// A graph inside a node. Parameters that the driver does not report are left out.
    fn graph(&self, graph: Live<'_, GraphHandle>) -> GraphDescription {
        let nodes = self.context.driver().graph_nodes(&self.call(), graph).unwrap_or_default();
        let edges = self.context.driver().graph_edges(&self.call(), graph).unwrap_or_default();
        let number = |node: GraphNodeHandle| nodes.iter().position(|&other| other == node).unwrap_or(0) as u64;
        GraphDescription {
            edges: edges
                .iter()
                .map(|edge| EdgeDescription {
                    from: number(edge.from),
                    to: number(edge.to),
                    kind: edge_kind(edge.data.kind),
                })
                .collect(),
            nodes: nodes
                .iter()
                .enumerate()
                // SAFETY: the node is one of the graph, which nobody changes meanwhile, as `Live` says.
                .map(|(place, &node)| self.node(place as u64, unsafe { Live::new(node) }))
                .collect(),
        }
    }

    fn node(&self, number: u64, node: Live<'_, GraphNodeHandle>) -> NodeDescription {
        let kind = self.context.driver().graph_node_kind(&self.call(), node);
        let parameters = self.context.driver().graph_node_parameters(&self.call(), node);
        let kind = match (&kind, &parameters) {
            (Ok(kind), _) => *kind,
            (Err(_), Ok(parameters)) => parameters.kind(),
            (Err(_), Err(_)) => GraphNodeKind(u32::MAX),
        };
        let mut description = NodeDescription {
            number,
            kind: kind.to_string(),
            label: kind.to_string(),
            parameters: BTreeMap::new(),
            graphs: Vec::new(),
        };
        if let Ok(parameters) = parameters {
            // SAFETY: the parameters are those of the node, which is live.
            unsafe { self.fill(&mut description, &parameters) };
        }
        description
    }

    /// # Safety
    /// The parameters are those of a live node, which refers to kernels that are loaded, and owns the graphs inside.
    unsafe fn fill(&self, description: &mut NodeDescription, parameters: &NodeParameters) {
        let mut set = |name: &'static str, value: String| {
            description.parameters.insert(name, value);
        };
        match parameters {
            NodeParameters::Kernel(kernel) => {
                set("grid", extents(kernel.grid));
                set("block", extents(kernel.block));
                if let Some(cluster) = kernel.cluster {
                    set("cluster", extents(cluster));
                }
                if kernel.dynamic_shared_bytes > 0 {
                    set("dynamic shared memory", format!("{} bytes", kernel.dynamic_shared_bytes));
                }
                if kernel.cooperative {
                    set("cooperative", "yes".to_owned());
                }
                if let Some(priority) = kernel.priority {
                    set("priority", priority.to_string());
                }
                attributes(&kernel.attributes, &mut set);
                if !kernel.arguments.is_empty() {
                    set("arguments", kernel.arguments.iter().map(|bytes| number(bytes)).collect::<Vec<_>>().join(", "));
                }
                // SAFETY: the kernel is loaded as long as a node refers to it.
                let function = unsafe { Live::new(kernel.function) };
                if let Ok(name) = self.context.driver().function_name(&self.call(), function) {
                    description.label = name;
                }
            }
            NodeParameters::Copy(copy) => {
                set("from", place(&copy.source));
                set("to", place(&copy.destination));
                set("extent", copy.extent.map(|extent| extent.to_string()).join(" × "));
                let bytes: usize = copy.extent.iter().product();
                description.label = format!("copy {bytes} bytes");
            }
            NodeParameters::Fill(fill) => {
                set("address", format!("{:#x}", fill.address.0));
                set("pattern", format!("{:?}", fill.pattern));
                set("elements", format!("{} × {}", fill.width, fill.height));
                description.label = format!("fill {} bytes", fill.width * fill.height * fill.pattern.width());
            }
            NodeParameters::EventWait(event) | NodeParameters::EventRecord(event) => {
                set("event", format!("{:#x}", event.as_raw()));
            }
            NodeParameters::ExternalSignal(operations) | NodeParameters::ExternalWait(operations) => {
                let values = operations.iter().map(|each| format!("{:#x}: {}", each.semaphore.as_raw(), each.value));
                set("semaphores", values.collect::<Vec<_>>().join(", "));
            }
            NodeParameters::Allocate(allocation) => {
                set("address", format!("{:#x}", allocation.address.0));
                set("bytes", allocation.bytes.to_string());
                description.label = format!("allocate {} bytes", allocation.bytes);
            }
            NodeParameters::Free(address) => set("address", format!("{:#x}", address.0)),
            NodeParameters::ValueOperations(operations) => {
                set("operations", operations.iter().map(operation).collect::<Vec<_>>().join(", "));
            }
            NodeParameters::Child(child) => {
                // SAFETY: the node owns the graph, and no other thread uses it.
                description.graphs.push(self.graph(unsafe { Live::new(*child) }));
            }
            NodeParameters::Conditional(conditional) => {
                let kind = match conditional.kind {
                    ConditionalKind::If => "if",
                    ConditionalKind::While => "while",
                    ConditionalKind::Switch => "switch",
                };
                description.label = kind.to_owned();
                // SAFETY: the node owns the graphs, and no other thread uses them.
                let graphs = conditional.bodies.iter().map(|&body| self.graph(unsafe { Live::new(body) }));
                description.graphs = graphs.collect();
            }
            _ => {}
        }
    }
}

fn extents([x, y, z]: [u32; 3]) -> String {
    format!("{x} × {y} × {z}")
}

/// An argument's bytes as a number, which is what most are.
fn number(bytes: &[u8]) -> String {
    match bytes.len() {
        1..=8 => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            format!("{:#x}", u64::from_le_bytes(padded))
        }
        length => format!("{length} bytes"),
    }
}

fn place(place: &CopyPlace) -> String {
    let kind = if place.host { "host" } else { "device" };
    format!("{kind} {:#x}", place.address)
}

fn operation(operation: &ValueOperation) -> String {
    let value = |value: &Value| match value {
        Value::U32(value) => u64::from(*value),
        Value::U64(value) => *value,
    };
    match operation {
        ValueOperation::Wait { address, value: awaited, .. } => {
            format!("wait for {} at {:#x}", value(awaited), address.0)
        }
        ValueOperation::Write { address, value: written, .. } => {
            format!("write {} at {:#x}", value(written), address.0)
        }
        ValueOperation::Reduce { address, value: operand, reduction } => {
            let name = match reduction {
                Reduction::Or => "or",
                Reduction::And => "and",
                Reduction::Add => "add",
            };
            format!("{name} {} at {:#x}", value(operand), address.0)
        }
        ValueOperation::Barrier { scope: BarrierScope::System } => "barrier".to_owned(),
        ValueOperation::Barrier { scope: BarrierScope::Device } => "barrier of the device".to_owned(),
        ValueOperation::FlushRemoteWrites => "flush remote writes".to_owned(),
    }
}

/// The attributes of a kernel that do not change results.
fn attributes(attributes: &KernelAttributes, set: &mut impl FnMut(&'static str, String)) {
    if let Some(window) = attributes.access_policy_window {
        set("access-policy window", format!("{} bytes at {:#x}", window.bytes, window.address.0));
    }
    if let Some(policy) = attributes.cluster_scheduling_policy {
        set("cluster scheduling policy", format!("{policy:?}"));
    }
    if let Some(domain) = attributes.memory_sync_domain {
        set("memory-synchronization domain", format!("{domain:?}"));
    }
    if let Some(map) = attributes.memory_sync_domain_map {
        set("memory-synchronization domains", format!("{}, {}", map.default, map.remote));
    }
    if let Some(preferred) = attributes.preferred_cluster {
        set("preferred cluster", extents(preferred));
    }
    if let Some(percent) = attributes.preferred_shared_memory_carveout {
        set("shared memory", format!("{percent} percent"));
    }
    if attributes.nvlink_centric_scheduling == Some(true) {
        set("NVLink-centric scheduling", "yes".to_owned());
    }
}
