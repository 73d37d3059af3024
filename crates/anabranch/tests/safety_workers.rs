//! Classes of defects of who runs work on the software device, and looks after what it waits for. `docs/safety.md` lists them all by
//! the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Context, DualModule, HostFunction, Instance, Kernel, LaunchConfig, NodeWork, Scalar, Stream, WaitCondition,
};
use common::{assert_ends, until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A context of a software device with so many workers.
fn with_workers(count: usize) -> Context {
    let instance = Instance::builder().cuda(false).isolated().host_workers(count).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

#[test]
fn safety_194_a_wait_for_a_value_ends_while_host_functions_run() {
    assert_ends(|| {
        let context = with_workers(1);
        let [busy, waiting] = std::array::from_fn(|_| context.create_stream().unwrap());
        let signal = context.create_signal().unwrap();
        let ((begin, begun), (go_on, gone_on)) = (channel(), channel());
        let gone_on = Mutex::new(gone_on);
        let function = HostFunction::new("run", &[], move |_, _| {
            begin.send(()).unwrap();
            gone_on.lock().unwrap().recv().unwrap();
        });
        let kernel = DualModule::new().host_function(function).load(&context).unwrap().kernel("run").unwrap();
        let ((enter, entered), (pass, passed)) = (channel(), channel());
        busy.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
        busy.launch_host_func(move || {
            enter.send(()).unwrap();
            passed.recv().unwrap();
        })
        .unwrap();
        begun.recv().unwrap();
        // The wait comes while the worker runs a kernel, which a host function follows that waits for what comes behind the wait.
        waiting.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
        waiting.launch_host_func(move || pass.send(()).unwrap()).unwrap();
        go_on.send(()).unwrap();
        entered.recv().unwrap();
        signal.set(1);
        // Waits for the stream whose worker is busy, and not for the one that waits for the value.
        while !busy.query().unwrap() {
            std::thread::yield_now();
        }
    });
}

/// A large kernel waits for other streams' work, of which there is less than there are workers.
fn assert_leaves_workers(streams: &[Stream; 4]) {
    let context = streams[0].context();
    let [waiting, others @ ..] = streams;
    let begun = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&begun);
    let wait = HostFunction::new("wait", &[], move |_, _| {
        while seen.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
    });
    // They wait for each other, and only after a moment, when the first kernel has all the help that it gets.
    let meet = Arc::clone(&begun);
    let meet = HostFunction::new("meet", &[], move |_, _| {
        meet.fetch_add(1, Ordering::SeqCst);
        while meet.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
    });
    let module = DualModule::new().host_function(wait).host_function(meet).load(&context).unwrap();
    let [wait, meet] = ["wait", "meet"].map(|name| module.kernel(name).unwrap());
    waiting.launch_checked(&wait, &LaunchConfig::new(64, 128), ()).unwrap();
    thread::sleep(Duration::from_millis(20));
    for other in others {
        other.launch_checked(&meet, &LaunchConfig::new(1, 1), ()).unwrap();
    }
    until("the other kernels have begun", || begun.load(Ordering::SeqCst) == 3);
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
}

#[test]
fn safety_197_a_large_kernel_leaves_workers_to_others() {
    assert_ends(|| {
        let context = with_workers(4);
        for _ in 0..20 {
            assert_leaves_workers(&std::array::from_fn(|_| context.create_stream().unwrap()));
        }
    });
}

#[test]
fn safety_197_a_large_kernel_leaves_workers_of_a_green_context_to_others() {
    assert_ends(|| {
        let context = with_workers(8);
        let (groups, _) = context.device().multiprocessors().unwrap().split(1, 4).unwrap();
        let green = context.create_green_context(&groups).unwrap();
        for _ in 0..20 {
            assert_leaves_workers(&std::array::from_fn(|_| green.create_stream().unwrap()));
        }
    });
}

/// Kernels, which are loaded before there is any work, because that waits for it.
struct Kernels {
    busy: Kernel,
    nothing: Kernel,
    ran: Arc<[AtomicUsize; 2]>,
}

impl Kernels {
    fn new(context: &Context) -> Self {
        let ran = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let counted = Arc::clone(&ran);
        let busy = HostFunction::new("busy", &[4], move |_, arguments| {
            thread::sleep(Duration::from_micros(100));
            counted[arguments.scalar::<u32>(0) as usize].fetch_add(1, Ordering::SeqCst);
        });
        let nothing = HostFunction::new("nothing", &[], |_, _| {});
        let module = DualModule::new().host_function(busy).host_function(nothing).load(context).unwrap();
        let [busy, nothing] = ["busy", "nothing"].map(|name| module.kernel(name).unwrap());
        Self { busy, nothing, ran }
    }

    fn launch_nothing(&self, stream: &Stream) {
        stream.launch_checked(&self.nothing, &LaunchConfig::new(1, 1), ()).unwrap();
    }

    /// Keeps streams busy with short kernels until something else is over.
    fn keep_busy(&self, streams: &[Stream], is_over: impl Fn() -> bool) {
        let ran = |index: usize| self.ran[index].load(Ordering::SeqCst);
        let mut queued = [ran(0), ran(1)];
        while !is_over() {
            for (index, stream) in streams.iter().enumerate() {
                while queued[index] < ran(index) + 100 {
                    stream.launch_checked(&self.busy, &LaunchConfig::new(1, 1), (Scalar(index as u32),)).unwrap();
                    queued[index] += 1;
                }
            }
            thread::sleep(Duration::from_micros(300));
        }
        streams.iter().for_each(|stream| stream.synchronize().unwrap());
    }
}

#[test]
fn safety_198_streams_of_a_green_context_have_their_turns() {
    for (priority, multiprocessors) in [(0, 1), (-5, 1), (0, 2)] {
        assert_ends(move || {
            let context = with_workers(4);
            let (groups, _) = context.device().multiprocessors().unwrap().split(1, multiprocessors).unwrap();
            let green = context.create_green_context(&groups).unwrap();
            let streams: Vec<_> = (0..multiprocessors).map(|_| green.create_stream().unwrap()).collect();
            let other = green.create_stream_with_priority(priority).unwrap();
            let kernels = Kernels::new(&context);
            for _ in 0..5 {
                let is_queued = AtomicBool::new(false);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        thread::sleep(Duration::from_millis(10));
                        kernels.launch_nothing(&other);
                        is_queued.store(true, Ordering::SeqCst);
                    });
                    kernels.keep_busy(&streams, || is_queued.load(Ordering::SeqCst) && other.query().unwrap());
                });
            }
        });
    }
}

#[test]
fn safety_199_a_wait_for_a_value_ends_beside_streams_that_are_busy() {
    for workers in [1, 2] {
        assert_ends(move || {
            let context = with_workers(workers);
            let streams: Vec<_> = (0..workers).map(|_| context.create_stream().unwrap()).collect();
            let (other, signal) = (context.create_stream().unwrap(), context.create_signal().unwrap());
            let kernels = Kernels::new(&context);
            let mut graph = context.create_graph().unwrap();
            let waited = graph.add((), NodeWork::wait_signal(&signal, WaitCondition::GreaterOrEqual, 2)).unwrap();
            graph.add(waited, NodeWork::host_func(|| {})).unwrap();
            other.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1).unwrap();
            kernels.launch_nothing(&other);
            graph.instantiate().unwrap().launch(&other).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    for value in [1, 2] {
                        thread::sleep(Duration::from_millis(20));
                        signal.set(value);
                    }
                });
                kernels.keep_busy(&streams, || other.query().unwrap());
            });
        });
    }
}
