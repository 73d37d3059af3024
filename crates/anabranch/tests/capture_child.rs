//! Graphs that become nodes of a capture, on the host device.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Buffer, CaptureMode, ConditionalKind, Graph, GraphNodeKind, RecaptureChanges, Status, Stream};
use common::{checked_host, host, is_behind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const MODE: CaptureMode = CaptureMode::ThreadLocal;

fn number(stream: &Stream, value: u32) -> Buffer<u32> {
    stream.upload(&[value]).unwrap()
}

fn read(stream: &Stream, buffer: &Buffer<u32>) -> u32 {
    stream.download(buffer).unwrap()[0]
}

fn filling(stream: &Stream, buffer: &mut Buffer<u32>, value: u32) -> Graph {
    stream.capture(MODE, |scope| scope.fill(&mut *buffer, value)).unwrap()
}

#[test]
fn a_child_runs_in_its_place_in_the_stream() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (mut memory, mut before, mut after) = (number(&stream, 0), number(&stream, 0), number(&stream, 0));
    let child = filling(&stream, &mut memory, 7);
    let graph = stream
        .capture(MODE, |scope| {
            scope.copy(&mut before, &memory)?;
            scope.capture_child(&child)?;
            scope.copy(&mut after, &memory)
        })
        .unwrap();
    let kinds: Vec<_> = graph.nodes().unwrap().into_iter().map(|node| graph.node_kind(node).unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == GraphNodeKind::CHILD).count(), 1);
    // What is captured is a copy, which retains what the graph retained.
    drop((child, memory));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!((read(&stream, &before), read(&stream, &after)), (0, 7));
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn streams_that_use_the_memory_of_a_child_are_ordered() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (mut memory, mut result) = (number(&stream, 0), number(&stream, 0));
    let child = filling(&stream, &mut memory, 7);
    let graph = stream
        .capture(MODE, |scope| {
            scope.fork(&other)?;
            other.fill(&mut memory, 1)?;
            scope.capture_child(&child)?;
            other.copy(&mut result, &memory)?;
            scope.join(&other)
        })
        .unwrap();
    let nodes = graph.nodes().unwrap();
    let of_kind = |kind| *nodes.iter().find(|node| graph.node_kind(**node).unwrap() == kind).unwrap();
    let (fill, inside, copy) =
        (of_kind(GraphNodeKind::FILL), of_kind(GraphNodeKind::CHILD), of_kind(GraphNodeKind::COPY));
    assert!(is_behind(&graph, inside, fill) && is_behind(&graph, copy, inside));
    let executable = graph.instantiate().unwrap();
    for _ in 0..20 {
        executable.launch(&stream).unwrap();
        assert_eq!(read(&stream, &result), 7);
    }
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn work_in_other_streams_is_ordered_with_launches() {
    let context = checked_host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (mut memory, mut result) = (number(&stream, 0), number(&stream, 0));
    let child = filling(&stream, &mut memory, 7);
    let executable = stream.capture_executable(MODE, |scope| scope.capture_child(&child)).unwrap();
    for value in 0..20 {
        other.fill(&mut memory, value).unwrap();
        executable.launch(&stream).unwrap();
        other.copy(&mut result, &memory).unwrap();
        assert_eq!(read(&other, &result), 7);
    }
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn parts_have_children() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (mut wanted, mut first, mut second) = (number(&stream, 1), number(&stream, 0), number(&stream, 0));
    let children = [filling(&stream, &mut first, 1), filling(&stream, &mut second, 2)];
    let executable = stream
        .capture_executable(MODE, |scope| {
            scope.capture_if_else(
                &wanted,
                |part| {
                    part.capture_child(&children[0])?;
                    part.capture_child(&children[1])
                },
                |part| part.capture_child(&children[1]),
            )
        })
        .unwrap();
    drop(children);
    executable.launch(&stream).unwrap();
    assert_eq!((read(&stream, &first), read(&stream, &second)), (1, 2));
    stream.fill(&mut first, 0u32).unwrap();
    stream.fill(&mut second, 0u32).unwrap();
    stream.fill(&mut wanted, 0u32).unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!((read(&stream, &first), read(&stream, &second)), (0, 2));
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn a_body_without_conditions_has_children_that_are_captured_into_it() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let (wanted, mut first, mut second) = (number(&stream, 1), number(&stream, 0), number(&stream, 0));
    let children = [filling(&stream, &mut first, 1), filling(&stream, &mut second, 2)];
    let mut graph = context.create_graph().unwrap();
    let value = graph.create_conditional(Some(1)).unwrap();
    let condition = graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
    let mut body = graph.body(condition, 0).unwrap();
    stream.capture_into(&mut body, (), MODE, |scope| scope.capture_child(&children[0])).unwrap();
    stream.capture_into(&mut body, (), MODE, |scope| scope.capture_child(&children[1])).unwrap();
    drop((body, children));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!((read(&stream, &first), read(&stream, &second)), (1, 2));
    // Beside a condition, drivers refuse it.
    let mut body = graph.body(condition, 0).unwrap();
    let child = filling(&stream, &mut first, 3);
    let captured = stream.capture_into(&mut body, (), MODE, |scope| {
        scope.capture_if(&wanted, |_| Ok(()))?;
        scope.capture_child(&child)
    });
    assert_eq!(captured.unwrap_err().status(), Status::NOT_SUPPORTED);
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn memory_of_a_child_in_a_part_is_not_used_beside_it() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let (wanted, mut memory) = (number(&stream, 1), number(&stream, 0));
    let child = filling(&stream, &mut memory, 3);
    let executable = stream
        .capture_executable(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            scope.capture_if(&wanted, |part| {
                part.capture_child(&child)?;
                assert_eq!(other.fill(&mut memory, 4u32).unwrap_err().status(), Status::ILLEGAL_STATE);
                Ok(())
            })?;
            other.fill(&mut memory, 5u32)?;
            scope.join(&other)
        })
        .unwrap();
    executable.launch(&stream).unwrap();
    assert_eq!(read(&stream, &memory), 5);
}

#[test]
fn functions_of_a_child_are_kept() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let child = stream
        .capture(MODE, |scope| {
            scope.launch_repeatable_host_func(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            })
        })
        .unwrap();
    let executable = stream
        .capture_executable(MODE, |scope| {
            scope.capture_child(&child)?;
            scope.capture_child(&child)
        })
        .unwrap();
    drop(child);
    for _ in 0..3 {
        executable.launch(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 6);
    drop(executable);
    stream.synchronize().unwrap();
    common::until("the function is dropped", || Arc::strong_count(&calls) == 1);
}

#[test]
fn graphs_that_cannot_be_children() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (wanted, mut memory) = (number(&stream, 1), number(&stream, 0));
    let plain = filling(&stream, &mut memory, 1);
    assert_eq!(stream.capture_child(&plain).unwrap_err().status(), Status::ILLEGAL_STATE);

    let elsewhere = context.device().create_context(anabranch::ContextFlags::empty()).unwrap();
    let foreign = elsewhere.create_stream().unwrap().capture(MODE, |_| Ok(())).unwrap();
    let conditional =
        stream.capture(MODE, |scope| scope.capture_if(&wanted, |part| part.fill(&mut memory, 2u32))).unwrap();
    let allocating = stream.capture(MODE, |scope| scope.allocate_zeroed::<u32>(1).map(drop)).unwrap();

    // Refused before anything is captured.
    let captured = stream.capture(MODE, |scope| {
        assert_eq!(scope.capture_child(&foreign).unwrap_err().status(), Status::INVALID_HANDLE);
        Ok(())
    });
    assert!(captured.unwrap().nodes().unwrap().is_empty());
    for graph in [&conditional, &allocating] {
        let captured = stream.capture(MODE, |scope| scope.capture_child(graph));
        assert_eq!(captured.unwrap_err().status(), Status::NOT_SUPPORTED);
        assert!(!stream.is_capturing().unwrap());
        // A failure midway is not forgotten.
        let captured = stream.capture(MODE, |scope| {
            scope.capture_child(graph).unwrap_err();
            Ok(())
        });
        assert_eq!(captured.map(drop).unwrap_err().status(), Status::STREAM_CAPTURE_INVALIDATED);
    }
    stream.capture_executable(MODE, |scope| scope.capture_child(&plain)).unwrap().launch(&stream).unwrap();
    assert_eq!(read(&stream, &memory), 1);
}

#[test]
fn children_are_nested_only_so_deep() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let mut memory = number(&stream, 0);
    let mut graph = filling(&stream, &mut memory, 1);
    let mut levels = 0;
    let refused = loop {
        match stream.capture(MODE, |scope| scope.capture_child(&graph)) {
            Ok(outer) => graph = outer,
            Err(error) => break error,
        }
        levels += 1;
        assert!(levels < 1000);
    };
    assert_eq!((refused.status(), levels), (Status::NOT_SUPPORTED, 64));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(read(&stream, &memory), 1);
}

#[test]
fn strict_order_concerns_children_too() {
    let context = host();
    let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
    let mut memory = number(&stream, 0);
    let child = filling(&stream, &mut memory, 1);
    context.set_strict_order(true);
    let graph = stream.capture(MODE, |scope| {
        scope.fork(&other)?;
        other.fill(&mut memory, 2u32)?;
        assert_eq!(scope.capture_child(&child).unwrap_err().status(), Status::ILLEGAL_STATE);
        scope.join(&other)?;
        scope.capture_child(&child)
    });
    graph.unwrap().instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(read(&stream, &memory), 1);
}

#[test]
fn children_that_threads_capture_at_the_same_time_are_all_kept() {
    const ROUNDS: usize = 20;

    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let others: Vec<_> = (0..3).map(|_| context.create_stream().unwrap()).collect();
    let mut shared = number(&stream, 0);
    let mut own: Vec<_> = others.iter().map(|_| number(&stream, 0)).collect();
    let child = filling(&stream, &mut shared, 1);
    let children: Vec<_> = own.iter_mut().map(|memory| filling(&stream, memory, 2)).collect();
    stream.begin_capture(CaptureMode::Relaxed).unwrap();
    others.iter().for_each(|other| other.wait_stream(&stream).unwrap());
    std::thread::scope(|scope| {
        for (other, private) in others.iter().zip(&children) {
            let child = &child;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    other.capture_child(child).unwrap();
                    other.capture_child(private).unwrap();
                }
            });
        }
    });
    others.iter().for_each(|other| stream.wait_stream(other).unwrap());
    let graph = stream.end_capture().unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 2 * ROUNDS * others.len());
    drop((child, children));
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(read(&stream, &shared), 1);
    assert!(own.iter().all(|memory| read(&stream, memory) == 2));
    assert_eq!(context.device().memory_report().unwrap().findings, []);
}

#[test]
fn children_are_not_captured_again() {
    let stream = host().create_stream().unwrap();
    let mut word = number(&stream, 0);
    let child = filling(&stream, &mut word, 1);
    let mut graph = stream.capture(MODE, |scope| scope.capture_child(&child)).unwrap();
    assert_eq!(graph.nodes().unwrap().len(), 1);
    let again = stream.recapture(&mut graph, RecaptureChanges::Any, MODE, |scope| scope.capture_child(&child));
    assert_eq!(again.unwrap_err().status(), Status::NOT_SUPPORTED);
    assert_eq!(graph.nodes().unwrap().len(), 0);
}
