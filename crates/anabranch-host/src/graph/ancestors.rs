//! The nodes that nodes of a graph depend on, found step by step while the graph grows.

use super::node::Node;
use anabranch_hal::EdgeData;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

/// How many sets are kept: one for each place at which a graph grows, such as a captured stream.
const MOST_SETS: usize = 8;

/// Sets of nodes that were found, of which one is extended where the next nodes are behind it. That a node depends on others
/// anew makes them wrong, unless it is a new node.
#[derive(Debug, Default)]
pub(super) struct AncestorSets(Vec<Ancestors>);

/// Some nodes, and all that they depend on.
#[derive(Debug, Default)]
pub(super) struct Ancestors {
    of: HashSet<u64>,
    /// By number.
    found: Vec<bool>,
}

impl Ancestors {
    pub(super) fn contains(&self, number: u64) -> bool {
        self.found.get(number as usize) == Some(&true)
    }

    fn insert(&mut self, number: u64) {
        let index = number as usize;
        if index >= self.found.len() {
            self.found.resize(index + 1, false);
        }
        if let Some(found) = self.found.get_mut(index) {
            *found = true;
        }
    }
}

impl AncestorSets {
    /// Some nodes, and all that they depend on. `None`: no nodes.
    pub(super) fn find(&mut self, of: &[(u64, EdgeData)], nodes: &BTreeMap<u64, Node>) -> Option<&Ancestors> {
        if of.is_empty() {
            return None;
        }
        let mut visited: HashSet<u64> = HashSet::new();
        // How many of the nodes of each set are still to be met, until it is known that all of it is found.
        let mut missing: Vec<usize> = self.0.iter().map(|set| set.of.len()).collect();
        let mut known: Option<usize> = None;
        // The newest first, so that the nodes of a set are met before those that these depend on.
        let mut next: BinaryHeap<u64> = of.iter().map(|(number, _)| *number).collect();
        let is_found = |known: Option<usize>, number| {
            known.and_then(|place| self.0.get(place)).is_some_and(|set| set.contains(number))
        };
        while let Some(number) = next.pop() {
            if is_found(known, number) || !visited.insert(number) {
                continue;
            }
            if known.is_none() {
                known = self.0.iter().zip(&mut missing).position(|(set, missing)| {
                    *missing -= usize::from(set.of.contains(&number));
                    *missing == 0
                });
            }
            // What a node of the set depends on is in it too.
            if !is_found(known, number)
                && let Some(node) = nodes.get(&number)
            {
                next.extend(node.before.iter().map(|(number, _)| *number));
            }
        }
        let mut set = known.map(|place| self.0.remove(place)).unwrap_or_default();
        set.of = of.iter().map(|(number, _)| *number).collect();
        visited.into_iter().for_each(|number| set.insert(number));
        if self.0.len() == MOST_SETS {
            // The one that was not used for longest.
            self.0.remove(0);
        }
        self.0.push(set);
        self.0.last()
    }

    /// Forgets all sets, because a node depends on others anew.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::{Action, NodeState};
    use super::*;
    use std::sync::{Arc, Weak};

    fn ancestors(of: &[(u64, EdgeData)], nodes: &BTreeMap<u64, Node>) -> HashSet<u64> {
        let mut found = HashSet::new();
        let mut next: Vec<u64> = of.iter().map(|(number, _)| *number).collect();
        while let Some(number) = next.pop() {
            if found.insert(number) {
                next.extend(nodes[&number].before.iter().map(|(number, _)| *number));
            }
        }
        found
    }

    #[test]
    fn they_are_those_of_a_graph_that_grows_at_random() {
        let mut random = 1u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        for places in [1, 2, 4, 12] {
            let (mut sets, mut nodes) = (AncestorSets::default(), BTreeMap::new());
            // The last node at each place at which the graph grows.
            let mut last: Vec<Option<u64>> = vec![None; places];
            for number in 0..1000 {
                let place = below(places as u64) as usize;
                let mut before: HashSet<u64> = last[place].into_iter().collect();
                if below(8) == 0 {
                    before.extend(last[below(places as u64) as usize]);
                }
                let before: Vec<_> = before.into_iter().map(|number| (number, EdgeData::default())).collect();
                let expected = ancestors(&before, &nodes);
                let found = sets.find(&before, &nodes);
                let contains = |number| found.is_some_and(|found| found.contains(number));
                assert!((0..number).all(|number| contains(number) == expected.contains(&number)));
                let state = Arc::new(NodeState { graph: Weak::new(), number, id: 0 });
                nodes.insert(number, Node { before, ..Node::new(state, 0, Arc::new(Action::Empty)) });
                last[place] = if below(50) == 0 { None } else { Some(number) };
            }
        }
    }
}
