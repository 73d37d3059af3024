//! Running one node.

use super::exclusion::memory_uses;
use super::plan::{Plan, Step};
use super::run::{Current, Due, NodeWait, Run};
use crate::engine::{Condition, Engine, Moment, NumberCondition, Operation, Turn, Waiter};
use crate::graph::Action;
use crate::memory::{FreedBy, Lookup, ValueStep, copy_racing, fill_operation, fill_racing, value_write_operation};
use crate::module::{KernelError, KernelWork, run_kernel};
use anabranch_hal::{ConditionalKind, FillNode, KernelFault, LaunchedIn};
use std::sync::Arc;

impl Current {
    fn turn<'a>(&'a self, engine: &'a Engine) -> Turn<'a> {
        Turn { engine, stream: &self.stream, sequence: self.sequence }
    }
}

impl Run {
    /// Runs a node. `false`: it waits, and will be queued again.
    pub(super) fn execute(self: &Arc<Self>, engine: &Engine, current: &Current, due: Due) -> bool {
        let Some(step) = current.plan.steps.get(due.node as usize) else { return true };
        // Recorded in a lost context too, so that nobody waits for the event for ever.
        if let Action::EventRecord(_) = &*step.action {
            self.record(engine, due.node, current.stream.core.fault());
            return true;
        }
        let is_left_out = current.stream.core.is_lost() || !step.enabled;
        match &*step.action {
            _ if is_left_out && due.part == 0 => {}
            Action::Host(work) => {
                // SAFETY: it is dropped behind the call, and this is the launch in the stream.
                let _launched = unsafe { LaunchedIn::enter(current.stream.id) };
                engine.run_host_work(current.stream.partition.as_ref(), || work.run());
            }
            Action::EventWait(_) => return self.wait_event(current, due),
            Action::Values(_) | Action::ExternalWait(_) if is_left_out => {}
            Action::Values(values) => return self.run_values(engine, current, &values.steps, due),
            Action::ExternalSignal(signal) => {
                signal.numbers.iter().for_each(|each| each.number.raise(each.value));
                engine.values.changed();
            }
            Action::ExternalWait(wait) => return self.wait_numbers(engine, &wait.numbers, due),
            Action::Kernel(_) | Action::Copy(_) | Action::Fill(_) | Action::Conditional(_) => {
                return self.run_alone(engine, current, step, due);
            }
            _ => {
                self.run_plain(engine, current, step);
            }
        }
        true
    }

    /// Runs a node that uses memory, while no other node writes that memory, or reads what it writes. `false`: it waits.
    fn run_alone(self: &Arc<Self>, engine: &Engine, current: &Current, step: &Step, due: Due) -> bool {
        let is_concurrent = current.plan.shape.is_concurrent;
        // A node that was queued again was let in.
        if is_concurrent && due.part == 0 && !self.enter(due, memory_uses(&current.plan, due.node)) {
            return false;
        }
        if !current.stream.core.is_lost() {
            match &*step.action {
                Action::Conditional(_) => self.run_conditional(engine, current, due.node),
                _ => self.run_plain(engine, current, step),
            };
        }
        if is_concurrent {
            self.leave(due.node);
        }
        true
    }

    /// Runs a node that neither waits nor calls the host. `false`: it failed.
    fn run_plain(&self, engine: &Engine, current: &Current, step: &Step) -> bool {
        if engine.observer.is_none() {
            return self.run_unchecked(engine, current, step);
        }
        let by = current.stream.id;
        self.memory.notify(|observer| match &*step.action {
            Action::Allocate(allocate) => observer.graph_allocated(allocate.block.address(), by),
            Action::Free(free) => observer.graph_freed(free.block.address(), FreedBy::Stream(by)),
            _ => {}
        });
        let operation = operation(&step.action, step.kernel.as_ref());
        let turn = current.turn(engine);
        engine.check(&turn, operation.as_ref(), Moment::Before)
            && self.run_unchecked(engine, current, step)
            && engine.check(&turn, operation.as_ref(), Moment::After)
    }

    fn run_unchecked(&self, engine: &Engine, current: &Current, step: &Step) -> bool {
        match &*step.action {
            Action::Kernel(kernel) => {
                let Some(work) = &step.kernel else { return true };
                let (level, partition) = (current.stream.level(), current.stream.partition.as_ref());
                if let Err(error) = run_kernel(engine, work, level, partition) {
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
            // SAFETY: the caller that launched the graph guaranteed both volumes.
            Action::Copy(copy) => unsafe { copy.work.run(copy_racing) },
            Action::Fill(fill) => fill_rows(fill),
            // Memory is allocated and freed when the launch is enqueued; the other kinds only order nodes.
            _ => {}
        }
        true
    }

    /// `false`: it waits.
    fn wait_event(self: &Arc<Self>, current: &Current, due: Due) -> bool {
        let mut awaited = current.awaited.iter().flat_map(|awaited| awaited.iter());
        let Some((_, position)) = awaited.find(|(waiting, _)| *waiting == due.node) else { return true };
        let wait = NodeWait { run: Arc::clone(self), due: Due { part: 1, ..due } };
        let is_reached = due.part > 0
            || position.stream.completion.register(position.sequence, Waiter::Other(Box::new(wait))).is_some();
        if let Some(fault) = position.undone()
            && is_reached
        {
            current.stream.core.lose_behind(fault);
        }
        is_reached
    }

    /// `false`: it waits.
    fn run_values(self: &Arc<Self>, engine: &Engine, current: &Current, steps: &[ValueStep], due: Due) -> bool {
        let mut due = due;
        while let Some(step) = steps.get(due.part as usize) {
            let (address, bytes) = match *step {
                ValueStep::Wait(condition) => condition.place(),
                ValueStep::Write(write) => (write.address, write.value.width()),
            };
            if !matches!(self.memory.table.find(address, bytes as usize), Lookup::Inside(_)) {
                let message =
                    format!("a value operation of a graph uses {bytes} bytes at {address:#x}, which are no memory");
                current.stream.core.lose(KernelFault::illegal_address(message));
                return true;
            }
            let operation = engine.observer.is_some().then(|| match *step {
                ValueStep::Wait(condition) => condition.operation(),
                ValueStep::Write(write) => value_write_operation(write.address, write.value),
            });
            if !engine.check(&current.turn(engine), operation.as_ref(), Moment::Before) {
                return true;
            }
            match *step {
                ValueStep::Wait(condition) => {
                    if engine.values.is_satisfied(&condition) != Some(true) {
                        let wait = NodeWait { run: Arc::clone(self), due };
                        engine.values.add(Box::new(wait), Condition::Value(condition));
                        engine.ensure_poller();
                        return false;
                    }
                }
                ValueStep::Write(write) => {
                    // SAFETY: the address is one of memory, as was just checked, and aligned, as was checked before;
                    // the caller that launched the graph guaranteed that nobody else uses it.
                    unsafe { write.run() }
                    engine.values.written_at(write.address);
                }
            }
            due.part += 1;
        }
        true
    }

    /// `false`: it waits.
    fn wait_numbers(self: &Arc<Self>, engine: &Engine, conditions: &[NumberCondition], due: Due) -> bool {
        let Some(condition) = conditions.iter().find(|condition| !condition.is_satisfied()) else { return true };
        let wait = NodeWait { run: Arc::clone(self), due: Due { part: 1, ..due } };
        engine.values.add(Box::new(wait), Condition::Number(condition.clone()));
        engine.ensure_poller();
        false
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
                    // After a failure nothing may be left to end the loop.
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

/// What a node uses that neither waits nor calls the host, or a conditional one by itself.
fn operation(action: &Action, kernel: Option<&Arc<KernelWork>>) -> Option<Operation> {
    match (action, kernel) {
        (Action::Kernel(_), Some(work)) => Some(work.operation()),
        (Action::Copy(copy), _) => Some(copy.work.operation()),
        (Action::Fill(fill), _) => Some(fill_operation(fill.address.0, fill_bytes(fill))),
        _ => None,
    }
}

/// How many bytes lie between the first and the last byte of a fill, with both.
pub(super) fn fill_bytes(fill: &FillNode) -> usize {
    let row = fill.width.saturating_mul(fill.pattern.width());
    fill.height.saturating_sub(1).saturating_mul(fill.pitch).saturating_add(row)
}

fn fill_rows(fill: &FillNode) {
    for row in 0..fill.height {
        let begin = fill.address.0.wrapping_add((row * fill.pitch) as u64);
        // SAFETY: the caller that launched the graph guaranteed the memory; that every row lies in it and is aligned
        // was checked.
        unsafe { fill_racing(begin, fill.pattern, fill.width) }
    }
}
