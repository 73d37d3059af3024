//! Events.
//!
//! A record binds the event to a position of a stream, and enqueues nothing: the event is complete when the stream has reached
//! it. Only an event with timing needs an entry, which takes the time.

use crate::engine::{ContextCore, Entry, Position, StreamState};
use crate::handles::handle;
use crate::ranks;
use anabranch_hal::{Dependency, EventFlags, EventHandle, Failure, Result, Status};
use anabranch_sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What an event captured that was recorded in a capturing stream. It means nothing once the capture is over.
#[derive(Clone, Debug)]
pub(crate) struct CapturedRecord {
    /// The number of the capture.
    pub(crate) session: u64,
    /// What the stream's next node would depend on.
    pub(crate) dependencies: Arc<[Dependency]>,
}

/// What an event captured last.
#[derive(Debug)]
pub(crate) enum Record {
    /// A position of a stream.
    Place(PlaceRecord),
    /// The dependencies of a capturing stream.
    Captured(CapturedRecord),
}

#[derive(Debug)]
pub(crate) struct PlaceRecord {
    position: Position,
    /// When the position was reached, in nanoseconds; 0 until then.
    time: Option<Arc<AtomicU64>>,
}

/// What an event captured last, for those that wait for it.
#[derive(Debug)]
pub(crate) enum Recorded {
    /// It was never recorded.
    Never,
    /// A position of a stream.
    At(Position),
    /// The dependencies of a capturing stream.
    Captured(CapturedRecord),
}

/// An event.
#[derive(Debug)]
pub(crate) struct EventState {
    this: Weak<EventState>,
    pub(crate) core: Arc<ContextCore>,
    pub(crate) flags: EventFlags,
    record: Mutex<Option<Record>>,
}

handle!(EventState, EventHandle, INVALID_HANDLE);

impl EventState {
    pub(crate) fn new(core: &Arc<ContextCore>, flags: EventFlags) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            core: Arc::clone(core),
            flags,
            record: Mutex::new(ranks::EVENT, None),
        })
    }

    /// Another reference to this event. `None`: it is being dropped.
    pub(crate) fn share(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// What was captured last.
    pub(crate) fn recorded(&self) -> Recorded {
        match &*self.record.lock() {
            None => Recorded::Never,
            Some(Record::Place(record)) => Recorded::At(record.position.clone()),
            Some(Record::Captured(record)) => Recorded::Captured(record.clone()),
        }
    }

    /// Captures a position that is not the end of a stream. `time` is filled before it is reached.
    pub(crate) fn bind(&self, position: Position, time: &Arc<AtomicU64>) {
        let time = self.takes_time().then(|| Arc::clone(time));
        let before = self.record.lock().replace(Record::Place(PlaceRecord { position, time }));
        drop(before);
    }

    fn takes_time(&self) -> bool {
        !self.flags.contains(EventFlags::DISABLE_TIMING)
    }

    /// Captures the end of a stream.
    pub(crate) fn record(&self, stream: &Arc<StreamState>) {
        // Held throughout, so that of two records at the same time one comes wholly after the other.
        let mut record = self.record.lock();
        if !self.takes_time() {
            let sequence = stream.mark();
            match &mut *record {
                Some(Record::Place(record)) if Arc::ptr_eq(&record.position.stream, stream) => {
                    record.position.sequence = sequence;
                }
                record => {
                    let position = Position { stream: Arc::clone(stream), sequence };
                    *record = Some(Record::Place(PlaceRecord { position, time: None }));
                }
            }
            return;
        }
        let before = match record.take() {
            Some(Record::Place(record)) => record.time,
            _ => None,
        };
        // A cell that is still in a queue belongs to the record before.
        let time = match before.filter(|time| Arc::strong_count(time) == 1) {
            Some(time) => {
                time.store(0, Ordering::Relaxed);
                time
            }
            None => Arc::new(AtomicU64::new(0)),
        };
        let mut sequence = stream.mark();
        if stream.completion.is_complete(sequence) {
            time.store(stream.core.engine.now(), Ordering::Release);
        } else {
            sequence = stream.put(Entry::TimeStamp(Arc::clone(&time)));
        }
        let position = Position { stream: Arc::clone(stream), sequence };
        *record = Some(Record::Place(PlaceRecord { position, time: Some(time) }));
        drop(record);
        // Without the lock, because work may run here.
        stream.drain_if_full(sequence);
    }

    /// Captures the dependencies of a capturing stream. The caller drops the earlier record.
    pub(crate) fn record_captured(&self, record: CapturedRecord) -> Option<Record> {
        self.record.lock().replace(Record::Captured(record))
    }

    /// When the position was reached; `None` before that. `CUDA_ERROR_INVALID_HANDLE (400)` where no time was taken.
    pub(crate) fn time(&self) -> Result<Option<u64>> {
        let record = self.record.lock();
        let Some(Record::Place(PlaceRecord { position, time: Some(time) })) = &*record else {
            return Err(Failure::new(Status::INVALID_HANDLE));
        };
        Ok(position.is_complete().then(|| time.load(Ordering::Acquire)))
    }
}
