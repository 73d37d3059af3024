//! The queue of one stream, and who may run it.
//!
//! # Protocol
//!
//! A queue is in one of four phases, which change under its lock only:
//!
//! * *idle*: nothing is queued;
//! * *ready*: something is queued, and any thread may claim the queue;
//! * *running*: one thread has claimed it, and alone takes entries out;
//! * *parked*: its next entry waits for something, which will unpark it.
//!
//! Whoever makes a queue ready hands a *token* for it to the scheduler. A token is a hint: a thread that synchronises may
//! claim the queue before the worker that finds the token. There is at most one token a queue, so that hints that came
//! too late do not pile up.

use crate::sync::{AtomicU64, Mutex};
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering;

/// Room for entries that an idle queue keeps. The rest of a burst is given back.
const KEPT_CAPACITY: usize = 1024;

#[derive(Debug)]
enum Phase<P> {
    Idle,
    Ready,
    Running,
    Parked(P),
}

#[derive(Debug)]
struct Incoming<E, P> {
    entries: VecDeque<E>,
    enqueued: u64,
    phase: Phase<P>,
    token: bool,
    front_satisfied: bool,
    legacy_seen: u64,
}

/// Entries in order, in numbers from 1 on. `P` says what a parked queue waits for.
#[derive(Debug)]
pub(crate) struct Queue<E, P> {
    incoming: Mutex<Incoming<E, P>>,
    enqueued: AtomicU64,
}

/// The right to run a queue, from claiming it until it is idle, parked or given back.
#[derive(Debug)]
#[must_use]
pub(crate) struct Claim {
    /// Whether what the first entry waited for has been seen to come true.
    pub(crate) front_satisfied: bool,
}

/// What a thread that wants to help found.
#[derive(Debug)]
pub(crate) enum Inspection<P> {
    /// The queue is now the caller's to run.
    Claimed(Claim),
    /// Another thread runs it, or there is nothing to run.
    Taken,
    /// Its next entry waits for this.
    Parked(P),
}

/// The end of a queue, while it is locked.
pub(crate) struct Tail<'a, E> {
    entries: &'a mut VecDeque<E>,
    enqueued: &'a mut u64,
    legacy_seen: &'a mut u64,
}

impl<E> Tail<'_, E> {
    /// Puts an entry at the end and returns its number.
    #[inline]
    pub(crate) fn push(&mut self, entry: E) -> u64 {
        self.entries.push_back(entry);
        *self.enqueued += 1;
        *self.enqueued
    }

    /// The number of the last entry.
    #[inline]
    pub(crate) fn sequence(&self) -> u64 {
        *self.enqueued
    }

    /// How many entries no thread has taken out yet.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry of the legacy stream that this queue waits for already.
    #[inline]
    pub(crate) fn legacy_seen(&mut self) -> &mut u64 {
        self.legacy_seen
    }
}

impl<E, P: Clone> Queue<E, P> {
    pub(crate) fn new() -> Self {
        Self {
            incoming: Mutex::new(Incoming {
                entries: VecDeque::new(),
                enqueued: 0,
                phase: Phase::Idle,
                token: false,
                front_satisfied: false,
                legacy_seen: 0,
            }),
            enqueued: AtomicU64::new(0),
        }
    }

    /// How many entries were ever put in. Whoever reads a number here also sees all that was decided while the entries
    /// up to that number were put in.
    #[inline]
    pub(crate) fn enqueued(&self) -> u64 {
        self.enqueued.load(Ordering::Acquire)
    }

    /// As [`enqueued`](Self::enqueued), and in one order with all that is put in: what is not counted is put in by calls
    /// that see what this thread did before.
    #[inline]
    pub(crate) fn enqueued_in_order(&self) -> u64 {
        self.incoming.lock().enqueued
    }

    /// Adds to the end. The second result says that the caller must hand a token to the scheduler.
    #[inline]
    pub(crate) fn append<R>(&self, fill: impl FnOnce(&mut Tail<'_, E>) -> R) -> (R, bool) {
        let mut guard = self.incoming.lock();
        let incoming = &mut *guard;
        let result = fill(&mut Tail {
            entries: &mut incoming.entries,
            enqueued: &mut incoming.enqueued,
            legacy_seen: &mut incoming.legacy_seen,
        });
        self.enqueued.store(incoming.enqueued, Ordering::Release);
        let awake = matches!(incoming.phase, Phase::Idle) && !incoming.entries.is_empty();
        (result, awake && incoming.make_ready())
    }

    /// Uses up the token that a worker took from the scheduler, and claims the queue if it is still ready.
    pub(crate) fn claim_by_token(&self) -> Option<Claim> {
        let mut incoming = self.incoming.lock();
        incoming.token = false;
        incoming.claim()
    }

    /// Claims the queue if it is ready, or says why not.
    pub(crate) fn claim_or_inspect(&self) -> Inspection<P> {
        let mut incoming = self.incoming.lock();
        match incoming.claim() {
            Some(claim) => Inspection::Claimed(claim),
            None => match &incoming.phase {
                Phase::Parked(reason) => Inspection::Parked(reason.clone()),
                _ => Inspection::Taken,
            },
        }
    }

    /// Moves all entries into `batch`, which is empty and gives its room in exchange. `false`: there were none, the queue
    /// is idle, and no longer the caller's.
    pub(crate) fn refill(&self, batch: &mut VecDeque<E>) -> bool {
        let mut incoming = self.incoming.lock();
        if !incoming.entries.is_empty() {
            mem::swap(&mut incoming.entries, batch);
            return true;
        }
        incoming.phase = Phase::Idle;
        if incoming.entries.capacity() > KEPT_CAPACITY {
            incoming.entries = VecDeque::new();
        }
        if batch.capacity() > KEPT_CAPACITY {
            *batch = VecDeque::new();
        }
        false
    }

    /// Gives a claimed queue back. `more` says that entries taken out are still to be run. `true`: the caller must
    /// hand a token to the scheduler.
    pub(crate) fn give_back(&self, more: bool) -> bool {
        let mut incoming = self.incoming.lock();
        if more || !incoming.entries.is_empty() {
            return incoming.make_ready();
        }
        incoming.phase = Phase::Idle;
        false
    }

    /// Parks a claimed queue. The caller then sees to it that [`unpark`](Self::unpark) will be called once.
    pub(crate) fn park(&self, reason: P) {
        self.incoming.lock().phase = Phase::Parked(reason);
    }

    /// Makes a parked queue ready. `satisfied`: its first entry need not look again. `true`: the caller must hand a
    /// token to the scheduler.
    pub(crate) fn unpark(&self, satisfied: bool) -> bool {
        let mut incoming = self.incoming.lock();
        if !matches!(incoming.phase, Phase::Parked(_)) {
            return false;
        }
        incoming.front_satisfied = satisfied;
        incoming.make_ready()
    }

    /// Claims a parked queue again, for the thread that parked it and found that it need not have.
    pub(crate) fn resume(&self) -> Claim {
        self.incoming.lock().phase = Phase::Running;
        Claim { front_satisfied: false }
    }

    /// Takes out all entries that no thread has taken, to drop them.
    pub(crate) fn drain(&self) -> VecDeque<E> {
        mem::take(&mut self.incoming.lock().entries)
    }
}

impl<E, P> Incoming<E, P> {
    fn make_ready(&mut self) -> bool {
        self.phase = Phase::Ready;
        !mem::replace(&mut self.token, true)
    }

    fn claim(&mut self) -> Option<Claim> {
        if !matches!(self.phase, Phase::Ready) {
            return None;
        }
        self.phase = Phase::Running;
        Some(Claim { front_satisfied: mem::take(&mut self.front_satisfied) })
    }
}
