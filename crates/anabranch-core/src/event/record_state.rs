//! What is known of an event's last record.

use crate::capture_state::{CaptureState, CapturedClock, Capturing};
use crate::ranks;
use crate::raw_event::RawEvent;
use crate::stream::{OpenStream, StreamCore};
use crate::timeline::TimelinePoint;
use anabranch_sync::modelled::{AtomicBool, Mutex, SpinMutex, SpinMutexGuard};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The last record of an event, and what is known of it.
pub struct RecordState {
    /// Locked while the driver is called to record the event or to wait for it, also by a launch of a graph, so that what is
    /// known here is what the driver refers to. It is not locked inside host functions: another thread may hold the lock in a
    /// call that ends only when the host function does.
    record: SpinMutex<Record>,
    /// Whether it was recorded in a capture.
    is_captured: AtomicBool,
    capture: Mutex<(Weak<CaptureState>, CapturedClock)>,
    /// The id of the event.
    id: u64,
    /// Whether another library owns the event.
    is_foreign: bool,
}

/// What is known of a record.
#[derive(Default)]
pub(crate) struct Record {
    /// The point. Its memory is kept when nothing is known of it.
    pub(super) point: Option<TimelinePoint>,
    /// Whether another library captured the stream.
    pub(super) captured_elsewhere: bool,
}

impl Record {
    /// Called before the driver is asked to record the event in `stream`. Nothing is known until [`recorded`](Self::recorded).
    #[inline(always)]
    pub(super) fn begin(&mut self, stream: &StreamCore) -> u64 {
        let timeline = stream.shared().timeline();
        self.point.get_or_insert_with(|| TimelinePoint::unknown(timeline)).begin(timeline)
    }

    /// The driver has recorded the event, and not in a capture.
    #[inline(always)]
    pub(super) fn recorded(&mut self, stream: &OpenStream, value: u64) {
        if stream.is_captured_elsewhere() {
            self.captured_elsewhere = true;
        } else if let Some(point) = &mut self.point {
            point.put(value);
        }
    }

    /// The driver has made `stream` wait for the record.
    #[inline(always)]
    pub(super) fn waited_for_by(&self, stream: &StreamCore) {
        match self.known() {
            Some(point) => stream.has_waited_for(point),
            None if self.captured_elsewhere => stream.shared().suspect_capture(),
            None => {}
        }
    }

    /// The point of the record, if it is known.
    #[inline(always)]
    pub(super) fn known(&self) -> Option<&TimelinePoint> {
        self.point.as_ref().filter(|point| point.value() != 0)
    }
}

impl RecordState {
    pub(super) fn of(event: &RawEvent) -> Self {
        let id = event.label().id().get();
        Self {
            record: SpinMutex::with_order(ranks::EVENT_RECORD, id, Record::default()),
            is_captured: AtomicBool::new(false),
            capture: Mutex::new(ranks::EVENT_CAPTURED_IN, (Weak::new(), CapturedClock::default())),
            id,
            is_foreign: event.is_foreign(),
        }
    }

    /// The id of the event. A thread locks the records of several events in ascending order of their ids.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn lock(&self) -> SpinMutexGuard<'_, Record> {
        self.record.lock()
    }

    pub(super) fn try_lock(&self) -> Option<SpinMutexGuard<'_, Record>> {
        self.record.try_lock()
    }

    /// Whether another library may have captured the record.
    pub(super) fn is_of_others(&self, record: &Record) -> bool {
        self.is_foreign || record.captured_elsewhere
    }

    #[inline(always)]
    pub(super) fn is_captured(&self) -> bool {
        self.is_captured.load(Ordering::Acquire)
    }

    /// The capture of the record, if it still exists, and how far the stream had followed others in it.
    pub(super) fn capture(&self) -> Option<(Arc<CaptureState>, CapturedClock)> {
        if self.is_captured() { self.find_capture() } else { None }
    }

    #[cold]
    fn find_capture(&self) -> Option<(Arc<CaptureState>, CapturedClock)> {
        let capture = self.capture.lock();
        Some((capture.0.upgrade()?, capture.1.clone()))
    }

    #[cold]
    pub(super) fn set_capture(&self, capturing: Option<&Capturing>, stream: &StreamCore) {
        let capture = capturing.map(|capturing| (Arc::downgrade(capturing.capture()), capturing.clock(stream)));
        *self.capture.lock() = capture.unwrap_or_default();
        self.is_captured.store(capturing.is_some(), Ordering::Release);
    }

    /// For a record in the capture that follows nothing.
    #[cold]
    pub(super) fn set_capture_that_follows_nothing(&self, capturing: &Capturing) {
        *self.capture.lock() = (Arc::downgrade(capturing.capture()), CapturedClock::default());
        self.is_captured.store(true, Ordering::Release);
    }
}
