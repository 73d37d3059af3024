//! Orders within captures are counted, and those around them kept.

use super::{copy_waits, held_word, is_held, streams};
use crate::common::{hold, host};
use anabranch::CaptureMode;

#[test]
fn edges_that_the_library_adds_are_counted() {
    let context = host();
    let [stream, other] = streams(&context);
    let source = stream.upload(&[5u32]).unwrap();
    let mut middle = stream.allocate_zeroed::<u32>(1).unwrap();
    let mut result = stream.allocate_zeroed::<u32>(1).unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |scope| {
            scope.fork(&other)?;
            other.copy(&mut middle, &source)?;
            scope.copy(&mut result, &middle)?;
            scope.copy(&mut result, &middle)?;
            scope.join(&other)
        })
        .unwrap();
    assert_eq!((stream.orders_inserted(), other.orders_inserted()), (1, 0));
    graph.instantiate().unwrap().launch(&other).unwrap();
    // The launch comes after what was done with the memory before, by other streams: that is all complete, or one wait.
    let launched = other.orders_inserted();
    assert_eq!(stream.download(&result).unwrap(), [5]);
    assert_eq!((launched, stream.orders_inserted()), (1, 2));
}

#[test]
fn edges_made_by_hand_are_not_made_again() {
    let context = host();
    let [stream, other] = streams(&context);
    let source = stream.upload(&[5u32]).unwrap();
    let mut middle = stream.allocate_zeroed::<u32>(1).unwrap();
    let mut result = stream.allocate_zeroed::<u32>(1).unwrap();
    stream
        .capture(CaptureMode::Global, |scope| {
            scope.fork(&other)?;
            other.copy(&mut middle, &source)?;
            scope.wait(&other.record_event()?)?;
            scope.copy(&mut result, &middle)
        })
        .unwrap();
    assert_eq!(context.orders_inserted(), 0);
}

#[test]
fn a_stream_that_is_drawn_in_by_a_use_is_counted() {
    let context = host();
    let [stream, other] = streams(&context);
    let source = stream.upload(&[5u32]).unwrap();
    let mut middle = stream.allocate_zeroed::<u32>(1).unwrap();
    let mut result = other.allocate_zeroed::<u32>(1).unwrap();
    other.synchronize().unwrap();
    stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.copy(&mut middle, &source)?;
            other.copy(&mut result, &middle)?;
            scope.join(&other)
        })
        .unwrap();
    assert_eq!((stream.orders_inserted(), other.orders_inserted()), (0, 1));
}

#[test]
fn a_wait_within_a_capture_is_no_order_for_work_outside() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    producer
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fork(&consumer)?;
            scope.join(&consumer)
        })
        .unwrap();
    copy_waits(&consumer, &word, 1, &signal);
}

#[test]
fn a_stream_that_captures_is_followed_up_to_its_work_before() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    let mut copy = consumer.allocate_zeroed::<u32>(1).unwrap();
    producer
        .capture(CaptureMode::Relaxed, |_| {
            for _ in 0..2 {
                consumer.copy(&mut copy, &word)?;
                assert_eq!(consumer.orders_inserted(), 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(is_held(&consumer));
    signal.set(1);
    assert_eq!(consumer.download(&copy).unwrap(), [7]);
}

#[test]
fn launches_of_graphs_are_uses_like_others() {
    let context = host();
    let [stream, other, third] = streams(&context);
    let mut memory = stream.allocate_zeroed::<u32>(1).unwrap();
    let executable = stream.capture_executable(CaptureMode::Global, |scope| scope.fill(&mut memory, 7u32)).unwrap();
    stream.synchronize().unwrap();
    let signal = hold(&context, &other);
    executable.launch(&other).unwrap();
    executable.launch(&other).unwrap();
    third.wait(&other.record_event().unwrap()).unwrap();
    third.fill(&mut memory, 8).unwrap();
    assert!(is_held(&third));
    assert_eq!(context.orders_inserted(), 0);
    executable.launch(&other).unwrap();
    assert_eq!((other.orders_inserted(), context.orders_inserted()), (1, 1));
    signal.set(1);
    assert_eq!(other.download(&memory).unwrap(), [7]);
}
