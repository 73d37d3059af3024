//! Which ready tasks are run next, and which threads are there to run them.
//!
//! Ready tasks are queued by priority. Workers are started when there is work that no worker is free for. A worker
//! that finds nothing searches for a moment, as the only one to do so, and then sleeps; so queueing a task wakes a
//! thread only when none is searching.
//!
//! A worker inside of host work may be blocked for long, and counts as blocked: another is started in its place when
//! there is work to do, so that host work that waits for other streams' work is no deadlock. So is one in place of a worker that
//! helps another one with its kernel, because work of as many streams as there are workers runs at the same time.

use super::levels::{LEVELS, Levels};
use super::queue::Padded;
use crate::ranks;
use anabranch_sync::modelled::{AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard, fence};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, Thread};

/// The most urgent priority.
pub(crate) const GREATEST_PRIORITY: i32 = 1 - LEVELS as i32;

/// Nanoseconds after which a worker that could not be started is tried again.
const RETRY: u64 = 1_000_000;

/// The scheduler's level of a priority: 0 is the most urgent.
pub(crate) fn level(priority: i32) -> usize {
    usize::try_from(priority - GREATEST_PRIORITY).unwrap_or(0).min(LEVELS - 1)
}

/// A sleeping worker.
#[derive(Debug)]
pub(super) struct Sleeper {
    pub(super) thread: Thread,
    pub(super) notified: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Ready<T> {
    tasks: Levels<T>,
    pub(super) sleepers: Vec<Arc<Sleeper>>,
    /// Workers that are looking for work, or were woken to.
    pub(super) searching: usize,
    /// Workers that were started and have not ended.
    pub(super) threads: usize,
    /// Whether a sleeping worker looks after waits for values.
    pub(super) poller: bool,
    pub(super) stopping: bool,
    handles: Vec<JoinHandle<()>>,
}

/// How a worker is got for new work.
#[must_use]
pub(super) enum WorkerAction {
    Nothing,
    Wake(Arc<Sleeper>),
    /// The caller starts a worker, and reports the outcome by [`Scheduler::started`].
    Start,
}

/// Why another worker can take the place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// It is inside of host work.
    Blocked,
    /// It helps another worker with its kernel.
    Helping,
}

/// What a worker does next.
pub(super) enum Next<T> {
    /// `was_searching`: whoever has queued other tasks since may have left them to this worker.
    Run {
        task: T,
        was_searching: bool,
    },
    /// It looks on for a moment, and then calls [`Scheduler::end_search`].
    Search,
    Sleep,
}

#[derive(Debug)]
pub(super) struct Scheduler<T> {
    ready: Mutex<Ready<T>>,
    /// One bit for each queue that is not empty.
    occupied: AtomicU32,
    /// Workers that are inside of host work.
    blocked: AtomicUsize,
    /// Workers that help others with their kernels.
    helping: AtomicUsize,
    /// The time after which a worker is to be started that could not be started; 0 where there is none. Every call that
    /// enqueues looks at it.
    retry_at: Padded<AtomicU64>,
    pub(super) workers: usize,
}

impl<T> Scheduler<T> {
    pub(super) fn new(workers: usize) -> Self {
        let ready = Ready {
            tasks: Levels::default(),
            sleepers: Vec::new(),
            searching: 0,
            threads: 0,
            poller: false,
            stopping: false,
            handles: Vec::new(),
        };
        Self {
            ready: Mutex::new(ranks::READY, ready),
            occupied: AtomicU32::new(0),
            blocked: AtomicUsize::new(0),
            helping: AtomicUsize::new(0),
            retry_at: Padded(AtomicU64::new(0)),
            workers,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Ready<T>> {
        self.ready.lock()
    }

    /// Whether a task is queued.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.occupied() != 0
    }

    /// One bit for each level at which tasks are queued.
    #[inline]
    pub(super) fn occupied(&self) -> u32 {
        self.occupied.load(Ordering::Relaxed)
    }

    /// Whether a worker could not be started, so that others must help.
    #[inline]
    pub(super) fn lacks_workers(&self) -> bool {
        self.retry_at.load(Ordering::Relaxed) != 0
    }

    /// Whether a worker could not be started, and it is time to try again.
    pub(super) fn is_retry_due(&self, now: u64) -> bool {
        self.lacks_workers() && self.retry_at.load(Ordering::Relaxed) <= now
    }

    /// Publishes which queues are empty, for readers without the lock.
    pub(super) fn refresh(&self, ready: &Ready<T>) {
        self.occupied.store(ready.tasks.occupied(), Ordering::Relaxed);
    }

    /// What a worker does next. `searching`: whether it counts as one that searches.
    pub(super) fn next(&self, ready: &mut Ready<T>, searching: &mut bool) -> Next<T> {
        if let Some((_, task)) = ready.tasks.pop() {
            self.refresh(ready);
            let was_searching = std::mem::take(searching);
            ready.searching -= usize::from(was_searching);
            return Next::Run { task, was_searching };
        }
        if !*searching && ready.searching == 0 {
            *searching = true;
            ready.searching += 1;
        }
        if *searching { Next::Search } else { Next::Sleep }
    }

    /// Ends the search of a worker, which sleeps now. `false`: something is queued, and the worker counts as searching until it has
    /// taken what is there, because who has queued that has left it the rest, too.
    pub(super) fn end_search(&self, ready: &mut Ready<T>, searching: &mut bool) -> bool {
        if self.has_work() {
            return false;
        }
        *searching = false;
        ready.searching -= 1;
        true
    }

    /// Queues a task.
    pub(super) fn push(&self, level: usize, task: T) -> WorkerAction {
        let mut ready = self.lock();
        if ready.stopping {
            // The task is dropped after the lock, because it may hold the last reference to a stream.
            drop(ready);
            return WorkerAction::Nothing;
        }
        ready.tasks.push(level, task);
        self.refresh(&ready);
        self.choose(&mut ready, 1)
    }

    /// Queues a task if there is a worker that has nothing else to do, beside `offered` others. None is started in place of one that
    /// helps.
    pub(super) fn offer(&self, level: usize, task: T, offered: usize) -> Option<WorkerAction> {
        let mut ready = self.lock();
        let startable = (self.workers + self.blocked.load(Ordering::Relaxed)).saturating_sub(ready.threads);
        if ready.stopping || ready.sleepers.len() + ready.searching.saturating_sub(offered) + startable == 0 {
            drop(ready);
            return None;
        }
        ready.tasks.push(level, task);
        self.refresh(&ready);
        Some(self.choose(&mut ready, offered + 1))
    }

    /// Gets a worker, if none is free.
    pub(super) fn request_worker(&self, ready: &mut Ready<T>) -> WorkerAction {
        self.choose(ready, 1)
    }

    fn choose(&self, ready: &mut Ready<T>, wanted: usize) -> WorkerAction {
        if ready.searching >= wanted || ready.stopping {
            return WorkerAction::Nothing;
        }
        if let Some(sleeper) = ready.sleepers.pop() {
            self.has_workers();
            ready.searching += 1;
            return WorkerAction::Wake(sleeper);
        }
        // The counterpart is in `leave_place`: either a worker is seen here to have left, or what there is to do is seen there.
        fence(Ordering::SeqCst);
        if ready.threads < self.places() && self.workers > 0 {
            ready.threads += 1;
            ready.searching += 1;
            // Set again if it cannot be started, even before whoever starts it reports: it may be that worker which lacks another.
            self.has_workers();
            return WorkerAction::Start;
        }
        self.has_workers();
        WorkerAction::Nothing
    }

    /// Notes that there are as many workers as there should be, or one that has nothing to do, or is being started.
    fn has_workers(&self) {
        if self.lacks_workers() {
            self.retry_at.store(0, Ordering::Relaxed);
        }
    }

    /// Takes in a worker that was started, or notes that it could not be.
    #[cold]
    pub(super) fn started(&self, handle: Option<JoinHandle<()>>, now: u64) {
        let mut ready = self.lock();
        match handle {
            Some(handle) => {
                ready.handles.retain(|handle| !handle.is_finished());
                ready.handles.push(handle);
            }
            None => {
                self.retry_at.store(now + RETRY, Ordering::Relaxed);
                ready.threads -= 1;
                ready.searching -= 1;
            }
        }
    }

    /// How many workers there can be now.
    fn places(&self) -> usize {
        self.workers + self.blocked.load(Ordering::Relaxed) + self.helping.load(Ordering::Relaxed)
    }

    /// Whether there are more workers than there should be.
    pub(super) fn has_surplus(&self, ready: &Ready<T>) -> bool {
        ready.threads > self.places()
    }

    fn count(&self, absence: Absence) -> &AtomicUsize {
        match absence {
            Absence::Blocked => &self.blocked,
            Absence::Helping => &self.helping,
        }
    }

    /// Notes that another worker can take the place of one. `true`: a task is queued, for which a worker is needed. Waits for values
    /// that the caller does not see afterwards find a worker for themselves, too.
    pub(super) fn leave_place(&self, absence: Absence) -> bool {
        self.count(absence).fetch_add(1, Ordering::Relaxed);
        // The counterpart is in `choose`.
        fence(Ordering::SeqCst);
        self.has_work()
    }

    /// Notes that it has come back.
    pub(super) fn come_back(&self, absence: Absence) {
        self.count(absence).fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the next task out.
    #[cfg(test)]
    pub(super) fn pop(&self) -> Option<T> {
        let mut ready = self.lock();
        let task = ready.tasks.pop();
        self.refresh(&ready);
        task.map(|(_, task)| task)
    }

    /// Takes one task out, the one that `choose` names among as many as there are.
    pub(super) fn take(&self, choose: impl FnOnce(usize) -> usize) -> Option<T> {
        let mut ready = self.lock();
        let count = ready.tasks.len();
        if count == 0 {
            return None;
        }
        let task = ready.tasks.remove(choose(count));
        self.refresh(&ready);
        task
    }

    /// Makes all workers end, and drops what is queued. Returns the workers' threads.
    pub(super) fn stop(&self) -> Vec<JoinHandle<()>> {
        let (tasks, sleepers, handles) = {
            let mut ready = self.lock();
            ready.stopping = true;
            let tasks = ready.tasks.take_all();
            self.refresh(&ready);
            (tasks, std::mem::take(&mut ready.sleepers), std::mem::take(&mut ready.handles))
        };
        drop(tasks);
        sleepers.iter().for_each(|sleeper| sleeper.wake());
        handles
    }
}

impl Sleeper {
    pub(super) fn wake(&self) {
        self.notified.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Absence, LEVELS, Next, Scheduler, Sleeper, WorkerAction};
    use crate::engine::levels::PASSES;
    use crate::engine::random::Random;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_most_urgent_task_is_next_and_no_line_is_passed_over_for_ever() {
        let scheduler = Scheduler::new(0);
        for task in 0..2 * PASSES {
            let _ = scheduler.push(0, task);
        }
        let _ = scheduler.push(LEVELS - 1, 1000);
        let _ = scheduler.push(2, 2000);
        let order: Vec<u32> = std::iter::from_fn(|| scheduler.pop()).collect();
        let (first, rest) = order.split_at(PASSES as usize);
        assert!(first.iter().copied().eq(0..PASSES));
        assert_eq!(rest[..2], [1000, 2000]);
        assert!(rest[2..].iter().copied().eq(PASSES..2 * PASSES));
    }

    /// What a worker of the model is doing.
    enum Doing {
        Looking,
        Searching,
        Running,
        Absent(Absence),
        Sleeping(Arc<Sleeper>),
    }

    /// Workers that take their steps in a random order. Each step is one critical section of a worker.
    struct Workers {
        scheduler: Scheduler<u32>,
        workers: Vec<(bool, Doing)>,
    }

    impl Workers {
        fn carry_out(&mut self, action: WorkerAction) {
            match action {
                WorkerAction::Nothing => {}
                WorkerAction::Wake(sleeper) => sleeper.wake(),
                WorkerAction::Start => self.workers.push((true, Doing::Looking)),
            }
        }

        fn request(&mut self) {
            let action = self.scheduler.request_worker(&mut self.scheduler.lock());
            self.carry_out(action);
        }

        fn sleep(scheduler: &Scheduler<u32>) -> Doing {
            let sleeper = Arc::new(Sleeper { thread: std::thread::current(), notified: AtomicBool::new(false) });
            scheduler.lock().sleepers.push(Arc::clone(&sleeper));
            Doing::Sleeping(sleeper)
        }

        fn step(&mut self, index: usize, absence: Option<Absence>) {
            let scheduler = &self.scheduler;
            let (searching, doing) = &mut self.workers[index];
            let mut needs_another = false;
            *doing = match doing {
                Doing::Looking => {
                    let next = scheduler.next(&mut scheduler.lock(), searching);
                    match next {
                        Next::Run { was_searching, .. } => {
                            needs_another = was_searching && scheduler.has_work();
                            Doing::Running
                        }
                        Next::Search => Doing::Searching,
                        Next::Sleep => Self::sleep(scheduler),
                    }
                }
                Doing::Searching => {
                    let is_over = scheduler.end_search(&mut scheduler.lock(), searching);
                    if is_over { Self::sleep(scheduler) } else { Doing::Looking }
                }
                Doing::Running => match absence {
                    Some(absence) => {
                        needs_another = scheduler.leave_place(absence);
                        Doing::Absent(absence)
                    }
                    None => Doing::Looking,
                },
                Doing::Absent(absence) => {
                    scheduler.come_back(*absence);
                    Doing::Running
                }
                Doing::Sleeping(sleeper) => {
                    if !sleeper.notified.swap(false, Ordering::Relaxed) {
                        return;
                    }
                    *searching = true;
                    Doing::Looking
                }
            };
            if needs_another {
                self.request();
            }
        }

        fn count(&self, is_counted: impl Fn(&Doing) -> bool) -> usize {
            self.workers.iter().filter(|(_, doing)| is_counted(doing)).count()
        }
    }

    #[test]
    fn somebody_looks_for_each_task_or_all_workers_run() {
        let mut random = Random::new(1);
        for most in 1..=3 {
            for _ in 0..300 {
                let mut model = Workers { scheduler: Scheduler::new(most), workers: Vec::new() };
                for task in 0..200 {
                    if random.below(4) == 0 {
                        let action = model.scheduler.push(random.below(LEVELS), task);
                        model.carry_out(action);
                    } else if !model.workers.is_empty() {
                        let absences = [None, None, None, None, Some(Absence::Blocked), Some(Absence::Helping)];
                        model.step(random.below(model.workers.len()), absences[random.below(6)]);
                    }
                    let looks = model.count(|doing| match doing {
                        Doing::Looking | Doing::Searching => true,
                        Doing::Sleeping(sleeper) => sleeper.notified.load(Ordering::Relaxed),
                        Doing::Running | Doing::Absent(_) => false,
                    });
                    let running = model.count(|doing| matches!(doing, Doing::Running));
                    assert!(!model.scheduler.has_work() || looks > 0 || running >= most, "{running} of {most} run");
                }
            }
        }
    }

    #[test]
    fn a_worker_that_lacks_another_may_report_before_it_is_reported() {
        let scheduler = Scheduler::new(1);
        assert!(matches!(scheduler.push(0, 1), WorkerAction::Start));
        // The new worker begins a host function, and cannot start another one in its place, before whoever has started it goes on.
        let mut searching = true;
        assert!(matches!(scheduler.next(&mut scheduler.lock(), &mut searching), Next::Run { task: 1, .. }));
        scheduler.leave_place(Absence::Blocked);
        assert!(matches!(scheduler.push(0, 2), WorkerAction::Start));
        scheduler.started(None, 5);
        scheduler.started(Some(std::thread::spawn(|| {})), 5);
        assert!(scheduler.lacks_workers());
    }

    #[test]
    fn workers_lack_only_until_there_are_enough() {
        let scheduler = Scheduler::new(1);
        assert!(matches!(scheduler.push(0, 1), WorkerAction::Start));
        scheduler.started(Some(std::thread::spawn(|| {})), 0);
        assert_eq!(scheduler.pop(), Some(1));
        scheduler.lock().searching = 0;
        // The worker is in host work, in place of which no other one can be started.
        scheduler.leave_place(Absence::Blocked);
        assert!(matches!(scheduler.push(0, 2), WorkerAction::Start));
        scheduler.started(None, 5);
        assert!(scheduler.lacks_workers());
        scheduler.come_back(Absence::Blocked);
        assert!(matches!(scheduler.request_worker(&mut scheduler.lock()), WorkerAction::Nothing));
        assert!(!scheduler.lacks_workers());
    }
}
