//! The thread behind the futures.

use super::*;
use std::sync::Mutex;
use std::thread::ThreadId;

#[test]
fn it_runs_from_the_first_future_that_waits_to_the_end_of_the_context() {
    let context = host();
    let diagnostics = context.completion_diagnostics();
    let stream = context.create_stream().unwrap();
    block_on(stream.completion_future()).unwrap();
    assert!(!diagnostics.is_running(), "what is complete at the first poll needs no thread");
    let signal = hold(&context, &stream);
    let mut future = stream.completion_future();
    assert!(poll(&mut future, Waker::noop()).is_pending());
    assert!(diagnostics.is_running());
    drop((context, stream));
    signal.set(1);
    drop(signal);
    block_on(&mut future).unwrap();
    until("the thread's end", || !diagnostics.is_running());
}

#[test]
fn it_asks_nothing_while_nobody_waits() {
    let context = host();
    let diagnostics = context.completion_diagnostics();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let mut futures: Vec<_> = (0..50).map(|_| stream.completion_future()).collect();
    assert!(futures.iter_mut().all(|future| poll(future, Waker::noop()).is_pending()));
    until("asking", || diagnostics.looks() > 2);
    drop(futures);
    // The stream is still held up, but nobody waits.
    let is_quiet = || {
        let before = diagnostics.looks();
        std::thread::sleep(Duration::from_millis(20));
        diagnostics.looks() == before
    };
    until("rest", is_quiet);
    assert!(is_quiet());
    let mut future = stream.completion_future();
    assert!(poll(&mut future, Waker::noop()).is_pending());
    signal.set(1);
    block_on(future).unwrap();
    until("rest", is_quiet);
    assert!(diagnostics.is_running());
}

#[test]
fn captures_of_other_threads_are_not_spoiled() {
    let context = host();
    let (stream, capturing) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let signal = hold(&context, &stream);
    let future = stream.checked_completion_future();
    let event = stream.record_event().unwrap();
    let graph = capturing
        .capture(CaptureMode::Global, |scope| {
            let waiting = std::thread::spawn(move || block_on(future));
            let mut own = event.completed();
            assert!(poll(&mut own, Waker::noop()).is_pending());
            scope.launch_repeatable_host_func(|| {})?;
            signal.set(1);
            waiting.join().unwrap().unwrap();
            block_on(own).unwrap();
            assert!(block_on(stream.completion_future()).is_ok());
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
}

/// Notes on which threads it is woken and dropped, and whether the library can be called there.
struct Noting {
    stream: Stream,
    dropped: mpsc::Sender<(ThreadId, bool)>,
    woken: Mutex<Vec<ThreadId>>,
}

impl Wake for Noting {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().push(std::thread::current().id());
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        let permitted = self.stream.query().is_ok();
        self.dropped.send((std::thread::current().id(), permitted)).unwrap();
    }
}

#[test]
fn safety_12_wakers_are_never_dropped_on_the_driver_s_thread() {
    let context = host();
    let (stream, runner) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let signal = hold(&context, &stream);
    let (dropped, receiver) = mpsc::channel();
    let noting = || {
        let stream = context.create_stream().unwrap();
        Arc::new(Noting { stream, dropped: dropped.clone(), woken: Mutex::default() })
    };
    // Dropped inside of a host function, with the future.
    let mut future = stream.completion_future();
    assert!(poll(&mut future, &Waker::from(noting())).is_pending());
    let (inside, thread) = mpsc::channel();
    runner
        .launch_host_func(move || {
            drop(future);
            inside.send(std::thread::current().id()).unwrap();
        })
        .unwrap();
    let (where_dropped, permitted) = receiver.recv().unwrap();
    assert!(permitted && where_dropped != thread.recv().unwrap());

    // Woken by the reactor.
    let waker = noting();
    let mut future = stream.completion_future();
    assert!(poll(&mut future, &Waker::from(waker.clone())).is_pending());
    signal.set(1);
    until("the waking", || !waker.woken.lock().unwrap().is_empty());
    assert_ne!(waker.woken.lock().unwrap()[0], std::thread::current().id());
    until("its end", || Arc::strong_count(&waker) == 1);
    block_on(future).unwrap();
}

#[test]
fn inside_of_a_host_function_only_the_reactor_asks() {
    let context = host();
    let (stream, runner) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let signal = hold(&context, &stream);
    let (future, after) = (stream.checked_completion_future(), stream.checked_completion_future());
    let (sender, receiver) = mpsc::channel();
    runner.launch_host_func(move || sender.send(block_on(future)).unwrap()).unwrap();
    signal.set(1);
    receiver.recv().unwrap().unwrap();
    block_on(after).unwrap();
}

#[test]
fn a_waker_that_panics_does_not_end_it() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    let context = host();
    let stream = context.create_stream().unwrap();
    let signal = hold(&context, &stream);
    let mut bad = stream.completion_future();
    assert!(poll(&mut bad, &Waker::from(Arc::new(Panics))).is_pending());
    let mut good = stream.completion_future();
    assert!(poll(&mut good, Waker::noop()).is_pending());
    signal.set(1);
    block_on(good).unwrap();
    block_on(bad).unwrap();
}
