//! Of several things that are wrong, the one that is told, and what the call does nevertheless.

use super::graph_raw::RawGraph;
use super::graph_tools::{digit, raw_digit, word};
use crate::case::{Case, Failed, Need, Verdict, equal};
use crate::environment::Environment;
use crate::kernels;
use anabranch::{
    AllocationNode, Capabilities, ConditionalKind, ConditionalNode, ContextFlags, DevicePointer, EdgeData, EdgeKind,
    FunctionHandle, GraphEdge, GraphInstantiateResult, InstantiateFlags, KernelNode, NodeParameters, NodeWork, Status,
};

const CLUSTERS: &[Need] = &[Need::Capability(Capabilities::CLUSTER_LAUNCH)];
const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];

pub(super) const CASES: &[Case] = &[
    Case::new("graph.edges_with_one_to_itself", "G1", edges_with_one_to_itself),
    Case::new("graph.edges_with_one_of_bad_data", "G1", edges_with_one_of_bad_data),
    Case::new("graph.edge_from_the_second_port", "G1", edge_from_the_second_port),
    Case::new("graph.launch_before_dependencies", "G1", launch_before_dependencies).needs(CLUSTERS),
    Case::new("graph.kernel_before_dependencies", "G1", kernel_before_dependencies),
    Case::new("graph.child_before_dependencies", "G1", child_before_dependencies).needs(POOLS),
    Case::new("graph.cycle_names_what_is_reached_again", "G1", cycle_names_what_is_reached_again),
    Case::new("graph.cycle_without_work_names_what_was_made_last", "G1", cycle_without_work),
    Case::new("graph.edges_of_one_call_have_the_data_of_the_first", "G1", edges_of_one_call),
    Case::new("graph.set_node_looks_at_attributes_before_the_kind", "G3", set_node_looks_at_attributes).needs(CLUSTERS),
    Case::new("graph.set_node_refuses_what_is_fixed_before_the_kind", "G3", set_node_refuses_what_is_fixed),
    Case::new("graph.unused_value_before_a_bad_body", "G2", unused_value_before_a_bad_body),
    Case::new("graph.node_of_the_host_before_a_bad_body", "G2", node_of_the_host_before_a_bad_body),
    Case::new("graph.kernel_of_another_context_in_a_body", "G2", kernel_of_another_context_in_a_body),
];

const PLAIN: EdgeData = EdgeData { from_port: 0, to_port: 0, kind: EdgeKind::FULL };

const BAD: EdgeData = EdgeData { from_port: 255, to_port: 0, kind: EdgeKind::FULL };

fn edges_with_one_to_itself(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 3)?;
    equal("adding", graph.connect(&[(0, 2, PLAIN), (1, 1, PLAIN)])?, Status::INVALID_VALUE)?;
    equal("nodes and edges after adding", graph.counts()?, (3, 2))?;
    equal("removing", graph.disconnect(&[(0, 1, PLAIN), (1, 1, PLAIN)])?, Status::INVALID_VALUE)?;
    equal("nodes and edges after removing", graph.counts()?, (3, 2))?;
    equal("removing one twice", graph.disconnect(&[(0, 1, PLAIN), (0, 1, PLAIN)])?, Status::INVALID_VALUE)?;
    equal("nodes and edges after removing one twice", graph.counts()?, (3, 1))
}

fn edges_with_one_of_bad_data(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 3)?;
    graph.must_add(&[], NodeParameters::Empty)?;
    equal("adding", graph.connect(&[(0, 2, PLAIN), (2, 3, BAD)])?, Status::INVALID_VALUE)?;
    equal("nodes and edges", graph.counts()?, (4, 2))?;
    equal("adding one that exists", graph.connect(&[(0, 2, PLAIN), (0, 1, PLAIN)])?, Status::INVALID_VALUE)?;
    equal("nodes and edges after that", graph.counts()?, (4, 3))
}

fn edge_from_the_second_port(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let graph = RawGraph::new(environment)?;
    graph.must_add(&[], NodeParameters::Kernel(raw_digit(environment, word.device_pointer(), 1)?))?;
    let from = |from_port| EdgeData { from_port, to_port: 0, kind: EdgeKind::FULL };
    let empty = NodeParameters::Empty;
    equal("the second", graph.add_with(&[(0, from(2))], &empty)?.map(|_| ()), Ok(()))?;
    graph.refuses("the first", &[(0, from(1))], &empty, Status::INVALID_VALUE)?;
    graph.refuses("from an empty node", &[(1, from(2))], &empty, Status::INVALID_VALUE)
}

fn launch_before_dependencies(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let kernel = raw_digit(environment, word.device_pointer(), 1)?;
    let large = NodeParameters::Kernel(KernelNode { cluster: Some([1, 2, 1]), ..kernel });
    let graph = RawGraph::row(environment, 1)?;
    graph.refuses("a dependency twice", &[(0, PLAIN), (0, PLAIN)], &large, Status::INVALID_CLUSTER_SIZE)?;
    graph.refuses("bad data", &[(0, BAD)], &large, Status::INVALID_CLUSTER_SIZE)
}

fn kernel_before_dependencies(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let kernel = raw_digit(environment, word.device_pointer(), 1)?;
    let none = NodeParameters::Kernel(KernelNode { function: FunctionHandle::from_raw(0), ..kernel });
    let graph = RawGraph::row(environment, 1)?;
    graph.refuses("no kernel", &[(0, PLAIN), (0, PLAIN)], &none, Status::INVALID_HANDLE)
}

fn child_before_dependencies(environment: &Environment) -> Verdict {
    let (graph, child) = (RawGraph::row(environment, 1)?, RawGraph::new(environment)?);
    child.must_add(
        &[],
        NodeParameters::Allocate(AllocationNode {
            device: environment.device().ordinal(),
            bytes: 4096,
            access: Vec::new(),
            address: DevicePointer::NULL,
        }),
    )?;
    let node = NodeParameters::Child(child.handle());
    graph.refuses("a child that allocates", &[(0, PLAIN), (0, PLAIN)], &node, Status::NOT_SUPPORTED)
}

fn set_node_looks_at_attributes(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let kernel = raw_digit(environment, word.device_pointer(), 1)?;
    let large = NodeParameters::Kernel(KernelNode { cluster: Some([1, 2, 1]), ..kernel.clone() });
    let none = NodeParameters::Kernel(KernelNode { function: FunctionHandle::from_raw(0), ..kernel });
    let graph = RawGraph::row(environment, 1)?;
    equal("a kernel with a bad cluster", graph.set(0, &large)?, Status::INVALID_CLUSTER_SIZE)?;
    equal("no kernel, and no attributes", graph.set(0, &none)?, Status::INVALID_VALUE)
}

fn set_node_refuses_what_is_fixed(environment: &Environment) -> Verdict {
    let (graph, child) = (RawGraph::row(environment, 1)?, RawGraph::row(environment, 1)?);
    equal("a child", graph.set(0, &NodeParameters::Child(child.handle()))?, Status::NOT_SUPPORTED)?;
    equal("a free", graph.set(0, &NodeParameters::Free(DevicePointer::NULL))?, Status::NOT_SUPPORTED)
}

fn cycle_names_what_is_reached_again(environment: &Environment) -> Verdict {
    let graph = RawGraph::new(environment)?;
    for _ in 0..4 {
        graph.must_add(&[], NodeParameters::Empty)?;
    }
    // The way is 0, 1, 3, 2, and 3 again.
    let edges = [(0, 1, PLAIN), (1, 3, PLAIN), (2, 3, PLAIN), (3, 2, PLAIN)];
    equal("adding edges", graph.connect(&edges)?, Status::SUCCESS)?;
    let refusal = graph.instantiate(InstantiateFlags::empty(), None).map(|_| ());
    let expected = (Status::INVALID_VALUE, Some(GraphInstantiateResult::INVALID_STRUCTURE), Some(graph.node(3)?));
    equal("instantiating", refusal, Err(expected))
}

fn cycle_without_work(environment: &Environment) -> Verdict {
    let (_stream, word) = word(environment)?;
    let named =
        |graph: &RawGraph<'_>| graph.instantiate(InstantiateFlags::empty(), None).map(|_| ()).map_err(|it| it.2);
    let graph = RawGraph::row(environment, 2)?;
    equal("adding an edge", graph.connect(&[(1, 0, PLAIN)])?, Status::SUCCESS)?;
    equal("a cycle of two empty nodes", named(&graph), Err(Some(graph.node(1)?)))?;
    let graph = RawGraph::row(environment, 1)?;
    (0..3).try_for_each(|_| graph.must_add(&[], NodeParameters::Empty).map(|_| ()))?;
    // The way is 0, 2, 1, and 0 again.
    equal("adding edges", graph.connect(&[(0, 2, PLAIN), (2, 1, PLAIN), (1, 0, PLAIN)])?, Status::SUCCESS)?;
    equal("a cycle of three empty nodes", named(&graph), Err(Some(graph.node(2)?)))?;
    let graph = RawGraph::row(environment, 1)?;
    graph.must_add(&[0], NodeParameters::Kernel(raw_digit(environment, word.device_pointer(), 1)?))?;
    equal("adding an edge", graph.connect(&[(1, 0, PLAIN)])?, Status::SUCCESS)?;
    equal("a cycle with a kernel", named(&graph), Err(Some(graph.node(0)?)))
}

/// The driver's call does so. The library makes one for each kind of data.
fn edges_of_one_call(environment: &Environment) -> Verdict {
    let (_stream, mut word) = word(environment)?;
    let kernel = || Ok::<_, Failed>(NodeParameters::Kernel(raw_digit(environment, word.device_pointer(), 1)?));
    let begun = EdgeData { from_port: 2, to_port: 0, kind: EdgeKind::FULL };
    for (first, second) in [(PLAIN, begun), (begun, PLAIN)] {
        let graph = RawGraph::new(environment)?;
        graph.must_add(&[], kernel()?)?;
        graph.must_add(&[], kernel()?)?;
        graph.must_add(&[], NodeParameters::Empty)?;
        equal("adding edges", graph.connect(&[(0, 2, first), (1, 2, second)])?, Status::SUCCESS)?;
        equal("their data", graph.edge_data()?, vec![first; 2])?;
    }
    let mut graph = environment.context().create_graph()?;
    let (from, other) = (graph.add((), digit(environment, &mut word, 1)?)?, graph.add((), NodeWork::empty())?);
    let to = graph.add((), NodeWork::empty())?;
    let edges = [GraphEdge { from: other, to, data: PLAIN }, GraphEdge { from, to, data: begun }];
    graph.add_edges(&edges)?;
    let mut found = graph.dependencies_of(to)?;
    found.sort_by_key(|&(node, _)| node != other);
    equal("what the last one depends on", found, vec![(other, PLAIN), (from, begun)])
}

/// A graph with a conditional node, in whose body are value operations, which cannot be there.
fn with_a_bad_body(environment: &Environment) -> Result<RawGraph<'_>, crate::case::Failed> {
    let graph = RawGraph::new(environment)?;
    let handle = graph.value()?;
    let node = ConditionalNode { handle, kind: ConditionalKind::If, body_count: 1, bodies: Vec::new() };
    graph.must_add(&[], NodeParameters::Conditional(node))?;
    graph.body(0, 0)?.must_add(&[], NodeParameters::ValueOperations(Vec::new()))?;
    Ok(graph)
}

fn unused_value_before_a_bad_body(environment: &Environment) -> Verdict {
    let graph = with_a_bad_body(environment)?;
    let refusal = |flags| graph.instantiate(flags, None).map(|_| ()).map_err(|(status, result, _)| (status, result));
    let bad = Some(GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED);
    equal("a bad body", refusal(InstantiateFlags::empty()), Err((Status::INVALID_VALUE, bad)))?;
    graph.value()?;
    let unused = Some(GraphInstantiateResult::CONDITIONAL_HANDLE_UNUSED);
    equal("an unused value too", refusal(InstantiateFlags::empty()), Err((Status::INVALID_VALUE, unused)))
}

fn node_of_the_host_before_a_bad_body(environment: &Environment) -> Verdict {
    let graph = with_a_bad_body(environment)?;
    let refusal = graph.instantiate(InstantiateFlags::DEVICE_LAUNCH, None).map(|_| ());
    let unsupported = Some(GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED);
    equal("for the device", refusal, Err((Status::INVALID_VALUE, unsupported, Some(graph.node(0)?))))
}

fn kernel_of_another_context_in_a_body(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let kernel = kernels::program().load(&other)?.kernel("add")?;
    let memory = other.allocate_zeroed::<u32>(&other.create_stream()?, 1)?;
    other.synchronize()?;
    let node = KernelNode { function: kernel.as_raw(), ..raw_digit(environment, memory.device_pointer(), 1)? };
    let graph = RawGraph::new(environment)?;
    let handle = graph.value()?;
    let conditional = ConditionalNode { handle, kind: ConditionalKind::If, body_count: 1, bodies: Vec::new() };
    graph.must_add(&[], NodeParameters::Kernel(node.clone()))?;
    graph.must_add(&[], NodeParameters::Conditional(conditional))?;
    equal("beside the conditional node", graph.instantiate(InstantiateFlags::empty(), None).map(drop), Ok(()))?;
    let body = graph.body(1, 0)?;
    body.must_add(&[], NodeParameters::Empty)?;
    body.must_add(&[], NodeParameters::Kernel(node))?;
    let several = Some(GraphInstantiateResult::MULTIPLE_CONTEXTS_NOT_SUPPORTED);
    let refusal = graph.instantiate(InstantiateFlags::empty(), None).map(drop);
    equal("in its body", refusal, Err((Status::INVALID_VALUE, several, Some(body.node(1)?))))?;
    // A fill of a child graph.
    let mut child = other.create_graph()?;
    let mut filled = memory;
    child.add((), NodeWork::fill(&mut filled, 1u32)?)?;
    let graph = RawGraph::new(environment)?;
    let handle = graph.value()?;
    let conditional = ConditionalNode { handle, kind: ConditionalKind::If, body_count: 1, bodies: Vec::new() };
    graph.must_add(&[], NodeParameters::Conditional(conditional))?;
    graph.body(0, 0)?.must_add(&[], NodeParameters::Child(child.as_raw()))?;
    let refusal = graph.instantiate(InstantiateFlags::empty(), None).map(drop);
    equal(
        "a fill in its body",
        refusal.map_err(|(status, reason, _)| (status, reason)),
        Err((Status::INVALID_VALUE, several)),
    )?;
    // A graph that kernels launch has work.
    let (graph, empty) = (RawGraph::new(environment)?, environment.context().create_graph()?);
    graph.must_add(&[], NodeParameters::Child(empty.as_raw()))?;
    let (flags, stream) = (InstantiateFlags::DEVICE_LAUNCH | InstantiateFlags::UPLOAD, environment.stream()?);
    let refusal = graph.instantiate(flags, Some(&stream)).map(drop);
    equal("no work", refusal, Err((Status::INVALID_VALUE, Some(GraphInstantiateResult::ERROR), None)))
}
