//! The order between the legacy default stream and the blocking streams of a context, decided while work is queued.
//!
//! Work on the legacy stream first waits for all that is in the blocking streams; later work of a blocking stream waits for
//! it. Each side becomes a wait entry in a queue.
//!
//! # Why waits never form a circle
//!
//! An operation on the legacy stream, numbered *n*, reads how far each blocking stream is filled, and publishes *n* only
//! afterwards; all this happens under the lock of the legacy queue. A blocking stream reads what is published before it
//! stores how far it is filled. So an entry that *n* waits for was put in by a thread that had read the published number
//! before *n* was published, and waits for numbers below *n* only. By induction over *n* every wait leads to entries
//! that are older in one common order.

use super::queue::Tail;
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

/// The number of the newest legacy entry that blocking streams must wait for.
#[derive(Debug)]
pub(crate) struct LegacyOrder {
    published: AtomicU64,
}

/// A blocking stream, as the legacy stream sees it.
pub(crate) trait BlockingStream {
    /// How many entries were put in.
    fn enqueued(&self) -> u64;

    /// Whether the entry of that number is complete.
    fn is_complete(&self, sequence: u64) -> bool;

    /// Notes that the legacy stream waits for that entry, and returns what it waited for before.
    fn exchange_legacy_wait(&self, sequence: u64) -> u64;
}

impl LegacyOrder {
    pub(crate) fn new() -> Self {
        Self { published: AtomicU64::new(0) }
    }

    /// Puts waits for a busy blocking stream at the end of the legacy queue, before the operation itself.
    pub(crate) fn wait_for_blocking<E, S: BlockingStream>(
        tail: &mut Tail<'_, E>,
        stream: S,
        wait: impl Fn(S, u64) -> E,
    ) {
        let enqueued = stream.enqueued();
        if !stream.is_complete(enqueued) && stream.exchange_legacy_wait(enqueued) < enqueued {
            tail.push(wait(stream, enqueued));
        }
    }

    /// Makes blocking streams wait for the legacy entry of that number. Called under the lock of the legacy queue, after
    /// all waits for blocking streams were put in.
    pub(crate) fn publish(&self, sequence: u64) {
        self.published.store(sequence, Ordering::Release);
    }

    /// The legacy entry that an operation on a blocking stream must wait for, if the stream does not wait for it yet.
    #[inline]
    pub(crate) fn newer_than<E>(&self, tail: &mut Tail<'_, E>) -> Option<u64> {
        let published = self.published.load(Ordering::Acquire);
        let seen = tail.legacy_seen();
        if published <= *seen {
            return None;
        }
        *seen = published;
        Some(published)
    }
}
