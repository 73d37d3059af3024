//! Graphs that are made by hand, and what becomes of their nodes.

use crate::captured::{Effect, Graph, two};
use crate::environment::is_on_cuda;
use crate::streams::StreamSlot;
use crate::world::World;
use anabranch::{Node, NodeWork, Status};
use proptest::prelude::*;

/// The work of a node: it fills a buffer, or copies another one to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    to: usize,
    from: Option<usize>,
    value: u32,
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
    graph: anabranch::Graph,
    device: usize,
    nodes: Vec<Node>,
    effects: Vec<Effect>,
}

fn work() -> impl Strategy<Value = Work> {
    (0..4usize, prop::option::of(0..4usize), any::<u32>()).prop_map(|(to, from, value)| Work { to, from, value })
}

pub(crate) fn edited() -> impl Strategy<Value = Edited> {
    use Edited::*;
    let n = || 0..4usize;
    prop_oneof![
        5 => (n(), prop::collection::vec(work(), 1..4)).prop_map(|(stream, work)| Make { stream, work }),
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

impl World<'_> {
    /// Uses the work, where its buffers are two.
    fn with_work<R>(
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
                let source = Source { graph, device: stream.device, nodes, effects: effects.clone() };
                self.graphs.push(Graph { executable, effects, disabled: Vec::new(), source: Some(source) });
            }
            &Edited::Set { graph, node, work, executable, source } => {
                let Some(place) = self.made_by_hand(graph) else { return };
                // It is not among the graphs while buffers are made for it.
                let mut graph = self.graphs.swap_remove(place);
                if let Some(own) = &mut graph.source
                    && let Some(index) = node.checked_rem(own.nodes.len())
                {
                    let stream = self.own_stream(own.device);
                    let is_copy = matches!(own.effects[index], Effect::Copy { .. });
                    let work = Work { from: is_copy.then_some(work.from.unwrap_or(work.to + 1)), ..work };
                    let node = own.nodes[index];
                    let set = |work: NodeWork<'_>| match graph.executable.set_node(node, work) {
                        // Memory of a context takes the place of memory from a pool, or the other way round.
                        Err(error) if is_copy && error.status() == Status::INVALID_VALUE => false,
                        changed => {
                            changed.unwrap();
                            true
                        }
                    };
                    if executable && let Some((true, effect)) = self.with_work(&stream, work, set) {
                        graph.effects[index] = effect;
                    }
                    let set = |work: NodeWork<'_>| own.graph.set_node(node, work).unwrap();
                    if source && let Some(((), effect)) = self.with_work(&stream, work, set) {
                        own.effects[index] = effect;
                    }
                }
                self.graphs.push(graph);
            }
            &Edited::Update { graph } => {
                let Some(place) = self.made_by_hand(graph) else { return };
                let graph = &mut self.graphs[place];
                if let Some(source) = &graph.source {
                    match graph.executable.update(&source.graph) {
                        Ok(()) => graph.effects.clone_from(&source.effects),
                        // As above.
                        Err(refused) => assert_eq!(refused.error().status(), Status::GRAPH_EXEC_UPDATE_FAILURE),
                    }
                }
            }
            &Edited::Enable { stream, graph, node, enabled } => {
                let Some(place) = self.made_by_hand(graph) else { return };
                let stream = self.stream(stream);
                let graph = &mut self.graphs[place];
                if let Some(source) = &graph.source
                    && let Some(index) = node.checked_rem(source.nodes.len())
                {
                    let (executable, node) = (&graph.executable, source.nodes[index]);
                    assert_eq!(executable.is_node_enabled(node).unwrap(), !graph.disabled.contains(&index));
                    executable.set_node_enabled(node, enabled).unwrap();
                    graph.disabled.retain(|&disabled| disabled != index);
                    if !enabled {
                        graph.disabled.push(index);
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
                    Graph { executable: graph.instantiate().unwrap(), effects, disabled, source: None }
                } else {
                    let graph = source.graph.try_clone().unwrap();
                    let nodes = source.nodes.iter().map(|&node| source.graph.find_in_clone(node, &graph).unwrap());
                    let nodes = nodes.collect();
                    let executable = graph.instantiate().unwrap();
                    let source = Source { graph, device: source.device, nodes, effects: effects.clone() };
                    Graph { executable, effects, disabled, source: Some(source) }
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
    fn made_by_hand(&self, graph: usize) -> Option<usize> {
        let by_hand = self.graphs.iter().enumerate().filter(|(_, graph)| graph.source.is_some());
        let by_hand: Vec<usize> = by_hand.map(|(place, _)| place).collect();
        by_hand.get(graph.checked_rem(by_hand.len())?).copied()
    }
}
