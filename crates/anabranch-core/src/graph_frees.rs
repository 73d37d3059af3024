//! The order between the free of memory that a launch of a graph has left allocated, and the next launch.

use crate::error::{Error, Result};
use crate::ranks;
use crate::stream::{OpenStream, StreamCore};
use anabranch_hal::Status;
use anabranch_sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The streams in which memory of a graph was freed since the last launch. Drivers order launches that allocate the memory behind
/// each other, but not behind the free of what an executable graph has left, which is destroyed by then.
pub struct GraphFrees {
    streams: Mutex<Vec<Arc<StreamCore>>>,
    /// How many frees are still to be queued.
    late: AtomicUsize,
}

impl GraphFrees {
    /// None yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { streams: Mutex::new(ranks::GRAPH_FREES, Vec::new()), late: AtomicUsize::new(0) })
    }

    /// Notes that memory is about to be freed in a stream.
    pub fn are_in(&self, stream: &Arc<StreamCore>) {
        let mut streams = self.streams.lock();
        if !streams.iter().any(|known| Arc::ptr_eq(known, stream)) {
            streams.push(stream.clone());
        }
    }

    /// Notes that memory is left to be freed later, because it cannot be freed now: until the result is dropped.
    pub fn is_late(self: &Arc<Self>) -> LateFree {
        self.late.fetch_add(1, Ordering::SeqCst);
        LateFree(self.clone())
    }

    /// Makes later work of a stream come behind the frees.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if memory is still to be freed; otherwise any error that the driver returns.
    pub fn come_before(&self, stream: &OpenStream) -> Result<()> {
        if self.late.load(Ordering::SeqCst) > 0 {
            let message = "memory that a launch of the graph has left allocated is not freed yet";
            return Err(Error::argument(Status::INVALID_VALUE, "launching a graph", message)
                .with_hint("wait for that launch and call `flush_deferred_drops`, or use another graph"));
        }
        let frees = self.streams.lock().clone();
        frees.iter().try_for_each(|freed_in| stream.follow(freed_in).map(drop))
    }

    /// Called when there is a launch behind them, which later launches come behind.
    pub fn are_followed(&self) {
        let followed = std::mem::take(&mut *self.streams.lock());
        // Where nothing is locked: streams may end here.
        drop(followed);
    }
}

/// A free that is still to come. No launch of the graph uses the memory before.
#[must_use = "it is kept until the memory is freed"]
pub struct LateFree(Arc<GraphFrees>);

impl Drop for LateFree {
    fn drop(&mut self) {
        self.0.late.fetch_sub(1, Ordering::SeqCst);
    }
}
