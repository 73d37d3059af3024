//! Threads of this module: those that tell Python that work is complete, and those that wait in the place of others.
//!
//! A thread that has nothing to do waits for more, so that threads are started only while more jobs run at the same time than
//! ever before.

use crate::process;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

struct Jobs {
    waiting: Vec<Job>,
    idle: usize,
}

static JOBS: Mutex<Jobs> = Mutex::new(Jobs { waiting: Vec::new(), idle: 0 });
static ADDED: Condvar = Condvar::new();
static ATTACHED: AtomicUsize = AtomicUsize::new(0);

fn jobs() -> MutexGuard<'static, Jobs> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job on a thread that runs nothing else meanwhile.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) {
    let mut jobs = jobs();
    jobs.waiting.push(Box::new(job));
    if jobs.waiting.len() <= jobs.idle {
        ADDED.notify_one();
        return;
    }
    drop(jobs);
    let started = std::thread::Builder::new().name("anabranch-python".to_owned()).spawn(work);
    // Without another thread, those that there are come to it when they are done.
    drop(started);
}

fn work() {
    loop {
        let mut jobs = jobs();
        jobs.idle += 1;
        while jobs.waiting.is_empty() {
            jobs = ADDED.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        jobs.idle -= 1;
        let job = jobs.waiting.remove(0);
        drop(jobs);
        // A panic was printed, and whoever waits for the job sees that it ended.
        drop(anabranch::hal::contain(job));
    }
}

/// Whether any of these threads is attached to the interpreter. A thread sees that it is itself.
#[inline]
pub(crate) fn is_any_attached() -> bool {
    ATTACHED.load(Ordering::Relaxed) > 0
}

/// How many of these threads are attached to the interpreter.
pub(crate) fn attached() -> usize {
    ATTACHED.load(Ordering::SeqCst)
}

struct Attached;

impl Drop for Attached {
    fn drop(&mut self) {
        end_attached();
    }
}

/// Calls Python on one of these threads. `None` if the interpreter is ending.
pub(crate) fn attach<R>(body: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    if !begin_attached() {
        return None;
    }
    let _attached = Attached;
    // The interpreter does not end while this is counted, unless this takes longer than it waits.
    Python::try_attach(body)
}

/// Counts the calling thread as attached to the interpreter, until [`end_attached`]. Returns whether it may attach: not if the
/// interpreter is ending.
pub(crate) fn begin_attached() -> bool {
    ATTACHED.fetch_add(1, Ordering::SeqCst);
    // Whoever does not see the count is seen to end the interpreter; see `process::note_exit`.
    fence(Ordering::SeqCst);
    let may_attach = !process::is_exiting() && !process::is_forked();
    if !may_attach {
        end_attached();
    }
    may_attach
}

/// See [`begin_attached`].
pub(crate) fn end_attached() {
    ATTACHED.fetch_sub(1, Ordering::SeqCst);
}
