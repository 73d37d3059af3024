//! Changes of an executable graph, from its next launch on.

use super::ExecutableState;
use super::plan::{Flat, Step};
use crate::graph::{Action, GraphState, Node, NodeState, Place, locate};
use anabranch_hal::{
    Copy3d, Detail, EdgeData, Failure, FillNode, GraphHandle, GraphNodeHandle, GraphUpdateResult, Live, NodeParameters,
    Result, Status, ValueOperation,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Why a graph is not like another, and at which node.
type Difference = (GraphUpdateResult, Option<GraphNodeHandle>);

fn refused((result, node): Difference) -> Failure {
    Failure::with_detail(Status::GRAPH_EXEC_UPDATE_FAILURE, Detail::Update { result, node })
}

/// Whether what a node does can be replaced by something of the same kind.
fn replaceable(old: &Action, new: &Action) -> std::result::Result<(), GraphUpdateResult> {
    let same = match (old, new) {
        (Action::Kernel(old), Action::Kernel(new)) if !Arc::ptr_eq(&old.core, &new.core) => {
            return Err(GraphUpdateResult::UNSUPPORTED_FUNCTION_CHANGE);
        }
        (Action::Copy(old), Action::Copy(new)) => {
            let places = |copy: &Copy3d| (copy.source.host, copy.destination.host);
            let is_row = |copy: &Copy3d| copy.extent[1] == 1 && copy.extent[2] == 1;
            places(old) == places(new) && (is_row(old) && is_row(new) || old.extent == new.extent)
        }
        (Action::Fill(old), Action::Fill(new)) => {
            let extents = |fill: &FillNode| (fill.width, fill.height, fill.pattern.width(), fill.pitch);
            old.height == 1 && new.height == 1 || extents(old) == extents(new)
        }
        (Action::Values(old), Action::Values(new)) => {
            old.parameters.iter().map(operation).eq(new.parameters.iter().map(operation))
        }
        // Memory of another graph has another address, or may be in use by that graph's launches.
        (Action::Allocate(old), Action::Allocate(new)) if !Arc::ptr_eq(&old.block, &new.block) => {
            return Err(GraphUpdateResult::ERROR);
        }
        (Action::Conditional(old), Action::Conditional(new)) => {
            old.kind == new.kind && old.bodies.len() == new.bodies.len()
        }
        _ => true,
    };
    if same { Ok(()) } else { Err(GraphUpdateResult::PARAMETERS_CHANGED) }
}

/// What an operation is, whatever its address and value.
fn operation(operation: &ValueOperation) -> (bool, u64) {
    let (writes, value) = match operation {
        ValueOperation::Wait { value, .. } => (false, value),
        ValueOperation::Write { value, .. } => (true, value),
    };
    (writes, value.width())
}

fn nodes(graph: &GraphState) -> Vec<Node> {
    graph.lock().nodes.values().cloned().collect()
}

/// Compares two graphs, node by node in the order in which they were made.
fn compare(old: &GraphState, new: &GraphState) -> std::result::Result<(), Difference> {
    // Without their locks, because those of the graphs inside of them are taken below, in no order.
    let (old, new) = (nodes(old), nodes(new));
    if old.len() != new.len() {
        return Err((GraphUpdateResult::TOPOLOGY_CHANGED, None));
    }
    let ranks = |nodes: &[Node]| -> HashMap<u64, usize> {
        nodes.iter().enumerate().map(|(rank, node)| (node.state.number, rank)).collect()
    };
    let (old_ranks, new_ranks) = (ranks(&old), ranks(&new));
    let ranked = |before: &[(u64, EdgeData)], ranks: &HashMap<u64, usize>| {
        let rank =
            |(number, data): &(u64, EdgeData)| (ranks.get(number).copied(), data.from_port, data.to_port, data.kind.0);
        let mut ranked: Vec<_> = before.iter().map(rank).collect();
        ranked.sort_unstable();
        ranked
    };
    for (old, new) in old.iter().zip(&new) {
        let different = |result| Err((result, Some(new.state.handle())));
        if old.kind() != new.kind() {
            return different(GraphUpdateResult::NODE_KIND_CHANGED);
        }
        if ranked(&old.before, &old_ranks) != ranked(&new.before, &new_ranks) {
            return different(GraphUpdateResult::TOPOLOGY_CHANGED);
        }
        if let Err(result) = replaceable(&old.action, &new.action) {
            return different(result);
        }
        match (&*old.action, &*new.action) {
            (Action::Child(old), Action::Child(new)) => compare(old, new)?,
            (Action::Conditional(old), Action::Conditional(new)) => {
                old.bodies.iter().zip(&new.bodies).try_for_each(|(old, new)| compare(old, new))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The child graph made from the node of that id, wherever it is in a graph.
fn find_child(graph: &GraphState, id: u64) -> Option<Arc<GraphState>> {
    graph.lock().nodes.values().find_map(|node| match &*node.action {
        Action::Child(child) if node.source == id => Some(Arc::clone(child)),
        Action::Child(child) => find_child(child, id),
        Action::Conditional(conditional) => conditional.bodies.iter().find_map(|body| find_child(body, id)),
        _ => None,
    })
}

impl ExecutableState {
    /// Takes over what the nodes of a graph of the same structure do.
    pub(crate) fn update(&self, graph: &GraphState) -> Result<()> {
        let mut launches = self.launches.lock();
        compare(&launches.source, graph).map_err(refused)?;
        let source = graph.copy(Place::Alone);
        let flat = Flat::new(&source)?;
        let conditionals = flat.conditionals();
        let mut steps = flat.steps(conditionals.as_ref());
        let mut plan = (*launches.plan).clone();
        for (new, old) in steps.iter_mut().zip(&plan.steps) {
            new.enabled = old.enabled;
        }
        plan.steps = steps;
        plan.conditionals = conditionals;
        plan.sources = [(0, Arc::clone(&source))].into();
        let before =
            (std::mem::replace(&mut launches.plan, Arc::new(plan)), std::mem::replace(&mut launches.source, source));
        drop(launches);
        // Dropped without the lock.
        drop(before);
        Ok(())
    }

    /// The index of a node of the graph that this was made from. `CUDA_ERROR_INVALID_VALUE (1)` when there is none.
    fn index(&self, node: Live<'_, GraphNodeHandle>) -> Result<(u32, u64)> {
        let id = NodeState::of(node)?.id;
        let index = self.shape.index_of.get(&id).copied();
        let index = index.ok_or_else(|| {
            Failure::argument(Status::INVALID_VALUE, "the node does not belong to the graph that was instantiated")
        })?;
        Ok((index, id))
    }

    /// Replaces what one node does.
    ///
    /// # Safety
    /// The objects of the handles in the parameters exist, kernels as long as this does; what the node does at each launch is
    /// sound.
    pub(crate) unsafe fn set_parameters(
        &self,
        node: Live<'_, GraphNodeHandle>,
        parameters: NodeParameters,
    ) -> Result<()> {
        let (index, id) = self.index(node)?;
        let (graph, _) = locate(node)?;
        let before = Arc::clone(&self.launches.lock().plan);
        let old = before.steps.get(index as usize).ok_or(Failure::new(Status::INVALID_VALUE))?;
        if old.action.kind() != parameters.kind() {
            return Err(Failure::argument(Status::INVALID_VALUE, "the parameters are those of another kind of node"));
        }
        if let NodeParameters::Child(child) = parameters {
            // SAFETY: the caller promises that the graph in the parameters exists.
            return self.set_child(index, id, unsafe { Live::new(child) });
        }
        // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
        let action = Arc::new(unsafe { graph.make_plain(parameters) }?);
        replaceable(&old.action, &action)
            .map_err(|result| Failure::argument(Status::INVALID_VALUE, result.reason()))?;
        let mut step = Step::new(action, before.conditionals.as_ref());
        step.enabled = old.enabled;
        // Given up before the change, so that a plan that no launch uses is changed in place. What the step held is kept
        // by the graph that the plan was made from, or dropped here.
        let replaced = old.clone();
        drop(before);
        let mut launches = self.launches.lock();
        if let Some(old) = Arc::make_mut(&mut launches.plan).steps.get_mut(index as usize) {
            *old = step;
        }
        drop(launches);
        drop(replaced);
        Ok(())
    }

    /// Replaces what the nodes of a child graph do.
    fn set_child(&self, index: u32, id: u64, child: Live<'_, GraphHandle>) -> Result<()> {
        let child = GraphState::of(child)?;
        let old = find_child(&self.original, id).ok_or(Failure::new(Status::INVALID_VALUE))?;
        compare(&old, child).map_err(refused)?;
        let source = child.copy(Place::Child);
        let mut launches = self.launches.lock();
        let steps = Flat::new(&source)?.steps(launches.plan.conditionals.as_ref());
        let plan = Arc::make_mut(&mut launches.plan);
        // The child's nodes follow its beginning.
        let first = index as usize + 1;
        let mut replaced = Vec::with_capacity(steps.len());
        for (old, mut new) in plan.steps.iter_mut().skip(first).zip(steps) {
            new.enabled = old.enabled;
            replaced.push(std::mem::replace(old, new));
        }
        let before = plan.sources.insert(index + 1, source);
        drop(launches);
        // Dropped without the lock.
        drop((replaced, before));
        Ok(())
    }

    /// Lets a kernel, copy or fill do nothing, or do its work again.
    pub(crate) fn set_enabled(&self, node: Live<'_, GraphNodeHandle>, enabled: bool) -> Result<()> {
        let (index, _) = self.index(node)?;
        let mut launches = self.launches.lock();
        let step = launches.plan.steps.get(index as usize);
        if !step.is_some_and(can_be_disabled) {
            return Err(Failure::argument(Status::INVALID_VALUE, "only kernels, copies and fills can be disabled"));
        }
        if let Some(step) = Arc::make_mut(&mut launches.plan).steps.get_mut(index as usize) {
            step.enabled = enabled;
        }
        Ok(())
    }

    /// Whether a kernel, copy or fill does its work.
    pub(crate) fn is_enabled(&self, node: Live<'_, GraphNodeHandle>) -> Result<bool> {
        let (index, _) = self.index(node)?;
        let launches = self.launches.lock();
        let step = launches.plan.steps.get(index as usize).filter(|step| can_be_disabled(step));
        step.map(|step| step.enabled).ok_or(Failure::new(Status::INVALID_VALUE))
    }
}

fn can_be_disabled(step: &Step) -> bool {
    matches!(&*step.action, Action::Kernel(_) | Action::Copy(_) | Action::Fill(_))
}
