//! What all streams of a driver share: the scheduler, waits for values, the clock.

use super::observer::Observer;
use super::partition::Partition;
use super::queue::Padded;
use super::random::Random;
use super::scheduler::{Absence, Scheduler, WorkerAction};
use super::starter::Starter;
use super::value::ValueWaits;
use crate::error::enter_work;
use crate::options::HostOptions;
use crate::ranks;
use anabranch_hal::InsideWork;
use anabranch_sync::Mutex;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many entries a stream holds at most, whatever the options say.
const MOST_QUEUED: usize = 1 << 30;

/// The longest that a worker looks for work before it sleeps. Meanwhile it does not see that the driver is dropped.
const LONGEST_SPIN: Duration = Duration::from_millis(1);

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Something that the scheduler can have run by a thread.
pub(crate) trait Task: fmt::Debug + Send + Sync {
    /// Runs it. `false`: there was nothing to run.
    fn run(self: Arc<Self>, engine: &Engine, pace: Pace) -> bool;

    /// Whether it only helps a worker with its kernel, which that one else runs by itself.
    fn is_help(&self) -> bool {
        false
    }

    /// The part of the workers that runs it, and its level there. `None`: all do.
    fn partition(&self) -> Option<(&Arc<Partition>, usize)> {
        None
    }
}

/// How long a thread keeps to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A worker: for a time slice, or as long as nothing else is due.
    Worker,
    /// A thread that synchronizes: up to the entry that it waits for.
    Until(u64),
    /// One entry.
    Single,
}

/// Starts the thread of a worker.
pub(crate) type StartWorker = dyn Fn(Arc<Engine>) -> io::Result<JoinHandle<()>> + Send + Sync;

/// What all streams of a driver share.
pub(crate) struct Engine {
    this: Weak<Engine>,
    pub(super) scheduler: Padded<Scheduler<Arc<dyn Task>>>,
    pub(crate) values: ValueWaits,
    pub(crate) queue_limit: u64,
    /// How long a worker looks for work before it sleeps.
    pub(super) worker_spin: Duration,
    /// Looks at the memory that work uses, if anybody does.
    pub(crate) observer: Option<Arc<dyn Observer>>,
    epoch: Instant,
    pub(super) random: Option<Mutex<Random>>,
    partitions: Mutex<Vec<Weak<Partition>>>,
    start: Box<StartWorker>,
    starter: Starter,
}

impl Engine {
    pub(super) fn with_start(
        options: &HostOptions,
        observer: Option<Arc<dyn Observer>>,
        start: Box<StartWorker>,
    ) -> Arc<Self> {
        let workers = if options.seed.is_some() { 0 } else { options.worker_count() };
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            scheduler: Padded(Scheduler::new(workers)),
            values: ValueWaits::new(observer.clone()),
            worker_spin: options.worker_spin.min(LONGEST_SPIN),
            queue_limit: options.queue_limit.clamp(2, MOST_QUEUED) as u64,
            observer,
            epoch: Instant::now(),
            partitions: Mutex::new(ranks::PARTITIONS, Vec::new()),
            random: options.seed.map(|seed| Mutex::new(ranks::RANDOM, Random::new(seed))),
            start,
            starter: Starter::new(),
        })
    }

    /// Whether the engine has no workers, and runs entries one by one in an order made by a seed.
    pub(crate) fn is_deterministic(&self) -> bool {
        self.random.is_some()
    }

    /// How many workers there are, not counting those that replace blocked ones.
    pub(crate) fn workers(&self) -> usize {
        self.scheduler.workers
    }

    /// Nanoseconds since the engine was made; never 0, which means that no time was taken.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// A number below `count`, chosen by the seed.
    pub(crate) fn choose(&self, count: usize) -> usize {
        self.random.as_ref().map_or(0, |random| random.lock().below(count))
    }

    /// Enters a new partition.
    pub(super) fn add_partition(&self, partition: &Arc<Partition>) {
        let mut partitions = self.partitions.lock();
        if partitions.len() == partitions.capacity() {
            partitions.retain(|partition| partition.strong_count() > 0);
            let live = partitions.len();
            partitions.reserve(live.max(8));
        }
        partitions.push(Arc::downgrade(partition));
    }

    /// Queues a task, and gets a worker for it if none is looking.
    pub(crate) fn push(&self, level: usize, task: Arc<dyn Task>) {
        let action = self.scheduler.push(level, task);
        self.carry_out(action);
    }

    /// Offers a task to workers that have nothing else to do, at most `count` of them.
    pub(crate) fn offer(&self, level: usize, task: &Arc<impl Task + 'static>, count: usize) {
        for offered in 0..count {
            let Some(action) = self.scheduler.offer(level, Arc::clone(task) as Arc<dyn Task>, offered) else { return };
            self.carry_out(action);
        }
    }

    /// Gets a worker for queued tasks, or to poll values, if none is free.
    pub(super) fn ensure_worker(&self) {
        let action = self.scheduler.request_worker(&mut self.scheduler.lock());
        self.carry_out(action);
    }

    /// Looks after values, if it is time to.
    #[inline]
    pub(super) fn look_after_values(&self) {
        if self.values.pause() == Some(Duration::ZERO) {
            self.values.poll();
        }
    }

    /// Gets a worker to look after values, unless one does.
    pub(crate) fn ensure_poller(&self) {
        let poller = self.scheduler.lock().poller;
        if !poller {
            self.ensure_worker();
        }
    }

    /// Makes sure that workers are started some time that cannot be started at first. Called before there is anything to run.
    pub(crate) fn prepare_workers(&self) -> io::Result<()> {
        if self.workers() > 0 { self.starter.start(&self.this) } else { Ok(()) }
    }

    /// Starts a worker that could not be started, if there is anything to do for it.
    pub(super) fn restart_worker(&self) {
        if self.scheduler.lacks_workers() && (self.scheduler.has_work() || !self.values.is_empty()) {
            self.ensure_worker();
        }
    }

    /// Tries again to start a worker that could not be started, if it is time to.
    #[cold]
    pub(super) fn retry_worker(&self) {
        if self.scheduler.is_retry_due(self.now()) {
            self.ensure_worker();
        }
    }

    pub(super) fn carry_out(&self, action: WorkerAction) {
        match action {
            WorkerAction::Nothing => {}
            WorkerAction::Wake(sleeper) => sleeper.wake(),
            WorkerAction::Start => {
                let started = self.this.upgrade().and_then(|engine| (self.start)(engine).ok());
                let lacks = started.is_none();
                self.scheduler.started(started, self.now());
                if lacks {
                    self.starter.try_later();
                }
            }
        }
    }

    /// Runs host work, during which a worker counts as blocked. `partition`: that of the task that a worker runs.
    pub(crate) fn run_host_work(&self, partition: Option<&Arc<Partition>>, work: impl FnOnce()) {
        let _absence = is_worker().then(|| BlockedWorker::new(self, partition));
        // SAFETY: it is a variable of this block, in which nothing else marks the thread for longer.
        let _scope = unsafe { enter_work() };
        work();
    }

    /// Has a worker help another one with its kernel. Other work gets a worker in its place.
    pub(super) fn run_help(&self, help: Arc<dyn Task>) {
        struct Helping<'a>(&'a Engine);
        impl Drop for Helping<'_> {
            fn drop(&mut self) {
                self.0.scheduler.come_back(Absence::Helping);
            }
        }
        self.leave_place(Absence::Helping);
        let _helping = Helping(self);
        help.run(self, Pace::Worker);
    }

    /// Gets a worker for what there is to do, in place of the calling one.
    fn leave_place(&self, absence: Absence) {
        if self.scheduler.leave_place(absence) {
            self.ensure_worker();
        } else if !self.values.is_empty() {
            // All workers may have been busy when the waits came.
            self.ensure_poller();
        }
    }

    /// Stops the threads and waits until they have finished the entries that they are running. From inside of host work
    /// it does not wait: that work may be what a worker is running.
    pub(crate) fn shut_down(&self) {
        let wait = !InsideWork::is_entered();
        let starter = self.starter.stop();
        let threads = self.scheduler.stop();
        self.values.clear();
        if wait {
            let current = std::thread::current().id();
            for thread in threads.into_iter().chain(starter) {
                if thread.thread().id() != current {
                    // A worker does not unwind: panics of kernels are caught, and host work has none.
                    let _ = thread.join();
                }
            }
        }
        // What waits in a partition holds streams, which hold the partition.
        let partitions = std::mem::take(&mut *self.partitions.lock());
        partitions.iter().filter_map(Weak::upgrade).for_each(|partition| partition.clear());
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Engine").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

/// A worker is inside of host work, until this is dropped.
pub(super) struct BlockedWorker<'a> {
    engine: &'a Engine,
    partition: Option<&'a Arc<Partition>>,
}

impl<'a> BlockedWorker<'a> {
    /// `partition`: that of the task that it runs.
    pub(super) fn new(engine: &'a Engine, partition: Option<&'a Arc<Partition>>) -> Self {
        engine.leave_place(Absence::Blocked);
        if let Some(partition) = partition {
            partition.leave(engine);
        }
        Self { engine, partition }
    }
}

impl Drop for BlockedWorker<'_> {
    fn drop(&mut self) {
        if let Some(partition) = self.partition {
            partition.come_back();
        }
        self.engine.scheduler.come_back(Absence::Blocked);
    }
}

/// Whether the calling thread is a worker.
fn is_worker() -> bool {
    IS_WORKER.try_with(Cell::get).unwrap_or(false)
}

/// Makes the calling thread a worker.
pub(super) fn become_worker() {
    IS_WORKER.with(|is_worker| is_worker.set(true));
}
