//! Executable graphs, changed.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::graphs::{allocation, copy, fill, kernel};
use support::{Fixture, live, status};

impl Fixture {
    fn set(
        &self,
        executable: Live<'_, ExecutableGraphHandle>,
        node: GraphNodeHandle,
        parameters: &NodeParameters,
    ) -> i32 {
        status(unsafe {
            self.driver.executable_set_node_parameters(&self.context.into(), executable, live(node), parameters)
        })
    }

    fn update_executable(
        &self,
        executable: Live<'_, ExecutableGraphHandle>,
        graph: Live<'_, GraphHandle>,
    ) -> Result<()> {
        unsafe { self.driver.executable_update(&self.context.into(), executable, graph) }
    }

    fn enable(&self, executable: Live<'_, ExecutableGraphHandle>, node: GraphNodeHandle, enabled: bool) -> i32 {
        status(unsafe {
            self.driver.executable_set_node_enabled(&self.context.into(), executable, live(node), enabled)
        })
    }

    fn refused_update(
        &self,
        executable: Live<'_, ExecutableGraphHandle>,
        graph: Live<'_, GraphHandle>,
    ) -> (u32, Option<GraphNodeHandle>) {
        let failure = self.update_executable(executable, graph).unwrap_err();
        assert_eq!(failure.status, Status::GRAPH_EXEC_UPDATE_FAILURE);
        match failure.detail.as_deref() {
            Some(Detail::Update { result, node }) => (result.0, *node),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_change_takes_effect_at_the_next_launch_only() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(16));
    let graph = fixture.graph();
    let node = fixture.add(graph, &[], fill(memory, 1, 1));
    let to = |number: u64| copy((memory.0 + 4 * number, false), (memory.0, false), 4);
    let second = fixture.add(graph, &[node], to(1));
    let executable = fixture.instantiate(graph);
    let gate = fixture.gate(stream);
    fixture.launch_graph(executable, stream).unwrap();
    assert_eq!(fixture.set(executable, node, &fill(memory, 2, 1)), 0);
    assert_eq!(fixture.set(executable, second, &to(2)), 0);
    fixture.launch_graph(executable, stream).unwrap();
    assert_eq!(fixture.set(executable, node, &fill(memory, 3, 1)), 0);
    assert_eq!(fixture.set(executable, second, &to(3)), 0);
    fixture.launch_graph(executable, stream).unwrap();
    gate.open();
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(memory, 4), [3, 1, 2, 3]);
    assert_eq!(fixture.set(executable, node, &NodeParameters::Empty), 1);
    assert_eq!(fixture.set(executable, node, &fill(memory, 3, 99)), 1);
    let foreign = fixture.graph();
    let foreign = fixture.add(foreign, &[], fill(memory, 1, 1));
    assert_eq!(fixture.set(executable, foreign, &fill(memory, 1, 1)), 1);
}

#[test]
fn an_update_takes_over_all_nodes_of_a_graph_of_the_same_structure() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(8));
    let count = Arc::new(AtomicUsize::new(0));
    let build = |value: u32| {
        let (graph, child) = (fixture.graph(), fixture.graph());
        let first = fixture.add(graph, &[], fill(memory, value, 1));
        fixture.add(child, &[], fill(memory.byte_add(4), value + 1, 1));
        let called = fixture.add(graph, &[first], NodeParameters::Child(child.handle()));
        let counted = Arc::clone(&count);
        fixture.add_host(graph, &[called, first], move || {
            counted.fetch_add(value as usize, Ordering::SeqCst);
        });
        (graph, first)
    };
    let (graph, first) = build(10);
    let executable = fixture.instantiate(graph);
    fixture.run_graph(executable, stream);
    let (newer, _) = build(20);
    let gate = fixture.gate(stream);
    fixture.launch_graph(executable, stream).unwrap();
    fixture.update_executable(executable, newer).unwrap();
    fixture.destroy_graph(newer);
    gate.open();
    fixture.synchronize(stream).unwrap();
    assert_eq!((fixture.read(memory, 2), count.swap(0, Ordering::SeqCst)), (vec![10, 11], 20));
    fixture.run_graph(executable, stream);
    assert_eq!((fixture.read(memory, 2), count.swap(0, Ordering::SeqCst)), (vec![20, 21], 20));
    // Nodes are still those of the graph that it was made from.
    assert_eq!(fixture.set(executable, first, &fill(memory, 5, 1)), 0);
    fixture.run_graph(executable, stream);
    assert_eq!(fixture.read(memory, 2), [5, 21]);
}

#[test]
fn an_update_from_another_structure_is_refused_with_the_reason() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(8));
    let graph = fixture.graph();
    let first = fixture.add(graph, &[], fill(memory, 1, 1));
    fixture.add(graph, &[first], NodeParameters::Empty);
    let executable = fixture.instantiate(graph);
    fixture.update_executable(executable, graph).unwrap();
    let kinds = fixture.graph();
    let other = fixture.add(kinds, &[], NodeParameters::Empty);
    fixture.add(kinds, &[other], NodeParameters::Empty);
    assert_eq!(fixture.refused_update(executable, kinds), (3, Some(other)));
    let edges = fixture.graph();
    let first_sink = fixture.add(edges, &[], fill(memory, 2, 1));
    fixture.add(edges, &[], NodeParameters::Empty);
    assert_eq!(fixture.refused_update(executable, edges), (2, Some(first_sink)));
    let fewer = fixture.graph();
    assert_eq!(fixture.refused_update(executable, fewer), (2, None));
    fixture.run_graph(executable, stream);
    assert_eq!(fixture.read(memory, 1), [1], "nothing was changed");
    let (one, two) = (fixture.graph(), fixture.graph());
    fixture.add(one, &[], allocation(64));
    let node = fixture.add(two, &[], allocation(64));
    let allocates = fixture.instantiate(one);
    fixture.update_executable(allocates, one).unwrap();
    assert_eq!(fixture.refused_update(allocates, two), (1, Some(node)));
}

#[test]
fn nodes_of_children_can_be_changed_one_by_one_and_all_at_once() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(8));
    let build = |value: u32| {
        let child = fixture.graph();
        let first = fixture.add(child, &[], fill(memory, value, 1));
        fixture.add(child, &[first], fill(memory.byte_add(4), value + 1, 1));
        child
    };
    let graph = fixture.graph();
    let node = fixture.add(graph, &[], NodeParameters::Child(build(1).handle()));
    let NodeParameters::Child(inside) =
        fixture.driver.graph_node_parameters(&fixture.context.into(), live(node)).unwrap()
    else {
        panic!("a child graph is one")
    };
    let inner = fixture.driver.graph_nodes(&fixture.context.into(), live(inside)).unwrap()[0];
    let executable = fixture.instantiate(graph);
    assert_eq!(fixture.set(executable, inner, &fill(memory, 7, 1)), 0);
    fixture.run_graph(executable, stream);
    assert_eq!(fixture.read(memory, 2), [7, 2]);
    assert_eq!(fixture.set(executable, node, &NodeParameters::Child(build(30).handle())), 0);
    fixture.run_graph(executable, stream);
    assert_eq!(fixture.read(memory, 2), [30, 31]);
    assert_eq!(fixture.set(executable, node, &NodeParameters::Child(fixture.graph().handle())), 910);
}

#[test]
fn kernels_copies_and_fills_can_be_disabled() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(8));
    let increment = fixture.function(HostFunction::new("increment", &[8], |_, arguments| {
        let counter = arguments.slice::<u32>(0);
        counter.set(0, counter.get(0) + 1);
    }));
    let graph = fixture.graph();
    let filled = fixture.add(graph, &[], fill(memory, 5, 2));
    let raised = fixture.add(graph, &[filled], kernel(increment, &[&memory.0.to_ne_bytes()], &[(0, memory, 4)]));
    let copied = fixture.add(graph, &[raised], copy((memory.0 + 4, false), (memory.0, false), 4));
    let empty = fixture.add(graph, &[copied], NodeParameters::Empty);
    let executable = fixture.instantiate(graph);
    let is_enabled = |node| fixture.driver.executable_node_enabled(&fixture.context.into(), executable, node);
    fixture.run_graph(executable, stream);
    assert_eq!(fixture.read(memory, 2), [6, 6]);
    assert_eq!((fixture.enable(executable, raised, false), fixture.enable(executable, copied, false)), (0, 0));
    assert_eq!((is_enabled(live(raised)), is_enabled(live(filled))), (Ok(false), Ok(true)));
    let gate = fixture.gate(stream);
    fixture.launch_graph(executable, stream).unwrap();
    assert_eq!(fixture.enable(executable, raised, true), 0);
    gate.open();
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(memory, 2), [5, 5]);
    fixture.update_executable(executable, graph).unwrap();
    fixture.run_graph(executable, stream);
    assert_eq!(fixture.read(memory, 2), [6, 5], "an update leaves it");
    assert_eq!((fixture.enable(executable, empty, false), status(is_enabled(live(empty)))), (1, 1));
}

#[test]
fn an_upload_is_no_launch() {
    let fixture = Fixture::new();
    let (stream, graph, count) = (fixture.stream(), fixture.graph(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    fixture.add_host(graph, &[], move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let flags = InstantiateFlags::UPLOAD;
    let executable = fixture.driver.graph_instantiate(&fixture.context.into(), graph, flags, Some(stream)).unwrap();
    fixture.driver.executable_upload(&fixture.context.into(), live(executable), stream).unwrap();
    fixture.synchronize(stream).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 0);
    fixture.run_graph(live(executable), stream);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn every_launch_runs_what_was_set_before_it() {
    let fixture = Fixture::new();
    let streams = [fixture.stream(), fixture.stream()];
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let push = |number: usize| {
        let log = Arc::clone(&log);
        NodeParameters::Host(fixture.keep_work(move || log.lock().unwrap().push(number)))
    };
    let graph = fixture.graph();
    let first = fixture.add(graph, &[], push(0));
    fixture.add(graph, &[first], NodeParameters::Empty);
    let executable = fixture.instantiate(graph);
    for number in 0..2_000 {
        assert_eq!(fixture.set(executable, first, &push(number)), 0);
        fixture.launch_graph(executable, streams[number % 2]).unwrap();
    }
    fixture.synchronize_all().unwrap();
    assert!(log.lock().unwrap().iter().copied().eq(0..2_000));
    fixture.destroy_executable(executable);
    fixture.destroy_graph(graph);
}

#[test]
fn the_device_of_the_memory_that_a_node_uses_cannot_change() {
    let fixture = Fixture::new();
    let near = fixture.allocate(16);
    let peer = live(fixture.driver.primary_context_retain(DeviceOrdinal(1)).unwrap());
    let far = fixture.driver.allocate(&peer.into(), 16).unwrap();
    let write = |address| {
        let value = Value::U32(1);
        NodeParameters::ValueOperations(vec![ValueOperation::Write { address, value, flags: WriteValueFlags::empty() }])
    };
    let works: [&dyn Fn(DevicePointer) -> NodeParameters; 4] = [
        &|address| fill(address, 1, 1),
        &|address| copy((address.0, false), (near.0 + 8, false), 4),
        &|address| copy((near.0 + 8, false), (address.0, false), 4),
        &write,
    ];
    for work in works {
        let (graph, newer) = (fixture.graph(), fixture.graph());
        let node = fixture.add(graph, &[], work(near));
        let executable = fixture.instantiate(graph);
        assert_eq!(fixture.set(executable, node, &work(far)), 1);
        assert_eq!(fixture.set(executable, node, &work(near.byte_add(4))), 0);
        let changed = fixture.add(newer, &[], work(far));
        let refused = (GraphUpdateResult::PARAMETERS_CHANGED.0, Some(changed));
        assert_eq!(fixture.refused_update(executable, newer), refused);
        // A graph may use memory of any device.
        fixture.instantiate(newer);
    }
}
