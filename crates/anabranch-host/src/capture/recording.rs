//! The nodes that a call adds in a capturing stream.

use super::registry::{CaptureRegistry, Captures};
use super::session::Session;
use crate::engine::{Role, StreamState};
use anabranch_hal::{AddedNode, Failure, NodeParameters, Result, Status};
use anabranch_sync::MutexGuard;
use std::sync::Arc;

/// A stream that captures, for the duration of a call. No capture changes meanwhile.
pub(crate) struct Recording<'a> {
    captures: MutexGuard<'a, Captures>,
    stream: &'a Arc<StreamState>,
}

impl CaptureRegistry {
    /// Called before anything is enqueued: if the stream is capturing, work becomes nodes.
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)` when the capture is invalidated;
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)`, which invalidates, on the legacy stream while a blocking stream
    /// captures.
    #[inline]
    pub(crate) fn recording<'a>(&'a self, stream: &'a Arc<StreamState>) -> Result<Option<Recording<'a>>> {
        if stream.meets_capture() { self.recording_of_member(stream) } else { Ok(None) }
    }

    #[cold]
    fn recording_of_member<'a>(&'a self, stream: &'a Arc<StreamState>) -> Result<Option<Recording<'a>>> {
        let mut captures = self.lock();
        if stream.role == Role::Legacy {
            captures.use_legacy(&stream.core)?;
        }
        match captures.session_of(stream) {
            None => Ok(None),
            Some(session) if session.invalidated => Err(Failure::new(Status::STREAM_CAPTURE_INVALIDATED)),
            Some(_) => Ok(Some(Recording { captures, stream })),
        }
    }
}

impl<'a> Recording<'a> {
    pub(super) fn stream(&self) -> &'a Arc<StreamState> {
        self.stream
    }

    pub(super) fn session(&mut self) -> Result<&mut Session> {
        self.captures.session_of(self.stream).ok_or(Failure::new(Status::ILLEGAL_STATE))
    }

    /// Adds a node that depends on what the stream has captured so far. If that fails, the capture remains valid.
    ///
    /// # Safety
    /// The objects of the handles in the parameters exist, kernels as long as the node and its copies do; what the node does
    /// at each launch is sound.
    pub(crate) unsafe fn add(&mut self, parameters: NodeParameters) -> Result<AddedNode> {
        let stream = self.stream;
        // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
        unsafe { self.session()?.add_node(stream, parameters) }
    }

    /// Refuses what cannot be captured, which invalidates the capture.
    pub(crate) fn refuse<T>(mut self) -> Result<T> {
        self.session()?.invalidated = true;
        Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED))
    }
}
