//! The order between the legacy default stream and the blocking streams of a context, decided while work is queued.
//!
//! Work on the legacy stream first waits for all that is in the blocking streams; later work of a blocking stream waits for
//! it. Each side becomes a wait entry in a queue.
//!
//! # Why waits never form a cycle
//!
//! An operation on the legacy stream, numbered *n*, reads how far each blocking stream is filled, and publishes *n*
//! only afterwards; one thread at a time does this. A blocking stream reads what is published before it takes a place
//! for its entry. So an entry that *n* waits for was enqueued by a thread that had read the published number before *n*
//! was published, and waits for numbers below *n* only. By induction over *n* every wait leads to entries that are
//! older in one common order.

use crate::ranks;
use anabranch_sync::Raise;
use anabranch_sync::modelled::{AtomicU64, Mutex};
use std::sync::atomic::Ordering;

/// The number of the newest legacy entry that blocking streams must wait for.
#[derive(Debug)]
pub(crate) struct LegacyOrder {
    published: AtomicU64,
    turn: Mutex<()>,
}

/// A blocking stream, as the legacy stream sees it.
pub(crate) trait BlockingStream {
    /// How many entries were enqueued.
    fn enqueued(&self) -> u64;

    /// Whether the entry of that number is complete.
    fn is_complete(&self, sequence: u64) -> bool;

    /// Notes that the legacy stream waits for that entry, and returns what it waited for before.
    fn exchange_legacy_wait(&self, sequence: u64) -> u64;
}

impl LegacyOrder {
    pub(crate) fn new() -> Self {
        Self { published: AtomicU64::new(0), turn: Mutex::new(ranks::LEGACY, ()) }
    }

    /// Enqueues an operation in the legacy stream by `put`, which returns its number, after waits for the blocking
    /// streams.
    pub(crate) fn put_legacy(&self, wait_for_streams: impl FnOnce(), put: impl FnOnce() -> u64) -> u64 {
        let _turn = self.turn.lock();
        wait_for_streams();
        let sequence = put();
        self.published.store(sequence, Ordering::Release);
        sequence
    }

    /// Puts a wait for a blocking stream into the legacy stream, unless it is not needed.
    pub(crate) fn wait_for_blocking<S: BlockingStream>(stream: S, wait: impl FnOnce(S, u64)) {
        let enqueued = stream.enqueued();
        if !stream.is_complete(enqueued) && stream.exchange_legacy_wait(enqueued) < enqueued {
            wait(stream, enqueued);
        }
    }

    /// Puts a wait for the legacy stream into a blocking stream, by `wait`, before an operation on it. `seen`: the newest
    /// legacy entry that the stream waits for.
    #[inline]
    pub(crate) fn before_blocking(&self, seen: &AtomicU64, wait: impl FnOnce(u64)) {
        let published = self.published.load(Ordering::Acquire);
        if seen.load(Ordering::Acquire) < published {
            wait(published);
            // Only now, so that a thread that leaves its wait out comes behind this one.
            seen.raise(published);
        }
    }
}
