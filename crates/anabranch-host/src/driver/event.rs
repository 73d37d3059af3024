//! Calls on events.

use super::{ContextState, HostDriver, resolve, usable};
use crate::engine::WaitStrategy;
use crate::error::permitted;
use crate::event::{EventState, Recorded};
use anabranch_hal::{
    Call, EventFlags, EventHandle, EventRecordFlags, Events, Failure, InterprocessEventHandle, NodeParameters, Result,
    Status, StreamHandle,
};
use std::sync::Arc;

impl Events for HostDriver {
    unsafe fn event_create(&self, call: &Call<'_>, flags: EventFlags) -> Result<EventHandle> {
        // SAFETY: the handle rule.
        let context = unsafe { usable(call) }?;
        let interprocess = flags.contains(EventFlags::INTERPROCESS);
        if !EventFlags::all().contains(flags) || (interprocess && !flags.contains(EventFlags::DISABLE_TIMING)) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        if interprocess {
            return Err(Failure::new(Status::NOT_SUPPORTED));
        }
        let event = EventState::new(&context.core, flags);
        Ok(EventHandle::from_raw(self.events.insert(event)))
    }

    unsafe fn event_destroy(&self, call: &Call<'_>, event: EventHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { ContextState::of(call.context) }?;
        // SAFETY: the handle rule.
        let core = Arc::clone(&unsafe { EventState::of(event) }?.core);
        self.events.remove(event.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        core.check()
    }

    unsafe fn event_record(
        &self,
        call: &Call<'_>,
        event: EventHandle,
        stream: StreamHandle,
        flags: EventRecordFlags,
    ) -> Result<()> {
        // SAFETY: the handle rule.
        let stream = unsafe { resolve(&self.shared, call.context, stream) }?;
        if !EventRecordFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        // SAFETY: the handle rule.
        let state = unsafe { EventState::of(event) }?;
        let external = flags.contains(EventRecordFlags::EXTERNAL);
        let recording = self.shared.captures.recording(&stream)?;
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
                let before = state.record_captured(record);
                // The earlier record, perhaps with a stream, is dropped without the captures' lock.
                drop(recording);
                drop(before);
            }
        }
        Ok(())
    }

    unsafe fn event_query(&self, call: &Call<'_>, event: EventHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { ContextState::of(call.context) }?;
        // SAFETY: the handle rule.
        let event = unsafe { EventState::of(event) }?;
        if let Recorded::Captured(record) = event.recorded() {
            return Err(self.shared.captures.query_event(&record));
        }
        self.shared.captures.before_unsafe_call()?;
        self.shared.engine.help_with_query();
        match event.recorded() {
            Recorded::Never => event.core.check(),
            Recorded::At(position) if position.is_complete() => position.stream.core.check(),
            _ => Err(Failure::new(Status::NOT_READY)),
        }
    }

    unsafe fn event_synchronize(&self, call: &Call<'_>, event: EventHandle) -> Result<()> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { ContextState::of(call.context) }?;
        // SAFETY: the handle rule.
        let event = unsafe { EventState::of(event) }?;
        let recorded = event.recorded();
        if let Recorded::Captured(record) = &recorded {
            return Err(self.shared.captures.synchronize_event(record));
        }
        self.shared.captures.before_unsafe_call()?;
        let Recorded::At(position) = recorded else { return event.core.check() };
        let sleeps = event.flags.contains(EventFlags::BLOCKING_SYNC);
        let strategy = if sleeps { WaitStrategy::Sleep } else { position.stream.strategy() };
        self.shared.engine.wait(&position, strategy);
        self.shared.memory.device(position.stream.core.device)?.give_idle_memory_back();
        position.stream.core.check()
    }

    unsafe fn event_elapsed(&self, call: &Call<'_>, start: EventHandle, end: EventHandle) -> Result<f32> {
        permitted()?;
        // SAFETY: the handle rule.
        unsafe { ContextState::of(call.context) }?;
        // SAFETY: the handle rule.
        let (start, end) = unsafe { (EventState::of(start)?, EventState::of(end)?) };
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

    unsafe fn event_export(&self, _: &Call<'_>, _event: EventHandle) -> Result<InterprocessEventHandle> {
        permitted()?;
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    unsafe fn event_open(&self, _: &Call<'_>, _exported: &InterprocessEventHandle) -> Result<EventHandle> {
        permitted()?;
        Err(Failure::new(Status::NOT_SUPPORTED))
    }
}
