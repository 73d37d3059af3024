//! The streams that launches of an executable graph are in, and what is done when the launches are complete.

use crate::drop_error;
use crate::graph_frees::GraphFrees;
use crate::idle_memory::attempt_behind;
use crate::memory::free_behind_launch;
use crate::stream::{PendingWork, StreamCore};
use anabranch_hal::Status;
use std::ops::Range;
use std::sync::Arc;

/// The streams in which launches of an executable graph may be pending.
#[derive(Clone, Default)]
pub(super) struct Launches {
    /// The stream of the last launch, which follows all earlier launches.
    last: Option<Arc<StreamCore>>,
    /// The streams of launches that the driver has refused. A part of them may run, in no order with other launches.
    refused: Vec<Arc<StreamCore>>,
}

impl Launches {
    /// Notes a launch in a stream, behind all earlier ones.
    #[inline(always)]
    pub(super) fn queued(&mut self, stream: &Arc<StreamCore>) {
        if !self.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, stream)) {
            self.last = Some(stream.clone());
        }
    }

    /// Notes a launch that the driver has refused.
    #[cold]
    pub(super) fn refused(&mut self, stream: &Arc<StreamCore>) {
        self.refused.retain(|known| !Arc::ptr_eq(known, stream) && !pending([known]).is_over());
        self.refused.push(stream.clone());
    }

    /// Drops what launches may still use when they are complete.
    pub(super) fn drop_behind(&self, used: impl Send + 'static) {
        let mut launches = pending(self.last.iter().chain(&self.refused));
        if launches.is_over() {
            drop(used);
        } else {
            attempt_behind(launches, move || drop(used));
        }
    }

    /// Frees what the launches have left allocated. The graph keeps the addresses from being given out again, and its next
    /// executable graph comes behind the frees.
    pub(super) fn free_left(&self, frees: &Arc<GraphFrees>, left: &[Range<u64>]) {
        let Some(last) = &self.last else { return };
        for memory in left {
            match free_behind_launch(last, memory, frees) {
                // Unsafe code has freed it.
                Err(error) if error.status() == Status::INVALID_VALUE => {}
                freed => drop_error::report(freed),
            }
        }
    }
}

fn pending<'a>(streams: impl IntoIterator<Item = &'a Arc<StreamCore>>) -> PendingWork {
    let mut work = PendingWork::default();
    streams.into_iter().for_each(|stream| work.add(stream));
    work
}
