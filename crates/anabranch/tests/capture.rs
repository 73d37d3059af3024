//! Captures: what ends them, what they order, and what they refuse.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, CaptureStatus, DependencyUpdate, EventWaitFlags, Graph, GraphNodeKind, InstantiateFlags, Node,
    NodeWork, Status, Stream,
};
use common::host;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

fn streams() -> (Stream, Stream) {
    let context = host();
    (context.create_stream().unwrap(), context.create_stream().unwrap())
}

/// That the stream runs work, and can capture.
#[track_caller]
fn is_usable(stream: &Stream) {
    assert_eq!(stream.capture_status().unwrap(), CaptureStatus::None);
    let mut buffer = stream.allocate_zeroed::<u32>(1).unwrap();
    stream.fill(&mut buffer, 7u32).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [7]);
    let graph = stream.capture(CaptureMode::Global, |scope| scope.fill(&mut buffer, 8u32)).unwrap();
    graph.instantiate().unwrap().launch(stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [8]);
}

fn kinds(graph: &Graph) -> Vec<GraphNodeKind> {
    let mut kinds: Vec<_> = graph.nodes().unwrap().iter().map(|&node| graph.node_kind(node).unwrap()).collect();
    kinds.sort_by_key(|kind| kind.0);
    kinds
}

/// The nodes of a graph that can run in one order only, in that order.
fn row(graph: &Graph) -> Vec<Node> {
    let (mut left, mut row): (Vec<Node>, Vec<Node>) = (graph.nodes().unwrap(), Vec::new());
    while !left.is_empty() {
        let (ready, others): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|&node| graph.dependencies_of(node).unwrap().iter().all(|(before, _)| row.contains(before)));
        assert_eq!(ready.len(), 1, "behind {row:?}");
        row.extend(ready);
        left = others;
    }
    row
}

fn row_of_kinds(graph: &Graph) -> Vec<GraphNodeKind> {
    row(graph).into_iter().map(|node| graph.node_kind(node).unwrap()).collect()
}

#[test]
fn a_capture_ends_with_the_error_of_its_closure() {
    for mode in MODES {
        let (stream, other) = streams();
        let (mut buffer, small) = (stream.upload(&[1u32; 4]).unwrap(), stream.upload(&[1u32; 3]).unwrap());
        let error = stream
            .capture(mode, |scope| {
                scope.fork(&other)?;
                other.fill(&mut buffer, 5u32)?;
                scope.copy(&mut buffer, &small)
            })
            .unwrap_err();
        assert_eq!(error.status(), Status::INVALID_VALUE, "{error}");
        assert!(error.to_string().contains("4 elements"), "{error}");
        is_usable(&stream);
        is_usable(&other);
        assert_eq!(stream.download(&buffer).unwrap(), [1; 4], "nothing of it has run");
    }
}

#[test]
fn a_capture_ends_when_its_closure_panics() {
    for mode in MODES {
        let (stream, other) = streams();
        let mut buffer = stream.upload(&[1u32]).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            stream.capture(mode, |scope| {
                scope.fork(&other)?;
                other.fill(&mut buffer, 5u32)?;
                panic!("on purpose");
            })
        }));
        assert!(panicked.is_err());
        is_usable(&stream);
        is_usable(&other);
        assert!(stream.context().allocate_pinned::<u8>(1).is_ok(), "the thread is free too");
        assert_eq!(stream.download(&buffer).unwrap(), [1]);
    }
}

#[test]
fn a_stream_that_was_not_joined_is_an_error_and_no_more() {
    let (stream, other) = streams();
    let mut buffer = stream.upload(&[1u32]).unwrap();
    let error = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            other.fill(&mut buffer, 5u32)
        })
        .unwrap_err();
    assert_eq!(error.status(), Status::STREAM_CAPTURE_UNJOINED);
    assert!(error.hint().is_some_and(|hint| hint.contains("wait for every stream")), "{error}");
    is_usable(&stream);
    is_usable(&other);
}

#[test]
fn captures_of_one_stream_do_not_disturb_each_other() {
    let (stream, _) = streams();
    let mut buffer = stream.upload(&[0u32]).unwrap();
    let mut graphs = Vec::new();
    for value in 1..=3u32 {
        graphs.push(stream.capture(CaptureMode::Global, |scope| scope.fill(&mut buffer, value)).unwrap());
        let failed = stream.capture(CaptureMode::Global, |scope| scope.launch_host_func(|| ()));
        assert_eq!(failed.unwrap_err().status(), Status::STREAM_CAPTURE_UNSUPPORTED);
    }
    for (graph, value) in graphs.iter().zip(1..) {
        graph.instantiate().unwrap().launch(&stream).unwrap();
        assert_eq!(stream.download(&buffer).unwrap(), [value]);
    }
}

#[test]
fn buffers_that_move_between_streams_bring_their_edges() {
    let (stream, other) = streams();
    let (mut a, mut b) = (stream.upload(&[0u32]).unwrap(), stream.upload(&[0u32]).unwrap());
    let mut c = stream.upload(&[0u32]).unwrap();
    stream.synchronize().unwrap();
    // The second stream joins the capture at the beginning; from then on only the buffers order the work.
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            scope.fill(&mut a, 3u32)?;
            other.copy(&mut b, &a)?;
            scope.copy(&mut c, &b)
        })
        .unwrap();
    assert_eq!(row_of_kinds(&graph), [GraphNodeKind::FILL, GraphNodeKind::COPY, GraphNodeKind::COPY]);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&c).unwrap(), [3]);
}

#[test]
fn a_writer_comes_behind_all_readers_of_its_capture() {
    let (stream, other) = streams();
    let mut source = stream.upload(&[1u32]).unwrap();
    let (mut left, mut right) = (stream.upload(&[0u32]).unwrap(), other.upload(&[0u32]).unwrap());
    other.synchronize().unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            scope.copy(&mut left, &source)?;
            other.copy(&mut right, &source)?;
            scope.fill(&mut source, 9u32)
        })
        .unwrap();
    let write = graph.nodes().unwrap().into_iter().find(|&node| graph.node_kind(node).unwrap() == GraphNodeKind::FILL);
    assert_eq!(graph.dependencies_of(write.unwrap()).unwrap().len(), 2);
    assert_eq!(graph.root_nodes().unwrap().len(), 2);
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!([&left, &right, &source].map(|buffer| stream.download(buffer).unwrap()[0]), [1, 1, 9]);
}

#[test]
fn a_buffer_dropped_inside_is_freed_by_the_graph() {
    let (stream, other) = streams();
    let mut result = stream.upload(&[0u32]).unwrap();
    stream.synchronize().unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            let mut temporary = scope.allocate_zeroed::<u32>(1)?;
            scope.fork(&other)?;
            other.fill(&mut temporary, 6u32)?;
            scope.copy(&mut result, &temporary)
        })
        .unwrap();
    let kinds = row_of_kinds(&graph);
    assert_eq!((kinds.first(), kinds.last()), (Some(&GraphNodeKind::ALLOCATE), Some(&GraphNodeKind::FREE)));
    let executable = graph.instantiate().unwrap();
    for _ in 0..2 {
        executable.launch(&stream).unwrap();
    }
    assert_eq!(stream.download(&result).unwrap(), [6]);
}

#[test]
fn a_buffer_kept_from_a_capture_is_used_nowhere_else() {
    let (stream, other) = streams();
    let mut kept: Option<Buffer<u32>> = None;
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            kept = Some(scope.allocate_zeroed::<u32>(4)?);
            Ok(())
        })
        .unwrap();
    let mut kept = kept.unwrap();
    assert!(!kinds(&graph).contains(&GraphNodeKind::FREE));
    for error in [
        stream.fill(&mut kept, 1u32).unwrap_err(),
        other.download(&kept).unwrap_err(),
        other.capture(CaptureMode::Relaxed, |scope| scope.fill(&mut kept, 1u32)).unwrap_err(),
    ] {
        assert_eq!(error.status(), Status::INVALID_VALUE, "{error}");
        assert!(error.to_string().contains("only the capture that allocates it"), "{error}");
    }
    is_usable(&other);
    let flags = InstantiateFlags::AUTO_FREE_ON_LAUNCH;
    let executable = graph.instantiate_with_flags(flags).unwrap();
    for _ in 0..2 {
        executable.launch(&stream).unwrap();
    }
    drop(kept);
    stream.synchronize().unwrap();
}

#[test]
fn scopes_and_plain_memory_are_refused_without_harm() {
    let (stream, _) = streams();
    let mut buffer = stream.upload(&[1u32]).unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            let refused = [
                scope.sync_scope(|_| Ok(())).unwrap_err(),
                scope.download(&buffer).unwrap_err(),
                scope.copy_from_host(&mut buffer, &[2]).unwrap_err(),
            ];
            for error in refused {
                assert_eq!(error.status(), Status::STREAM_CAPTURE_UNSUPPORTED, "{error}");
            }
            assert_eq!(scope.capture_status()?, CaptureStatus::Active);
            scope.fill(&mut buffer, 3u32)
        })
        .unwrap();
    assert_eq!(kinds(&graph), [GraphNodeKind::FILL]);
    assert_eq!(stream.download(&buffer).unwrap(), [1]);
}

#[test]
fn a_capture_into_a_graph_goes_below_its_nodes() {
    let (stream, _) = streams();
    let mut buffer = stream.upload(&[0u32]).unwrap();
    let mut graph = stream.context().create_graph().unwrap();
    let above = graph.add((), NodeWork::empty()).unwrap();
    stream.capture_into(&mut graph, above, CaptureMode::Relaxed, |scope| scope.fill(&mut buffer, 4u32)).unwrap();
    assert_eq!(row_of_kinds(&graph), [GraphNodeKind::EMPTY, GraphNodeKind::FILL]);
    assert_eq!(row(&graph)[0], above, "the node is what it was");
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [4]);
}

#[test]
fn a_graph_that_cannot_be_captured_into_is_given_back() {
    let (stream, _) = streams();
    let (graph, mut other) = (stream.context().create_graph().unwrap(), stream.context().create_graph().unwrap());
    let foreign = other.add((), NodeWork::empty()).unwrap();
    let number = graph.as_raw();
    let (error, graph) = stream.begin_capture_to_graph(graph, foreign, CaptureMode::Relaxed).unwrap_err();
    assert_eq!(error.status(), Status::INVALID_VALUE, "{error}");
    assert_eq!(graph.as_raw(), number);
    stream.begin_capture_to_graph(graph, (), CaptureMode::Relaxed).unwrap();
    assert_eq!(stream.end_capture().unwrap().as_raw(), number);
    is_usable(&stream);
}

#[test]
fn what_a_capture_says_of_itself_names_nodes_of_its_graph() {
    let (stream, _) = streams();
    let mut buffer = stream.upload(&[0u32]).unwrap();
    let mut known = None;
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            assert_eq!(scope.capture_info()?.dependencies.len(), 0);
            scope.fill(&mut buffer, 1u32)?;
            let info = scope.capture_info()?;
            assert!(info.id > 0 && info.graph.is_some());
            known = info.dependencies.first().map(|(node, _)| *node);
            scope.fill(&mut buffer, 2u32)?;
            scope.update_capture_dependencies_with_mode(known.unwrap(), DependencyUpdate::Set)?;
            scope.fill(&mut buffer, 3u32)
        })
        .unwrap();
    assert_eq!(graph.dependents_of(known.unwrap()).unwrap().len(), 2);
    let (_, other) = streams();
    let foreign = other.capture(CaptureMode::Relaxed, |scope| scope.update_capture_dependencies(known.unwrap()));
    assert_eq!(foreign.unwrap_err().status(), Status::INVALID_VALUE);
    is_usable(&other);
}

#[test]
fn external_records_and_waits_become_nodes() {
    let (stream, other) = streams();
    let (event, count) = (stream.context().create_event().unwrap(), Arc::new(AtomicU32::new(0)));
    let inside = count.clone();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.wait_event_with_flags(&event, EventWaitFlags::EXTERNAL)?;
            scope.launch_repeatable_host_func(move || {
                inside.fetch_add(1, Ordering::SeqCst);
            })?;
            scope.record_external(&event).map(drop)
        })
        .unwrap();
    assert_eq!(row_of_kinds(&graph), [GraphNodeKind::EVENT_WAIT, GraphNodeKind::HOST, GraphNodeKind::EVENT_RECORD]);
    let executable = graph.instantiate().unwrap();
    for launches in 1..=3 {
        executable.launch(&stream).unwrap();
        other.wait_event(&event).unwrap();
        other.synchronize().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), launches);
    }
}

#[test]
fn a_launch_cannot_be_captured() {
    let (stream, _) = streams();
    let mut buffer = stream.upload(&[0u32]).unwrap();
    let inner = stream.capture_executable(CaptureMode::Relaxed, |scope| scope.fill(&mut buffer, 5u32)).unwrap();
    let refused = stream.capture(CaptureMode::Relaxed, |scope| inner.launch(scope)).unwrap_err();
    assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED);
    inner.launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [5]);
}

#[test]
fn a_threads_mode_is_given_back() {
    let (stream, _) = streams();
    let context = stream.context();
    let graph = stream
        .capture(CaptureMode::Global, |_| {
            let guard = context.exchange_capture_mode(CaptureMode::Relaxed)?;
            assert_eq!(guard.before(), CaptureMode::Global);
            context.allocate_pinned::<u8>(1)?;
            drop(guard);
            assert_eq!(context.exchange_capture_mode(CaptureMode::Global)?.before(), CaptureMode::Global);
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 0);
    let invalidated = stream.capture(CaptureMode::Global, |_| {
        assert!(context.allocate_pinned::<u8>(1).is_err());
        Ok(())
    });
    assert_eq!(invalidated.unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    is_usable(&stream);
}

#[test]
fn pinned_memory_in_a_capture_is_kept_from_plain_references() {
    let (stream, _) = streams();
    let (source, mut pinned) = (stream.upload(&[4u32]).unwrap(), stream.context().allocate_pinned::<u32>(1).unwrap());
    let graph = stream.capture(CaptureMode::Relaxed, |scope| scope.copy(&mut pinned, &source)).unwrap();
    assert_eq!(pinned.as_slice().unwrap_err().status(), Status::ILLEGAL_STATE);
    let executable = graph.instantiate().unwrap();
    drop(graph);
    let inside = pinned.read(|_| executable.launch(&stream).unwrap_err().status()).unwrap();
    assert_eq!(inside, Status::ILLEGAL_STATE);
    executable.launch(&stream).unwrap();
    assert_eq!(pinned.read(<[u32]>::to_vec).unwrap(), [4]);
    drop(executable);
    stream.synchronize().unwrap();
    anabranch::flush_deferred_drops();
    assert_eq!(pinned.as_slice().unwrap(), [4]);
}
