//! Green contexts: what they are made of, and what their streams run on.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Context, ContextFlags, Device, ExecutableGraph, GlobalSlice, GreenContext, HostFunction, HostModule, Instance,
    Kernel, LaunchConfig, Module, NodeWork, Status, Stream, flush_deferred_drops,
};
use common::until;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

fn device(workers: usize) -> Device {
    let builder = Instance::builder().cuda(false).isolated().host_check_memory(true).host_devices(2);
    builder.host_workers(workers).build().unwrap().device("host").unwrap()
}

fn green(context: &Context, multiprocessors: u32) -> GreenContext {
    let (groups, _) = context.device().multiprocessors().unwrap().split(1, multiprocessors).unwrap();
    context.create_green_context(&groups).unwrap()
}

/// Counts how many threads are inside at the same time.
#[derive(Default)]
struct Concurrency {
    inside: AtomicUsize,
    most: AtomicUsize,
    done: AtomicUsize,
}

impl Concurrency {
    fn pass(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |most| Some(most.max(inside))).unwrap();
        for _ in 0..50 {
            std::thread::yield_now();
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Waits without helping the streams.
    fn until_done(&self, count: usize) {
        until("the end of the work", || self.done.load(Ordering::SeqCst) == count);
    }
}

/// A kernel each block of which passes once.
fn passing(context: &Context, concurrency: &Arc<Concurrency>) -> Kernel {
    let concurrency = concurrency.clone();
    let function = HostFunction::new("pass", &[], move |block, _| {
        block.phase(|thread, _| {
            if thread.index()[0] == 0 {
                concurrency.pass();
            }
        })
    });
    Module::load_host(context, &HostModule::new().with_function(function)).unwrap().kernel("pass").unwrap()
}

fn status<T>(result: anabranch::Result<T>) -> Status {
    result.err().unwrap().status()
}

#[test]
fn multiprocessors_are_split_into_groups_of_one_size_and_a_remainder() {
    let all = device(7).multiprocessors().unwrap();
    assert_eq!((all.count(), all.minimum_partition(), all.alignment()), (7, 1, 1));
    let counts = |groups, minimum| {
        let (groups, remainder) = all.split(groups, minimum).unwrap();
        let groups: Vec<_> = groups.iter().map(anabranch::Multiprocessors::count).collect();
        (groups, remainder.map(|remainder| remainder.count()))
    };
    assert_eq!(counts(2, 3), (vec![3, 3], Some(1)));
    assert_eq!(counts(1, 7), (vec![7], None));
    assert_eq!(counts(100, 2), (vec![2, 2, 2], Some(1)));
    assert_eq!(counts(2, 0), (vec![1, 1], Some(5)));
    assert_eq!(status(all.split(0, 1)), Status::INVALID_VALUE);
    assert_eq!(status(all.split(1, 8)), Status::INVALID_RESOURCE_CONFIGURATION);
    let flags = anabranch::SplitFlags::from_bits_retain(1 << 7);
    assert_eq!(status(all.split_with_flags(1, 1, flags)), Status::INVALID_VALUE);
}

#[test]
fn what_was_split_is_split_again_only_in_a_green_context() {
    let device = device(6);
    let context = device.context().unwrap();
    let (groups, remainder) = device.multiprocessors().unwrap().split(1, 4).unwrap();
    let refused = groups[0].split(2, 2).unwrap_err();
    assert_eq!(refused.status(), Status::INVALID_RESOURCE_CONFIGURATION);
    assert!(refused.to_string().contains("green context"), "{refused}");
    let first = context.create_green_context(&groups).unwrap();
    let own = first.multiprocessors().unwrap();
    assert_eq!((own.count(), own.device()), (4, device));
    let (halves, none) = own.split(2, 2).unwrap();
    assert!(none.is_none());
    let half = context.create_green_context([&halves[1]]).unwrap();
    assert_eq!(half.create_stream().unwrap().multiprocessors().unwrap().count(), 2);
    // All of one split.
    let whole = context.create_green_context(groups.iter().chain(&remainder)).unwrap();
    assert_eq!(whole.multiprocessors().unwrap().count(), 6);
    let twice = context.create_green_context([&groups[0], &groups[0]]);
    assert_eq!(status(twice), Status::INVALID_RESOURCE_CONFIGURATION);
    let mixed = context.create_green_context([&groups[0], &halves[0]]);
    assert_eq!(status(mixed), Status::INVALID_RESOURCE_CONFIGURATION);
}

#[test]
fn a_green_context_is_a_part_of_its_devices_primary_context() {
    let device = device(2);
    let context = device.context().unwrap();
    let all = device.multiprocessors().unwrap();
    assert_eq!(status(context.create_green_context([])), Status::INVALID_VALUE);
    let separate = device.create_context(ContextFlags::empty()).unwrap();
    assert_eq!(status(separate.create_green_context([&all])), Status::INVALID_CONTEXT);
    let other = Instance::builder().cuda(false).isolated().build().unwrap().device("host").unwrap();
    assert_eq!(status(other.context().unwrap().create_green_context([&all])), Status::INVALID_DEVICE);

    let green = context.create_green_context([&all]).unwrap();
    assert_eq!(green.context(), context);
    let stream = green.create_stream_with_priority(-1).unwrap();
    assert!(stream.context() == context && stream.is_non_blocking().unwrap() && stream.priority().unwrap() == -1);
    assert_eq!(context.create_stream().unwrap().multiprocessors().unwrap().count(), 2);
    let refused = Arc::new(std::sync::Mutex::new(None));
    let (told, within) = (refused.clone(), context.clone());
    stream.launch_host_func(move || *told.lock().unwrap() = within.create_green_context([&all]).err()).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(refused.lock().unwrap().take().unwrap().status(), Status::NOT_PERMITTED);
}

#[test]
fn so_many_workers_run_the_streams_of_a_green_context_at_the_same_time() {
    let device = device(6);
    let context = device.context().unwrap();
    let green = green(&context, 2);
    let concurrency = Arc::new(Concurrency::default());
    let kernel = passing(&context, &concurrency);
    let streams: Vec<Stream> = (0..8).map(|_| green.create_stream().unwrap()).collect();
    for _ in 0..30 {
        for stream in &streams {
            stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
        }
    }
    concurrency.until_done(240);
    assert!(concurrency.most() <= 2, "{} at the same time", concurrency.most());
}

#[test]
fn so_many_workers_share_a_kernel_of_a_green_context() {
    let device = device(6);
    let context = device.context().unwrap();
    let green = green(&context, 2);
    let concurrency = Arc::new(Concurrency::default());
    let kernel = passing(&context, &concurrency);
    let stream = green.create_stream().unwrap();
    for _ in 0..5 {
        // Large enough to be shared.
        stream.launch_checked(&kernel, &LaunchConfig::new(256, 256), ()).unwrap();
    }
    concurrency.until_done(5 * 256);
    assert!(concurrency.most() <= 2, "{} at the same time", concurrency.most());
}

/// A graph with so many nodes beside each other, each of which launches a kernel.
fn graph_of(context: &Context, kernel: &Kernel, nodes: usize, config: &LaunchConfig) -> ExecutableGraph {
    let mut graph = context.create_graph().unwrap();
    for _ in 0..nodes {
        // SAFETY: the kernel takes no arguments.
        graph.add((), unsafe { NodeWork::kernel(kernel, config, ()) }.unwrap()).unwrap();
    }
    graph.instantiate().unwrap()
}

#[test]
fn so_many_workers_run_a_graph_that_is_launched_into_a_stream_of_a_green_context() {
    let device = device(6);
    let context = device.context().unwrap();
    let green = green(&context, 2);
    let concurrency = Arc::new(Concurrency::default());
    let kernel = passing(&context, &concurrency);
    let stream = green.create_stream().unwrap();
    let beside = graph_of(&context, &kernel, 16, &LaunchConfig::new(1, 1));
    // Nodes that are shared themselves.
    let large = graph_of(&context, &kernel, 3, &LaunchConfig::new(128, 256));
    for _ in 0..10 {
        beside.launch(&stream).unwrap();
        large.launch(&stream).unwrap();
    }
    concurrency.until_done(10 * (16 + 3 * 128));
    assert!(concurrency.most() <= 2, "{} at the same time", concurrency.most());
}

#[test]
fn launches_of_a_graph_in_turns_are_run_by_the_workers_of_each_stream() {
    let device = device(4);
    let context = device.context().unwrap();
    let (one, two) = (green(&context, 1), green(&context, 2));
    let streams = [one.create_stream().unwrap(), context.create_stream().unwrap(), two.create_stream().unwrap()];
    let concurrency = Arc::new(Concurrency::default());
    let kernel = passing(&context, &concurrency);
    let executable = graph_of(&context, &kernel, 5, &LaunchConfig::new(1, 1));
    for round in 0..300 {
        executable.launch(&streams[round % 3]).unwrap();
    }
    concurrency.until_done(1500);
    // By one worker alone.
    let alone = Arc::new(Concurrency::default());
    let executable = graph_of(&context, &passing(&context, &alone), 5, &LaunchConfig::new(1, 1));
    for _ in 0..100 {
        executable.launch(&streams[0]).unwrap();
    }
    alone.until_done(500);
    assert_eq!(alone.most(), 1);
}

#[test]
fn host_work_of_a_graph_takes_no_worker_from_a_green_context() {
    let device = device(2);
    let context = device.context().unwrap();
    let green = green(&context, 1);
    let (sender, receiver) = channel();
    let receiver = std::sync::Mutex::new(receiver);
    let signalling = HostFunction::new("tell", &[], move |block, _| block.phase(|_, _| sender.send(()).unwrap()));
    let module = Module::load_host(&context, &HostModule::new().with_function(signalling)).unwrap();
    let tell = module.kernel("tell").unwrap();
    let mut graph = context.create_graph().unwrap();
    // Whichever a worker begins with, the other can run.
    let wait = move || receiver.lock().unwrap().recv().unwrap();
    graph.add((), NodeWork::host_func(wait)).unwrap();
    // SAFETY: the kernel takes no arguments.
    graph.add((), unsafe { NodeWork::kernel(&tell, &LaunchConfig::new(1, 1), ()) }.unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    let stream = green.create_stream().unwrap();
    for _ in 0..20 {
        executable.launch(&stream).unwrap();
    }
    until("the end of the launches", || stream.query().unwrap());
}

#[test]
fn work_of_other_streams_runs_beside_a_green_context_that_is_busy() {
    let device = device(2);
    let context = device.context().unwrap();
    let green = green(&context, 1);
    let (release, wait) = channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let blocking = HostFunction::new("wait", &[], move |block, _| block.phase(|_, _| _ = wait.lock().unwrap().recv()));
    let module = Module::load_host(&context, &HostModule::new().with_function(blocking)).unwrap();
    let concurrency = Arc::new(Concurrency::default());
    let kernel = passing(&context, &concurrency);
    let busy: Vec<Stream> = (0..3).map(|_| green.create_stream().unwrap()).collect();
    for stream in &busy {
        stream.launch_checked(&module.kernel("wait").unwrap(), &LaunchConfig::new(1, 1), ()).unwrap();
    }
    // The other worker is free, however many streams of the green context have work.
    context.create_stream().unwrap().launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
    concurrency.until_done(1);
    drop(release);
    busy.iter().for_each(|stream| stream.synchronize().unwrap());
}

#[test]
fn host_work_of_a_green_context_takes_no_worker_from_it() {
    let device = device(2);
    let context = device.context().unwrap();
    let green = green(&context, 1);
    let (first, second) = (green.create_stream().unwrap(), green.create_stream().unwrap());
    let (sender, receiver) = channel();
    let signalling = HostFunction::new("tell", &[], move |block, _| block.phase(|_, _| sender.send(()).unwrap()));
    let module = Module::load_host(&context, &HostModule::new().with_function(signalling)).unwrap();
    let tell = module.kernel("tell").unwrap();
    first.launch_host_func(move || receiver.recv().unwrap()).unwrap();
    second.launch_checked(&tell, &LaunchConfig::new(1, 1), ()).unwrap();
    first.synchronize().unwrap();
    second.synchronize().unwrap();
}

#[test]
fn what_a_green_context_has_captured_outlives_it() {
    let device = device(4);
    let context = device.context().unwrap();
    let green = green(&context, 1);
    let stream = green.create_stream().unwrap();
    let mut data = stream.upload(&[0u32; 4]).unwrap();
    let add = HostFunction::new("add", &[8], |block, arguments| {
        let data: GlobalSlice<'_, u32> = arguments.slice(0);
        block.phase(|thread, _| data.set(thread.global_x(), data.get(thread.global_x()) + 1));
    });
    let kernel = Module::load_host(&context, &HostModule::new().with_function(add)).unwrap().kernel("add").unwrap();
    let launch = |stream: &Stream, data: &mut _| stream.launch_checked(&kernel, &LaunchConfig::new(1, 4), (data,));
    let executable = stream.capture_executable(anabranch::CaptureMode::Global, |_| launch(&stream, &mut data)).unwrap();
    drop((green, stream));
    let other = context.create_stream().unwrap();
    for _ in 0..3 {
        executable.launch(&other).unwrap();
    }
    assert_eq!(other.download(&data).unwrap(), [3; 4]);
    drop((executable, data, other, kernel, context));
    until("the end of everything", || {
        flush_deferred_drops();
        let report = device.memory_report().unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        report.allocations.is_empty()
    });
}

#[test]
fn a_green_context_goes_while_its_work_is_pending() {
    let device = device(3);
    for _ in 0..20 {
        let context = device.context().unwrap();
        let stream = green(&context, 1).create_stream().unwrap();
        let mut data = stream.upload(&[1u32; 1000]).unwrap();
        (0..50).for_each(|value| stream.fill(&mut data, value).unwrap());
        drop((data, stream, context));
    }
    until("the end of the memory", || {
        flush_deferred_drops();
        device.memory_report().unwrap().allocations.is_empty()
    });
}

#[test]
fn the_driver_can_go_while_tasks_wait_in_a_green_context() {
    let device = device(3);
    let context = device.context().unwrap();
    let green = green(&context, 1);
    let concurrency = Arc::new(Concurrency::default());
    let kernel = passing(&context, &concurrency);
    let streams: Vec<Stream> = (0..8).map(|_| green.create_stream().unwrap()).collect();
    for stream in &streams {
        for _ in 0..20 {
            stream.launch_checked(&kernel, &LaunchConfig::new(1, 1), ()).unwrap();
        }
    }
    drop((streams, kernel, green, context, device));
    // What the kernels own goes with them.
    until("the end of the kernels", || Arc::strong_count(&concurrency) == 1);
}
