//! Capture modes of threads, which end where their guards do. `docs/safety.md` lists the classes by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{CaptureMode, CaptureModeGuard, Context, Instance, Status};
use common::{hold, host};
use futures::executor::block_on;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{self, Wake, Waker};
use std::time::Duration;

#[test]
fn safety_168_modes_of_two_instances_end_with_their_guards() {
    let [one, other] = [(); 2].map(|()| host());
    let before = one.exchange_capture_mode(CaptureMode::Global).unwrap().before();
    let first = one.exchange_capture_mode(CaptureMode::Relaxed).unwrap();
    let second = other.exchange_capture_mode(CaptureMode::ThreadLocal).unwrap();
    drop(first);
    assert_eq!(one.exchange_capture_mode(CaptureMode::Global).unwrap().before(), CaptureMode::ThreadLocal);
    drop(second);
    for context in [one, other] {
        assert_eq!(context.exchange_capture_mode(CaptureMode::Global).unwrap().before(), before);
    }
}

#[test]
fn safety_168_a_mode_ends_in_a_host_function_on_the_thread_that_runs_it() {
    thread_local!(static GUARD: RefCell<Option<CaptureModeGuard>> = const { RefCell::new(None) });
    // With a seed, threads that wait run the host functions.
    let instance = Instance::builder().cuda(false).host_seed(3).isolated().build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    let before = context.exchange_capture_mode(CaptureMode::Global).unwrap().before();
    GUARD.set(Some(context.exchange_capture_mode(CaptureMode::Relaxed).unwrap()));
    let inside = context.clone();
    let host_function = move || {
        assert!(GUARD.take().is_some(), "another thread runs it");
        let refused = inside.exchange_capture_mode(CaptureMode::Relaxed).unwrap_err();
        assert_eq!(refused.status(), Status::NOT_PERMITTED);
    };
    stream.launch_host_func(host_function).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(context.exchange_capture_mode(CaptureMode::Global).unwrap().before(), before);
}

#[test]
fn safety_167_a_mode_that_a_waker_leaks_ends_with_the_waker() {
    struct Leaks(Context, Sender<()>);
    impl Wake for Leaks {
        fn wake(self: Arc<Self>) {
            std::mem::forget(self.0.exchange_capture_mode(CaptureMode::Global).unwrap());
            self.1.send(()).unwrap();
        }
    }
    let context = host();
    let [stream, other] = [(); 2].map(|()| context.create_stream().unwrap());
    let held = hold(&context, &stream);
    let (told, woken) = channel();
    let waker = Waker::from(Arc::new(Leaks(context.clone(), told)));
    let mut completed = stream.completion_future();
    assert!(Pin::new(&mut completed).poll(&mut task::Context::from_waker(&waker)).is_pending());
    held.set(1);
    woken.recv().unwrap();
    // The reactor asks for work beside a capture that prohibits it to threads in global mode.
    let graph = std::thread::scope(|scope| {
        let (begun, wait) = channel();
        let (done, end) = channel();
        let context = &context;
        let capture = scope.spawn(move || {
            let captured = context.create_stream().unwrap();
            captured.capture(CaptureMode::Global, |_| {
                begun.send(()).unwrap();
                end.recv().unwrap();
                Ok(())
            })
        });
        wait.recv().unwrap();
        let _mode = context.exchange_capture_mode(CaptureMode::Relaxed).unwrap();
        let held = hold(context, &other);
        let completion = other.completion_future();
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            held.set(1);
        });
        let completed = block_on(completion);
        done.send(()).unwrap();
        completed.unwrap();
        capture.join().unwrap()
    });
    assert!(graph.is_ok(), "{graph:?}");
}
