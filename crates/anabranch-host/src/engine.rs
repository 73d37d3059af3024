//! The engine: queues of entries, and the threads that run them.
//!
//! All that can be decided when an entry is put in is decided there: what an event wait binds to, which barriers of the
//! legacy stream apply. Threads only run what is ready. Every way into a queue goes through
//! [`StreamState::enqueue`](stream::StreamState::enqueue) or [`StreamState::mark`](stream::StreamState::mark).

pub(crate) mod barrier;
pub(crate) mod completion;
pub(crate) mod entry;
pub(crate) mod host_work;
pub(crate) mod kernel;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod run;
pub(crate) mod scheduler;
pub(crate) mod share;
pub(crate) mod spares;
pub(crate) mod stream;
pub(crate) mod value;
pub(crate) mod wait;
pub(crate) mod worker;

#[cfg(all(loom, test))]
mod loom_tests;

use crate::checker::Checker;
use crate::options::HostOptions;
use parking_lot::Mutex;
use random::Random;
use scheduler::{Scheduler, Task};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Instant;
use stream::StreamState;
use value::ValueWaits;

/// The number of distinct priorities, from -5 to 0.
pub(crate) const PRIORITIES: usize = 6;

/// The most urgent priority.
pub(crate) const GREATEST_PRIORITY: i32 = 1 - PRIORITIES as i32;

/// What all streams of a driver share.
#[derive(Debug)]
pub(crate) struct Engine {
    this: Weak<Engine>,
    pub(crate) scheduler: Scheduler,
    pub(crate) values: ValueWaits,
    pub(crate) queue_limit: usize,
    /// Looks at the memory that work uses, if anybody does.
    pub(crate) checker: Option<Arc<Checker>>,
    /// Bytes of uploads that were copied when they were enqueued, and have not run.
    pub(crate) staged_bytes: Arc<AtomicU64>,
    epoch: Instant,
    random: Option<Mutex<Random>>,
}

impl Engine {
    pub(crate) fn new(options: &HostOptions) -> Arc<Self> {
        let checker = options.check_memory.then(Arc::<Checker>::default);
        let workers = if options.seed.is_some() { 0 } else { options.worker_count() };
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            scheduler: Scheduler::new(workers),
            values: ValueWaits::new(checker.clone()),
            queue_limit: options.queue_limit.max(2),
            checker,
            staged_bytes: Arc::new(AtomicU64::new(0)),
            epoch: Instant::now(),
            random: options.seed.map(|seed| Mutex::new(Random::new(seed))),
        })
    }

    /// Whether the engine has no workers, and runs entries one by one in an order made by a seed.
    pub(crate) fn is_deterministic(&self) -> bool {
        self.random.is_some()
    }

    /// Nanoseconds since the engine was made; never 0, which stands for a time not taken.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Lets a thread run a stream that has just become ready.
    pub(crate) fn schedule(&self, stream: &Arc<StreamState>) {
        self.scheduler.push(self, level(stream.priority), Task::Stream(Arc::clone(stream)));
    }

    /// Stops the workers and waits until they have finished the entries that they are running. From inside of host work
    /// it does not wait: that work may be what a worker is running.
    pub(crate) fn shut_down(&self) {
        let wait = !anabranch_hal::InsideWork::is_entered();
        let threads = self.scheduler.stop();
        self.values.clear();
        if wait {
            let current = std::thread::current().id();
            for thread in threads {
                if thread.thread().id() != current {
                    // A worker does not unwind: all that it calls is caught. There is nobody to tell otherwise.
                    let _ = thread.join();
                }
            }
        }
    }
}

/// The scheduler's level of a priority: 0 is the most urgent.
pub(crate) fn level(priority: i32) -> usize {
    usize::try_from(priority - GREATEST_PRIORITY).unwrap_or(0).min(PRIORITIES - 1)
}
