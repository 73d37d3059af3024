//! Events.
//!
//! A record binds the event to a place of a stream, and puts nothing into the queue: the event is complete when the stream
//! has come there. Only an event that takes time needs an entry, which takes it.

use crate::capture::CapturedRecord;
use crate::context::ContextCore;
use crate::driver::HostDriver;
use crate::engine::entry::Entry;
use crate::engine::host_work::permitted;
use crate::engine::stream::{Position, StreamState};
use crate::engine::wait::Patience;
use crate::handles;
use crate::stream::{patience, resolve};
use anabranch_hal::{
    ContextHandle, EventFlags, EventHandle, EventRecordFlags, Events, Failure, InterprocessEventHandle, NodeParameters,
    Result, Status, StreamHandle,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What an event captured last.
#[derive(Debug)]
enum Record {
    /// A place of a stream.
    Place(PlaceRecord),
    /// What a capturing stream had come to.
    Captured(CapturedRecord),
}

#[derive(Debug)]
struct PlaceRecord {
    position: Position,
    /// When the place was reached, in nanoseconds; 0 until then.
    time: Option<Arc<AtomicU64>>,
}

/// What an event captured last, for whoever waits for it.
#[derive(Debug)]
pub(crate) enum Recorded {
    /// It was never recorded.
    Never,
    /// A place of a stream.
    At(Position),
    /// What a capturing stream had come to.
    Captured(CapturedRecord),
}

/// An event.
#[derive(Debug)]
pub(crate) struct EventState {
    this: Weak<EventState>,
    pub(crate) core: Arc<ContextCore>,
    flags: EventFlags,
    record: Mutex<Option<Record>>,
}

impl EventState {
    /// Another share in this event. `None`: it is being dropped.
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

    /// Captures a place that is not the end of a stream. Whoever comes there has filled `time` before.
    pub(crate) fn bind(&self, position: Position, time: &Arc<AtomicU64>) {
        let time = self.takes_time().then(|| Arc::clone(time));
        let before = self.record.lock().replace(Record::Place(PlaceRecord { position, time }));
        drop(before);
    }

    fn takes_time(&self) -> bool {
        !self.flags.contains(EventFlags::DISABLE_TIMING)
    }

    fn record(&self, stream: &Arc<StreamState>) {
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
            time.store(stream.core.shared.engine.now(), Ordering::Release);
        } else {
            sequence = stream.enqueue(Entry::TimeStamp(Arc::clone(&time)));
        }
        let position = Position { stream: Arc::clone(stream), sequence };
        *record = Some(Record::Place(PlaceRecord { position, time: Some(time) }));
    }

    /// When the place was reached. 400 where no time was taken, 600 before it is reached.
    fn time(&self) -> Result<Option<u64>> {
        let record = self.record.lock();
        let Some(Record::Place(PlaceRecord { position, time: Some(time) })) = &*record else {
            return Err(Failure::new(Status::INVALID_HANDLE));
        };
        Ok(position.is_complete().then(|| time.load(Ordering::Acquire)))
    }
}

impl Events for HostDriver {
    unsafe fn event_create(&self, context: ContextHandle, flags: EventFlags) -> Result<EventHandle> {
        permitted()?;
        // SAFETY: the handle rule.
        let context = unsafe { handles::context(context) }?;
        context.core.check()?;
        let interprocess = flags.contains(EventFlags::INTERPROCESS);
        if !EventFlags::all().contains(flags) || (interprocess && !flags.contains(EventFlags::DISABLE_TIMING)) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        if interprocess {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        let event = Arc::new_cyclic(|this| EventState {
            this: Weak::clone(this),
            core: Arc::clone(&context.core),
            flags,
            record: Mutex::new(None),
        });
        Ok(EventHandle::from_raw(context.core.events.insert(event)))
    }

    unsafe fn event_destroy(&self, context: ContextHandle, event: EventHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?;
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { handles::event(event) }?.core);
        core.events.remove(event.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        core.check()
    }

    unsafe fn event_record(
        &self,
        context: ContextHandle,
        event: EventHandle,
        stream: StreamHandle,
        flags: EventRecordFlags,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(context, stream) }?;
        if !EventRecordFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        // SAFETY: the handle rule.
        let state = unsafe { handles::event(event) }?;
        let external = flags.contains(EventRecordFlags::EXTERNAL);
        let recording = stream.recording()?;
        if external && recording.is_none() {
            return Err(Failure::new(Status::ILLEGAL_STATE));
        }
        if !Arc::ptr_eq(&state.core, &stream.core) {
            return Err(Failure::new(Status::INVALID_HANDLE));
        }
        match recording {
            None => state.record(&stream),
            Some(mut recording) if external => {
                // SAFETY: the handle rule.
                unsafe { recording.add(NodeParameters::EventRecord(event)) }?;
            }
            Some(mut recording) => {
                let record = recording.record()?;
                let before = state.record.lock().replace(Record::Captured(record));
                // No capture is held up by what goes with the earlier record, a stream perhaps.
                drop(recording);
                drop(before);
            }
        }
        Ok(())
    }

    unsafe fn event_query(&self, context: ContextHandle, event: EventHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?;
        // SAFETY: the handle rule.
        let event = unsafe { handles::event(event) }?;
        if let Recorded::Captured(record) = event.recorded() {
            return Err(self.shared.captures.query_event(&record));
        }
        self.shared.captures.before_unsafe_call()?;
        self.shared.engine.step();
        match &*event.record.lock() {
            None => event.core.check(),
            Some(Record::Place(record)) if record.position.is_complete() => record.position.stream.core.check(),
            Some(_) => Err(Failure::new(Status::NOT_READY)),
        }
    }

    unsafe fn event_synchronize(&self, context: ContextHandle, event: EventHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?;
        // SAFETY: the handle rule.
        let event = unsafe { handles::event(event) }?;
        let recorded = event.recorded();
        if let Recorded::Captured(record) = &recorded {
            return Err(self.shared.captures.synchronize_event(record));
        }
        self.shared.captures.before_unsafe_call()?;
        let Recorded::At(position) = recorded else { return event.core.check() };
        let sleeps = event.flags.contains(EventFlags::BLOCKING_SYNC);
        let patience = if sleeps { Patience::Sleep } else { patience(&position.stream) };
        self.shared.engine.wait(&position, patience);
        self.shared.device(position.stream.core.device)?.give_idle_memory_back();
        position.stream.core.check()
    }

    unsafe fn event_elapsed(&self, context: ContextHandle, start: EventHandle, end: EventHandle) -> Result<f32> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { handles::context(context) }?;
        // SAFETY: the handle rule.
        let (start, end) = unsafe { (handles::event(start)?, handles::event(end)?) };
        start.core.check()?;
        end.core.check()?;
        if !Arc::ptr_eq(&start.core, &end.core) {
            return Err(Failure::new(Status::INVALID_HANDLE));
        }
        for event in [start, end] {
            if let Recorded::Captured(record) = event.recorded() {
                return Err(self.shared.captures.time_event(&record));
            }
        }
        let (Some(start), Some(end)) = (start.time()?, end.time()?) else {
            return Err(Failure::new(Status::NOT_READY));
        };
        Ok((end.wrapping_sub(start).cast_signed() as f64 / 1e6) as f32)
    }

    unsafe fn event_export(&self, _context: ContextHandle, _event: EventHandle) -> Result<InterprocessEventHandle> {
        permitted()?;
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn event_open(&self, _context: ContextHandle, _exported: &InterprocessEventHandle) -> Result<EventHandle> {
        permitted()?;
        Err(Failure::new(Status::NOT_SUPPORTED))
    }
}
