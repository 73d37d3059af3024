//! Captures: which nodes calls become, and graphs that are captured into.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the fixture keeps its handles alive")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::ffi::c_void;
use support::{Fixture, live, status};

/// What the last node of a stream does.
fn last(fixture: &Fixture, stream: Live<'_, StreamHandle>) -> NodeParameters {
    let nodes = fixture.dependencies(stream);
    assert_eq!(nodes.len(), 1);
    fixture.driver.graph_node_parameters(&fixture.context.into(), live(nodes[0])).unwrap()
}

fn nodes(fixture: &Fixture, graph: Live<'_, GraphHandle>) -> Vec<GraphNodeHandle> {
    fixture.driver.graph_nodes(&fixture.context.into(), graph).unwrap()
}

fn edges(fixture: &Fixture, graph: Live<'_, GraphHandle>) -> Vec<Edge> {
    fixture.driver.graph_edges(&fixture.context.into(), graph).unwrap()
}

fn empty(fixture: &Fixture, graph: Live<'_, GraphHandle>, dependencies: &[Dependency]) -> GraphNodeHandle {
    unsafe { fixture.driver.graph_add_node(&fixture.context.into(), graph, dependencies, &NodeParameters::Empty) }
        .unwrap()
        .node
}

#[test]
fn a_launch_keeps_the_values_of_its_arguments() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let urgent = live(driver.stream_create(&context.into(), StreamFlags::NON_BLOCKING, -2).unwrap());
    let kernel = fixture.function(HostFunction::new("add", &[8, 0, 4], |_, _| ()));
    let memory = fixture.allocate(64);
    let (address, mut number) = (memory.0, 7u32);
    let arguments: [*const c_void; 3] = [(&raw const address).cast(), std::ptr::null(), (&raw const number).cast()];
    let ranges = [DeclaredRange { argument: 0, address, bytes: 64, access: Access::Write }];
    let launch = Launch {
        grid: [4, 3, 2],
        block: [8, 1, 2],
        cluster: Some([2, 1, 1]),
        dynamic_shared_bytes: 96,
        cooperative: false,
        priority: Some(-1),
        attributes: None,
        overlap: None,
        arguments: &arguments,
        ranges: &ranges,
    };
    fixture.begin(urgent, CaptureMode::Global);
    unsafe { driver.launch(&context.into(), urgent, kernel, &launch) }.unwrap();
    number += 1;
    let NodeParameters::Kernel(node) = last(&fixture, urgent) else { panic!("a kernel node") };
    assert_eq!(number, 8);
    let expected = KernelNode {
        function: kernel.handle(),
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        dynamic_shared_bytes: 96,
        cooperative: false,
        priority: Some(-1),
        attributes: KernelAttributes::NONE,
        arguments: vec![address.to_ne_bytes().to_vec(), vec![], 7u32.to_ne_bytes().to_vec()],
        ranges: ranges.to_vec(),
    };
    assert_eq!(node, expected);
    // Without a priority of its own it has the stream's.
    unsafe { driver.launch(&context.into(), urgent, kernel, &Launch { priority: None, ..launch }) }.unwrap();
    let NodeParameters::Kernel(node) = last(&fixture, urgent) else { panic!("a kernel node") };
    assert_eq!(node.priority, Some(-2));
    assert_eq!(fixture.end(urgent), 0);
    let plain = fixture.stream();
    fixture.begin(plain, CaptureMode::Global);
    unsafe { driver.launch(&context.into(), plain, kernel, &Launch { priority: None, ..launch }) }.unwrap();
    let NodeParameters::Kernel(node) = last(&fixture, plain) else { panic!("a kernel node") };
    assert_eq!(node.priority, None);
    assert_eq!(fixture.end(plain), 0);
    fixture.free(memory);
}

#[test]
fn copies() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let (stream, memory) = (fixture.stream(), fixture.allocate(1 << 20));
    let pinned = driver.allocate_pinned(&context.into(), 64, PinnedFlags::empty()).unwrap() as u64;
    let mut pageable = vec![0u8; 1 << 20];
    let host = pageable.as_mut_ptr() as u64;
    fixture.begin(stream, CaptureMode::Global);
    let copy =
        |kind, to, from, bytes| status(unsafe { driver.copy_async(&context.into(), kind, to, from, bytes, stream) });
    let cases = [
        // Small and large ones from pageable memory are not staged: the node has the address.
        (CopyKind::HostToDevice, memory.0, host, 8, (false, true)),
        (CopyKind::HostToDevice, memory.0, host, 1000, (false, true)),
        (CopyKind::Inferred, memory.0, host, 1 << 20, (false, true)),
        (CopyKind::DeviceToHost, host, memory.0, 1 << 20, (true, false)),
        (CopyKind::Inferred, pinned, memory.0, 64, (true, false)),
        (CopyKind::DeviceToDevice, memory.0, memory.0 + 64, 64, (false, false)),
        (CopyKind::Inferred, host, pinned, 64, (true, true)),
    ];
    for (kind, to, from, bytes, (to_host, from_host)) in cases {
        assert_eq!(copy(kind, to, from, bytes), 0);
        let NodeParameters::Copy(node) = last(&fixture, stream) else { panic!("a copy node") };
        let end = |address, host| CopyPlace { address, host, pitch: bytes, height: 1, origin: [0; 3] };
        let expected = Copy3d { source: end(from, from_host), destination: end(to, to_host), extent: [bytes, 1, 1] };
        assert_eq!(node, expected);
    }
    let before = fixture.dependencies(stream);
    assert_eq!(copy(CopyKind::HostToDevice, memory.0, host, 0), 0);
    assert_eq!(fixture.dependencies(stream), before);
    assert_eq!(copy(CopyKind::HostToDevice, 0, host, 8), 1);
    let place = |address, pitch| CopyPlace { address, host: false, pitch, height: 4, origin: [4, 1, 0] };
    let volume = Copy3d { source: place(memory.0, 64), destination: place(memory.0 + 4096, 32), extent: [16, 2, 2] };
    unsafe { driver.copy_3d_async(&context.into(), &volume, stream) }.unwrap();
    assert!(matches!(last(&fixture, stream), NodeParameters::Copy(node) if node == volume));
    assert_eq!(fixture.capture_status(stream), 1);
    // Copies between contexts cannot be captured.
    let to = DevicePointer(memory.0 + 512);
    assert_eq!(
        status(unsafe { driver.copy_peer_async(&context.into(), to, context, memory, context, 256, stream) }),
        900
    );
    assert_eq!(fixture.end(stream), 901);
    unsafe { driver.free_pinned(&context.into(), pinned as *mut u8) }.unwrap();
    fixture.free(memory);
}

#[test]
fn fills() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(256));
    fixture.begin(stream, CaptureMode::Global);
    let graph = fixture.info(stream, false).unwrap().graph.unwrap();
    let fill = |pattern, count| {
        let filled = unsafe { fixture.driver.fill_async(&fixture.context.into(), memory, pattern, count, stream) };
        filled.unwrap();
    };
    let node = |address, pitch, pattern, width, height| FillNode { address, pitch, pattern, width, height };
    let is = |expected: FillNode| matches!(last(&fixture, stream), NodeParameters::Fill(node) if node == expected);
    for pattern in [FillPattern::U8(1), FillPattern::U16(2), FillPattern::U32(3)] {
        fill(pattern, 16);
        assert!(is(node(memory, 0, pattern, 16, 1)));
    }
    // Of 64 bits with equal halves: words.
    fill(FillPattern::U64(0x5_0000_0005), 8);
    assert!(is(node(memory, 0, FillPattern::U32(5), 16, 1)));
    assert_eq!(nodes(&fixture, live(graph)).len(), 4);
    // With others: two fills of columns.
    fill(FillPattern::U64(0x6_0000_0005), 8);
    assert_eq!(nodes(&fixture, live(graph)).len(), 6);
    assert!(is(node(memory.byte_add(4), 8, FillPattern::U32(6), 1, 8)));
    let earlier =
        edges(&fixture, live(graph)).into_iter().find(|edge| edge.to == fixture.dependencies(stream)[0]).unwrap();
    let first = fixture.driver.graph_node_parameters(&fixture.context.into(), live(earlier.from)).unwrap();
    assert!(matches!(first, NodeParameters::Fill(first) if first == node(memory, 8, FillPattern::U32(5), 1, 8)));
    assert_eq!(fixture.end(stream), 0);
    fixture.free(memory);
}

#[test]
fn values_and_host_work() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let (stream, address) = (fixture.stream(), fixture.allocate(64));
    fixture.begin(stream, CaptureMode::Global);
    for value in [Value::U32(3), Value::U64(4)] {
        let (wait, write) = (WaitValueFlags::EQUAL, WriteValueFlags::empty());
        unsafe { driver.stream_wait_value(&context.into(), stream, address, value, wait) }.unwrap();
        let expected = [ValueOperation::Wait { address, value, flags: wait }];
        assert!(matches!(last(&fixture, stream), NodeParameters::ValueOperations(found) if found == expected));
        unsafe { driver.stream_write_value(&context.into(), stream, address, value, write) }.unwrap();
        let expected = [ValueOperation::Write { address, value, flags: write }];
        assert!(matches!(last(&fixture, stream), NodeParameters::ValueOperations(found) if found == expected));
    }
    let work = RepeatableWork::new(|| ());
    driver.stream_launch_host_function(&context.into(), stream, work.clone().into()).unwrap();
    assert!(matches!(last(&fixture, stream), NodeParameters::Host(found) if found == work.key()));
    let odd = address.byte_add(1);
    let wait = unsafe { driver.stream_wait_value(&context.into(), stream, odd, Value::U32(0), WaitValueFlags::EQUAL) };
    assert_eq!((status(wait), fixture.capture_status(stream)), (1, 1));
    assert_eq!(fixture.end(stream), 0);
    fixture.free(address);
}

#[test]
fn memory_is_the_graphs_own() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let (stream, plain) = (fixture.stream(), fixture.allocate(64));
    let pooled = driver.allocate_async(&context.into(), 64, None, stream).unwrap();
    fixture.begin(stream, CaptureMode::Global);
    let address = driver.allocate_async(&context.into(), 64, None, stream).unwrap();
    let NodeParameters::Allocate(node) = last(&fixture, stream) else { panic!("an allocation node") };
    assert_eq!((node.address, node.bytes, node.device), (address, 64, DeviceOrdinal(0)));
    let before = fixture.dependencies(stream);
    assert_eq!(driver.allocate_async(&context.into(), 0, None, stream).unwrap(), DevicePointer::NULL);
    unsafe { driver.free_async(&context.into(), DevicePointer::NULL, stream) }.unwrap();
    // What no graph has allocated is refused, without harm.
    for other in [plain, pooled, address.byte_add(8)] {
        assert_eq!(status(unsafe { driver.free_async(&context.into(), other, stream) }), 1);
        assert_eq!(fixture.capture_status(stream), 1);
    }
    assert_eq!(fixture.dependencies(stream), before);
    unsafe { driver.free_async(&context.into(), address, stream) }.unwrap();
    assert!(matches!(last(&fixture, stream), NodeParameters::Free(freed) if freed == address));
    assert_eq!(fixture.end(stream), 0);
    unsafe { driver.free_async(&context.into(), pooled, stream) }.unwrap();
    fixture.free(plain);
}

#[test]
fn a_prefetch_is_not_captured() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let (stream, memory) = (fixture.stream(), driver.allocate_managed(&context.into(), 64).unwrap());
    fixture.begin(stream, CaptureMode::Relaxed);
    assert_eq!(status(unsafe { driver.prefetch_async(&context.into(), memory, 64, None, stream) }), 900);
    assert_eq!(fixture.capture_status(stream), 2);
    assert_eq!(fixture.end(stream), 901);
    unsafe { driver.prefetch_async(&context.into(), memory, 64, None, stream) }.unwrap();
    fixture.free(memory);
}

#[test]
fn the_graph_has_the_structure_of_the_streams() {
    let fixture = Fixture::new();
    let (origin, fork) = (fixture.stream(), fixture.stream());
    fixture.begin(origin, CaptureMode::Global);
    let node = |stream| {
        assert_eq!(fixture.node(stream), 0);
        fixture.dependencies(stream)[0]
    };
    let first = node(origin);
    fixture.fork(origin, fork);
    let (left, right) = (node(origin), node(fork));
    let further = node(fork);
    fixture.fork(fork, origin);
    let end = node(origin);
    let graph = fixture.end_with_graph(origin).unwrap();
    let mut found: Vec<_> = edges(&fixture, live(graph)).iter().map(|edge| (edge.from, edge.to)).collect();
    let mut expected = vec![(first, left), (first, right), (right, further), (left, end), (further, end)];
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(nodes(&fixture, live(graph)).len(), 5);
    assert_eq!(fixture.driver.graph_root_nodes(&fixture.context.into(), live(graph)).unwrap(), [first]);
    unsafe { fixture.driver.graph_destroy(&fixture.context.into(), graph) }.unwrap();
}

#[test]
fn a_graph_that_exists_is_captured_into() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let (stream, fork) = (fixture.stream(), fixture.stream());
    let graph = live(driver.graph_create(&context.into()).unwrap());
    let (one, two) = (empty(&fixture, graph, &[]), empty(&fixture, graph, &[]));
    let begin = |below: &[Dependency], mode| {
        status(unsafe { driver.stream_begin_capture_to_graph(&context.into(), stream, graph, below, mode) })
    };
    assert_eq!(begin(&[one.into(), two.into()], CaptureMode::Global), 0);
    assert_eq!(begin(&[], CaptureMode::Global), 401);
    let info = fixture.info(stream, false).unwrap();
    assert_eq!((info.graph, info.dependencies), (Some(graph.handle()), vec![one, two]));
    assert_eq!(fixture.node(stream), 0);
    let added = fixture.dependencies(stream)[0];
    assert_eq!(fixture.end_with_graph(stream).unwrap(), graph.handle());
    let mut found: Vec<_> = edges(&fixture, graph).iter().map(|edge| (edge.from, edge.to)).collect();
    found.sort();
    let mut expected = vec![(one, added), (two, added)];
    expected.sort();
    assert_eq!(found, expected);
    unsafe { driver.graph_destroy(&context.into(), graph.handle()) }.unwrap();
    // When it fails the graph is destroyed.
    let begin_anew = |mode| {
        let graph = live(driver.graph_create(&context.into()).unwrap());
        status(unsafe { driver.stream_begin_capture_to_graph(&context.into(), stream, graph, &[], mode) })
    };
    assert_eq!(begin_anew(CaptureMode::Relaxed), 0);
    assert_eq!((fixture.node(stream), fixture.query(stream), fixture.end(stream)), (0, 900, 901));
    assert_eq!(begin_anew(CaptureMode::Relaxed), 0);
    fixture.fork(stream, fork);
    assert_eq!((fixture.node(fork), fixture.end(stream)), (0, 904));
    // A thread that may not end it.
    assert_eq!(begin_anew(CaptureMode::Global), 0);
    std::thread::scope(|scope| scope.spawn(|| assert_eq!(fixture.end(stream), 908)).join().unwrap());
    fixture.assert_usable(stream);
}

#[test]
fn a_graph_is_captured_into_below_nodes_of_its_own() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let stream = fixture.stream();
    let (graph, other) = (driver.graph_create(&context.into()).unwrap(), driver.graph_create(&context.into()).unwrap());
    let foreign = empty(&fixture, live(other), &[]);
    let begin = |stream| {
        let below = [foreign.into()];
        let mode = CaptureMode::Global;
        status(unsafe { driver.stream_begin_capture_to_graph(&context.into(), stream, live(graph), &below, mode) })
    };
    assert_eq!((begin(stream), fixture.capture_status(stream)), (1, 0));
    assert_eq!((begin(Live::LEGACY), begin(Live::<StreamHandle>::NULL)), (900, 900));
    for graph in [graph, other] {
        unsafe { driver.graph_destroy(&context.into(), graph) }.unwrap();
    }
    fixture.assert_usable(stream);
}

#[test]
fn edge_data_of_dependencies_become_edges() {
    let fixture = Fixture::new();
    let (driver, context) = (&fixture.driver, fixture.context);
    let (stream, fork) = (fixture.stream(), fixture.stream());
    let kernel = fixture.function(HostFunction::new("nothing", &[], |_, _| ()));
    let graph = live(driver.graph_create(&context.into()).unwrap());
    fixture.begin(stream, CaptureMode::Global);
    fixture.launch(stream, kernel, 1, 1, &[]).unwrap();
    let node = fixture.dependencies(stream)[0];
    let data = EdgeData { from_port: 1, to_port: 0, kind: EdgeKind::PROGRAMMATIC };
    assert_eq!(fixture.update_dependencies(stream, &[Dependency { node, data }], DependencyUpdate::Set), 0);
    // They go with an event; a full dependency covers them.
    fixture.fork(stream, fork);
    assert_eq!(fixture.info(fork, true).unwrap().edge_data, Some(vec![data]));
    fixture.launch(fork, kernel, 1, 1, &[]).unwrap();
    let found = edges(&fixture, live(fixture.info(stream, true).unwrap().graph.unwrap()));
    assert_eq!(found, [Edge { from: node, to: fixture.dependencies(fork)[0], data }]);
    assert_eq!(fixture.update_dependencies(stream, &[node.into()], DependencyUpdate::Add), 0);
    assert_eq!(fixture.info(stream, true).unwrap().edge_data, Some(vec![EdgeData::default()]));
    assert_eq!(fixture.update_dependencies(stream, &[Dependency { node, data }], DependencyUpdate::Add), 0);
    assert_eq!(fixture.info(stream, false).unwrap().dependencies, [node]);
    fixture.fork(fork, stream);
    assert_eq!(fixture.end(stream), 0);
    unsafe { driver.graph_destroy(&context.into(), graph.handle()) }.unwrap();
}

#[test]
fn nodes_that_are_added_by_hand() {
    let fixture = Fixture::new();
    let (origin, fork) = (fixture.stream(), fixture.stream());
    // In place of the stream's dependencies.
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, fork);
    assert_eq!(fixture.node(fork), 0);
    let graph = fixture.info(origin, false).unwrap().graph.unwrap();
    let tail = fixture.dependencies(fork)[0];
    let added = empty(&fixture, live(graph), &[tail.into()]);
    // The origin joins the fork by a node that the caller made.
    assert_eq!(fixture.update_dependencies(origin, &[added.into()], DependencyUpdate::Add), 0);
    assert_eq!(fixture.end(origin), 0);
    // An edge that the caller took away leaves nothing unjoined.
    fixture.begin(origin, CaptureMode::Global);
    fixture.fork(origin, fork);
    assert_eq!(fixture.node(fork), 0);
    let graph = fixture.info(origin, false).unwrap().graph.unwrap();
    let tail = fixture.dependencies(fork)[0];
    fixture.fork(fork, origin);
    assert_eq!(fixture.node(origin), 0);
    let edge = Edge { from: tail, to: fixture.dependencies(origin)[0], data: EdgeData::default() };
    unsafe { fixture.driver.graph_remove_edges(&fixture.context.into(), live(graph), &[edge]) }.unwrap();
    assert_eq!(fixture.end(origin), 0);
}
