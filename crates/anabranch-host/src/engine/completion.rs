//! How many entries of a stream are complete, and who waits for more.

use crate::ranks;
use anabranch_sync::modelled::{AtomicU64, Mutex};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// What can wait for a stream to reach a place.
pub(crate) trait Wake {
    /// The place was reached.
    fn wake(self);
}

/// Somebody waits.
const AWAITED: u64 = 1;

/// One entry, above the bit.
const ONE: u64 = 2;

/// A count of completed entries, and the waiters for it.
///
/// One word holds the count and whether anybody waits. After every entry the runner adds to the count, and sees in the same
/// step whether somebody waits; a waiter sets the bit, and sees in the same step what the count is. So no wake-up
/// is lost, and an entry that nobody waits for takes no lock.
#[derive(Debug)]
pub(crate) struct Completion<W> {
    word: AtomicU64,
    /// The smallest count that anybody waits for. Written before the bit is set, and under the lock.
    earliest: AtomicU64,
    waiters: Mutex<Vec<(u64, W)>>,
}

impl<W: Wake> Completion<W> {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            earliest: AtomicU64::new(u64::MAX),
            waiters: Mutex::new(ranks::WAITERS, Vec::new()),
        }
    }

    /// The number of entries that are complete. What they did is visible to the caller.
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.word.load(Ordering::Acquire) / ONE
    }

    #[inline]
    pub(crate) fn is_complete(&self, sequence: u64) -> bool {
        self.completed() >= sequence
    }

    /// Says that another entry is complete. Only the thread that runs the stream calls this.
    #[inline]
    pub(crate) fn advance(&self) {
        let before = self.word.fetch_add(ONE, Ordering::AcqRel);
        if before & AWAITED != 0 {
            let completed = before / ONE + 1;
            if self.earliest.load(Ordering::Relaxed) <= completed {
                self.wake(completed);
            }
        }
    }

    #[cold]
    fn wake(&self, completed: u64) {
        let mut reached = SmallVec::<[W; 4]>::new();
        {
            let mut waiters = self.waiters.lock();
            reached.extend(waiters.extract_if(.., |(awaited, _)| *awaited <= completed).map(|(_, waiter)| waiter));
            self.note_earliest(&waiters);
        }
        // Outside of the lock, because waking takes the locks of the waiter.
        for waiter in reached {
            waiter.wake();
        }
    }

    /// Wakes `waiter` when `sequence` is complete, or gives it back if it is so already.
    pub(crate) fn register(&self, sequence: u64, waiter: W) -> Option<W> {
        let mut waiters = self.waiters.lock();
        waiters.push((sequence, waiter));
        self.note_earliest(&waiters);
        let completed = self.word.fetch_or(AWAITED, Ordering::AcqRel) / ONE;
        if completed < sequence {
            return None;
        }
        // The lock was held throughout, so the runner has not taken the waiter.
        let waiter = waiters.pop().map(|(_, waiter)| waiter);
        self.note_earliest(&waiters);
        waiter
    }

    fn note_earliest(&self, waiters: &[(u64, W)]) {
        let earliest = waiters.iter().map(|(awaited, _)| *awaited).min();
        self.earliest.store(earliest.unwrap_or(u64::MAX), Ordering::Relaxed);
        if earliest.is_none() {
            self.word.fetch_and(!AWAITED, Ordering::Relaxed);
        }
    }
}
