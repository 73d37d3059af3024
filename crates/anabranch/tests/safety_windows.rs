//! Classes of defects of what two threads do at one moment: one of them stops between two steps of the library, and the other goes
//! on. `docs/safety.md` lists them all by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
#[path = "common/one_lock.rs"]
mod one_lock;

use anabranch::hal::{
    self, Call, Driver, EventHandle, EventRecordFlags, Forward, GraphHandle, Layered, Live, StreamHandle,
};
use anabranch::{
    CaptureMode, Completion, Context, ContextFlags, DualModule, HostFunction, HostModule, Instance, LaunchConfig,
    Module,
};
use common::{assert_ends, hold, until};
use one_lock::OneLock;
use std::fmt;
use std::future::Future;
use std::hint::spin_loop;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context as Task, Waker};
use std::thread;
use std::time::{Duration, Instant};

type Action = Box<dyn FnOnce() + Send>;

/// What happens in the middle of the next record of an event, and whether a capture was ended meanwhile.
#[derive(Clone, Default)]
struct Beside {
    record: Arc<Mutex<Option<Action>>>,
    /// How many threads do something on purpose there.
    inside: Arc<AtomicUsize>,
    is_ended_beside: Arc<AtomicBool>,
}

struct Watching {
    inner: Arc<dyn Driver>,
    beside: Beside,
}

impl fmt::Debug for Watching {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Watching")
    }
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Watching {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> hal::Result<()> {
        let action = self.beside.record.lock().unwrap().take();
        if let Some(action) = action {
            self.beside.inside.fetch_add(1, Ordering::SeqCst);
            action();
            self.beside.inside.fetch_sub(1, Ordering::SeqCst);
        }
        self.inner.event_record(call, event, stream, flags)
    }

    fn stream_end_capture(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> hal::Result<GraphHandle> {
        if self.beside.inside.load(Ordering::SeqCst) > 0 {
            self.beside.is_ended_beside.store(true, Ordering::Relaxed);
        }
        self.inner.stream_end_capture(call, stream)
    }
}

fn watched() -> (Context, Beside) {
    let beside = Beside::default();
    let of_layer = beside.clone();
    let wrap = move |inner| Arc::new(Layered(Watching { inner, beside: of_layer.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    (instance.device("host").unwrap().context().unwrap(), beside)
}

fn poll(future: &mut Completion) -> bool {
    Pin::new(future).poll(&mut Task::from_waker(Waker::noop())).is_ready()
}

/// Counts if it is dropped before the kernel has run.
struct Early {
    has_run: Arc<AtomicBool>,
    early: Arc<AtomicUsize>,
}

impl Drop for Early {
    fn drop(&mut self) {
        if !self.has_run.load(Ordering::SeqCst) {
            self.early.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[test]
fn safety_183_a_module_lives_until_its_kernel_has_run_whichever_thread_makes_the_first_stream() {
    const ROUNDS: usize = 300;
    const PAIRS: usize = 8;
    let device = Instance::builder().cuda(false).isolated().build().unwrap().device("host").unwrap();
    let early = Arc::new(AtomicUsize::new(0));
    let round = |spin: usize| {
        let context = device.create_context(ContextFlags::empty()).unwrap();
        let has_run = Arc::new(AtomicBool::new(false));
        let kernel = {
            let canary = Early { has_run: has_run.clone(), early: early.clone() };
            let waits = HostFunction::new("waits", &[], move |block, _| {
                let has_run = canary.has_run.clone();
                block.phase(|_, _| {
                    thread::sleep(Duration::from_micros(400));
                    has_run.store(true, Ordering::SeqCst);
                });
            });
            Module::load_host(&context, &HostModule::new().with_function(waits)).unwrap().kernel("waits").unwrap()
        };
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                let _first = context.create_stream().unwrap();
                barrier.wait();
            });
            barrier.wait();
            (0..spin).for_each(|_| spin_loop());
            let stream = context.create_stream().unwrap();
            stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
            drop(kernel);
            thread::sleep(Duration::from_micros(200));
            barrier.wait();
            stream.synchronize().unwrap();
        });
    };
    // Many threads, so that they stop at any place.
    thread::scope(|scope| {
        for _ in 0..PAIRS {
            scope.spawn(|| (0..ROUNDS).for_each(|number| round(number * 7 % 400)));
        }
    });
    assert_eq!(early.load(Ordering::SeqCst), 0, "closures were dropped before they had run");
}

#[test]
fn safety_184_a_future_is_ready_whatever_another_thread_awaits_in_its_stream() {
    assert_ends(|| {
        let (context, beside) = watched();
        let stream = Arc::new(context.create_stream().unwrap());
        let gate = hold(&context, &stream);
        let own = Arc::new(context.create_signal().unwrap());
        let (send, receive) = channel();
        let other = (stream.clone(), own.clone());
        // One thread stops in the middle of a future, and another one makes one, and then goes on in the stream.
        *beside.record.lock().unwrap() = Some(Box::new(move || {
            let (done, wait) = channel();
            thread::spawn(move || {
                let (stream, own) = other;
                let mut future = stream.completion_future();
                assert!(!poll(&mut future));
                stream.wait_signal(&own, anabranch::WaitCondition::GreaterOrEqual, 1).unwrap();
                send.send(future).unwrap();
                let _ = done.send(());
            });
            // The other one may have to wait for this one.
            let _ = wait.recv_timeout(Duration::from_millis(200));
        }));
        let mut first = stream.completion_future();
        assert!(!poll(&mut first));
        let second = receive.recv().unwrap();
        gate.set(1);
        futures::executor::block_on(second).unwrap();
        own.set(1);
        futures::executor::block_on(first).unwrap();
    });
}

fn one_lock() -> Context {
    let instance = Instance::builder().cuda(false).isolated().wrap(OneLock::over).build().unwrap();
    instance.device("host").unwrap().context().unwrap()
}

/// A thread loads a module, for which the driver waits for all work of the context, and another one does `meanwhile`, which sends
/// what that work waits for.
fn loads_a_module(
    context: &Context,
    module: &DualModule,
    message: &Sender<()>,
    meanwhile: impl FnOnce() + Send + 'static,
) {
    let (loaded, over) = channel();
    let loading = {
        let (context, module, loaded) = (context.clone(), module.clone(), loaded.clone());
        thread::spawn(move || {
            drop(module.load(&context).unwrap());
            loaded.send(()).unwrap();
        })
    };
    let other = thread::spawn(move || {
        meanwhile();
        loaded.send(()).unwrap();
    });
    let is_kept = (0..2).any(|_| over.recv_timeout(Duration::from_secs(20)).is_err());
    // So that all of it ends.
    let _ = message.send(());
    loading.join().unwrap();
    other.join().unwrap();
    assert!(!is_kept, "both threads were kept waiting");
}

fn with_waiting_function(context: &Context) -> (anabranch::Stream, Sender<()>) {
    let (message, waits): (_, Receiver<()>) = channel();
    let stream = context.create_stream().unwrap();
    stream.launch_host_func(move || _ = waits.recv()).unwrap();
    (stream, message)
}

fn nothing() -> DualModule {
    DualModule::new().host_function(HostFunction::new("nothing", &[], |_, _| ()))
}

#[test]
fn safety_185_a_call_that_waits_for_a_context_waits_for_streams_that_end_meanwhile() {
    let context = one_lock();
    // So that looking through them takes a while.
    let _idle: Vec<_> = (0..2000).map(|_| context.create_stream().unwrap()).collect();
    let module = nothing();
    for round in 0..300 {
        let (stream, message) = with_waiting_function(&context);
        let (context_of_other, message_of_other) = (context.clone(), message.clone());
        loads_a_module(&context, &module, &message, move || {
            (0..round * 7 % 4000).for_each(|_| spin_loop());
            drop(stream);
            thread::sleep(Duration::from_micros(300));
            drop(context_of_other.create_stream().unwrap());
            let _ = message_of_other.send(());
        });
    }
}

#[test]
fn safety_185_a_call_that_waits_for_a_context_waits_for_streams_that_have_ended() {
    let context = one_lock();
    let (front, message) = with_waiting_function(&context);
    drop(front);
    let gate = context.create_stream().unwrap();
    let mut buffer = gate.allocate_zeroed::<u32>(1 << 16).unwrap();
    gate.synchronize().unwrap();
    let (context_of_other, message_of_other) = (context.clone(), message.clone());
    loads_a_module(&context, &nothing().host_global("table", 3 << 20), &message, move || {
        thread::sleep(Duration::from_millis(5));
        for _ in 0..200 {
            gate.fill(&mut buffer, 7u32).unwrap();
            let event = gate.record_event().unwrap();
            for _ in 0..80 {
                context_of_other.create_stream().unwrap().wait_event(&event).unwrap();
            }
            gate.synchronize().unwrap();
        }
        let _ = message_of_other.send(());
    });
}

#[test]
fn safety_186_no_capture_is_ended_while_a_stream_joins_it_by_a_record() {
    let (context, beside) = watched();
    let [stream, outside] = [(); 2].map(|()| context.create_stream().unwrap());
    let condition = stream.upload(&[1u32]).unwrap();
    let (mut result, buffer) = (stream.upload(&[0u32; 4]).unwrap(), stream.upload(&[5u32; 4]).unwrap());
    let (ends, may_end) = channel();
    let joins = std::cell::RefCell::new(None);
    let _ = stream.capture(CaptureMode::Relaxed, |scope| {
        scope.capture_if(&condition, |part| {
            part.copy(&mut result, &buffer)?;
            *beside.record.lock().unwrap() = Some(Box::new(move || {
                ends.send(()).unwrap();
                thread::sleep(Duration::from_millis(100));
            }));
            let (outside, mut buffer) = (outside, buffer);
            *joins.borrow_mut() = Some(thread::spawn(move || _ = outside.fill(&mut buffer, 7)));
            may_end.recv().unwrap();
            Ok(())
        })
    });
    joins.take().unwrap().join().unwrap();
    assert!(!beside.is_ended_beside.load(Ordering::Relaxed), "the capture was ended beside a stream that joins it");
}

/// Kernels of two streams that wait for each other, as long as there is a worker for each.
#[test]
fn safety_192_a_kernel_begins_while_a_worker_has_nothing_to_do() {
    let instance = Instance::builder().cuda(false).host_workers(2).host_worker_spin(Duration::from_millis(2)).build();
    let context = instance.unwrap().device("host").unwrap().context().unwrap();
    let begun = Arc::new([const { AtomicU32::new(0) }; 2]);
    let kernels = [0, 1].map(|own: usize| {
        let begun = Arc::clone(&begun);
        let function = HostFunction::new("meet", &[], move |_, _| {
            let round = begun[own].fetch_add(1, Ordering::SeqCst) + 1;
            let patience = Instant::now();
            while begun[1 - own].load(Ordering::SeqCst) < round {
                assert!(
                    patience.elapsed() < Duration::from_secs(5),
                    "the other kernel of round {round} does not begin"
                );
                std::thread::yield_now();
            }
        });
        DualModule::new().host_function(function).load(&context).unwrap().kernel("meet").unwrap()
    });
    let streams = [(); 2].map(|()| context.create_stream().unwrap());
    for round in 1..=3000 {
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for (stream, kernel) in streams.iter().zip(&kernels) {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    stream.launch_checked(kernel, &LaunchConfig::new(1, 1), ()).unwrap();
                });
            }
        });
        // Nobody waits for the streams, which would run what is in them.
        until("the kernels have begun", || begun.iter().all(|begun| begun.load(Ordering::SeqCst) == round));
    }
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
}
