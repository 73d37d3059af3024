//! The default streams of host threads: one for every thread and context.

use crate::context::{ContextCore, ContextState};
use crate::engine::stream::{Role, StreamState};
use anabranch_hal::{Failure, Result, Status};
use std::cell::RefCell;
use std::sync::Arc;

/// The default streams of a thread. When it ends they go, each as soon as its work is done, and nobody is left who could
/// end what they capture.
struct ThreadStreams(Vec<Arc<StreamState>>);

impl Drop for ThreadStreams {
    fn drop(&mut self) {
        for stream in &self.0 {
            stream.core.shared.captures.stream_gone(stream);
        }
    }
}

thread_local! {
    static STREAMS: RefCell<ThreadStreams> = const { RefCell::new(ThreadStreams(Vec::new())) };
}

/// The calling thread's default stream in a context.
pub(crate) fn per_thread_stream(context: &ContextState) -> Result<Arc<StreamState>> {
    let core: &Arc<ContextCore> = &context.core;
    STREAMS
        .try_with(|streams| {
            let streams = &mut streams.borrow_mut().0;
            if let Some(stream) = streams.iter().find(|stream| Arc::ptr_eq(&stream.core, core)) {
                return Arc::clone(stream);
            }
            streams.retain(|stream| !stream.core.is_destroyed());
            let stream = StreamState::new(Arc::clone(core), Role::Blocking, 0);
            streams.push(Arc::clone(&stream));
            stream
        })
        // The thread is ending, and its streams are gone already.
        .map_err(|_| Failure::new(Status::DEINITIALIZED))
}
