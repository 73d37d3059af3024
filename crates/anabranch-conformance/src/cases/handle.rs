//! Contexts, streams and events of other libraries. The contract of the driver, called directly, stands for the other
//! library.

use super::foreign::is_kept_by_the_executable;
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::live::Owner;
use anabranch::hal::{Call, Failure, Live};
use anabranch::{
    BorrowedStream, Context, ContextFlags, ContextHandle, Device, Event, EventFlags, EventHandle, EventRecordFlags,
    EventWaitFlags, Instance, Status, StreamFlags, StreamHandle, flush_deferred_drops,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) const CASES: &[Case] = &[
    Case::new("handle.no_call_makes_a_context_current", "S7", no_call_makes_a_context_current),
    Case::new("handle.context_tells_its_device", "S7", context_tells_its_device),
    Case::new("handle.stream_tells_its_owner", "S7", stream_tells_its_owner),
    Case::new("handle.default_stream_needs_a_current_context", "S7", default_stream_needs_a_current_context),
    Case::new("handle.primary_context_is_active", "S7", primary_context_is_active),
    Case::new("handle.context_outlives_its_work", "S7", context_outlives_its_work),
    Case::new("handle.contexts_of_one_handle_are_one", "S7", contexts_of_one_handle_are_one),
    Case::new("handle.context_of_another_device", "S7", context_of_another_device).needs(&[Need::TwoDevices]),
    Case::new("handle.stream_in_a_context_of_others", "S7", stream_in_a_context_of_others),
    Case::new("handle.event_is_waited_for", "S7", event_is_waited_for),
    Case::new("handle.event_is_kept_by_a_graph", "S7", event_is_kept_by_a_graph),
];

fn asked<T>(what: &str, result: Result<T, Failure>) -> Result<T, Failed> {
    result.map_err(|failure| Failed(format!("{what}: {failure:?}")))
}

/// A context, and perhaps an event in it, which are destroyed when this is dropped.
struct Theirs {
    device: Device,
    context: ContextHandle,
    event: Option<EventHandle>,
    dropped: Arc<AtomicBool>,
}

impl Theirs {
    fn context(device: &Device) -> Result<Self, Failed> {
        let made = device.driver().context_create(device.ordinal(), ContextFlags::empty());
        let context = asked("creating a context", made)?;
        Ok(Self { device: device.clone(), context, event: None, dropped: Arc::default() })
    }

    /// An event in a context that outlives it.
    fn event(context: &Context) -> Result<Self, Failed> {
        let (device, handle) = (context.device().clone(), context.as_raw());
        let made = device.driver().event_create(&context.live().into(), EventFlags::empty());
        let event = Some(asked("creating an event", made)?);
        Ok(Self { device, context: handle, event, dropped: Arc::default() })
    }

    fn call(&self) -> Call<'_> {
        // SAFETY: the context exists as long as this.
        unsafe { Live::new(self.context) }.into()
    }

    fn live_event(&self) -> Live<'_, EventHandle> {
        // SAFETY: the event exists as long as this; a null handle is refused.
        unsafe { Live::new(self.event.unwrap_or(EventHandle::from_raw(0))) }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
        let driver = self.device.driver();
        // SAFETY: each was made by this, and nobody uses it any more.
        let _ = unsafe {
            match self.event {
                Some(event) => driver.event_destroy(&self.call(), event),
                None => driver.context_destroy(&self.call()),
            }
        };
    }
}

/// A stream of the contract of the driver, which is destroyed at the end.
fn with_stream(theirs: &Theirs, action: impl FnOnce(StreamHandle) -> Verdict) -> Verdict {
    let driver = theirs.device.driver();
    let stream = asked("creating a stream", driver.stream_create(&theirs.call(), StreamFlags::NON_BLOCKING, 0))?;
    let verdict = action(stream);
    // SAFETY: the stream was made above, and nobody uses it any more.
    let destroyed = unsafe { driver.stream_destroy(&theirs.call(), stream) };
    verdict.and_then(|()| asked("destroying a stream", destroyed))
}

/// In a new thread, in which nobody has made a context current.
fn in_a_thread<R: Send>(action: impl FnOnce() -> Result<R, Failed> + Send) -> Result<R, Failed> {
    std::thread::scope(|scope| scope.spawn(action).join()).unwrap_or_else(|_| Err(Failed("a panic".to_owned())))
}

fn no_call_makes_a_context_current(environment: &Environment) -> Verdict {
    in_a_thread(|| {
        let driver = environment.device().driver();
        equal("before", asked("asking", driver.context_current())?, None)?;
        let own = environment.device().create_context(ContextFlags::empty())?;
        let stream = own.create_stream()?;
        equal("a round trip", stream.download(&stream.upload(&[1u32])?)?, vec![1])?;
        environment.context().synchronize()?;
        equal("afterwards", asked("asking", driver.context_current())?, None)
    })
}

fn context_tells_its_device(environment: &Environment) -> Verdict {
    for device in [Some(environment.device()), environment.peer().ok()].into_iter().flatten() {
        let context = device.create_context(ContextFlags::empty())?;
        let ordinal = asked("asking", device.driver().context_device(context.live()))?;
        equal("the device", ordinal, device.ordinal())?;
    }
    Ok(())
}

fn stream_tells_its_owner(environment: &Environment) -> Verdict {
    let own = environment.device().create_context(ContextFlags::empty())?;
    for context in [environment.context(), &own] {
        for stream in [context.create_stream()?, context.create_stream_with_flags(StreamFlags::empty())?] {
            let owner = asked("asking", environment.device().driver().stream_owner(stream.live()))?;
            equal("the owner", owner, context.as_raw())?;
        }
    }
    Ok(())
}

fn default_stream_needs_a_current_context(environment: &Environment) -> Verdict {
    in_a_thread(|| {
        for stream in [Live::LEGACY, Live::PER_THREAD] {
            let owner = environment.device().driver().stream_owner(stream);
            equal("the owner", status_of(owner), Status::INVALID_CONTEXT)?;
        }
        Ok(())
    })
}

fn primary_context_is_active(environment: &Environment) -> Verdict {
    let device = environment.device();
    holds("while it is retained", asked("asking", device.driver().primary_context_is_active(device.ordinal()))?)
}

fn context_outlives_its_work(environment: &Environment) -> Verdict {
    let theirs = Theirs::context(environment.device())?;
    let (handle, dropped) = (theirs.context, theirs.dropped.clone());
    // SAFETY: it destroys the context when it is dropped.
    let context = unsafe { Context::from_raw(environment.device(), handle, theirs)? };
    equal("the handle", context.as_raw(), handle)?;
    let stream = context.create_stream()?;
    let mut buffer = stream.upload(&[1u32, 2])?;
    equal("a round trip", stream.download(&buffer)?, vec![1, 2])?;
    let gate = Gate::shut(environment, &stream)?;
    stream.fill(&mut buffer, 3)?;
    drop((buffer, stream, context));
    let is_kept = !dropped.load(Ordering::SeqCst);
    gate.open();
    // The memory that the stream has waited for knows the stream, which keeps the context.
    drop(gate);
    holds("it is kept while work runs", is_kept)?;
    for _ in 0..10_000 {
        flush_deferred_drops();
        if dropped.load(Ordering::SeqCst) {
            return Ok(());
        }
        std::thread::yield_now();
    }
    Err(Failed("it is not dropped after the work".to_owned()))
}

fn contexts_of_one_handle_are_one(environment: &Environment) -> Verdict {
    let made = environment.device().create_context(ContextFlags::empty())?;
    let theirs = Theirs::context(environment.device())?;
    // SAFETY: the contexts outlive what is made of their handles.
    let foreign = unsafe { Context::from_raw(environment.device(), theirs.context, theirs)? };
    for context in [environment.context(), &made, &foreign] {
        // SAFETY: as before.
        let again = unsafe { Context::from_raw(environment.device(), context.as_raw(), ())? };
        holds("they are equal", again == *context && again.id() == context.id())?;
        let (stream, other) = (context.create_stream()?, again.create_stream()?);
        let mut buffer = stream.allocate_zeroed::<u32>(1)?;
        let before = context.orders_inserted();
        other.fill(&mut buffer, 2)?;
        equal("orders that each of them counts", again.orders_inserted() - before, 1)?;
        equal("the buffer", other.download(&buffer)?, vec![2])?;
    }
    // SAFETY: what is refused is not used.
    let null = unsafe { Context::from_raw(environment.device(), ContextHandle::from_raw(0), ()) };
    refused("the null handle", null, Status::INVALID_CONTEXT)
}

fn context_of_another_device(environment: &Environment) -> Verdict {
    let other = environment.peer()?.create_context(ContextFlags::empty())?;
    // SAFETY: what is refused is not used.
    let opened = unsafe { Context::from_raw(environment.device(), other.as_raw(), ()) };
    refused("a context of another device", opened, Status::INVALID_DEVICE)
}

/// An instance that has the device under test.
fn stream_of<'a>(environment: &Environment, handle: StreamHandle) -> anabranch::Result<BorrowedStream<'a>> {
    let device = environment.device();
    let builder = Instance::builder().cuda(false).host(false).driver(device.driver().clone());
    // SAFETY: the callers' streams outlive the result, and are those of the device's driver.
    unsafe { builder.build()?.stream_from_raw(device.backend(), handle) }
}

fn stream_in_a_context_of_others(environment: &Environment) -> Verdict {
    let theirs = Theirs::context(environment.device())?;
    with_stream(&theirs, |handle| {
        refused("of a context that nobody keeps", stream_of(environment, handle), Status::INVALID_CONTEXT)?;
        // SAFETY: the context outlives the result.
        let context = unsafe { Context::from_raw(environment.device(), theirs.context, ())? };
        let stream = stream_of(environment, handle)?;
        holds("it is of that context", stream.context() == context)?;
        equal("a round trip", stream.download(&stream.upload(&[1u32])?)?, vec![1])?;
        drop((stream, context));
        flush_deferred_drops();
        Ok(())
    })?;
    let own = environment.stream()?;
    let same = stream_of(environment, own.as_raw())?;
    holds("a stream of the primary context", *same == own && same.context() == *environment.context())
}

fn event_is_waited_for(environment: &Environment) -> Verdict {
    let (context, device) = (environment.context(), environment.device());
    let theirs = Theirs::event(context)?;
    let (first, second) = (environment.stream()?, environment.stream()?);
    let dropped = theirs.dropped.clone();
    let (driver, handle) = (device.driver(), theirs.live_event().handle());
    // SAFETY: it destroys the event when it is dropped.
    let event = unsafe { Event::from_raw(context, handle, theirs)? };
    equal("its flags", event.flags(), None)?;
    holds("an event that was never recorded is complete", event.query()?)?;
    for value in [1, 2] {
        let gate = Gate::shut(environment, &first)?;
        // The other library records it.
        asked(
            "recording",
            driver.event_record(&context.live().into(), event.live(), first.live(), EventRecordFlags::empty()),
        )?;
        let pending = event.query()?;
        second.wait_event(&event)?;
        let mut buffer = second.allocate_zeroed::<u32>(1)?;
        second.fill(&mut buffer, value)?;
        let waits = second.query()?;
        gate.open();
        holds("its record is seen", !pending)?;
        holds("a stream waits for it", !waits)?;
        equal("the work behind it", second.download(&buffer)?, vec![value])?;
        event.synchronize()?;
    }
    // This library records it as well.
    second.record(&event)?;
    event.synchronize()?;
    drop(event);
    flush_deferred_drops();
    holds("its keeper is dropped", dropped.load(Ordering::SeqCst))?;
    // SAFETY: what is refused is not used.
    let null = unsafe { Event::from_raw(context, EventHandle::from_raw(0), ()) };
    refused("the null handle", null, Status::INVALID_HANDLE)
}

fn event_is_kept_by_a_graph(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let theirs = Theirs::event(context)?;
    let (handle, dropped) = (theirs.live_event().handle(), theirs.dropped.clone());
    // SAFETY: it destroys the event when it is dropped.
    let event = unsafe { Event::from_raw(context, handle, theirs)? };
    let graph = stream.capture(anabranch::CaptureMode::Relaxed, |scope| {
        scope.record_with_flags(&event, EventRecordFlags::EXTERNAL)?;
        scope.wait_event_with_flags(&event, EventWaitFlags::EXTERNAL)
    })?;
    drop(event);
    is_kept_by_the_executable(graph, &stream, &dropped)
}
