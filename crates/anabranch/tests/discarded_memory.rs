//! Memory of captures that are discarded. A process of its own, because the hook for errors of drops belongs to all tests of one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{CaptureMode, Status, StreamFlags, flush_deferred_drops, set_drop_error_hook};
use common::host;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn memory_of_an_invalid_capture_goes_without_an_error() {
    let errors = Arc::new(AtomicUsize::new(0));
    let counted = errors.clone();
    set_drop_error_hook(move |_| _ = counted.fetch_add(1, Ordering::SeqCst));
    let context = host();
    let stream = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    stream.begin_capture(CaptureMode::Global).unwrap();
    let memory = stream.allocate_zeroed::<u8>(100).unwrap();
    // The capture becomes invalid.
    context.legacy_stream().unwrap_err();
    drop(memory);
    flush_deferred_drops();
    assert_eq!(stream.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    assert_eq!(errors.load(Ordering::SeqCst), 0);
}

#[test]
fn an_event_of_a_capture_that_has_ended_says_so() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let event = context.create_event().unwrap();
    drop(stream.capture(CaptureMode::Relaxed, |scope| scope.stream().record(&event).map(drop)).unwrap());
    let errors = [event.query().unwrap_err(), event.synchronize().unwrap_err(), stream.wait_event(&event).unwrap_err()];
    for error in errors {
        assert_eq!(error.status(), Status::INVALID_VALUE);
        assert!(error.to_string().contains("recorded in a capture, which has ended or was invalidated"), "{error}");
    }
}
