//! What the host has waited for needs no order any more.

use super::streams;
use crate::common::{hold, host};
use anabranch::{Context, Stream};
use futures::executor::block_on;

/// Whether a use on another stream needs no order after `wait`.
#[track_caller]
fn needs_none_after(wait: impl FnOnce(&Context, &Stream)) {
    assert_eq!(orders_after(wait), 0);
}

/// How many orders a use on another stream needs after `wait`.
fn orders_after(wait: impl FnOnce(&Context, &Stream)) -> u64 {
    let context = host();
    let [producer, consumer] = streams(&context);
    let mut word = producer.allocate_zeroed::<u32>(1).unwrap();
    producer.fill(&mut word, 7).unwrap();
    wait(&context, &producer);
    consumer.fill(&mut word, 8).unwrap();
    assert_eq!(consumer.download(&word).unwrap(), [8]);
    context.orders_inserted()
}

#[test]
fn a_stream_that_was_synchronized_need_not_be_waited_for() {
    needs_none_after(|_, producer| producer.synchronize().unwrap());
}

#[test]
fn a_context_that_was_synchronized_need_not_be_waited_for() {
    needs_none_after(|context, _| context.synchronize().unwrap());
}

#[test]
fn an_event_that_was_synchronized_need_not_be_waited_for() {
    needs_none_after(|_, producer| producer.record_event().unwrap().synchronize().unwrap());
}

#[test]
fn an_event_that_was_seen_complete_need_not_be_waited_for() {
    needs_none_after(|_, producer| {
        let event = producer.record_event().unwrap();
        while !event.query().unwrap() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn an_event_from_before_the_use_says_nothing_about_it() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let mut word = producer.allocate_zeroed::<u32>(1).unwrap();
    let event = producer.record_event().unwrap();
    let signal = hold(&context, &producer);
    producer.fill(&mut word, 7).unwrap();
    event.synchronize().unwrap();
    assert!(event.query().unwrap());
    block_on(event.completed()).unwrap();
    super::copy_waits(&consumer, &word, 1, &signal);
}

#[test]
fn an_event_that_was_recorded_elsewhere_since_says_nothing() {
    let context = host();
    let [producer, other, consumer] = streams(&context);
    let (word, signal) = super::held_word(&context, &producer);
    let event = producer.record_event().unwrap();
    other.record(&event).unwrap();
    event.synchronize().unwrap();
    assert!(event.query().unwrap());
    super::copy_waits(&consumer, &word, 1, &signal);
}

#[test]
fn a_scope_and_a_copy_to_the_host_wait_for_the_stream() {
    needs_none_after(|_, producer| producer.sync_scope(|_| Ok(())).unwrap());
    needs_none_after(|_, producer| {
        let other = producer.allocate_zeroed::<u32>(3).unwrap();
        producer.download(&other).unwrap();
    });
}

#[test]
fn futures_that_are_ready_tell_that_the_work_is_complete() {
    needs_none_after(|_, producer| block_on(producer.completion_future()).unwrap());
    needs_none_after(|_, producer| block_on(producer.synchronize_async()).unwrap());
    needs_none_after(|_, producer| block_on(producer.record_event().unwrap().completed()).unwrap());
    needs_none_after(|_, producer| block_on(producer.enqueue_async(|_| Ok(()))).unwrap());
}

#[test]
fn a_future_that_waits_on_the_reactor_tells_it_too() {
    let context = host();
    let [producer, consumer] = streams(&context);
    let (word, signal) = super::held_word(&context, &producer);
    let future = producer.completion_future();
    let event = producer.record_event().unwrap();
    let of_event = event.completed();
    let [third] = streams(&context);
    third.record(&event).unwrap();
    let opener = std::thread::spawn({
        let context = context.clone();
        move || {
            // Another stream's work comes first, so that the futures are polled before they are ready.
            context.create_stream().unwrap().synchronize().unwrap();
            signal.set(1);
        }
    });
    block_on(async { futures::try_join!(future, of_event) }).unwrap();
    opener.join().unwrap();
    let mut copy = consumer.allocate_zeroed::<u32>(1).unwrap();
    consumer.copy(&mut copy, &word).unwrap();
    assert_eq!(consumer.download(&copy).unwrap(), [7]);
    assert_eq!(context.orders_inserted(), 0);
}

#[test]
fn a_query_of_the_stream_is_not_remembered() {
    let seen_complete = |_: &Context, producer: &Stream| {
        while !producer.query().unwrap() {
            std::thread::yield_now();
        }
    };
    assert_eq!(orders_after(seen_complete), 1);
}

#[test]
fn work_whose_closure_panicked_is_complete() {
    let orders = orders_after(|_, producer| {
        producer.launch_host_func(|| panic!("on purpose")).unwrap();
        producer.synchronize().unwrap_err();
    });
    assert_eq!(orders, 0);
}

#[test]
fn pinned_memory_that_the_host_has_waited_for_is_read_beside_pending_work() {
    let context = host();
    let [stream] = streams(&context);
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    let memory = stream.upload(&[1u32, 2, 3, 4]).unwrap();
    stream.copy(&mut pinned, &memory).unwrap();
    stream.record_event().unwrap().synchronize().unwrap();
    let signal = hold(&context, &stream);
    // Waiting for the stream as it is now would never end.
    assert_eq!(pinned.as_slice().unwrap(), [1, 2, 3, 4]);
    pinned.as_mut_slice().unwrap()[0] = 9;
    assert!(pinned.is_idle().unwrap());
    signal.set(1);
}

#[test]
fn reading_pinned_memory_leaves_readers_known() {
    let context = host();
    let [stream] = streams(&context);
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    let mut memory = stream.upload(&[1u32, 2, 3, 4]).unwrap();
    stream.copy(&mut pinned, &memory).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [1, 2, 3, 4]);
    let signal = hold(&context, &stream);
    stream.copy(&mut memory, &pinned).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [1, 2, 3, 4]);
    assert!(!pinned.is_idle().unwrap(), "it is still read");
    signal.set(1);
    pinned.as_mut_slice().unwrap().fill(0);
    assert_eq!(stream.download(&memory).unwrap(), [1, 2, 3, 4]);
}
