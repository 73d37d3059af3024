//! Code of the program that waits for a thread which calls the library, and runs in calls of the library. `docs/safety.md` lists the
//! classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Context, Instance, MemoryPoolOptions, Stream};
use common::assert_ends;
use futures::executor::block_on;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

/// Calls `body` with host devices that run work in calls, in the orders of some seeds.
fn in_seeded_orders(body: impl Fn(Context) + Clone + Send + 'static) {
    for seed in 0..8 {
        let body = body.clone();
        let instance = Instance::builder().cuda(false).isolated().host_seed(seed).build().unwrap();
        assert_ends(move || body(instance.device("host").unwrap().context().unwrap()));
    }
}

/// Launches a host function that waits until another thread has made `call`, and returns what that returns.
fn wait_for<R: Send + 'static>(stream: &Stream, call: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    let ((go, gone), (done, over)) = (channel(), channel());
    let thread = thread::spawn(move || {
        gone.recv().unwrap();
        let result = call();
        done.send(()).unwrap();
        result
    });
    stream
        .launch_host_func(move || {
            go.send(()).unwrap();
            over.recv().unwrap();
        })
        .unwrap();
    thread
}

#[test]
fn safety_127_the_end_of_a_stream_runs_no_host_function() {
    in_seeded_orders(|context| {
        let [stream, other, waiting] = std::array::from_fn(|_| context.create_stream().unwrap());
        let mut buffer = stream.allocate_zeroed::<u32>(4).unwrap();
        stream.fill(&mut buffer, 1u32).unwrap();
        // It comes behind the work of the stream that ends, whose lock it needs.
        let thread = wait_for(&waiting, move || {
            other.fill(&mut buffer, 2u32).unwrap();
            other.download(&buffer).unwrap()
        });
        waiting.wait_stream(&stream).unwrap();
        drop(stream);
        waiting.synchronize().unwrap();
        assert_eq!(thread.join().unwrap(), [2; 4]);
    });
}

#[test]
fn safety_127_the_end_of_a_default_stream_runs_no_host_function() {
    in_seeded_orders(|context| {
        let waiting = context.create_stream().unwrap();
        let legacy = context.legacy_stream().unwrap();
        legacy.launch_host_func(|| ()).unwrap();
        let thread = wait_for(&waiting, move || drop(context.legacy_stream().unwrap()));
        waiting.wait_stream(&legacy).unwrap();
        drop(legacy);
        waiting.synchronize().unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn safety_127_a_record_that_is_awaited_is_asked_for_with_no_lock_held() {
    in_seeded_orders(|context| {
        let [stream, waiting] = std::array::from_fn(|_| context.create_stream().unwrap());
        let event = Arc::new(context.create_event().unwrap());
        let again = event.clone();
        let thread = wait_for(&waiting, move || {
            again.record(&stream).unwrap();
            stream.synchronize().unwrap();
        });
        event.record(&waiting).unwrap();
        block_on(event.completed()).unwrap();
        waiting.synchronize().unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn safety_127_a_host_function_asks_for_memory_in_the_end_of_a_stream() {
    in_seeded_orders(|context| {
        let [stream, other] = std::array::from_fn(|_| context.create_stream().unwrap());
        let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
        stream.fill(&mut pinned, 1u32).unwrap();
        other.launch_host_func(move || _ = pinned.is_idle()).unwrap();
        stream.wait_stream(&other).unwrap();
        drop(stream);
        other.synchronize().unwrap();
    });
}

#[test]
fn whoever_asks_for_memory_again_and_again_lets_work_run() {
    in_seeded_orders(|context| {
        let stream = context.create_stream().unwrap();
        let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
        stream.fill(&mut pinned, 1u32).unwrap();
        while !pinned.is_idle().unwrap() {
            thread::yield_now();
        }
        assert_eq!(pinned.as_slice().unwrap(), [1; 4]);
    });
}

/// In builds with debug assertions, the locks of what ends are found to be taken in the wrong order.
#[test]
fn safety_129_a_context_that_is_looked_at_ends_behind_the_lock_of_all_contexts() {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                for _ in 0..6000 {
                    let instance = Instance::builder().cuda(false).isolated().host_workers(1).build().unwrap();
                    let device = instance.device("host").unwrap();
                    drop(device.create_memory_pool(&MemoryPoolOptions::default()).unwrap());
                    let context = device.context().unwrap();
                    drop((instance, device));
                    drop(context);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
