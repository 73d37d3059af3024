//! Graphs that are made by hand, and what becomes of their nodes.

use crate::captured::{Effect, Graph, two};
use crate::environment::is_on_cuda;
use crate::streams::StreamSlot;
use crate::tally::note;
use crate::world::World;
use anabranch::{Node, NodeWork, Status};
use proptest::prelude::*;

/// The work of a node: it fills a buffer, or copies another one to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) to: usize,
    pub(crate) from: Option<usize>,
    pub(crate) value: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Edited {
    /// Makes a graph whose nodes follow each other.
    Make {
        stream: usize,
        work: Vec<Work>,
    },
    /// Gives a node of an executable graph other work, or of its graph, or both.
    Set {
        graph: usize,
        node: usize,
        work: Work,
        executable: bool,
        source: bool,
    },
    /// Updates an executable graph from its graph.
    Update {
        graph: usize,
    },
    /// Disables a node of an executable graph, or enables it again, and launches the graph.
    Enable {
        stream: usize,
        graph: usize,
        node: usize,
        enabled: bool,
    },
    /// Makes an executable graph of a clone of a graph, or of one whose child it is.
    Again {
        graph: usize,
        nested: bool,
    },
    Upload {
        stream: usize,
        graph: usize,
    },
}

/// The graph that an executable graph was made from by hand.
pub(crate) struct Source {
    pub(crate) graph: anabranch::Graph,
    pub(crate) device: usize,
    /// They follow each other.
    pub(crate) nodes: Vec<Node>,
    pub(crate) effects: Vec<Effect>,
}

impl Effect {
    pub(crate) fn is_copy(&self) -> bool {
        matches!(self, Self::Copy { .. })
    }
}

pub(crate) fn work() -> impl Strategy<Value = Work> {
    (0..4usize, prop::option::of(0..4usize), any::<u32>()).prop_map(|(to, from, value)| Work { to, from, value })
}

/// A graph of its own.
pub(crate) fn make() -> impl Strategy<Value = Edited> {
    (0..4usize, prop::collection::vec(work(), 1..4)).prop_map(|(stream, work)| Edited::Make { stream, work })
}

pub(crate) fn edited() -> impl Strategy<Value = Edited> {
    use Edited::*;
    let n = || 0..4usize;
    prop_oneof![
        5 => make(),
        4 => (n(), n(), work(), any::<bool>(), any::<bool>()).prop_map(|(graph, node, work, executable, source)| Set {
            graph, node, work, executable, source
        }),
        2 => n().prop_map(|graph| Update { graph }),
        3 => (n(), n(), n(), any::<bool>())
            .prop_map(|(stream, graph, node, enabled)| Enable { stream, graph, node, enabled }),
        2 => (n(), any::<bool>()).prop_map(|(graph, nested)| Again { graph, nested }),
        1 => (n(), n()).prop_map(|(stream, graph)| Upload { stream, graph }),
    ]
}

impl Graph {
    /// Updates it from its graph, where that is possible.
    pub(crate) fn update(&mut self) {
        let Some(source) = &self.source else { return };
        let kinds = |effects: &[Effect]| effects.iter().map(Effect::is_copy).collect::<Vec<_>>();
        match self.executable.update(&source.graph) {
            Ok(()) => {
                // Nodes do what the nodes in the same places do.
                assert_eq!(kinds(&self.effects), kinds(&source.effects));
                self.effects.clone_from(&source.effects);
                note(if self.nodes == source.nodes { "updates" } else { "updates from rewired graphs" });
            }
            // Memory of a context takes the place of memory from a pool, or the other way round, or the graph has other nodes.
            Err(refused) => assert_eq!(refused.error().status(), Status::GRAPH_EXEC_UPDATE_FAILURE),
        }
    }
}

impl World<'_> {
    /// Uses the work, where its buffers are two.
    pub(crate) fn with_work<R>(
        &mut self,
        stream: &StreamSlot,
        work: Work,
        with: impl FnOnce(NodeWork<'_>) -> R,
    ) -> Option<(R, Effect)> {
        let to = self.buffer(stream, work.to);
        let from = work.from.map(|from| self.buffer(stream, from));
        let place = &mut self.places[stream.device];
        let number = place.buffers[to].number;
        let Some(from) = from else {
            let buffer = place.buffers[to].buffer.as_mut().unwrap();
            let result = with(NodeWork::fill(buffer, work.value).unwrap());
            return Some((result, Effect::Fill { to: number, value: work.value }));
        };
        let effect = Effect::Copy { to: number, from: place.buffers[from].number };
        let [to, from] = two(place, to, from)?;
        Some((with(NodeWork::copy(to, &*from).unwrap()), effect))
    }

    pub(crate) fn edited(&mut self, edited: &Edited) {
        match edited {
            Edited::Make { stream, work } => {
                let stream = self.stream(*stream);
                let mut graph = self.places[stream.device].context.create_graph().unwrap();
                let (mut nodes, mut effects) = (Vec::new(), Vec::new());
                for &work in work {
                    let before: Vec<Node> = nodes.last().copied().into_iter().collect();
                    if let Some((node, effect)) =
                        self.with_work(&stream, work, |work| graph.add(&before, work).unwrap())
                    {
                        nodes.push(node);
                        effects.push(effect);
                    }
                }
                let executable = graph.instantiate().unwrap();
                let source = Source { graph, device: stream.device, nodes: nodes.clone(), effects: effects.clone() };
                self.graphs.push(Graph {
                    executable,
                    effects,
                    disabled: Vec::new(),
                    nodes,
                    source: Some(source),
                    allocates: false,
                });
            }
            &Edited::Set { graph, node, work, executable, source } => {
                let Some(place) = self.made_by_hand(graph) else { return };
                // It is not among the graphs while buffers are made for it.
                let mut graph = self.graphs.swap_remove(place);
                if let Some(own) = &mut graph.source {
                    let stream = self.own_stream(own.device);
                    // A node keeps its kind.
                    let as_before =
                        |is_copy: bool| Work { from: is_copy.then_some(work.from.unwrap_or(work.to + 1)), ..work };
                    if executable && let Some(index) = node.checked_rem(graph.nodes.len()) {
                        let is_copy = graph.effects[index].is_copy();
                        let is_there = own.nodes.contains(&graph.nodes[index]);
                        let set = |work: NodeWork<'_>| match graph.executable.set_node(graph.nodes[index], work) {
                            // Memory of a context takes the place of memory from a pool, or the other way round.
                            Err(error) if is_copy && error.status() == Status::INVALID_VALUE => false,
                            Err(error) if !is_there && error.status() == Status::INVALID_VALUE => false,
                            changed => {
                                changed.unwrap();
                                assert!(is_there, "the node was removed");
                                true
                            }
                        };
                        if let Some((true, effect)) = self.with_work(&stream, as_before(is_copy), set) {
                            graph.effects[index] = effect;
                        }
                    }
                    if source && let Some(index) = node.checked_rem(own.nodes.len()) {
                        let set = |work: NodeWork<'_>| own.graph.set_node(own.nodes[index], work).unwrap();
                        let work = as_before(own.effects[index].is_copy());
                        if let Some(((), effect)) = self.with_work(&stream, work, set) {
                            own.effects[index] = effect;
                        }
                    }
                }
                self.graphs.push(graph);
            }
            &Edited::Update { graph } => {
                let Some(place) = self.made_by_hand(graph) else { return };
                self.graphs[place].update();
            }
            &Edited::Enable { stream, graph, node, enabled } => {
                let Some(place) = self.made_by_hand(graph) else { return };
                let stream = self.stream(stream);
                let graph = &mut self.graphs[place];
                if let Some(source) = &graph.source
                    && let Some(index) = node.checked_rem(graph.nodes.len())
                    && source.nodes.contains(&graph.nodes[index])
                {
                    let (executable, node) = (&graph.executable, graph.nodes[index]);
                    assert_eq!(executable.is_node_enabled(node).unwrap(), !graph.disabled.contains(&index));
                    match executable.set_node_enabled(node, enabled) {
                        Ok(()) => {
                            graph.disabled.retain(|&disabled| disabled != index);
                            if !enabled {
                                graph.disabled.push(index);
                            }
                        }
                        // Fill nodes are not disabled there.
                        Err(refused) => assert!(is_on_cuda() && refused.status() == Status::NOT_SUPPORTED, "{refused}"),
                    }
                }
                let launched = graph.executable.launch(&stream.stream);
                match launched {
                    Ok(()) => self.apply(place),
                    Err(refused) => assert!(is_on_cuda() && refused.status() == Status::NOT_SUPPORTED, "{refused}"),
                }
                if is_on_cuda() {
                    // It cannot be launched there beside other contexts.
                    drop(self.graphs.swap_remove(place));
                }
            }
            &Edited::Again { graph, nested } => {
                let Some(place) = self.made_by_hand(graph) else { return };
                let Some(source) = &self.graphs[place].source else { return };
                let (effects, disabled) = (source.effects.clone(), Vec::new());
                let made = if nested {
                    let mut graph = self.places[source.device].context.create_graph().unwrap();
                    graph.add((), NodeWork::child(&source.graph)).unwrap();
                    let executable = graph.instantiate().unwrap();
                    Graph { executable, effects, disabled, nodes: Vec::new(), source: None, allocates: false }
                } else {
                    let graph = source.graph.try_clone().unwrap();
                    let nodes = source.nodes.iter().map(|&node| source.graph.find_in_clone(node, &graph).unwrap());
                    let nodes: Vec<Node> = nodes.collect();
                    let executable = graph.instantiate().unwrap();
                    let source =
                        Source { graph, device: source.device, nodes: nodes.clone(), effects: effects.clone() };
                    Graph { executable, effects, disabled, nodes, source: Some(source), allocates: false }
                };
                self.graphs.push(made);
            }
            &Edited::Upload { stream, graph } => {
                if let Some(graph) = graph.checked_rem(self.graphs.len()) {
                    self.graphs[graph].executable.upload(&self.stream(stream).stream).unwrap();
                }
            }
        }
    }

    /// Which graph a number means, of those that were made by hand.
    pub(crate) fn made_by_hand(&self, graph: usize) -> Option<usize> {
        let by_hand = self.graphs.iter().enumerate().filter(|(_, graph)| graph.source.is_some());
        let by_hand: Vec<usize> = by_hand.map(|(place, _)| place).collect();
        by_hand.get(graph.checked_rem(by_hand.len())?).copied()
    }
}
