//! The default streams of host threads: one for every thread and context.

use crate::context::{ContextCore, ContextState};
use crate::engine::stream::{Role, StreamState};
use anabranch_hal::{Failure, Result, Status};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// When the thread ends its streams go, each as soon as its work is done.
    static STREAMS: RefCell<Vec<Arc<StreamState>>> = const { RefCell::new(Vec::new()) };
}

/// The calling thread's default stream in a context.
pub(crate) fn per_thread_stream(context: &ContextState) -> Result<Arc<StreamState>> {
    let core: &Arc<ContextCore> = &context.core;
    STREAMS
        .try_with(|streams| {
            let mut streams = streams.borrow_mut();
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
