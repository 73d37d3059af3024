//! One worker thread: looks for work, runs it, sleeps.

use super::core::{Engine, Pace, Task, become_worker};
use super::scheduler::{Next, Ready, Sleeper};
use anabranch_sync::modelled::MutexGuard;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker that was looking for work leaves it to others, in turns of a loop.
const DELAY: usize = 64;

/// How long a worker that is one too many sleeps before it ends.
const SURPLUS_SLEEP: Duration = Duration::from_millis(200);

/// Starts a worker.
pub(super) fn start(engine: Arc<Engine>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("anabranch-host".to_owned()).spawn(move || work(&engine))
}

fn work(engine: &Arc<Engine>) {
    become_worker();
    let mut worker = Worker { engine, sleeper: None, searching: true };
    while let Some(task) = worker.next() {
        match task.partition().map(|(partition, level)| (Arc::clone(partition), level)) {
            None if task.is_help() => engine.run_help(task),
            None => _ = task.run(engine, Pace::Worker),
            Some((partition, level)) => partition.run(engine, level, task),
        }
    }
}

struct Worker<'a> {
    engine: &'a Arc<Engine>,
    sleeper: Option<Arc<Sleeper>>,
    /// Whether the scheduler counts this worker among those that search.
    searching: bool,
}

impl Worker<'_> {
    /// The next task, or `None` at the end of the worker.
    fn next(&mut self) -> Option<Arc<dyn Task>> {
        let scheduler = &self.engine.scheduler;
        loop {
            self.engine.look_after_values();
            let mut ready = scheduler.lock();
            if ready.stopping {
                return None;
            }
            match scheduler.next(&mut ready, &mut self.searching) {
                Next::Run { task, was_searching } => {
                    if was_searching {
                        self.pass_on(ready);
                    }
                    return Some(task);
                }
                Next::Search => {
                    drop(ready);
                    self.search();
                    ready = scheduler.lock();
                    if ready.stopping || !scheduler.end_search(&mut ready, &mut self.searching) {
                        continue;
                    }
                }
                Next::Sleep => {}
            }
            if !self.sleep(ready) {
                return None;
            }
        }
    }

    /// Lets another worker search, where this one searched and has found work, and there is more of it or nobody looks
    /// after values.
    fn pass_on(&self, mut ready: MutexGuard<'_, Ready<Arc<dyn Task>>>) {
        let scheduler = &self.engine.scheduler;
        if scheduler.has_work() || (!ready.poller && !self.engine.values.is_empty()) {
            let action = scheduler.request_worker(&mut ready);
            drop(ready);
            self.engine.carry_out(action);
        }
    }

    /// Looks on for a moment.
    fn search(&self) {
        let begin = Instant::now();
        while begin.elapsed() < self.engine.worker_spin {
            for _ in 0..16 {
                if self.engine.scheduler.has_work() {
                    // A thread that waits for what it has just enqueued runs it itself in this time.
                    (0..DELAY).for_each(|_| std::hint::spin_loop());
                    return;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Sleeps until woken, looking after waits for values meanwhile if no other worker does. `false`: the worker ends,
    /// because it is one too many.
    fn sleep(&mut self, mut ready: MutexGuard<'_, Ready<Arc<dyn Task>>>) -> bool {
        let scheduler = &self.engine.scheduler;
        let sleeper = Arc::clone(self.sleeper.get_or_insert_with(|| {
            Arc::new(Sleeper { thread: std::thread::current(), notified: AtomicBool::new(false) })
        }));
        let surplus = scheduler.has_surplus(&ready);
        let polls = !ready.poller && !self.engine.values.is_empty();
        ready.poller |= polls;
        ready.sleepers.push(Arc::clone(&sleeper));
        drop(ready);
        let begin = Instant::now();
        let mut polling = polls;
        while !sleeper.notified.swap(false, Ordering::Acquire) {
            match if polling { self.engine.values.pause() } else { None } {
                Some(pause) => {
                    if !pause.is_zero() {
                        std::thread::park_timeout(pause);
                    }
                    self.engine.look_after_values();
                }
                None if polling => {
                    // A wait that came between the look and this lock wakes a worker itself, because it finds no poller.
                    scheduler.lock().poller = false;
                    polling = false;
                    if !self.engine.values.is_empty() {
                        self.engine.ensure_poller();
                    }
                }
                None if surplus => {
                    std::thread::park_timeout(SURPLUS_SLEEP);
                    if begin.elapsed() >= SURPLUS_SLEEP && self.end_if_surplus(&sleeper) {
                        return false;
                    }
                }
                None => std::thread::park(),
            }
        }
        self.searching = true;
        if polling {
            scheduler.lock().poller = false;
        }
        true
    }

    /// Takes a sleeping worker out of the count, if it was not woken and is still one too many.
    fn end_if_surplus(&self, sleeper: &Arc<Sleeper>) -> bool {
        let scheduler = &self.engine.scheduler;
        let mut ready = scheduler.lock();
        if !scheduler.has_surplus(&ready) {
            return false;
        }
        let Some(index) = ready.sleepers.iter().position(|other| Arc::ptr_eq(other, sleeper)) else { return false };
        ready.sleepers.swap_remove(index);
        ready.threads -= 1;
        true
    }
}
