//! One stage of a kernel that several threads run together.

use super::kernel::{KernelError, KernelWork, run_share};
use anabranch_hal::HostBody;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

/// Looks before the thread that runs the stream sleeps until the others have finished.
const LOOKS: usize = 512;

#[derive(Debug)]
struct Participants {
    /// The kernel, until the stage is closed. Others hold it only while they take part, so that it and its closures
    /// are dropped by the thread that runs the stream.
    work: Option<Arc<KernelWork>>,
    active: usize,
    error: Option<KernelError>,
}

/// A stage whose blocks are there to be taken.
#[derive(Debug)]
pub(crate) struct Share {
    next: AtomicU64,
    blocks: u64,
    chunk: u64,
    stage: usize,
    participants: Mutex<Participants>,
    runner: Thread,
}

impl Share {
    pub(crate) fn new(work: Arc<KernelWork>, stage: usize, blocks: u64, chunk: u64) -> Arc<Self> {
        Arc::new(Self {
            next: AtomicU64::new(0),
            blocks,
            chunk,
            stage,
            participants: Mutex::new(Participants { work: Some(work), active: 0, error: None }),
            runner: std::thread::current(),
        })
    }

    /// Runs blocks on another thread than the stream's, until none is left.
    pub(crate) fn take_part(&self) {
        let work = {
            let mut participants = self.participants.lock();
            let Some(work) = participants.work.clone() else { return };
            participants.active += 1;
            work
        };
        let result = match work.kernel.get().function.stages().get(self.stage) {
            Some(stage) => self.run(&work, stage),
            None => Ok(()),
        };
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
    }

    /// Runs blocks on the stream's thread, and returns when all are done, wherever they ran.
    pub(crate) fn run_to_end(&self, work: &KernelWork, stage: &HostBody) -> Result<(), KernelError> {
        let own = self.run(work, stage);
        let mut looks = 0;
        // Nobody takes part any more once the kernel is taken out.
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

    fn run(&self, work: &KernelWork, stage: &HostBody) -> Result<(), KernelError> {
        loop {
            let begin = self.next.fetch_add(self.chunk, Ordering::Relaxed);
            if begin >= self.blocks {
                return Ok(());
            }
            let end = begin.saturating_add(self.chunk).min(self.blocks);
            if let Err(error) = run_share(work, stage, begin..end) {
                // The blocks that nobody has taken are left out.
                self.next.store(self.blocks, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
}
