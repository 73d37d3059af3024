//! Attributes of launches, and the events that launches record, with kernels that are closures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::{
    AccessProperty, Buffer, CaptureMode, ClusterSchedulingPolicy, Completion, Context, ContextFlags, DualModule,
    EdgeKind, Event, EventFlags, FunctionAttribute, Graph, HostFunction, Instance, Kernel, LaunchConfig,
    MemorySyncDomain, NodeParameters, NodeWork, Status, Stream, WaitCondition,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread;

struct World {
    context: Context,
    stream: Stream,
    append: Kernel,
}

/// A kernel that appends a digit to a number.
fn world() -> World {
    // Of its own, because tests change its settings.
    let context = Instance::new().unwrap().device("host").unwrap().create_context(ContextFlags::empty()).unwrap();
    let module = DualModule::new().host_function(HostFunction::new("append", &[8, 4], |_, arguments| {
        let digit = arguments.scalar::<u32>(1);
        arguments.slice::<u32>(0).fetch_update(0, |number| number * 10 + digit);
    }));
    let append = module.load(&context).unwrap().kernel("append").unwrap();
    World { stream: context.create_stream().unwrap(), append, context }
}

fn one() -> LaunchConfig<'static> {
    LaunchConfig::new(1, 1)
}

fn poll(future: &mut Completion) -> Option<anabranch::Result<()>> {
    match Pin::new(future).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

impl World {
    fn event(&self) -> Event {
        self.context.create_event_with_flags(EventFlags::DISABLE_TIMING).unwrap()
    }

    fn append(
        &self,
        stream: &Stream,
        number: &mut Buffer<u32>,
        digit: u32,
        config: &LaunchConfig<'_>,
    ) -> anabranch::Result<()> {
        stream.launch_checked(&self.append, config, (number, digit))
    }
}

#[test]
fn a_stream_that_waits_for_the_event_waits_for_the_launch_where_it_uses_the_memory() {
    let world = world();
    let other = world.context.create_stream().unwrap();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    let event = world.event();
    for config in [
        one().launch_completion_event(&event),
        one().programmatic_event(&event),
        one().programmatic_event_at_block_start(&event),
    ] {
        world.append(&world.stream, &mut number, 2, &config).unwrap();
        other.wait(&event).unwrap();
        let before = other.orders_inserted();
        world.append(&other, &mut number, 3, &one()).unwrap();
        assert_eq!(other.orders_inserted() - before, 1, "{config:?}");
    }
    assert_eq!(other.download(&number).unwrap(), [1_232_323]);
}

#[test]
fn in_strict_order_the_event_is_no_order() {
    let world = world();
    let other = world.context.create_stream().unwrap();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    let event = world.event();
    world.context.set_strict_order(true);
    world.append(&world.stream, &mut number, 2, &one().launch_completion_event(&event)).unwrap();
    other.wait(&event).unwrap();
    let refused = world.append(&other, &mut number, 3, &one()).unwrap_err();
    assert_eq!(refused.status(), Status::ILLEGAL_STATE);
    event.record(&world.stream).unwrap();
    other.wait(&event).unwrap();
    world.append(&other, &mut number, 3, &one()).unwrap();
    assert_eq!(other.download(&number).unwrap(), [123]);
}

/// What the host has waited for by the event is not taken for the launch either.
#[test]
fn synchronizing_with_the_event_does_not_complete_the_launch() {
    let world = world();
    let other = world.context.create_stream().unwrap();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    let event = world.event();
    // A point of the stream that the event knew before.
    event.record(&world.stream).unwrap();
    world.append(&world.stream, &mut number, 2, &one().launch_completion_event(&event)).unwrap();
    event.synchronize().unwrap();
    assert!(event.query().unwrap());
    let before = other.orders_inserted();
    world.append(&other, &mut number, 3, &one()).unwrap();
    assert_eq!(other.orders_inserted() - before, 1);
    assert_eq!(other.download(&number).unwrap(), [123]);
}

#[test]
fn a_refused_launch_leaves_the_event_as_it_was() {
    let world = world();
    let event = world.event();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    let signal = world.context.create_signal().unwrap();
    world.stream.wait_signal(&signal, WaitCondition::Equal, 1).unwrap();
    event.record(&world.stream).unwrap();
    let config = LaunchConfig::new(0, 1).launch_completion_event(&event);
    assert_eq!(world.append(&world.stream, &mut number, 2, &config).unwrap_err().status(), Status::INVALID_VALUE);
    assert!(!event.query().unwrap());
    signal.set(1);
    event.synchronize().unwrap();
    assert!(event.query().unwrap());
}

#[test]
fn futures_of_an_earlier_record_wait_for_that_record() {
    let world = world();
    let (event, other) = (world.event(), world.context.create_stream().unwrap());
    let signal = world.context.create_signal().unwrap();
    world.stream.wait_signal(&signal, WaitCondition::Equal, 1).unwrap();
    event.record(&world.stream).unwrap();
    let mut future = event.completed();
    let mut number = other.upload(&[1u32]).unwrap();
    world.append(&other, &mut number, 2, &one().launch_completion_event(&event)).unwrap();
    event.synchronize().unwrap();
    assert!(poll(&mut future).is_none());
    signal.set(1);
    world.stream.synchronize().unwrap();
    while poll(&mut future).is_none() {
        thread::yield_now();
    }
    assert_eq!(other.download(&number).unwrap(), [12]);
}

#[test]
fn events_that_no_launch_can_record_are_refused() {
    let world = world();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    let (timed, event) = (world.context.create_event().unwrap(), world.event());
    let foreign = Instance::new().unwrap().device("host").unwrap().create_context(ContextFlags::empty()).unwrap();
    let foreign = foreign.create_event_with_flags(EventFlags::DISABLE_TIMING).unwrap();
    for (config, status) in [
        (one().launch_completion_event(&timed), Status::INVALID_VALUE),
        (one().programmatic_event(&timed), Status::INVALID_VALUE),
        (one().programmatic_event(&event).launch_completion_event(&event), Status::INVALID_VALUE),
        (one().programmatic_event(&foreign), Status::INVALID_HANDLE),
    ] {
        assert_eq!(world.append(&world.stream, &mut number, 2, &config).unwrap_err().status(), status, "{config:?}");
    }
    assert_eq!(world.stream.download(&number).unwrap(), [1]);
}

#[test]
fn threads_that_record_two_events_in_turns_do_not_wait_for_each_other() {
    let world = Arc::new(world());
    let events = Arc::new([world.event(), world.event()]);
    let threads: Vec<_> = (0..4usize)
        .map(|index| {
            let (world, events) = (world.clone(), events.clone());
            thread::spawn(move || {
                let stream = world.context.create_stream().unwrap();
                let mut number = stream.upload(&[0u32]).unwrap();
                let config =
                    one().programmatic_event(&events[index % 2]).launch_completion_event(&events[1 - index % 2]);
                for _ in 0..200 {
                    world.append(&stream, &mut number, 0, &config).unwrap();
                    stream.wait(&events[index % 2]).unwrap();
                }
                stream.synchronize().unwrap();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_launch_that_records_an_event_joins_a_capture_by_its_memory() {
    let world = world();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    let (event, other) = (world.event(), world.context.create_stream().unwrap());
    world.stream.synchronize().unwrap();
    world.stream.begin_capture(CaptureMode::Relaxed).unwrap();
    world.append(&world.stream, &mut number, 2, &one()).unwrap();
    world.append(&other, &mut number, 3, &one().launch_completion_event(&event)).unwrap();
    assert!(other.is_capturing().unwrap());
    world.stream.wait(&event).unwrap();
    world.append(&world.stream, &mut number, 4, &one()).unwrap();
    let graph = world.stream.end_capture().unwrap();
    // The third launch comes after the first, and after the end of the second.
    assert_eq!(edges(&graph), [(EdgeKind::FULL, 0); 3]);
    graph.instantiate().unwrap().launch(&world.stream).unwrap();
    world.stream.synchronize().unwrap();
    assert_eq!(world.stream.download(&number).unwrap(), [1234]);
}

/// The kinds and ports of the edges of a graph, and what it depends on, sorted.
fn edges(graph: &Graph) -> Vec<(EdgeKind, u8)> {
    let mut edges: Vec<_> = graph.edges().unwrap().iter().map(|edge| (edge.data.kind, edge.data.from_port)).collect();
    edges.sort_by_key(|(kind, port)| (kind.0, *port));
    edges
}

#[test]
fn a_captured_programmatic_event_is_an_edge_where_no_memory_is_shared() {
    let world = world();
    let stream = &world.stream;
    let [other, third] = [(); 2].map(|()| world.context.create_stream().unwrap());
    let mut numbers = [(); 3].map(|()| stream.upload(&[1u32]).unwrap());
    let event = world.event();
    world.context.synchronize().unwrap();
    let [first, second, last] = &mut numbers;
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            scope.fork(&other)?;
            world.append(&other, second, 2, &one())?;
            world.append(scope, first, 2, &one().programmatic_event(&event))?;
            other.wait(&event)?;
            third.wait(&event)?;
            // Behind its own earlier work, and behind the end of the launch, whose memory it uses.
            world.append(&other, first, 3, &one())?;
            // Behind the trigger.
            world.append(&third, last, 4, &one())?;
            scope.join(&other)?;
            scope.join(&third)
        })
        .unwrap();
    drop((event, other, third));
    assert_eq!(edges(&graph), [(EdgeKind::FULL, 0), (EdgeKind::FULL, 0), (EdgeKind::PROGRAMMATIC, 1)]);
    let executable = graph.instantiate().unwrap();
    drop(graph);
    for _ in 0..4 {
        executable.launch(stream).unwrap();
    }
    let found = numbers.map(|number| stream.download(&number).unwrap()[0]);
    let four = |digits: &[u32]| (0..4).flat_map(|_| digits).fold(1, |number, digit| number * 10 + digit);
    assert_eq!(found, [four(&[2, 3]), four(&[2]), four(&[4])]);
}

#[test]
fn work_of_any_kind_is_behind_a_captured_programmatic_event() {
    let world = world();
    let (stream, other) = (&world.stream, world.context.create_stream().unwrap());
    let (mut number, mut own) = (stream.upload(&[1u32]).unwrap(), other.upload(&[1u32]).unwrap());
    let event = world.event();
    world.context.synchronize().unwrap();
    let graph = stream
        .capture(CaptureMode::Relaxed, |scope| {
            world.append(scope, &mut number, 2, &one().programmatic_event_at_block_start(&event))?;
            other.wait(&event)?;
            other.fill(&mut own, 7)?;
            // The event is awaited in its own stream, too: a fill comes behind the end of the launch.
            scope.wait(&event)?;
            scope.fill(&mut number, 9)?;
            scope.join(&other)
        })
        .unwrap();
    assert_eq!(edges(&graph), [(EdgeKind::FULL, 0), (EdgeKind::PROGRAMMATIC, 2)]);
    // Its capture is over.
    assert_eq!(other.wait(&event).unwrap_err().status(), Status::INVALID_VALUE);
    graph.instantiate().unwrap().launch(stream).unwrap();
    assert_eq!((stream.download(&number).unwrap(), stream.download(&own).unwrap()), (vec![9], vec![7]));
}

#[test]
fn captured_serialization_is_an_edge() {
    let world = world();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    world.stream.synchronize().unwrap();
    let overlapping = one().programmatic_stream_serialization();
    let graph = world
        .stream
        .capture(CaptureMode::Relaxed, |scope| {
            world.append(scope, &mut number, 2, &overlapping)?;
            world.append(scope, &mut number, 3, &overlapping)
        })
        .unwrap();
    let edges = graph.edges().unwrap();
    assert_eq!(edges.iter().map(|edge| edge.data.kind).collect::<Vec<_>>(), [EdgeKind::PROGRAMMATIC]);
    graph.instantiate().unwrap().launch(&world.stream).unwrap();
    world.stream.synchronize().unwrap();
    assert_eq!(world.stream.download(&number).unwrap(), [123]);
}

#[test]
fn nodes_keep_hints_and_descriptions_name_them() {
    let world = world();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    let config = one()
        .memory_sync_domain(MemorySyncDomain::Remote)
        .memory_sync_domain_map(1, 3)
        .cluster_scheduling_policy(ClusterSchedulingPolicy::Spread)
        .preferred_shared_memory_carveout(25)
        .preferred_cluster(2)
        .nvlink_centric_scheduling();
    let mut graph = world.context.create_graph().unwrap();
    // SAFETY: the kernel is a closure, and gets its arguments.
    let work = unsafe { NodeWork::kernel(&world.append, &config, (&mut number, 2u32)) }.unwrap();
    let node = graph.add((), work).unwrap();
    let NodeParameters::Kernel(kernel) = graph.node_parameters(node).unwrap() else { panic!("no kernel") };
    assert_eq!(kernel.attributes.preferred_shared_memory_carveout, Some(25));
    let description = graph.describe().unwrap();
    let parameters = description.nodes()[0].parameters();
    assert_eq!(parameters.get("memory-synchronization domains").map(String::as_str), Some("1, 3"));
    assert_eq!(parameters.get("cluster scheduling policy").map(String::as_str), Some("Spread"));
    graph.instantiate().unwrap().launch(&world.stream).unwrap();
    world.stream.synchronize().unwrap();
    assert_eq!(world.stream.download(&number).unwrap(), [12]);
}

#[test]
fn what_the_device_does_not_have_is_refused() {
    let world = world();
    let mut number = world.stream.upload(&[1u32]).unwrap();
    let memory = world.stream.upload(&[0u32; 8]).unwrap();
    let window =
        one().access_policy_window(memory.slice(..).unwrap(), 0.5, AccessProperty::Persisting, AccessProperty::Normal);
    for (config, status) in [
        (window, Status::NOT_SUPPORTED),
        (one().preferred_shared_memory_carveout(101), Status::INVALID_VALUE),
        (one().memory_sync_domain_map(0, 4), Status::INVALID_VALUE),
        (LaunchConfig::new(4, 1).cluster(2).preferred_cluster(3), Status::INVALID_CLUSTER_SIZE),
        (LaunchConfig::new(4, 1).cluster(2).preferred_cluster(0), Status::INVALID_CLUSTER_SIZE),
        (LaunchConfig::new((4, 1, 2), 1).cluster(2).preferred_cluster((2, 1, 2)), Status::INVALID_CLUSTER_SIZE),
    ] {
        assert_eq!(world.append(&world.stream, &mut number, 2, &config).unwrap_err().status(), status, "{config:?}");
    }
    assert_eq!(world.stream.download(&number).unwrap(), [1]);
}

#[test]
fn clusters_that_fit_are_counted() {
    let world = world();
    let workers = world.context.device().properties().multiprocessor_count;
    let blocks = world.append.max_active_blocks(128, 0).unwrap() * workers;
    for cluster in [1, 2, 8] {
        let config = LaunchConfig::new(16, 128).cluster(cluster);
        assert_eq!(world.append.max_active_clusters(&config).unwrap(), blocks / cluster);
        assert_eq!(world.append.max_cluster_size(&config).unwrap(), 8);
    }
    for (grid, cluster) in [(16, 3), (16, 16), (16, 0)] {
        let config = LaunchConfig::new(grid, 128).cluster(cluster);
        assert_eq!(world.append.max_active_clusters(&config).unwrap_err().status(), Status::INVALID_CLUSTER_SIZE);
    }
    assert_eq!(world.append.max_cluster_size(&LaunchConfig::new(1, 2048)).unwrap_err().status(), Status::INVALID_VALUE);
    world.append.set_attribute(FunctionAttribute::NonPortableClusterSize(true)).unwrap();
    let config = LaunchConfig::new(16, 128).cluster(16);
    assert_eq!(world.append.max_cluster_size(&config).unwrap(), 16);
    assert_eq!(world.append.max_active_clusters(&config).unwrap(), blocks / 16);
}
