//! A stream as the tests run it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::super::completion::{Completion, Wake};
use super::super::legacy::{BlockingStream, LegacyOrder};
use super::super::queue::{Claim, Inspection, Queue};
use anabranch_sync::modelled::{self, Mutex};
use loom::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What stands for the scheduler.
pub(super) type Tokens = Mutex<VecDeque<Arc<Line>>>;

pub(super) type Place = (Arc<Line>, u64);

pub(super) enum Entry {
    Note(u32),
    WaitFor(Place),
}

pub(super) enum Waiter {
    Line(Arc<Line>),
    Thread(Arc<Parker>),
}

/// `park` and `unpark` of a thread. Those of loom forget an `unpark` when the thread then blocks on a mutex.
pub(super) struct Parker {
    unparked: loom::sync::Mutex<bool>,
    condition: loom::sync::Condvar,
}

impl Parker {
    fn new() -> Arc<Self> {
        Arc::new(Self { unparked: loom::sync::Mutex::new(false), condition: loom::sync::Condvar::new() })
    }

    fn park(&self) {
        let mut unparked = self.unparked.lock().unwrap();
        while !*unparked {
            unparked = self.condition.wait(unparked).unwrap();
        }
        *unparked = false;
    }

    fn unpark(&self) {
        *self.unparked.lock().unwrap() = true;
        self.condition.notify_one();
    }
}

impl Wake for Waiter {
    fn wake(self) {
        match self {
            Self::Line(line) => {
                if line.queue.unpark(false) {
                    line.hand_token();
                }
            }
            Self::Thread(parker) => parker.unpark(),
        }
    }
}

/// A stream, and what its entries noted. That cell is no atomic, so loom objects if two threads run the stream at once, or
/// if a thread that saw an entry complete does not see what it did.
pub(super) struct Line {
    pub(super) queue: Queue<Entry, Place>,
    pub(super) completion: Completion<Waiter>,
    notes: UnsafeCell<Vec<u32>>,
    tokens: Arc<Tokens>,
    this: std::sync::Weak<Line>,
    legacy_seen: modelled::AtomicU64,
    legacy_waits: AtomicU64,
    /// Whether a thread holds the claim. Beside the rules.
    claimed: AtomicBool,
}

// SAFETY: the cell is reached under the rules of the queue, which is what these tests check.
unsafe impl Send for Line {}
// SAFETY: the cell is reached under the rules of the queue, which is what these tests check.
unsafe impl Sync for Line {}

impl Line {
    pub(super) fn new(tokens: &Arc<Tokens>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            queue: Queue::new(),
            completion: Completion::new(),
            notes: UnsafeCell::new(Vec::new()),
            tokens: Arc::clone(tokens),
            this: this.clone(),
            legacy_seen: modelled::AtomicU64::new(0),
            legacy_waits: AtomicU64::new(0),
            claimed: AtomicBool::new(false),
        })
    }

    fn hand_token(&self) {
        let line = self.this.upgrade().expect("the line is in use");
        self.tokens.lock().push_back(line);
    }

    pub(super) fn put(&self, entry: Entry) -> u64 {
        let pushed = self.queue.push(entry);
        if pushed.token {
            self.hand_token();
        }
        pushed.sequence
    }

    pub(super) fn put_blocking(&self, order: &LegacyOrder, legacy: &Arc<Line>, note: u32) {
        order.before_blocking(&self.legacy_seen, |sequence| {
            if !legacy.completion.is_complete(sequence) {
                self.put(Entry::WaitFor((Arc::clone(legacy), sequence)));
            }
        });
        self.put(Entry::Note(note));
    }

    pub(super) fn put_legacy(&self, order: &LegacyOrder, blocking: &[Arc<Line>], note: u32) {
        let waits = || {
            for line in blocking {
                LegacyOrder::wait_for_blocking(Arc::clone(line), |line, sequence| {
                    self.put(Entry::WaitFor((line, sequence)));
                });
            }
        };
        order.put_legacy(waits, || self.put(Entry::Note(note)));
    }

    fn hold_claim(&self) {
        assert!(!self.claimed.swap(true, Ordering::Relaxed), "two threads have claimed the queue");
    }

    fn let_go_of_claim(&self) {
        self.claimed.store(false, Ordering::Relaxed);
    }

    /// As `Engine::run`.
    fn run<'a>(self: &'a Arc<Self>, mut claim: Claim<'a, Entry, Place>, until: u64) {
        self.hold_claim();
        loop {
            if self.completion.completed() >= until {
                self.let_go_of_claim();
                if claim.give_back() {
                    self.hand_token();
                }
                return;
            }
            let Some(entry) = claim.take() else {
                self.let_go_of_claim();
                match claim.leave() {
                    Ok(()) => return,
                    Err(more) => claim = more,
                }
                self.hold_claim();
                continue;
            };
            match entry {
                Entry::Note(note) => self.notes.with_mut(|notes| {
                    // SAFETY: loom checks that nobody else reaches the cell.
                    unsafe { (*notes).push(note) }
                }),
                Entry::WaitFor((line, awaited)) if !line.completion.is_complete(awaited) => {
                    claim.hold(Entry::WaitFor((Arc::clone(&line), awaited)));
                    self.let_go_of_claim();
                    claim.park((Arc::clone(&line), awaited));
                    if line.completion.register(awaited, Waiter::Line(Arc::clone(self))).is_none() {
                        return;
                    }
                    claim = self.queue.resume();
                    self.hold_claim();
                    continue;
                }
                Entry::WaitFor(_) => {}
            }
            assert!(self.completion.completed() < until, "a thread runs what comes behind what it waits for");
            self.completion.advance();
        }
    }

    pub(super) fn notes(&self) -> Vec<u32> {
        self.notes.with(|notes| {
            // SAFETY: loom checks that nobody writes the cell.
            unsafe { (*notes).clone() }
        })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.completion.is_complete(self.queue.enqueued())
    }
}

impl BlockingStream for Arc<Line> {
    fn enqueued(&self) -> u64 {
        self.queue.enqueued()
    }

    fn is_complete(&self, sequence: u64) -> bool {
        self.completion.is_complete(sequence)
    }

    fn exchange_legacy_wait(&self, sequence: u64) -> u64 {
        self.legacy_waits.swap(sequence, Ordering::Relaxed)
    }
}

/// Runs what is queued until nothing is.
pub(super) fn work(tokens: &Tokens) {
    loop {
        let Some(line) = tokens.lock().pop_front() else { return };
        if let Some(claim) = line.queue.claim_by_token() {
            line.run(claim, u64::MAX);
        }
    }
}

/// As `Engine::wait`, without looking on.
pub(super) fn wait(line: &Arc<Line>, sequence: u64) {
    let parker = Parker::new();
    let mut registered = false;
    while !line.completion.is_complete(sequence) {
        let mut current = (Arc::clone(line), sequence);
        let progress = loop {
            match current.0.queue.claim_or_inspect() {
                Inspection::Claimed(claim) => {
                    current.0.run(claim, current.1);
                    break true;
                }
                Inspection::Taken => break false,
                Inspection::Parked(next) => current = next,
            }
        };
        if progress {
            continue;
        }
        if registered {
            parker.park();
        } else {
            let waiter = Waiter::Thread(Arc::clone(&parker));
            registered = line.completion.register(sequence, waiter).is_none();
        }
    }
}
