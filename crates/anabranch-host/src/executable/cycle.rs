//! Cycles in graphs.

use crate::graph::{Action, Contents};
use anabranch_hal::GraphNodeHandle;
use std::collections::HashSet;

/// Whether a launch has nothing to do for a node.
fn has_no_work(action: &Action) -> bool {
    match action {
        Action::Empty | Action::Allocate(_) | Action::Free(_) => true,
        Action::Child(child) => child.lock().nodes.values().all(|node| has_no_work(&node.action)),
        _ => false,
    }
}

/// A node of a cycle in a graph or in a graph inside of it, if there is one: the first that is reached again on the way from
/// the nodes in the order in which they were made, along the edges in the order in which they were added. If a launch has
/// nothing to do for any node of the cycle, it is the one that was made last.
pub(super) fn find_cycle(graph: &Contents) -> Option<GraphNodeHandle> {
    let mut done: HashSet<u64> = HashSet::with_capacity(graph.nodes.len());
    for &start in graph.nodes.keys() {
        if !done.insert(start) {
            continue;
        }
        // The way, with how many edges of each node were followed.
        let mut way: Vec<(u64, usize)> = vec![(start, 0)];
        let mut on_way: HashSet<u64> = HashSet::from([start]);
        while let Some((number, followed)) = way.last_mut() {
            let next = graph.nodes.get(number).and_then(|node| node.after.get(*followed)).copied();
            *followed += 1;
            match next {
                Some(next) if on_way.contains(&next) => {
                    let cycle = way.iter().map(|(number, _)| *number).skip_while(|&number| number != next);
                    let cycle: Vec<_> = cycle.filter_map(|number| graph.nodes.get(&number)).collect();
                    let is_idle = cycle.iter().all(|node| has_no_work(&node.action));
                    let named = if is_idle {
                        cycle.iter().copied().max_by_key(|node| node.state.number)
                    } else {
                        cycle.first().copied()
                    };
                    return named.map(|node| node.state.handle());
                }
                Some(next) if done.insert(next) => {
                    on_way.insert(next);
                    way.push((next, 0));
                }
                Some(_) => {}
                None => {
                    on_way.remove(number);
                    way.pop();
                }
            }
        }
    }
    graph.nodes.values().find_map(|node| match &*node.action {
        Action::Child(child) => find_cycle(&child.lock()),
        Action::Conditional(conditional) => conditional.bodies.iter().find_map(|body| find_cycle(&body.lock())),
        _ => None,
    })
}
