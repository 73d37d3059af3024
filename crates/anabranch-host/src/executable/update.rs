//! Changes of an executable graph, from its next launch on.

use super::ExecutableState;
use super::pairing::{Difference, Pairing, merge};
use super::plan::{Flat, Step};
use crate::graph::{
    Action, GraphState, Marks, NodeState, Place, attributes_stay, locate, replaceable, replaceable_alone,
};
use anabranch_hal::{
    Detail, Failure, GraphHandle, GraphNodeHandle, GraphNodeKind, GraphUpdateResult, Live, NodeParameters, Result,
    Status,
};
use std::sync::Arc;

fn refused((result, node): Difference) -> Failure {
    Failure::with_detail(Status::GRAPH_EXEC_UPDATE_FAILURE, Detail::Update { result, node })
}

fn no_child() -> Failure {
    let what = "the graph can be no child, because it allocates memory or has conditional nodes";
    Failure::argument(Status::GRAPH_EXEC_UPDATE_FAILURE, what)
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
        if graph.place == Place::Body {
            return Err(Failure::argument(Status::INVALID_VALUE, "the graph belongs to a conditional node"));
        }
        let mut launches = self.launches.lock();
        // Memory and bodies of a graph are for one executable graph only.
        graph.refuse_second_with_memory(Some(self))?;
        let source = merge(&launches.source, graph, Pairing::BySinks).map_err(refused)?;
        graph.refuse_second_with_conditionals(Some(self))?;
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
        graph.note_instance(self.this.clone(), true);
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
        let (graph, number) = locate(node)?;
        let described = Arc::clone(&graph.lock().node(number)?.action);
        match &parameters {
            // There is nothing to replace, so no executable graph is asked.
            NodeParameters::Empty if described.kind() == GraphNodeKind::EMPTY => return Ok(()),
            // Those of no executable graph can be replaced, so none is asked either.
            NodeParameters::Allocate(_) | NodeParameters::Free(_) | NodeParameters::Conditional(_)
                if described.kind() == parameters.kind() =>
            {
                return Err(Failure::argument(Status::NOT_SUPPORTED, "what such a node does cannot be replaced"));
            }
            NodeParameters::Kernel(wanted) if !attributes_stay(&described, wanted) => {
                return Err(refused((GraphUpdateResult::ATTRIBUTES_CHANGED, Some(node.handle()))));
            }
            _ => {}
        }
        let child_marks = match &parameters {
            // SAFETY: the caller promises that the graph in the parameters exists.
            NodeParameters::Child(child) => GraphState::of(unsafe { Live::new(*child) })?.lock().marks,
            _ => Marks::default(),
        };
        if child_marks.memory {
            return Err(no_child());
        }
        let (index, id) = self.index(node)?;
        let before = Arc::clone(&self.launches.lock().plan);
        let old = before.steps.get(index as usize).ok_or(Failure::new(Status::INVALID_VALUE))?;
        if child_marks.value {
            return Err(no_child());
        }
        if old.action.kind() != parameters.kind() {
            return Err(Failure::argument(Status::INVALID_VALUE, "the parameters are those of another kind of node"));
        }
        if let NodeParameters::Child(child) = parameters {
            // SAFETY: the caller promises that the graph in the parameters exists.
            return self.set_child(index, id, unsafe { Live::new(child) });
        }
        // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
        let action = Arc::new(unsafe { graph.make_plain(parameters) }?);
        replaceable(&graph.memory.table, &old.action, &action)
            .map_err(|result| Failure::argument(Status::INVALID_VALUE, result.reason()))?;
        if !replaceable_alone(&old.action, &action) {
            let what = "copies of several rows or slices can be replaced only by an update from a graph";
            return Err(Failure::argument(Status::INVALID_VALUE, what));
        }
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
        let source = merge(&old, child, Pairing::ByNumber).map_err(refused)?;
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
