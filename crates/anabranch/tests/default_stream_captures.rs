//! Captures in the default stream of a thread whose objects are dropped meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{CaptureStatus, Live};
use anabranch::{CaptureMode, Context, Status, Stream, StreamFlags, flush_deferred_drops};
use common::host;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

const MODES: [CaptureMode; 3] = [CaptureMode::Relaxed, CaptureMode::ThreadLocal, CaptureMode::Global];

/// Nothing is captured any more in the thread's default stream, which can be used, and in another one.
fn assert_abandoned(context: &Context, other: &Stream) {
    assert!(!other.is_capturing().unwrap());
    thread::scope(|scope| scope.spawn(|| context.synchronize().unwrap()).join().unwrap());
    let stream = context.per_thread_stream().unwrap();
    assert!(!stream.is_capturing().unwrap());
    let buffer = stream.upload(&[7u32]).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [7]);
    context.synchronize().unwrap();
}

#[test]
fn safety_123_a_default_stream_dropped_while_it_captures_gives_the_capture_up() {
    for mode in MODES {
        let context = host();
        let other = context.create_stream().unwrap();
        let mut buffer = other.upload(&[1u32]).unwrap();
        let stream = context.per_thread_stream().unwrap();
        stream.begin_capture(mode).unwrap();
        stream.fill(&mut buffer, 2u32).unwrap();
        other.wait_stream(&stream).unwrap();
        drop(stream);
        assert_abandoned(&context, &other);
        assert_eq!(other.download(&buffer).unwrap(), [1], "what was captured never ran");
    }
}

#[test]
fn safety_123_a_panic_between_begin_and_end_gives_the_capture_up() {
    let context = host();
    let other = context.create_stream().unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let stream = context.per_thread_stream().unwrap();
        stream.begin_capture(CaptureMode::Global).unwrap();
        other.wait_stream(&stream).unwrap();
        resume_unwind(Box::new("between"));
    }));
    assert!(unwound.is_err());
    assert_abandoned(&context, &other);
}

#[test]
fn safety_123_another_object_of_the_default_stream_goes_on_with_the_capture() {
    for by_handle in [false, true] {
        let context = host();
        let other = context.create_stream().unwrap();
        let mut buffer = other.upload(&[1u32]).unwrap();
        let (stream, second) = (context.per_thread_stream().unwrap(), context.per_thread_stream().unwrap());
        stream.begin_capture(CaptureMode::Global).unwrap();
        match by_handle {
            true => assert!(stream.into_raw().is_per_thread()),
            false => drop(stream),
        }
        second.fill(&mut buffer, 2u32).unwrap();
        second.end_capture().unwrap().instantiate().unwrap().launch(&second).unwrap();
        assert_eq!(second.download(&buffer).unwrap(), [2]);
        let third = context.per_thread_stream().unwrap();
        third.begin_capture(CaptureMode::Global).unwrap();
        other.wait_stream(&second).unwrap();
        drop((third, second));
        assert_abandoned(&context, &other);
    }
}

#[test]
fn safety_123_a_default_stream_dropped_on_another_thread_ends_no_capture_there() {
    for by_handle in [false, true] {
        let context = host();
        let stream = context.per_thread_stream().unwrap();
        stream.begin_capture(CaptureMode::Relaxed).unwrap();
        thread::scope(|scope| {
            let there = scope.spawn(|| {
                let own = context.per_thread_stream().unwrap();
                own.begin_capture(CaptureMode::Relaxed).unwrap();
                match by_handle {
                    true => assert!(stream.into_raw().is_per_thread()),
                    false => drop(stream),
                }
                flush_deferred_drops();
                own.launch_repeatable_host_func(|| {}).unwrap();
                assert_eq!(own.end_capture().unwrap().nodes().unwrap().len(), 1);
            });
            there.join().unwrap();
        });
        // Its own thread abandons it, by asking for the stream.
        assert!(!context.per_thread_stream().unwrap().is_capturing().unwrap());
        context.synchronize().unwrap();
    }
}

#[test]
fn safety_123_a_capture_that_another_library_began_is_its_own_to_end() {
    let context = host();
    let stream = context.per_thread_stream().unwrap();
    let (device, handle) = (context.device(), stream.as_raw());
    // SAFETY: the context outlives the calls, and the stream is the thread's own.
    let (live, handle) = unsafe { (Live::new(context.as_raw()), Live::new(handle)) };
    let (driver, call) = (device.driver(), live.into());
    driver.stream_begin_capture(&call, handle, CaptureMode::Relaxed).unwrap();
    drop(stream);
    assert_eq!(context.per_thread_stream().unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(driver.stream_capture_status(&call, handle), Ok(CaptureStatus::Active));
    let graph = driver.stream_end_capture(&call, handle).unwrap();
    // SAFETY: this is the only use of the graph.
    unsafe { driver.graph_destroy(&call, graph) }.unwrap();
    context.synchronize().unwrap();
}

#[test]
fn safety_130_a_thread_ends_that_has_ended_a_capture_before_its_default_stream_was_used() {
    common::assert_ends(|| {
        let context = host();
        let other = context.create_stream().unwrap();
        let capturing = context.clone();
        // Joining waits for the destructors of the thread.
        let ending = thread::spawn(move || {
            other.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap();
            let stream = capturing.per_thread_stream().unwrap();
            stream.begin_capture(CaptureMode::Relaxed).unwrap();
            std::mem::forget(stream);
        });
        ending.join().unwrap();
        context.synchronize().unwrap();
    });
}

#[test]
fn to_end_a_capture_in_the_legacy_stream_is_a_use_of_it() {
    let context = host();
    let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let legacy = context.legacy_stream().unwrap();
    assert_eq!(legacy.end_capture().unwrap_err().status(), Status::ILLEGAL_STATE);
    for mode in MODES {
        blocking.begin_capture(mode).unwrap();
        let refused = legacy.end_capture().unwrap_err();
        assert_eq!(refused.status(), Status::STREAM_CAPTURE_IMPLICIT, "{refused}");
        assert_eq!(blocking.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    }
}
