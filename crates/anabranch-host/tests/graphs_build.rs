//! Graphs: nodes and edges added, looked at, refused, removed.

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

fn edge(from: GraphNodeHandle, to: GraphNodeHandle) -> Edge {
    Edge { from, to, data: EdgeData::default() }
}

impl Fixture {
    fn add_edges(&self, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> i32 {
        status(unsafe { self.driver.graph_add_edges(&self.context.into(), graph, edges) })
    }

    fn remove_edges(&self, graph: Live<'_, GraphHandle>, edges: &[Edge]) -> i32 {
        status(unsafe { self.driver.graph_remove_edges(&self.context.into(), graph, edges) })
    }

    fn edges(&self, graph: Live<'_, GraphHandle>) -> Vec<Edge> {
        let mut edges = self.driver.graph_edges(&self.context.into(), graph).unwrap();
        edges.sort_by_key(|edge| (edge.from, edge.to));
        edges
    }

    fn refuse(&self, graph: Live<'_, GraphHandle>, parameters: NodeParameters) -> i32 {
        status(self.try_add(graph, &[], parameters))
    }
}

#[test]
fn edges_are_added_and_removed_up_to_a_bad_one() {
    let fixture = Fixture::new();
    let (graph, other) = (fixture.graph(), fixture.graph());
    let [a, b, c] = [(); 3].map(|()| fixture.add(graph, &[], NodeParameters::Empty));
    let foreign = fixture.add(other, &[], NodeParameters::Empty);
    assert_eq!(fixture.add_edges(graph, &[edge(a, b), edge(b, c)]), 0);
    let mut both = vec![edge(a, b), edge(b, c)];
    both.sort_by_key(|edge| (edge.from, edge.to));
    assert_eq!(fixture.edges(graph), both);
    assert_eq!(fixture.add_edges(graph, &[edge(a, c), edge(a, b)]), 1);
    assert_eq!(fixture.remove_edges(graph, &[edge(a, c)]), 0, "it was added");
    assert_eq!(fixture.edges(graph), both, "nothing else was added");
    for bad in [edge(a, a), edge(a, foreign), edge(foreign, a), edge(GraphNodeHandle::from_raw(0), a)] {
        assert_eq!(fixture.add_edges(graph, &[edge(a, c), bad]), 1, "{bad:?}");
        assert_eq!(fixture.remove_edges(graph, &[edge(a, b), bad]), 1, "{bad:?}");
        assert_eq!(fixture.edges(graph), both, "nothing was added or removed");
    }
    assert_eq!(fixture.remove_edges(graph, &[edge(a, b), edge(a, c)]), 1);
    assert_eq!(fixture.edges(graph), [edge(b, c)]);
    let roots = fixture.driver.graph_root_nodes(&fixture.context.into(), graph).unwrap();
    assert_eq!(roots, [a, b]);
    unsafe { fixture.driver.graph_destroy_node(&fixture.context.into(), b) }.unwrap();
    assert_eq!(fixture.edges(graph), []);
    assert_eq!(fixture.driver.graph_nodes(&fixture.context.into(), graph).unwrap(), [a, c]);
    let twice = [a, a];
    assert_eq!(status(fixture.try_add(graph, &twice, NodeParameters::Empty)), 1);
    assert_eq!(status(fixture.try_add(graph, &[foreign], NodeParameters::Empty)), 1);
}

#[test]
fn only_kernels_have_ports_and_programmatic_edges() {
    let fixture = Fixture::new();
    let function = fixture.function(HostFunction::new("nothing", &[], |_, _| {}));
    let graph = fixture.graph();
    let [one, two] = [(); 2].map(|()| fixture.add(graph, &[], kernel(function, &[], &[])));
    let empty = fixture.add(graph, &[], NodeParameters::Empty);
    let with = |from, to, from_port, to_port, kind| {
        let edge = Edge { from, to, data: EdgeData { from_port, to_port, kind: EdgeKind(kind) } };
        let added = fixture.add_edges(graph, &[edge]);
        if added == 0 {
            assert_eq!(fixture.edges(graph), [edge]);
            assert_eq!(fixture.remove_edges(graph, &[edge]), 0);
        }
        added
    };
    assert_eq!([with(one, two, 1, 0, 1), with(one, two, 2, 0, 1), with(one, empty, 0, 0, 0)], [0; 3]);
    assert_eq!([with(one, two, 3, 0, 1), with(one, two, 0, 1, 0), with(one, two, 0, 0, 2)], [1; 3]);
    assert_eq!([with(one, empty, 1, 0, 1), with(empty, one, 1, 0, 1), with(empty, one, 1, 0, 0)], [1; 3]);
}

#[test]
fn cycles_are_refused_when_the_graph_is_instantiated() {
    let fixture = Fixture::new();
    let graph = fixture.graph();
    let a = fixture.add(graph, &[], NodeParameters::Empty);
    let b = fixture.add(graph, &[a], NodeParameters::Empty);
    let c = fixture.add(graph, &[b], NodeParameters::Empty);
    assert_eq!(fixture.add_edges(graph, &[edge(c, b)]), 0);
    let failure = fixture.try_instantiate(graph, InstantiateFlags::empty()).unwrap_err();
    assert_eq!(failure.status, Status::INVALID_VALUE);
    let Some(Detail::Instantiate { result, node }) = failure.detail.as_deref() else { panic!("{failure}") };
    assert_eq!((*result, *node), (GraphInstantiateResult::INVALID_STRUCTURE, Some(c)));
}

#[test]
fn bad_parameters_are_refused_with_the_codes_of_hardware() {
    let fixture = Fixture::new();
    let (graph, memory) = (fixture.graph(), fixture.allocate(64));
    let function = fixture.function(HostFunction::new("one", &[4], |_, _| {}));
    let node = |change: &dyn Fn(&mut KernelNode)| {
        let NodeParameters::Kernel(mut node) = kernel(function, &[&[0; 4]], &[]) else { unreachable!() };
        change(&mut node);
        NodeParameters::Kernel(node)
    };
    assert_eq!(fixture.refuse(graph, node(&|_| {})), 0);
    assert_eq!(fixture.refuse(graph, node(&|node| node.grid[1] = 0)), 1);
    assert_eq!(fixture.refuse(graph, node(&|node| node.block[0] = 2048)), 1);
    assert_eq!(fixture.refuse(graph, node(&|node| node.dynamic_shared_bytes = 1 << 20)), 1);
    assert_eq!(fixture.refuse(graph, node(&|node| node.arguments.clear())), 1);
    assert_eq!(fixture.refuse(graph, node(&|node| node.arguments[0].push(0))), 1);
    assert_eq!(fixture.refuse(graph, node(&|node| node.function = FunctionHandle::from_raw(0))), 400);
    let mut host = [0u32; 32];
    let outside = host.as_mut_ptr() as u64;
    assert_eq!(fixture.refuse(graph, copy((memory.0, false), (outside, true), 64)), 0);
    assert_eq!(fixture.refuse(graph, copy((memory.0, false), (outside, true), 65)), 1);
    assert_eq!(fixture.refuse(graph, copy((outside, false), (memory.0, false), 4)), 1);
    assert_eq!(fixture.refuse(graph, copy((0, true), (memory.0, false), 4)), 1);
    assert_eq!(fixture.refuse(graph, fill(memory, 1, 16)), 0);
    assert_eq!(fixture.refuse(graph, fill(memory, 1, 17)), 1);
    assert_eq!(fixture.refuse(graph, fill(memory.byte_add(2), 1, 4)), 1);
    assert_eq!(fixture.refuse(graph, fill(memory, 1, 0)), 1);
    let rows = |pitch, pattern| NodeParameters::Fill(FillNode { address: memory, pitch, pattern, width: 4, height: 4 });
    assert_eq!(fixture.refuse(graph, rows(16, FillPattern::U32(1))), 0);
    assert_eq!(fixture.refuse(graph, rows(12, FillPattern::U32(1))), 1);
    assert_eq!(fixture.refuse(graph, rows(20, FillPattern::U32(1))), 1);
    assert_eq!(fixture.refuse(graph, rows(16, FillPattern::U64(1))), 1);
    for parameters in [NodeParameters::EventWait, NodeParameters::EventRecord] {
        assert_eq!(fixture.refuse(graph, parameters(EventHandle::from_raw(0))), 1);
    }
    assert_eq!(fixture.refuse(graph, allocation(0)), 1);
    assert_eq!(fixture.refuse(graph, NodeParameters::Free(memory)), 1);
    assert_eq!(fixture.refuse(graph, NodeParameters::Child(GraphHandle::from_raw(0))), 1);
    let wait = |flags| ValueOperation::Wait { address: memory.byte_add(2), value: Value::U32(1), flags };
    assert_eq!(fixture.refuse(graph, NodeParameters::ValueOperations(vec![wait(WaitValueFlags::EQUAL)])), 1);
    assert_eq!(status(fixture.try_instantiate(graph, InstantiateFlags::from_bits_retain(0x100))), 1);
    let launched_twice = InstantiateFlags::DEVICE_LAUNCH | InstantiateFlags::AUTO_FREE_ON_LAUNCH;
    assert_eq!(status(fixture.try_instantiate(graph, launched_twice)), 1);
}

#[test]
fn parameters_are_read_back_and_replaced_by_those_of_the_same_kind() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(64));
    let graph = fixture.graph();
    let node = fixture.add(graph, &[], fill(memory, 1, 16));
    let parameters = || fixture.driver.graph_node_parameters(&fixture.context.into(), live(node)).unwrap();
    let set = |parameters| unsafe {
        fixture.driver.graph_node_set_parameters(&fixture.context.into(), live(node), &parameters)
    };
    let kind = fixture.driver.graph_node_kind(&fixture.context.into(), live(node));
    assert_eq!(kind, Ok(GraphNodeKind::FILL));
    let earlier = fixture.instantiate(graph);
    assert_eq!(status(set(NodeParameters::Empty)), 1);
    assert_eq!(status(set(fill(memory, 2, 99))), 1);
    assert!(matches!(parameters(), NodeParameters::Fill(fill) if fill.pattern == FillPattern::U32(1)));
    set(fill(memory, 2, 16)).unwrap();
    assert!(matches!(parameters(), NodeParameters::Fill(fill) if fill.pattern == FillPattern::U32(2)));
    fixture.run_graph(fixture.instantiate(graph), stream);
    assert_eq!(fixture.read(memory, 1), [2]);
    fixture.run_graph(earlier, stream);
    assert_eq!(fixture.read(memory, 1), [1], "made ready before");
}

#[test]
fn a_clone_has_the_nodes_of_its_original_and_goes_its_own_way() {
    let fixture = Fixture::new();
    let (stream, count) = (fixture.stream(), Arc::new(AtomicUsize::new(0)));
    let counter = |by| {
        let count = Arc::clone(&count);
        move || {
            count.fetch_add(by, Ordering::SeqCst);
        }
    };
    let graph = fixture.graph();
    let first = fixture.add_host(graph, &[], counter(1));
    let second = fixture.add_host(graph, &[first], counter(10));
    let clone = live(fixture.driver.graph_clone(&fixture.context.into(), graph).unwrap());
    let find = |node, graph| fixture.driver.graph_find_in_clone(&fixture.context.into(), node, graph);
    let (cloned, later) = (find(live(second), clone).unwrap(), fixture.add_host(graph, &[], counter(100)));
    assert_ne!(cloned, second);
    fixture.add_host(clone, &[cloned], counter(1000));
    assert_eq!(status(find(live(later), clone)), 1);
    assert_eq!(status(find(live(second), graph)), 1);
    unsafe { fixture.driver.graph_destroy_node(&fixture.context.into(), find(live(first), clone).unwrap()) }.unwrap();
    assert_eq!(status(find(live(first), clone)), 1);
    fixture.run_graph(fixture.instantiate(clone), stream);
    assert_eq!(count.swap(0, Ordering::SeqCst), 1010);
    fixture.destroy_graph(clone);
    fixture.run_graph(fixture.instantiate(graph), stream);
    assert_eq!(count.load(Ordering::SeqCst), 111);
}

#[test]
fn a_value_operation_outside_of_memory_loses_the_context_when_it_runs() {
    for wait in [false, true] {
        let fixture = Fixture::new();
        let (stream, graph) = (fixture.stream(), fixture.graph());
        let (address, value) = (DevicePointer(0x1234_5678_0000), Value::U32(1));
        fixture.add(
            graph,
            &[],
            NodeParameters::ValueOperations(vec![if wait {
                ValueOperation::Wait { address, value, flags: WaitValueFlags::EQUAL }
            } else {
                ValueOperation::Write { address, value, flags: WriteValueFlags::empty() }
            }]),
        );
        let executable = fixture.instantiate(graph);
        fixture.launch_graph(executable, stream).unwrap();
        assert_eq!(status(fixture.synchronize(stream)), 700);
    }
}

#[test]
fn graphs_cannot_be_used_inside_of_host_work() {
    let fixture = Arc::new(Fixture::new());
    let (stream, graph) = (fixture.stream(), fixture.graph());
    let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (inside, told) = (Arc::clone(&fixture), Arc::clone(&answers));
    fixture.add_host(graph, &[], move || {
        let mut told = told.lock().unwrap();
        told.push(status(inside.driver.graph_create(&inside.context.into())));
        told.push(inside.query(stream));
    });
    let executable = fixture.instantiate(graph);
    fixture.run_graph(executable, stream);
    assert_eq!(*answers.lock().unwrap(), [800, 800]);
    fixture.destroy_executable(executable);
    fixture.destroy_graph(graph);
}
