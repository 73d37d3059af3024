//! Work that is composed before it is queued, and pools of streams.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, Context, Error, Operation, Result, RunTarget, Signal, Status, Stream, StreamFlags,
    StreamPolicy, StreamPool, WaitCondition,
};
use common::{checked_host, hold, host, until};
use futures::executor::block_on;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Waker};

const POLICIES: [StreamPolicy; 2] = [StreamPolicy::RoundRobin, StreamPolicy::LeastLoaded];

fn pool(context: &Context, count: usize, policy: StreamPolicy) -> StreamPool {
    StreamPool::new(context, count, policy).unwrap()
}

/// A buffer that is filled.
fn filled(value: u32) -> Operation<'static, Buffer<u32>> {
    Operation::new(|stream| stream.allocate_zeroed::<u32>(8)).then(move |stream, mut buffer| {
        stream.fill(&mut buffer, value)?;
        Ok(buffer)
    })
}

/// The sums of elements, which are all equal.
fn sum(parts: Vec<Buffer<u32>>) -> Result<u32> {
    let stream = parts[0].context().create_stream()?;
    let sums = parts.iter().map(|part| Ok(stream.download(part)?[0])).collect::<Result<Vec<u32>>>()?;
    Ok(sums.iter().sum())
}

/// The stream's id.
fn id() -> Operation<'static, u64> {
    Operation::new(|stream| Ok(stream.id()))
}

/// Waits in the stream until the signal is set.
fn held(signal: &Signal) -> Operation<'_, ()> {
    Operation::new(|stream| stream.wait_signal(signal, WaitCondition::GreaterOrEqual, 1))
}

fn error() -> Error {
    Error::argument(Status::INVALID_VALUE, "testing", "on purpose")
}

fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut TaskContext::from_waker(Waker::noop())).is_pending()
}

#[test]
fn nothing_is_queued_before_an_operation_is_run() {
    let stream = host().create_stream().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = || {
        let [first, second] = [(); 2].map(|()| count.clone());
        Operation::new(move |_| Ok(first.fetch_add(1, Ordering::SeqCst)))
            .then(move |_, before| Ok(before + second.fetch_add(1, Ordering::SeqCst)))
    };
    drop(counted().zip(counted()).and_then(|_| Operation::value(7)));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(counted().queue(&stream).unwrap(), 1);
    assert_eq!(counted().zip(counted()).run(&stream).unwrap(), (5, 9));
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn values_are_handed_on_in_streams_and_on_pools() {
    fn values(target: &impl RunTarget) {
        let whole = filled(1).zip(filled(20)).and_then(|(left, right)| {
            Operation::value(left).zip(Operation::value(right)).zip(filled(300)).then(
                |stream, ((left, right), mut third)| {
                    stream.copy(third.slice_mut(..2)?, left.slice(..2)?)?;
                    stream.copy(third.slice_mut(2..4)?, right.slice(..2)?)?;
                    Ok(third)
                },
            )
        });
        let whole = whole.run(target).unwrap();
        let stream = whole.context().create_stream().unwrap();
        assert_eq!(stream.download(&whole).unwrap(), [1, 1, 20, 20, 300, 300, 300, 300]);
        let parts = block_on(Operation::all((0..10).map(filled)).run_async(target)).unwrap();
        assert_eq!(parts.len(), 10);
        for (part, value) in parts.iter().zip(0..) {
            assert_eq!(stream.download(part).unwrap(), [value; 8]);
        }
        assert_eq!(sum(Operation::all((0..10).map(filled)).queue(target).unwrap()).unwrap(), 45);
        assert!(Operation::all(Vec::<Operation<'_, u32>>::new()).run(target).unwrap().is_empty());
    }
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    values(&stream);
    values(&stream.to_borrowed());
    for policy in POLICIES {
        for count in 1..4 {
            values(&pool(&context, count, policy));
        }
    }
    context.synchronize().unwrap();
    assert!(context.device().memory_report().is_none_or(|report| report.findings.is_empty()));
}

#[test]
fn parts_run_side_by_side_on_a_pool() {
    let context = host();
    for policy in POLICIES {
        let pool = pool(&context, 2, policy);
        let [first, second] = [(); 2].map(|()| context.create_signal().unwrap());
        // Each part waits for the other one.
        let left = Operation::new(|stream| stream.write_signal(&first, 1)).and_then(|()| held(&second));
        let right = Operation::new(|stream| stream.write_signal(&second, 1)).and_then(|()| held(&first));
        left.zip(right).run(&pool).unwrap();
    }
}

#[test]
fn what_follows_comes_after_all_parts_and_these_after_what_was_before() {
    let context = host();
    for policy in POLICIES {
        let pool = pool(&context, 3, policy);
        let [before, part] = [(); 2].map(|()| context.create_signal().unwrap());
        let steps = Arc::new(AtomicUsize::new(0));
        let step = |steps: &Arc<AtomicUsize>| {
            let steps = steps.clone();
            Operation::new(move |stream: &Stream| {
                stream.launch_host_func(move || _ = steps.fetch_add(1, Ordering::SeqCst))
            })
        };
        let parts = Operation::all((0..5).map(|_| step(&steps)).chain([held(&part)]));
        let last = step(&steps);
        let mut future = held(&before).and_then(|()| parts).and_then(|_| last).run_async(&pool);
        assert!(is_pending(&mut future));
        assert_eq!(steps.load(Ordering::SeqCst), 0, "the parts come after what was before");
        before.set(1);
        until("the parts", || steps.load(Ordering::SeqCst) == 5);
        assert!(is_pending(&mut future), "what follows comes after all parts");
        part.set(1);
        block_on(future).unwrap();
        assert_eq!(steps.load(Ordering::SeqCst), 6);
    }
}

#[test]
fn a_pool_orders_the_parts_and_leaves_nothing_to_insert() {
    let context = checked_host();
    context.set_strict_order(true);
    for policy in POLICIES {
        let pool = pool(&context, 3, policy);
        let whole = filled(5).and_then(|source| {
            let source = Arc::new(source);
            let kept = source.clone();
            let copy = |number: usize| {
                let source = source.clone();
                Operation::new(move |stream| stream.clone_buffer(&*source)).then(move |stream, mut copy| {
                    stream.fill(copy.slice_mut(..number)?, 6)?;
                    Ok(copy)
                })
            };
            Operation::all((0..6).map(copy)).then(move |stream, parts| {
                let mut last = stream.allocate_zeroed::<u32>(6)?;
                for (number, part) in parts.iter().enumerate() {
                    stream.copy(last.slice_mut(number..number + 1)?, part.slice(2..3)?)?;
                }
                // Dropped, a buffer would make its stream wait for its last use.
                Ok((last, parts, kept))
            })
        });
        let (last, _parts, _source) = whole.run(&pool).unwrap();
        assert_eq!(pool.stream().download(&last).unwrap(), [5, 5, 5, 6, 6, 6]);
        assert!(pool.streams().all(|stream| stream.orders_inserted() == 0));
    }
}

#[test]
fn an_error_is_returned_and_the_streams_can_be_used_on() {
    let context = checked_host();
    let pool = pool(&context, 2, StreamPolicy::LeastLoaded);
    let fails = || Operation::<Buffer<u32>>::new(|_| Err(error()));
    for _ in 0..3 {
        let operations =
            [filled(1).zip(fails()), fails().zip(filled(1)), filled(1).then(|_, _| Err(error())).zip(filled(2))];
        for operation in operations {
            assert_eq!(operation.run(&pool).unwrap_err().status(), Status::INVALID_VALUE);
        }
        let never =
            filled(1).then(|_, _| Err::<u32, _>(error())).and_then(|_| -> Operation<'_, u32> { unreachable!() });
        assert_eq!(block_on(never.run_async(&pool)).unwrap_err().status(), Status::INVALID_VALUE);
        assert_eq!(sum(Operation::all((0..4).map(filled)).run(&pool).unwrap()).unwrap(), 6);
    }
    // The error of the work, and not of queueing it.
    let panics = || Operation::new(|stream| stream.launch_host_func(|| panic!("on purpose")));
    assert!(panics().run(&pool).unwrap_err().to_string().contains("on purpose"));
    assert!(block_on(panics().run_async(&pool)).unwrap_err().to_string().contains("on purpose"));
    filled(1).run(&pool).unwrap();
}

#[test]
fn a_closure_that_unwinds_leaves_the_streams_of_a_pool_joined() {
    let context = checked_host();
    for policy in POLICIES {
        let pool = pool(&context, 2, policy);
        let gate = context.create_signal().unwrap();
        let mut origin = None;
        let left = Operation::new(|stream| {
            origin = Some(stream.id());
            Ok(())
        });
        let right = held(&gate).then(|_, ()| -> Result<()> { panic!("on purpose") });
        let whole = left.zip(right);
        assert!(catch_unwind(AssertUnwindSafe(|| whole.queue(&pool))).is_err());
        let origin = pool.streams().find(|stream| Some(stream.id()) == origin).unwrap();
        assert!(!origin.query().unwrap(), "it comes after the part that was held up");
        gate.set(1);
        origin.synchronize().unwrap();
        assert_eq!(sum(Operation::all((0..4).map(filled)).run(&pool).unwrap()).unwrap(), 6);
    }
}

#[test]
fn work_that_the_drop_of_a_value_queues_is_joined_too() {
    /// Queues work in the stream of its part.
    struct Queues<'a> {
        pool: &'a StreamPool,
        stream: u64,
        gate: &'a Signal,
    }
    impl Drop for Queues<'_> {
        fn drop(&mut self) {
            let stream = self.pool.streams().find(|stream| stream.id() == self.stream).unwrap();
            stream.wait_signal(self.gate, WaitCondition::GreaterOrEqual, 1).unwrap();
        }
    }
    let context = host();
    let pool = pool(&context, 2, StreamPolicy::RoundRobin);
    let gate = context.create_signal().unwrap();
    let (pool, gate) = (&pool, &gate);
    let mut origin = None;
    let first = Operation::new(|stream| {
        origin = Some(stream.id());
        Ok(None)
    });
    let queues = Operation::new(|stream| Ok(Some(Queues { pool, stream: stream.id(), gate })));
    let fails = Operation::new(|_| Err(error()));
    let never = id().zip(id()).then(|_, _| -> Result<Option<Queues<'_>>> { unreachable!() });
    assert!(Operation::all([first, queues, fails, never]).queue(pool).is_err());
    let origin = pool.streams().find(|stream| Some(stream.id()) == origin).unwrap();
    assert!(!origin.query().unwrap(), "it comes after what was queued last");
    gate.set(1);
    origin.synchronize().unwrap();
}

#[test]
fn giving_an_operation_up_leaves_its_work_and_frees_its_memory_behind_it() {
    let context = checked_host();
    let pool = pool(&context, 2, StreamPolicy::LeastLoaded);
    let gate = context.create_signal().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let inside = done.clone();
    let whole = held(&gate).and_then(|()| filled(1).zip(filled(2))).then(move |stream, (mut left, right)| {
        stream.copy(&mut left, &right)?;
        stream.launch_host_func(move || _ = inside.fetch_add(1, Ordering::SeqCst))?;
        Ok((left, right))
    });
    let mut future = whole.run_async(&pool);
    assert!(is_pending(&mut future));
    drop(future);
    assert_eq!(done.load(Ordering::SeqCst), 0);
    gate.set(1);
    context.synchronize().unwrap();
    assert_eq!(done.load(Ordering::SeqCst), 1);
    let report = context.device().memory_report().unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
}

#[test]
fn operations_are_captured_where_they_are_queued_in_a_capture() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.allocate_zeroed::<u32>(2).unwrap();
    let graph = stream.capture(CaptureMode::Global, |scope| {
        let refused = Operation::new(|_| -> Result<()> { unreachable!() }).run(scope);
        assert_eq!(refused.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        let refused = Operation::new(|_| -> Result<()> { unreachable!() }).run_async(scope);
        assert_eq!(block_on(refused).unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        Operation::new(|stream| stream.fill(buffer.slice_mut(..1)?, 3)).queue(scope)?;
        Operation::new(|stream| stream.fill(buffer.slice_mut(1..)?, 4)).queue(scope)
    });
    let executable = graph.unwrap().instantiate().unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [0, 0]);
    Operation::new(|stream| executable.launch(stream)).run(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [3, 4]);
}

#[test]
fn a_capture_in_a_pool_is_left_valid() {
    let context = host();
    let pool = pool(&context, 2, StreamPolicy::RoundRobin);
    let captures = pool.streams().next().unwrap();
    let graph = captures.capture(CaptureMode::Relaxed, |scope| {
        for _ in 0..4 {
            let refused = filled(1).zip(filled(2)).run(&pool);
            assert_eq!(refused.map(drop).unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
        }
        scope.launch_repeatable_host_func(|| {})
    });
    assert_eq!(graph.unwrap().nodes().unwrap().len(), 1);
    filled(1).zip(filled(2)).run(&pool).unwrap();
}

#[test]
fn streams_take_turns() {
    let context = host();
    let pool = pool(&context, 3, StreamPolicy::RoundRobin);
    let expected: Vec<u64> = pool.streams().map(Stream::id).collect();
    let ids: Vec<u64> = (0..6).map(|_| id().queue(&pool).unwrap()).collect();
    assert_eq!(ids, [&expected[..], &expected[..]].concat());
    assert_eq!(pool.stream().id(), expected[0]);
    let parts = Operation::all((0..6).map(|_| id())).queue(&pool).unwrap();
    assert_eq!(parts[..3], parts[3..]);
    assert!(expected.iter().all(|id| parts.contains(id)));
}

#[test]
fn the_stream_with_the_least_to_do_is_chosen() {
    let context = host();
    let pool = pool(&context, 3, StreamPolicy::LeastLoaded);
    let gate = context.create_signal().unwrap();
    let busy = held(&gate).and_then(|()| id()).queue(&pool).unwrap();
    let other = held(&gate).and_then(|()| id()).queue(&pool).unwrap();
    assert_ne!(busy, other);
    for _ in 0..10 {
        // Complete before the next is run.
        let third = id().run(&pool).unwrap();
        assert!(third != busy && third != other && pool.stream().id() == third);
    }
    gate.set(1);
    context.synchronize().unwrap();
    let ids: Vec<u64> = (0..30).map(|_| id().run(&pool).unwrap()).collect();
    assert!(ids.contains(&busy) && ids.contains(&other), "those that are complete do not count");
}

#[test]
fn threads_share_a_pool() {
    let context = checked_host();
    for policy in POLICIES {
        let pool = pool(&context, 3, policy);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..50 {
                        let parts = Operation::all((round..round + 4).map(filled)).run(&pool).unwrap();
                        assert_eq!(sum(parts).unwrap(), 4 * round + 6);
                    }
                });
            }
        });
    }
    context.synchronize().unwrap();
    assert!(context.device().memory_report().unwrap().findings.is_empty());
}

#[test]
fn safety_21_operations_and_pools_can_be_sent() {
    fn sendable<T: Send>(_: &T) {}
    fn shared<T: Sync>(_: &T) {}
    // One that lives long is used where others borrow.
    fn shorter<'a, T>(operation: Operation<'static, T>, _: &'a Context) -> Operation<'a, T> {
        operation
    }
    let context = host();
    let pool = Arc::new(pool(&context, 2, StreamPolicy::LeastLoaded));
    sendable(&pool);
    shared(&pool);
    sendable(&shorter(filled(5), &context));
    let operation = filled(5).zip(filled(6));
    sendable(&operation);
    let other = pool.clone();
    let (left, right) = std::thread::spawn(move || operation.run(&*other)).join().unwrap().unwrap();
    assert_eq!(sum(vec![left, right]).unwrap(), 11);
}

#[test]
fn pools_of_nothing_and_of_two_contexts_are_refused() {
    let (context, other) = (host(), host());
    let status = |pool: Result<StreamPool>| pool.unwrap_err().status();
    assert_eq!(status(StreamPool::new(&context, 0, StreamPolicy::RoundRobin)), Status::INVALID_VALUE);
    let streams = vec![context.create_stream().unwrap(), other.create_stream().unwrap()];
    assert_eq!(status(StreamPool::from_streams(streams, StreamPolicy::RoundRobin)), Status::INVALID_HANDLE);
    let urgent = vec![context.create_stream_with_priority(StreamFlags::NON_BLOCKING, -1).unwrap()];
    let pool = StreamPool::from_streams(urgent, StreamPolicy::LeastLoaded).unwrap();
    assert_eq!((pool.streams().len(), pool.policy()), (1, StreamPolicy::LeastLoaded));
    assert_eq!(pool.stream().priority().unwrap(), -1);
    assert_eq!(sum(Operation::all((0..4).map(filled)).run(&pool).unwrap()).unwrap(), 6);
}

#[test]
fn operations_are_not_run_inside_of_a_host_function() {
    let context = host();
    let pool = Arc::new(pool(&context, 2, StreamPolicy::LeastLoaded));
    let stream = context.create_stream().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let inside = pool.clone();
    stream
        .launch_host_func(move || {
            let run = filled(1).zip(filled(2)).run(&*inside).map(drop).unwrap_err().status();
            let awaited = block_on(filled(1).run_async(&*inside)).map(drop).unwrap_err().status();
            sender.send([run, awaited]).unwrap();
        })
        .unwrap();
    assert_eq!(receiver.recv().unwrap(), [Status::NOT_PERMITTED; 2]);
    stream.synchronize().unwrap();
    let gate = hold(&context, &stream);
    drop(pool);
    gate.set(1);
}
