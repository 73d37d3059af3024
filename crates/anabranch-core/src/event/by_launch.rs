//! Records of events by launches, which may be reached before the launch is complete.

use super::{EventCore, Record};
use crate::capture_state::Capturing;
use crate::error::{Error, Result};
use crate::stream::OpenStream;
use anabranch_hal::Status;
use anabranch_sync::modelled::SpinMutexGuard;
use std::sync::Arc;

/// Up to two events that a launch is about to record. Nobody else records them, or makes a stream wait for them, meanwhile.
/// Nothing is known of their records from now on, until another one replaces them.
pub(crate) struct RecordsByLaunch<'a> {
    locked: [Option<(&'a EventCore, SpinMutexGuard<'a, Record>)>; 2],
}

impl<'a> RecordsByLaunch<'a> {
    /// Not to be called inside of a host function.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if both events are the same; otherwise any error that the driver returns.
    pub(crate) fn begin(events: [Option<&'a EventCore>; 2]) -> Result<Self> {
        let mut locked = match events {
            [Some(first), Some(second)] => lock_both(first, second)?.map(Some),
            [first, second] => [first, second].map(|event| event.map(|event| (event, event.lock_record()))),
        };
        for (event, record) in locked.iter_mut().flatten() {
            event.state.before_record(true)?;
            if let Some(point) = &mut record.point {
                point.put(0);
            }
        }
        Ok(Self { locked })
    }

    /// The driver has recorded the events, and not in a capture of this library.
    pub(crate) fn are_made(mut self, stream: &OpenStream) {
        for (event, record) in self.locked.iter_mut().flatten() {
            record.captured_elsewhere = stream.is_captured_elsewhere();
            if event.is_captured() {
                event.state.set_capture(None, stream);
            }
        }
    }
}

impl RecordsByLaunch<'_> {
    /// The driver has recorded the events in a capture. Streams that wait for them follow nothing that the launch's stream has
    /// captured, the launch included: where memory is used, they still get edges from its end.
    pub(crate) fn are_captured(mut self, stream: &OpenStream, capturing: &Capturing) {
        // Other streams join now.
        drop(capturing.clock(stream));
        capturing.has_early_edges();
        for (event, record) in self.locked.iter_mut().flatten() {
            record.captured_elsewhere = false;
            capturing.retain(&event.raw);
            event.state.set_capture_that_follows_nothing(capturing);
        }
    }
}

type Locked<'a> = (&'a EventCore, SpinMutexGuard<'a, Record>);

/// Locks both in ascending order of their ids.
fn lock_both<'a>(first: &'a EventCore, second: &'a EventCore) -> Result<[Locked<'a>; 2]> {
    if Arc::ptr_eq(&first.state, &second.state) {
        let message = "both events are the same";
        return Err(
            Error::argument(Status::INVALID_VALUE, "launching a kernel", message).with_hint("pass an event for each")
        );
    }
    let [first, second] = if first.state.id() < second.state.id() { [first, second] } else { [second, first] };
    Ok([first, second].map(|event| (event, event.lock_record())))
}
