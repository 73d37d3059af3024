//! What a capture makes of a call on a stream.
//!
//! The state of the capture comes before everything else that can be wrong with a call, so a call asks for it first. What
//! submits work asks for a [`Target`], without which it cannot go on to its arguments.

use super::registry::{CaptureRegistry, Captures};
use super::session::Session;
use crate::engine::{Role, StreamState};
use anabranch_hal::{AddedNode, Failure, KernelNode, NodeParameters, Result, Status};
use anabranch_sync::MutexGuard;
use std::sync::Arc;

/// Where the work of a call goes.
pub(crate) enum Target<'a> {
    /// To the queue of the stream.
    Queue(&'a Arc<StreamState>),
    /// To the graph of the capture that the stream is a member of.
    Capture(Recording<'a>),
}

/// A stream that captures, for the duration of a call. No capture changes meanwhile.
pub(crate) struct Recording<'a> {
    pub(super) captures: MutexGuard<'a, Captures>,
    pub(super) stream: &'a Arc<StreamState>,
}

/// What becomes of a call on the legacy stream while a blocking stream captures.
#[derive(Clone, Copy)]
enum OnLegacy {
    /// It is refused, and invalidates the capture.
    Invalidates,
    /// It is refused.
    Refused,
    /// It is not concerned.
    Allowed,
}

impl CaptureRegistry {
    /// To be asked first by a call that submits work which can be captured.
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)` when the stream's capture is invalidated.
    #[inline]
    pub(crate) fn target<'a>(&'a self, stream: &'a Arc<StreamState>) -> Result<Target<'a>> {
        self.target_if(stream, OnLegacy::Invalidates)
    }

    /// The same for host functions, which leave captures beside the legacy stream alone.
    #[inline]
    pub(crate) fn target_of_host_function<'a>(&'a self, stream: &'a Arc<StreamState>) -> Result<Target<'a>> {
        self.target_if(stream, OnLegacy::Refused)
    }

    /// The same for a question about a stream that does not concern the legacy stream's work.
    #[inline]
    pub(crate) fn allow(&self, stream: &Arc<StreamState>) -> Result<()> {
        self.target_if(stream, OnLegacy::Allowed).map(|_| ())
    }

    #[inline]
    fn target_if<'a>(&'a self, stream: &'a Arc<StreamState>, on_legacy: OnLegacy) -> Result<Target<'a>> {
        if stream.meets_capture() { self.target_slowly(stream, on_legacy) } else { Ok(Target::Queue(stream)) }
    }

    #[cold]
    fn target_slowly<'a>(&'a self, stream: &'a Arc<StreamState>, on_legacy: OnLegacy) -> Result<Target<'a>> {
        let Some(mut recording) = self.recording(stream, on_legacy)? else { return Ok(Target::Queue(stream)) };
        if recording.session()?.invalidated {
            return Err(Failure::new(Status::STREAM_CAPTURE_INVALIDATED));
        }
        Ok(Target::Capture(recording))
    }

    /// To be asked first by a call that cannot be captured. `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` when the stream
    /// captures, which invalidates the capture.
    #[inline]
    pub(crate) fn refuse(&self, stream: &Arc<StreamState>) -> Result<()> {
        if stream.meets_capture() { self.refuse_slowly(stream) } else { Ok(()) }
    }

    #[cold]
    fn refuse_slowly(&self, stream: &Arc<StreamState>) -> Result<()> {
        match self.recording(stream, OnLegacy::Invalidates)? {
            None => Ok(()),
            Some(recording) => {
                recording.invalidate();
                Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED))
            }
        }
    }

    /// The stream's capture, whatever its state. `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT (906)` where the legacy stream is
    /// refused.
    fn recording<'a>(&'a self, stream: &'a Arc<StreamState>, on_legacy: OnLegacy) -> Result<Option<Recording<'a>>> {
        let mut captures = self.lock();
        if stream.role == Role::Legacy {
            match on_legacy {
                OnLegacy::Invalidates => captures.use_legacy(&stream.core)?,
                OnLegacy::Refused => captures.see_legacy(&stream.core)?,
                OnLegacy::Allowed => {}
            }
        }
        Ok(captures.id_of(stream).is_some().then(|| Recording { captures, stream }))
    }
}

impl<'a> Target<'a> {
    pub(crate) fn stream(&self) -> &'a Arc<StreamState> {
        match self {
            Self::Queue(stream) | Self::Capture(Recording { stream, .. }) => stream,
        }
    }

    /// All captures, locked, and the stream.
    pub(super) fn lock(self, registry: &'a CaptureRegistry) -> (MutexGuard<'a, Captures>, &'a Arc<StreamState>) {
        match self {
            Self::Queue(stream) => (registry.lock(), stream),
            Self::Capture(Recording { captures, stream }) => (captures, stream),
        }
    }

    /// Invalidates the capture, if that is where the work goes.
    pub(crate) fn invalidate(self) {
        if let Self::Capture(recording) = self {
            recording.invalidate();
        }
    }
}

impl<'a> Recording<'a> {
    pub(crate) fn stream(&self) -> &'a Arc<StreamState> {
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

    /// Adds a kernel that may begin before the kernel that it depends on is complete: the edge is programmatic, if it is the only
    /// one and comes from a kernel. If that fails, the capture remains valid.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    pub(crate) unsafe fn add_overlapping(&mut self, kernel: KernelNode) -> Result<AddedNode> {
        let stream = self.stream;
        let session = self.session()?;
        let before = session.overlap(stream);
        // SAFETY: the caller promises that the objects of the handles exist, and that the node is sound.
        let added = unsafe { session.add_node(stream, NodeParameters::Kernel(kernel)) };
        if let (Err(_), Some(before)) = (&added, before) {
            session.restore(stream, before);
        }
        added
    }

    /// Invalidates the capture.
    pub(crate) fn invalidate(mut self) {
        if let Ok(session) = self.session() {
            session.invalidated = true;
        }
    }
}
