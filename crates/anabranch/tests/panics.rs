//! Panics of closures: whose work they are told to be, and to whom they are told.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::Raised;
use anabranch::{
    CaptureMode, Context, ContextFlags, DualModule, Error, ErrorKind, HostFunction, LaunchConfig, NodeWork, Status,
    Stream, flush_deferred_drops, reset_drop_error_hook, set_drop_error_hook,
};
use common::{hold, host, until};
use futures::executor::block_on;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Panics without a message on standard error.
fn panic(message: &'static str) {
    std::panic::resume_unwind(Box::new(message));
}

/// Panics when it is dropped.
struct PanicsInDrop(&'static str);

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic(self.0);
    }
}

/// Puts a closure into a stream that panics with a message.
type Panicking = fn(&Stream, &'static str);

fn host_function(stream: &Stream, message: &'static str) {
    stream.launch_host_func(move || panic(message)).unwrap();
}

fn repeatable_host_function(stream: &Stream, message: &'static str) {
    stream.launch_repeatable_host_func(move || panic(message)).unwrap();
}

fn drop_of_a_host_function(stream: &Stream, message: &'static str) {
    let captured = PanicsInDrop(message);
    stream.launch_host_func(move || _ = &captured).unwrap();
}

fn callback(stream: &Stream, message: &'static str) {
    stream.add_callback(move |_, _| panic(message)).unwrap();
}

fn kernel(stream: &Stream, message: &'static str) {
    let function = HostFunction::new("kernel", &[], move |_, _| panic(message));
    let kernel = DualModule::new().host_function(function).load(&stream.context()).unwrap().kernel("kernel").unwrap();
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
}

fn graph_by_hand(stream: &Stream, message: &'static str) {
    let mut graph = stream.context().create_graph().unwrap();
    graph.add((), NodeWork::host_func(move || panic(message))).unwrap();
    graph.instantiate().unwrap().launch(stream).unwrap();
}

fn captured_graph(stream: &Stream, message: &'static str) {
    let origin = stream.context().create_stream().unwrap();
    let graph =
        origin.capture(CaptureMode::Global, |scope| scope.stream().launch_repeatable_host_func(move || panic(message)));
    graph.unwrap().instantiate().unwrap().launch(stream).unwrap();
}

/// The graph is gone when the launch is complete, and its closure with it.
fn drop_of_a_closure_of_a_graph(stream: &Stream, message: &'static str) {
    let captured = PanicsInDrop(message);
    let mut graph = stream.context().create_graph().unwrap();
    graph.add((), NodeWork::host_func(move || _ = &captured)).unwrap();
    graph.instantiate().unwrap().launch(stream).unwrap();
}

const KINDS: [(&str, Panicking); 8] = [
    ("a host function", host_function),
    ("a repeatable host function", repeatable_host_function),
    ("the drop of a host function", drop_of_a_host_function),
    ("a callback", callback),
    ("a kernel", kernel),
    ("a graph by hand", graph_by_hand),
    ("a captured graph", captured_graph),
    ("the drop of a closure of a graph", drop_of_a_closure_of_a_graph),
];

/// The error of a panic: it says where and during what, and not that the context is lost.
#[track_caller]
fn assert_reported<T>(result: Result<T, Error>, what: &str, message: &str, words: &[&str]) {
    let error = result.err().unwrap_or_else(|| panic!("{what}: the panic `{message}` is not reported"));
    let text = error.to_string();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Panicked, Status::LAUNCH_FAILED), "{what}: {text}");
    assert!(!error.is_sticky() && error.is_asynchronous(), "{what}: {text}");
    assert!(text.contains(&format!("panicked: {message}")), "{what}: {text}");
    for word in words {
        assert!(text.contains(word), "{what}: {text} does not say {word}");
    }
    for word in ["lost", "restart", "earlier kernel"] {
        assert!(!text.contains(word), "{what}: {text}");
    }
}

/// Asks a stream and a context, and uses them.
#[track_caller]
fn assert_unharmed(what: &str, stream: &Stream) {
    assert!(stream.query().unwrap_or_else(|error| panic!("{what}: {error}")), "{what}");
    stream.synchronize().unwrap_or_else(|error| panic!("{what}: {error}"));
    block_on(stream.checked_completion_future()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let memory = stream.upload(&[1u32, 2]).unwrap();
    assert_eq!(stream.download(&memory).unwrap(), [1, 2], "{what}");
}

/// Waits until the work of a stream is complete, and does not ask whether it has panicked.
fn complete(stream: &Stream) {
    stream.record_event().unwrap().synchronize().unwrap();
    flush_deferred_drops();
}

#[test]
fn safety_11_a_panic_is_that_of_its_stream_and_of_no_other() {
    let context = host();
    let second = context.device().create_context(ContextFlags::empty()).unwrap();
    for (kind, put) in KINDS {
        let [stream, other, behind] = [(); 3].map(|()| context.create_stream().unwrap());
        let elsewhere = second.create_stream().unwrap();
        put(&stream, "on purpose");
        behind.wait(&stream).unwrap();
        complete(&stream);
        behind.record_event().unwrap().synchronize().unwrap();
        for unharmed in [&other, &behind, &elsewhere] {
            assert_unharmed(kind, unharmed);
        }
        second.synchronize().unwrap();
        let place = format!("synchronizing on stream {} of host", stream.id());
        assert_reported(stream.synchronize(), kind, "on purpose", &[&place]);
        assert_unharmed(kind, &stream);
        context.synchronize().unwrap();
    }
}

/// Each of them reports the panic, with its own operation.
#[test]
fn safety_11_whoever_synchronizes_is_told_during_what() {
    let context = host();
    for (kind, put) in KINDS {
        let stream = context.create_stream().unwrap();
        put(&stream, "of a query");
        complete(&stream);
        assert_reported(stream.query(), kind, "of a query", &["querying on stream"]);
        put(&stream, "of a future");
        complete(&stream);
        let future = stream.checked_completion_future();
        assert_reported(block_on(future), kind, "of a future", &[&format!("stream {}", stream.id())]);
        put(&stream, "of a context");
        complete(&stream);
        assert_reported(context.synchronize(), kind, "of a context", &["synchronizing a context on host"]);
        assert_unharmed(kind, &stream);
    }
}

#[test]
fn safety_29_a_handle_that_comes_again_reports_no_panic_of_the_stream_before() {
    let context = host();
    for (kind, put) in KINDS {
        // The default streams of all threads have the same handle.
        let panics = |context: &Context| {
            let stream = context.per_thread_stream().unwrap();
            put(&stream, "of a thread that is gone");
            complete(&stream);
            stream.as_raw()
        };
        let handle = thread::scope(|scope| scope.spawn(|| panics(&context)).join().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                let stream = context.per_thread_stream().unwrap();
                assert_eq!(stream.as_raw(), handle);
                assert_unharmed(kind, &stream);
            });
        });
        // Others have the handle again if the driver gives it out again.
        let stream = context.create_stream().unwrap();
        put(&stream, "of a stream that is gone");
        complete(&stream);
        drop(stream);
        for _ in 0..64 {
            assert_unharmed(kind, &context.create_stream().unwrap());
        }
        // The context has not forgotten.
        for message in ["of a thread that is gone", "of a stream that is gone"] {
            assert_reported(context.synchronize(), kind, message, &["synchronizing a context"]);
        }
        context.synchronize().unwrap();
    }
}

#[test]
fn safety_11_a_graph_launched_in_several_streams_panics_in_those() {
    let context = host();
    let [first, second, other] = [(); 3].map(|()| context.create_stream().unwrap());
    let panics = Arc::new(AtomicBool::new(false));
    let inside = panics.clone();
    let mut graph = context.create_graph().unwrap();
    let work = move || {
        if inside.load(Ordering::Relaxed) {
            panic("on purpose");
        }
    };
    graph.add((), NodeWork::host_func(work)).unwrap();
    let executable = graph.instantiate().unwrap();
    executable.launch(&first).unwrap();
    first.synchronize().unwrap();
    panics.store(true, Ordering::Relaxed);
    executable.launch(&second).unwrap();
    complete(&second);
    assert_unharmed("another stream", &other);
    // It may have been the launch of either, and is told once.
    assert_reported(second.synchronize(), "a graph", "on purpose", &[&format!("stream {}", second.id())]);
    assert_unharmed("a stream of an earlier launch", &first);
    panics.store(false, Ordering::Relaxed);
    executable.launch(&first).unwrap();
    assert_unharmed("a later launch", {
        complete(&first);
        &first
    });
}

/// There is no stream whose work it is, and nobody who waits.
#[test]
fn a_closure_of_a_graph_that_was_never_launched_panics_in_the_hook() {
    let told: Arc<Mutex<Vec<Error>>> = Arc::default();
    let hook = told.clone();
    set_drop_error_hook(move |error| hook.lock().unwrap().push(error.clone()));
    let context = host();
    let stream = context.create_stream().unwrap();
    let captured = PanicsInDrop("never launched");
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::host_func(move || _ = &captured)).unwrap();
    drop((graph.instantiate().unwrap(), graph));
    flush_deferred_drops();
    until("the drop of the closure", || !told.lock().unwrap().is_empty());
    reset_drop_error_hook();
    let mut told = told.lock().unwrap();
    let error = told.pop().unwrap();
    assert!(told.is_empty());
    assert_reported(Err::<(), _>(error), "the hook", "never launched", &["dropping a host function"]);
    assert_unharmed("a stream", &stream);
    context.synchronize().unwrap();
}

/// A waker is a closure of an executor. Its panics are no panics of the work that is awaited.
#[test]
fn a_waker_that_panics_is_no_panic_of_the_stream() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic("in a waker");
        }
    }
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let mut future = stream.checked_completion_future();
    let waker = Arc::new(Panics).into();
    let poll = std::pin::Pin::new(&mut future).poll(&mut std::task::Context::from_waker(&waker));
    assert!(poll.is_pending());
    let other = stream.checked_completion_future();
    // If the panic were the end of whoever wakes, nobody would wake the other task.
    let (tell, told) = channel();
    let awaiting = thread::spawn(move || tell.send(block_on(other)).unwrap());
    signal.set(1);
    told.recv_timeout(Duration::from_secs(30)).expect("the other task is woken").unwrap();
    awaiting.join().unwrap();
    block_on(future).unwrap();
    assert_unharmed("the stream", &stream);
    context.synchronize().unwrap();
}

#[test]
fn a_wait_that_may_be_given_up_leaves_a_panic_to_others() {
    let context = host();
    let stream = context.create_stream().unwrap();
    host_function(&stream, "for the next one");
    context.synchronize_unreported().unwrap();
    assert_reported(context.report_panic(), "report_panic", "for the next one", &[]);
    context.report_panic().unwrap();
    host_function(&stream, "for the stream");
    context.synchronize_unreported().unwrap();
    assert_reported(stream.synchronize(), "synchronize", "for the stream", &[]);
    context.report_panic().unwrap();
}

#[test]
fn what_is_raised_is_kept_until_it_is_reported_or_will_not_be() {
    let raise = |stream: &Stream| {
        let kept = Arc::new(());
        let weak = Arc::downgrade(&kept);
        stream
            .launch_host_func(move || {
                std::panic::resume_unwind(Box::new(Raised { message: "raised".to_owned(), kept }))
            })
            .unwrap();
        weak
    };
    let context = host();
    let stream = context.create_stream().unwrap();
    let (first, second) = (raise(&stream), raise(&stream));
    complete(&stream);
    until("the end of a panic that will not be reported", || second.strong_count() == 0);
    assert_eq!(first.strong_count(), 1);
    assert_reported(stream.synchronize(), "synchronize", "raised", &[]);
    until("the end of a panic that was reported", || first.strong_count() == 0);
}

/// What unwinds when the library lets go of it.
fn raise_what_unwinds(stream: &Stream) {
    let raise = || {
        let kept = Arc::new(PanicsInDrop("kept"));
        std::panic::resume_unwind(Box::new(Raised { message: "raised".to_owned(), kept }))
    };
    stream.launch_host_func(raise).unwrap();
}

#[test]
fn safety_187_what_is_kept_for_a_report_may_unwind_when_it_is_let_go() {
    let context = host();
    let streams: Vec<_> = (0..2).map(|_| context.create_stream().unwrap()).collect();
    streams.iter().for_each(raise_what_unwinds);
    let error = streams[0].synchronize().unwrap_err();
    assert!(error.to_string().contains("raised"), "{error}");
    // What comes behind a panic that is not reported runs.
    let (ran, has_run) = channel();
    raise_what_unwinds(&streams[1]);
    streams[1].launch_host_func(move || ran.send(()).unwrap()).unwrap();
    has_run.recv_timeout(Duration::from_secs(60)).unwrap();
    // Two that nobody has asked for go with the context.
    raise_what_unwinds(&streams[0]);
    context.synchronize_unreported().unwrap();
    drop((streams, context));
    flush_deferred_drops();
}

#[test]
fn safety_187_closures_of_one_module_may_unwind_when_they_are_dropped() {
    let context = host();
    let mut module = DualModule::new();
    for name in ["first", "second"] {
        let panics = [PanicsInDrop(name), PanicsInDrop(name)];
        let [one, other] = panics;
        let function = HostFunction::new(name, &[], move |_, _| _ = &one).then(move |_, _| _ = &other);
        module = module.host_function(function);
    }
    let loaded = module.load(&context).unwrap();
    // The library's references to the closures are the last ones.
    drop(module);
    drop(loaded);
    flush_deferred_drops();
}
