//! How far a stream has come, and who waits for it to come further.

use crate::sync::{AtomicU64, Mutex, fence};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// What can wait for a stream to reach a place.
pub(crate) trait Wake {
    /// The place was reached.
    fn wake(self);
}

/// Nobody waits.
const NOBODY: u64 = u64::MAX;

/// A count of completed entries, and the waiters for it.
///
/// After every entry the runner stores the count and then looks at `earliest`, the smallest count that anybody waits
/// for. A waiter stores into `earliest` and then looks at the count. With a sequentially consistent fence between the
/// two steps on either side, at least one sees the other, so that no wake-up is lost and no entry takes a lock.
#[derive(Debug)]
pub(crate) struct Completion<W> {
    completed: AtomicU64,
    earliest: AtomicU64,
    waiters: Mutex<Vec<(u64, W)>>,
}

impl<W: Wake> Completion<W> {
    pub(crate) fn new() -> Self {
        Self { completed: AtomicU64::new(0), earliest: AtomicU64::new(NOBODY), waiters: Mutex::new(Vec::new()) }
    }

    /// The number of entries that are complete. What they did is visible to the caller.
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn is_complete(&self, sequence: u64) -> bool {
        self.completed() >= sequence
    }

    /// Says that the entry `sequence` is complete. Only the thread that runs the stream calls this, in order.
    #[inline]
    pub(crate) fn advance(&self, sequence: u64) {
        self.completed.store(sequence, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.earliest.load(Ordering::Relaxed) <= sequence {
            self.wake(sequence);
        }
    }

    #[cold]
    fn wake(&self, sequence: u64) {
        let mut reached = SmallVec::<[W; 4]>::new();
        {
            let mut waiters = self.waiters.lock();
            let mut index = 0;
            while let Some((awaited, _)) = waiters.get(index) {
                if *awaited <= sequence {
                    reached.push(waiters.swap_remove(index).1);
                } else {
                    index += 1;
                }
            }
            self.store_earliest(&waiters);
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
        self.store_earliest(&waiters);
        fence(Ordering::SeqCst);
        if !self.is_complete(sequence) {
            return None;
        }
        // The lock was held throughout, so the runner has not taken the waiter.
        let waiter = waiters.pop().map(|(_, waiter)| waiter);
        self.store_earliest(&waiters);
        waiter
    }

    fn store_earliest(&self, waiters: &[(u64, W)]) {
        let earliest = waiters.iter().map(|(awaited, _)| *awaited).min().unwrap_or(NOBODY);
        self.earliest.store(earliest, Ordering::Relaxed);
    }
}
