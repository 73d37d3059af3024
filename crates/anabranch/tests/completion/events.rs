//! Awaiting events.

use super::*;

#[test]
fn an_event_that_was_never_recorded_is_complete() {
    block_on(host().create_event().unwrap().completed()).unwrap();
}

#[test]
fn a_future_means_the_last_record_before_it_whatever_is_recorded_later() {
    let context = host();
    let (first, second) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (one, two) = (hold(&context, &first), hold(&context, &second));
    let event = first.record_event().unwrap();
    let (mut waiting, fresh) = (event.completed(), event.completed());
    assert!(poll(&mut waiting, Waker::noop()).is_pending());
    second.record(&event).unwrap();
    let mut later = event.completed();
    assert!(poll(&mut later, Waker::noop()).is_pending() && poll(&mut waiting, Waker::noop()).is_pending());
    one.set(1);
    block_on(waiting).unwrap();
    block_on(fresh).unwrap();
    assert!(poll(&mut later, Waker::noop()).is_pending() && !event.query().unwrap());
    two.set(1);
    block_on(later).unwrap();
}

#[test]
fn a_record_in_a_capture_leaves_what_is_awaited() {
    let context = host();
    let (stream, capturing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let signal = hold(&context, &stream);
    let event = stream.record_event().unwrap();
    let mut future = event.completed();
    assert!(poll(&mut future, Waker::noop()).is_pending());
    capturing.capture(CaptureMode::Global, |scope| scope.record(&event).map(drop)).unwrap();
    assert!(poll(&mut future, Waker::noop()).is_pending());
    signal.set(1);
    block_on(future).unwrap();
    assert_eq!(block_on(event.completed()).unwrap_err().status(), Status::INVALID_VALUE);
}

#[test]
fn an_event_can_be_dropped_while_it_is_awaited() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let mut future = stream.record_event().unwrap().completed();
    assert!(poll(&mut future, Waker::noop()).is_pending());
    signal.set(1);
    block_on(future).unwrap();
}

#[test]
fn a_record_that_is_awaited_and_complete_is_recorded_anew() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let event = stream.record_event().unwrap();
    for _ in 0..100 {
        let future = event.completed();
        stream.launch_host_func(|| {}).unwrap();
        stream.record(&event).unwrap();
        block_on(future).unwrap();
    }
}
