//! Launches: enqueued, and run from there.

use super::ExecutableState;
use super::plan::Plan;
use super::run::Current;
use crate::engine::{Entry, JointWork, Outcome, Position, StreamState, Turn, Work, work};
use crate::graph::Action;
use anabranch_hal::{InstantiateFlags, Result};
use std::sync::Arc;

/// A launch in a queue.
#[derive(Debug)]
struct GraphLaunch {
    executable: Arc<ExecutableState>,
    plan: Arc<Plan>,
    begun: bool,
}

impl Work for GraphLaunch {
    fn run(&mut self, turn: &Turn<'_>) -> Outcome {
        let run = &self.executable.run;
        if !std::mem::replace(&mut self.begun, true) {
            let stream = Arc::clone(turn.stream);
            if run.begin(Current { plan: Arc::clone(&self.plan), stream, sequence: turn.sequence }) {
                return Outcome::Done;
            }
            if turn.engine.is_deterministic() {
                run.offer();
            } else {
                Arc::clone(run).help(turn.engine);
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
        if let Some(last) = follows.filter(|last| !last.is_complete()) {
            stream.put(Entry::WaitFor(last));
        }
        self.memory.note();
        let launch = GraphLaunch { executable: Arc::clone(&self), plan: Arc::clone(&launches.plan), begun: false };
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
}
