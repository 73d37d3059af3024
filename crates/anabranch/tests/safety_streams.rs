//! Classes of defects of streams that end, and of streams whose work somebody waits for: memory is not given back before the
//! work that uses it. `docs/safety.md` lists them all by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{Call, Driver, EventFlags, EventHandle, Forward, Layered, Live, Result, StreamHandle};
use anabranch::{
    Buffer, CaptureMode, Context, DevicePointer, Instance, Status, Stream, StreamFlags, flush_deferred_drops,
};
use common::{checked_host, hold, until};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Whether memory is allocated.
fn is_allocated(context: &Context, address: DevicePointer) -> bool {
    let allocations = context.device().memory_report().unwrap().allocations;
    allocations.iter().any(|allocation| allocation.address == address.0)
}

/// A stream that the legacy default stream waits for.
fn blocking(context: &Context) -> Stream {
    context.create_stream_with_flags(StreamFlags::empty()).unwrap()
}

fn no_findings(context: &Context) {
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

/// Calls of the driver that a test wants to be in the middle of.
#[derive(Debug)]
struct Watched {
    driver: Arc<dyn Driver>,
    /// A capture has begun, and the call that began it has not returned.
    has_begun: Sender<()>,
    goes_on: Mutex<Receiver<()>>,
    /// A thread is about to wait for a stream.
    waits: Sender<()>,
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Watched {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    fn stream_begin_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>, mode: CaptureMode) -> Result<()> {
        self.inner().stream_begin_capture(call, stream, mode)?;
        self.has_begun.send(()).unwrap();
        // Where the other thread waits for this call, it cannot say that this call may go on.
        let _ = self.goes_on.lock().unwrap().recv_timeout(Duration::from_millis(100));
        Ok(())
    }

    fn stream_synchronize(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
        self.waits.send(()).unwrap();
        self.inner().stream_synchronize(call, stream)
    }
}

/// A host device that checks memory, with that layer: what has begun, what lets it go on, and who waits.
fn watched() -> (Context, Receiver<()>, Sender<()>, Receiver<()>) {
    let driver = checked_host().device().driver().clone();
    let (has_begun, begun) = channel();
    let (go_on, goes_on) = channel();
    let (waits, waiting) = channel();
    let layer = Watched { driver, has_begun, goes_on: Mutex::new(goes_on), waits };
    let instance = Instance::builder().cuda(false).host(false).driver(Arc::new(Layered(layer))).build().unwrap();
    (instance.device("host").unwrap().context().unwrap(), begun, go_on, waiting)
}

#[test]
fn safety_63_who_ends_a_capture_does_not_end_one_that_another_thread_has_just_begun() {
    let (context, begun, go_on, _waiting) = watched();
    let stream = context.create_stream().unwrap();
    thread::scope(|scope| {
        let beginning = scope.spawn(|| stream.begin_capture(CaptureMode::Relaxed));
        begun.recv().unwrap();
        let ended = stream.end_capture();
        let _ = go_on.send(());
        beginning.join().unwrap().unwrap();
        ended.unwrap();
    });
    let buffer = stream.upload(&[7u32; 4]).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [7; 4]);
    no_findings(&context);
}

#[test]
fn safety_64_memory_of_a_stream_that_was_opened_again_is_freed_behind_its_uses_under_the_new_object() {
    let context = checked_host();
    let first = context.legacy_stream().unwrap();
    let mut buffer = first.upload(&[1u32; 4]).unwrap();
    drop(first);
    let second = context.legacy_stream().unwrap();
    let held = hold(&context, &second);
    second.fill(&mut buffer, 2u32).unwrap();
    let address = buffer.device_pointer();
    drop(buffer);
    flush_deferred_drops();
    held.set(1);
    no_findings(&context);
    until("the free", || !is_allocated(&context, address));
}

#[test]
fn safety_65_work_of_a_default_stream_that_is_dropped_beside_a_capture_is_not_forgotten() {
    let context = checked_host();
    let (capturing, legacy) = (blocking(&context), context.legacy_stream().unwrap());
    let mut buffer = legacy.upload(&[1u32; 4]).unwrap();
    let held = hold(&context, &legacy);
    legacy.fill(&mut buffer, 2u32).unwrap();
    let address = buffer.device_pointer();
    capturing.begin_capture(CaptureMode::Relaxed).unwrap();
    drop(legacy);
    drop(buffer);
    flush_deferred_drops();
    capturing.end_capture().unwrap();
    flush_deferred_drops();
    held.set(1);
    no_findings(&context);
    until("the free", || !is_allocated(&context, address));
}

#[test]
fn safety_66_a_stream_that_a_thread_waits_for_is_not_idle() {
    // Whether the thread waits already when the capture begins is not up to the test.
    assert!((0..100).any(|_| is_kept_while_a_thread_waits()), "the thread has never waited in time");
}

/// Memory of a stream that a thread waits for is kept. `false`: the thread began to wait beside the capture, and so invalidated
/// it.
fn is_kept_while_a_thread_waits() -> bool {
    let (context, begun, go_on, waiting) = watched();
    let (capturing, legacy) = (blocking(&context), context.legacy_stream().unwrap());
    let mut buffer = legacy.upload(&[1u32; 4]).unwrap();
    let address = buffer.device_pointer();
    let held = hold(&context, &legacy);
    legacy.fill(&mut buffer, 2u32).unwrap();
    while waiting.try_recv().is_ok() {}
    let waited_in_time = thread::scope(|scope| {
        let wait = scope.spawn(|| legacy.synchronize());
        waiting.recv().unwrap();
        go_on.send(()).unwrap();
        capturing.begin_capture(CaptureMode::Relaxed).unwrap();
        begun.recv().unwrap();
        drop(buffer);
        let ended = capturing.end_capture();
        flush_deferred_drops();
        let is_kept = is_allocated(&context, address);
        held.set(1);
        let waited = wait.join().unwrap();
        assert!(is_kept);
        assert_eq!(ended.is_err(), waited.is_err(), "{ended:?} {waited:?}");
        waited.is_ok()
    });
    no_findings(&context);
    until("the free", || !is_allocated(&context, address));
    waited_in_time
}

#[test]
fn safety_67_a_capture_that_began_in_the_default_stream_of_a_thread_ends_with_the_thread() {
    let context = checked_host();
    let joined = context.create_stream().unwrap();
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let of_thread = context.per_thread_stream().unwrap();
            of_thread.begin_capture(CaptureMode::Relaxed).unwrap();
            joined.wait_stream(&of_thread).unwrap();
        });
        thread.join().unwrap();
    });
    assert!(!joined.is_capturing().unwrap());
    let buffer = joined.upload(&[7u32; 4]).unwrap();
    assert_eq!(joined.download(&buffer).unwrap(), [7; 4]);
    drop(buffer);
    no_findings(&context);
}

/// Counts the events that exist.
#[derive(Debug)]
struct Events(Arc<dyn Driver>, Arc<AtomicUsize>);

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for Events {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    fn event_create(&self, call: &Call<'_>, flags: EventFlags) -> Result<EventHandle> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.event_create(call, flags)
    }

    unsafe fn event_destroy(&self, call: &Call<'_>, event: EventHandle) -> Result<()> {
        self.1.fetch_sub(1, Ordering::SeqCst);
        // SAFETY: passed on.
        unsafe { self.0.event_destroy(call, event) }
    }
}

#[test]
fn safety_94_readers_that_have_ended_are_forgotten() {
    let events = Arc::new(AtomicUsize::new(0));
    let counted = events.clone();
    let wrap = move |inner| Arc::new(Layered(Events(inner, counted.clone()))) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let weights = context.create_stream().unwrap().upload(&[1u32; 16]).unwrap();
    for round in 0..10 {
        for _ in 0..50 {
            // Each leaves an event behind its work.
            let reader = context.create_stream().unwrap();
            let copy = reader.clone_buffer(&weights).unwrap();
            drop((reader, copy));
        }
        context.synchronize().unwrap();
        flush_deferred_drops();
        let left = events.load(Ordering::SeqCst);
        assert!(left < 200, "{left} events are left after {} streams", (round + 1) * 50);
    }
}

thread_local! {
    static KEPT: RefCell<Option<AtThreadEnd>> = const { RefCell::new(None) };
}

/// What a thread keeps to its end, and what it finds there.
struct AtThreadEnd {
    stream: Stream,
    buffer: Option<Buffer<u32>>,
    results: Sender<anabranch::Result<()>>,
}

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        let buffer = self.buffer.as_mut().unwrap();
        self.results.send(self.stream.fill(buffer, 1)).unwrap();
        self.buffer = None;
        let own = self.stream.context().per_thread_stream().map(drop);
        self.results.send(own).unwrap();
    }
}

#[test]
fn safety_98_memory_of_default_streams_is_freed_by_destructors_of_thread_locals() {
    for first_of_thread in ["variable", "stream"] {
        let context = checked_host();
        let (results, result) = channel();
        let thread = thread::spawn({
            let context = context.clone();
            move || {
                // What a thread uses first is destroyed last.
                if first_of_thread == "variable" {
                    KEPT.with(|_| ());
                }
                let stream = context.per_thread_stream().unwrap();
                let buffer = stream.upload(&[7u32; 64]).unwrap();
                let address = buffer.device_pointer();
                KEPT.set(Some(AtThreadEnd { stream, buffer: Some(buffer), results }));
                address
            }
        });
        let address = thread.join().unwrap();
        let statuses: Vec<_> = result.iter().map(|result| result.err().map(|error| error.status())).collect();
        let expected = if first_of_thread == "variable" { Some(Status::DEINITIALIZED) } else { None };
        assert_eq!(statuses, [expected, expected], "the thread used the {first_of_thread} first");
        until("the free", || !is_allocated(&context, address));
        no_findings(&context);
    }
}
