//! Classes of defects of what is leaked: it costs a leak and nothing more. `docs/safety.md` lists them all by the numbers in
//! the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{Call, Driver, EventHandle, EventRecordFlags, Forward, Layered, Live, Result};
use anabranch::{CaptureMode, Context, Instance, Status, Stream, StreamFlags, StreamHandle, flush_deferred_drops};
use common::{assert_ends, checked_host, hold, host};
use std::collections::HashSet;
use std::future::Future;
use std::mem::forget;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

/// Notes records in streams that were destroyed, which the host device may not notice.
#[derive(Debug)]
struct Watch {
    inner: Arc<dyn Driver>,
    destroyed: Mutex<HashSet<StreamHandle>>,
    misused: Arc<AtomicBool>,
}

// SAFETY: all calls go to the one driver, except records in streams that were destroyed, which the test then reports.
unsafe impl Forward for Watch {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn stream_create(&self, call: &Call<'_>, flags: StreamFlags, priority: i32) -> Result<StreamHandle> {
        let stream = self.inner.stream_create(call, flags, priority)?;
        self.destroyed.lock().unwrap().remove(&stream);
        Ok(stream)
    }

    unsafe fn stream_destroy(&self, call: &Call<'_>, stream: StreamHandle) -> Result<()> {
        self.destroyed.lock().unwrap().insert(stream);
        // SAFETY: the caller promises that the stream exists, and that nobody uses it afterwards.
        unsafe { self.inner.stream_destroy(call, stream) }
    }

    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> Result<()> {
        if self.destroyed.lock().unwrap().contains(&stream.handle()) {
            self.misused.store(true, Ordering::SeqCst);
            return Ok(());
        }
        self.inner.event_record(call, event, stream, flags)
    }
}

/// A host device that is watched, and whether a stream was used that was destroyed.
fn watched() -> (Context, Arc<AtomicBool>) {
    let misused = Arc::new(AtomicBool::new(false));
    let noted = misused.clone();
    let wrap = move |inner| {
        let watch = Watch { inner, destroyed: Mutex::default(), misused: noted.clone() };
        Arc::new(Layered(watch)) as Arc<dyn Driver>
    };
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
    (instance.device("host").unwrap().context().unwrap(), misused)
}

/// How a stream ends. With its raw handle it becomes the caller's.
const WAYS_TO_END: [fn(Stream); 3] =
    [drop::<Stream>, |stream| stream.shutdown().unwrap(), |stream| _ = stream.into_raw()];

#[test]
fn safety_37_a_leaked_handle_of_a_stream_is_none_of_a_stream_that_was_destroyed() {
    assert_ends(|| {
        let (context, misused) = watched();
        let other = context.create_stream().unwrap();
        for ends in WAYS_TO_END {
            let stream = context.create_stream().unwrap();
            let mut buffer = stream.upload(&[1u32; 100]).unwrap();
            forget(stream.to_borrowed());
            stream.fill(&mut buffer, 7).unwrap();
            ends(stream);
            // New streams, of which one may have the handle of the one before.
            let streams: Vec<_> = (0..4).map(|_| context.create_stream().unwrap()).collect();
            other.fill(buffer.slice_mut(..50).unwrap(), 8).unwrap();
            assert_eq!(other.download(&buffer).unwrap()[49..51], [8, 7]);
            // Whoever frees these asks each stream of the context whether it is idle.
            drop((buffer, context.allocate_pinned::<u32>(100).unwrap()));
            drop(streams);
            flush_deferred_drops();
            context.synchronize().unwrap();
        }
        assert!(!misused.load(Ordering::SeqCst), "an event is recorded in a stream that was destroyed");
        assert!(context.device().memory_report().unwrap().findings.is_empty());
    });
}

#[test]
fn safety_38_a_leaked_guard_of_the_current_stream_lets_no_stream_be_used_that_has_ended() {
    let context = checked_host();
    let outer = context.create_stream().unwrap();
    let _outer = outer.enter();
    for ends in WAYS_TO_END {
        let inner = context.create_stream().unwrap();
        let id = inner.id();
        forget(inner.enter());
        Stream::with_current(|current| {
            let current = current.unwrap();
            assert_eq!(current.id(), id);
            ends(inner);
            // Before it ended it was current, so that it ends when this returns, unless its handle was given out.
            let new: Vec<_> = (0..4).map(|_| context.create_stream().unwrap()).collect();
            if let Ok(buffer) = current.upload(&[3u32]) {
                assert_eq!(current.download(&buffer).unwrap(), [3]);
            }
            drop(new);
        });
        assert_eq!(Stream::with_current(|current| current.map(Stream::id)), Some(outer.id()));
    }
    context.synchronize().unwrap();
    assert!(context.device().memory_report().unwrap().findings.is_empty());
}

#[test]
fn safety_38_leaked_futures_and_modes_cost_their_memory_only() {
    assert_ends(|| {
        let context = host();
        let stream = context.create_stream().unwrap();
        let mut buffer = stream.upload(&[1u32; 100]).unwrap();
        let mut task = TaskContext::from_waker(Waker::noop());
        let gate = hold(&context, &stream);
        for polls in [false, true] {
            let mut download = Box::pin(stream.download_async(&buffer));
            let mut upload = Box::pin(stream.upload_async([2u32; 100]));
            let mut completion = Box::pin(stream.completion_future());
            if polls {
                assert!(download.as_mut().poll(&mut task).is_pending());
                assert!(upload.as_mut().poll(&mut task).is_pending());
                assert!(completion.as_mut().poll(&mut task).is_pending());
            }
            forget((download, upload, completion));
            // What follows comes behind the leaked copy, and gets other staging memory.
            stream.fill(&mut buffer, 5).unwrap();
        }
        std::thread::spawn({
            let context = context.clone();
            move || forget(context.exchange_capture_mode(CaptureMode::Relaxed).unwrap())
        })
        .join()
        .unwrap();
        let mut later = pin!(stream.download_async(&buffer));
        assert!(later.as_mut().poll(&mut task).is_pending());
        gate.set(1);
        assert_eq!(futures::executor::block_on(later).unwrap(), [5; 100]);
        // The mode was that of the other thread.
        let capturing = context.create_stream().unwrap();
        capturing.begin_capture(CaptureMode::Global).unwrap();
        assert_eq!(stream.query().unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        capturing.end_capture().unwrap_err();
        drop(buffer);
        stream.shutdown().unwrap();
        flush_deferred_drops();
    });
}

#[test]
fn safety_163_staging_memory_above_its_limit_is_used_again() {
    let context = checked_host();
    let (held, stream) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let buffer = stream.upload(&vec![1u8; 1 << 20]).unwrap();
    stream.synchronize().unwrap();
    context.set_staging_limit(1 << 10);
    // The context is not idle from here on.
    let gate = hold(&context, &held);
    let allocations = || context.device().memory_report().unwrap().allocations.len();
    let mut most = 0;
    for round in 0..40 {
        let words = futures::executor::block_on(stream.download_async(&buffer)).unwrap();
        assert_eq!(words.len(), 1 << 20);
        flush_deferred_drops();
        if round == 9 {
            most = allocations();
        }
    }
    assert!(allocations() <= most, "{} of {most}", allocations());
    gate.set(1);
    held.synchronize().unwrap();
}

#[test]
fn safety_178_a_stream_whose_handle_is_taken_goes_on_while_it_is_current() {
    let context = host();
    let other = context.create_stream().unwrap();
    let mut memory = vec![1u32; 1 << 12];
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    let mut buffer = other.upload(&[1u32; 4]).unwrap();
    let stream = Arc::new(context.create_stream().unwrap());
    stream.make_current();
    let handle = Stream::with_current(|current| {
        let current = current.unwrap();
        let handle = Arc::into_inner(stream).unwrap().into_raw();
        let signal = hold(&context, current);
        current.fill(&mut pinned, 7u32).unwrap();
        current.fill(&mut buffer, 7u32).unwrap();
        assert!(!pinned.is_idle().unwrap());
        let held = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                signal.set(1);
            });
            context.register_scope(&mut memory, |memory| current.fill(memory, 7u32))
        });
        held.unwrap();
        handle
    });
    assert_eq!(memory[..4], [7; 4]);
    assert_eq!(pinned.as_slice().unwrap(), [7; 4]);
    assert_eq!(other.download(&buffer).unwrap(), [7; 4]);
    assert!(Stream::with_current(|current| current.is_none()));
    // SAFETY: the handle is this test's, and nobody else uses it any more.
    drop(unsafe { Stream::from_raw(&context, handle) }.unwrap());
    context.synchronize().unwrap();
}
