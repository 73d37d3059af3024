//! Launches in streams of other contexts than the graph's.

use super::ExecutableCore;
use crate::error::Result;
use crate::green_context::GreenStream;
use crate::stream::{OpenStream, StreamCore};
use anabranch_hal::StreamFlags;
use std::sync::Arc;

impl ExecutableCore {
    /// Whether the stream runs in the context of the graph, and in no part of it.
    pub(super) fn is_of_context_of(&self, stream: &OpenStream) -> bool {
        Arc::ptr_eq(&self.context, stream.context()) && stream.extension::<GreenStream>().get().is_none()
    }

    /// Launches it in a stream of its own context, behind the earlier work of the stream and before its later work. NVIDIA's driver
    /// (CUDA 13.0) runs a graph with a disabled node before its turn in a stream of another context.
    #[cold]
    #[track_caller]
    pub(super) fn launch_in_own_context(&self, stream: &OpenStream) -> Result<()> {
        let own = StreamCore::create(&self.context, StreamFlags::NON_BLOCKING, 0)?;
        own.follow(stream.core())?;
        self.launch(&own)?;
        stream.follow(own.core()).map(drop)
    }
}
