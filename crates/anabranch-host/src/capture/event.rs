//! Events recorded in capturing streams.
//!
//! Such an event means something only until its capture is invalidated or over.

use super::registry::{CaptureRegistry, Captures};
use super::target::{Recording, Target};
use crate::engine::{Role, StreamState};
use crate::event::CapturedRecord;
use anabranch_hal::{Dependency, EdgeData, Failure, GraphNodeHandle, Result, Status};
use std::sync::Arc;

impl Recording<'_> {
    /// What an event captures here.
    pub(crate) fn record(&mut self) -> Result<CapturedRecord> {
        let stream = self.stream();
        let session = self.session()?;
        Ok(CapturedRecord { session: session.id, dependencies: session.dependencies(stream).into() })
    }

    /// What an event captures here that stands for less than the end of a kernel.
    pub(crate) fn record_early(&mut self, kernel: GraphNodeHandle, data: EdgeData) -> Result<CapturedRecord> {
        Ok(CapturedRecord { session: self.session()?.id, dependencies: [Dependency { node: kernel, data }].into() })
    }

    /// Refuses to wait for what was recorded outside of the capture, which invalidates it.
    pub(crate) fn refuse_outside(self) -> Result<()> {
        self.invalidate();
        Err(Failure::new(Status::STREAM_CAPTURE_ISOLATION))
    }
}

impl Captures {
    /// The number of the capture that an event was recorded in. `CUDA_ERROR_INVALID_VALUE (1)`: it is invalidated or over.
    fn capture_of(&self, record: &CapturedRecord) -> Result<u64> {
        match self.sessions.get(&record.session) {
            Some(session) if !session.invalidated => Ok(session.id),
            _ => Err(Failure::new(Status::INVALID_VALUE)),
        }
    }

    /// The same for a stream that waits for the event, whose own capture is invalidated if the event's does not go on.
    fn capture_to_wait_for(&mut self, stream: &StreamState, record: &CapturedRecord) -> Result<u64> {
        self.capture_of(record).inspect_err(|_| {
            if let Some(own) = self.id_of(stream) {
                self.invalidate(own);
            }
        })
    }

    fn wait(&mut self, stream: &Arc<StreamState>, record: &CapturedRecord) -> Result<()> {
        let id = self.capture_to_wait_for(stream, record)?;
        match self.id_of(stream) {
            Some(own) if own == id => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.add_dependencies(stream, &record.dependencies);
                }
                Ok(())
            }
            Some(own) => {
                self.invalidate(id);
                self.invalidate(own);
                Err(Failure::new(Status::STREAM_CAPTURE_MERGE))
            }
            // It is a member of no capture.
            None if stream.role == Role::Legacy => {
                self.invalidate(id);
                Err(Failure::new(Status::STREAM_CAPTURE_IMPLICIT))
            }
            None => {
                self.enter(id, stream, &record.dependencies);
                Ok(())
            }
        }
    }
}

impl CaptureRegistry {
    /// Makes a stream wait for a captured event, by which it joins the capture.
    #[cold]
    pub(crate) fn wait_event(&self, target: Target<'_>, record: &CapturedRecord) -> Result<()> {
        let (mut captures, stream) = target.lock(self);
        captures.wait(stream, record)
    }

    /// Makes a stream, in which a graph is launched that waits for a captured event, join the capture as if it waited itself.
    /// Nothing becomes of a capture that is invalidated or over.
    #[cold]
    pub(crate) fn join_by_launch(&self, stream: &Arc<StreamState>, record: &CapturedRecord) -> Result<()> {
        let mut captures = self.lock();
        if captures.capture_of(record).is_err() {
            return Ok(());
        }
        captures.wait(stream, record)
    }

    /// Checks that a captured event can be waited for, without making the stream wait.
    #[cold]
    pub(crate) fn check_wait(&self, target: &mut Target<'_>, record: &CapturedRecord) -> Result<()> {
        match target {
            Target::Queue(stream) => self.lock().capture_to_wait_for(stream, record),
            Target::Capture(recording) => recording.captures.capture_to_wait_for(recording.stream, record),
        }
        .map(|_| ())
    }

    /// What a query of a captured event and a synchronization with it answer. That invalidates the capture.
    #[cold]
    pub(crate) fn synchronize_event(&self, record: &CapturedRecord) -> Failure {
        let mut captures = self.lock();
        match captures.capture_of(record) {
            Ok(id) => {
                captures.invalidate(id);
                Failure::new(Status::CAPTURED_EVENT)
            }
            Err(failure) => failure,
        }
    }

    /// What asking for the time of a captured event answers. The capture stays valid.
    #[cold]
    pub(crate) fn time_event(&self, record: &CapturedRecord) -> Failure {
        self.lock().capture_of(record).map_or_else(|failure| failure, |_| Failure::new(Status::CAPTURED_EVENT))
    }
}
