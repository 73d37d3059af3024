//! One stage of a kernel that several threads run together.

use super::kernel::{Blocks, KernelError, KernelWork, run_share};
use crate::engine::{Engine, Pace, Partition, Task};
use crate::ranks;
use anabranch_sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

/// Spins before the thread that runs the stream sleeps until the others have finished.
const LOOKS: usize = 512;

#[derive(Debug)]
struct Participants {
    /// The kernel, until the stage is closed. Others hold it only while they help, so that it and its closures
    /// are dropped by the thread that runs the stream.
    work: Option<Arc<KernelWork>>,
    active: usize,
    error: Option<KernelError>,
}

/// A stage whose blocks are there to be taken.
#[derive(Debug)]
pub(super) struct Share {
    next: AtomicU64,
    has_failed: AtomicBool,
    blocks: u64,
    chunk: u64,
    stage: usize,
    participants: Mutex<Participants>,
    runner: Thread,
    /// The part of the workers that runs it, and its level there.
    partition: Option<(Arc<Partition>, usize)>,
}

impl Share {
    pub(super) fn new(
        work: Arc<KernelWork>,
        stage: usize,
        blocks: u64,
        chunk: u64,
        partition: Option<(Arc<Partition>, usize)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            next: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            blocks,
            chunk,
            stage,
            participants: Mutex::new(ranks::SHARE, Participants { work: Some(work), active: 0, error: None }),
            runner: std::thread::current(),
            partition,
        })
    }

    /// Runs blocks on another thread than the stream's, until none is left. `false`: there was none.
    fn help(&self) -> bool {
        let work = {
            let mut participants = self.participants.lock();
            let Some(work) = participants.work.clone() else { return false };
            participants.active += 1;
            work
        };
        let result = self.run_blocks(&work);
        drop(work);
        let last = {
            let mut participants = self.participants.lock();
            if let Err(error) = result {
                participants.error.get_or_insert(error);
            }
            participants.active -= 1;
            participants.active == 0 && participants.work.is_none()
        };
        if last {
            self.runner.unpark();
        }
        true
    }

    /// Runs blocks on the stream's thread, and returns when all are done, wherever they ran.
    pub(super) fn run_to_end(&self, work: &KernelWork) -> Result<(), KernelError> {
        let own = self.run_blocks(work);
        let mut looks = 0;
        // Nobody helps any more once the kernel is taken out.
        let kept = self.participants.lock().work.take();
        drop(kept);
        loop {
            let mut participants = self.participants.lock();
            if participants.active == 0 {
                return participants.error.take().map_or(own, Err);
            }
            drop(participants);
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
        }
    }

    fn run_blocks(&self, work: &KernelWork) -> Result<(), KernelError> {
        let mut next = || {
            let begin = self.next.fetch_add(self.chunk, Ordering::Relaxed);
            (begin < self.blocks).then(|| begin..begin.saturating_add(self.chunk).min(self.blocks))
        };
        let blocks = Blocks { next: &mut next, has_failed: &|| self.has_failed.load(Ordering::Relaxed) };
        let result = run_share(work, self.stage, blocks);
        if result.is_err() {
            // Blocks that have begun do not go on, and those that nobody has taken are left out.
            self.has_failed.store(true, Ordering::Relaxed);
            self.next.store(self.blocks, Ordering::Relaxed);
        }
        result
    }
}

impl Task for Share {
    fn run(self: Arc<Self>, _: &Engine, _: Pace) -> bool {
        self.help()
    }

    fn is_help(&self) -> bool {
        true
    }

    fn partition(&self) -> Option<(&Arc<Partition>, usize)> {
        self.partition.as_ref().map(|(partition, level)| (partition, *level))
    }
}
