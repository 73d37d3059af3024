//! Completion as futures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
#[path = "completion/events.rs"]
mod events;
#[path = "completion/pipelines.rs"]
mod pipelines;
#[path = "completion/reactors.rs"]
mod reactors;
#[path = "completion/tokio.rs"]
mod with_tokio;

use anabranch::{
    CaptureMode, Completion, Context, ContextFlags, DualModule, Enqueued, ErrorKind, ExecutableGraph, HostFunction,
    KernelFault, LaunchConfig, Pipeline, Signal, Status, Stream, WaitCondition, flush_deferred_drops,
};
use common::{hold, host, until};
use futures::executor::block_on;
use futures::future::{Either, FusedFuture, join_all, ready, select};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

/// Counts how often it is woken.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counting {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut std::task::Context::from_waker(waker))
}

/// Makes later work wait for the signal to come to `value`.
fn hold_until(stream: &Stream, signal: &Signal, value: u64) {
    stream.wait_signal(signal, WaitCondition::GreaterOrEqual, value).unwrap();
}

#[test]
fn safety_21_futures_can_be_sent() {
    fn sendable<T: Send + Sync + Unpin + 'static>() {}
    sendable::<Completion>();
    sendable::<Enqueued<u32>>();
    fn send<T: Send>(_: &T) {}
    let stream = host().create_stream().unwrap();
    let executable = stream.capture_executable(CaptureMode::Global, |_| Ok(())).unwrap();
    send(&async move {
        executable.launch_async(&stream).await.unwrap();
        let chunks = stream.pipeline(1, 0..1, |_, _| Ok(()));
        stream.synchronize_async().await.unwrap();
        drop(chunks);
        executable.launch(&stream).unwrap();
    });
    sendable::<Pipeline<Arc<Stream>, std::ops::Range<u8>, fn(&Stream, u8) -> anabranch::Result<u8>, u8>>();
    sendable::<ExecutableGraph>();
}

#[test]
fn a_future_is_ready_when_the_work_before_it_is_complete_and_not_sooner() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let signal = hold(&context, &stream);
    let inside = ran.clone();
    stream.launch_host_func(move || inside.store(true, Ordering::SeqCst)).unwrap();
    let mut future = stream.completion_future();
    let after = hold(&context, &stream);
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(woken.clone());
    assert!(poll(&mut future, &waker).is_pending() && !future.is_terminated());
    assert!(poll(&mut future, &waker).is_pending());
    assert_eq!(woken.count(), 0);
    signal.set(1);
    block_on(&mut future).unwrap();
    assert!(ran.load(Ordering::SeqCst) && future.is_terminated());
    assert!(!stream.query().unwrap(), "what was queued later is not waited for");
    after.set(1);
    stream.synchronize().unwrap();
}

#[test]
fn polling_again_after_ready_gives_the_same_result() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut future = stream.synchronize_async();
    for _ in 0..3 {
        block_on(&mut future).unwrap();
    }
    stream.launch_host_func(|| std::panic::resume_unwind(Box::new("told"))).unwrap();
    let mut future = stream.synchronize_async();
    for _ in 0..3 {
        assert!(block_on(&mut future).unwrap_err().to_string().contains("told"));
    }
    let mut value = stream.enqueue_async(|_| Ok(7));
    assert_eq!(block_on(&mut value).unwrap(), 7);
    assert!(value.is_terminated());
    assert_eq!(block_on(&mut value).unwrap_err().status(), Status::ILLEGAL_STATE);
}

#[test]
fn joining_and_selecting() {
    let context = host();
    let streams: Vec<_> = (0..8).map(|_| context.create_stream().unwrap()).collect();
    let signals: Vec<_> = streams.iter().map(|stream| hold(&context, stream)).collect();
    let all = join_all(streams.iter().map(Stream::completion_future));
    let first = select(streams[0].completion_future(), streams[5].completion_future());
    signals[5].set(1);
    let held = match block_on(first) {
        Either::Right((result, held)) => result.map(|()| held).unwrap(),
        Either::Left(_) => panic!("the first is held up"),
    };
    signals.iter().for_each(|signal| signal.set(1));
    block_on(held).unwrap();
    assert!(block_on(all).iter().all(Result::is_ok));
}

#[test]
fn futures_of_one_stream_that_are_polled_in_any_order() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = context.create_signal().unwrap();
    let mut futures = Vec::new();
    for value in 1..=8 {
        hold_until(&stream, &signal, value);
        futures.push(stream.completion_future());
    }
    let waker = Waker::noop();
    for index in [7, 0, 6, 3, 5, 1, 4, 2] {
        assert!(poll(&mut futures[index], waker).is_pending());
    }
    for (future, value) in futures.iter_mut().zip(1..) {
        signal.set(value);
        block_on(future).unwrap();
    }
}

#[test]
fn safety_19_dropping_at_every_stage_gives_up_nothing_but_the_waiting() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[1u32; 256]).unwrap();
    let signal = hold(&context, &stream);
    let (sender, receiver) = mpsc::channel();
    let mut copy = stream.allocate_zeroed::<u32>(256).unwrap();
    stream.copy(&mut copy, &buffer).unwrap();
    stream.launch_host_func(move || sender.send(()).unwrap()).unwrap();

    drop(stream.completion_future());
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(woken.clone());
    let mut waiting = stream.enqueue_async(|_| Ok(buffer));
    assert!(poll(&mut waiting, &waker).is_pending());
    drop(waiting);
    drop(waker);
    assert_eq!(Arc::strong_count(&woken), 1, "the waker is dropped with the future");
    let mut others: Vec<_> = (0..100).map(|_| stream.checked_completion_future()).collect();
    assert!(others.iter_mut().all(|future| poll(future, Waker::noop()).is_pending()));
    others.truncate(3);
    signal.set(1);
    join_in_order(others);
    receiver.recv().unwrap();
    assert_eq!(stream.download(&copy).unwrap(), [1; 256]);
    assert_eq!(woken.count(), 0);
}

fn join_in_order(futures: Vec<Completion>) {
    for mut future in futures {
        block_on(&mut future).unwrap();
        drop(future);
    }
}

#[test]
fn the_latest_waker_is_woken() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let mut future = stream.completion_future();
    let wakers: Vec<_> = (0..3).map(|_| Arc::new(Counting::default())).collect();
    for waker in &wakers {
        assert!(poll(&mut future, &Waker::from(waker.clone())).is_pending());
    }
    assert!(wakers[..2].iter().all(|waker| Arc::strong_count(waker) == 1));
    signal.set(1);
    until("the waking", || wakers[2].count() == 1);
    assert!(wakers[..2].iter().all(|waker| waker.count() == 0));
    assert!(poll(&mut future, Waker::noop()).is_ready());
}

/// A context of its own in which a stream is held up, and a kernel that loses the context.
fn about_to_be_lost() -> (Context, Stream, impl FnOnce()) {
    let context = host().device().create_context(ContextFlags::empty()).unwrap();
    let (held, stream) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let function = HostFunction::new("trap", &[], |_, _| KernelFault::trap("on purpose").raise());
    let kernel = DualModule::new().host_function(function).load(&context).unwrap().kernel("trap").unwrap();
    let lose = move || {
        // SAFETY: the kernel uses no memory.
        unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), ()) }.unwrap();
    };
    (context, held, lose)
}

/// A flag in memory does not show it.
#[test]
fn safety_13_who_looks_on_learns_that_the_context_is_lost() {
    let (context, stream, lose) = about_to_be_lost();
    context.set_completion_by_flags(Some(true));
    context.set_completion_spin(Duration::from_secs(3600));
    let signal = hold(&context, &stream);
    let future = stream.completion_future();
    lose();
    assert!(block_on(future).unwrap_err().is_sticky());
    signal.set(1);
}

#[test]
fn safety_13_a_lost_context_wakes_everybody_with_its_error() {
    let (context, stream, lose) = about_to_be_lost();
    let signal = hold(&context, &stream);
    let event = stream.record_event().unwrap();
    let futures: Vec<_> = (0..10)
        .map(|index| match index % 3 {
            0 => stream.completion_future(),
            1 => stream.checked_completion_future(),
            _ => event.completed(),
        })
        .collect();
    let value = stream.enqueue_async(|_| Ok(1));
    let waiting = std::thread::spawn(move || block_on(async { (join_all(futures).await, value.await) }));
    lose();
    let (results, value) = waiting.join().unwrap();
    assert!(results.iter().all(|result| result.as_ref().is_err_and(anabranch::Error::is_sticky)), "{results:?}");
    assert!(value.unwrap_err().is_sticky());
    assert!(block_on(stream.synchronize_async()).unwrap_err().is_sticky());
    signal.set(1);
}

#[test]
fn safety_13_a_fault_whose_status_is_no_fault_is_a_launch_that_failed() {
    for (code, found) in [(0, 719), (1, 719), (600, 719), (800, 719), (900, 719), (-1, 719), (700, 700), (715, 715)] {
        let context = host();
        let stream = context.create_stream().unwrap();
        let raises = HostFunction::new("raises", &[], move |_, _| {
            KernelFault { status: Status(code), message: "raised by a test".to_owned() }.raise()
        });
        let kernel = DualModule::new().host_function(raises).load(&context).unwrap().kernel("raises").unwrap();
        let signal = hold(&context, &stream);
        stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
        let (ended, event) = (stream.completion_future(), stream.record_event().unwrap());
        signal.set(1);
        assert_eq!(block_on(ended).unwrap_err().status(), Status(found), "{code}");
        assert_eq!(block_on(event.completed()).unwrap_err().status(), Status(found), "{code}");
        assert_eq!(stream.query().unwrap_err().status(), Status(found), "{code}");
        let error = stream.synchronize().unwrap_err();
        assert!(error.is_sticky() && error.to_string().contains("raised by a test"), "{error}");
    }
}

#[test]
fn safety_11_a_panic_is_reported_by_checked_futures_only_and_once() {
    let context = host();
    let stream = context.create_stream().unwrap();
    stream.launch_host_func(|| std::panic::resume_unwind(Box::new("in stream order"))).unwrap();
    let (unchecked, checked, again) =
        (stream.completion_future(), stream.checked_completion_future(), stream.checked_completion_future());
    let signal = hold(&context, &stream);
    block_on(unchecked).unwrap();
    let error = block_on(checked).unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Panicked, Status::LAUNCH_FAILED));
    assert!(error.to_string().contains("in stream order"), "{error}");
    block_on(again).unwrap();
    assert!(!stream.query().unwrap(), "later work was held up all the time");
    signal.set(1);
    stream.synchronize().unwrap();

    let failed = stream.enqueue_async(|stream| {
        stream.launch_host_func(|| std::panic::resume_unwind(Box::new("in a body")))?;
        Ok(())
    });
    assert!(block_on(failed).unwrap_err().to_string().contains("in a body"));
}

#[test]
fn the_error_of_a_body_is_the_future_s() {
    let stream = host().create_stream().unwrap();
    let failed = stream.enqueue_async(|stream| stream.allocate_zeroed::<u64>(usize::MAX / 16).map(drop));
    assert_eq!(block_on(failed).unwrap_err().status(), Status::OUT_OF_MEMORY);
}

#[test]
fn futures_are_refused_while_the_stream_captures_and_the_capture_goes_on() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let graph = stream.capture(CaptureMode::Global, |_| Ok(())).unwrap();
    let executable = graph.instantiate().unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |scope| {
            scope.launch_repeatable_host_func(|| {})?;
            let refused = [
                scope.completion_future(),
                scope.checked_completion_future(),
                scope.synchronize_async(),
                executable.launch_async(scope),
            ];
            for future in refused {
                assert_eq!(block_on(future).unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            }
            let body = |_: &Stream| -> anabranch::Result<()> { panic!("it is not run") };
            assert_eq!(block_on(scope.enqueue_async(body)).unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            let event = scope.record_event()?;
            assert_eq!(block_on(event.completed()).unwrap_err().status(), Status::CAPTURED_EVENT);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    block_on(graph.instantiate().unwrap().launch_async(&stream)).unwrap();
}

#[test]
fn a_graph_s_launch_is_awaited() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let inside = count.clone();
    let executable = stream
        .capture_executable(CaptureMode::Global, |scope| {
            scope.launch_repeatable_host_func(move || _ = inside.fetch_add(1, Ordering::SeqCst))
        })
        .unwrap();
    for launches in 1..=10 {
        block_on(executable.launch_async(&stream)).unwrap();
        assert_eq!(count.load(Ordering::SeqCst), launches);
    }
    let signal = hold(&context, &stream);
    let mut future = executable.launch_async(&stream);
    assert!(poll(&mut future, Waker::noop()).is_pending());
    drop(executable);
    signal.set(1);
    block_on(future).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 11);
}

#[test]
fn a_stream_can_be_dropped_while_it_is_awaited() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let (fresh, mut waiting) = (stream.checked_completion_future(), stream.checked_completion_future());
    assert!(poll(&mut waiting, Waker::noop()).is_pending());
    drop(stream);
    signal.set(1);
    block_on(fresh).unwrap();
    block_on(waiting).unwrap();
}

#[test]
fn futures_that_have_failed_from_the_first_are_told_by_a_select() {
    let context = host();
    let stream = context.create_stream().unwrap();
    stream
        .capture(CaptureMode::Global, |scope| {
            let mut refused = scope.completion_future();
            assert!(!refused.is_terminated());
            let result = block_on(async {
                futures::select_biased! { result = refused => result }
            });
            assert_eq!(result.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            assert!(refused.is_terminated());
            Ok(())
        })
        .unwrap();
}

#[test]
fn flags_in_memory_tell_the_same_as_events() {
    let context = host();
    let diagnostics = context.completion_diagnostics();
    context.set_completion_by_flags(Some(true));
    let stream = context.create_stream().unwrap();
    let signal = context.create_signal().unwrap();
    let mut futures = Vec::new();
    for value in 1..=5 {
        hold_until(&stream, &signal, value);
        futures.push(stream.completion_future());
    }
    assert!(futures.iter_mut().rev().all(|future| poll(future, Waker::noop()).is_pending()));
    for (future, value) in futures.iter_mut().zip(1..) {
        signal.set(value);
        block_on(future).unwrap();
    }
    let after = stream.checked_completion_future();
    drop(stream);
    block_on(after).unwrap();
    // More streams than a page of memory has flags, and flags of ended streams again.
    for round in 0..3 {
        let streams: Vec<_> = (0..70).map(|_| context.create_stream().unwrap()).collect();
        streams.iter().for_each(|stream| hold_until(stream, &signal, 6 + round));
        let mut futures: Vec<_> = streams.iter().map(|stream| stream.completion_future()).collect();
        assert!(futures.iter_mut().all(|future| poll(future, Waker::noop()).is_pending()));
        // Of half of them nothing is left but the device's work.
        let mut others = futures.split_off(35);
        drop((futures, streams));
        assert!(others.iter_mut().all(|future| poll(future, Waker::noop()).is_pending()));
        signal.set(6 + round);
        others.into_iter().for_each(|future| block_on(future).unwrap());
    }
    drop((context, futures, signal));
    until("the end of the context", || !diagnostics.is_running());

    let (context, stream, lose) = about_to_be_lost();
    context.set_completion_by_flags(Some(true));
    let signal = hold(&context, &stream);
    let future = stream.completion_future();
    lose();
    assert!(block_on(future).unwrap_err().is_sticky());
    signal.set(1);
}

#[test]
fn without_a_spin_all_the_same() {
    let context = host();
    assert_eq!(context.completion_spin(), Duration::from_micros(20));
    context.set_completion_spin(Duration::ZERO);
    assert_eq!(context.completion_spin(), Duration::ZERO);
    let stream = context.create_stream().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..200 {
        let inside = count.clone();
        stream.launch_host_func(move || _ = inside.fetch_add(1, Ordering::SeqCst)).unwrap();
        block_on(stream.completion_future()).unwrap();
    }
    assert_eq!(count.load(Ordering::SeqCst), 200);
    block_on(ready(()));
}

#[test]
fn default_streams_can_be_awaited() {
    let context = host();
    let (legacy, own) = (context.legacy_stream().unwrap(), context.per_thread_stream().unwrap());
    let blocking = context.create_stream_with_flags(anabranch::StreamFlags::empty()).unwrap();
    let signal = hold(&context, &blocking);
    let mut future = legacy.checked_completion_future();
    assert!(poll(&mut future, Waker::noop()).is_pending());
    let sent = own.checked_completion_future();
    signal.set(1);
    block_on(future).unwrap();
    std::thread::spawn(move || block_on(sent).unwrap()).join().unwrap();
}

/// One that did would write it at each launch, whatever the stream has come to meanwhile.
#[test]
fn a_capture_that_begins_on_another_thread_captures_no_mark() {
    let context = host();
    context.set_completion_by_flags(Some(true));
    let stream = context.create_stream().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                drop(stream.completion_future());
            }
            over.store(true, Ordering::SeqCst);
        });
        while !over.load(Ordering::SeqCst) {
            stream.begin_capture(CaptureMode::Relaxed).unwrap();
            assert!(stream.end_capture().unwrap().nodes().unwrap().is_empty());
        }
    });
}
