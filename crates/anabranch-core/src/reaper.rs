//! Work that must not be done where it arises.
//!
//! Destroying objects is not allowed inside a host function, and freeing some kinds of memory blocks until the device
//! is idle. One background thread of the process, the *reaper*, does both. It never waits for work: a job that has to
//! wait is *attempted* repeatedly until it is done.
//!
//! Jobs wait in queues, of which only the first job is attempted. Jobs that wait for the same thing share a queue, so
//! that very many of them cost no more than one.
//!
//! It also runs code of the program that must not run under a lock of the library: the drop of closures that were
//! retained, and the hook for errors of drops.
//!
//! No context is opened before the thread runs, and it runs until the process ends. So nothing that needs it is ever without
//! it, and none of its work is done elsewhere.

use crate::contained::contain_quietly;
use crate::process_exit;
use crate::ranks;
use crate::thread_capture_mode;
use anabranch_hal::{Driver, InsideWork};
use anabranch_sync::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The result of attempting a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It is done.
    Done,
    /// It has to wait for the same thing as the others in its queue.
    Pending,
    /// It has to wait for something else, in the queue of this number.
    PendingIn(u64),
}

type Job = Box<dyn FnMut() -> Attempt + Send>;

enum Message {
    Now(Box<dyn FnOnce() + Send>),
    Job(u64, Job),
    Relax(Arc<dyn Driver>),
    Flush(Sender<()>),
}

/// The channel to the thread, and what was sent before the first context, while no thread could be started.
struct Reaper {
    sender: Option<Sender<Message>>,
    unattended: Vec<Message>,
}

static REAPER: Mutex<Reaper> = Mutex::new(ranks::REAPER, Reaper { sender: None, unattended: Vec::new() });

thread_local! {
    static IS_REAPER: Cell<bool> = const { Cell::new(false) };
    /// What the reaper's thread has sent to itself. It is handled before anything else is received.
    static OWN: RefCell<VecDeque<Message>> = const { RefCell::new(VecDeque::new()) };
}

/// Runs `action` here, or on the reaper's thread if this is inside a host function.
#[inline]
pub fn now_or_later(action: impl FnOnce() + Send + 'static) {
    if InsideWork::is_entered() { later(action) } else { action() }
}

/// Runs `action`, which does not block, on the reaper's thread.
pub fn later(action: impl FnOnce() + Send + 'static) {
    send(Message::Now(Box::new(action)));
}

/// Runs code of the program on the reaper's thread, where no lock is held and nothing is in the middle of a change. If it
/// unwinds, that ends there.
pub fn elsewhere(code: impl FnOnce() + Send + 'static) {
    send(Message::Now(Box::new(code)));
}

/// Attempts `job` on the reaper's thread until it is done. `queue`: the number of what it waits for, such as a timeline's.
pub fn attempt(queue: u64, job: impl FnMut() -> Attempt + Send + 'static) {
    send(Message::Job(queue, Box::new(job)));
}

/// Makes sure that the thread runs, and lets it call a driver in relaxed capture mode: it releases only what no capture can
/// depend on. Called before a context is opened.
///
/// # Errors
/// That of the operating system if it starts no thread.
pub fn start_for(driver: &Arc<dyn Driver>) -> io::Result<()> {
    if !is_here() {
        REAPER.lock().start()?;
    }
    send(Message::Relax(driver.clone()));
    Ok(())
}

/// How long a call waits for the reaper before it goes on without.
const PATIENCE: Duration = Duration::from_millis(100);

/// Whether something comes about in a moment, such as what the reaper does. It may be busy with what takes longer, so that
/// nobody waits for it who may hold it up.
pub fn comes_about(mut condition: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if begin.elapsed() >= PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this is the reaper's thread.
pub fn is_here() -> bool {
    IS_REAPER.get()
}

/// Waits until all deferred drops are done, except those that must wait for more work to complete.
///
/// A background thread frees buffers of kinds whose freeing blocks, unloads modules, closes contexts, and drops closures
/// that the library has retained. Call this function before measuring free memory. It is not needed for correctness. Memory
/// that was allocated in stream order is freed in stream order then: synchronize the context afterwards if that counts, too.
pub fn flush_deferred_drops() {
    // What is dropped on the reaper's thread may call this too, which cannot wait for itself.
    if InsideWork::is_entered() || is_here() {
        return;
    }
    let (done, wait) = channel();
    send(Message::Flush(done));
    let unattended = {
        let mut reaper = REAPER.lock();
        if reaper.sender.is_none() { Some(std::mem::take(&mut reaper.unattended)) } else { None }
    };
    match unattended {
        None => while wait.recv_timeout(EXIT_PAUSE) == Err(RecvTimeoutError::Timeout) && !process_exit::is_exiting() {},
        // There was no context yet. The program calls this where it has locked nothing that its own code needs.
        Some(unattended) => unattended.into_iter().for_each(|message| handle(message, &mut Queues::default())),
    }
}

/// How often a thread that waits for the reaper looks whether the process exits.
const EXIT_PAUSE: Duration = Duration::from_millis(100);

fn send(message: Message) {
    if is_here() {
        return OWN.with(|own| own.borrow_mut().push_back(message));
    }
    REAPER.lock().send(message);
}

impl Reaper {
    /// Starts the thread, unless it runs.
    fn start(&mut self) -> io::Result<()> {
        if self.sender.is_none() {
            process_exit::watch();
            let (sender, receiver) = channel();
            std::thread::Builder::new().name("anabranch-reaper".to_owned()).spawn(move || run(&receiver))?;
            self.sender = Some(sender);
        }
        Ok(())
    }

    fn send(&mut self, message: Message) {
        self.unattended.push(message);
        if self.start().is_ok()
            && let Some(sender) = &self.sender
        {
            for message in self.unattended.drain(..) {
                // The thread ends with the process only.
                let _ = sender.send(message);
            }
        }
    }
}

/// Jobs that wait, in queues by the number of what they wait for.
#[derive(Default)]
struct Queues {
    queues: BTreeMap<u64, VecDeque<Job>>,
}

impl Queues {
    fn push(&mut self, queue: u64, job: Job) {
        self.queues.entry(queue).or_default().push_back(job);
    }

    /// Attempts the first job of every queue, and the following ones when it is done. Returns whether any was done.
    fn attempt_all(&mut self) -> bool {
        let mut progress = false;
        let mut moved = Vec::new();
        self.queues.retain(|_, queue| {
            progress |= attempt_queue(queue, &mut moved);
            !queue.is_empty()
        });
        progress |= !moved.is_empty();
        for (queue, job) in moved {
            self.push(queue, job);
        }
        progress
    }
}

/// Attempts the jobs of a queue up to the first that has to wait. Returns whether any was done.
fn attempt_queue(queue: &mut VecDeque<Job>, moved: &mut Vec<(u64, Job)>) -> bool {
    let mut progress = false;
    while let Some(mut job) = queue.pop_front() {
        match contain_quietly(&mut job) {
            Some(Attempt::Pending) => {
                queue.push_front(job);
                break;
            }
            Some(Attempt::PendingIn(other)) => moved.push((other, job)),
            // A job that panicked is not attempted again.
            Some(Attempt::Done) | None => progress = true,
        }
    }
    progress
}

/// Handles a message on the reaper's thread.
fn handle(message: Message, waiting: &mut Queues) {
    match message {
        Message::Now(action) => _ = contain_quietly(action),
        Message::Job(queue, mut job) => match waiting.queues.get_mut(&queue) {
            // The first of its queue waits, so this one does too.
            Some(jobs) => jobs.push_back(job),
            None => match contain_quietly(&mut job) {
                Some(Attempt::Pending) => waiting.push(queue, job),
                Some(Attempt::PendingIn(other)) => waiting.push(other, job),
                Some(Attempt::Done) | None => {}
            },
        },
        Message::Flush(done) => {
            // What was sent before, and what that has caused.
            while handle_own(waiting) || waiting.attempt_all() {}
            let _ = done.send(());
        }
        Message::Relax(driver) => thread_capture_mode::relax_this_thread(&*driver),
    }
}

/// Handles what the reaper's thread has sent to itself. Returns whether there was anything.
fn handle_own(waiting: &mut Queues) -> bool {
    let mut any = false;
    while let Some(message) = OWN.with(|own| own.borrow_mut().pop_front()) {
        any = true;
        handle(message, waiting);
    }
    any
}

fn run(receiver: &Receiver<Message>) {
    IS_REAPER.set(true);
    const SHORTEST: Duration = Duration::from_micros(100);
    const LONGEST: Duration = Duration::from_millis(5);
    let mut waiting = Queues::default();
    let mut pause = SHORTEST;
    let mut next = Instant::now();
    loop {
        let message = if waiting.queues.is_empty() {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            receiver.recv_timeout(next.saturating_duration_since(Instant::now()))
        };
        let _busy = process_exit::busy();
        match message {
            Ok(message) => handle(message, &mut waiting),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        handle_own(&mut waiting);
        // Also while messages keep coming.
        if Instant::now() >= next {
            pause = if waiting.attempt_all() { SHORTEST } else { (pause * 2).min(LONGEST) };
            handle_own(&mut waiting);
            next = Instant::now() + pause;
        }
    }
}
