//! Launches: enqueued, and run from there.

use super::ExecutableState;
use super::plan::Plan;
use super::run::{Awaited, Current};
use crate::engine::{Entry, Outcome, Position, StreamState, Turn, Work, work};
use crate::event::Recorded;
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
        // Held throughout, so that launches are enqueued in the order in which they follow each other.
        let mut launches = self.launches.lock();
        self.memory.check(self.flags.contains(InstantiateFlags::AUTO_FREE_ON_LAUNCH))?;
        let follows = launches.last.take_if(|last| !Arc::ptr_eq(&last.stream, stream));
        if let Some(last) = follows.filter(|last| !last.is_complete() || last.undone().is_some()) {
            stream.put(Entry::WaitFor(last));
        }
        self.memory.note();
        // Before anything can follow the launch, because no launch can wait for that.
        let awaited = self.awaited_by(&launches.plan);
        let plan = Arc::clone(&launches.plan);
        let launch = GraphLaunch { executable: Arc::clone(&self), plan, awaited, begun: false };
        let sequence = stream.put(work(launch));
        match &mut launches.last {
            Some(last) => last.sequence = sequence,
            None => launches.last = Some(Position { stream: Arc::clone(stream), sequence }),
        }
        // Only now, so that waits for these records follow the launch.
        for recorder in &self.run.recorders {
            let step = launches.plan.steps.get(recorder.node as usize);
            if let Some(Action::EventRecord(event)) = step.map(|step| &*step.action) {
                event.bind(recorder.next(), &recorder.time);
            }
        }
        drop(launches);
        // Without the lock, because work may run here.
        stream.drain_if_full(sequence);
        Ok(())
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
