//! The default streams of host threads: one for every thread and context.

use super::{ContextState, Shared};
use crate::capture::CaptureRegistry;
use crate::engine::{Role, StreamState};
use anabranch_hal::{Failure, Result, Status};
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// The default streams of a thread. When it ends they go, each as soon as its work is done, and nobody is left who could
/// end what they capture.
struct ThreadStreams(Vec<(Arc<StreamState>, Weak<CaptureRegistry>)>);

impl Drop for ThreadStreams {
    fn drop(&mut self) {
        for (stream, captures) in &self.0 {
            if let Some(captures) = captures.upgrade() {
                // A graph that was there before keeps its handle, which nobody of the driver is here to take away.
                drop(captures.stream_gone(stream));
            }
        }
    }
}

thread_local! {
    static STREAMS: RefCell<ThreadStreams> = const { RefCell::new(ThreadStreams(Vec::new())) };
}

/// The calling thread's default stream in a context.
pub(super) fn per_thread_stream(shared: &Shared, context: &ContextState) -> Result<Arc<StreamState>> {
    let core = &context.core;
    STREAMS
        .try_with(|streams| {
            let streams = &mut streams.borrow_mut().0;
            if let Some((stream, _)) = streams.iter().find(|(stream, _)| Arc::ptr_eq(&stream.core, core)) {
                return Arc::clone(stream);
            }
            streams.retain(|(stream, _)| !stream.core.is_destroyed());
            let stream = StreamState::new(core, Role::Blocking, 0);
            streams.push((Arc::clone(&stream), Arc::downgrade(&shared.captures)));
            stream
        })
        // The thread is ending, and its streams were already destroyed.
        .map_err(|_| Failure::new(Status::DEINITIALIZED))
}
