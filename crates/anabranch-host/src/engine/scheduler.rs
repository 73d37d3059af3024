//! Which ready work is run next, and which threads are there to run it.
//!
//! Ready streams stand in line by priority. Workers are started when there is work that no worker is free for. A worker
//! that finds nothing looks on for a moment, as the only one to do so, and then sleeps; so putting work in line wakes a
//! thread only when none is looking.
//!
//! A worker inside of host work may be blocked for long, and counts as absent: another is started in its place when
//! there is work to do, so that host work that waits for other streams' work is no deadlock.

use super::share::Share;
use super::stream::StreamState;
use super::{Engine, PRIORITIES, worker};
use crate::executable::Run;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};

/// Something that a thread can run.
#[derive(Debug)]
pub(crate) enum Task {
    /// A hint that a stream is ready.
    Stream(Arc<StreamState>),
    /// An offer to take part in a kernel.
    Share(Arc<Share>),
    /// Nodes of a graph that are ready.
    Graph(Arc<Run>),
}

/// A sleeping worker.
#[derive(Debug)]
pub(crate) struct Sleeper {
    pub(crate) thread: Thread,
    pub(crate) notified: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Ready {
    lines: [VecDeque<Task>; PRIORITIES],
    pub(crate) sleepers: Vec<Arc<Sleeper>>,
    /// Workers that are looking for work, or were woken to.
    pub(crate) searching: usize,
    /// Workers that were started and have not ended.
    pub(crate) threads: usize,
    /// Whether a sleeping worker looks after waits for values.
    pub(crate) poller: bool,
    pub(crate) stopping: bool,
    handles: Vec<JoinHandle<()>>,
}

/// How a worker is got for new work.
enum Call {
    Nobody,
    Wake(Arc<Sleeper>),
    Start,
}

#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) ready: Mutex<Ready>,
    /// One bit for each line with something in it.
    occupied: AtomicU32,
    /// Workers that are inside of host work.
    blocked: AtomicUsize,
    pub(crate) workers: usize,
}

impl Ready {
    pub(crate) fn pop(&mut self) -> Option<Task> {
        self.lines.iter_mut().find_map(VecDeque::pop_front)
    }

    fn occupied(&self) -> u32 {
        self.lines.iter().enumerate().fold(0, |bits, (level, line)| bits | (u32::from(!line.is_empty()) << level))
    }
}

impl Scheduler {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            ready: Mutex::new(Ready {
                lines: Default::default(),
                sleepers: Vec::new(),
                searching: 0,
                threads: 0,
                poller: false,
                stopping: false,
                handles: Vec::new(),
            }),
            occupied: AtomicU32::new(0),
            blocked: AtomicUsize::new(0),
            workers,
        }
    }

    /// Whether something is in line.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.occupied.load(Ordering::Relaxed) != 0
    }

    /// Whether something more urgent than `level` is in line.
    #[inline]
    pub(crate) fn has_more_urgent(&self, level: usize) -> bool {
        self.occupied.load(Ordering::Relaxed) & ((1 << level) - 1) != 0
    }

    /// Whether something at least as urgent as `level` is in line.
    #[inline]
    pub(crate) fn has_as_urgent(&self, level: usize) -> bool {
        self.occupied.load(Ordering::Relaxed) & ((2 << level) - 1) != 0
    }

    /// Says what is in line, for the looks that take no lock.
    pub(crate) fn refresh(&self, ready: &Ready) {
        self.occupied.store(ready.occupied(), Ordering::Relaxed);
    }

    /// Puts a task in line and gets a worker for it if none is looking.
    pub(crate) fn push(&self, engine: &Engine, level: usize, task: Task) {
        let mut ready = self.ready.lock();
        if ready.stopping {
            // The task is dropped after the lock, because with it may go the last share in a stream.
            drop(ready);
            return;
        }
        ready.lines[level].push_back(task);
        self.refresh(&ready);
        let call = self.choose(&mut ready, 1);
        drop(ready);
        self.carry_out(engine, call);
    }

    /// Offers a share in a kernel to workers that have nothing else to do, at most `count` of them.
    pub(crate) fn offer(&self, engine: &Engine, level: usize, share: &Arc<Share>, count: usize) {
        for offered in 0..count {
            let mut ready = self.ready.lock();
            let startable = (self.workers + self.blocked.load(Ordering::Relaxed)).saturating_sub(ready.threads);
            if ready.stopping || ready.sleepers.len() + ready.searching.saturating_sub(offered) + startable == 0 {
                return;
            }
            ready.lines[level].push_back(Task::Share(Arc::clone(share)));
            self.refresh(&ready);
            let call = self.choose(&mut ready, offered + 1);
            drop(ready);
            self.carry_out(engine, call);
        }
    }

    /// Gets a worker for work in line, or for looking after values, if none is free.
    pub(crate) fn ensure_worker(&self, engine: &Engine) {
        let mut ready = self.ready.lock();
        if ready.stopping {
            return;
        }
        let call = self.choose(&mut ready, 1);
        drop(ready);
        self.carry_out(engine, call);
    }

    /// Gets a worker to look after values, unless one does.
    pub(crate) fn ensure_poller(&self, engine: &Engine) {
        if !self.ready.lock().poller {
            self.ensure_worker(engine);
        }
    }

    /// Lets another worker search, where one that searched has found work, and there is more of it or nobody looks
    /// after values.
    pub(crate) fn pass_on(&self, engine: &Engine, mut ready: MutexGuard<'_, Ready>) {
        let wanted = ready.occupied() != 0 || (!ready.poller && !engine.values.is_empty());
        let call = if wanted { self.choose(&mut ready, 1) } else { Call::Nobody };
        drop(ready);
        self.carry_out(engine, call);
    }

    fn choose(&self, ready: &mut Ready, wanted: usize) -> Call {
        if ready.searching >= wanted {
            return Call::Nobody;
        }
        if let Some(sleeper) = ready.sleepers.pop() {
            ready.searching += 1;
            return Call::Wake(sleeper);
        }
        if ready.threads < self.workers + self.blocked.load(Ordering::SeqCst) && self.workers > 0 {
            ready.threads += 1;
            ready.searching += 1;
            return Call::Start;
        }
        Call::Nobody
    }

    #[inline]
    fn carry_out(&self, engine: &Engine, call: Call) {
        match call {
            Call::Nobody => {}
            Call::Wake(sleeper) => {
                sleeper.notified.store(true, Ordering::Release);
                sleeper.thread.unpark();
            }
            Call::Start => self.start(engine),
        }
    }

    #[cold]
    fn start(&self, engine: &Engine) {
        let started = engine.this.upgrade().map(|engine| {
            std::thread::Builder::new().name("anabranch-host".to_owned()).spawn(move || worker::work(&engine))
        });
        let mut ready = self.ready.lock();
        match started {
            Some(Ok(handle)) => {
                ready.handles.retain(|handle| !handle.is_finished());
                ready.handles.push(handle);
            }
            // Without the thread, what is in line waits for another worker, or for a thread that synchronises.
            Some(Err(_)) | None => {
                ready.threads -= 1;
                ready.searching -= 1;
            }
        }
    }

    /// Whether there are more workers than there should be.
    pub(crate) fn has_surplus(&self, ready: &Ready) -> bool {
        ready.threads > self.workers + self.blocked.load(Ordering::Relaxed)
    }

    /// Notes that a worker is inside of host work.
    pub(crate) fn enter_host_work(&self, engine: &Engine) {
        // Sequentially consistent, as is the load in `choose`: either that one counts this worker as absent, or its task
        // is seen here.
        self.blocked.fetch_add(1, Ordering::SeqCst);
        if self.occupied.load(Ordering::SeqCst) != 0 {
            self.ensure_worker(engine);
        }
    }

    /// Notes that a worker has come back from host work.
    pub(crate) fn leave_host_work(&self) {
        self.blocked.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes one task out, the one that `choose` names among as many as there are.
    pub(crate) fn take(&self, choose: impl FnOnce(usize) -> usize) -> Option<Task> {
        let mut ready = self.ready.lock();
        let count: usize = ready.lines.iter().map(VecDeque::len).sum();
        if count == 0 {
            return None;
        }
        let mut index = choose(count);
        let mut task = None;
        for line in &mut ready.lines {
            if index < line.len() {
                task = line.remove(index);
                break;
            }
            index -= line.len();
        }
        self.refresh(&ready);
        task
    }

    /// Makes all workers end, and drops what is in line. Returns the workers' threads.
    pub(crate) fn stop(&self) -> Vec<JoinHandle<()>> {
        let (tasks, sleepers, handles) = {
            let mut ready = self.ready.lock();
            ready.stopping = true;
            let tasks: Vec<Task> = ready.lines.iter_mut().flat_map(std::mem::take).collect();
            self.refresh(&ready);
            (tasks, std::mem::take(&mut ready.sleepers), std::mem::take(&mut ready.handles))
        };
        drop(tasks);
        for sleeper in sleepers {
            sleeper.notified.store(true, Ordering::Release);
            sleeper.thread.unpark();
        }
        handles
    }
}
