//! What a graph is refused once it was asked for memory or a conditional node, and which executable graph counts as its
//! only one.

use super::graph_raw::RawGraph;
use super::memory_raw::{GARBAGE, HUGE, Raw};
use crate::case::{Case, Failed, Need, Verdict, equal, refused};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::DeviceOrdinal;
use anabranch::{
    AllocationNode, Capabilities, CaptureMode, ConditionalHandle, ConditionalKind, ConditionalNode, DevicePointer,
    EdgeData, GraphInstantiateResult, GraphUpdateResult, InstantiateFlags, NodeParameters, Status,
};

const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];

pub(super) const CASES: &[Case] = &[
    Case::new("graph.restricted_by_a_refused_free", "G6", by_a_refused_free),
    Case::new("graph.restricted_by_a_refused_free_that_was_captured", "G6", by_a_refused_free_that_was_captured)
        .needs(POOLS),
    Case::new("graph.restricted_by_a_refused_allocation", "G6", by_a_refused_allocation).needs(POOLS),
    Case::new("graph.restricted_by_no_allocation_on_a_missing_device", "G6", by_no_missing_device).needs(POOLS),
    Case::new("graph.restricted_by_a_refused_conditional", "G6", by_a_refused_conditional),
    Case::new("graph.restricted_by_a_conditional_without_a_value", "G6", by_a_conditional_without_a_value),
    Case::new("graph.restricted_by_a_value_for_another_graph", "G6", by_a_value_for_another_graph),
    Case::new("graph.conditional_of_a_body_by_a_value_of_the_graph", "G1", of_a_body_by_a_value_of_the_graph),
    Case::new("graph.restricted_by_a_removed_conditional", "G6", by_a_removed_conditional),
    Case::new("graph.restricted_whatever_else_is_wrong", "G6", whatever_else_is_wrong),
    Case::new("graph.restricted_by_memory_below_a_node_twice", "G6", by_memory_below_a_node_twice).needs(POOLS),
    Case::new("graph.restricted_by_no_memory_below_another_graphs_node", "G6", by_no_memory_below_a_foreign_node)
        .needs(POOLS),
    Case::new("graph.restricted_by_no_free_with_bad_edge_data", "G6", by_no_free_with_bad_edge_data),
    Case::new("graph.restricted_by_a_value_alone", "G6", by_a_value_alone),
    Case::new("graph.instantiated_beside_a_clone", "G6", instantiated_beside_a_clone),
    Case::new("graph.instantiated_beside_a_child", "G6", instantiated_beside_a_child),
    Case::new("graph.instantiated_before_it_allocated", "G6", instantiated_before_it_allocated).needs(POOLS),
    Case::new("graph.instantiated_before_it_had_a_condition", "G6", instantiated_before_it_had_a_condition),
    Case::new("graph.instantiated_twice_with_a_bad_body", "G6", instantiated_twice_with_a_bad_body),
    Case::new("graph.instantiated_twice_with_a_cycle", "G6", instantiated_twice_with_a_cycle).needs(POOLS),
    Case::new("graph.memory_is_left_by_an_instantiation_with_a_cycle", "G6", left_by_an_instantiation_with_a_cycle)
        .needs(POOLS),
    Case::new("graph.update_from_a_graph_with_an_executable", "G6", update_from_a_graph_with_an_executable)
        .needs(POOLS),
    Case::new("graph.update_after_the_executable_is_gone", "G6", update_after_the_executable_is_gone).needs(POOLS),
];

fn allocation(environment: &Environment, bytes: usize) -> NodeParameters {
    NodeParameters::Allocate(AllocationNode {
        device: environment.device().ordinal(),
        bytes,
        access: Vec::new(),
        address: DevicePointer::NULL,
    })
}

fn conditional(handle: ConditionalHandle, kind: ConditionalKind, body_count: u32) -> NodeParameters {
    NodeParameters::Conditional(ConditionalNode { handle, kind, body_count, bodies: Vec::new() })
}

/// What a graph of two nodes with an edge between them is refused, and whether the edge and the first node can be removed.
fn restrictions(graph: &RawGraph<'_>) -> Result<Vec<(&'static str, Status)>, Failed> {
    let edge = (0, 1, EdgeData::default());
    let first = graph.instantiate(InstantiateFlags::empty(), None);
    let second = graph.try_instantiate();
    let found = vec![
        ("instantiated", first.as_ref().map_or_else(|(status, ..)| *status, |_| Status::SUCCESS)),
        ("instantiated again", second),
        ("cloned", graph.try_clone()),
        ("a child", graph.become_child()?),
        ("an edge removed", graph.disconnect(&[edge])?),
        ("a node removed", graph.remove(0)?),
    ];
    drop(first);
    Ok(found)
}

fn restricted(removal: Status) -> Vec<(&'static str, Status)> {
    vec![
        ("instantiated", Status::SUCCESS),
        ("instantiated again", Status::NOT_SUPPORTED),
        ("cloned", Status::NOT_SUPPORTED),
        ("a child", Status::NOT_SUPPORTED),
        ("an edge removed", removal),
        ("a node removed", removal),
    ]
}

fn unrestricted() -> Vec<(&'static str, Status)> {
    restricted(Status::SUCCESS).into_iter().map(|(what, _)| (what, Status::SUCCESS)).collect()
}

/// Checks that a node is refused, and what it leaves the graph to be refused.
fn refuses(environment: &Environment, what: &str, parameters: &NodeParameters, status: Status) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    graph.refuses(what, &[], parameters, status)?;
    equal(what, restrictions(&graph)?, restricted(Status::NOT_SUPPORTED))
}

fn by_a_refused_free(environment: &Environment) -> Verdict {
    let plain = environment.context().allocate_zeroed::<u32>(&environment.stream()?, 4)?;
    for (what, address) in [("nothing", DevicePointer::NULL), ("garbage", GARBAGE), ("plain", plain.device_pointer())] {
        refuses(environment, what, &NodeParameters::Free(address), Status::INVALID_VALUE)?;
    }
    equal("a graph that was asked for nothing", restrictions(&RawGraph::row(environment, 2)?)?, unrestricted())
}

fn by_a_refused_free_that_was_captured(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let memory = environment.stream()?.allocate_zeroed::<u32>(4)?;
    environment.context().synchronize()?;
    let mut status = Status::SUCCESS;
    let graph = raw.stream().capture(CaptureMode::Relaxed, |_| {
        // SAFETY: the driver refuses the call.
        status = unsafe { raw.free_async(memory.device_pointer()) };
        Ok(())
    })?;
    equal("the free", status, Status::INVALID_VALUE)?;
    refused("a clone", graph.try_clone(), Status::NOT_SUPPORTED)?;
    let _first = graph.instantiate()?;
    refused("a second executable graph", graph.instantiate(), Status::NOT_SUPPORTED)
}

fn by_a_refused_allocation(environment: &Environment) -> Verdict {
    refuses(environment, "too much", &allocation(environment, HUGE), Status::OUT_OF_MEMORY)?;
    let graph = RawGraph::row(environment, 2)?;
    graph.refuses("nothing", &[], &allocation(environment, 0), Status::INVALID_VALUE)?;
    equal("a graph that was asked for no bytes", restrictions(&graph)?, unrestricted())
}

fn by_no_missing_device(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let missing =
        AllocationNode { device: DeviceOrdinal(99), bytes: 4096, access: Vec::new(), address: DevicePointer::NULL };
    graph.refuses("a missing device", &[], &NodeParameters::Allocate(missing), Status::INVALID_VALUE)?;
    equal("a graph with no such node", restrictions(&graph)?, unrestricted())
}

fn by_a_refused_conditional(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let value = graph.value()?;
    graph.refuses("three bodies", &[], &conditional(value, ConditionalKind::While, 3), Status::INVALID_VALUE)?;
    equal("a clone", graph.try_clone(), Status::NOT_SUPPORTED)?;
    equal("a child", graph.become_child()?, Status::NOT_SUPPORTED)?;
    equal("an edge removed", graph.disconnect(&[(0, 1, EdgeData::default())])?, Status::SUCCESS)
}

fn by_a_conditional_without_a_value(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let node = conditional(ConditionalHandle(0), ConditionalKind::If, 1);
    graph.refuses("no value", &[], &node, Status::INVALID_VALUE)?;
    equal("the graph", restrictions(&graph)?, unrestricted())
}

fn by_a_value_for_another_graph(environment: &Environment) -> Verdict {
    let (graph, other) = (RawGraph::row(environment, 2)?, RawGraph::row(environment, 2)?);
    let node = conditional(graph.value()?, ConditionalKind::If, 1);
    other.refuses("a value of another graph", &[], &node, Status::INVALID_VALUE)?;
    equal("the graph that was asked", restrictions(&other)?, unrestricted())?;
    equal("the graph of the value", graph.try_clone(), Status::NOT_SUPPORTED)
}

fn of_a_body_by_a_value_of_the_graph(environment: &Environment) -> Verdict {
    let graph = RawGraph::new(environment)?;
    graph.must_add(&[], conditional(graph.value()?, ConditionalKind::If, 1))?;
    let body = graph.body(0, 0)?;
    body.must_add(&[], conditional(graph.value()?, ConditionalKind::If, 1))?;
    graph.must_add(&[], conditional(body.value()?, ConditionalKind::If, 1))?;
    equal("instantiating", graph.try_instantiate(), Status::SUCCESS)
}

fn by_a_removed_conditional(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let value = graph.value()?;
    graph.must_add(&[], conditional(value, ConditionalKind::If, 1))?;
    equal("removing it", graph.remove(2)?, Status::SUCCESS)?;
    equal("nodes and edges", graph.counts()?, (2, 1))?;
    // No node asks for its value any more.
    let refusal = graph.instantiate(InstantiateFlags::empty(), None).map(|_| ());
    let found = refusal.map_err(|(status, result, _)| (status, result));
    let unused = Some(GraphInstantiateResult::CONDITIONAL_HANDLE_UNUSED);
    equal("instantiating", found, Err((Status::INVALID_VALUE, unused)))?;
    equal("cloned", graph.try_clone(), Status::NOT_SUPPORTED)?;
    equal("a child", graph.become_child()?, Status::NOT_SUPPORTED)
}

/// A node is refused because of a dependency, and restricts the graph all the same.
fn whatever_else_is_wrong(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let twice = [(0, EdgeData::default()); 2];
    graph.refuses("a dependency named twice", &twice, &NodeParameters::Free(GARBAGE), Status::INVALID_VALUE)?;
    equal("the graph", restrictions(&graph)?, restricted(Status::NOT_SUPPORTED))
}

fn by_memory_below_a_node_twice(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let twice = [(0, EdgeData::default()); 2];
    graph.refuses("a dependency named twice", &twice, &allocation(environment, 4096), Status::INVALID_VALUE)?;
    equal("the graph", restrictions(&graph)?, restricted(Status::NOT_SUPPORTED))
}

fn by_no_memory_below_a_foreign_node(environment: &Environment) -> Verdict {
    let other = RawGraph::row(environment, 1)?;
    for parameters in [allocation(environment, 4096), NodeParameters::Free(GARBAGE)] {
        let graph = RawGraph::row(environment, 2)?;
        equal("adding", graph.add_below(other.node(0)?, &parameters), Status::INVALID_VALUE)?;
        equal("the graph", restrictions(&graph)?, unrestricted())?;
    }
    Ok(())
}

fn by_no_free_with_bad_edge_data(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let bad = EdgeData { from_port: 1, ..EdgeData::default() };
    graph.refuses("bad data", &[(1, bad)], &NodeParameters::Free(GARBAGE), Status::INVALID_VALUE)?;
    equal("the graph", restrictions(&graph)?, unrestricted())
}

fn by_a_value_alone(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    graph.value()?;
    equal("a clone", graph.try_clone(), Status::NOT_SUPPORTED)?;
    equal("a child", graph.become_child()?, Status::NOT_SUPPORTED)?;
    equal("an edge removed", graph.disconnect(&[(0, 1, EdgeData::default())])?, Status::SUCCESS)
}

fn instantiated_beside_a_clone(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let clone = graph.must_clone()?;
    graph.must_add(&[], conditional(graph.value()?, ConditionalKind::If, 1))?;
    equal("while the clone is there", graph.try_instantiate(), Status::NOT_SUPPORTED)?;
    drop(clone);
    equal("alone", graph.try_instantiate(), Status::SUCCESS)
}

fn instantiated_beside_a_child(environment: &Environment) -> Verdict {
    let (graph, parent) = (RawGraph::row(environment, 2)?, RawGraph::new(environment)?);
    parent.must_add(&[], NodeParameters::Child(graph.handle()))?;
    graph.must_add(&[], conditional(graph.value()?, ConditionalKind::If, 1))?;
    equal("while a node has a clone", graph.try_instantiate(), Status::NOT_SUPPORTED)?;
    drop(parent);
    equal("alone", graph.try_instantiate(), Status::SUCCESS)
}

fn instantiated_before_it_allocated(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let _before = graph.must_instantiate()?;
    graph.must_add(&[], allocation(environment, 4096))?;
    let _first = graph.must_instantiate()?;
    equal("a second one with the allocation", graph.try_instantiate(), Status::NOT_SUPPORTED)
}

fn instantiated_before_it_had_a_condition(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    let before = graph.must_instantiate()?;
    let value = graph.value()?;
    graph.must_add(&[], conditional(value, ConditionalKind::If, 1))?;
    equal("beside one without the condition", graph.try_instantiate(), Status::NOT_SUPPORTED)?;
    drop(before);
    equal("alone", graph.try_instantiate(), Status::SUCCESS)
}

/// What is wrong with the structure is told first.
fn instantiated_twice_with_a_bad_body(environment: &Environment) -> Verdict {
    let event = environment.context().create_event()?;
    let graph = RawGraph::new(environment)?;
    let value = graph.value()?;
    graph.must_add(&[], conditional(value, ConditionalKind::If, 1))?;
    let _first = graph.must_instantiate()?;
    let body = graph.body(0, 0)?;
    let node = body.must_add(&[], NodeParameters::EventRecord(event.live().handle()))?.node;
    let refusal = graph.instantiate(InstantiateFlags::empty(), None).map(|_| ());
    let reason = GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED;
    equal("a second one", refusal, Err((Status::INVALID_VALUE, Some(reason), Some(node))))
}

fn instantiated_twice_with_a_cycle(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 2)?;
    graph.must_add(&[], allocation(environment, 4096))?;
    let _first = graph.must_instantiate()?;
    equal("turning it into a cycle", graph.connect(&[(1, 0, EdgeData::default())])?, Status::SUCCESS)?;
    equal("a second one", graph.try_instantiate(), Status::NOT_SUPPORTED)
}

/// The cycle is found after it was noted that an executable graph leaves the memory allocated, so that no node can free it.
fn left_by_an_instantiation_with_a_cycle(environment: &Environment) -> Verdict {
    for instantiated in [false, true] {
        let graph = RawGraph::row(environment, 2)?;
        let address = graph.must_add(&[], allocation(environment, 512))?.address;
        let free = NodeParameters::Free(address.unwrap_or(DevicePointer::NULL));
        equal("turning it into a cycle", graph.connect(&[(1, 0, EdgeData::default())])?, Status::SUCCESS)?;
        if instantiated {
            equal("instantiating", graph.try_instantiate(), Status::INVALID_VALUE)?;
            graph.refuses("a free", &[(2, EdgeData::default())], &free, Status::INVALID_VALUE)?;
        } else {
            graph.must_add(&[2], free)?;
        }
    }
    Ok(())
}

fn update_from_a_graph_with_an_executable(environment: &Environment) -> Verdict {
    let (plain, other) = (RawGraph::row(environment, 2)?, RawGraph::row(environment, 2)?);
    other.refuses("a free of nothing", &[], &NodeParameters::Free(DevicePointer::NULL), Status::INVALID_VALUE)?;
    let executable = plain.must_instantiate()?;
    let theirs = other.must_instantiate()?;
    equal("an update by its own graph", theirs.update(&other).0, Status::SUCCESS)?;
    equal("an update of another one", executable.update(&other), (Status::NOT_SUPPORTED, None, None))?;
    // The structure is compared later.
    other.must_add(&[], NodeParameters::Empty)?;
    equal("an update by more nodes", executable.update(&other), (Status::NOT_SUPPORTED, None, None))
}

fn update_after_the_executable_is_gone(environment: &Environment) -> Verdict {
    let (plain, other) = (RawGraph::row(environment, 2)?, RawGraph::row(environment, 2)?);
    other.refuses("a free of nothing", &[], &NodeParameters::Free(DevicePointer::NULL), Status::INVALID_VALUE)?;
    let executable = plain.must_instantiate()?;
    drop(other.must_instantiate()?);
    equal("an update", executable.update(&other).0, Status::SUCCESS)?;
    other.must_add(&[], NodeParameters::Empty)?;
    let changed = Some(GraphUpdateResult::TOPOLOGY_CHANGED);
    equal("an update by more nodes", executable.update(&other), (Status::GRAPH_EXEC_UPDATE_FAILURE, changed, None))
}
