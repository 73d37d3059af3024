//! Classes of defects of capture and graphs that safe code must not be able to bring about. `docs/safety.md` lists them all
//! by the numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, CaptureStatus, Context, DualModule, ExecutableGraph, Graph, HostFunction, LaunchConfig,
    NodeWork, PinnedBuffer, Region, Status, Stream, Volume, VolumeMut, flush_deferred_drops,
};
use common::{assert_ends, checked_host, hold, host};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// That the stream can be used, and captured again.
fn assert_usable(stream: &Stream) {
    assert_eq!(stream.capture_status().unwrap(), CaptureStatus::None);
    let mut buffer = stream.upload(&[1u32]).unwrap();
    stream.fill(&mut buffer, 2u32).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [2]);
    let graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut buffer, 3u32)).unwrap();
    graph.instantiate().unwrap().launch(stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [3]);
}

/// Waits until nothing but the caller holds it: what drops run on other threads.
fn assert_let_go(counted: &Arc<()>) {
    let begin = Instant::now();
    while Arc::strong_count(counted) > 1 {
        assert!(begin.elapsed() < Duration::from_secs(20), "something still holds it");
        flush_deferred_drops();
        std::thread::yield_now();
    }
}

#[test]
fn safety_3_a_captured_host_function_runs_at_every_launch_and_is_dropped_with_the_graph() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (runs, counted) = (Arc::new(AtomicU32::new(0)), Arc::new(()));
    let capture = || {
        let (runs, counted) = (runs.clone(), counted.clone());
        stream.capture_executable(CaptureMode::Global, |scope| {
            scope.launch_repeatable_host_func(move || {
                let _held = &counted;
                runs.fetch_add(1, Ordering::Relaxed);
            })
        })
    };
    let executable = capture().unwrap();
    for _ in 0..3 {
        executable.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    drop(executable);
    drop(capture().unwrap());
    assert_let_go(&counted);
    assert_eq!(runs.load(Ordering::Relaxed), 3, "one that was never launched never runs");
}

#[test]
fn safety_3_a_function_that_runs_once_is_not_captured() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let graph = stream
        .capture(CaptureMode::Global, |scope| {
            let refused = scope.launch_host_func(|| {}).unwrap_err();
            assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            Ok(())
        })
        .unwrap();
    assert!(graph.nodes().unwrap().is_empty(), "and the capture remains valid");
}

#[test]
fn safety_5_a_scope_is_refused_while_the_stream_captures() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut buffer = stream.allocate_zeroed::<u8>(4).unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            let host = [1u8; 4];
            let refused = scope.sync_scope(|inner| inner.copy_from_host(&mut buffer, &host)).unwrap_err();
            assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            assert_eq!(scope.upload(&host).unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            assert_eq!(scope.download(&buffer).unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
            Ok(())
        })
        .unwrap();
    assert!(graph.nodes().unwrap().is_empty(), "and the capture remains valid");
    assert_usable(&stream);
}

/// A graph, and all that is made from it, after everything that its nodes use was dropped.
fn graph_alone(context: &Context, stream: &Stream, counted: &Arc<()>) -> (Graph, anabranch::PinnedBuffer<u32>) {
    let held = counted.clone();
    let program = DualModule::new().host_function(HostFunction::new("add", &[8, 8], move |block, arguments| {
        let _held = &held;
        let (sum, value) = (arguments.slice::<u32>(0), arguments.slice::<u32>(1));
        block.phase(|_, _| sum.set(0, sum.get(0) + value.get(0)));
    }));
    let kernel = program.load(context).unwrap().kernel("add").unwrap();
    let result = context.allocate_pinned::<u32>(1).unwrap();
    let event = context.create_event().unwrap();
    let (mut sum, value) = (stream.upload(&[1u32]).unwrap(), stream.upload(&[10u32]).unwrap());
    let mut result = result;
    let mut child = context.create_graph().unwrap();
    // SAFETY: `add` reads and writes one number of its first argument, and reads one of its second.
    let added = unsafe { child.add_kernel((), &kernel, &LaunchConfig::new(1, 1), (&mut sum, &value)) }.unwrap();
    child.add(added, NodeWork::event_record(&event)).unwrap();
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), NodeWork::child(&child)).unwrap();
    graph.add(node, NodeWork::copy(&mut result, &sum).unwrap()).unwrap();
    (graph, result)
}

#[test]
fn safety_7_a_graph_keeps_what_its_nodes_and_its_children_use() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let counted = Arc::new(());
    let (graph, result) = graph_alone(&context, &stream, &counted);
    flush_deferred_drops();
    // Memory that was freed would be found here.
    let _others: Vec<_> = (0..8).map(|_| stream.upload(&[7u32]).unwrap()).collect();
    let clone = graph.try_clone().unwrap();
    let (executable, other) = (graph.instantiate().unwrap(), clone.instantiate().unwrap());
    drop((graph, clone));
    executable.launch(&stream).unwrap();
    other.launch(&stream).unwrap();
    assert_eq!(result.read(|result| result[0]).unwrap(), 21);
    assert!(Arc::strong_count(&counted) > 1, "the kernel's module is kept");
    drop((executable, other));
    assert_let_go(&counted);
}

#[test]
fn safety_7_what_a_launch_in_flight_uses_is_kept_until_it_is_done() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let counted = Arc::new(());
    let (graph, result) = graph_alone(&context, &stream, &counted);
    let executable = graph.instantiate().unwrap();
    let signal = hold(&context, &stream);
    executable.launch(&stream).unwrap();
    drop((graph, executable));
    flush_deferred_drops();
    assert!(Arc::strong_count(&counted) > 1, "the launch has not run yet");
    signal.set(1);
    stream.synchronize().unwrap();
    assert_eq!(result.read(|result| result[0]).unwrap(), 11);
    assert_let_go(&counted);
}

#[test]
fn safety_7_what_a_node_is_changed_to_use_is_kept_too() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (mut destination, first) = (stream.upload(&[0u32]).unwrap(), stream.upload(&[1u32]).unwrap());
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), NodeWork::copy(&mut destination, &first).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    let second = stream.upload(&[2u32]).unwrap();
    executable.set_node(node, NodeWork::copy(&mut destination, &second).unwrap()).unwrap();
    drop((first, second));
    let _others: Vec<_> = (0..8).map(|_| stream.upload(&[7u32]).unwrap()).collect();
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&destination).unwrap(), [2]);
}

#[test]
fn safety_20_a_capture_ends_on_every_way_out() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let left_early = stream.capture(CaptureMode::Global, |scope| {
        scope.fork(&other)?;
        scope.add_callback(|_, _| {})?;
        Ok(())
    });
    assert_eq!(left_early.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
    assert_usable(&stream);
    assert_usable(&other);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = stream.capture(CaptureMode::Global, |scope| {
            scope.fork(&other)?;
            panic!("on purpose")
        });
    }));
    assert!(panicked.is_err());
    assert_usable(&stream);
    assert_usable(&other);
}

#[test]
fn safety_20_a_capture_ended_on_the_wrong_thread_is_over() {
    let context = host();
    let stream = context.create_stream().unwrap();
    stream.begin_capture(CaptureMode::Global).unwrap();
    let status = std::thread::scope(|scope| scope.spawn(|| stream.end_capture().unwrap_err().status()).join().unwrap());
    assert_eq!(status, Status::STREAM_CAPTURE_WRONG_THREAD);
    assert_eq!(stream.end_capture().unwrap_err().status(), Status::ILLEGAL_STATE);
    assert_usable(&stream);
}

#[test]
fn safety_20_a_stream_dropped_while_it_captures_gives_the_capture_up() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = other.allocate_zeroed::<u32>(1).unwrap();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    other.wait_stream(&stream).unwrap();
    stream.fill(&mut buffer, 5u32).unwrap();
    drop(stream);
    let fresh = context.create_stream().unwrap();
    assert_usable(&fresh);
    assert_eq!(fresh.download(&buffer).unwrap(), [0], "what was captured never ran");
}

#[test]
fn safety_21_graphs_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Graph>();
    crosses::<ExecutableGraph>();
    crosses::<NodeWork<'static>>();
    let context = host();
    let mut buffer = context.create_stream().unwrap().allocate_zeroed::<u32>(1).unwrap();
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::fill(&mut buffer, 4u32).unwrap()).unwrap();
    let executable = std::thread::spawn(move || graph.instantiate().unwrap()).join().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let stream = context.create_stream().unwrap();
                for _ in 0..50 {
                    executable.launch(&stream).unwrap();
                }
                stream.synchronize().unwrap();
            });
        }
    });
    assert_eq!(context.create_stream().unwrap().download(&buffer).unwrap(), [4]);
}

#[test]
fn safety_23_pinned_memory_of_a_graph_is_reached_between_launches_only() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let source = stream.upload(&[1u32, 2]).unwrap();
    let mut result = context.allocate_pinned::<u32>(2).unwrap();
    let executable = stream.capture_executable(CaptureMode::Global, |scope| scope.copy(&mut result, &source)).unwrap();
    assert_eq!(result.as_slice().unwrap_err().status(), Status::ILLEGAL_STATE);
    assert_eq!(result.as_mut_slice().unwrap_err().status(), Status::ILLEGAL_STATE);
    let refused = result.read(|_| executable.launch(&stream).unwrap_err().status()).unwrap();
    assert_eq!(refused, Status::ILLEGAL_STATE);
    executable.launch(&stream).unwrap();
    assert_eq!(result.read(<[u32]>::to_vec).unwrap(), [1, 2]);
    drop(executable);
    let begin = Instant::now();
    while result.as_slice().is_err() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        flush_deferred_drops();
    }
    assert_eq!(result.as_slice().unwrap(), [1, 2]);
}

#[test]
fn safety_30_a_failed_capture_affects_no_other() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    for _ in 0..3 {
        let failed = stream.capture(CaptureMode::Global, |scope| {
            scope.fork(&other)?;
            other.launch_repeatable_host_func(|| {})
        });
        assert_eq!(failed.unwrap_err().status(), Status::STREAM_CAPTURE_UNJOINED);
        assert_usable(&stream);
        assert_usable(&other);
        std::thread::scope(|scope| {
            scope.spawn(|| assert_usable(&context.create_stream().unwrap()));
        });
        context.synchronize().unwrap();
    }
}

/// A launch borrows nothing, so another thread may use the memory at the same time. What is seen then is what the one or the
/// other wrote, and no mixture.
#[test]
fn a_launch_and_another_thread_s_use_of_the_memory_take_turns() {
    const LENGTH: usize = 1 << 17;
    let context = host();
    let (launching, filling) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut buffer = launching.allocate_zeroed::<u32>(LENGTH).unwrap();
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::fill(&mut buffer, 1u32).unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    let together = Barrier::new(2);
    for _ in 0..300 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                executable.launch(&launching).unwrap();
            });
            together.wait();
            filling.fill(&mut buffer, 2u32).unwrap();
        });
        let values = launching.download(&buffer).unwrap();
        assert!(values.iter().all(|value| *value == values[0]), "a mixture");
    }
}

/// A thread that waits for a copy of a graph's memory does not keep others from using such memory: one of them may end
/// the wait.
/// A graph that uses, and so retains, these pieces of memory.
fn graph_of(
    context: &Context,
    first: &mut Buffer<u32>,
    second: &mut PinnedBuffer<u32>,
    third: &mut Buffer<u32>,
) -> Graph {
    let mut graph = context.create_graph().unwrap();
    graph.add((), NodeWork::fill(first, 5u32).unwrap()).unwrap();
    graph.add((), NodeWork::fill(second, 5u32).unwrap()).unwrap();
    graph.add((), NodeWork::fill(third, 5u32).unwrap()).unwrap();
    graph
}

#[test]
fn who_waits_for_memory_of_a_graph_holds_nobody_up() {
    assert_ends(|| {
        let context = host();
        let (held, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut device = held.upload(&[1u32, 2, 3]).unwrap();
        let mut pinned = context.allocate_pinned::<u32>(3).unwrap();
        let mut elsewhere = other.upload(&[0u32; 3]).unwrap();
        let _graph = graph_of(&context, &mut device, &mut pinned, &mut elsewhere);
        let gate = hold(&context, &held);
        let (about_to_wait, waits) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                about_to_wait.send(()).unwrap();
                held.copy_from_host(&mut device, &[4, 5, 6]).unwrap();
                held.copy_from_host(&mut pinned, &[7, 8, 9]).unwrap();
                (held.download(&device).unwrap(), held.download(&pinned).unwrap())
            });
            waits.recv().unwrap();
            for value in 0..200 {
                other.fill(&mut elsewhere, value).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            gate.set(1);
            assert_eq!(waiting.join().unwrap(), (vec![4, 5, 6], vec![7, 8, 9]));
        });
        assert_eq!(other.download(&elsewhere).unwrap(), [199; 3]);
    });
}

#[test]
fn safety_46_who_waits_for_a_region_of_memory_of_a_graph_holds_nobody_up() {
    assert_ends(|| {
        let context = host();
        let (held, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let mut device = held.upload(&[1u32, 2, 3, 4]).unwrap();
        let mut pinned = context.allocate_pinned::<u32>(4).unwrap();
        let mut target = context.allocate_pinned::<u32>(4).unwrap();
        let mut elsewhere = other.upload(&[0u32; 3]).unwrap();
        let _graph = graph_of(&context, &mut device, &mut pinned, &mut elsewhere);
        // The second column of two rows.
        let column = Region { source_origin: [1, 0, 0], extent: [1, 2, 1], ..Region::default() };
        let gate = hold(&context, &held);
        let (about_to_wait, waits) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                about_to_wait.send(()).unwrap();
                let (mut from_device, mut from_pinned) = ([0u32; 2], [0u32; 2]);
                let whole = Region { extent: [2, 2, 1], ..Region::default() };
                held.copy_region_from_host(VolumeMut::new(&mut pinned, 2, 2), &[6, 7, 8, 9], 2, 2, &whole)?;
                held.copy_region(VolumeMut::new(&mut target, 1, 2), Volume::new(&pinned, 2, 2), &column)?;
                held.copy_region_from_host(VolumeMut::new(&mut device, 2, 2), &[3, 4, 5, 6], 2, 2, &whole)?;
                held.copy_region_to_host(&mut from_device, 1, 2, Volume::new(&device, 2, 2), &column)?;
                held.copy_region_to_host(&mut from_pinned, 1, 2, Volume::new(&pinned, 2, 2), &column)?;
                Ok::<_, anabranch::Error>((from_device, from_pinned))
            });
            waits.recv().unwrap();
            for value in 0..200 {
                other.fill(&mut elsewhere, value).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            gate.set(1);
            assert_eq!(waiting.join().unwrap().unwrap(), ([4, 6], [7, 9]));
        });
        assert_eq!(target.as_slice().unwrap(), [7, 9, 0, 0]);
        assert_eq!(other.download(&elsewhere).unwrap(), [199; 3]);
    });
}

/// One of them has the stream, and its graph keeps what is captured, also where the next begins before the end is known here.
#[test]
fn safety_33_captures_that_threads_begin_on_one_stream_in_turns_keep_what_they_use() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let capture = || {
        let other = context.create_stream().unwrap();
        let mut graphs = Vec::new();
        for _ in 0..1000 {
            let source = context.allocate_zeroed::<u8>(&other, 100).unwrap();
            let mut target = context.allocate_zeroed::<u8>(&other, 100).unwrap();
            if stream.begin_capture(CaptureMode::Relaxed).is_ok() {
                stream.copy(&mut target, &source).unwrap();
                graphs.push(stream.end_capture().unwrap());
            }
        }
        graphs
    };
    let graphs: Vec<Graph> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(capture)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    flush_deferred_drops();
    for graph in graphs {
        graph.instantiate().unwrap().launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
}

/// The stream that waits joins the capture, and the library knows its membership.
#[test]
fn safety_59_a_launch_waits_for_no_event_that_is_recorded_behind_it() {
    assert_ends(|| {
        let context = host();
        let (stream, later) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let event = context.create_event().unwrap();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::event_wait(&event)).unwrap();
        let executable = graph.instantiate().unwrap();
        let gate = hold(&context, &stream);
        executable.launch(&stream).unwrap();
        later.wait_stream(&stream).unwrap();
        later.record(&event).unwrap();
        gate.set(1);
        context.synchronize().unwrap();
        assert!(event.query().unwrap());
    });
}

#[test]
fn safety_7_a_stream_that_waits_for_an_event_while_it_is_captured_has_its_work_kept() {
    let context = checked_host();
    let (origin, side) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let event = context.create_event().unwrap();
    let over = AtomicBool::new(false);
    let graphs: Vec<Graph> = std::thread::scope(|scope| {
        let capturing = scope.spawn(|| {
            let mut graphs = Vec::new();
            for _ in 0..20_000 {
                // The side may still be in a capture that has failed.
                if origin.begin_capture(CaptureMode::Relaxed).is_ok() {
                    let _ = origin.record(&event).and_then(|_| origin.wait_stream(&side));
                    graphs.extend(origin.end_capture());
                }
            }
            over.store(true, Ordering::SeqCst);
            graphs
        });
        let other = context.create_stream().unwrap();
        while !over.load(Ordering::SeqCst) {
            let source = context.allocate_zeroed::<u8>(&other, 100).unwrap();
            let mut target = context.allocate_zeroed::<u8>(&other, 100).unwrap();
            other.synchronize().unwrap();
            let _ = side.wait_event(&event).and_then(|()| side.copy(&mut target, &source));
        }
        capturing.join().unwrap()
    });
    flush_deferred_drops();
    for graph in graphs.into_iter().filter(|graph| !graph.nodes().unwrap().is_empty()) {
        graph.instantiate().unwrap().launch(&origin).unwrap();
    }
    origin.synchronize().unwrap();
}

#[test]
fn safety_105_nobody_uses_a_graph_that_a_failing_capture_destroys() {
    let context = checked_host();
    let (stream, fork) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    for _ in 0..500 {
        let mut graph = context.create_graph().unwrap();
        let node = graph.add((), NodeWork::host_func(|| ())).unwrap();
        let executable = graph.instantiate().unwrap();
        let mut other = context.create_graph().unwrap();
        other.add((), NodeWork::host_func(|| ())).unwrap();
        // From now on, only the graph itself has its nodes.
        executable.update(&other).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    for refused in [
                        executable.set_node(node, NodeWork::host_func(|| ())).err(),
                        executable.is_node_enabled(node).err().filter(|error| error.status() != Status::INVALID_VALUE),
                    ] {
                        assert!(refused.is_none_or(|error| error.status() == Status::ILLEGAL_STATE));
                    }
                }
            });
            let failed = stream.capture_into(&mut graph, (), CaptureMode::Relaxed, |scope| {
                // Never joined.
                scope.fork(&fork)?;
                fork.launch_repeatable_host_func(|| ())
            });
            assert_eq!(failed.unwrap_err().status(), Status::STREAM_CAPTURE_UNJOINED);
            over.store(true, Ordering::SeqCst);
        });
        executable.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
}

#[test]
fn safety_105_only_the_capture_uses_the_graph_that_it_captures_into() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut graph = context.create_graph().unwrap();
    let node = graph.add((), NodeWork::host_func(|| ())).unwrap();
    let executable = graph.instantiate().unwrap();
    let captured = stream.capture_into(&mut graph, (), CaptureMode::Relaxed, |_| {
        let refused = executable.set_node(node, NodeWork::host_func(|| ())).unwrap_err();
        assert_eq!(refused.status(), Status::ILLEGAL_STATE);
        Ok(())
    });
    captured.unwrap();
    executable.set_node(node, NodeWork::host_func(|| ())).unwrap();
    // A capture that does not begin leaves the graph as it is.
    let legacy = context.legacy_stream().unwrap();
    assert!(legacy.capture_into(&mut graph, (), CaptureMode::Relaxed, |_| Ok(())).is_err());
    executable.set_node(node, NodeWork::host_func(|| ())).unwrap();
}
