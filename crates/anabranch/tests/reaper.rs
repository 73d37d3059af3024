//! What is freed in the background: how much is asked for it, and that nobody waits for it, nor it for anybody.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;
#[path = "reaper/exit.rs"]
mod exit;
#[path = "reaper/held_up.rs"]
mod held_up;
#[path = "reaper/layer.rs"]
mod layer;
#[path = "common/one_lock.rs"]
mod one_lock;

use anabranch::{
    CaptureMode, ConditionalKind, Context, ContextFlags, Graph, NodeWork, Signal, Stream, WaitCondition,
    flush_deferred_drops,
};
use common::{assert_ends, until};
use layer::Layer;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::Waker;
use std::time::Duration;

/// A host function that waits for a thread of the test.
struct Waiting {
    release: Sender<()>,
    released: Receiver<bool>,
}

impl Waiting {
    /// How long it waits. Whoever waits for it longer would wait for ever.
    const LIMIT: Duration = Duration::from_secs(30);

    /// Puts one into a stream. It runs when this returns.
    fn launch(stream: &Stream) -> Self {
        let (release, wait) = channel();
        let (tell, released) = channel();
        let (began, begun) = channel();
        stream
            .launch_host_func(move || {
                began.send(()).unwrap();
                tell.send(wait.recv_timeout(Self::LIMIT) != Err(RecvTimeoutError::Timeout)).unwrap();
            })
            .unwrap();
        begun.recv().unwrap();
        Self { release, released }
    }

    /// Lets it end. Fails if it has given up before, because somebody has waited for it.
    fn release(self) {
        // It may have given up.
        let _ = self.release.send(());
        assert!(self.released.recv().unwrap(), "somebody has waited for the host function");
    }
}

/// How many downloads are cancelled.
const JOBS: u64 = 20_000;

/// Cancels downloads behind a host function, and hands other things to the reaper meanwhile. One of `poll_every` was polled.
fn cancelled_downloads_cost_little(poll_every: u64) {
    let layer = Layer::default();
    let context = layer.context();
    let stream = context.create_stream().unwrap();
    let source = stream.upload(&[1u8; 64]).unwrap();
    let waiting = Waiting::launch(&stream);
    for job in 0..JOBS {
        let mut download = pin!(stream.download_async(&source));
        if job.is_multiple_of(poll_every) {
            assert!(download.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())).is_pending());
        }
        if job.is_multiple_of(16) {
            drop(context.allocate_pinned::<u8>(64).unwrap());
        }
    }
    flush_deferred_drops();
    let calls = layer.calls_of_the_reaper();
    assert!(calls > 0, "nothing was left to the reaper");
    assert!(calls < JOBS, "{calls} calls while {JOBS} jobs wait for one stream");
    assert_eq!(layer.blocks_freed(), 0);
    waiting.release();
    stream.synchronize().unwrap();
    drop((source, stream, context));
    until("the end of all memory", || layer.all_is_freed());
    assert!(layer.blocks_freed() > JOBS);
}

#[test]
fn cancelled_downloads_that_were_never_polled_are_not_looked_at_each() {
    cancelled_downloads_cost_little(u64::MAX);
}

#[test]
fn cancelled_downloads_that_were_polled_are_not_looked_at_each() {
    cancelled_downloads_cost_little(1);
}

/// The locks of such a driver's calls come behind those of a capture, which debug builds check.
#[test]
fn safety_109_work_that_waits_for_the_host_joins_a_capture_before_it_holds_up_others() {
    let context = Layer::default().context();
    let [capturing, waiting, calling] = [(); 3].map(|()| context.create_stream().unwrap());
    let (signal, other) = (context.create_signal().unwrap(), context.create_signal().unwrap());
    let captured = capturing.capture(CaptureMode::Relaxed, |scope| {
        scope.write_signal(&signal, 1)?;
        scope.write_signal(&other, 1)?;
        waiting.wait_signal(&signal, WaitCondition::GreaterOrEqual, 1)?;
        assert!(waiting.is_capturing()?);
        calling.wait_signal(&other, WaitCondition::GreaterOrEqual, 1)?;
        calling.launch_repeatable_host_func(|| ())?;
        scope.join(&waiting)?;
        scope.join(&calling)
    });
    let graph = captured.unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 5);
    graph.instantiate().unwrap().launch(&capturing).unwrap();
    capturing.synchronize().unwrap();
}

/// Launches a graph while the thread that frees unloads a module, and only then does what the graph waits for.
fn is_launched_beside_unloads(make: impl FnOnce(&Context, &Stream, &Signal) -> Graph) {
    let layer = Layer::default();
    let context = layer.context();
    let [stream, other] = [(); 2].map(|()| context.create_stream().unwrap());
    let signal = context.create_signal().unwrap();
    let executable = make(&context, &stream, &signal).instantiate().unwrap();
    layer.unloads_late();
    assert_ends(move || {
        for _ in 0..10 {
            drop(held_up::module(&context));
            // The thread has looked for work that is pending by then.
            std::thread::sleep(Duration::from_millis(5));
            executable.launch(&stream).unwrap();
            let mut memory = other.upload(&[1u32]).unwrap();
            other.fill(&mut memory, 2u32).unwrap();
            signal.set(1);
            stream.synchronize().unwrap();
            signal.set(0);
        }
    });
}

#[test]
fn safety_115_a_graph_that_waits_for_the_host_is_launched_beside_no_call_that_waits_for_the_graph() {
    is_launched_beside_unloads(|_, stream, signal| {
        stream
            .capture(CaptureMode::Relaxed, |scope| scope.wait_signal(signal, WaitCondition::GreaterOrEqual, 1))
            .unwrap()
    });
    is_launched_beside_unloads(|context, _, signal| {
        let (mut child, mut graph) = (context.create_graph().unwrap(), context.create_graph().unwrap());
        child.add((), NodeWork::wait_signal(signal, WaitCondition::GreaterOrEqual, 1)).unwrap();
        graph.add((), NodeWork::child(&child)).unwrap();
        graph.try_clone().unwrap()
    });
}

/// A stream of another context, whose work waits for a thread of the test.
struct Elsewhere {
    stream: Stream,
    signal: Signal,
}

impl Elsewhere {
    fn of(context: &Context) -> Self {
        let context = context.device().create_context(ContextFlags::empty()).unwrap();
        Self { stream: context.create_stream().unwrap(), signal: context.create_signal().unwrap() }
    }

    /// Has what `wait` does put work into a context that comes behind work elsewhere, which ends only when this thread has called
    /// the driver again. Meanwhile the thread that frees unloads a module. `prepare` comes before that.
    fn holds_up<P>(
        prepare: impl Fn(&Self, &Stream) -> P + Send + 'static,
        wait: impl Fn(&Self, &Stream, P) + Send + 'static,
    ) {
        let layer = Layer::default();
        let context = layer.context();
        let elsewhere = Self::of(&context);
        let [stream, other] = [(); 2].map(|()| context.create_stream().unwrap());
        layer.unloads_late();
        assert_ends(move || {
            for _ in 0..10 {
                elsewhere.stream.wait_signal(&elsewhere.signal, WaitCondition::GreaterOrEqual, 1).unwrap();
                let prepared = prepare(&elsewhere, &stream);
                stream.synchronize().unwrap();
                drop(held_up::module(&context));
                // The thread has looked for work that is pending by then.
                std::thread::sleep(Duration::from_millis(5));
                wait(&elsewhere, &stream, prepared);
                // By now it waits for what is pending.
                std::thread::sleep(Duration::from_millis(10));
                let mut memory = other.upload(&[1u32]).unwrap();
                other.fill(&mut memory, 2u32).unwrap();
                elsewhere.signal.set(1);
                stream.synchronize().unwrap();
                elsewhere.stream.synchronize().unwrap();
                elsewhere.signal.set(0);
            }
        });
    }
}

#[test]
fn safety_126_a_wait_for_an_event_of_another_context_is_made_beside_no_call_that_waits_for_it() {
    let record = |elsewhere: &Elsewhere, _: &Stream| elsewhere.stream.record_event().unwrap();
    Elsewhere::holds_up(record, |_, stream, event| stream.wait_event(&event).unwrap());
    Elsewhere::holds_up(record, |_, stream, event| stream.wait_event_external(&event).unwrap());
}

#[test]
fn safety_126_a_wait_for_a_stream_of_another_context_is_made_beside_no_call_that_waits_for_it() {
    Elsewhere::holds_up(|_, _| (), |elsewhere, stream, ()| stream.wait_stream(&elsewhere.stream).unwrap());
}

#[test]
fn safety_126_a_use_of_memory_behind_another_context_is_made_beside_no_call_that_waits_for_it() {
    let read = |elsewhere: &Elsewhere, stream: &Stream| {
        let memory = stream.upload(&[1u32]).unwrap();
        let mut copy = elsewhere.stream.context().allocate_zeroed(&elsewhere.stream, 1).unwrap();
        elsewhere.stream.copy_peer(&mut copy, &memory).unwrap();
        memory
    };
    Elsewhere::holds_up(read, |_, stream, mut memory| stream.fill(&mut memory, 2u32).unwrap());
    Elsewhere::holds_up(read, |_, _, memory| drop(memory));
    let read_legacy =
        move |elsewhere: &Elsewhere, stream: &Stream| read(elsewhere, &stream.context().legacy_stream().unwrap());
    Elsewhere::holds_up(read_legacy, |_, _, memory| drop(memory));
}

#[test]
fn safety_126_a_graph_that_waits_for_an_event_of_another_context_is_launched_beside_no_call_that_waits_for_it() {
    let captured = |elsewhere: &Elsewhere, stream: &Stream| {
        let event = elsewhere.stream.record_event().unwrap();
        let graph = stream.capture(CaptureMode::Relaxed, |scope| scope.wait_event_external(&event)).unwrap();
        graph.instantiate().unwrap()
    };
    Elsewhere::holds_up(captured, |_, stream, executable| executable.launch(stream).unwrap());
}

/// Has `wait` put work into the thread's default stream that comes behind work elsewhere, and then drops a module.
fn is_known_behind_work_elsewhere(wait: impl Fn(&Elsewhere, &Stream) + Send + 'static) {
    let context = Layer::default().context();
    let elsewhere = Elsewhere::of(&context);
    let other = context.create_stream().unwrap();
    assert_ends(move || {
        let own = context.per_thread_stream().unwrap();
        for _ in 0..5 {
            elsewhere.stream.wait_signal(&elsewhere.signal, WaitCondition::GreaterOrEqual, 1).unwrap();
            let module = held_up::module(&context);
            wait(&elsewhere, &own);
            drop(module);
            // By now the module is unloaded, unless that waits.
            std::thread::sleep(Duration::from_millis(20));
            let mut memory = other.upload(&[1u32]).unwrap();
            other.fill(&mut memory, 2u32).unwrap();
            elsewhere.signal.set(1);
            own.synchronize().unwrap();
            elsewhere.stream.synchronize().unwrap();
            elsewhere.signal.set(0);
        }
    });
}

#[test]
fn safety_138_what_the_default_stream_of_a_thread_waits_for_elsewhere_is_known_on_other_threads() {
    is_known_behind_work_elsewhere(|elsewhere, own| own.wait_event(&elsewhere.stream.record_event().unwrap()).unwrap());
    is_known_behind_work_elsewhere(|elsewhere, own| {
        own.wait_event_external(&elsewhere.stream.record_event().unwrap()).unwrap();
    });
    is_known_behind_work_elsewhere(|elsewhere, own| own.wait_stream(&elsewhere.stream).unwrap());
    is_known_behind_work_elsewhere(|elsewhere, own| {
        let memory = own.upload(&[1u32]).unwrap();
        let mut copy = elsewhere.stream.context().allocate_zeroed(&elsewhere.stream, 1).unwrap();
        elsewhere.stream.copy_peer(&mut copy, &memory).unwrap();
        // Its stream frees it behind the copy.
        drop(memory);
    });
    is_known_behind_work_elsewhere(|elsewhere, own| {
        let event = elsewhere.stream.record_event().unwrap();
        let capturing = own.context().create_stream().unwrap();
        let graph = capturing.capture(CaptureMode::Relaxed, |scope| scope.wait_event_external(&event)).unwrap();
        graph.instantiate().unwrap().launch(own).unwrap();
    });
}

#[test]
fn safety_151_an_executable_graph_is_destroyed_behind_its_launches() {
    assert_ends(|| {
        let layer = Layer::default();
        let context = layer.context();
        let stream = context.create_stream().unwrap();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::host_func(|| ())).unwrap();
        for round in 0..5 {
            let executable = graph.instantiate().unwrap();
            let waiting = Waiting::launch(&stream);
            executable.launch(&stream).unwrap();
            drop(executable);
            flush_deferred_drops();
            assert_eq!(layer.executables_destroyed(), round, "the launch has not run");
            waiting.release();
            stream.synchronize().unwrap();
            until("the executable graph is destroyed", || {
                flush_deferred_drops();
                layer.executables_destroyed() == round + 1
            });
        }
        // One that runs no more is destroyed at once.
        let executable = graph.instantiate().unwrap();
        executable.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        drop(executable);
        assert_eq!(layer.executables_destroyed(), 6);
    });
}

/// With conditional nodes, NVIDIA's driver waits for all work of the context, whether the graph was launched or not.
#[test]
fn safety_157_an_executable_graph_with_conditions_is_destroyed_while_its_context_is_idle() {
    assert_ends(|| {
        let layer = Layer::default();
        let context = layer.context();
        let [stream, other] = [(); 2].map(|()| context.create_stream().unwrap());
        let by_hand = {
            let mut graph = context.create_graph().unwrap();
            let value = graph.create_conditional(Some(1)).unwrap();
            let node = graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
            graph.body(node, 0).unwrap().add((), NodeWork::empty()).unwrap();
            graph
        };
        let allocating = {
            let mut graph = context.create_graph().unwrap();
            let value = graph.create_conditional(Some(1)).unwrap();
            graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
            stream
                .capture_into(&mut graph, (), CaptureMode::Relaxed, |scope| scope.allocate_zeroed::<u32>(8).map(drop))
                .unwrap();
            graph
        };
        let condition = stream.upload(&[1u32]).unwrap();
        let captured = stream.capture(CaptureMode::Relaxed, |scope| scope.capture_if(&condition, |_| Ok(()))).unwrap();
        for graph in [&by_hand, &captured, &allocating] {
            for launched in [false, true] {
                let destroyed = layer.executables_destroyed();
                let executable = graph.instantiate().unwrap();
                if launched {
                    executable.launch(&stream).unwrap();
                    stream.synchronize().unwrap();
                }
                let waiting = Waiting::launch(&other);
                drop(executable);
                flush_deferred_drops();
                assert_eq!(layer.executables_destroyed(), destroyed, "another stream has work");
                waiting.release();
                other.synchronize().unwrap();
                // A graph that allocates memory has one at a time: this waits until the other one is destroyed.
                drop(graph.instantiate().unwrap());
                until("the executable graph is destroyed", || {
                    flush_deferred_drops();
                    layer.executables_destroyed() == destroyed + 2
                });
            }
        }
    });
}
