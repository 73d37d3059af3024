//! What is known of an event's last record.

use crate::capture_state::{CaptureState, CapturedClock, Capturing};
use crate::error::Result;
use crate::extensions::Extension;
use crate::ranks;
use crate::raw_event::RawEvent;
use crate::stream::{OpenStream, StreamCore};
use crate::timeline::TimelinePoint;
use anabranch_sync::modelled::{AtomicBool, Mutex, SpinMutex, SpinMutexGuard};
use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

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
    /// Whether it is noted that the known record is complete. Changed only while the record is locked.
    is_noted: AtomicBool,
    /// Whether `before_record` has something to do.
    has_observer: AtomicBool,
    /// The attachment of a higher module.
    observer: OnceLock<Box<dyn RecordObserver>>,
}

/// The state in the event itself, so that all objects that record it, or wait for it, have the same.
#[derive(Default)]
struct Attached(OnceLock<Arc<RecordState>>);

impl Extension for Attached {}

/// An observer of a record, which is notified before another record replaces it.
pub trait RecordObserver: Any + Send + Sync {
    /// The event is about to be recorded again. `false`: there is nothing left to observe.
    ///
    /// # Errors
    /// Any error that the driver returns. The event is then not recorded.
    fn before_record(&self) -> Result<bool>;
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
    /// That of an event, the same in every call.
    pub(super) fn of(event: &RawEvent) -> Arc<Self> {
        event.extension::<Attached>().0.get_or_init(|| Arc::new(Self::new(event))).clone()
    }

    fn new(event: &RawEvent) -> Self {
        let id = event.label().id().get();
        Self {
            record: SpinMutex::with_order(ranks::EVENT_RECORD, id, Record::default()),
            is_captured: AtomicBool::new(false),
            capture: Mutex::new(ranks::EVENT_CAPTURED_IN, (Weak::new(), CapturedClock::default())),
            id,
            is_foreign: event.is_foreign(),
            is_noted: AtomicBool::new(false),
            has_observer: AtomicBool::new(false),
            observer: OnceLock::new(),
        }
    }

    /// Called with the record locked, before it is replaced, also by one that nothing is known of: `is_observed` is whether its
    /// observer is to be told.
    ///
    /// # Errors
    /// Those of the observer.
    #[inline(always)]
    pub(super) fn before_record(&self, is_observed: bool) -> Result<()> {
        self.is_noted.store(false, Ordering::Relaxed);
        if is_observed && self.has_observer.load(Ordering::Acquire) { self.tell_observer() } else { Ok(()) }
    }

    #[cold]
    fn tell_observer(&self) -> Result<()> {
        if let Some(observer) = self.observer.get() {
            let observes = observer.before_record()?;
            self.has_observer.store(observes, Ordering::Release);
        }
        Ok(())
    }

    /// Attaches an observer that `observe` makes if there is none yet, and calls `attach` with it.
    pub(super) fn observe<O: RecordObserver, R>(
        &self,
        observe: impl FnOnce() -> O,
        attach: impl FnOnce(&O) -> R,
    ) -> Option<R> {
        let observer: &dyn Any = &**self.observer.get_or_init(|| Box::new(observe()));
        let attached = observer.downcast_ref().map(attach);
        self.has_observer.store(true, Ordering::Release);
        attached
    }

    /// Whether it is noted that the known record is complete.
    #[inline(always)]
    pub(super) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Relaxed)
    }

    /// Notes it, with the record locked.
    pub(super) fn note(&self) {
        self.is_noted.store(true, Ordering::Relaxed);
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
