//! Threads of this module: those that wait in the place of others, one that tells Python that work is complete, and one that
//! deletes what is Python's.
//!
//! A thread that has nothing to do waits for more for a while, so that few are started.

use crate::process;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::mem::forget;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

struct Jobs {
    /// With their numbers.
    waiting: VecDeque<(u64, Job)>,
    next: u64,
    idle: usize,
}

/// How long a thread waits for more jobs.
const IDLE: Duration = Duration::from_secs(10);

static JOBS: Mutex<Jobs> = Mutex::new(Jobs { waiting: VecDeque::new(), next: 0, idle: 0 });
static ADDED: Condvar = Condvar::new();
static ATTACHED: AtomicUsize = AtomicUsize::new(0);

fn jobs() -> MutexGuard<'static, Jobs> {
    JOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job, which may wait, on a thread that runs nothing else meanwhile.
///
/// # Errors
/// The job, if there can be no thread for it.
pub(crate) fn run(job: impl FnOnce() + Send + 'static) -> Result<(), Job> {
    if process::is_forked() {
        // The child of a fork has none of these threads, and one of them may have had the lock.
        return Err(Box::new(job));
    }
    let mut jobs = jobs();
    let number = jobs.next;
    jobs.next += 1;
    jobs.waiting.push_back((number, Box::new(job)));
    if jobs.waiting.len() <= jobs.idle {
        ADDED.notify_one();
        return Ok(());
    }
    drop(jobs);
    if start(work) {
        return Ok(());
    }
    // Another thread may have become idle and have taken it.
    let mut jobs = self::jobs();
    let place = jobs.waiting.iter().position(|(waiting, _)| *waiting == number);
    match place.and_then(|place| jobs.waiting.remove(place)) {
        Some((_, job)) => Err(job),
        None => Ok(()),
    }
}

/// Starts a thread. False if there can be no more threads.
fn start(body: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name("anabranch-python".to_owned()).spawn(body).is_ok()
}

fn work() {
    loop {
        let mut jobs = jobs();
        jobs.idle += 1;
        let since = Instant::now();
        let job = loop {
            if let Some((_, job)) = jobs.waiting.pop_front() {
                break Some(job);
            }
            let Some(left) = IDLE.checked_sub(since.elapsed()) else { break None };
            jobs = ADDED.wait_timeout(jobs, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        jobs.idle -= 1;
        drop(jobs);
        let Some(job) = job else { return };
        // A panic was printed, and whoever waits for the job sees that it ended.
        drop(anabranch::hal::contain(job));
    }
}

/// Short jobs for one thread that is attached to the interpreter. A program that keeps the interpreter leaves many of them waiting: a
/// thread for each would be a thread that waits for the interpreter, and jobs that come one by one would wait for it again and again.
pub(crate) struct PythonJobs {
    jobs: Mutex<PythonQueue>,
    added: Condvar,
}

type PythonJob = Box<dyn FnOnce(Python<'_>) + Send>;

struct PythonQueue {
    waiting: VecDeque<PythonJob>,
    has_thread: bool,
}

/// Calls those who wait for work that is complete.
pub(crate) static WAKES: PythonJobs = PythonJobs::new();
/// Deletes what is Python's. Code of the program may run then, and holds up no others but these.
pub(crate) static DELETIONS: PythonJobs = PythonJobs::new();

impl PythonJobs {
    const fn new() -> Self {
        let queue = PythonQueue { waiting: VecDeque::new(), has_thread: false };
        Self { jobs: Mutex::new(queue), added: Condvar::new() }
    }

    fn jobs(&self) -> MutexGuard<'_, PythonQueue> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a job behind those that were added before. When the interpreter ends, it is kept, and never run, as in the child of a fork.
    pub(crate) fn add(&'static self, job: impl FnOnce(Python<'_>) + Send + 'static) {
        if process::is_forked() {
            // It has none of these threads, and one of them may have had the lock.
            return forget(job);
        }
        let mut jobs = self.jobs();
        jobs.waiting.push_back(Box::new(job));
        if jobs.has_thread {
            self.added.notify_one();
        } else {
            // Without a thread, the job waits for the next one.
            jobs.has_thread = start(move || self.work());
        }
    }

    fn work(&self) {
        loop {
            let mut jobs = self.jobs();
            while jobs.waiting.is_empty() {
                jobs = self.added.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            }
            drop(jobs);
            let attached = attach(|py| {
                while !process::is_exiting()
                    && let Some(job) = self.next()
                {
                    // A panic was printed, and the other jobs are no part of it.
                    drop(anabranch::hal::contain(|| job(py)));
                }
            });
            if attached.is_none() {
                process::stay();
            }
        }
    }

    fn next(&self) -> Option<PythonJob> {
        self.jobs().waiting.pop_front()
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
