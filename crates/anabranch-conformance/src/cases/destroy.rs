//! Streams and events that are destroyed while work is pending.

use super::order_tools::{Log, comes_second};
use super::order_trace::{Trace, settle};
use crate::case::{Case, Need, Verdict, equal, holds, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::StreamHandle;
use anabranch::{Capabilities, EventFlags, Status};
use std::sync::mpsc::channel;
use std::time::Duration;

const BACKGROUND: &[Need] = &[Need::Capability(Capabilities::BACKGROUND_PROGRESS)];

pub(super) const CASES: &[Case] = &[
    Case::new("destroy.stream_with_pending_kernel", "S3", stream_with_pending_kernel),
    Case::new("destroy.stream_with_pending_host_function", "S3", stream_with_pending_host_function).needs(BACKGROUND),
    Case::new("destroy.stream_whose_buffer_is_used_elsewhere", "S3", stream_whose_buffer_is_used_elsewhere),
    Case::new("destroy.stream_whose_buffer_goes_too", "S3", stream_whose_buffer_goes_too),
    Case::new("destroy.stream_that_others_wait_for", "S3", stream_that_others_wait_for),
    Case::new("destroy.stream_is_covered_by_context_synchronize", "S3", stream_is_covered_by_context_synchronize),
    Case::new("destroy.event_recorded_on_a_destroyed_stream", "S3", event_recorded_on_a_destroyed_stream),
    Case::new("destroy.default_streams_are_refused", "S3", default_streams_are_refused),
    Case::new("destroy.event_that_is_waited_for", "E7", event_that_is_waited_for),
    Case::new("destroy.event_and_its_stream", "E7", event_and_its_stream),
    Case::new("destroy.pending_event_does_not_block", "E7", pending_event_does_not_block),
    Case::new("destroy.event_never_recorded", "E7", event_never_recorded),
];

fn stream_with_pending_kernel(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &stream)?;
    trace.append(&stream, 1)?;
    let event = stream.record_event_with_flags(EventFlags::DISABLE_TIMING)?;
    drop(stream);
    equal("the event, after the stream was destroyed", event.query()?, false)?;
    trace.is_untouched()?;
    gate.open();
    event.synchronize()?;
    equal("what the work wrote", trace.read()?, 1)?;
    other.synchronize()?;
    Ok(())
}

fn stream_with_pending_host_function(environment: &Environment) -> Verdict {
    let (stream, idle, log) = (environment.stream()?, environment.stream()?, Log::default());
    let (sender, receiver) = channel();
    let gate = Gate::shut(environment, &stream)?;
    log.push_in(&stream, 1)?;
    stream.launch_host_func(move || {
        let _ = sender.send(());
    })?;
    drop(stream);
    settle(&idle)?;
    equal("what has run while the gate is shut", log.numbers(), vec![])?;
    gate.open();
    holds("the last host function runs", receiver.recv_timeout(Duration::from_secs(30)).is_ok())?;
    equal("what has run", log.numbers(), vec![1])
}

fn stream_whose_buffer_is_used_elsewhere(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let mut buffer = stream.allocate_zeroed::<u32>(64)?;
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut buffer, 7)?;
    drop(stream);
    let mut copy = other.allocate_zeroed::<u32>(64)?;
    other.copy(&mut copy, &buffer)?;
    equal("the copy after the gate", other.query()?, false)?;
    gate.open();
    equal("what was copied", other.download(&copy)?, vec![7; 64])
}

fn stream_whose_buffer_goes_too(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let (mut source, mut target) = (stream.allocate_zeroed::<u32>(64)?, other.allocate_zeroed::<u32>(64)?);
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut source, 7)?;
    stream.copy(&mut target, &source)?;
    drop(stream);
    drop(source);
    // New memory must not overlap memory that pending work still uses.
    let scratch = other.upload(&[1u32; 64])?;
    gate.open();
    equal("what was copied", other.download(&target)?, vec![7; 64])?;
    equal("memory allocated meanwhile", other.download(&scratch)?, vec![1; 64])
}

fn stream_that_others_wait_for(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    second.wait_stream(&first)?;
    drop(first);
    trace.append(&second, 2)?;
    comes_second(&trace, &gate, &second, &second)
}

fn stream_is_covered_by_context_synchronize(environment: &Environment) -> Verdict {
    let (stream, done) = (environment.stream()?, environment.context().create_signal()?);
    super::order_tools::spin(environment, &stream, 5)?;
    stream.write_signal(&done, 1)?;
    drop(stream);
    environment.context().synchronize()?;
    equal("what the work wrote", done.get(), 1)
}

fn event_recorded_on_a_destroyed_stream(environment: &Environment) -> Verdict {
    let (stream, other) = (environment.stream()?, environment.stream()?);
    let event = stream.record_event()?;
    drop(stream);
    event.synchronize()?;
    holds("the event is complete", event.query()?)?;
    other.wait_event(&event)?;
    other.record(&event)?;
    event.synchronize()?;
    Ok(())
}

fn default_streams_are_refused(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context());
    for handle in [StreamHandle::NULL, StreamHandle::LEGACY, StreamHandle::PER_THREAD] {
        // SAFETY: the driver refuses to destroy default streams.
        let destroyed = unsafe { driver.stream_destroy(&context.live().into(), handle) };
        equal(&format!("destroying {handle:?}"), status_of(destroyed), Status::INVALID_HANDLE)?;
    }
    context.legacy_stream()?.synchronize()?;
    context.per_thread_stream()?.synchronize()?;
    Ok(())
}

fn event_that_is_waited_for(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    let event = first.record_event()?;
    second.wait_event(&event)?;
    drop(event);
    trace.append(&second, 2)?;
    comes_second(&trace, &gate, &first, &second)
}

fn event_and_its_stream(environment: &Environment) -> Verdict {
    let trace = Trace::new(environment)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let gate = Gate::shut(environment, &first)?;
    trace.append(&first, 1)?;
    let event = first.record_event()?;
    second.wait_event(&event)?;
    drop(first);
    drop(event);
    trace.append(&second, 2)?;
    comes_second(&trace, &gate, &second, &second)
}

fn pending_event_does_not_block(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let gate = Gate::shut(environment, &stream)?;
    for flags in [EventFlags::empty(), EventFlags::DISABLE_TIMING, EventFlags::BLOCKING_SYNC] {
        drop(stream.record_event_with_flags(flags)?);
    }
    equal("the stream still has pending work", stream.query()?, false)?;
    gate.open();
    stream.synchronize()?;
    Ok(())
}

fn event_never_recorded(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let event = environment.context().create_event()?;
    stream.wait_event(&event)?;
    drop(event);
    stream.synchronize()?;
    Ok(())
}
