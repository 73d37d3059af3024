//! The queue of one stream, and who may run it.
//!
//! Many threads enqueue entries, and one thread at a time takes them out: the one that holds the [`Claim`].
//!
//! # Protocol
//!
//! One word holds the place of the next entry and the phase of the queue:
//!
//! * *idle*: nothing is queued;
//! * *ready*: something is queued, and any thread may claim the queue;
//! * *running*: one thread has claimed it;
//! * *parked*: its first entry waits for something, which will unpark it.
//!
//! The thread that makes a queue ready gives a *token* for it to the scheduler. A token is a hint: a thread that
//! synchronizes may claim the queue before the worker that finds the token. There is at most one token a queue, so that
//! hints that came too late do not pile up.
//!
//! A thread that enqueues an entry takes the next place by one compare-and-swap of the word, which also makes an idle
//! queue ready, and then fills the place. A queue becomes idle by a compare-and-swap too, which fails when a place was
//! taken meanwhile. So no entry is left behind, and neither side needs a fence.
//!
//! Places are in blocks, which form a list. The thread that takes the last place of a block appends the next block
//! before it fills its place; threads that come meanwhile wait for it. A block is given up when all its places were
//! emptied, and every place is filled as the last thing that its thread does to the block, so nobody uses a block that
//! was given up.

use super::cell::Cell;
use crate::ranks;
use anabranch_sync::modelled::{AtomicPtr, AtomicU64, Mutex};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering;

/// The bits of the word below the place.
const SHIFT: u32 = 4;
const PHASE: u64 = 0b11;
const IDLE: u64 = 0;
const READY: u64 = 1;
const RUNNING: u64 = 2;
const PARKED: u64 = 3;
/// The scheduler has a token.
const TOKEN: u64 = 0b100;
/// What the first entry waited for has been seen to come true.
const SATISFIED: u64 = 0b1000;
/// One place.
const ONE: u64 = 1 << SHIFT;

/// Places that a block takes up in the count; the last one is no place: the count is there while the next block is appended.
#[cfg(not(loom))]
const LAP: u64 = 64;
#[cfg(loom)]
const LAP: u64 = 4;

/// Entries of a block.
const ENTRIES: usize = LAP as usize - 1;

/// How many entries there are before a place.
const fn entries_before(place: u64) -> u64 {
    place - place / LAP
}

/// One place, on a cache line of its own.
#[repr(align(64))]
struct Slot<E> {
    /// The place plus 1, once it is filled. So nothing has to be written when it is emptied.
    filled: AtomicU64,
    entry: Cell<MaybeUninit<E>>,
}

struct Block<E> {
    next: AtomicPtr<Block<E>>,
    slots: [Slot<E>; ENTRIES],
}

impl<E> Block<E> {
    fn new() -> *mut Self {
        let slot = |_| Slot { filled: AtomicU64::new(0), entry: Cell::new(MaybeUninit::uninit()) };
        Box::into_raw(Box::new(Self { next: AtomicPtr::new(ptr::null_mut()), slots: std::array::from_fn(slot) }))
    }
}

/// Keeps what the enqueuing threads write and what the running thread writes on different cache lines. 128 bytes, because
/// processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

struct Tail<E> {
    word: AtomicU64,
    /// The block of the next place.
    block: AtomicPtr<Block<E>>,
}

/// The next place to be emptied. Only the thread with the claim uses it.
struct Head<E> {
    place: u64,
    block: *mut Block<E>,
    /// The first entry, where it has to wait.
    held: Option<E>,
}

/// Entries in order, in numbers from 1 on. `P` says what a parked queue waits for.
pub(crate) struct Queue<E, P> {
    tail: Padded<Tail<E>>,
    head: Padded<Cell<Head<E>>>,
    /// An empty block, for the next thread that needs one.
    spare: AtomicPtr<Block<E>>,
    parked: Mutex<Option<P>>,
}

// SAFETY: entries are moved from the threads that enqueue them to the one that takes them out, and `P` is cloned for
// others under a lock. The head is used by one thread at a time, which the protocol of the word sees to.
unsafe impl<E: Send, P: Send> Send for Queue<E, P> {}
// SAFETY: threads that share it enqueue, which moves entries in, and the head is used by one of them at a time.
unsafe impl<E: Send, P: Send> Sync for Queue<E, P> {}

/// The right to run a queue, from claiming it until it is idle, parked or given back.
#[must_use]
pub(crate) struct Claim<'a, E, P> {
    queue: &'a Queue<E, P>,
    satisfied: bool,
}

/// The result of enqueueing an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pushed {
    /// The number of the entry.
    pub(crate) sequence: u64,
    /// The caller must hand a token to the scheduler.
    pub(crate) token: bool,
}

/// What a thread that wants to help found.
pub(crate) enum Inspection<'a, E, P> {
    /// The queue is now the caller's to run.
    Claimed(Claim<'a, E, P>),
    /// Another thread runs it, or there is nothing to run.
    Taken,
    /// Its first entry waits for this.
    Parked(P),
}

impl<E, P: Clone> Queue<E, P> {
    pub(crate) fn new() -> Self {
        let block = Block::new();
        Self {
            tail: Padded(Tail { word: AtomicU64::new(0), block: AtomicPtr::new(block) }),
            head: Padded(Cell::new(Head { place: 0, block, held: None })),
            spare: AtomicPtr::new(ptr::null_mut()),
            parked: Mutex::new(ranks::PARKED, None),
        }
    }

    /// Puts an entry at the end.
    #[inline]
    pub(crate) fn push(&self, entry: E) -> Pushed {
        let mut word = self.tail.word.load(Ordering::Acquire);
        loop {
            let (place, block) = (word >> SHIFT, self.tail.block.load(Ordering::Acquire));
            let index = (place % LAP) as usize;
            if index == ENTRIES {
                // Another thread appends the next block.
                super::cell::pause();
                word = self.tail.word.load(Ordering::Acquire);
                continue;
            }
            let idle = word & PHASE == IDLE;
            let next = if idle { (word + ONE) & !PHASE | READY | TOKEN } else { word + ONE };
            // Release passes on to the thread with the claim what this thread did before. Acquire makes the entries
            // follow what the threads did that enqueued earlier ones.
            match self.tail.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {}
                Err(now) => {
                    word = now;
                    continue;
                }
            }
            // SAFETY: the place was taken for this thread in this block, as the word has not changed since before the block
            // was read. The block is not given up before the place is filled and emptied.
            let block_of_place = unsafe { &*block };
            if index + 1 == ENTRIES {
                self.append_block(block_of_place);
            }
            if let Some(slot) = block_of_place.slots.get(index) {
                // SAFETY: the place is this thread's until it is filled.
                slot.entry.with_mut(|cell| unsafe { (*cell).write(entry) });
                slot.filled.store(place + 1, Ordering::Release);
            }
            return Pushed { sequence: entries_before(place) + 1, token: idle && word & TOKEN == 0 };
        }
    }

    /// Appends a block to the one whose last place the caller has taken.
    #[cold]
    fn append_block(&self, last: &Block<E>) {
        let mut block = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        if block.is_null() {
            block = Block::new();
        }
        last.next.store(block, Ordering::Release);
        self.tail.block.store(block, Ordering::Release);
        // Past the count that is no place.
        self.tail.word.fetch_add(ONE, Ordering::Release);
    }

    /// How many entries were ever enqueued. A thread that reads a number here also sees all that was decided before the
    /// entries up to that number were enqueued.
    #[inline]
    pub(crate) fn enqueued(&self) -> u64 {
        self.enqueued_count()
    }

    /// As [`enqueued`](Self::enqueued), and in one order with everything that is enqueued: what is not counted is
    /// enqueued by calls that see what this thread did before.
    #[inline]
    pub(crate) fn enqueued_in_order(&self) -> u64 {
        entries_before(self.tail.word.fetch_add(0, Ordering::AcqRel) >> SHIFT)
    }

    /// Uses up the token that a worker took from the scheduler, and claims the queue if it is still ready.
    pub(crate) fn claim_by_token(&self) -> Option<Claim<'_, E, P>> {
        self.try_claim(!TOKEN)
    }

    /// Claims the queue if it is ready, or says why not.
    pub(crate) fn claim_or_inspect(&self) -> Inspection<'_, E, P> {
        if let Some(claim) = self.try_claim(!0) {
            return Inspection::Claimed(claim);
        }
        if self.tail.word.load(Ordering::Acquire) & PHASE != PARKED {
            return Inspection::Taken;
        }
        // The reason is there for as long as the queue is parked.
        self.parked.lock().clone().map_or(Inspection::Taken, Inspection::Parked)
    }

    /// Claims the queue if it is ready, and keeps only the bits of `kept`.
    fn try_claim(&self, kept: u64) -> Option<Claim<'_, E, P>> {
        let mut word = self.tail.word.load(Ordering::Relaxed);
        loop {
            let ready = word & PHASE == READY;
            let next = if ready { (word & !(PHASE | SATISFIED) | RUNNING) & kept } else { word & kept };
            if next == word {
                return None;
            }
            match self.tail.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if ready => return Some(Claim { queue: self, satisfied: word & SATISFIED != 0 }),
                Ok(_) => return None,
                Err(now) => word = now,
            }
        }
    }

    /// Makes a parked queue ready. `satisfied`: its first entry need not look again. `true`: the caller must hand a token
    /// to the scheduler.
    pub(crate) fn unpark(&self, satisfied: bool) -> bool {
        let mut parked = self.parked.lock();
        // Under the lock nobody else parks or unparks the queue.
        if self.tail.word.load(Ordering::Relaxed) & PHASE != PARKED {
            return false;
        }
        let reason = parked.take();
        let flag = if satisfied { SATISFIED } else { 0 };
        let before = self.change(|word| word & !PHASE | READY | TOKEN | flag);
        drop(parked);
        // Without the lock, because it may be the last reference to what the queue has waited for.
        drop(reason);
        before & TOKEN == 0
    }

    /// Claims a parked queue again, for the thread that parked it and found that it need not have.
    pub(crate) fn resume(&self) -> Claim<'_, E, P> {
        let mut parked = self.parked.lock();
        let reason = parked.take();
        self.change(|word| word & !PHASE | RUNNING);
        drop(parked);
        drop(reason);
        Claim { queue: self, satisfied: false }
    }

    /// Takes out all entries, to drop them. Nothing where a thread runs the queue.
    pub(crate) fn drain(&self) -> Vec<E> {
        let mut parked = self.parked.lock();
        let reason = parked.take();
        let before = self.change(|word| word & !(PHASE | SATISFIED) | RUNNING);
        drop(parked);
        drop(reason);
        if before & PHASE == RUNNING {
            return Vec::new();
        }
        let mut claim = Claim { queue: self, satisfied: false };
        let mut entries: Vec<E> = std::iter::from_fn(|| claim.take()).collect();
        while let Err(more) = claim.leave() {
            claim = more;
            entries.extend(claim.take());
        }
        entries
    }

    /// Changes the bits below the place. Returns the word before.
    fn change(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut word = self.tail.word.load(Ordering::Relaxed);
        loop {
            match self.tail.word.compare_exchange_weak(word, change(word), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return before,
                Err(now) => word = now,
            }
        }
    }
}

impl<'a, E, P> Claim<'a, E, P> {
    /// Whether what the first entry waited for has been seen to come true. It is said once.
    pub(crate) fn take_satisfied(&mut self) -> bool {
        std::mem::take(&mut self.satisfied)
    }

    fn with_head<R>(&mut self, body: impl FnOnce(&mut Head<E>) -> R) -> R {
        // SAFETY: only the thread with the claim uses the head, and this borrows the claim.
        self.queue.head.with_mut(|head| body(unsafe { &mut *head }))
    }

    /// Whether there is an entry that can be taken out. A look at the place only, which slows nobody down.
    #[inline]
    pub(crate) fn has_next(&mut self) -> bool {
        self.with_head(|head| head.held.is_some() || head.slot().is_some())
    }

    /// Takes the first entry out. `None`: there is none, or a thread has taken its place and not filled it yet.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<E> {
        let queue = self.queue;
        self.with_head(|head| {
            if head.held.is_some() {
                return head.held.take();
            }
            // SAFETY: the place is filled, and emptied once.
            let entry = head.slot()?.entry.with_mut(|cell| unsafe { (*cell).assume_init_read() });
            head.place += 1;
            if head.place % LAP == LAP - 1 {
                queue.give_up_block(head);
            }
            Some(entry)
        })
    }

    /// Puts the entry back that was taken out last, because it has to wait.
    pub(crate) fn hold(&mut self, entry: E) {
        self.with_head(|head| head.held = Some(entry));
    }

    fn is_empty(&mut self, word: u64) -> bool {
        self.with_head(|head| head.held.is_none() && entries_before(word >> SHIFT) == entries_before(head.place))
    }

    /// Makes the queue idle, unless there is an entry, or will be in a moment.
    pub(crate) fn leave(mut self) -> Result<(), Self> {
        let mut word = self.queue.tail.word.load(Ordering::Relaxed);
        loop {
            if !self.is_empty(word) {
                if !self.has_next() {
                    super::cell::pause();
                }
                return Err(self);
            }
            let next = word & !PHASE | IDLE;
            match self.queue.tail.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Gives the queue back. `true`: the caller must hand a token to the scheduler.
    pub(crate) fn give_back(mut self) -> bool {
        let mut word = self.queue.tail.word.load(Ordering::Relaxed);
        loop {
            let empty = self.is_empty(word);
            // Whoever comes next need not look again either, if this claim took nothing out.
            let flags = if self.satisfied { TOKEN | SATISFIED } else { TOKEN };
            let next = if empty { word & !PHASE | IDLE } else { word & !PHASE | READY | flags };
            match self.queue.tail.word.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return !empty && word & TOKEN == 0,
                Err(now) => word = now,
            }
        }
    }
}

impl<E, P: Clone> Claim<'_, E, P> {
    /// Parks the queue. The caller then sees to it that [`Queue::unpark`] will be called once.
    pub(crate) fn park(self, reason: P) {
        let mut parked = self.queue.parked.lock();
        let before = parked.replace(reason);
        self.queue.change(|word| word & !PHASE | PARKED);
        drop(parked);
        drop(before);
    }
}

impl<E> Head<E> {
    /// The next place, once it is filled.
    #[inline]
    fn slot(&self) -> Option<&Slot<E>> {
        // SAFETY: the block is given up by the thread with the claim only, when it continues with the next one.
        let slot = unsafe { &*self.block }.slots.get((self.place % LAP) as usize)?;
        (slot.filled.load(Ordering::Acquire) == self.place + 1).then_some(slot)
    }
}

impl<E, P> Queue<E, P> {
    fn enqueued_count(&self) -> u64 {
        entries_before(self.tail.word.load(Ordering::Acquire) >> SHIFT)
    }

    /// Continues with the next block, when all places of one were emptied.
    #[cold]
    fn give_up_block(&self, head: &mut Head<E>) {
        // SAFETY: as in `Head::slot`. The thread that filled the last place has appended the next block before.
        let next = unsafe { &*head.block }.next.swap(ptr::null_mut(), Ordering::Acquire);
        let empty = std::mem::replace(&mut head.block, next);
        head.place += 1;
        let none = ptr::null_mut();
        if self.spare.compare_exchange(none, empty, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: the block came from `Block::new`, all its places were filled and emptied, and the head has left it.
            drop(unsafe { Box::from_raw(empty) });
        }
    }
}

impl<E, P> Drop for Queue<E, P> {
    fn drop(&mut self) {
        let mut claim = Claim { queue: &*self, satisfied: false };
        // Nobody enqueues entries any more, so all places that were taken are filled.
        while claim.take().is_some() {}
        let last = claim.with_head(|head| head.block);
        for block in [last, self.spare.load(Ordering::Relaxed)] {
            if !block.is_null() {
                // SAFETY: both came from `Block::new`, and nobody else uses the queue any more.
                drop(unsafe { Box::from_raw(block) });
            }
        }
    }
}

impl<E, P> std::fmt::Debug for Queue<E, P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Queue").field("enqueued", &self.enqueued_count()).finish_non_exhaustive()
    }
}
