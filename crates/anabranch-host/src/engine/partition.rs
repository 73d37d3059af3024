//! A part of the workers, for the streams of a green context.
//!
//! Workers are interchangeable, so that a partition is a number: so many of them run tasks of the partition at the same time.
//! A task beyond that waits here, and not among the ready tasks, where workers would find it again and again. A worker
//! inside of host work does not count, as in the scheduler. Threads that wait for a stream, and run it meanwhile, are no
//! workers and do not count either. Workers that help others with their kernels take no place of other work.

use super::core::{Engine, Pace, Task};
use crate::ranks;
use anabranch_sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug, Default)]
struct State {
    /// The workers that run tasks of the partition.
    running: usize,
    /// The workers that help those with their kernels.
    helping: usize,
    /// Tasks that wait for one of them, with their levels.
    waiting: VecDeque<(usize, Arc<dyn Task>)>,
}

/// A part of the workers.
#[derive(Debug)]
pub(crate) struct Partition {
    workers: usize,
    state: Mutex<State>,
}

impl State {
    /// The most urgent of the tasks that wait, if a worker may run it.
    fn next(&mut self, workers: usize) -> Option<(usize, Arc<dyn Task>)> {
        if self.running >= workers {
            return None;
        }
        let (first, _) = self.waiting.iter().enumerate().min_by_key(|(place, (level, _))| (*level, *place))?;
        self.waiting.remove(first)
    }
}

impl Partition {
    /// As many workers, and at least one.
    pub(crate) fn new(engine: &Engine, workers: usize) -> Arc<Self> {
        let state = Mutex::new(ranks::PARTITION, State::default());
        let partition = Arc::new(Self { workers: workers.max(1), state });
        engine.add_partition(&partition);
        partition
    }

    /// How many workers run its tasks at the same time.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Runs a task on this worker, or keeps it until another one of the partition is done. Help that there is no place for is left out.
    pub(super) fn run(&self, engine: &Engine, level: usize, task: Arc<dyn Task>) {
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
                state.waiting.push_back((level, task));
                return;
            }
            state.running += 1;
        }
        task.run(engine, Pace::Worker);
        self.leave(engine);
    }

    /// Notes that a worker does not run a task of the partition any more, and makes the next one ready.
    pub(super) fn leave(&self, engine: &Engine) {
        let next = {
            let mut state = self.state.lock();
            state.running -= 1;
            state.next(self.workers)
        };
        if let Some((level, task)) = next {
            engine.push(level, task);
        }
    }

    /// Notes that a worker runs the task again that it has not finished.
    pub(super) fn come_back(&self) {
        self.state.lock().running += 1;
    }

    /// Drops the tasks that wait. No worker runs them any more.
    pub(super) fn clear(&self) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        drop(waiting);
    }
}
