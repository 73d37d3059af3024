//! Edges: checked, added, removed.

use super::node::Action;
use super::state::{Contents, GraphState};
use anabranch_hal::{Dependency, Edge, EdgeData, EdgeKind, Failure, Live, Result, Status};
use std::collections::HashSet;

/// The highest port of a kernel.
const LAST_KERNEL_PORT: u8 = 2;

/// The edge from the point at which all blocks of a kernel have triggered what depends on it, or are complete.
pub(crate) const FROM_TRIGGER: EdgeData = EdgeData { from_port: 1, to_port: 0, kind: EdgeKind::PROGRAMMATIC };
/// The edge from the point at which all blocks of a kernel have begun, where they trigger an event by that.
pub(crate) const FROM_TRIGGER_AT_BLOCK_START: EdgeData =
    EdgeData { from_port: LAST_KERNEL_PORT, to_port: 0, kind: EdgeKind::PROGRAMMATIC };
/// The edge from the point at which all blocks of a kernel have begun.
pub(crate) const FROM_LAUNCH_COMPLETION: EdgeData =
    EdgeData { from_port: LAST_KERNEL_PORT, to_port: 0, kind: EdgeKind::FULL };

/// Up to so many dependencies, comparing each with each is faster than a set.
const FEW: usize = 16;

impl Contents {
    /// Checks the data of an edge from a node, to a kernel or to something else.
    fn check_data(&self, from: u64, to_kernel: bool, data: EdgeData) -> Result<()> {
        let bad = |what: &str| Err(Failure::argument(Status::INVALID_VALUE, what));
        let from_kernel = matches!(*self.node(from)?.action, Action::Kernel(_));
        if data.to_port != 0 {
            return bad("no node has a port for what it waits for but 0");
        }
        if data.from_port > if from_kernel { LAST_KERNEL_PORT } else { 0 } {
            return bad("the earlier node of an edge has no such port");
        }
        match data.kind {
            EdgeKind::FULL if [0, LAST_KERNEL_PORT].contains(&data.from_port) => Ok(()),
            EdgeKind::PROGRAMMATIC if from_kernel && to_kernel && data.from_port > 0 => Ok(()),
            EdgeKind::FULL | EdgeKind::PROGRAMMATIC => {
                bad("an edge can be programmatic only from one kernel to another")
            }
            _ => bad("there is no such kind of edge"),
        }
    }

    /// Checks the data of all edges to a new node.
    pub(super) fn check_all_data(&self, before: &[(u64, EdgeData)], to_kernel: bool) -> Result<()> {
        before.iter().try_for_each(|&(from, data)| self.check_data(from, to_kernel, data))
    }

    /// Notes with the earlier nodes that a node depends on them.
    pub(super) fn link(&mut self, before: &[(u64, EdgeData)], to: u64) {
        for (from, _) in before {
            if let Some(from) = self.nodes.get_mut(from) {
                from.after.push(to);
            }
        }
    }

    /// Counts the sinks among the nodes that a refused node would depend on anew: hardware links it before it refuses it.
    pub(crate) fn renew_sinks(&mut self, before: &[(u64, EdgeData)]) {
        for (from, _) in before {
            let count = self.note_sink();
            if let Some(node) = self.nodes.get_mut(from)
                && node.after.is_empty()
            {
                node.sink_since = count;
            }
        }
    }

    fn unlink(&mut self, from: u64, to: u64) {
        let count = self.note_sink();
        if let Some(node) = self.nodes.get_mut(&from) {
            node.after.retain(|&other| other != to);
            if node.after.is_empty() {
                node.sink_since = count;
            }
        }
        if let Some(node) = self.nodes.get_mut(&to) {
            node.before.retain(|&(other, _)| other != from);
        }
    }

    /// Removes all edges to and from a node.
    pub(super) fn unlink_all(&mut self, number: u64) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let (before, after) = (std::mem::take(&mut node.before), std::mem::take(&mut node.after));
        for (from, _) in before {
            self.unlink(from, number);
        }
        for to in after {
            self.unlink(number, to);
        }
    }

    /// All edges.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let to_edge = |(from, data): &(u64, EdgeData), to| {
            self.nodes.get(from).map(|from| Edge { from: from.state.handle(), to, data: *data })
        };
        self.nodes
            .values()
            .flat_map(|node| node.before.iter().filter_map(move |before| to_edge(before, node.state.handle())))
            .collect()
    }
}

impl GraphState {
    /// Checks which nodes a new node depends on, and adds them by number, with the data of the edges, up to the first that
    /// is wrong.
    ///
    /// # Safety
    /// The nodes of `dependencies` exist.
    pub(super) unsafe fn check_dependencies(
        &self,
        dependencies: &[Dependency],
        checked: &mut Vec<(u64, EdgeData)>,
    ) -> Result<()> {
        let contents = self.lock();
        let mut seen = HashSet::new();
        for dependency in dependencies {
            // SAFETY: the caller promises that the nodes of `dependencies` exist.
            let from = self.number_of(unsafe { Live::new(dependency.node) })?;
            contents.node(from)?;
            let twice = if dependencies.len() <= FEW {
                checked.iter().any(|(other, _)| *other == from)
            } else {
                !seen.insert(from)
            };
            if twice {
                return Err(Failure::argument(Status::INVALID_VALUE, "a dependency is there twice"));
            }
            checked.push((from, dependency.data));
        }
        Ok(())
    }

    /// Checks what a node that is to be a kernel, or something else, can depend on. A node may be there several times.
    ///
    /// # Safety
    /// The nodes of `dependencies` exist.
    pub(crate) unsafe fn check_edges_from(&self, dependencies: &[Dependency], to_kernel: bool) -> Result<()> {
        let contents = self.lock();
        dependencies.iter().try_for_each(|dependency| {
            // SAFETY: the caller promises that the nodes of `dependencies` exist.
            let from = self.number_of(unsafe { Live::new(dependency.node) })?;
            contents.check_data(from, to_kernel, dependency.data)
        })
    }

    /// The nodes of edges by number. `CUDA_ERROR_INVALID_VALUE (1)` when a node is one of another graph, or when a node would
    /// depend on itself: whatever else is wrong is looked at later, edge by edge.
    ///
    /// # Safety
    /// The nodes of the edges exist.
    unsafe fn ends(&self, edges: &[Edge]) -> Result<Vec<(u64, u64)>> {
        let ends = edges.iter().map(|edge| {
            // SAFETY: the caller promises that the nodes of the edges exist.
            let (from, to) = unsafe { (Live::new(edge.from), Live::new(edge.to)) };
            let (from, to) = (self.number_of(from)?, self.number_of(to)?);
            if from == to {
                return Err(Failure::argument(Status::INVALID_VALUE, "a node cannot depend on itself"));
            }
            Ok((from, to))
        });
        ends.collect()
    }

    /// Adds edges, up to the first that is there already. Nothing is added if the data of an edge is wrong. Hardware gives all
    /// edges of one call the data of the first.
    ///
    /// # Safety
    /// The nodes of the edges exist.
    pub(crate) unsafe fn add_edges(&self, edges: &[Edge]) -> Result<()> {
        // SAFETY: the caller promises that the nodes of the edges exist.
        let ends = unsafe { self.ends(edges) }?;
        let mut contents = self.lock();
        for (edge, (from, to)) in edges.iter().zip(&ends) {
            let to_kernel = matches!(*contents.node(*to)?.action, Action::Kernel(_));
            contents.check_data(*from, to_kernel, edge.data)?;
        }
        let data = edges.first().map(|edge| edge.data).unwrap_or_default();
        for (from, to) in ends {
            if contents.node(to)?.before.iter().any(|(other, _)| *other == from) {
                return Err(Failure::argument(Status::INVALID_VALUE, "an edge is there already"));
            }
            contents.ancestors.clear();
            contents.link(&[(from, data)], to);
            contents.node_mut(to)?.before.push((from, data));
        }
        Ok(())
    }

    /// Removes edges, up to the first that is not there. Their data is not looked at, as on hardware.
    ///
    /// # Safety
    /// The nodes of the edges exist.
    pub(crate) unsafe fn remove_edges(&self, edges: &[Edge]) -> Result<()> {
        if self.lock().marks.memory {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        // SAFETY: the caller promises that the nodes of the edges exist.
        let ends = unsafe { self.ends(edges) }?;
        let mut contents = self.lock();
        for (from, to) in ends {
            if !contents.node(to)?.before.iter().any(|(other, _)| *other == from) {
                return Err(Failure::argument(Status::INVALID_VALUE, "an edge is not there"));
            }
            contents.unlink(from, to);
        }
        Ok(())
    }
}
