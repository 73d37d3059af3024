//! The nodes of two graphs of the same structure, paired as hardware does for an update.
//!
//! Sinks, which no other node depends on, are paired in the order in which they became sinks. The pairs of sinks are
//! compared first, then those of the nodes that they depend on, which are paired in the order of the edges; of both, the
//! last pair comes first. The order in which nodes were made means nothing. The first difference on that way is reported.
//! If only the graph of a node is replaced, its nodes are paired in the order in which they were made.

use crate::graph::{Action, ConditionalAction, GraphState, Node, replaceable};
use anabranch_hal::{GraphNodeHandle, GraphUpdateResult};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Why a graph is not like another, and at which node.
pub(super) type Difference = (GraphUpdateResult, Option<GraphNodeHandle>);

/// How the first nodes are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairing {
    /// Sinks, in the order in which they became sinks.
    BySinks,
    /// All, in the order in which they were made.
    ByNumber,
}

type Nodes = BTreeMap<u64, Node>;

/// A copy of a graph in which nodes do what the nodes of another graph do that they are paired with.
pub(super) fn merge(old: &GraphState, new: &GraphState, pairing: Pairing) -> Result<Arc<GraphState>, Difference> {
    // Without their locks, because those of the graphs inside of them are taken below, in no order.
    let nodes = |graph: &GraphState| graph.lock().nodes.clone();
    let (old_nodes, new_nodes) = (nodes(old), nodes(new));
    let merged = old.new_beside(old.place);
    let mut actions = HashMap::with_capacity(old_nodes.len());
    pair(&old_nodes, &new_nodes, pairing, |old, new| {
        replaceable(&merged.memory.table, &old.action, &new.action)
            .map_err(|result| (result, Some(new.state.handle())))?;
        let action = match (&*old.action, &*new.action) {
            (Action::Child(old), Action::Child(new)) => Arc::new(Action::Child(merge(old, new, pairing)?)),
            (Action::Conditional(old), Action::Conditional(new)) => {
                let bodies = old.bodies.iter().zip(&new.bodies).map(|(old, new)| merge(old, new, pairing));
                let bodies = bodies.collect::<Result<_, _>>()?;
                Arc::new(Action::Conditional(ConditionalAction { bodies, ..*new }))
            }
            _ => Arc::clone(&new.action),
        };
        actions.insert(old.state.number, action);
        Ok(())
    })?;
    let conditionals = new.lock().conditionals.clone();
    merged.become_copy(&old.lock(), conditionals, |node| {
        Arc::clone(actions.get(&node.state.number).unwrap_or(&node.action))
    });
    Ok(merged)
}

/// The sinks, in the order in which they became sinks.
fn sinks(nodes: &Nodes) -> Vec<&Node> {
    let mut sinks: Vec<_> = nodes.values().filter(|node| node.after.is_empty()).collect();
    sinks.sort_unstable_by_key(|node| node.sink_since);
    sinks
}

/// Visits each node of an acyclic graph with the node of another graph that it is paired with.
fn pair(
    old: &Nodes,
    new: &Nodes,
    pairing: Pairing,
    mut visit: impl FnMut(&Node, &Node) -> Result<(), Difference>,
) -> Result<(), Difference> {
    let changed = |node: Option<&Node>| (GraphUpdateResult::TOPOLOGY_CHANGED, node.map(|node| node.state.handle()));
    if old.len() != new.len() {
        return Err(changed(None));
    }
    let (old_sinks, new_sinks) = (sinks(old), sinks(new));
    if old_sinks.len() != new_sinks.len() {
        // From the last ones on, the first that is in no pair.
        let left = new_sinks.len().checked_sub(old_sinks.len() + 1);
        return Err(changed(left.map(|left| new_sinks[left])));
    }
    // By number, in both directions.
    let (mut new_of, mut old_of) = (HashMap::new(), HashMap::new());
    let mut first: Vec<_> = match pairing {
        Pairing::BySinks => old_sinks.into_iter().zip(new_sinks).collect(),
        Pairing::ByNumber => old.values().zip(new.values()).collect(),
    };
    for (old, new) in &first {
        new_of.insert(old.state.number, new.state.number);
        old_of.insert(new.state.number, old.state.number);
    }
    let mut later = Vec::new();
    while let Some((old_node, new_node)) = first.pop().or_else(|| later.pop()) {
        if old_node.before.len() != new_node.before.len() {
            return Err(changed(Some(new_node)));
        }
        if old_node.kind() != new_node.kind() {
            return Err((GraphUpdateResult::NODE_KIND_CHANGED, Some(new_node.state.handle())));
        }
        for ((old_before, old_data), (new_before, new_data)) in old_node.before.iter().zip(&new_node.before) {
            match (new_of.get(old_before), old_of.get(new_before), old.get(old_before), new.get(new_before)) {
                (Some(number), ..) if number == new_before && old_data == new_data => {}
                (None, None, Some(old_before), Some(new_before)) if old_data == new_data => {
                    new_of.insert(old_before.state.number, new_before.state.number);
                    old_of.insert(new_before.state.number, old_before.state.number);
                    later.push((old_before, new_before));
                }
                _ => return Err(changed(Some(new_node))),
            }
        }
        visit(old_node, new_node)?;
    }
    Ok(())
}
