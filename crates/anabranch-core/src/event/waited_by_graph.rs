//! The events that a graph waits for.

use super::RecordState;
use super::record_state::Record;
use crate::error::{Error, Result};
use crate::retained::{References, Retained};
use crate::stream::OpenStream;
use crate::submission::Submission;
use anabranch_hal::Status;
use anabranch_sync::modelled::SpinMutexGuard;
use smallvec::SmallVec;
use std::sync::Arc;

/// The events that nodes of a graph wait for.
///
/// A stream in which the graph is launched joins the capture in which such an event was recorded, in the middle of the
/// launch. Which part of the graph would then be captured is the driver's to say, so that such a launch is refused.
#[derive(Default)]
pub(crate) struct WaitedByGraph(Vec<Arc<RecordState>>);

/// The records of the events. While this exists, nobody makes others.
pub(crate) struct KeptRecords<'a> {
    records: SmallVec<[SpinMutexGuard<'a, Record>; 1]>,
    is_captured: bool,
    /// Whether another library may have captured one.
    is_of_others: bool,
}

impl WaitedByGraph {
    /// The events that a graph waits for.
    pub(crate) fn of(retained: &Retained) -> Self {
        let mut events: Vec<_> = retained.objects().filter_map(|object| object.clone().downcast().ok()).collect();
        events.sort_by_key(|event: &Arc<RecordState>| event.id());
        // Each is locked once.
        events.dedup_by_key(|event| event.id());
        Self(events)
    }

    /// Whether some work waits for an event.
    pub(crate) fn is_any_in(references: &References) -> bool {
        references.objects().iter().any(|object| object.is::<RecordState>())
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps the records as they are, for a launch. Not to be called inside of a host function. `None`: there are none.
    #[inline(always)]
    pub(crate) fn keep(&self) -> Option<KeptRecords<'_>> {
        if self.0.is_empty() { None } else { Some(self.keep_all()) }
    }

    #[cold]
    fn keep_all(&self) -> KeptRecords<'_> {
        let records: SmallVec<[_; 1]> = self.0.iter().map(|event| event.lock()).collect();
        let is_in_live_capture =
            |event: &Arc<RecordState>| event.capture().is_some_and(|(capture, _)| !capture.has_ended());
        let is_captured = self.0.iter().any(is_in_live_capture);
        let is_of_others = self.0.iter().zip(&records).any(|(event, record)| event.is_of_others(record));
        KeptRecords { records, is_captured, is_of_others }
    }
}

impl KeptRecords<'_> {
    /// Refuses a launch by which its stream would join a capture. A stream that captures is refused by the driver.
    ///
    /// # Errors
    /// `CUDA_ERROR_ILLEGAL_STATE (401)` if an event was recorded in a capture that has not ended.
    #[cold]
    pub(crate) fn refuse_captured(&self, submission: &Submission<'_>) -> Result<()> {
        if !self.is_captured || submission.stream().is_capturing() {
            return Ok(());
        }
        let message = "the graph waits for an event that was recorded in a capture which has not ended";
        Err(Error::argument(Status::ILLEGAL_STATE, submission.operation(), message)
            .with_hint("end the capture first, or record the event in a stream that does not capture, by a call, before the launch"))
    }

    /// The launch was given to the driver: its stream has waited for the events.
    #[cold]
    pub(crate) fn are_waited_for(self, stream: &OpenStream) {
        if self.is_of_others {
            stream.suspect_capture_of_another_library();
        }
        // Until then, there is no other record.
        drop(self.records);
    }
}
