//! One capture, from its beginning to its end.

use super::graph::CaptureGraph;
use crate::engine::{ContextCore, Role, StreamState};
use crate::graph::FROM_TRIGGER;
use anabranch_hal::{AddedNode, CaptureMode, Dependency, EdgeData, EdgeKind, GraphNodeHandle, NodeParameters, Result};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Arc;

/// A member of a capture.
#[derive(Debug)]
struct Branch {
    stream: Arc<StreamState>,
    /// What its next node will depend on.
    dependencies: Vec<Dependency>,
    /// The last node that was captured in it.
    last: Option<GraphNodeHandle>,
    is_destroyed: bool,
}

/// A capture.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) id: u64,
    pub(super) graph: CaptureGraph,
    pub(super) mode: CaptureMode,
    /// The thread that began it.
    pub(super) thread: u64,
    /// The stream that it began in, by number.
    pub(super) origin: u64,
    pub(super) invalidated: bool,
    /// The origin and the streams that have joined, by number.
    branches: HashMap<u64, Branch>,
    /// What each captured node depends on.
    parents: HashMap<GraphNodeHandle, SmallVec<[GraphNodeHandle; 2]>>,
    /// Nodes of dependency sets that the caller has replaced. They need not be joined.
    excused: Vec<GraphNodeHandle>,
}

impl Session {
    pub(super) fn new(id: u64, graph: CaptureGraph, mode: CaptureMode, thread: u64, origin: u64) -> Self {
        Self {
            id,
            graph,
            mode,
            thread,
            origin,
            invalidated: false,
            branches: HashMap::new(),
            parents: HashMap::new(),
            excused: Vec::new(),
        }
    }

    /// Makes a stream a member.
    pub(super) fn add_stream(&mut self, stream: &Arc<StreamState>, dependencies: &[Dependency]) {
        let branch = Branch { stream: Arc::clone(stream), dependencies: Vec::new(), last: None, is_destroyed: false };
        self.branches.insert(stream.id, branch);
        self.add_dependencies(stream, dependencies);
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &Arc<StreamState>> {
        self.branches.values().map(|branch| &branch.stream)
    }

    /// Notes that a stream was destroyed. If it is a member, its nodes still have to be joined.
    pub(super) fn note_destroyed(&mut self, stream: &StreamState) {
        if let Some(branch) = self.branches.get_mut(&stream.id) {
            branch.is_destroyed = true;
        }
    }

    /// Whether a stream of the context is a member, and was not destroyed.
    pub(super) fn has_stream_of(&self, core: &ContextCore) -> bool {
        self.streams_of(core).next().is_some()
    }

    pub(super) fn has_blocking_stream_of(&self, core: &ContextCore) -> bool {
        self.streams_of(core).any(|stream| stream.role == Role::Blocking)
    }

    fn streams_of(&self, core: &ContextCore) -> impl Iterator<Item = &Arc<StreamState>> {
        let there = self.branches.values().filter(|branch| !branch.is_destroyed).map(|branch| &branch.stream);
        there.filter(move |stream| ptr::eq(&raw const *stream.core, core))
    }

    pub(super) fn began_in(&self, core: &ContextCore) -> bool {
        self.branches.get(&self.origin).is_some_and(|branch| ptr::eq(&raw const *branch.stream.core, core))
    }

    /// What the stream's next node will depend on.
    pub(super) fn dependencies(&self, stream: &StreamState) -> &[Dependency] {
        self.branches.get(&stream.id).map_or(&[], |branch| &branch.dependencies)
    }

    /// Adds a node to the stream.
    ///
    /// # Safety
    /// The objects of the handles in the parameters exist, kernels as long as the node and its copies do; what the node does
    /// at each launch is sound.
    pub(super) unsafe fn add_node(&mut self, stream: &StreamState, parameters: NodeParameters) -> Result<AddedNode> {
        let dependencies = self.branches.get(&stream.id).map_or(&[][..], |branch| &branch.dependencies);
        // SAFETY: the caller promises it for the parameters. The dependencies are nodes that the capture made, or that somebody
        // promised to exist until it ends.
        let added = unsafe { self.graph.add_node(dependencies, parameters) };
        self.invalidated |= added.is_err() && self.graph.is_recapture();
        let added = added?;
        if let Some(branch) = self.branches.get_mut(&stream.id) {
            let parents = branch.dependencies.iter().map(|dependency| dependency.node).collect();
            self.parents.insert(added.node, parents);
            branch.dependencies.clear();
            branch.dependencies.push(added.node.into());
            branch.last = Some(added.node);
        }
        Ok(added)
    }

    /// Makes the stream's next node, a kernel, depend on the trigger of the kernel before it. Returns the dependency as it was, if
    /// it has changed.
    pub(super) fn overlap(&mut self, stream: &StreamState) -> Option<Dependency> {
        let [before] = self.dependencies(stream) else { return None };
        let before = *before;
        let overlapping = Dependency { data: FROM_TRIGGER, ..before };
        // SAFETY: the dependencies are nodes that the capture made, or that somebody promised to exist until it ends.
        let is_after_kernel = unsafe { self.graph.check(&[overlapping]) }.is_ok();
        if !is_after_kernel {
            return None;
        }
        self.restore(stream, overlapping);
        Some(before)
    }

    /// Makes the stream's next node depend on that alone.
    pub(super) fn restore(&mut self, stream: &StreamState, dependency: Dependency) {
        if let Some(branch) = self.branches.get_mut(&stream.id) {
            branch.dependencies = vec![dependency];
        }
    }

    /// Makes the stream's next node depend on others as well.
    pub(super) fn add_dependencies(&mut self, stream: &StreamState, added: &[Dependency]) {
        if let Some(branch) = self.branches.get_mut(&stream.id) {
            for dependency in added {
                match branch.dependencies.iter_mut().find(|known| known.node == dependency.node) {
                    Some(known) if covers(dependency.data, known.data) => known.data = dependency.data,
                    Some(_) => {}
                    None => branch.dependencies.push(*dependency),
                }
            }
        }
    }

    /// Makes the stream's next node depend on others instead.
    pub(super) fn set_dependencies(&mut self, stream: &StreamState, dependencies: &[Dependency]) {
        if let Some(branch) = self.branches.get_mut(&stream.id) {
            // Also those that are given again.
            self.excused.extend(branch.dependencies.drain(..).map(|dependency| dependency.node));
        }
        self.add_dependencies(stream, dependencies);
    }

    /// Notes the end of a capture that has succeeded. Hardware makes the nodes that the origin's next one would depend on sinks
    /// anew, in this order.
    pub(super) fn renew_sinks(&self) {
        if let Some(origin) = self.branches.get(&self.origin) {
            self.graph.renew_sinks(&origin.dependencies);
        }
    }

    /// Whether all forks are joined: other nodes depend on the last node of each, or the origin's next one would.
    pub(super) fn is_joined(&self) -> bool {
        let forks = || self.branches.iter().filter(|(id, _)| **id != self.origin).filter_map(|(_, branch)| branch.last);
        if forks().next().is_none() {
            return true;
        }
        let origin = self.branches.get(&self.origin).map_or(&[][..], |branch| &branch.dependencies);
        // Both ways to depend count: that by which nodes were captured, whatever became of the graph's edges, and that
        // which the caller has added.
        let edges = self.graph.parents();
        let mut joined: HashSet<GraphNodeHandle> = origin.iter().map(|dependency| dependency.node).collect();
        joined.extend(&self.excused);
        joined.extend(self.parents.values().flatten());
        joined.extend(edges.values().flatten());
        forks().all(|last| joined.contains(&last))
    }
}

/// Whether a dependency on one point of a kernel stands for that on another: its end comes after its trigger, and that after the
/// begin of its blocks, which can be a trigger, too.
fn covers(data: EdgeData, other: EdgeData) -> bool {
    let rank = |data: EdgeData| (data.from_port, data.kind != EdgeKind::PROGRAMMATIC);
    rank(data) < rank(other)
}
