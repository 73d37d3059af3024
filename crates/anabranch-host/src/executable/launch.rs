//! Launches: put in line, and run from there.

use super::run::{Current, Run};
use super::{ExecutableState, Plan};
use crate::engine::Engine;
use crate::engine::entry::Entry;
use crate::engine::stream::{Position, StreamState};
use crate::error::drop_quietly;
use crate::graph::Action;
use anabranch_hal::{InstantiateFlags, Result};
use std::sync::Arc;

/// A launch in a queue.
#[derive(Debug)]
pub(crate) struct GraphLaunch {
    executable: Arc<ExecutableState>,
    plan: Arc<Plan>,
    begun: bool,
}

impl GraphLaunch {
    /// Runs the launch as far as this thread can. `false`: it is not done, and others go on with it.
    pub(crate) fn run(&mut self, engine: &Engine, stream: &Arc<StreamState>, sequence: u64) -> bool {
        let run = &self.executable.run;
        if !std::mem::replace(&mut self.begun, true) {
            let current = Current { plan: Arc::clone(&self.plan), stream: Arc::clone(stream), sequence };
            if run.begin(current) {
                return true;
            }
            if engine.is_deterministic() {
                run.offer();
            } else {
                run.take_part(engine);
            }
        }
        run.is_done()
    }

    pub(crate) fn share_run(&self) -> Arc<Run> {
        Arc::clone(&self.executable.run)
    }

    /// Lets go of what it runs with, when no thread runs it any more.
    pub(crate) fn abandon(&self) {
        if self.begun {
            self.executable.run.abandon();
        }
    }
}

/// What launches leave behind that nobody else has a share in. It may hold objects of the caller's, which may call the
/// driver when they go, so it is dropped only when the thread runs no stream.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    plans: Vec<Plan>,
    executables: Vec<ExecutableState>,
}

impl Retired {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.plans.is_empty() && self.executables.is_empty()
    }

    pub(crate) fn add(&mut self, launch: GraphLaunch) {
        let GraphLaunch { executable, plan, .. } = launch;
        self.plans.extend(Arc::into_inner(plan));
        self.executables.extend(Arc::into_inner(executable));
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        std::mem::take(&mut self.plans).into_iter().for_each(drop_quietly);
        std::mem::take(&mut self.executables).into_iter().for_each(drop_quietly);
    }
}

impl ExecutableState {
    /// Puts a launch in line.
    pub(crate) fn launch(self: Arc<Self>, stream: &Arc<StreamState>) -> Result<()> {
        // Held throughout, so that launches are in line in the order in which they follow each other.
        let mut launches = self.launches.lock();
        self.memory.check(self.flags.contains(InstantiateFlags::AUTO_FREE_ON_LAUNCH))?;
        let follows = launches.last.take_if(|last| !Arc::ptr_eq(&last.stream, stream));
        if let Some(last) = follows.filter(|last| !last.is_complete()) {
            stream.enqueue(Entry::WaitFor(last));
        }
        self.memory.note();
        let launch = GraphLaunch { executable: Arc::clone(&self), plan: Arc::clone(&launches.plan), begun: false };
        let sequence = stream.enqueue(Entry::Graph(launch));
        match &mut launches.last {
            Some(last) => last.sequence = sequence,
            None => launches.last = Some(Position { stream: Arc::clone(stream), sequence }),
        }
        // Only now, so that whoever waits for these records has been put in line behind the launch.
        for recorder in &self.run.recorders {
            let step = launches.plan.steps.get(recorder.node as usize);
            if let Some(Action::EventRecord(event)) = step.map(|step| &*step.action) {
                event.bind(recorder.next(), &recorder.time);
            }
        }
        Ok(())
    }
}
