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
    until("asking", || diagnostics.checks() > 2);
    drop(futures);
    // The stream is still held up, but nobody waits.
    let is_quiet = || {
        let before = diagnostics.checks();
        std::thread::sleep(Duration::from_millis(20));
        diagnostics.checks() == before
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
fn captures_of_other_threads_are_not_invalidated() {
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

/// Does something when it is dropped.
struct OnDrop<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> Wake for OnDrop<F> {
    fn wake(self: Arc<Self>) {}
}

impl<F: Fn() + Send + Sync> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Drops the waker inside of a host function, with its future.
fn drop_inside(context: &Context, waker: Waker) {
    let (stream, runner) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let signal = hold(context, &stream);
    let mut future = stream.completion_future();
    assert!(poll(&mut future, &waker).is_pending());
    drop(waker);
    runner.launch_host_func(move || drop(future)).unwrap();
    runner.synchronize().unwrap();
    signal.set(1);
}

#[test]
fn safety_12_what_a_waker_does_when_it_is_dropped_keeps_no_later_drop_from_being_done() {
    struct PanicsToo;
    impl Drop for PanicsToo {
        fn drop(&mut self) {
            panic!("in a payload");
        }
    }
    let context = host();
    drop_inside(&context, Waker::from(Arc::new(OnDrop(flush_deferred_drops))));
    drop_inside(&context, Waker::from(Arc::new(OnDrop(|| std::panic::resume_unwind(Box::new(PanicsToo))))));
    let (sender, receiver) = mpsc::channel();
    let name = move || sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
    drop_inside(&context, Waker::from(Arc::new(OnDrop(name))));
    let dropped_by = receiver.recv_timeout(Duration::from_secs(20)).expect("the waker is dropped");
    assert_eq!(dropped_by.as_deref(), Some("anabranch-reaper"));
}

#[test]
fn safety_12_inside_of_a_kernel_only_the_reactor_asks() {
    let context = host();
    let (stream, held) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let slot = Arc::new(Mutex::new(None));
    let inside = slot.clone();
    let function = HostFunction::new("poll", &[], move |_, _| {
        assert!(poll(inside.lock().unwrap().as_mut().unwrap(), Waker::noop()).is_pending());
    });
    let kernel = DualModule::new().host_function(function).load(&context).unwrap().kernel("poll").unwrap();
    let signal = hold(&context, &held);
    *slot.lock().unwrap() = Some(held.completion_future());
    stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
    let polled = stream.synchronize();
    signal.set(1);
    polled.unwrap();
    let future = slot.lock().unwrap().take().unwrap();
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

/// Does something when it is woken.
struct OnWake<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn safety_55_a_waker_that_waits_for_a_future_gets_an_error() {
    let context = host();
    let (stream, held) = (context.create_stream().unwrap(), Arc::new(context.create_stream().unwrap()));
    let (signal, other) = (hold(&context, &stream), hold(&context, &held));
    let (results, told) = mpsc::channel();
    // One that was polled before, by a task of its own.
    let mut before = held.completion_future();
    assert!(poll(&mut before, Waker::noop()).is_pending());
    let (before, inside) = (Mutex::new(Some(before)), held.clone());
    let waker = Waker::from(Arc::new(OnWake(move || {
        let fresh = block_on(inside.completion_future());
        let download = block_on(inside.download_async(&inside.allocate_zeroed::<u8>(10).unwrap()));
        let registered = block_on(before.lock().unwrap().take().unwrap());
        for result in [fresh, download.map(drop), registered] {
            results.send(result).unwrap();
        }
        // What is complete can be awaited everywhere, and so can what blocks the thread itself.
        other.set(1);
        inside.synchronize().unwrap();
        results.send(block_on(inside.completion_future())).unwrap();
    })));
    let mut future = stream.completion_future();
    assert!(poll(&mut future, &waker).is_pending());
    signal.set(1);
    for what in ["a fresh future", "a download", "a future that was registered"] {
        let result = told.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{what}: it hangs"));
        let error = result.expect_err(what);
        assert_eq!(error.status(), Status::NOT_PERMITTED, "{what}: {error}");
        assert!(error.to_string().contains("waker"), "{what}: {error}");
    }
    told.recv_timeout(Duration::from_secs(60)).expect("it hangs").unwrap();
    // The reactor goes on.
    let signal = hold(&context, &held);
    let future = held.completion_future();
    let waiting = std::thread::spawn(move || block_on(future));
    signal.set(1);
    waiting.join().unwrap().unwrap();
}
