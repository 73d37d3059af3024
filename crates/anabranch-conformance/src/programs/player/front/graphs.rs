//! Calls for graphs.

use super::kernels::Launcher;
use super::told::{plain, refused, told};
use super::{Answer, Front, FrontCall};
use crate::live::Owner;
use crate::programs::call::{ConditionalSpec, FrontWork};
use crate::programs::player::captures::edge_data;
use crate::programs::player::graphs::summary;
use crate::programs::slots::{EdgeSlot, GraphSlot, NodeSlot};
use anabranch::hal::Call;
use anabranch::{Graph, GraphEdge, Kernel, KernelArguments, LaunchConfig, Node, NodeWork, Result};

/// A graph of the program.
pub(super) struct Object {
    pub(super) graph: Graph,
    /// Whether nodes that use the same memory may be without order, so that it must not run.
    pub(super) is_loose: bool,
}

impl Object {
    /// The nodes and edges in one line.
    pub(super) fn shape(&self) -> String {
        let context = self.graph.context();
        let call = Call::new(context.live(), "describing a graph of a program");
        let shape = summary(&**context.device().driver(), &call, self.graph.live());
        shape.unwrap_or_else(|status| format!("failed {}", status.0))
    }

    /// The nodes that no other one depends on.
    pub(super) fn sinks(&self) -> Vec<Node> {
        let (nodes, edges) = (self.graph.nodes().unwrap_or_default(), self.graph.edges().unwrap_or_default());
        nodes.into_iter().filter(|node| edges.iter().all(|edge| edge.from != *node)).collect()
    }
}

/// Makes a launch the work of a node.
struct AsNode;

impl Launcher for AsNode {
    type Output = NodeWork<'static>;

    unsafe fn launch(
        self,
        kernel: &Kernel,
        config: &LaunchConfig,
        arguments: impl KernelArguments,
    ) -> Result<NodeWork<'static>> {
        // SAFETY: the caller promises that the arguments are right.
        unsafe { NodeWork::kernel(kernel, config, arguments) }
    }
}

impl Front {
    pub(super) fn graph_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::GraphCreate { graph, context } => {
                let created = self.context(*context).create_graph();
                self.add_graph(graph.0, created)
            }
            C::GraphDrop { graph } => {
                drop(self.objects.graphs.remove(graph)?);
                plain(Ok(()))
            }
            C::GraphClone { graph, clone } => {
                let object = self.objects.graphs.get(graph)?;
                let is_loose = object.is_loose;
                match object.graph.try_clone() {
                    Ok(copy) => {
                        self.name_clones(*graph, clone.0, &copy);
                        let object = Object { graph: copy, is_loose };
                        let shape = object.shape();
                        self.objects.graphs.insert(clone.0, object);
                        told(Ok(()), |()| shape)
                    }
                    Err(error) => refused(&error),
                }
            }
            C::GraphShape { graph } => {
                let shape = self.objects.graphs.get(graph)?.shape();
                told(Ok(()), |()| shape)
            }
            C::GraphAdd { node, dependencies, work } => {
                let graph = node.0.graph;
                let dependencies = self.dependencies(graph, dependencies, work.is_ordered());
                let mut object = self.objects.graphs.remove(&graph)?;
                object.is_loose |= self.is_loose(work);
                let added = self.with_work(work, |_, work| object.graph.add(&dependencies, work));
                self.objects.graphs.insert(graph, object);
                self.add_node(node.0, added?)
            }
            C::GraphAddConditional { node, dependencies, conditional } => {
                let graph = node.0.graph;
                let dependencies = self.dependencies(graph, dependencies, true);
                let mut object = self.objects.graphs.remove(&graph)?;
                let added = self.add_conditional(&mut object.graph, &dependencies, conditional);
                self.objects.graphs.insert(graph, object);
                self.add_node(node.0, added)
            }
            C::GraphSetNode { graph, node, work } => {
                let node = *self.objects.nodes.get(node)?;
                let mut object = self.objects.graphs.remove(graph)?;
                object.is_loose |= self.is_loose(work);
                let set = self.with_work(work, |_, work| object.graph.set_node(node, work));
                self.objects.graphs.insert(*graph, object);
                plain(set?)
            }
            C::GraphRemoveNode { graph, node } => {
                let node = *self.objects.nodes.get(node)?;
                let object = self.objects.graphs.get_mut(graph)?;
                object.is_loose = true;
                plain(object.graph.remove_node(node))
            }
            C::GraphAddEdges { graph, edges } => {
                let edges = self.edges(edges)?;
                plain(self.objects.graphs.get_mut(graph)?.graph.add_edges(&edges))
            }
            C::GraphRemoveEdges { graph, edges } => {
                let edges = self.edges(edges)?;
                let object = self.objects.graphs.get_mut(graph)?;
                object.is_loose = true;
                plain(object.graph.remove_edges(&edges))
            }
            C::GraphNode { graph, node } => {
                let node = *self.objects.nodes.get(node)?;
                let graph = &self.objects.graphs.get(graph)?.graph;
                let asked = || {
                    let (before, after) = (graph.dependencies_of(node)?.len(), graph.dependents_of(node)?.len());
                    Ok(format!("{} {before} {after}", graph.node_kind(node)?))
                };
                told(asked(), |text| text)
            }
            _ => return None,
        })
    }

    pub(super) fn add_graph(&mut self, slot: GraphSlot, graph: Result<Graph>) -> Answer {
        match graph {
            Ok(graph) => {
                let object = Object { graph, is_loose: false };
                let shape = object.shape();
                self.objects.graphs.insert(slot, object);
                self.name_nodes(slot);
                told(Ok(()), |()| shape)
            }
            Err(error) => refused(&error),
        }
    }

    /// Names the nodes of a graph in their order.
    pub(super) fn name_nodes(&mut self, graph: GraphSlot) {
        let nodes = self.objects.graphs.get(&graph).and_then(|object| object.graph.nodes().ok());
        let named = nodes.into_iter().flatten().zip(0..).map(|(node, index)| (NodeSlot { graph, index }, node));
        self.objects.nodes.extend(named);
    }

    fn name_clones(&mut self, graph: GraphSlot, clone: GraphSlot, copy: &Graph) {
        let Some(object) = self.objects.graphs.get(&graph) else { return };
        let named: Vec<_> = self
            .objects
            .nodes
            .iter()
            .filter(|(slot, _)| slot.graph == graph)
            .filter_map(|(slot, &node)| {
                let found = object.graph.find_in_clone(node, copy).ok()?;
                Some((NodeSlot { graph: clone, index: slot.index }, found))
            })
            .collect();
        self.objects.nodes.extend(named);
    }

    fn add_node(&mut self, slot: NodeSlot, node: Result<Node>) -> Answer {
        told(node, |node| {
            self.objects.nodes.insert(slot, node);
            String::new()
        })
    }

    fn edges(&self, slots: &[EdgeSlot]) -> Option<Vec<GraphEdge>> {
        let node = |slot: &NodeSlot| self.objects.nodes.get(slot).copied();
        let edge = |slot: &EdgeSlot| {
            Some(GraphEdge { from: node(&slot.from)?, to: node(&slot.to)?, data: edge_data(slot.data) })
        };
        slots.iter().map(edge).collect()
    }

    pub(super) fn is_loose(&self, work: &FrontWork) -> bool {
        match work {
            FrontWork::Child(graph) => self.objects.graphs.get(graph).is_some_and(|object| object.is_loose),
            _ => false,
        }
    }

    /// Makes the work of a node, and does something with it.
    pub(super) fn with_work<R>(
        &mut self,
        work: &FrontWork,
        apply: impl FnOnce(&mut Self, NodeWork<'_>) -> Result<R>,
    ) -> Option<Result<R>> {
        let made = match work {
            FrontWork::Child(graph) => {
                let child = self.objects.graphs.remove(graph)?;
                let applied = apply(self, NodeWork::child(&child.graph));
                self.objects.graphs.insert(*graph, child);
                return Some(applied);
            }
            FrontWork::Empty => Ok(NodeWork::empty()),
            FrontWork::Kernel(spec) => {
                let kernels = self.kernels(spec.context);
                let made = self.with_part(&spec.part, |_, part| {
                    (part.len() >= spec.elements()).then(|| kernels.launch(spec, part, AsNode)).transpose()
                })?;
                match made {
                    Ok(work) => Ok(work?),
                    Err(error) => Err(error),
                }
            }
            FrontWork::Copy { to, from } => self.with_parts(to, from, |_, to, from| NodeWork::copy(to, from))?,
            FrontWork::Fill { to, value } => self.with_part(to, |_, to| NodeWork::fill(to, *value))?,
            FrontWork::FillZero { to } => self.with_part(to, |_, to| NodeWork::fill_zero(to))?,
            FrontWork::Host(number) => Ok(NodeWork::host_func(self.host_function(*number))),
            FrontWork::EventRecord(event) => Ok(NodeWork::event_record(&*self.event(*event)?)),
            FrontWork::EventWait(event) => Ok(NodeWork::event_wait(&*self.event(*event)?)),
        };
        Some(made.and_then(|work| apply(self, work)))
    }

    fn add_conditional(&mut self, graph: &mut Graph, dependencies: &[Node], spec: &ConditionalSpec) -> Result<Node> {
        let conditional = graph.create_conditional(Some(spec.value))?;
        let node = graph.add_conditional(dependencies, conditional, spec.kind, spec.bodies.len() as u32)?;
        for (index, works) in spec.bodies.iter().enumerate() {
            let mut body = graph.body(node, index)?;
            let mut last: Vec<Node> = Vec::new();
            for work in works {
                if let Some(added) = self.with_work(work, |_, work| body.add(&last, work)) {
                    last = vec![added?];
                }
            }
        }
        Ok(node)
    }
}
