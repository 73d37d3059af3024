//! Work that must not be done where it comes up.
//!
//! Destroying is not allowed inside of a host function, and freeing some kinds of memory blocks until the device is
//! idle. Both are handed to one background thread of the process, which first waits, by asking and never by blocking,
//! until the events that guard the work are complete, and until there is nothing for a blocking call to wait for.

use crate::completion::Outstanding;
use crate::context::ContextCore;
use crate::event::RawEvent;
use crate::host_work;
use anabranch_hal::{CaptureMode, Driver};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

type Action = Box<dyn FnOnce() + Send>;

struct Job {
    after: Vec<Arc<RawEvent>>,
    /// Work that was awaited by a future.
    after_work: Option<Arc<Outstanding>>,
    /// A context in which the action may block until all work is done.
    blocks_in: Option<Arc<ContextCore>>,
    action: Action,
}

impl Job {
    /// An action that waits for nothing.
    fn new(action: impl FnOnce() + Send + 'static) -> Self {
        let action = Box::new(action);
        Self { after: Vec::new(), after_work: None, blocks_in: None, action }
    }

    /// Whether it is time for the action.
    fn is_due(&mut self) -> bool {
        if !self.after.iter().all(|event| event.is_over()) {
            return false;
        }
        self.after.clear();
        if self.after_work.as_ref().is_some_and(|work| !work.is_over()) {
            return false;
        }
        self.after_work = None;
        true
    }

    /// Does the action if it is time for it. Else the job is given back.
    fn try_to_do(mut self) -> Option<Self> {
        if !self.is_due() {
            return Some(self);
        }
        let context = self.blocks_in.clone();
        let idle = match &context {
            // A driver may hold a lock while it blocks, and so hold up other threads, even the one that is to end the
            // waiting. So the action waits for a moment when there is nothing to wait for, and keeps it so.
            Some(context) => match context.keep_idle() {
                Some(idle) => Some(idle),
                None => return Some(self),
            },
            None => None,
        };
        // A panic in a drop of a user's value must not end this thread.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(self.action)) {
            // It may unwind again when it is dropped.
            std::mem::forget(payload);
        }
        drop(idle);
        None
    }
}

enum Message {
    Job(Job),
    Relax(Arc<dyn Driver>),
    Flush(Sender<()>),
}

/// Does `action` here, or on the reaper's thread if this is inside of a host function.
pub(crate) fn now_or_later(action: impl FnOnce() + Send + 'static) {
    if host_work::is_inside() { later(action) } else { action() }
}

/// Does `action` on the reaper's thread.
pub(crate) fn later(action: impl FnOnce() + Send + 'static) {
    hand_over(Job::new(action));
}

/// Does `action` on the reaper's thread when all of the events are complete.
pub(crate) fn after(events: Vec<Arc<RawEvent>>, action: impl FnOnce() + Send + 'static) {
    hand_over(Job { after: events, ..Job::new(action) });
}

/// Does `action` on the reaper's thread when the work is over.
pub(crate) fn after_work(work: Arc<Outstanding>, action: impl FnOnce() + Send + 'static) {
    hand_over(Job { after_work: Some(work), ..Job::new(action) });
}

/// Does `action`, which may block until the context is idle, on the reaper's thread at a moment when it is.
pub(crate) fn when_idle(context: &Arc<ContextCore>, action: impl FnOnce() + Send + 'static) {
    blocking_after(Vec::new(), context, action);
}

/// Does `action`, which may block until the context is idle, on the reaper's thread when all of the events are complete, at a
/// moment when it is.
pub(crate) fn blocking_after(
    events: Vec<Arc<RawEvent>>,
    context: &Arc<ContextCore>,
    action: impl FnOnce() + Send + 'static,
) {
    hand_over(Job { after: events, blocks_in: Some(context.clone()), ..Job::new(action) });
}

/// Keeps what the reaper's thread does with a driver from spoiling captures of other threads: it frees only what no capture
/// can depend on.
pub(crate) fn may_use(driver: &Arc<dyn Driver>) {
    if let Some(sender) = sender() {
        // Without a thread everything is done by the thread that asks.
        let _ = sender.send(Message::Relax(driver.clone()));
    }
}

fn hand_over(job: Job) {
    let unsent = match sender() {
        Some(sender) => match sender.send(Message::Job(job)) {
            Ok(()) => return,
            Err(error) => error.0,
        },
        None => Message::Job(job),
    };
    // There is no thread to be had. Doing it here may block, which is better than losing it.
    if let Message::Job(job) = unsent {
        job.after.iter().for_each(|event| {
            let _ = event.synchronize();
        });
        while job.after_work.as_ref().is_some_and(|work| !work.is_over()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        (job.action)();
    }
}

/// Waits until everything handed over before has been done, or can only be done when more work completes.
///
/// Buffers of kinds whose freeing blocks, modules and contexts are given back by a background thread. A program that
/// wants to see the memory back calls this first. It is not needed for correctness.
pub fn flush_deferred_drops() {
    // What is dropped on the reaper's thread may call this too, which cannot wait for itself.
    if host_work::is_inside() || IS_REAPER.get() {
        return;
    }
    let (done, wait) = channel();
    if let Some(Ok(())) = sender().map(|sender| sender.send(Message::Flush(done))) {
        let _ = wait.recv();
    }
}

/// Whether this is the reaper's thread.
pub(crate) fn is_here() -> bool {
    IS_REAPER.get()
}

thread_local! {
    static IS_REAPER: Cell<bool> = const { Cell::new(false) };
}

fn sender() -> Option<&'static Sender<Message>> {
    static SENDER: OnceLock<Option<Sender<Message>>> = OnceLock::new();
    SENDER
        .get_or_init(|| {
            let (sender, receiver) = channel();
            std::thread::Builder::new().name("anabranch-reaper".to_owned()).spawn(move || run(&receiver)).ok()?;
            Some(sender)
        })
        .as_ref()
}

fn run(receiver: &Receiver<Message>) {
    IS_REAPER.set(true);
    const SHORTEST: Duration = Duration::from_micros(100);
    const LONGEST: Duration = Duration::from_millis(5);
    let mut waiting: Vec<Job> = Vec::new();
    let mut pause = SHORTEST;
    loop {
        let message = if waiting.is_empty() {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            receiver.recv_timeout(pause)
        };
        let mut flushed = None;
        match message {
            Ok(Message::Job(job)) => waiting.push(job),
            Ok(Message::Flush(done)) => flushed = Some(done),
            Ok(Message::Relax(driver)) => {
                // A driver too old to capture has nothing to spoil.
                let _ = driver.thread_exchange_capture_mode(CaptureMode::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let before = waiting.len();
        waiting = std::mem::take(&mut waiting).into_iter().filter_map(Job::try_to_do).collect();
        pause = if waiting.len() < before { SHORTEST } else { (pause * 2).min(LONGEST) };
        if let Some(done) = flushed {
            let _ = done.send(());
        }
    }
}
