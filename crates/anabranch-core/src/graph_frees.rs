//! The order between the free of memory that a launch of a graph has left allocated, and the next launch.

use crate::error::Result;
use crate::ranks;
use crate::stream::{OpenStream, StreamCore};
use anabranch_sync::Mutex;
use std::sync::Arc;

/// The streams in which memory of a graph was freed since the last launch. Drivers order launches that allocate the memory behind
/// each other, but not behind the free of what an executable graph has left, which is destroyed by then.
pub struct GraphFrees {
    streams: Mutex<Vec<Arc<StreamCore>>>,
}

impl GraphFrees {
    /// None yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { streams: Mutex::new(ranks::GRAPH_FREES, Vec::new()) })
    }

    /// Notes that memory is about to be freed in a stream.
    pub fn are_in(&self, stream: &Arc<StreamCore>) {
        let mut streams = self.streams.lock();
        if !streams.iter().any(|known| Arc::ptr_eq(known, stream)) {
            streams.push(stream.clone());
        }
    }

    /// Makes later work of a stream come behind the frees.
    ///
    /// # Errors
    /// Any error that the driver returns.
    pub fn come_before(&self, stream: &OpenStream) -> Result<()> {
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
