//! One record of an event, for futures that wait for that record whatever the event captures later.

use super::awaited::Awaited;
use super::events::PooledEvent;
use super::future::Completion;
use super::spin::WaitHistory;
use crate::context::ContextCore;
use crate::error::{Error, Result};
use crate::event::{EventCore, RecordObserver};
use crate::helping::helping;
use crate::host_work::refuse_inside;
use crate::ranks;
use crate::raw_event::RawEvent;
use crate::stream::SyncEvent;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use crate::timeline::TimelinePoint;
use anabranch_hal::Status;
use anabranch_sync::Mutex;
use std::sync::{Arc, Weak};

/// One record of an event, shared by the futures that wait for it.
pub struct AwaitedRecord {
    context: Arc<ContextCore>,
    state: Mutex<State>,
    history: WaitHistory,
}

struct State {
    source: Source,
    /// The point of the record, if it is known, and the source shows this record and no other.
    point: Option<TimelinePoint>,
}

/// What shows whether the record is complete.
#[derive(Clone)]
enum Source {
    /// The event, which has captured nothing else since.
    Event(Arc<RawEvent>),
    /// Another event, because the original was recorded again.
    Copy(Arc<PooledEvent>),
    /// Nothing needs to be queried any more.
    Over(Result<()>),
}

impl Source {
    fn check(&self) -> Option<Result<()>> {
        match self {
            Self::Event(event) => match event.query() {
                Ok(true) => Some(Ok(())),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            },
            Self::Copy(event) => event.check(),
            Self::Over(result) => Some(result.clone()),
        }
    }

    /// Whether both show the same.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Event(one), Self::Event(other)) => Arc::ptr_eq(one, other),
            (Self::Copy(one), Self::Copy(other)) => Arc::ptr_eq(one, other),
            (Self::Over(_), Self::Over(_)) => true,
            _ => false,
        }
    }
}

impl State {
    fn check(&mut self) -> Option<Result<()>> {
        let result = self.source.check();
        self.note(result.as_ref());
        result
    }

    /// Notes what the source has said.
    fn note(&mut self, result: Option<&Result<()>>) {
        self.forget_point_of_shared();
        if let (Some(Ok(())), Some(point)) = (result, &self.point) {
            point.reached();
        }
    }

    /// Called after the event was asked, which may have been recorded by a launch of a graph, or by another process.
    fn forget_point_of_shared(&mut self) {
        if matches!(&self.source, Source::Event(event) if event.is_shared()) {
            self.point = None;
        }
    }
}

impl AwaitedRecord {
    fn new(event: Arc<RawEvent>, point: Option<TimelinePoint>) -> Arc<Self> {
        let context = event.context().clone();
        let state = Mutex::new(ranks::AWAITED_RECORD_SOURCE, State { source: Source::Event(event), point });
        Arc::new(Self { context, state, history: WaitHistory::default() })
    }

    /// The context.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// Recent waiting times.
    pub fn history(&self) -> &WaitHistory {
        &self.history
    }

    /// Whether it is complete.
    pub fn check(&self) -> Option<Result<()>> {
        loop {
            let source = self.state.lock().source.clone();
            // Unlocked: a driver may run work of the program when it is asked.
            let result = {
                let _helping = helping();
                source.check()
            };
            let mut state = self.state.lock();
            if state.source.is_same(&source) {
                state.note(result.as_ref());
                return result;
            }
        }
    }

    /// Stops using the event, which is about to be recorded again.
    fn detach(&self) -> Result<()> {
        let mut state = self.state.lock();
        let Source::Event(event) = &state.source else { return Ok(()) };
        let event = event.clone();
        // The record may be one in a capture, which this must not invalidate.
        if let Some(result) = with_relaxed_capture_mode(self.context.driver(), || state.check()) {
            state.source = Source::Over(result);
            return Ok(());
        }
        let copy = event.copy_record("recording an event that is awaited")?;
        state.forget_point_of_shared();
        state.source = Source::Copy(Arc::new(PooledEvent::from_handle(&self.context, copy)));
        Ok(())
    }
}

/// The futures of an event's last record, if there are any.
struct AwaitedRecords(Mutex<Weak<AwaitedRecord>>);

impl RecordObserver for AwaitedRecords {
    fn before_record(&self) -> Result<bool> {
        let mut slot = self.0.lock();
        if let Some(record) = slot.upgrade() {
            record.detach()?;
        }
        *slot = Weak::new();
        Ok(false)
    }
}

impl AwaitedRecords {
    fn share(&self, event: &EventCore, point: Option<TimelinePoint>) -> Arc<AwaitedRecord> {
        let mut slot = self.0.lock();
        if let Some(record) = slot.upgrade() {
            return record;
        }
        let record = AwaitedRecord::new(event.raw().clone(), point);
        *slot = Arc::downgrade(&record);
        record
    }
}

impl Completion {
    /// A future of what a sync event has captured. The event is not recorded again while the future holds it.
    pub fn of_sync_event(event: SyncEvent) -> Self {
        let (event, point) = event.into_parts();
        Self::new(Ok(Awaited::Record(AwaitedRecord::new(event, Some(point)))), None)
    }

    /// A future of the work that an event captured last, whatever it captures later.
    ///
    /// # Errors
    /// The future returns `CUDA_ERROR_CAPTURED_EVENT (907)` if the event was last recorded in a capture that has not
    /// ended, because there is nothing to wait for; `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function.
    pub fn of_event(event: &EventCore) -> Self {
        if let Err(error) = refuse_inside(super::OPERATION) {
            return Self::failed(error.at(event.context().place()));
        }
        if event.capture().is_some() {
            let error =
                Error::argument(Status::CAPTURED_EVENT, super::OPERATION, "the event was recorded in a capture")
                    .with_hint("launch the graph, and await its completion")
                    .at(event.context().place());
            return Self::failed(error);
        }
        let records = || AwaitedRecords(Mutex::new(ranks::AWAITED_RECORDS, Weak::new()));
        let record = event.observe(records, |records, point| records.share(event, point));
        match record {
            Some(record) => Self::new(Ok(Awaited::Record(record)), None),
            None => Self::failed(Error::argument(Status::UNKNOWN, super::OPERATION, "the event is observed otherwise")),
        }
    }
}
