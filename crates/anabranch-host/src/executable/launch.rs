//! Launches: enqueued, and run from there.

use super::ExecutableState;
use super::plan::{Plan, Step};
use super::run::{Awaited, Current};
use crate::engine::{ContextCore, Entry, Outcome, Position, StreamState, Turn, Work, work};
use crate::event::{CapturedRecord, Recorded};
use crate::graph::Action;
use anabranch_hal::{InstantiateFlags, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// A launch in a queue.
#[derive(Debug)]
struct GraphLaunch {
    executable: Arc<ExecutableState>,
    plan: Arc<Plan>,
    awaited: Awaited,
    begun: bool,
}

impl Work for GraphLaunch {
    fn run(&mut self, turn: &Turn<'_>) -> Outcome {
        let run = &self.executable.run;
        if !std::mem::replace(&mut self.begun, true) {
            let stream = Arc::clone(turn.stream);
            let (plan, awaited) = (Arc::clone(&self.plan), self.awaited.take());
            if run.begin(Current { plan, awaited, stream, sequence: turn.sequence }) {
                return Outcome::Done;
            }
            if turn.engine.is_deterministic() {
                run.offer();
            } else {
                run.run_in_stream(turn.engine, turn.stream);
            }
        }
        if run.is_done() { Outcome::Done } else { Outcome::Parked(Arc::clone(run) as _) }
    }

    /// A launch skips its own nodes, because some may be running.
    fn skip(&mut self, turn: &Turn<'_>) -> Outcome {
        self.run(turn)
    }

    fn abandon(&mut self) {
        if self.begun {
            self.executable.run.abandon();
        }
    }
}

impl ExecutableState {
    /// Enqueues a launch.
    pub(crate) fn launch(self: Arc<Self>, stream: &Arc<StreamState>) -> Result<()> {
        self.launch_plan(None, stream)
    }

    /// Enqueues a launch of another plan of the same structure, if there is one.
    fn launch_plan(self: Arc<Self>, plan: Option<Plan>, stream: &Arc<StreamState>) -> Result<()> {
        // Held throughout, so that launches are enqueued in the order in which they follow each other.
        let mut launches = self.launches.lock();
        self.memory.launch(&self.run.memory, self.flags.contains(InstantiateFlags::AUTO_FREE_ON_LAUNCH))?;
        let follows = launches.last.take_if(|last| !Arc::ptr_eq(&last.stream, stream));
        if let Some(last) = follows.filter(|last| !last.is_complete() || last.undone().is_some()) {
            stream.put(Entry::WaitFor(last));
        }
        // Before anything can follow the launch, because no launch can wait for that.
        let plan = plan.map_or_else(|| Arc::clone(&launches.plan), Arc::new);
        let awaited = self.awaited_by(&plan);
        let launched = Arc::clone(&plan);
        let launch = GraphLaunch { executable: Arc::clone(&self), plan, awaited, begun: false };
        let sequence = stream.put(work(launch));
        match &mut launches.last {
            Some(last) => last.sequence = sequence,
            None => launches.last = Some(Position { stream: Arc::clone(stream), sequence }),
        }
        // Only now, so that waits for these records follow the launch.
        for recorder in &self.run.recorders {
            let step = launched.steps.get(recorder.node as usize);
            if let Some(Action::EventRecord(event)) = step.map(|step| &*step.action) {
                event.bind(recorder.next(), &recorder.time);
            }
        }
        drop(launches);
        // Without the lock, because work may run here.
        stream.drain_if_full(sequence);
        Ok(())
    }

    /// What was captured by events of a context that a launch now would wait for in its stream, and the nodes that do so: the
    /// first root, and what comes first after it, run in the stream itself.
    pub(crate) fn captured_waits(&self, core: &ContextCore) -> Vec<(u32, CapturedRecord)> {
        let shape = &self.run.shape;
        if shape.waits.is_empty() {
            return Vec::new();
        }
        let plan = Arc::clone(&self.launches.lock().plan);
        let captured = self.run_in_stream().filter_map(|node| match &*plan.steps.get(node as usize)?.action {
            Action::EventWait(event) if event.core.id == core.id => match event.recorded() {
                Recorded::Captured(record) => Some((node, record)),
                _ => None,
            },
            _ => None,
        });
        captured.collect()
    }

    /// The nodes that run in the stream of a launch itself, in their order.
    fn run_in_stream(&self) -> impl Iterator<Item = u32> {
        let shape = &self.run.shape;
        std::iter::successors(shape.roots.first().copied(), |&node| shape.after(node).first().copied())
    }

    /// Enqueues what a launch does in its stream before a node at which it is refused.
    pub(crate) fn launch_before(self: Arc<Self>, node: u32, stream: &Arc<StreamState>) -> Result<()> {
        let before: Vec<u32> = self.run_in_stream().take_while(|&before| before != node).collect();
        let mut plan = (*self.launches.lock().plan).clone();
        for (index, step) in plan.steps.iter_mut().enumerate() {
            if !before.contains(&(index as u32)) {
                *step = Step::new(Arc::new(Action::Empty), None);
            }
        }
        self.launch_plan(Some(plan), stream)
    }

    /// What a launch now would wait for.
    fn awaited_by(&self, plan: &Plan) -> Awaited {
        let waits = self.run.shape.waits.iter();
        let awaited: SmallVec<[_; 4]> = waits
            .filter_map(|&node| {
                let Action::EventWait(event) = &*plan.steps.get(node as usize)?.action else { return None };
                let Recorded::At(position) = event.recorded() else { return None };
                (!position.is_complete() || position.undone().is_some()).then_some((node, position))
            })
            .collect();
        (!awaited.is_empty()).then(|| Arc::from_iter(awaited))
    }
}
