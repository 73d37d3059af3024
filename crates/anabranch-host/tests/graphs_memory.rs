//! Memory that graphs allocate.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use support::graphs::{allocation, fill, kernel};
use support::{Fixture, live, status};

impl Fixture {
    fn add_allocation(
        &self,
        graph: Live<'_, GraphHandle>,
        before: &[GraphNodeHandle],
        bytes: usize,
    ) -> (GraphNodeHandle, DevicePointer) {
        let added = self.try_add(graph, before, allocation(bytes)).unwrap();
        (added.node, added.address.unwrap())
    }

    fn free_async(&self, address: DevicePointer, stream: Live<'_, StreamHandle>) -> i32 {
        status(unsafe { self.driver.free_async(&self.context.into(), address, stream) })
    }

    fn free_memory(&self) -> u64 {
        self.driver.memory_info(&self.context.into()).unwrap().free
    }
}

/// What memory is counted in.
const UNIT: u64 = 32 << 20;

#[test]
fn memory_left_allocated_is_freed_before_the_next_launch() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let graph = fixture.graph();
    let (node, address) = fixture.add_allocation(graph, &[], 1000);
    fixture.add(graph, &[node], fill(address, 7, 250));
    let executable = fixture.instantiate(graph);
    assert_eq!(status(fixture.try_instantiate(graph, InstantiateFlags::empty())), 801);
    assert_eq!(status(fixture.driver.graph_clone(&fixture.context.into(), graph)), 801);
    assert_eq!(fixture.free_async(address, stream), 1);
    for round in 0..3 {
        assert_eq!(status(fixture.launch_graph(executable, stream)), 0, "round {round}");
        assert_eq!(status(fixture.launch_graph(executable, stream)), 1, "round {round}");
        fixture.synchronize(stream).unwrap();
        assert_eq!(fixture.read(address, 250), [7; 250]);
        if round == 1 {
            fixture.free(address);
        } else {
            assert_eq!(fixture.free_async(address, stream), 0);
        }
        assert_eq!(fixture.free_async(address, stream), 1);
    }
    fixture.destroy_executable(executable);
    let again = fixture.instantiate(graph);
    fixture.run_graph(again, stream);
}

#[test]
fn auto_free_lets_a_graph_be_launched_again() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let graph = fixture.graph();
    let (_, address) = fixture.add_allocation(graph, &[], 64);
    let executable = fixture.try_instantiate(graph, InstantiateFlags::AUTO_FREE_ON_LAUNCH).unwrap();
    let flags = fixture.driver.executable_flags(&fixture.context.into(), live(executable));
    assert_eq!(flags, Ok(InstantiateFlags::AUTO_FREE_ON_LAUNCH));
    (0..3).for_each(|_| fixture.run_graph(live(executable), stream));
    assert_eq!(fixture.graph_memory(GraphMemoryAttribute::UsedCurrent), UNIT);
    fixture.free(address);
    assert_eq!(fixture.graph_memory(GraphMemoryAttribute::UsedCurrent), UNIT, "it is kept for the next launch");
    fixture.driver.graph_memory_trim(DeviceOrdinal(0)).unwrap();
    assert_eq!(fixture.graph_memory(GraphMemoryAttribute::UsedCurrent), 0);
}

#[test]
fn another_graph_can_free_what_a_graph_left() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let (graph, freeing) = (fixture.graph(), fixture.graph());
    let (_, address) = fixture.add_allocation(graph, &[], 64);
    fixture.add(freeing, &[], NodeParameters::Free(address));
    assert_eq!(status(fixture.try_add(freeing, &[], NodeParameters::Free(address))), 1);
    let (executable, frees) = (fixture.instantiate(graph), fixture.instantiate(freeing));
    assert_eq!(status(fixture.launch_graph(frees, stream)), 1);
    for _ in 0..3 {
        fixture.launch_graph(executable, stream).unwrap();
        fixture.launch_graph(frees, stream).unwrap();
    }
    fixture.synchronize(stream).unwrap();
}

#[test]
fn what_is_freed_is_used_again_where_the_order_allows_it() {
    let fixture = Fixture::new();
    let (stream, result) = (fixture.stream(), fixture.allocate(4));
    let add = fixture.function(HostFunction::new("add", &[8, 8], |_, arguments| {
        let (from, to) = (arguments.slice::<u32>(0), arguments.slice::<u32>(1));
        to.set(0, to.get(0) + from.get(0));
    }));
    let graph = fixture.graph();
    let cleared = fixture.add(graph, &[], fill(result, 0, 1));
    let (first, address) = fixture.add_allocation(graph, &[cleared], 4096);
    let filled = fixture.add(graph, &[first], fill(address, 3, 1024));
    let use_of = |address: DevicePointer| {
        let arguments = [address.0.to_ne_bytes(), result.0.to_ne_bytes()];
        kernel(add, &[&arguments[0], &arguments[1]], &[(0, address, 4), (1, result, 4)])
    };
    let used = fixture.add(graph, &[filled], use_of(address));
    let freed = fixture.add(graph, &[used], NodeParameters::Free(address));
    assert_eq!(status(fixture.try_add(graph, &[freed], NodeParameters::Free(address))), 1);
    let (_, apart) = fixture.add_allocation(graph, &[used], 4096);
    assert_ne!(apart, address, "not behind the free");
    let (larger, other) = fixture.add_allocation(graph, &[freed], 8192);
    assert_ne!(other, address, "too small");
    fixture.add(graph, &[larger], NodeParameters::Free(other));
    let (second, same) = fixture.add_allocation(graph, &[freed], 2048);
    assert_eq!(same, address);
    let (_, third) = fixture.add_allocation(graph, &[freed], 2048);
    assert_ne!(third, address, "taken");
    let filled = fixture.add(graph, &[second], fill(same, 4, 512));
    let used = fixture.add(graph, &[filled], use_of(same));
    fixture.add(graph, &[used], NodeParameters::Free(same));
    let executable = fixture.try_instantiate(graph, InstantiateFlags::AUTO_FREE_ON_LAUNCH).unwrap();
    for _ in 0..5 {
        fixture.run_graph(live(executable), stream);
        assert_eq!(fixture.read(result, 1), [7]);
    }
}

#[test]
fn memory_counts_from_its_first_launch_until_it_is_trimmed_or_gone() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let all = fixture.free_memory();
    let counts = || {
        use GraphMemoryAttribute::{ReservedCurrent, ReservedHigh, UsedCurrent, UsedHigh};
        [UsedCurrent, UsedHigh, ReservedCurrent, ReservedHigh].map(|attribute| fixture.graph_memory(attribute))
    };
    let graph = fixture.graph();
    let (node, address) = fixture.add_allocation(graph, &[], 1 << 20);
    let freed = fixture.add(graph, &[node], NodeParameters::Free(address));
    let (_, left) = fixture.add_allocation(graph, &[node], 1 << 19);
    assert_ne!(left, address);
    let executable = fixture.instantiate(graph);
    assert_eq!((counts(), all - fixture.free_memory()), ([0; 4], 0));
    fixture.run_graph(executable, stream);
    let (half, one_and_half) = (1 << 19, 3 << 19);
    assert_eq!(counts(), [UNIT; 4]);
    assert_eq!(all - fixture.free_memory(), one_and_half);
    fixture.driver.graph_memory_trim(DeviceOrdinal(0)).unwrap();
    assert_eq!((counts(), all - fixture.free_memory()), ([UNIT; 4], half));
    for attribute in [GraphMemoryAttribute::UsedHigh, GraphMemoryAttribute::ReservedHigh] {
        fixture.driver.graph_memory_reset(DeviceOrdinal(0), attribute).unwrap();
    }
    assert_eq!(counts(), [UNIT; 4]);
    assert_eq!(status(fixture.driver.graph_memory_reset(DeviceOrdinal(0), GraphMemoryAttribute::UsedCurrent)), 1);
    // A graph that allocates keeps its nodes and edges.
    assert_eq!(status(unsafe { fixture.driver.graph_destroy_node(&fixture.context.into(), freed) }), 801);
    let edge = Edge { from: node, to: freed, data: EdgeData::default() };
    assert_eq!(status(unsafe { fixture.driver.graph_remove_edges(&fixture.context.into(), graph, &[edge]) }), 801);
    fixture.destroy_executable(executable);
    fixture.destroy_graph(graph);
    fixture.fill(stream, left, 5, 4);
    fixture.synchronize(stream).unwrap();
    assert_eq!(fixture.read(left, 4), [5; 4], "it outlives its graph while it is allocated");
    assert_eq!(fixture.free_async(left, stream), 0);
    fixture.synchronize(stream).unwrap();
    assert_eq!((fixture.free_memory(), counts()[2]), (all, 0));
    assert_eq!(status(unsafe { fixture.driver.free(&fixture.context.into(), left) }), 1);
}

#[test]
fn a_launch_that_needs_too_much_memory_is_refused() {
    let fixture = Fixture::new();
    let (stream, graph) = (fixture.stream(), fixture.graph());
    assert_eq!(status(fixture.try_add(graph, &[], allocation(2 << 30))), 2);
    fixture.add_allocation(graph, &[], 900 << 20);
    let executable = fixture.instantiate(graph);
    let taken = fixture.allocate(200 << 20);
    assert_eq!(status(fixture.launch_graph(executable, stream)), 2);
    fixture.free(taken);
    fixture.run_graph(executable, stream);
}

#[test]
fn children_cannot_allocate() {
    let fixture = Fixture::new();
    let (graph, child) = (fixture.graph(), fixture.graph());
    fixture.add_allocation(child, &[], 64);
    assert_eq!(status(fixture.try_add(graph, &[], NodeParameters::Child(child.handle()))), 801);
    let node = fixture.add(graph, &[], NodeParameters::Child(fixture.graph().handle()));
    let parameters = fixture.driver.graph_node_parameters(&fixture.context.into(), live(node)).unwrap();
    let NodeParameters::Child(inside) = parameters else { panic!("a child graph is one") };
    assert_eq!(status(fixture.try_add(live(inside), &[], allocation(64))), 801);
}

#[test]
fn a_context_takes_what_its_graphs_left_with_it() {
    let fixture = Fixture::new();
    let all = fixture.free_memory();
    let context = live(fixture.driver.context_create(DeviceOrdinal(0), ContextFlags::empty()).unwrap());
    unsafe {
        let graph = live(fixture.driver.graph_create(&context.into()).unwrap());
        let added = fixture.driver.graph_add_node(&context.into(), graph, &[], &allocation(4096)).unwrap();
        let executable =
            fixture.driver.graph_instantiate(&context.into(), graph, InstantiateFlags::empty(), None).unwrap();
        fixture.driver.executable_launch(&context.into(), live(executable), Live::LEGACY).unwrap();
        assert_eq!(fixture.graph_memory(GraphMemoryAttribute::UsedCurrent), UNIT);
        fixture.driver.context_destroy(&context.into()).unwrap();
        let address = added.address.unwrap();
        assert_eq!(status(fixture.driver.free(&fixture.context.into(), address)), 1);
    }
    assert_eq!(fixture.graph_memory(GraphMemoryAttribute::UsedCurrent), 0);
    assert_eq!((fixture.graph_memory(GraphMemoryAttribute::ReservedCurrent), fixture.free_memory()), (0, all));
}
