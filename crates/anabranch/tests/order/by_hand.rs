//! An order that the user made is not made again, and what is not one is made.

use super::{copy_waits, held_word, is_held, streams};
use crate::common::{hold, host};
use anabranch::hal::Live;
use anabranch::{BorrowedStream, CaptureMode, EventRecordFlags, Graph, InstantiateFlags, NodeWork};

#[test]
fn an_event_that_was_waited_for_is_an_order() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    consumer.wait(&producer.record_event().unwrap()).unwrap();
    copy_waits(&consumer, &word, 0, &signal);
}

#[test]
fn a_stream_that_was_waited_for_is_an_order() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    consumer.wait(&producer).unwrap();
    copy_waits(&consumer, &word, 0, &signal);
    assert_eq!(context.orders_inserted(), 0);
}

#[test]
fn an_order_by_way_of_other_streams_is_an_order() {
    let context = host();
    let [producer, second, third, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    second.wait(&producer.record_event().unwrap()).unwrap();
    third.wait(&second).unwrap();
    consumer.wait(&third.record_event().unwrap()).unwrap();
    copy_waits(&consumer, &word, 0, &signal);
}

#[test]
fn an_order_that_the_library_made_for_other_memory_is_an_order() {
    let context = host();
    let [producer, consumer, third] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    let mut other = producer.allocate_zeroed::<u32>(1).unwrap();
    consumer.fill(&mut other, 1).unwrap();
    assert_eq!(consumer.orders_inserted(), 1);
    third.fill(&mut other, 1).unwrap();
    assert_eq!(third.orders_inserted(), 1);
    copy_waits(&third, &word, 0, &signal);
}

#[test]
fn a_record_before_the_use_is_no_order() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let mut word = producer.upload(&[1u32]).unwrap();
    let event = producer.record_event().unwrap();
    let signal = hold(&context, &producer);
    producer.fill(&mut word, 7).unwrap();
    consumer.wait(&event).unwrap();
    copy_waits(&consumer, &word, 1, &signal);
}

#[test]
fn a_wait_before_the_record_is_no_order() {
    let context = host();
    let [producer, second, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    let event = context.create_event().unwrap();
    consumer.wait(&event).unwrap();
    let before = second.record_event().unwrap();
    producer.record(&event).unwrap();
    second.wait(&event).unwrap();
    consumer.wait(&before).unwrap();
    copy_waits(&consumer, &word, 1, &signal);
}

#[test]
fn the_last_record_is_what_counts() {
    let context = host();
    let [producer, other, consumer, late] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    let event = producer.record_event().unwrap();
    other.record(&event).unwrap();
    late.wait(&event).unwrap();
    producer.record(&event).unwrap();
    consumer.wait(&event).unwrap();
    let before = late.orders_inserted();
    let mut copy = late.allocate_zeroed::<u32>(1).unwrap();
    late.copy(&mut copy, &word).unwrap();
    assert_eq!(late.orders_inserted() - before, 1);
    assert!(is_held(&late));
    copy_waits(&consumer, &word, 0, &signal);
    assert_eq!(late.download(&copy).unwrap(), [7]);
}

#[test]
fn a_record_that_failed_is_no_order() {
    let context = host();
    let other_context = host();
    let [producer, consumer] = streams(&context);
    let [elsewhere] = streams(&other_context);
    let (word, signal) = held_word(&context, &producer);
    let event = consumer.record_event().unwrap();
    elsewhere.record(&event).unwrap_err();
    producer.record_with_flags(&event, EventRecordFlags::EXTERNAL).unwrap_err();
    consumer.wait(&event).unwrap();
    copy_waits(&consumer, &word, 1, &signal);
}

#[test]
fn an_event_recorded_in_a_capture_is_no_order() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    let event = context.create_event().unwrap();
    let graph = producer
        .capture(CaptureMode::Relaxed, |scope| {
            scope.record(&event)?;
            // Draws the consumer in, which only says what comes after what when the graph is launched.
            consumer.wait(&event)?;
            scope.join(&consumer)
        })
        .unwrap();
    drop(graph);
    copy_waits(&consumer, &word, 1, &signal);
}

#[test]
fn a_record_after_one_in_a_capture_is_an_order() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    let event = context.create_event().unwrap();
    producer.capture(CaptureMode::Relaxed, |scope| scope.record(&event).map(drop)).unwrap();
    producer.record(&event).unwrap();
    consumer.wait(&event).unwrap();
    copy_waits(&consumer, &word, 0, &signal);
}

#[test]
fn an_event_recorded_while_another_library_captures_is_no_order() {
    let context = host();
    let [owner, consumer] = streams(&context);
    // SAFETY: the stream lives as long as the handle.
    let producer = unsafe { BorrowedStream::from_raw(&context, owner.as_raw()) }.unwrap();
    let (word, signal) = held_word(&context, &producer);
    let driver = context.device().driver();
    // SAFETY: context and stream exist as long as the test.
    let (call, stream) = unsafe { (Live::new(context.as_raw()).into(), Live::new(producer.as_raw())) };
    driver.stream_begin_capture(&call, stream, CaptureMode::Relaxed).unwrap();
    // Draws the consumer in, behind nothing that runs.
    consumer.wait(&producer.record_event().unwrap()).unwrap();
    producer.wait(&consumer.record_event().unwrap()).unwrap();
    let graph = driver.stream_end_capture(&call, stream).unwrap();
    // SAFETY: the graph was just made, and nobody else knows it.
    unsafe { driver.graph_destroy(&call, graph) }.unwrap();
    copy_waits(&consumer, &word, 1, &signal);
}

/// An event that a graph records is recorded by the launch of the graph, wherever it was recorded before.
fn launched_elsewhere_is_no_order(make: impl FnOnce(&anabranch::Stream, &anabranch::Event) -> Graph) {
    let context = host();
    let [producer, other, consumer] = streams(&context);
    let (word, signal) = held_word(&context, &producer);
    let event = context.create_event().unwrap();
    let executable = make(&other, &event).instantiate_with_flags(InstantiateFlags::empty()).unwrap();
    producer.record(&event).unwrap();
    executable.launch(&other).unwrap();
    other.synchronize().unwrap();
    consumer.wait(&event).unwrap();
    copy_waits(&consumer, &word, 1, &signal);
}

#[test]
fn an_event_that_a_graph_records_is_no_order() {
    launched_elsewhere_is_no_order(|stream, event| {
        let mut graph = stream.context().create_graph().unwrap();
        graph.add((), NodeWork::event_record(event)).unwrap();
        graph
    });
}

#[test]
fn an_event_recorded_externally_in_a_capture_is_no_order() {
    launched_elsewhere_is_no_order(|stream, event| {
        stream
            .capture(CaptureMode::Relaxed, |scope| scope.record_with_flags(event, EventRecordFlags::EXTERNAL).map(drop))
            .unwrap()
    });
}

#[test]
fn streams_that_race_to_read_and_record_are_both_waited_for() {
    let context = host();
    let [first, second, writer] = streams(&context);
    let mut memory = first.upload(&[5u32; 16]).unwrap();
    for round in 0..200u32 {
        let signals = [&first, &second].map(|stream| hold(&context, stream));
        let event = context.create_event().unwrap();
        let copies = std::thread::scope(|scope| {
            let memory = &memory;
            let readers = [&first, &second].map(|stream| {
                scope.spawn(move || {
                    let mut copy = stream.allocate_zeroed::<u32>(16).unwrap();
                    stream.copy(&mut copy, memory).unwrap();
                    copy
                })
            });
            // Wherever this comes between the reads, what it does not cover is waited for below.
            scope.spawn(|| first.record(&event).unwrap());
            readers.map(|reader| reader.join().unwrap())
        });
        writer.wait(&event).unwrap();
        writer.fill(&mut memory, round).unwrap();
        // The second is opened first, so that a writer that waits only for one of them does not wait for the other.
        assert!(is_held(&writer));
        let [one, two] = signals;
        let (sooner, later) = if round % 2 == 0 { (one, two) } else { (two, one) };
        sooner.set(1);
        assert!(is_held(&writer));
        later.set(1);
        let expected = if round == 0 { 5 } else { round - 1 };
        assert_eq!(first.download(&copies[0]).unwrap(), [expected; 16]);
        assert_eq!(second.download(&copies[1]).unwrap(), [expected; 16]);
        assert_eq!(writer.download(&memory).unwrap(), [round; 16]);
    }
}
