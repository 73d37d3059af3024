//! External records and waits that mean the same outside a capture, and waits for streams by a given event.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{CaptureMode, EventRecordFlags, EventWaitFlags, GraphNodeKind, Result, Status, Stream};
use common::{checked_host, hold, host, is_a_chain};

#[test]
fn a_record_returns_its_event() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let event = context.create_event().unwrap();
    assert_eq!(stream.record(&event).unwrap().id(), event.id());
    assert_eq!(stream.record_with_flags(&event, EventRecordFlags::empty()).unwrap().id(), event.id());
    assert_eq!(stream.record_external(&event).unwrap().id(), event.id());
}

#[test]
fn outside_a_capture_external_calls_are_ordinary_ones() {
    let context = host();
    let (held, waiting) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let flagged = held.record_with_flags(&event, EventRecordFlags::EXTERNAL).map(drop);
    assert_eq!(flagged.unwrap_err().status(), Status::ILLEGAL_STATE);
    let flagged = waiting.wait_event_with_flags(&event, EventWaitFlags::EXTERNAL);
    assert_eq!(flagged.unwrap_err().status(), Status::ILLEGAL_STATE);

    let gate = hold(&context, &held);
    held.record_external(&event).unwrap();
    waiting.wait_event_external(&event).unwrap();
    assert!(!event.query().unwrap() && !waiting.query().unwrap());
    gate.set(1);
    waiting.synchronize().unwrap();
    assert!(event.query().unwrap());
}

#[test]
fn an_order_that_the_external_calls_make_is_known() {
    let context = host();
    context.set_strict_order(true);
    let (producer, consumer) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let buffer = producer.upload(&[1u32, 2]).unwrap();
    consumer.wait_stream_external(&producer, &event).unwrap();
    assert_eq!(consumer.download(&buffer).unwrap(), [1, 2]);
    let other = producer.allocate_zeroed::<u32>(2).unwrap();
    consumer.wait_stream_with_event(&producer, &event).unwrap();
    assert_eq!(consumer.download(&other).unwrap(), [0, 0]);
}

#[test]
fn in_a_capture_they_become_nodes_and_nobody_joins() {
    let context = host();
    let (stream, outside) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (before, after) = (context.create_event().unwrap(), context.create_event().unwrap());
    let step = |stream: &Stream| -> Result<()> {
        stream.wait_stream_external(&outside, &before)?;
        outside.wait_stream_external(stream, &after)
    };
    let graph = stream.capture(CaptureMode::Relaxed, |scope| step(scope)).unwrap();
    assert!(!outside.is_capturing().unwrap());
    let kinds: Vec<_> = graph.nodes().unwrap().into_iter().map(|node| graph.node_kind(node).unwrap()).collect();
    assert_eq!(kinds, [GraphNodeKind::EVENT_WAIT, GraphNodeKind::EVENT_RECORD]);
    assert!(is_a_chain(&graph));
    let executable = graph.instantiate().unwrap();
    let gate = hold(&context, &outside);
    outside.record(&before).unwrap();
    executable.launch(&stream).unwrap();
    assert!(!stream.query().unwrap(), "the launch waits for what is outside");
    gate.set(1);
    stream.synchronize().unwrap();
    assert!(after.query().unwrap());
    // The same code without a capture.
    step(&stream).unwrap();
    outside.synchronize().unwrap();
}

#[test]
fn a_wait_for_an_event_of_a_capture_joins_it() {
    let context = host();
    let (origin, joins) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let graph = origin.capture(CaptureMode::Relaxed, |scope| {
        joins.wait_event_external(scope.record(&event)?)?;
        assert!(joins.is_capturing()?);
        scope.join(&joins)
    });
    assert!(graph.unwrap().nodes().unwrap().is_empty());
}

#[test]
fn threads_that_begin_and_end_captures_meanwhile_make_no_difference() {
    let context = checked_host();
    let (stream, waiting) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2000 {
                stream.capture(CaptureMode::Relaxed, |_| Ok(())).unwrap();
            }
        });
        for _ in 0..2000 {
            stream.record_external(&event).unwrap();
            stream.wait_event_external(&event).unwrap();
            waiting.wait_event_external(&event).unwrap();
        }
    });
    assert!(!waiting.is_capturing().unwrap());
    context.synchronize().unwrap();
}
