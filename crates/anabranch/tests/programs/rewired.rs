//! Graphs whose nodes and edges are removed, and others added, while executable graphs that were made from them are in use.

use crate::captured::{Effect, Graph};
use crate::edited::{Edited, Source, Work, edited, make, work};
use crate::operation::Source as Pool;
use crate::tally::note;
use crate::world::World;
use anabranch::{EdgeData, GraphEdge, Node, NodeWork, Status};
use proptest::prelude::*;

/// How many nodes a graph has at most.
pub(crate) const MOST_NODES: usize = 4;

/// Changes of graphs that were made by hand, one after the other. If there is none, one is made first.
#[derive(Clone, Debug)]
pub(crate) struct Rewired {
    make: Edited,
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    /// Of the nodes and edges of a graph.
    Rewire { graph: usize, wiring: Wiring },
    /// What leaves the nodes and edges as they are, and uses them.
    Edit(Edited),
    /// Drops a buffer that graphs may use, and allocates another one.
    Renew { stream: usize, buffer: usize },
    /// Moves a node, gives its place in the executable graph other work, removes it, drops a buffer that it may have used, and
    /// launches the executable graph.
    Leave { stream: usize, graph: usize, node: usize, at: usize, work: Work, buffer: usize },
}

#[derive(Clone, Copy, Debug)]
enum Wiring {
    /// Removes a node, and lets the node after it follow the node before it.
    Remove { node: usize },
    /// Adds a node between two others, or at an end.
    Insert { at: usize, work: Work },
    /// Puts a node into another place by edges alone, and updates the executable graph, whose nodes get each other's work.
    Move { node: usize, at: usize, updates: bool },
    /// Makes an executable graph of nodes that follow each other only where they use the same memory.
    Loosen,
    /// Makes a new executable graph in the place of one, which may be running.
    Instantiate,
}

pub(crate) fn rewired() -> impl Strategy<Value = Rewired> {
    use Wiring::*;
    let n = || 0..4usize;
    let wiring = prop_oneof![
        2 => n().prop_map(|node| Remove { node }),
        2 => (n(), work()).prop_map(|(at, work)| Insert { at, work }),
        4 => (n(), n(), any::<bool>()).prop_map(|(node, at, updates)| Move { node, at, updates }),
        1 => Just(Loosen),
        1 => Just(Instantiate),
    ];
    let change = prop_oneof![
        3 => (n(), wiring).prop_map(|(graph, wiring)| Change::Rewire { graph, wiring }),
        3 => edited().prop_map(Change::Edit),
        1 => (n(), n()).prop_map(|(stream, buffer)| Change::Renew { stream, buffer }),
        1 => (n(), n(), n(), n(), work(), n()).prop_map(|(stream, graph, node, at, work, buffer)| Change::Leave {
            stream, graph, node, at, work, buffer
        }),
    ];
    (make(), prop::collection::vec(change, 1..12)).prop_map(|(make, changes)| Rewired { make, changes })
}

fn edge(from: Node, to: Node) -> GraphEdge {
    GraphEdge { from, to, data: EdgeData::default() }
}

impl Effect {
    fn writes(&self) -> usize {
        match *self {
            Self::Combine { to, .. } | Self::Copy { to, .. } | Self::Fill { to, .. } => to,
        }
    }

    fn uses(&self, number: usize) -> bool {
        match *self {
            Self::Combine { to, left, right, .. } => [to, left, right].contains(&number),
            Self::Copy { to, from } => [to, from].contains(&number),
            Self::Fill { to, .. } => to == number,
        }
    }

    /// Whether it matters which of the two comes first.
    fn conflicts(&self, other: &Self) -> bool {
        self.uses(other.writes()) || other.uses(self.writes())
    }
}

impl Source {
    /// The edges of nodes that follow each other.
    fn chain(&self) -> Vec<GraphEdge> {
        self.nodes.windows(2).map(|pair| edge(pair[0], pair[1])).collect()
    }

    /// Takes a node out of the chain, and closes the gap.
    fn unlink(&mut self, index: usize) -> (Node, Effect) {
        let (node, effect) = (self.nodes.remove(index), self.effects.remove(index));
        let before = index.checked_sub(1).and_then(|before| self.nodes.get(before).copied());
        let after = self.nodes.get(index).copied();
        let old = before.map(|before| edge(before, node)).into_iter().chain(after.map(|after| edge(node, after)));
        self.graph.remove_edges(&old.collect::<Vec<_>>()).unwrap();
        if let (Some(before), Some(after)) = (before, after) {
            self.graph.add_edges(&[edge(before, after)]).unwrap();
        }
        (node, effect)
    }

    /// Puts a node without edges into the chain.
    fn link(&mut self, index: usize, node: Node, effect: Effect) {
        let before = index.checked_sub(1).map(|before| self.nodes[before]);
        let after = self.nodes.get(index).copied();
        if let (Some(before), Some(after)) = (before, after) {
            self.graph.remove_edges(&[edge(before, after)]).unwrap();
        }
        let new = before.map(|before| edge(before, node)).into_iter().chain(after.map(|after| edge(node, after)));
        self.graph.add_edges(&new.collect::<Vec<_>>()).unwrap();
        self.nodes.insert(index, node);
        self.effects.insert(index, effect);
    }
}

impl World<'_> {
    pub(crate) fn rewired(&mut self, rewired: &Rewired) {
        if self.made_by_hand(0).is_none() {
            self.edited(&rewired.make);
        }
        for change in &rewired.changes {
            match change {
                Change::Edit(edited) => self.edited(edited),
                &Change::Renew { stream, buffer } => self.renew(&self.stream(stream), buffer, Pool::DefaultPool),
                &Change::Rewire { graph, wiring } => self.rewire(graph, wiring),
                &Change::Leave { stream, graph, node, at, work, buffer } => {
                    self.rewire(graph, Wiring::Move { node, at, updates: true });
                    // What was changed is the last one now.
                    let by_hand = self.graphs.iter().filter(|graph| graph.source.is_some());
                    let Some(graph) = by_hand.count().checked_sub(1) else { continue };
                    self.edited(&Edited::Set { graph, node, work, executable: true, source: false });
                    self.rewire(graph, Wiring::Remove { node: at });
                    self.renew(&self.stream(stream), buffer, Pool::DefaultPool);
                    self.edited(&Edited::Enable { stream, graph, node, enabled: true });
                }
            }
        }
    }

    fn rewire(&mut self, graph: usize, wiring: Wiring) {
        let Some(place) = self.made_by_hand(graph) else { return };
        // It is not among the graphs while buffers are made for it.
        let mut graph = self.graphs.swap_remove(place);
        if let Some(source) = &mut graph.source {
            match wiring {
                Wiring::Remove { node } => {
                    if let Some(index) = node.checked_rem(source.nodes.len()) {
                        let (before, after) = (index.checked_sub(1), source.nodes.get(index + 1).copied());
                        let (node, _) = (source.nodes.remove(index), source.effects.remove(index));
                        // With its edges, of which the order of the others is made anew.
                        source.graph.remove_node(node).unwrap();
                        if let (Some(before), Some(after)) = (before, after) {
                            source.graph.add_edges(&[edge(source.nodes[before], after)]).unwrap();
                        }
                        let refused = source.graph.remove_node(node).unwrap_err();
                        assert_eq!(refused.status(), Status::INVALID_VALUE, "{refused}");
                        note("nodes removed");
                    }
                }
                Wiring::Insert { at, work } => {
                    if source.nodes.len() < MOST_NODES {
                        let stream = self.own_stream(source.device);
                        let add = |work: NodeWork<'_>| source.graph.add((), work).unwrap();
                        if let Some((node, effect)) = self.with_work(&stream, work, add) {
                            source.link(at % (source.nodes.len() + 1), node, effect);
                            note("nodes inserted");
                        }
                    }
                }
                Wiring::Move { node, at, updates } => {
                    if let Some(index) = node.checked_rem(source.nodes.len()) {
                        let (node, effect) = source.unlink(index);
                        source.link(at % (source.nodes.len() + 1), node, effect);
                        note("nodes moved");
                    }
                    if updates {
                        graph.update();
                    }
                }
                Wiring::Loosen => {
                    let loosened = loosened(source);
                    self.graphs.push(loosened);
                }
                Wiring::Instantiate => {
                    graph.executable = source.graph.instantiate().unwrap();
                    graph.nodes.clone_from(&source.nodes);
                    graph.effects.clone_from(&source.effects);
                    graph.disabled.clear();
                    note("graphs instantiated again");
                }
            }
        }
        self.graphs.push(graph);
    }
}

/// An executable graph of the nodes with those edges only that their memory needs. The graph has all others again afterwards.
fn loosened(source: &mut Source) -> Graph {
    let chain = source.chain();
    source.graph.remove_edges(&chain).unwrap();
    let mut needed = Vec::new();
    for (later, effect) in source.effects.iter().enumerate() {
        for (earlier, other) in source.effects[..later].iter().enumerate() {
            if effect.conflicts(other) {
                needed.push(edge(source.nodes[earlier], source.nodes[later]));
            }
        }
    }
    source.graph.add_edges(&needed).unwrap();
    assert_eq!(source.graph.edges().unwrap().len(), needed.len());
    let executable = source.graph.instantiate().unwrap();
    source.graph.remove_edges(&needed).unwrap();
    source.graph.add_edges(&chain).unwrap();
    note(if needed.len() < chain.len() { "graphs loosened" } else { "graphs loosened in vain" });
    Graph {
        executable,
        effects: source.effects.clone(),
        disabled: Vec::new(),
        nodes: Vec::new(),
        source: None,
        allocates: false,
    }
}
