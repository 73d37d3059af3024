//! What safe code cannot do with captures, on the host device. The numbers are those of docs/safety.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{self, Call, Driver, EventHandle, EventRecordFlags, Forward, Layered, Live};
use anabranch::{
    Buffer, CaptureMode, Context, DependencyUpdate, DevicePointer, DualModule, Graph, GraphNodeKind, HostFunction,
    Instance, InstantiateFlags, LaunchConfig, Node, NodeWork, Status, Stream, StreamFlags, StreamHandle,
    flush_deferred_drops,
};
use common::{checked_host, hold, is_behind, until};
use futures::executor::block_on;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn no_findings(context: &Context) {
    context.synchronize().unwrap();
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

/// The only node of a kind.
fn only(graph: &Graph, kind: GraphNodeKind) -> Node {
    let nodes = graph.nodes().unwrap();
    let found: Vec<_> = nodes.into_iter().filter(|&node| graph.node_kind(node).unwrap() == kind).collect();
    assert_eq!(found.len(), 1, "{kind:?} in {}", graph.to_mermaid().unwrap());
    found[0]
}

/// Captures memory that outlives its capture.
fn capture_memory(stream: &Stream, graph: &mut Graph) -> Buffer<u32> {
    let mut memory = None;
    let capture = stream.capture_into(graph, (), CaptureMode::Relaxed, |scope| {
        memory = Some(scope.allocate_zeroed(4)?);
        Ok(())
    });
    capture.unwrap();
    memory.unwrap()
}

#[test]
fn safety_90_a_launch_that_its_memory_draws_into_a_capture_keeps_its_module() {
    let context = checked_host();
    let (origin, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut memory = origin.upload(&[0u32; 8]).unwrap();
    let (mut one, mut two) = memory.slice_mut(..).unwrap().split_at(4).unwrap();
    let is_there = Arc::new(());
    let owned = is_there.clone();
    let function = HostFunction::new("count", &[8], move |_, arguments| {
        arguments.slice::<u32>(0).fetch_update(0, |count| count + Arc::strong_count(&owned) as u32);
    });
    let module = DualModule::new().host_function(function).load(&context).unwrap();
    let kernel = module.kernel("count").unwrap();
    let graph = origin
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fill(one.reborrow(), 7u32)?;
            // It joins, because the memory is that of the capture.
            other.launch_checked(&kernel, &LaunchConfig::new(1, 1), (two.reborrow(),))?;
            scope.join(&other)
        })
        .unwrap();
    drop((kernel, module));
    flush_deferred_drops();
    assert!(Arc::strong_count(&is_there) > 1, "the closure is gone");
    let executable = graph.instantiate().unwrap();
    drop(graph);
    (0..2).for_each(|_| executable.launch(&origin).unwrap());
    assert_eq!(origin.download(&memory).unwrap(), [7, 7, 7, 7, 4, 0, 0, 0]);
    drop(executable);
    origin.synchronize().unwrap();
    flush_deferred_drops();
    assert_eq!(Arc::strong_count(&is_there), 1);
    no_findings(&context);
}

#[test]
fn safety_32_nobody_but_the_closure_ends_its_capture() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[0u32; 4]).unwrap();
    let mut graph = context.create_graph().unwrap();
    stream
        .capture_into(&mut graph, (), CaptureMode::Relaxed, |scope| {
            let refused = scope.end_capture().map(drop).unwrap_err();
            assert_eq!(refused.status(), Status::ILLEGAL_STATE);
            assert!(refused.to_string().contains("closure"), "{refused}");
            let elsewhere =
                std::thread::scope(|threads| threads.spawn(|| stream.end_capture().map(drop)).join().unwrap());
            assert_eq!(elsewhere.unwrap_err().status(), Status::ILLEGAL_STATE);
            scope.fill(&mut buffer, 3u32)
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [3; 4]);
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn safety_42_replaced_dependencies_do_not_undo_the_order_of_memory() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut copied = stream.upload(&[1u32; 4]).unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            let memory = scope.allocate_zeroed::<u32>(4)?;
            scope.update_capture_dependencies_with_mode((), DependencyUpdate::Set)?;
            scope.copy(&mut copied, &memory)?;
            scope.update_capture_dependencies_with_mode((), DependencyUpdate::Set)
        })
        .unwrap();
    let [allocated, filled, copied_node, freed] =
        [GraphNodeKind::ALLOCATE, GraphNodeKind::FILL, GraphNodeKind::COPY, GraphNodeKind::FREE]
            .map(|kind| only(&graph, kind));
    assert!(is_behind(&graph, filled, allocated));
    assert!(is_behind(&graph, copied_node, filled));
    assert!(is_behind(&graph, freed, copied_node));
    let executable = graph.instantiate().unwrap();
    for _ in 0..2 {
        executable.launch(&stream).unwrap();
        assert_eq!(stream.download(&copied).unwrap(), [0; 4]);
    }
    no_findings(&context);
}

#[test]
fn safety_42_buffers_too_stay_ordered_when_dependencies_are_replaced() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.upload(&[0u32; 4]).unwrap();
    let mut copied = stream.upload(&[0u32; 4]).unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fill(&mut buffer, 7u32)?;
            scope.update_capture_dependencies_with_mode((), DependencyUpdate::Set)?;
            scope.copy(&mut copied, &buffer)
        })
        .unwrap();
    assert!(is_behind(&graph, only(&graph, GraphNodeKind::COPY), only(&graph, GraphNodeKind::FILL)));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&copied).unwrap(), [7; 4]);
}

#[test]
fn safety_42_captured_memory_is_used_by_its_own_capture_only() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut other = stream.upload(&[1u32; 4]).unwrap();
    let mut graph = context.create_graph().unwrap();
    let mut memory = capture_memory(&stream, &mut graph);
    let again = stream.capture_into(&mut graph, (), CaptureMode::Relaxed, |scope| scope.copy(&mut other, &memory));
    assert_eq!(again.unwrap_err().status(), Status::INVALID_VALUE);
    let by_hand = graph.add((), NodeWork::copy(&mut other, &memory).unwrap());
    assert_eq!(by_hand.unwrap_err().status(), Status::INVALID_VALUE);
    let node = graph.add((), NodeWork::fill(&mut other, 3u32).unwrap()).unwrap();
    let changed = graph.set_node(node, NodeWork::fill(&mut memory, 4u32).unwrap());
    assert_eq!(changed.unwrap_err().status(), Status::INVALID_VALUE);
    let executable = graph.instantiate_with_flags(InstantiateFlags::AUTO_FREE_ON_LAUNCH).unwrap();
    let changed = executable.set_node(node, NodeWork::fill(&mut memory, 4u32).unwrap());
    assert_eq!(changed.unwrap_err().status(), Status::INVALID_VALUE);
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&other).unwrap(), [3; 4]);
    no_findings(&context);
}

#[test]
fn safety_42_another_capture_does_not_free_captured_memory() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut graph = context.create_graph().unwrap();
    let memory = capture_memory(&stream, &mut graph);
    stream
        .capture_into(&mut graph, (), CaptureMode::Relaxed, |_| {
            drop(memory);
            Ok(())
        })
        .unwrap();
    let kinds: Vec<_> = graph.nodes().unwrap().into_iter().map(|node| graph.node_kind(node).unwrap()).collect();
    assert_eq!(kinds, [GraphNodeKind::ALLOCATE, GraphNodeKind::FILL]);
}

#[test]
fn safety_43_the_fill_of_captured_memory_stays() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (mut copied, mut other) = (stream.upload(&[1u32; 4]).unwrap(), stream.upload(&[1u32; 4]).unwrap());
    let mut graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            let memory = scope.allocate_zeroed::<u32>(4)?;
            scope.copy(&mut copied, &memory)
        })
        .unwrap();
    let fill = only(&graph, GraphNodeKind::FILL);
    let refused = graph.set_node(fill, NodeWork::fill(&mut other, 3u32).unwrap()).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    assert!(refused.to_string().contains("fills memory that the graph allocates"), "{refused}");
    assert_eq!(graph.remove_node(fill).unwrap_err().status(), Status::NOT_SUPPORTED);
    let edges = graph.edges().unwrap();
    assert_eq!(graph.remove_edges(&edges).unwrap_err().status(), Status::NOT_SUPPORTED);
    let executable = graph.instantiate().unwrap();
    let refused = executable.set_node(fill, NodeWork::fill(&mut other, 3u32).unwrap()).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_VALUE);
    assert_eq!(executable.set_node_enabled(fill, false).unwrap_err().status(), Status::INVALID_VALUE);
    executable.set_node_enabled(only(&graph, GraphNodeKind::COPY), false).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&copied).unwrap(), [1; 4]);
    executable.set_node_enabled(only(&graph, GraphNodeKind::COPY), true).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!((stream.download(&copied).unwrap(), stream.download(&other).unwrap()), (vec![0; 4], vec![1; 4]));
    no_findings(&context);
}

#[test]
fn safety_12_captured_memory_can_be_dropped_inside_of_a_host_function() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        let memory = scope.allocate_zeroed::<u32>(4)?;
        other.launch_host_func(move || drop(memory))?;
        other.synchronize()?;
        flush_deferred_drops();
        Ok(())
    });
    let graph = graph.unwrap();
    only(&graph, GraphNodeKind::FREE);
    let executable = graph.instantiate().unwrap();
    for _ in 0..2 {
        executable.launch(&stream).unwrap();
    }
    no_findings(&context);
}

#[test]
fn safety_60_memory_that_is_dropped_beside_a_capture_is_freed_and_the_capture_stays_valid() {
    let context = checked_host();
    let legacy = context.legacy_stream().unwrap();
    let blocking = || context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let (other, capturing) = (blocking(), blocking());
    let of_legacy = legacy.upload(&[1u32; 4]).unwrap();
    let mut used_by_legacy = other.upload(&[2u32; 4]).unwrap();
    legacy.fill(&mut used_by_legacy, 3u32).unwrap();
    let graph = capturing.capture(CaptureMode::Relaxed, |_| {
        drop((of_legacy, used_by_legacy));
        Ok(())
    });
    graph.unwrap();
    let allocations = || context.device().memory_report().unwrap().allocations;
    until("the end of the memory", || allocations().is_empty());
    no_findings(&context);
}

#[test]
fn safety_62_a_stream_that_waits_for_a_record_that_replaced_a_captured_one_does_not_capture() {
    let context = checked_host();
    let (capturing, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let mut records = context.create_graph().unwrap();
    records.add((), NodeWork::event_record(&event)).unwrap();
    let records = records.instantiate().unwrap();
    capturing.begin_capture(CaptureMode::Relaxed).unwrap();
    capturing.record(&event).unwrap();
    // Now it is in no capture any more, which only the driver knows.
    records.launch(&other).unwrap();
    other.wait_event(&event).unwrap();
    assert!(!other.is_capturing().unwrap());
    let buffer = other.upload(&[5u32; 4]).unwrap();
    assert_eq!(other.download(&buffer).unwrap(), [5; 4]);
    assert!(capturing.end_capture().unwrap().nodes().unwrap().is_empty());
    drop(buffer);
    no_findings(&context);
}

type Action = Box<dyn FnOnce() + Send>;

/// Does something on another thread before the next call of the driver that frees in stream order, or records an event.
#[derive(Clone)]
struct Interrupts {
    inner: Arc<dyn Driver>,
    action: Arc<Mutex<Option<Action>>>,
}

impl Interrupts {
    fn interrupt(&self) {
        let action = self.action.lock().unwrap().take();
        if let Some(action) = action {
            std::thread::spawn(action).join().unwrap();
        }
    }
}

impl fmt::Debug for Interrupts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Interrupts")
    }
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Interrupts {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    unsafe fn free_async(
        &self,
        call: &Call<'_>,
        address: DevicePointer,
        stream: Live<'_, StreamHandle>,
    ) -> hal::Result<()> {
        self.interrupt();
        // SAFETY: the layer forwards what it is given.
        unsafe { self.inner.free_async(call, address, stream) }
    }

    fn event_record(
        &self,
        call: &Call<'_>,
        event: Live<'_, EventHandle>,
        stream: Live<'_, StreamHandle>,
        flags: EventRecordFlags,
    ) -> hal::Result<()> {
        self.interrupt();
        self.inner.event_record(call, event, stream, flags)
    }
}

#[test]
fn safety_60_memory_that_is_dropped_while_a_capture_begins_is_freed() {
    let action = Arc::<Mutex<Option<Action>>>::default();
    let interrupts = action.clone();
    let wrap = move |inner| Arc::new(Layered(Interrupts { inner, action: interrupts.clone() })) as Arc<dyn Driver>;
    let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let legacy = context.legacy_stream().unwrap();
    let blocking = || context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let (other, capturing) = (blocking(), Arc::new(blocking()));
    let of_legacy = legacy.upload(&[1u32; 4]).unwrap();
    let mut used_by_legacy = other.upload(&[2u32; 4]).unwrap();
    legacy.fill(&mut used_by_legacy, 3u32).unwrap();
    for memory in [of_legacy, used_by_legacy] {
        let begins = capturing.clone();
        let begin = move || begins.begin_capture(CaptureMode::Relaxed).unwrap();
        *action.lock().unwrap() = Some(Box::new(begin));
        drop(memory);
        assert!(action.lock().unwrap().is_none(), "no capture was begun");
        // Whether it is still valid is left to the moment.
        let _ = capturing.end_capture();
    }
    let allocations = || context.device().memory_report().unwrap().allocations;
    until("the end of the memory", || allocations().is_empty());
    no_findings(&context);
}

/// One thread lets the stream join captures again and again, while another awaits operations in it.
#[test]
fn safety_5_an_owned_operation_that_is_drawn_into_a_capture_is_no_success() {
    let context = checked_host();
    let [origin, drawn, reader] = [(); 3].map(|()| context.create_stream().unwrap());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let captured = origin.capture(CaptureMode::Relaxed, |scope| {
                    scope.fork(&drawn)?;
                    scope.join(&drawn)
                });
                drop(captured);
            }
        });
        let fill = |stream: &Stream| {
            let filled = block_on(stream.fill_async(reader.upload(&[1u32; 4])?, 9))?;
            assert_eq!(reader.download(&filled)?, [9; 4], "it was captured");
            let (to, from) = (reader.upload(&[1u32; 4])?, reader.upload(&[7u32; 4])?);
            let (to, _) = block_on(stream.copy_async(to, from))?;
            assert_eq!(reader.download(&to)?, [7; 4], "it was captured");
            Ok::<(), anabranch::Error>(())
        };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..5_000 {
                // Refused while the stream captures.
                let _ = fill(&drawn);
            }
        }));
        over.store(true, Ordering::Relaxed);
        ran.unwrap();
    });
    no_findings(&context);
}

#[test]
fn safety_5_a_variable_is_never_set_by_captured_work() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let function = HostFunction::new("nothing", &[], |_, _| ());
    let module = DualModule::new().host_function(function).host_global("variable", 4096).load(&context).unwrap();
    let (is_over, mut nodes) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Refused while the stream captures.
                let _ = module.set_global(&stream, "variable", &[7u8; 4096]);
            }
        });
        for round in 0..2000 {
            let captured = stream.capture(CaptureMode::Relaxed, |_| {
                (0..round).for_each(|_| std::hint::spin_loop());
                Ok(())
            });
            // It fails while the other thread waits for the stream.
            nodes += captured.map_or(0, |graph| graph.nodes().unwrap().len());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(nodes, 0);
}

#[test]
fn safety_3_a_captured_copy_to_a_variable_keeps_the_module_and_the_source() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut read = stream.allocate_zeroed::<u32>(1).unwrap();
    let copy = HostFunction::new("copy", &[8], |_, arguments| {
        arguments.slice::<u32>(0).set(0, arguments.global::<u32>("variable").get(0));
    });
    let module = DualModule::new().host_function(copy).host_global("variable", 4).load(&context).unwrap();
    let kernel = module.kernel("copy").unwrap();
    let source = stream.upload(&[7u32]).unwrap();
    let copies =
        stream.capture_executable(CaptureMode::Global, |scope| module.copy_to_global(scope, "variable", &source));
    let launches = stream.capture_executable(CaptureMode::Global, |scope| {
        // SAFETY: it writes one number, and reads the variable, which this stream alone uses.
        unsafe { scope.launch(&kernel, &LaunchConfig::new(1, 1), (&mut read,)) }
    });
    drop((module, kernel, source));
    anabranch::flush_deferred_drops();
    let (copies, launches) = (copies.unwrap(), launches.unwrap());
    for _ in 0..3 {
        copies.launch(&stream).unwrap();
        launches.launch(&stream).unwrap();
    }
    assert_eq!(stream.download(&read).unwrap(), [7]);
    drop(launches);
    // The variable exists as long as a graph copies to it.
    copies.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    no_findings(&context);
}

/// Holds up the reaper's thread between its question whether a blocking stream captures and what it does then.
struct Between {
    inner: Arc<dyn Driver>,
    asked: Arc<AtomicBool>,
    begun: Arc<AtomicBool>,
}

impl fmt::Debug for Between {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Between")
    }
}

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Between {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn called(&self, _: &'static str, method: &'static str) {
        let is_record = method == "event_record" && std::thread::current().name() == Some("anabranch-reaper");
        if is_record && !self.asked.swap(true, Ordering::SeqCst) {
            // A capture that does not wait begins meanwhile.
            let begin = Instant::now();
            while !self.begun.load(Ordering::SeqCst) && begin.elapsed() < Duration::from_millis(50) {
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn safety_96_the_library_invalidates_no_capture_by_a_record_in_the_legacy_stream() {
    let (asked, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let of_layer = (asked.clone(), begun.clone());
    let wrap = move |inner| {
        let (asked, begun) = of_layer.clone();
        Arc::new(Layered(Between { inner, asked, begun })) as Arc<dyn Driver>
    };
    let instance = Instance::builder().cuda(false).isolated().wrap(wrap).build().unwrap();
    let context = instance.device("host").unwrap().context().unwrap();
    let legacy = context.legacy_stream().unwrap();
    let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let mut captured = blocking.allocate_zeroed::<u32>(4).unwrap();
    let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
    legacy.fill(&mut pinned, 1u32).unwrap();
    // It is given back when the context is idle, which the reaper asks for.
    drop(pinned);
    let signal = hold(&context, &legacy);
    until("the record", || asked.load(Ordering::SeqCst));
    blocking.begin_capture(CaptureMode::Global).unwrap();
    begun.store(true, Ordering::SeqCst);
    // What was held up is done now.
    std::thread::sleep(Duration::from_millis(20));
    blocking.fill(&mut captured, 2u32).unwrap();
    let graph = blocking.end_capture().unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    signal.set(1);
    context.synchronize().unwrap();
}

#[test]
fn safety_96_refused_work_in_the_legacy_stream_is_no_use_of_its_memory() {
    let context = checked_host();
    let legacy = context.legacy_stream().unwrap();
    let blocking = context.create_stream_with_flags(StreamFlags::empty()).unwrap();
    let other = context.create_stream().unwrap();
    let mut memory = other.allocate_zeroed::<u32>(4).unwrap();
    let mut captured = other.allocate_zeroed::<u32>(4).unwrap();
    context.synchronize().unwrap();

    blocking.begin_capture(CaptureMode::Relaxed).unwrap();
    assert_eq!(legacy.fill(&mut memory, 1u32).unwrap_err().status(), Status::STREAM_CAPTURE_IMPLICIT);
    assert_eq!(other.download(&memory).unwrap(), [0; 4]);
    assert_eq!(blocking.end_capture().unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);

    // Nobody uses the legacy stream any more, and the next capture is not disturbed.
    let graph = blocking.capture(CaptureMode::Relaxed, |scope| {
        scope.fill(&mut captured, 1u32)?;
        other.fill(&mut memory, 3u32)
    });
    assert_eq!(graph.unwrap().nodes().unwrap().len(), 1);
    assert_eq!(other.download(&memory).unwrap(), [3; 4]);
    no_findings(&context);
}
