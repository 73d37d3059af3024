//! Classes of defects of events that safe code must not be able to bring about. `docs/safety.md` lists them all by the numbers
//! in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, Driver, ExecutableGraphHandle, Failure, Forward, Layered, Live};
use anabranch::{
    CaptureMode, Completion, Context, Event, EventFlags, EventWaitFlags, ExecutableGraph, HostFunction, HostModule,
    Instance, LaunchConfig, Module, NodeWork, Result, Status, StreamHandle, WaitCondition, flush_deferred_drops,
};
use common::{checked_host, hold};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Poll};

/// Polls a future once.
fn poll(future: &mut Completion) -> Poll<Result<()>> {
    Pin::new(future).poll(&mut task::Context::from_waker(task::Waker::noop()))
}

#[test]
fn safety_87_a_record_by_a_launch_says_nothing_about_the_record_before() {
    for is_recorded_again in [false, true] {
        let context = checked_host();
        let [earlier, later] = [(); 2].map(|()| context.create_stream().unwrap());
        let event = context.create_event().unwrap();
        let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
        let held = hold(&context, &earlier);
        earlier.fill(&mut pinned, 7u32).unwrap();
        event.record(&earlier).unwrap();
        let mut future = event.completed();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::event_record(&event)).unwrap();
        graph.instantiate().unwrap().launch(&later).unwrap();
        later.synchronize().unwrap();
        if is_recorded_again {
            event.record(&later).unwrap();
        }
        assert!(poll(&mut future).is_ready(), "it waits for the latest record");
        assert!(!pinned.is_idle().unwrap());
        held.set(1);
        assert_eq!(pinned.as_slice().unwrap(), [7; 4]);
    }
}

/// Graphs that wait for an event, made in every way.
fn waiting_graphs(context: &Context, event: &Event) -> Vec<(&'static str, ExecutableGraph)> {
    let stream = context.create_stream().unwrap();
    let mut by_hand = context.create_graph().unwrap();
    let node = by_hand.add((), NodeWork::event_wait(event)).unwrap();
    let mut parent = context.create_graph().unwrap();
    parent.add((), NodeWork::child(&by_hand)).unwrap();
    let captured = stream
        .capture(CaptureMode::Relaxed, |_| stream.wait_event_with_flags(event, EventWaitFlags::EXTERNAL))
        .unwrap();
    let other = context.create_event().unwrap();
    let mut replaced = context.create_graph().unwrap();
    let waits = replaced.add((), NodeWork::event_wait(&other)).unwrap();
    let set = replaced.instantiate().unwrap();
    set.set_node(waits, NodeWork::event_wait(event)).unwrap();
    let updated = replaced.instantiate().unwrap();
    replaced.set_node(waits, NodeWork::event_wait(event)).unwrap();
    updated.update(&replaced).unwrap();
    let let_go = by_hand.instantiate().unwrap();
    let_go.set_node(node, NodeWork::event_wait(&other)).unwrap();
    let_go.launch(&stream).unwrap();
    let_go.set_node(node, NodeWork::event_wait(event)).unwrap();
    vec![
        ("by hand", by_hand.instantiate().unwrap()),
        ("a clone", by_hand.try_clone().unwrap().instantiate().unwrap()),
        ("a child", parent.instantiate().unwrap()),
        ("captured", captured.instantiate().unwrap()),
        ("a node that was set", set),
        ("updated", updated),
        ("set twice", let_go),
    ]
}

#[test]
fn safety_103_no_stream_joins_a_capture_by_the_launch_of_a_graph() {
    let context = checked_host();
    let (origin, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    for (name, graph) in waiting_graphs(&context, &event) {
        origin.record(&event).unwrap();
        graph.launch(&other).unwrap();
        origin.begin_capture(CaptureMode::Relaxed).unwrap();
        origin.record(&event).unwrap();
        let refused = graph.launch(&other).unwrap_err();
        assert_eq!(refused.status(), Status::ILLEGAL_STATE, "{name}: {refused}");
        assert!(!other.is_capturing().unwrap(), "{name}");
        let buffer = other.upload(&[5u32; 4]).unwrap();
        assert_eq!(other.download(&buffer).unwrap(), [5; 4], "{name}");
        assert!(origin.end_capture().unwrap().nodes().unwrap().is_empty(), "{name}");
        origin.record(&event).unwrap();
        graph.launch(&other).unwrap();
    }
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

/// The same on two threads, one of which captures the record at any time.
#[test]
fn safety_103_no_stream_joins_a_capture_that_records_beside_the_launch() {
    let context = checked_host();
    let (origin, side) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let mut waits = context.create_graph().unwrap();
    waits.add((), NodeWork::event_wait(&event)).unwrap();
    let waits = waits.instantiate().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5_000 {
                if origin.begin_capture(CaptureMode::Relaxed).is_ok() {
                    let _ = origin.record(&event);
                    let _ = origin.end_capture();
                }
                let _ = origin.record(&event);
            }
            over.store(true, Ordering::SeqCst);
        });
        while !over.load(Ordering::SeqCst) {
            let _ = waits.launch(&side);
            assert!(!side.is_capturing().unwrap());
            let buffer = side.upload(&[5u32; 4]).unwrap();
            assert_eq!(side.download(&buffer).unwrap(), [5; 4]);
        }
    });
    flush_deferred_drops();
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

/// Launches graphs, and says that a node of theirs was refused.
struct Refuses(Arc<dyn Driver>);

impl fmt::Debug for Refuses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Refuses")
    }
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Refuses {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    unsafe fn executable_launch(
        &self,
        call: &Call<'_>,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        // SAFETY: the layer forwards what it is given.
        unsafe { self.0.executable_launch(call, executable, stream) }?;
        Err(Failure::from(Status::INVALID_VALUE))
    }
}

#[test]
fn safety_104_what_a_refused_launch_has_queued_is_kept() {
    let wrap = |inner| Arc::new(Layered(Refuses(inner))) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let stream = context.create_stream().unwrap();
    let has_run = Arc::new(AtomicBool::new(false));
    let mut graph = context.create_graph().unwrap();
    let runs = has_run.clone();
    graph.add((), NodeWork::host_func(move || runs.store(true, Ordering::SeqCst))).unwrap();
    let executable = graph.instantiate().unwrap();
    let gate = hold(&context, &stream);
    assert_eq!(executable.launch(&stream).unwrap_err().status(), Status::INVALID_VALUE);
    // The function is kept for the launch.
    drop((executable, graph));
    gate.set(1);
    stream.synchronize().unwrap();
    assert!(has_run.load(Ordering::SeqCst));
}

/// A capture on another thread may end at any time, also between the driver's call and what the library notes.
#[test]
fn safety_105_a_graph_retains_the_events_of_its_nodes_whenever_the_capture_ends() {
    let context = checked_host();
    let (origin, stream) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let over = AtomicBool::new(false);
    let graphs: Vec<_> = std::thread::scope(|scope| {
        let capturing = scope.spawn(|| {
            let mut graphs = Vec::new();
            for _ in 0..3_000 {
                stream.begin_capture(CaptureMode::Relaxed).unwrap();
                std::thread::yield_now();
                graphs.extend(stream.end_capture());
            }
            over.store(true, Ordering::SeqCst);
            graphs
        });
        while !over.load(Ordering::SeqCst) {
            let _ = stream.wait_event_with_flags(&event, EventWaitFlags::EXTERNAL);
        }
        capturing.join().unwrap()
    });
    origin.begin_capture(CaptureMode::Relaxed).unwrap();
    origin.record(&event).unwrap();
    for graph in graphs.into_iter().filter(|graph| !graph.nodes().unwrap().is_empty()) {
        let refused = graph.instantiate().unwrap().launch(&stream).unwrap_err();
        assert_eq!(refused.status(), Status::ILLEGAL_STATE, "the graph knows what it waits for");
    }
    origin.end_capture().unwrap();
}

/// Another object for an event, which records and waits as the event does.
fn another(context: &Context, event: &Event) -> Event {
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), NodeWork::event_wait(event)).unwrap();
    graph.node_event(node).unwrap().unwrap()
}

#[test]
fn safety_177_a_stream_that_waits_for_an_event_joins_the_capture_that_another_object_of_it_was_recorded_in() {
    let context = checked_host();
    let [first, second, third] = [(); 3].map(|()| context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let other = another(&context, &event);
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    let mut buffer = second.upload(&[1u32; 64]).unwrap();
    second.synchronize().unwrap();
    first.begin_capture(CaptureMode::Relaxed).unwrap();
    first.record(&other).unwrap();
    second.wait_event(&event).unwrap();
    second.fill(&mut buffer, 7u32).unwrap();
    second.fill(&mut pinned, 9u32).unwrap();
    first.wait_stream(&second).unwrap();
    let executable = first.end_capture().unwrap().instantiate().unwrap();
    let address = buffer.device_pointer();
    drop(buffer);
    second.synchronize().unwrap();
    let victim = second.upload(&[5u32; 64]).unwrap();
    assert_ne!(victim.device_pointer(), address, "the graph keeps what it writes");
    assert_eq!(pinned.as_slice().unwrap_err().status(), Status::ILLEGAL_STATE);
    executable.launch(&third).unwrap();
    assert_eq!(second.download(&victim).unwrap(), [5; 64]);
    context.synchronize().unwrap();
}

#[test]
fn safety_177_work_behind_an_event_is_behind_the_record_of_another_object_of_it() {
    let context = checked_host();
    let [first, second, third] = [(); 3].map(|()| context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let other = another(&context, &event);
    let mut source = first.upload(&[1u32; 64]).unwrap();
    let mut result = first.upload(&[0u32; 64]).unwrap();
    let graph = first
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fork(&second)?;
            second.fill(&mut source, 7u32)?;
            second.record(&event)?;
            // The event is this record now, which is not behind the fill.
            scope.record(&other)?;
            third.wait_event(&event)?;
            third.copy(&mut result, &source)?;
            scope.join(&second)?;
            scope.join(&third)
        })
        .unwrap();
    assert_eq!(graph.edges().unwrap().len(), 1);
    graph.instantiate().unwrap().launch(&first).unwrap();
    assert_eq!(first.download(&result).unwrap(), [7; 64]);
}

#[test]
fn safety_177_a_future_of_an_event_waits_for_no_later_record_by_another_object_of_it() {
    let context = checked_host();
    let [earlier, later] = [(); 2].map(|()| context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let other = another(&context, &event);
    let signals = [(); 2].map(|()| context.create_signal().unwrap());
    earlier.wait_signal(&signals[0], WaitCondition::Equal, 1).unwrap();
    event.record(&earlier).unwrap();
    let mut future = event.completed();
    assert!(poll(&mut future).is_pending());
    later.wait_signal(&signals[1], WaitCondition::Equal, 1).unwrap();
    other.record(&later).unwrap();
    signals[0].set(1);
    earlier.synchronize().unwrap();
    futures::executor::block_on(future).unwrap();
    assert!(!later.query().unwrap());
    signals[1].set(1);
    later.synchronize().unwrap();
}

#[test]
fn safety_177_two_objects_of_one_event_are_one_event() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let event = context.create_event_with_flags(EventFlags::DISABLE_TIMING).unwrap();
    let other = another(&context, &event);
    assert_eq!((other.id(), other.flags()), (event.id(), event.flags()));
    let mut graph = context.create_graph().unwrap();
    for event in [&event, &other] {
        graph.add((), NodeWork::event_wait(event)).unwrap();
    }
    event.record(&stream).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    let kernels = HostModule::new().with_function(HostFunction::new("nothing", &[], |_, _| ()));
    let module = Module::load_host(&context, &kernels).unwrap();
    let config = LaunchConfig::new(1, 1).programmatic_event(&event).launch_completion_event(&other);
    let refused = stream.launch_checked(&module.kernel("nothing").unwrap(), &config, ()).unwrap_err();
    assert!(refused.to_string().contains("both events are the same"), "{refused}");
    context.synchronize().unwrap();
}
