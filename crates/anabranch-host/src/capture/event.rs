//! Events recorded in capturing streams.

use super::recording::Recording;
use super::registry::{CaptureRegistry, Captures};
use crate::engine::{Role, StreamState};
use crate::event::CapturedRecord;
use anabranch_hal::{Failure, Result, Status};
use std::sync::Arc;

impl Recording<'_> {
    /// What an event captures here.
    pub(crate) fn record(&mut self) -> Result<CapturedRecord> {
        let stream = self.stream();
        let session = self.session()?;
        Ok(CapturedRecord { session: session.id, dependencies: session.dependencies(stream).into() })
    }

    /// Refuses to wait for what was recorded outside of the capture, which invalidates it.
    pub(crate) fn refuse_outside(mut self) -> Result<()> {
        self.session()?.invalidated = true;
        Err(Failure::new(Status::STREAM_CAPTURE_ISOLATION))
    }
}

impl Captures {
    fn wait(&mut self, stream: &Arc<StreamState>, record: &CapturedRecord) -> Result<()> {
        if stream.role == Role::Legacy {
            self.use_legacy(&stream.core)?;
        }
        let own = self.id_of(stream);
        if self.session_of(stream).is_some_and(|session| session.invalidated) {
            return Err(Failure::new(Status::STREAM_CAPTURE_INVALIDATED));
        }
        let Some(session) = self.sessions.get_mut(&record.session) else {
            if let Some(id) = own {
                self.invalidate(id);
            }
            return Err(Failure::new(Status::INVALID_VALUE));
        };
        match own {
            Some(id) if id == record.session => {
                session.add_dependencies(stream, &record.dependencies);
                Ok(())
            }
            Some(id) => {
                session.invalidated = true;
                self.invalidate(id);
                Err(Failure::new(Status::STREAM_CAPTURE_MERGE))
            }
            None if session.invalidated => Err(Failure::new(Status::STREAM_CAPTURE_INVALIDATED)),
            None if stream.role == Role::Legacy => {
                // It is a member of no capture.
                session.invalidated = true;
                Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED))
            }
            None => {
                self.enter(record.session, stream, record.dependencies.to_vec());
                Ok(())
            }
        }
    }
}

impl CaptureRegistry {
    /// Makes a stream wait for a captured event, by which it joins the capture.
    #[cold]
    pub(crate) fn wait_event(&self, stream: &Arc<StreamState>, record: &CapturedRecord) -> Result<()> {
        self.lock().wait(stream, record)
    }

    /// What a query of a captured event answers. It invalidates the capture.
    #[cold]
    pub(crate) fn query_event(&self, record: &CapturedRecord) -> Failure {
        self.use_event(record, Status::CAPTURED_EVENT)
    }

    /// What synchronizing with a captured event answers. It invalidates the capture.
    #[cold]
    pub(crate) fn synchronize_event(&self, record: &CapturedRecord) -> Failure {
        let invalidated = self.lock().sessions.get(&record.session).is_none_or(|session| session.invalidated);
        self.use_event(record, if invalidated { Status::INVALID_VALUE } else { Status::CAPTURED_EVENT })
    }

    fn use_event(&self, record: &CapturedRecord, status: Status) -> Failure {
        match self.lock().sessions.get_mut(&record.session) {
            Some(session) => {
                session.invalidated = true;
                Failure::new(status)
            }
            None => Failure::new(Status::INVALID_VALUE),
        }
    }

    /// What asking for the time of a captured event answers. The capture stays valid.
    #[cold]
    pub(crate) fn time_event(&self, record: &CapturedRecord) -> Failure {
        let runs = self.lock().sessions.contains_key(&record.session);
        Failure::new(if runs { Status::CAPTURED_EVENT } else { Status::INVALID_VALUE })
    }
}
