//! Streams without room, whose operations wait: they hold up nothing else, because the room may be the program's to make.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{CaptureMode, Context, Instance, Signal, Stream, StreamFlags};
use common::{assert_ends, hold};
use std::time::Duration;

const LIMIT: usize = 4;

/// A stream that is full with the next operation, which waits until the signal is set to 1.
fn full_stream() -> (Context, Stream, Signal) {
    let instance = Instance::builder().cuda(false).isolated().host_queue_limit(LIMIT).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let full = context.create_stream().unwrap();
    let mut memory = context.allocate_pinned::<u32>(1).unwrap();
    let held = hold(&context, &full);
    for _ in 2..LIMIT {
        full.fill(&mut memory, 1u32).unwrap();
    }
    std::mem::forget(memory);
    (context, full, held)
}

/// Runs `waits`, which finds no room, on another thread, and `meanwhile` while it waits.
fn while_waiting(held: &Signal, waits: impl FnOnce() + Send, meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(waits);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!waiting.is_finished(), "the stream has room");
        meanwhile();
        held.set(1);
    });
}

#[test]
fn safety_86_others_use_memory_and_streams_that_a_stream_without_room_is_ordered_behind() {
    assert_ends(|| {
        let (context, full, held) = full_stream();
        let [earlier, other] = [(); 2].map(|()| context.create_stream().unwrap());
        let mut memory = earlier.upload(&[6u32]).unwrap();
        let earlier_held = hold(&context, &earlier);
        earlier.fill(&mut memory, 7u32).unwrap();
        let [mut first, mut second] = [&full, &other].map(|_| context.allocate_pinned::<u32>(1).unwrap());
        while_waiting(
            &held,
            || full.copy(&mut first, &memory).unwrap(),
            || {
                other.copy(&mut second, &memory).unwrap();
                other.wait(&earlier).unwrap();
                earlier_held.set(1);
                assert_eq!(earlier.download(&memory).unwrap(), [7]);
                drop(earlier);
                assert_eq!(second.read(|values| values[0]).unwrap(), 7);
            },
        );
        assert_eq!(first.read(|values| values[0]).unwrap(), 7);
    });
}

#[test]
fn safety_86_others_read_memory_of_a_graph_that_a_stream_without_room_is_to_read() {
    assert_ends(|| {
        let (context, full, held) = full_stream();
        let other = context.create_stream().unwrap();
        let memory = other.upload(&[7u32]).unwrap();
        let [mut first, mut second, mut third] = [(); 3].map(|()| context.allocate_pinned::<u32>(1).unwrap());
        let graph = other.capture_executable(CaptureMode::Relaxed, |scope| scope.copy(&mut third, &memory)).unwrap();
        while_waiting(
            &held,
            || full.copy(&mut first, &memory).unwrap(),
            || {
                other.copy(&mut second, &memory).unwrap();
                graph.launch(&other).unwrap();
                assert_eq!(other.download(&memory).unwrap(), [7]);
            },
        );
        assert_eq!(first.read(|values| values[0]).unwrap(), 7);
    });
}

#[test]
fn safety_86_others_wait_for_a_stream_that_a_stream_without_room_waits_for() {
    assert_ends(|| {
        let (context, full, held) = full_stream();
        let [earlier, other] = [(); 2].map(|()| context.create_stream().unwrap());
        let mut memory = earlier.upload(&[7u32]).unwrap();
        let earlier_held = hold(&context, &earlier);
        while_waiting(
            &held,
            || full.wait(&earlier).unwrap(),
            || {
                other.wait(&earlier).unwrap();
                earlier.fill(&mut memory, 8u32).unwrap();
                earlier_held.set(1);
                assert_eq!(earlier.download(&memory).unwrap(), [8]);
            },
        );
        full.synchronize().unwrap();
    });
}

#[test]
fn safety_86_halves_of_memory_that_are_written_meanwhile_are_waited_for() {
    assert_ends(|| {
        let (context, full, held) = full_stream();
        let [earlier, other] = [(); 2].map(|()| context.create_stream().unwrap());
        let mut memory = earlier.upload(&[6u32; 8]).unwrap();
        let earlier_held = hold(&context, &earlier);
        earlier.fill(&mut memory, 7u32).unwrap();
        let (left, right) = memory.slice_mut(..).unwrap().split_at(4).unwrap();
        while_waiting(
            &held,
            || full.fill(left, 1u32).unwrap(),
            || {
                other.fill(right, 2u32).unwrap();
                earlier_held.set(1);
            },
        );
        assert_eq!(earlier.download(&memory).unwrap(), [1, 1, 1, 1, 2, 2, 2, 2]);
    });
}

#[test]
fn safety_166_a_stream_is_full_however_many_entries_a_call_puts_in() {
    for odd in [false, true] {
        assert_ends(move || {
            let instance = Instance::builder().cuda(false).isolated().host_queue_limit(128).build().unwrap();
            let context = instance.device("host").unwrap().context().unwrap();
            let streams = [(); 2].map(|()| context.create_stream().unwrap());
            let graph = streams[0]
                .capture_executable(CaptureMode::Relaxed, |scope| {
                    scope.stream().launch_repeatable_host_func(|| {}).map(drop)
                })
                .unwrap();
            let held = hold(&context, &streams[0]);
            for stream in streams.iter().filter(|_| odd) {
                stream.launch_host_func(|| {}).unwrap();
            }
            // Each launch follows the one before in the other stream, by an entry of its own.
            let launch = || (0..1000).for_each(|number| graph.launch(&streams[number % 2]).unwrap());
            while_waiting(&held, launch, || {});
        });
        assert_ends(move || {
            let instance = Instance::builder().cuda(false).isolated().host_queue_limit(128).build().unwrap();
            let context = instance.device("host").unwrap().context().unwrap();
            let legacy = context.legacy_stream().unwrap();
            let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
            let held = hold(&context, &blocking);
            if odd {
                legacy.launch_host_func(|| {}).unwrap();
            }
            let put = || {
                for _ in 0..500 {
                    legacy.launch_host_func(|| {}).unwrap();
                    blocking.launch_host_func(|| {}).unwrap();
                }
            };
            while_waiting(&held, put, || {});
        });
    }
}
