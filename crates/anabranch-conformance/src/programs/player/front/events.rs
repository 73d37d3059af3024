//! Calls for events.

use super::told::{completes, plain, told};
use super::{Answer, Front, FrontCall};
use crate::programs::slots::{EventSlot, New};
use anabranch::{Event, EventFlags, EventRecordFlags, Result};
use std::sync::Arc;

impl Front {
    pub(super) fn event_call(&mut self, call: &FrontCall) -> Option<Answer> {
        use FrontCall as C;
        Some(match call {
            C::EventCreate { event, context, flags } => {
                let flags = EventFlags::from_bits_retain(flags.0);
                self.add_event(*event, self.context(*context).create_event_with_flags(flags))
            }
            C::EventDrop { event } => {
                drop(self.objects.events.remove(event)?);
                plain(Ok(()))
            }
            C::EventRecord { stream, event, flags } => {
                let flags = EventRecordFlags::from_bits_retain(flags.0);
                plain(self.stream(*stream)?.record_with_flags(&*self.event(*event)?, flags).map(drop))
            }
            C::EventRecordNew { stream, event, flags } => {
                let recorded = self.stream(*stream)?.record_event_with_flags(EventFlags::from_bits_retain(flags.0));
                self.add_event(*event, recorded)
            }
            C::EventQuery { event } => {
                let event = self.event(*event)?;
                completes(|| event.query())
            }
            C::EventSynchronize { event } => plain(self.event(*event)?.synchronize()),
            C::EventElapsed { end, start } => {
                let (end, start) = (self.event(*end)?, self.event(*start)?);
                // Some devices run no work where they are only asked for the time.
                completes(|| Ok(start.query()? && end.query()? && end.elapsed_since(&start).map(|_| true)?))
            }
            _ => return None,
        })
    }

    fn add_event(&mut self, slot: New<EventSlot>, event: Result<Event>) -> Answer {
        told(event, |event| {
            self.objects.events.insert(slot.0, Arc::new(event));
            String::new()
        })
    }
}
