//! Memory that launches of graphs leave allocated.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, Context, ExecutableGraph, Graph, GraphMemoryAttribute, InstantiateFlags, NodeWork, Stream,
    flush_deferred_drops,
};
use common::{checked_host, hold, until};
use std::sync::atomic::{AtomicBool, Ordering};

/// A graph that allocates memory and does not free it, and what stands for the memory.
fn captured(stream: &Stream) -> (Graph, Buffer<u32>) {
    let mut kept = None;
    let graph = stream.capture(CaptureMode::Relaxed, |scope| {
        kept = Some(scope.allocate_zeroed::<u32>(64)?);
        // This is freed by the graph.
        scope.allocate_zeroed::<u32>(64).map(drop)
    });
    (graph.unwrap(), kept.unwrap())
}

fn by_hand(stream: &Stream) -> (Graph, Buffer<u32>) {
    let mut graph = stream.context().create_graph().unwrap();
    // SAFETY: nothing reads the memory, and nothing uses the second one behind its free.
    let kept = unsafe {
        let (node, freed) = graph.add_allocation::<u32>((), 64).unwrap();
        graph.add_free(node, freed).unwrap();
        graph.add_allocation::<u32>((), 64).unwrap().1
    };
    (graph, kept)
}

fn allocated(context: &Context) -> usize {
    flush_deferred_drops();
    context.synchronize().unwrap();
    let allocations = context.device().memory_report().unwrap().allocations.len();
    if allocations == 0 {
        context.device().trim_graph_memory().unwrap();
        assert_eq!(context.device().graph_memory_attribute(GraphMemoryAttribute::UsedCurrent).unwrap(), 0);
    }
    allocations
}

fn every_way(launch: impl Fn(&Context, &Stream, &ExecutableGraph)) {
    for make in [captured, by_hand] {
        for flags in [InstantiateFlags::AUTO_FREE_ON_LAUNCH, InstantiateFlags::empty()] {
            for graph_goes_first in [true, false] {
                let context = checked_host();
                let stream = context.create_stream().unwrap();
                let (graph, kept) = make(&stream);
                let executable = graph.instantiate_with_flags(flags).unwrap();
                launch(&context, &stream, &executable);
                if graph_goes_first {
                    drop(graph);
                    assert_eq!(allocated(&context), 1);
                    drop(executable);
                    assert_eq!(allocated(&context), 0);
                } else {
                    drop(executable);
                    assert_eq!(allocated(&context), 0);
                    // It is there for the next one.
                    let again = graph.instantiate_with_flags(flags).unwrap();
                    again.launch(&stream).unwrap();
                    assert_eq!(allocated(&context), 1);
                    drop((again, graph));
                    assert_eq!(allocated(&context), 0);
                }
                drop(kept);
                assert_eq!(allocated(&context), 0);
            }
        }
    }
}

#[test]
fn it_is_freed_with_the_executable_graph() {
    every_way(|_, stream, executable| executable.launch(stream).unwrap());
}

#[test]
fn it_is_freed_when_the_stream_of_the_launch_has_ended() {
    every_way(|context, _, executable| executable.launch(&context.create_stream().unwrap()).unwrap());
}

#[test]
fn a_graph_that_was_not_launched_frees_nothing() {
    for make in [captured, by_hand] {
        let context = checked_host();
        let stream = context.create_stream().unwrap();
        let (graph, kept) = make(&stream);
        drop(graph.instantiate().unwrap());
        drop((graph, kept));
        assert_eq!(allocated(&context), 0);
    }
}

#[test]
fn it_is_freed_behind_the_launch_and_beside_a_capture() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    for make in [captured, by_hand] {
        let (graph, kept) = make(&stream);
        let executable = graph.instantiate().unwrap();
        let signal = hold(&context, &stream);
        executable.launch(&stream).unwrap();
        stream.begin_capture(CaptureMode::Relaxed).unwrap();
        drop((executable, graph, kept));
        signal.set(1);
        let captured = stream.end_capture().unwrap();
        stream.synchronize().unwrap();
        drop(signal);
        assert_eq!(captured.nodes().unwrap().len(), 0);
        until("the memory is freed", || allocated(&context) == 0);
    }
}

#[test]
fn an_executable_graph_whose_graph_frees_all_of_it_frees_nothing_more() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut graph = context.create_graph().unwrap();
    // SAFETY: nothing reads the memory or uses it behind its free.
    unsafe {
        let (node, memory) = graph.add_allocation::<u32>((), 64).unwrap();
        let between = graph.add(node, NodeWork::empty()).unwrap();
        graph.add_free(between, memory).unwrap();
    }
    let executable = graph.instantiate().unwrap();
    for _ in 0..3 {
        executable.launch(&stream).unwrap();
        assert_eq!(allocated(&context), 0);
    }
    drop(executable);
    assert_eq!(allocated(&context), 0);
}

#[test]
fn it_is_counted_rightly_when_it_is_trimmed_beside_launches() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                context.device().trim_graph_memory().unwrap();
            }
        });
        for _ in 0..300 {
            let graph = stream.capture(CaptureMode::Relaxed, |scope| {
                let memory: Result<Vec<_>, _> = (0..64).map(|_| scope.allocate_zeroed::<u32>(64)).collect();
                memory.map(drop)
            });
            let executable = graph.unwrap().instantiate().unwrap();
            executable.launch(&stream).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(allocated(&context), 0);
    let reserved = GraphMemoryAttribute::ReservedCurrent;
    assert_eq!(context.device().graph_memory_attribute(reserved).unwrap(), 0);
}

#[test]
fn memory_that_is_dropped_behind_its_stream_is_freed_by_launches() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let mut result = stream.upload(&[7u32; 4]).unwrap();
    let executable = stream.capture_executable(CaptureMode::Global, |scope| {
        let branch = context.create_stream()?;
        scope.fork(&branch)?;
        let memory = branch.allocate_zeroed::<u32>(4)?;
        branch.copy(&mut result, &memory)?;
        scope.join(&branch)?;
        drop(branch);
        drop(memory);
        Ok(())
    });
    let executable = executable.unwrap();
    for _ in 0..3 {
        executable.launch(&stream).unwrap();
    }
    assert_eq!(stream.download(&result).unwrap(), [0; 4]);
}
