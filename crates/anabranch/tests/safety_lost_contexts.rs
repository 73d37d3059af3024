//! Classes of defects where one context is lost and others are not. `docs/safety.md` lists them all by the numbers in the
//! tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, Context, ContextFlags, Device, Error, Graph, HostFunction, HostModule, Instance, Kernel, KernelFault,
    LaunchConfig, Module, NodeWork, Stream, flush_deferred_drops,
};
use common::{host, until};

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
