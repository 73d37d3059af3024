//! A part of the workers, for the streams of a green context.
//!
//! Workers are interchangeable, so that a partition is a number of places: so many of them run tasks of the partition at the same
//! time. A task beyond that waits here, and not among the ready tasks, where workers would find it again and again. When a place
//! becomes free, the next task has it before it is made ready, so that no other one can take it meanwhile. A worker
//! inside of host work does not count, as in the scheduler. Threads that wait for a stream, and run it meanwhile, are no
//! workers and do not count either. Workers that help others with their kernels take no place of other work.

use super::core::{Engine, Pace, Task};
use super::levels::Levels;
use crate::ranks;
use anabranch_sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug, Default)]
struct State {
    /// The places that are taken.
    running: usize,
    /// The workers that help those with their kernels.
    helping: usize,
    /// Tasks that wait for a place.
    waiting: Levels<Arc<dyn Task>>,
}

/// A part of the workers.
#[derive(Debug)]
pub(crate) struct Partition {
    workers: usize,
    state: Mutex<State>,
    /// One bit for each level at which tasks wait.
    occupied: AtomicU32,
}

/// A task that has a place.
#[derive(Debug)]
struct Admitted {
    partition: Arc<Partition>,
    task: Arc<dyn Task>,
}

impl Task for Admitted {
    fn run(self: Arc<Self>, engine: &Engine, pace: Pace) -> bool {
        let ran = Arc::clone(&self.task).run(engine, pace);
        self.partition.leave(engine);
        ran
    }
}

impl Partition {
    /// As many workers, and at least one.
    pub(crate) fn new(engine: &Engine, workers: usize) -> Arc<Self> {
        let state = Mutex::new(ranks::PARTITION, State::default());
        let partition = Arc::new(Self { workers: workers.max(1), state, occupied: AtomicU32::new(0) });
        engine.add_partition(&partition);
        partition
    }

    /// How many workers run its tasks at the same time.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// One bit for each level at which tasks wait for a place.
    #[inline]
    pub(super) fn occupied(&self) -> u32 {
        self.occupied.load(Ordering::Relaxed)
    }

    fn refresh(&self, state: &State) {
        self.occupied.store(state.waiting.occupied(), Ordering::Relaxed);
    }

    /// Runs a task on this worker, or keeps it until there is a place for it. Help that there is no place for is left out.
    pub(super) fn run(self: &Arc<Self>, engine: &Engine, level: usize, task: Arc<dyn Task>) {
        if task.is_help() {
            let can_help = {
                let mut state = self.state.lock();
                let can_help = state.running + state.helping < self.workers;
                state.helping += usize::from(can_help);
                can_help
            };
            if can_help {
                engine.run_help(task);
                self.state.lock().helping -= 1;
            }
            return;
        }
        {
            let mut state = self.state.lock();
            if state.running >= self.workers {
                state.waiting.push(level, task);
                self.refresh(&state);
                return;
            }
            state.running += 1;
        }
        task.run(engine, Pace::Worker);
        self.leave(engine);
    }

    /// Gives up a place: to the next task, which is made ready, if any waits.
    pub(super) fn leave(self: &Arc<Self>, engine: &Engine) {
        let next = {
            let mut state = self.state.lock();
            state.running -= 1;
            if state.running >= self.workers {
                return;
            }
            let next = state.waiting.pop();
            state.running += usize::from(next.is_some());
            self.refresh(&state);
            next
        };
        if let Some((level, task)) = next {
            engine.push(level, Arc::new(Admitted { partition: Arc::clone(self), task }));
        }
    }

    /// Notes that a worker runs the task again that it has not finished.
    pub(super) fn come_back(&self) {
        self.state.lock().running += 1;
    }

    /// Drops the tasks that wait. No worker runs them any more.
    pub(super) fn clear(&self) {
        let waiting = self.state.lock().waiting.take_all();
        drop(waiting);
    }
}
