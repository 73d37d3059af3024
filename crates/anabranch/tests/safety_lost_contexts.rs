//! Classes of defects where one context is lost and others are not. `docs/safety.md` lists them all by the numbers in the
//! tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, Context, ContextFlags, Device, Error, Graph, HostFunction, HostModule, Instance, Kernel,
    KernelFault, LaunchConfig, Module, NodeWork, Stream, flush_deferred_drops,
};
use common::{assert_ends, hold, host, until};
use futures::executor::block_on;
use std::sync::mpsc::{Sender, channel};

/// A new context, and a kernel that faults.
fn with_fault(device: &Device) -> (Context, Kernel) {
    let context = device.create_context(ContextFlags::empty()).unwrap();
    let fault = HostFunction::new("fault", &[], |_, _| KernelFault::trap("on purpose").raise());
    let module = Module::load_host(&context, &HostModule::new().with_function(fault)).unwrap();
    (context, module.kernel("fault").unwrap())
}

fn lose(context: &Context, fault: &Kernel) {
    let stream = context.create_stream().unwrap();
    stream.launch_checked(fault, &LaunchConfig::new(1, 1), ()).unwrap();
    assert!(is_lost(stream.synchronize()));
}

/// A stream of a context that is lost, and memory there.
fn lost_stream(healthy: &Context) -> (Stream, Buffer<u32>) {
    let (context, fault) = with_fault(healthy.device());
    let stream = context.create_stream().unwrap();
    let buffer = stream.upload(&[5u32, 6]).unwrap();
    lose(&context, &fault);
    (stream, buffer)
}

fn is_lost<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| error.is_sticky())
}

fn graph_of(context: &Context, work: NodeWork<'_>) -> Graph {
    let mut graph = context.create_graph().unwrap();
    graph.add((), work).unwrap();
    graph
}

#[test]
fn safety_91_work_that_a_lost_context_refuses_leaves_memory_of_others_as_it_was() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (lost, lost_buffer) = lost_stream(&context);
    let mut buffer = stream.upload(&[1u32, 2]).unwrap();
    stream.synchronize().unwrap();

    let executable = graph_of(&context, NodeWork::fill(&mut buffer, 7u32).unwrap()).instantiate().unwrap();
    assert!(is_lost(executable.launch(&lost)));
    assert!(is_lost(lost.copy_peer(&mut buffer, &lost_buffer)));
    assert_eq!(stream.download(&buffer).unwrap(), [1, 2]);
    executable.launch(&stream).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [7, 7]);
    stream.fill(&mut buffer, 3u32).unwrap();
    assert_eq!(stream.download(&buffer).unwrap(), [3, 3]);
}

#[test]
fn safety_91_work_that_a_lost_context_refuses_leaves_pinned_memory_of_others_as_it_was() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let (lost, _memory) = lost_stream(&context);
    let mut pinned = context.allocate_pinned::<u32>(2).unwrap();
    assert!(is_lost(lost.fill(&mut pinned, 1u32)));
    let executable = graph_of(&context, NodeWork::fill(&mut pinned, 7u32).unwrap()).instantiate().unwrap();
    assert!(is_lost(futures::executor::block_on(executable.launch_async(&lost))));
    assert_eq!(pinned.read(<[u32]>::to_vec).unwrap(), [0, 0]);
    executable.launch(&stream).unwrap();
    assert_eq!(pinned.read(<[u32]>::to_vec).unwrap(), [7, 7]);
}

#[test]
fn safety_48_what_a_lost_context_leaves_is_freed_in_the_order_of_a_seed_too() {
    for seed in 0..4 {
        let instance = Instance::builder().cuda(false).isolated().host_check_memory(true).host_seed(seed);
        let device = instance.build().unwrap().device("host").unwrap();
        let (context, fault) = with_fault(&device);
        let stream = context.create_stream().unwrap();
        let mut buffer = stream.upload(&[0u32; 4]).unwrap();
        let mut graph = context.create_graph().unwrap();
        for value in 0..8u32 {
            graph.add((), NodeWork::fill(&mut buffer, value).unwrap()).unwrap();
        }
        let executable = graph.instantiate().unwrap();
        for value in 0..8u32 {
            stream.fill(&mut buffer, value).unwrap();
            executable.launch(&stream).unwrap();
        }
        lose(&context, &fault);
        drop((graph, executable, buffer, stream, fault, context));
        until("the end of the memory", || {
            flush_deferred_drops();
            device.memory_report().unwrap().allocations.is_empty()
        });
    }
}

/// Work of a context that is queued, and does not begin before the value is dropped.
fn held(stream: &Stream) -> Sender<()> {
    let (goes_on, waits) = channel();
    stream.launch_host_func(move || _ = waits.recv()).unwrap();
    goes_on
}

#[test]
fn safety_99_work_behind_undone_work_of_a_lost_context_is_not_done() {
    let healthy = host();
    for behind_a_graph in [false, true] {
        let (lost, fault) = with_fault(healthy.device());
        let other = healthy.device().create_context(ContextFlags::empty()).unwrap();
        let (writer, reader) = (lost.create_stream().unwrap(), other.create_stream().unwrap());
        let mut copy = reader.upload(&[1u32; 64]).unwrap();
        reader.synchronize().unwrap();
        let goes_on = held(&writer);
        let mut memory = writer.allocate_zeroed::<u32>(64).unwrap();
        if behind_a_graph {
            let mut graph = lost.create_graph().unwrap();
            graph.add((), NodeWork::fill(&mut memory, 5u32).unwrap()).unwrap();
            graph.instantiate().unwrap().launch(&writer).unwrap();
        } else {
            writer.fill(&mut memory, 5u32).unwrap();
        }
        reader.copy_peer(&mut copy, &memory).unwrap();
        let read = reader.download_async(&copy);
        lose(&lost, &fault);
        drop(goes_on);
        assert!(is_lost(futures::executor::block_on(read)), "behind a graph: {behind_a_graph}");
        let error = reader.synchronize().unwrap_err();
        assert!(error.to_string().contains("another context, which is lost"), "{error}");
    }
    // What waits for nothing of theirs goes on.
    let stream = healthy.create_stream().unwrap();
    assert_eq!(stream.download(&stream.upload(&[3u32]).unwrap()).unwrap(), [3]);
}

#[test]
fn safety_99_work_behind_what_a_lost_context_has_done_goes_on() {
    let healthy = host();
    let (lost, fault) = with_fault(healthy.device());
    let (writer, reader) = (lost.create_stream().unwrap(), healthy.create_stream().unwrap());
    let memory = writer.upload(&[7u32; 64]).unwrap();
    let mut copy = reader.upload(&[1u32; 64]).unwrap();
    writer.synchronize().unwrap();
    let goes_on = held(&reader);
    reader.copy_peer(&mut copy, &memory).unwrap();
    lose(&lost, &fault);
    drop(goes_on);
    assert_eq!(reader.download(&copy).unwrap(), [7; 64]);
}

#[test]
fn safety_182_a_copy_in_a_lost_context_returns_where_nobody_else_runs_what_is_left() {
    // By the seed, the fault comes before the other work, or behind it.
    assert_ends(|| {
        for seed in 0..16 {
            let instance = Instance::builder().cuda(false).isolated().host_seed(seed).build().unwrap();
            let (context, fault) = with_fault(&instance.device("host").unwrap());
            let [first, second, third] = [(); 3].map(|()| context.create_stream().unwrap());
            first.launch_host_func(|| ()).unwrap();
            second.launch_checked(&fault, &LaunchConfig::new(1, 1), ()).unwrap();
            let uploaded = third.upload(&[1u32; 4]);
            assert!(uploaded.is_ok() || is_lost(uploaded));
        }
    });
}

#[test]
fn safety_191_an_event_of_a_graph_that_never_ran_is_not_complete() {
    for is_waited_before in [false, true] {
        let context = host();
        let (stream, other) = (context.create_stream().unwrap(), context.create_stream().unwrap());
        let (lost, fault) = with_fault(context.device());
        let elsewhere = lost.create_stream().unwrap();
        let event = context.create_event().unwrap();
        let graph = stream.capture_executable(CaptureMode::Relaxed, |scope| {
            scope.record_external(&event)?;
            Ok(())
        });
        let graph = graph.unwrap();
        let signal = hold(&lost, &elsewhere);
        elsewhere.launch_checked(&fault, &LaunchConfig::new(1, 1), ()).unwrap();
        graph.launch(&elsewhere).unwrap();
        if is_waited_before {
            other.wait(&event).unwrap();
        }
        assert!(!event.query().unwrap());
        let completion = event.completed();
        signal.set(1);
        assert!(is_lost(elsewhere.synchronize()));
        match is_waited_before {
            true => assert!(is_lost(event.query())),
            false => assert!(is_lost(block_on(completion))),
        }
        assert!(is_lost(event.synchronize()));
        // What the event is to say was never done, so that nothing of the context can rely on its work any more.
        assert!(is_lost(other.wait(&event).and_then(|()| other.synchronize())));
    }
}
