//! Running one node.

use super::plan::{Plan, Step};
use super::run::{Current, Due, NodeWait, Run};
use crate::checker::{FreedBy, Operation};
use crate::engine::kernel::{KernelError, KernelWork};
use crate::engine::stream::{StreamState, Waiter};
use crate::engine::value::{ValueWaiter, write_value};
use crate::engine::{Engine, level};
use crate::event::{EventState, Recorded};
use crate::graph::{Action, ValueStep};
use crate::memory::{run_copy, run_copy_3d, run_fill};
use anabranch_hal::{ConditionalKind, Copy3d, FillNode, InsideWork};
use std::sync::Arc;

impl Run {
    /// Runs a node. `false`: it waits, and will be in line again.
    pub(super) fn execute(self: &Arc<Self>, engine: &Engine, current: &Current, due: Due) -> bool {
        let Some(step) = current.plan.steps.get(due.node as usize) else { return true };
        // Whoever waits for an event of a lost context is told so, and must not wait for ever.
        if let Action::EventRecord(_) = &*step.action {
            self.record(engine, due.node);
            return true;
        }
        if current.stream.core.is_lost() || !step.enabled {
            return true;
        }
        match &*step.action {
            Action::Host(work) => engine.run_host_work(&current.stream, current.sequence, || work.run()),
            Action::EventWait(event) => return due.part > 0 || self.wait_event(current, event, due.node),
            Action::Values(values) => return self.run_values(engine, current, &values.steps, due),
            Action::Conditional(_) => {
                self.run_conditional(engine, current, due.node);
            }
            _ => {
                self.run_plain(engine, current, step);
            }
        }
        true
    }

    /// Runs a node that neither waits nor calls the host. `false`: it failed.
    fn run_plain(&self, engine: &Engine, current: &Current, step: &Step) -> bool {
        let Some(checker) = &engine.checker else { return self.run_unchecked(engine, current, step) };
        match &*step.action {
            Action::Allocate(allocate) => checker.graph_allocated(allocate.block.address(), current.stream.id),
            Action::Free(free) => checker.graph_freed(free.block.address(), FreedBy::Stream(current.stream.id)),
            _ => {}
        }
        let Some(operation) = Operation::of_action(&step.action, step.kernel.as_ref()) else {
            return self.run_unchecked(engine, current, step);
        };
        checker.may_run(&operation, &current.stream)
            && self.run_unchecked(engine, current, step)
            && checker.has_run(&operation, &current.stream)
    }

    fn run_unchecked(&self, engine: &Engine, current: &Current, step: &Step) -> bool {
        match &*step.action {
            Action::Kernel(kernel) => {
                let Some(work) = &step.kernel else { return true };
                if let Err(error) = run_kernel(engine, &current.stream, work) {
                    match error {
                        KernelError::Fault(fault) if !Arc::ptr_eq(&kernel.core, &current.stream.core) => {
                            kernel.core.lose(fault.clone());
                            current.stream.core.lose(fault);
                        }
                        error => error.note(&current.stream, current.sequence),
                    }
                    return false;
                }
            }
            Action::Copy(copy) => copy_rows(copy),
            Action::Fill(fill) => fill_rows(fill),
            // Memory is allocated and freed where the launch is put in line; the rest is about order.
            _ => {}
        }
        true
    }

    /// `false`: it waits.
    fn wait_event(self: &Arc<Self>, current: &Current, event: &EventState, node: u32) -> bool {
        let Recorded::At(position) = event.recorded() else { return true };
        let sequence = position.sequence;
        // Its own records, and what was put in behind the launch, cannot be waited for. Its own earlier records are done.
        let behind = Arc::ptr_eq(&position.stream, &current.stream) && sequence >= current.sequence;
        if behind || self.records(&position) {
            return true;
        }
        let wait = NodeWait { run: Arc::clone(self), due: Due { node, part: 1 } };
        position.stream.completion.register(sequence, Waiter::Node(wait)).is_some()
    }

    /// `false`: it waits.
    fn run_values(self: &Arc<Self>, engine: &Engine, current: &Current, steps: &[ValueStep], due: Due) -> bool {
        let mut due = due;
        while let Some(step) = steps.get(due.part as usize) {
            if let Some(checker) = &engine.checker
                && !checker.may_run(&Operation::of_value_step(step), &current.stream)
            {
                return true;
            }
            match *step {
                ValueStep::Wait(condition) => {
                    if engine.values.is_satisfied(&condition) != Some(true) {
                        let wait = NodeWait { run: Arc::clone(self), due };
                        engine.values.add(ValueWaiter::Node(wait), condition);
                        engine.scheduler.ensure_poller(engine);
                        return false;
                    }
                }
                ValueStep::Write { address, value } => {
                    // SAFETY: whoever launched the graph vouched for the address; its alignment was checked.
                    unsafe { write_value(address, value) }
                    engine.values.written();
                }
            }
            due.part += 1;
        }
        true
    }

    /// Runs the graphs of a conditional node. `false`: one of their nodes failed.
    fn run_conditional(&self, engine: &Engine, current: &Current, node: u32) -> bool {
        let plan: &Plan = &current.plan;
        let Some(Action::Conditional(conditional)) = plan.steps.get(node as usize).map(|step| &*step.action) else {
            return true;
        };
        let Some(bodies) = plan.shape.bodies.get(&node) else { return true };
        let value = || plan.conditionals.as_ref().map_or(0, |conditionals| conditionals.get(conditional.handle));
        let run = |number: usize| bodies.get(number).is_none_or(|body| self.run_body(engine, current, body));
        match conditional.kind {
            ConditionalKind::If => run(usize::from(value() == 0)),
            ConditionalKind::Switch => usize::try_from(value()).map_or(true, run),
            ConditionalKind::While => {
                while value() != 0 {
                    // After a failure nobody may be left to end the loop.
                    if !run(0) || current.stream.core.is_lost() {
                        return false;
                    }
                }
                true
            }
        }
    }

    fn run_body(&self, engine: &Engine, current: &Current, body: &[u32]) -> bool {
        let mut succeeded = true;
        for &node in body {
            if current.stream.core.is_lost() {
                return false;
            }
            let Some(step) = current.plan.steps.get(node as usize).filter(|step| step.enabled) else { continue };
            succeeded &= match &*step.action {
                Action::Conditional(_) => self.run_conditional(engine, current, node),
                _ => self.run_plain(engine, current, step),
            };
        }
        succeeded
    }
}

fn run_kernel(engine: &Engine, stream: &StreamState, work: &Arc<KernelWork>) -> Result<(), KernelError> {
    let _scope = InsideWork::enter();
    engine.run_kernel(work, level(stream.priority))
}

fn copy_rows(copy: &Copy3d) {
    if copy.extent[1] == 1 && copy.extent[2] == 1 {
        let first = |place: &anabranch_hal::CopyPlace| {
            let [x, y, z] = place.origin;
            place.address.wrapping_add(((z * place.height + y) * place.pitch + x) as u64)
        };
        // SAFETY: whoever launched the graph vouched for both volumes, and the row lies in them, as was checked.
        unsafe { run_copy(first(&copy.destination), first(&copy.source), copy.extent[0]) }
    } else {
        // SAFETY: as above.
        unsafe { run_copy_3d(copy) }
    }
}

fn fill_rows(fill: &FillNode) {
    for row in 0..fill.height {
        let begin = fill.address.0.wrapping_add((row * fill.pitch) as u64);
        // SAFETY: whoever launched the graph vouched for the memory; that every row lies in it and is aligned was checked.
        unsafe { run_fill(begin, fill.pattern, fill.width) }
    }
}
