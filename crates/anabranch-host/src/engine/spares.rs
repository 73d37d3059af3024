//! Launches that have run, kept for the launches to come.
//!
//! What one thread allocates and another frees goes through the slowest ways of an allocator, which for a small launch is
//! most of its cost. So the thread that runs a stream gives launches back to it, many at a time.

use super::kernel::KernelWork;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;

/// How many a stream keeps.
const KEPT: usize = 64;

/// How many the running thread collects before it gives them back.
const AT_A_TIME: usize = 32;

/// The spare launches of one stream.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    works: Mutex<Vec<Arc<KernelWork>>>,
}

impl Spares {
    /// A launch that may be written over, if one is kept.
    pub(crate) fn take(&self) -> Option<Arc<KernelWork>> {
        self.works.lock().pop()
    }
}

/// Launches that the running thread has collected; given back at the latest when it is dropped.
#[derive(Debug)]
pub(crate) struct Collected<'a> {
    spares: &'a Spares,
    works: SmallVec<[Arc<KernelWork>; AT_A_TIME]>,
}

impl<'a> Collected<'a> {
    pub(crate) fn new(spares: &'a Spares) -> Self {
        Self { spares, works: SmallVec::new() }
    }

    pub(crate) fn push(&mut self, mut work: Arc<KernelWork>) {
        if !KernelWork::is_worth_keeping(&mut work) {
            return;
        }
        self.works.push(work);
        if self.works.len() == AT_A_TIME {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        let mut kept = self.spares.works.lock();
        let room = KEPT.saturating_sub(kept.len()).min(self.works.len());
        kept.extend(self.works.drain(..room));
        drop(kept);
        self.works.clear();
    }
}

impl Drop for Collected<'_> {
    fn drop(&mut self) {
        if !self.works.is_empty() {
            self.give_back();
        }
    }
}
