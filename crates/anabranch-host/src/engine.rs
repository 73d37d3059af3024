//! The engine: queues of entries, and the threads that run them.
//!
//! Everything that can be decided when an entry is enqueued is decided there: what an event wait binds to, which
//! barriers of the legacy stream apply. Threads only run what is ready. The engine knows work by the trait [`Work`]
//! only, and who checks it by the trait [`Observer`]. Its modules, lowest first:
//! `cell queue completion legacy observer random levels scheduler value core starter partition worker context stream run wait`.

mod cell;
mod completion;
mod context;
mod core;
mod legacy;
mod levels;
mod observer;
mod partition;
mod queue;
mod random;
mod run;
mod scheduler;
mod starter;
mod stream;
mod value;
mod wait;
mod worker;

#[cfg(all(loom, test))]
mod loom_tests;

pub(crate) use self::core::{Engine, Pace, StartWorker, Task};
pub(crate) use context::WaitStrategy;
pub(crate) use observer::{Moment, Observer, Operation, Use};
pub(crate) use partition::Partition;
pub(crate) use scheduler::GREATEST_PRIORITY;
pub(crate) use stream::{
    ContextCore, Entry, JointWork, Outcome, Position, Role, StreamState, Turn, Waiter, Work, work,
};
pub(crate) use value::{Comparison, Condition, NumberCondition, Resume, ValueCondition, reduce_value, write_value};

use crate::options::HostOptions;
use std::sync::Arc;

/// Makes an engine. `observer`: who checks work when it runs.
pub(crate) fn start(options: &HostOptions, observer: Option<Arc<dyn Observer>>) -> Arc<Engine> {
    start_with(options, observer, Box::new(worker::start))
}

/// As [`start`], with another way to start a worker.
pub(crate) fn start_with(
    options: &HostOptions,
    observer: Option<Arc<dyn Observer>>,
    start: Box<StartWorker>,
) -> Arc<Engine> {
    Engine::with_start(options, observer, start)
}

/// Starts the thread of a worker, as the engine does by itself.
#[cfg(all(test, not(loom)))]
pub(crate) fn start_worker(engine: Arc<Engine>) -> std::io::Result<std::thread::JoinHandle<()>> {
    worker::start(engine)
}
