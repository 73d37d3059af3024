//! Calls for graphs and executable graphs.

use super::Front;
use super::model::ModelGraph;
use crate::programs::call::{ConditionalSpec, FrontCall, FrontWork};
use crate::programs::slots::{EdgeSlot, EdgeSpec, Flags, New, NodeSlot};
use anabranch::hal::ConditionalKind;

impl Front<'_> {
    pub(super) fn graph(&mut self) -> FrontCall {
        if self.model.graphs.is_empty() || self.chance(1, 16) {
            let context = self.context();
            return FrontCall::GraphCreate { graph: self.new_graph(context, 0, true), context };
        }
        if !self.model.executables.is_empty() && self.chance(1, 3) {
            return self.executable_call();
        }
        let graph = self.any_graph();
        match self.below(24) {
            0..=8 => {
                let (dependencies, work) = (self.nodes_of(graph), self.node_work(graph));
                FrontCall::GraphAdd { node: self.new_node(graph), dependencies, work }
            }
            9 => {
                let (dependencies, conditional) = (self.nodes_of(graph), self.conditional(graph));
                FrontCall::GraphAddConditional { node: self.new_node(graph), dependencies, conditional }
            }
            10 => FrontCall::GraphSetNode { graph: graph.slot, node: self.node_of(graph), work: self.node_work(graph) },
            11 => FrontCall::GraphShape { graph: graph.slot },
            12 => FrontCall::GraphNode { graph: graph.slot, node: self.node_of(graph) },
            13 => {
                let clone = self.new_graph(graph.context, graph.nodes, graph.is_built);
                FrontCall::GraphClone { graph: graph.slot, clone }
            }
            14 => FrontCall::GraphAddEdges { graph: graph.slot, edges: self.edges(graph) },
            15 if self.chance(1, 2) => FrontCall::GraphRemoveNode { graph: graph.slot, node: self.node_of(graph) },
            15 => FrontCall::GraphRemoveEdges { graph: graph.slot, edges: self.edges(graph) },
            16 if self.model.graphs.len() > 2 => {
                let graph = self.model.graphs.swap_remove(self.generator.numbers.below(self.model.graphs.len()));
                FrontCall::GraphDrop { graph: graph.slot }
            }
            _ => {
                let executable = self.generator.model.new_executable();
                self.model.executables.push((executable, graph.slot));
                let upload = if self.chance(1, 4) { Some(self.stream()) } else { None };
                let flags = Flags(self.one_of([0, 0, 0, 0, 0, 0, 1, 2, 8, 0x100]));
                FrontCall::Instantiate { graph: graph.slot, executable: New(executable), flags, upload }
            }
        }
    }

    fn executable_call(&mut self) -> FrontCall {
        let (executable, graph) = self.executable();
        match self.below(16) {
            0..=7 => FrontCall::ExecutableLaunch { executable, stream: self.stream() },
            8 => FrontCall::ExecutableUpload { executable, stream: self.stream() },
            9 | 10 => {
                let other = if self.chance(1, 2) { graph } else { self.any_graph() };
                FrontCall::ExecutableUpdate { executable, graph: other.slot }
            }
            11 | 12 => {
                let (node, work) = (self.node_of(graph), self.node_work(graph));
                FrontCall::ExecutableSetNode { executable, node, work }
            }
            13 => {
                let enabled = self.chance(1, 2);
                FrontCall::ExecutableSetEnabled { executable, node: self.node_of(graph), enabled }
            }
            14 => FrontCall::ExecutableNode { executable, node: self.node_of(graph) },
            _ if self.model.counts_orders => FrontCall::ExecutableLaunch { executable, stream: self.stream() },
            _ => {
                let at = self.model.executables.iter().position(|(known, _)| *known == executable);
                at.map(|at| self.model.executables.swap_remove(at));
                FrontCall::ExecutableDrop { executable }
            }
        }
    }

    fn new_node(&mut self, graph: ModelGraph) -> New<NodeSlot> {
        let known = self.model.graphs.iter_mut().find(|known| known.slot == graph.slot);
        let index = known.map_or(0, |known| {
            known.nodes += 1;
            known.nodes - 1
        });
        New(NodeSlot { graph: graph.slot, index })
    }

    fn node_work(&mut self, graph: ModelGraph) -> FrontWork {
        let context = graph.context;
        match self.below(16) {
            0 => FrontWork::Empty,
            1..=5 => FrontWork::Kernel(self.launch(context)),
            6..=8 => {
                let (to, from) = self.two_of(context);
                let (to, from) = self.parts(to, from);
                FrontWork::Copy { to, from }
            }
            9 | 10 => {
                let to = self.memory_of(context);
                FrontWork::Fill { to: self.part(to), value: self.below(1000) as u32 }
            }
            11 => {
                let to = self.memory_of(context);
                FrontWork::FillZero { to: self.part(to) }
            }
            12 => FrontWork::Host(1 + self.below(1000) as u32),
            13 => FrontWork::Child(self.any_graph().slot),
            14 => FrontWork::EventRecord(self.event_of(context)),
            _ => FrontWork::EventWait(self.event_of(context)),
        }
    }

    fn conditional(&mut self, graph: ModelGraph) -> ConditionalSpec {
        // A loop would run for ever, unless its value is 0.
        let (kind, value, count) = match self.below(4) {
            0 | 1 => (ConditionalKind::If, self.below(2) as u32, 1 + self.below(2)),
            2 => (ConditionalKind::Switch, self.below(4) as u32, 1 + self.below(3)),
            _ => (ConditionalKind::While, 0, 1),
        };
        let count = if self.chance(1, 32) { 3 - count.min(3) } else { count };
        let mut body = || (0..self.below(3)).map(|_| self.node_work(graph)).collect();
        ConditionalSpec { kind, value, bodies: (0..count).map(|_| body()).collect() }
    }

    fn edges(&mut self, graph: ModelGraph) -> Vec<EdgeSlot> {
        let count = 1 + self.below(2);
        let mut edge = || {
            let (one, other) = (self.node_of(graph), self.node_of(graph));
            let (from, to) = if one.index <= other.index { (one, other) } else { (other, one) };
            EdgeSlot { from, to, data: EdgeSpec(0, 0, if self.chance(1, 16) { 1 } else { 0 }) }
        };
        (0..count).map(|_| edge()).collect()
    }
}
