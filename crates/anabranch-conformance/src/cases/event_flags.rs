//! Flags and handles of events, valid and invalid.

use crate::case::{Case, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{EventHandle, Live};
use anabranch::{Capabilities, EventFlags, EventRecordFlags, EventWaitFlags, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("event_flags.known_ones_are_kept", "E8", known_ones_are_kept),
    Case::new("event_flags.unknown_ones_are_refused", "E8", unknown_ones_are_refused),
    Case::new("event_flags.interprocess_with_timing", "E8", interprocess_with_timing),
    Case::new("event_flags.interprocess", "E8", interprocess).needs(INTERPROCESS),
    Case::new("event_flags.export_of_another_event", "E8", export_of_another_event).needs(INTERPROCESS),
    Case::new("event_flags.unknown_record_flags", "E8", unknown_record_flags),
    Case::new("event_flags.unknown_wait_flags", "E8", unknown_wait_flags),
    Case::new("event_flags.external_record_outside_capture", "C6", external_record_outside_capture),
    Case::new("event_flags.external_wait_outside_capture", "C6", external_wait_outside_capture),
    Case::new("event_flags.refused_record_changes_nothing", "X2", refused_record_changes_nothing),
    Case::new("event_flags.null_event_in_streams", "X2", null_event_in_streams),
    Case::new("event_flags.null_event_and_flags", "X2", null_event_and_flags),
    Case::new("event_flags.null_event", "X2", null_event),
    Case::new("event_flags.null_event_measured", "X2", null_event_measured),
];

const INTERPROCESS: &[Need] = &[Need::Capability(Capabilities::INTERPROCESS_EVENTS)];
const NULL: Live<'_, EventHandle> = Live::<EventHandle>::NULL;

fn known_ones_are_kept(environment: &Environment) -> Verdict {
    let all = EventFlags::BLOCKING_SYNC | EventFlags::DISABLE_TIMING;
    for flags in [EventFlags::empty(), EventFlags::BLOCKING_SYNC, EventFlags::DISABLE_TIMING, all] {
        equal("the flags", environment.context().create_event_with_flags(flags)?.flags(), Some(flags))?;
    }
    Ok(())
}

fn unknown_ones_are_refused(environment: &Environment) -> Verdict {
    for bits in [0x10, 0x80] {
        let created = environment.context().create_event_with_flags(EventFlags::from_bits_retain(bits));
        refused(&format!("flags {bits:#x}"), created, Status::INVALID_VALUE)?;
    }
    Ok(())
}

fn interprocess_with_timing(environment: &Environment) -> Verdict {
    let created = environment.context().create_event_with_flags(EventFlags::INTERPROCESS);
    refused("creating", created, Status::INVALID_VALUE)
}

fn interprocess(environment: &Environment) -> Verdict {
    let flags = EventFlags::INTERPROCESS | EventFlags::DISABLE_TIMING;
    let event = environment.context().create_event_with_flags(flags)?;
    let exported = event.export()?;
    let opened = anabranch::Event::open(environment.context(), &exported);
    refused("opening it in the process that created it", opened, Status::INVALID_CONTEXT)
}

fn export_of_another_event(environment: &Environment) -> Verdict {
    refused("exporting", environment.context().create_event()?.export(), Status::INVALID_HANDLE)
}

fn unknown_record_flags(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    let recorded = stream.record_with_flags(&event, EventRecordFlags::from_bits_retain(0x40));
    refused("recording", recorded, Status::INVALID_VALUE)
}

fn unknown_wait_flags(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    let waited = stream.wait_event_with_flags(&event, EventWaitFlags::from_bits_retain(0x40));
    refused("waiting", waited, Status::INVALID_VALUE)
}

fn external_record_outside_capture(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    let result = stream.record_with_flags(&event, EventRecordFlags::EXTERNAL);
    refused("external record", result, Status::ILLEGAL_STATE)
}

fn external_wait_outside_capture(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    let result = stream.wait_event_with_flags(&event, EventWaitFlags::EXTERNAL);
    refused("external wait", result, Status::ILLEGAL_STATE)
}

fn refused_record_changes_nothing(environment: &Environment) -> Verdict {
    let (stream, event) = (environment.stream()?, environment.context().create_event()?);
    refused("recording", stream.record_with_flags(&event, EventRecordFlags::EXTERNAL), Status::ILLEGAL_STATE)?;
    refused("measuring, as before any record", event.elapsed_since(&event), Status::INVALID_HANDLE)?;
    stream.record(&event)?;
    stream.synchronize()?;
    holds("the event is complete", event.query()?)
}

fn null_event_in_streams(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let stream = environment.stream()?;
    let recorded = driver.event_record(&context.into(), NULL, stream.live(), EventRecordFlags::empty());
    equal("recording", status_of(recorded), Status::INVALID_HANDLE)?;
    let waited = driver.stream_wait_event(&context.into(), stream.live(), NULL, EventWaitFlags::empty());
    equal("waiting", status_of(waited), Status::INVALID_HANDLE)?;
    stream.synchronize()?;
    Ok(())
}

/// A record looks at the event first, and a wait at the flags.
fn null_event_and_flags(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let stream = environment.stream()?;
    for (bits, awaited) in [(0x1, Status::INVALID_HANDLE), (0x2, Status::INVALID_VALUE), (0x3, Status::INVALID_VALUE)] {
        let flags = EventRecordFlags::from_bits_retain(bits);
        let recorded = driver.event_record(&context.into(), NULL, stream.live(), flags);
        equal("recording", status_of(recorded), Status::INVALID_HANDLE)?;
        let flags = EventWaitFlags::from_bits_retain(bits);
        let waited = driver.stream_wait_event(&context.into(), stream.live(), NULL, flags);
        equal("waiting", status_of(waited), awaited)?;
    }
    Ok(())
}

fn null_event(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    equal("querying", status_of(driver.event_query(&context.into(), NULL)), Status::INVALID_HANDLE)?;
    let synchronized = driver.event_synchronize(&context.into(), NULL);
    equal("synchronizing", status_of(synchronized), Status::INVALID_HANDLE)?;
    // SAFETY: the driver refuses a null event.
    let destroyed = unsafe { driver.event_destroy(&context.into(), NULL.handle()) };
    equal("destroying", status_of(destroyed), Status::INVALID_HANDLE)
}

fn null_event_measured(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let event = environment.stream()?.record_event()?;
    event.synchronize()?;
    let from_null = driver.event_elapsed(&context.into(), NULL, event.live());
    equal("from a null event", status_of(from_null), Status::INVALID_HANDLE)?;
    let to_null = driver.event_elapsed(&context.into(), event.live(), NULL);
    equal("to a null event", status_of(to_null), Status::INVALID_HANDLE)
}
