//! Calls on events.

use super::{HostDriver, present, resolve, usable};
use crate::capture::Target;
use crate::engine::{Position, WaitStrategy};
use crate::error::permitted;
use crate::event::{EventState, Recorded};
use anabranch_hal::{
    Call, EventFlags, EventHandle, EventRecordFlags, Events, Failure, InterprocessEventHandle, Live, NodeParameters,
    Result, Status, StreamHandle,
};
use std::sync::Arc;

/// Reports the loss of the contexts that a place of an event depends on: of its stream's, and of one whose work, which came before it,
/// was never done.
fn check_done(event: &EventState, position: &Position) -> Result<()> {
    position.stream.core.check()?;
    if let Some(fault) = position.undone() {
        event.core.lose_behind(fault);
    }
    event.core.check()
}

impl Events for HostDriver {
    fn event_create(&self, call: &Call<'_>, flags: EventFlags) -> Result<EventHandle> {
        let context = usable(call)?;
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
        present(call)?;
        let removed = self.events.remove(event.as_raw()).ok_or(Failure::new(Status::INVALID_HANDLE))?;
        let core = Arc::clone(&removed.core);
        drop(removed);
        core.check()
    }

    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        let state = EventState::of(event)?;
        if !EventRecordFlags::all().contains(flags) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        if flags.contains(EventRecordFlags::EXTERNAL) {
            // Only the node's launches record the event, and they may be in its context.
            let Target::Capture(mut recording) = target else { return Err(Failure::new(Status::ILLEGAL_STATE)) };
            // SAFETY: the event exists, as `Live` says. The node shares it, and records it at any launch.
            return unsafe { recording.add(NodeParameters::EventRecord(event.handle())) }.map(|_| ());
        }
        if !Arc::ptr_eq(&state.core, &stream.core) {
            return Err(Failure::new(Status::INVALID_HANDLE));
        }
        match target {
            Target::Queue(stream) => state.record(stream),
            Target::Capture(mut recording) => {
                let record = recording.record()?;
                let before = state.record_captured(record);
                // The earlier record, perhaps with a stream, is dropped without the captures' lock.
                drop(recording);
                drop(before);
            }
        }
        Ok(())
    }

    fn event_query(&self, call: &Call<'_>, event: Live<'_, EventHandle>) -> Result<()> {
        present(call)?;
        let event = EventState::of(event)?;
        if let Recorded::Captured(record) = event.recorded() {
            return Err(self.shared.captures.synchronize_event(&record));
        }
        self.shared.captures.before_unsafe_call()?;
        self.shared.engine.help_with_query();
        match event.recorded() {
            Recorded::Never => event.core.check(),
            Recorded::At(position) => {
                let ready = position.is_complete();
                // A context that is lost says so whatever is still running.
                check_done(event, &position)?;
                if ready { Ok(()) } else { Err(Failure::new(Status::NOT_READY)) }
            }
            Recorded::Captured(_) => Err(Failure::new(Status::NOT_READY)),
        }
    }

    fn event_synchronize(&self, call: &Call<'_>, event: Live<'_, EventHandle>) -> Result<()> {
        present(call)?;
        let event = EventState::of(event)?;
        let recorded = event.recorded();
        if let Recorded::Captured(record) = &recorded {
            return Err(self.shared.captures.synchronize_event(record));
        }
        self.shared.captures.before_unsafe_call()?;
        let Recorded::At(position) = recorded else { return event.core.check() };
        let sleeps = event.flags.contains(EventFlags::BLOCKING_SYNC);
        let strategy = if sleeps { WaitStrategy::Sleep } else { position.stream.strategy() };
        self.shared.engine.wait(&position, strategy);
        self.shared.memory.device(position.stream.core.device)?.give_idle_memory_back(&position.stream.core);
        check_done(event, &position)
    }

    fn event_elapsed(&self, call: &Call<'_>, start: Live<'_, EventHandle>, end: Live<'_, EventHandle>) -> Result<f32> {
        present(call)?;
        let (start, end) = (EventState::of(start)?, EventState::of(end)?);
        start.core.check()?;
        end.core.check()?;
        // All of the first event comes before the second.
        let time = |event: &EventState| match event.recorded() {
            Recorded::Captured(record) => Err(self.shared.captures.time_event(&record)),
            Recorded::At(position) => check_done(event, &position).and_then(|()| event.time()),
            Recorded::Never => event.time(),
        };
        let times = (time(start)?, time(end)?);
        if !Arc::ptr_eq(&start.core, &end.core) {
            return Err(Failure::new(Status::INVALID_HANDLE));
        }
        let (Some(start), Some(end)) = times else { return Err(Failure::new(Status::NOT_READY)) };
        Ok((end.wrapping_sub(start).cast_signed() as f64 / 1e6) as f32)
    }

    fn event_export(&self, _: &Call<'_>, _event: Live<'_, EventHandle>) -> Result<InterprocessEventHandle> {
        permitted()?;
        Err(Failure::new(Status::NOT_SUPPORTED))
    }

    fn event_open(&self, _: &Call<'_>, _exported: &InterprocessEventHandle) -> Result<EventHandle> {
        permitted()?;
        Err(Failure::new(Status::NOT_SUPPORTED))
    }
}
