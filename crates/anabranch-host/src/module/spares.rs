//! Launches that have run, kept for the launches to come.
//!
//! Memory that one thread allocates and another frees takes the slowest paths of an allocator, which for a small launch
//! is most of its cost. So the thread that runs a stream gives launches back to it, many at a time.

use super::kernel::KernelWork;
use crate::engine::StreamState;
use crate::ranks;
use anabranch_sync::Mutex;
use std::mem;
use std::sync::Arc;

/// How many the running thread collects before it gives them back. A stream keeps as many.
const AT_A_TIME: usize = 32;

/// The spare launches of one stream.
#[derive(Debug)]
pub(super) struct Spares {
    spare: Mutex<Vec<Arc<KernelWork>>>,
    /// Used by the thread that runs the stream.
    collected: Mutex<Vec<Arc<KernelWork>>>,
}

impl Spares {
    /// Those of a stream. They go with it.
    pub(super) fn of(stream: &StreamState) -> &Self {
        static NONE: Spares = Spares::new();
        let spares = stream.attachment.get_or_init(|| Box::new(Self::new()));
        spares.downcast_ref().unwrap_or(&NONE)
    }

    const fn new() -> Self {
        Self { spare: Mutex::new(ranks::SPARES, Vec::new()), collected: Mutex::new(ranks::COLLECTED, Vec::new()) }
    }

    /// A launch that may be written over, if one is kept.
    pub(super) fn take(&self) -> Option<Arc<KernelWork>> {
        self.spare.lock().pop()
    }

    /// Keeps a launch that has run, unless it is shared or it is larger than most are.
    pub(super) fn keep(&self, mut work: Arc<KernelWork>) {
        if !KernelWork::is_worth_keeping(&mut work) {
            return;
        }
        let mut collected = self.collected.lock();
        collected.push(work);
        if collected.len() < AT_A_TIME {
            return;
        }
        let mut spare = self.spare.lock();
        if spare.len() < AT_A_TIME {
            mem::swap(&mut *spare, &mut *collected);
        }
        drop(spare);
        collected.clear();
    }
}
