//! Nodes of which several things are wrong, and what a refused call leaves: nothing.

use super::graph_raw::RawGraph;
use super::graph_tools::{raw_digit, word};
use super::memory_raw::HUGE;
use crate::case::{Case, Failed, Need, Verdict, equal};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::Value;
use anabranch::{
    AllocationNode, Buffer, Capabilities, DevicePointer, EdgeData, EdgeKind, FunctionHandle, KernelNode,
    NodeParameters, Status, Stream, ValueOperation, WaitValueFlags, WriteValueFlags,
};

const CLUSTERS: &[Need] = &[Need::Capability(Capabilities::CLUSTER_LAUNCH)];
const COOPERATIVE: &[Need] = &[Need::Capability(Capabilities::COOPERATIVE_LAUNCH)];
const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];

pub(super) const CASES: &[Case] = &[
    Case::new("graph.parameters_before_edge_data", "G1", parameters_before_edge_data),
    Case::new("graph.cluster_before_edge_data", "G1", cluster_before_edge_data).needs(CLUSTERS),
    Case::new("graph.cooperative_grid_before_edge_data", "G1", cooperative_grid_before_edge_data).needs(COOPERATIVE),
    Case::new("graph.child_before_edge_data", "G1", child_before_edge_data),
    Case::new("graph.allocation_before_edge_data", "G1", allocation_before_edge_data).needs(POOLS),
    Case::new("graph.parameters_before_dependencies", "G1", parameters_before_dependencies),
    Case::new("graph.refused_edge_data_leaves_no_node", "G1", refused_edge_data_leaves_no_node).needs(POOLS),
    Case::new("graph.refused_cluster_leaves_no_node", "G1", refused_cluster_leaves_no_node).needs(CLUSTERS),
    Case::new("graph.edge_data_of_a_new_node", "G1", edge_data_of_a_new_node),
    Case::new("graph.edge_data_of_new_nodes_of_all_kinds", "G1", edge_data_of_new_nodes_of_all_kinds),
    Case::new("graph.set_node_refused_keeps_the_kernel", "G3", set_node_refused_keeps_the_kernel).needs(CLUSTERS),
    Case::new("graph.set_node_takes_the_cluster_away", "G3", set_node_takes_the_cluster_away).needs(CLUSTERS),
    Case::new("graph.value_operations_misaligned", "G1", value_operations_misaligned),
    Case::new("graph.value_operations_past_the_end", "G1", value_operations_past_the_end),
    Case::new("graph.value_operations_nowhere", "G1", value_operations_nowhere),
];

/// Data that no edge can have.
const BAD: EdgeData = EdgeData { from_port: 255, to_port: 0, kind: EdgeKind::FULL };

const PROGRAMMATIC: EdgeData = EdgeData { from_port: 1, to_port: 0, kind: EdgeKind::PROGRAMMATIC };

/// The parameters of a kernel that appends a digit, and its memory.
fn kernel(environment: &Environment) -> Result<(KernelNode, Stream, Buffer<u32>), Failed> {
    let (stream, word) = word(environment)?;
    Ok((raw_digit(environment, word.device_pointer(), 1)?, stream, word))
}

fn too_large_a_cluster(good: &KernelNode) -> KernelNode {
    KernelNode { cluster: Some([1, 2, 1]), ..good.clone() }
}

fn parameters_before_edge_data(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let graph = RawGraph::row(environment, 1)?;
    let node = NodeParameters::Kernel(KernelNode { function: FunctionHandle::from_raw(0), ..good });
    graph.refuses("no function", &[(0, BAD)], &node, Status::INVALID_HANDLE)?;
    graph.refuses("nothing else", &[(0, BAD)], &NodeParameters::Empty, Status::INVALID_VALUE)
}

fn cluster_before_edge_data(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let graph = RawGraph::row(environment, 1)?;
    let node = NodeParameters::Kernel(too_large_a_cluster(&good));
    graph.refuses("a cluster larger than the grid", &[(0, BAD)], &node, Status::INVALID_CLUSTER_SIZE)
}

fn cooperative_grid_before_edge_data(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let graph = RawGraph::row(environment, 1)?;
    let node = NodeParameters::Kernel(KernelNode { cooperative: true, grid: [1 << 20, 1, 1], ..good });
    graph.refuses("too large a grid", &[(0, BAD)], &node, Status::COOPERATIVE_LAUNCH_TOO_LARGE)
}

fn child_before_edge_data(environment: &Environment) -> Verdict {
    let (graph, child) = (RawGraph::row(environment, 1)?, RawGraph::new(environment)?);
    child.refuses("a free", &[], &NodeParameters::Free(DevicePointer::NULL), Status::INVALID_VALUE)?;
    let node = NodeParameters::Child(child.handle());
    graph.refuses("a child that owns memory", &[(0, BAD)], &node, Status::NOT_SUPPORTED)
}

fn allocation(environment: &Environment, bytes: usize) -> NodeParameters {
    NodeParameters::Allocate(AllocationNode {
        device: environment.device().ordinal(),
        bytes,
        access: Vec::new(),
        address: DevicePointer::NULL,
    })
}

fn allocation_before_edge_data(environment: &Environment) -> Verdict {
    let graph = RawGraph::row(environment, 1)?;
    graph.refuses("too much memory", &[(0, BAD)], &allocation(environment, HUGE), Status::INVALID_VALUE)
}

fn parameters_before_dependencies(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let graph = RawGraph::row(environment, 1)?;
    let node = NodeParameters::Kernel(KernelNode { function: FunctionHandle::from_raw(0), ..good });
    let twice = [(0, EdgeData::default()); 2];
    graph.refuses("a dependency named twice", &twice, &node, Status::INVALID_HANDLE)?;
    graph.refuses("a dependency named twice, and once with data", &[twice[0], (0, BAD)], &node, Status::INVALID_HANDLE)
}

/// Nodes cannot be removed from a graph that allocates, so a refused one must not have been added.
fn refused_edge_data_leaves_no_node(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let event = environment.context().create_event()?;
    let graph = RawGraph::row(environment, 1)?;
    graph.must_add(&[], allocation(environment, 4096))?;
    for node in [
        NodeParameters::Empty,
        NodeParameters::Kernel(good),
        NodeParameters::EventRecord(event.live().handle()),
        NodeParameters::EventWait(event.live().handle()),
        allocation(environment, 4096),
    ] {
        graph.refuses(&format!("{}", node.kind()), &[(0, BAD)], &node, Status::INVALID_VALUE)?;
    }
    Ok(())
}

fn refused_cluster_leaves_no_node(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let graph = RawGraph::row(environment, 1)?;
    graph.refuses("a free", &[], &NodeParameters::Free(DevicePointer::NULL), Status::INVALID_VALUE)?;
    let node = NodeParameters::Kernel(too_large_a_cluster(&good));
    graph.refuses("too large a cluster", &[], &node, Status::INVALID_CLUSTER_SIZE)
}

fn edge_data_of_a_new_node(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let graph = RawGraph::new(environment)?;
    graph.must_add(&[], NodeParameters::Kernel(good.clone()))?;
    let added = graph.add_with(&[(0, PROGRAMMATIC)], &NodeParameters::Kernel(good))?.map(|_| ());
    equal("a kernel behind a trigger", added, Ok(()))?;
    equal("nodes and edges", graph.counts()?, (2, 1))?;
    graph.refuses(
        "the same node twice",
        &[(0, PROGRAMMATIC), (0, EdgeData::default())],
        &NodeParameters::Empty,
        Status::INVALID_VALUE,
    )
}

/// Only kernels can wait for a trigger. What is wrong is the edge, whatever the node is.
fn edge_data_of_new_nodes_of_all_kinds(environment: &Environment) -> Verdict {
    let (good, _stream, word) = kernel(environment)?;
    let event = environment.context().create_event()?;
    let child = RawGraph::row(environment, 1)?;
    let graph = RawGraph::new(environment)?;
    graph.must_add(&[], NodeParameters::Kernel(good))?;
    let write = ValueOperation::Write {
        address: environment.context().allocate_pinned::<u32>(1)?.device_pointer(),
        value: Value::U32(1),
        flags: WriteValueFlags::empty(),
    };
    let fill = anabranch::FillNode {
        address: word.device_pointer(),
        pitch: 0,
        pattern: anabranch::FillPattern::U32(1),
        width: 1,
        height: 1,
    };
    for node in [
        NodeParameters::Fill(fill),
        NodeParameters::Empty,
        NodeParameters::EventRecord(event.live().handle()),
        NodeParameters::EventWait(event.live().handle()),
        NodeParameters::Child(child.handle()),
        NodeParameters::ValueOperations(vec![write]),
    ] {
        graph.refuses(&format!("{}", node.kind()), &[(0, PROGRAMMATIC)], &node, Status::INVALID_VALUE)?;
    }
    Ok(())
}

fn set_node_refused_keeps_the_kernel(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let graph = RawGraph::new(environment)?;
    graph.must_add(&[], NodeParameters::Kernel(KernelNode { grid: [2, 1, 1], ..good.clone() }))?;
    let wrong = NodeParameters::Kernel(too_large_a_cluster(&good));
    equal("too large a cluster", graph.set(0, &wrong)?, Status::INVALID_CLUSTER_SIZE)?;
    match graph.parameters(0)? {
        Ok(NodeParameters::Kernel(found)) => {
            equal("the grid and the cluster", (found.grid, found.cluster), ([2, 1, 1], None))
        }
        other => Err(Failed(format!("the node is {other:?}"))),
    }
}

/// The new grid would not fit the old cluster.
fn set_node_takes_the_cluster_away(environment: &Environment) -> Verdict {
    let (good, ..) = kernel(environment)?;
    let graph = RawGraph::new(environment)?;
    let clusters = KernelNode { grid: [3, 1, 1], cluster: Some([3, 1, 1]), ..good.clone() };
    graph.must_add(&[], NodeParameters::Kernel(clusters.clone()))?;
    equal("a grid of one block", graph.set(0, &NodeParameters::Kernel(good))?, Status::SUCCESS)?;
    equal("the cluster again", graph.set(0, &NodeParameters::Kernel(clusters))?, Status::SUCCESS)?;
    match graph.parameters(0)? {
        Ok(NodeParameters::Kernel(found)) => {
            equal("the grid and the cluster", (found.grid, found.cluster), ([3, 1, 1], Some([3, 1, 1])))
        }
        other => Err(Failed(format!("the node is {other:?}"))),
    }
}

/// What a node of one value operation is answered: a write, and a wait.
fn operations(graph: &RawGraph<'_>, address: DevicePointer, value: Value) -> Result<[Status; 2], Failed> {
    let write = ValueOperation::Write { address, value, flags: WriteValueFlags::empty() };
    let wait = ValueOperation::Wait { address, value, flags: WaitValueFlags::GREATER_OR_EQUAL };
    let mut found = [Status::SUCCESS; 2];
    for (found, operation) in found.iter_mut().zip([write, wait]) {
        let added = graph.add(&[], &NodeParameters::ValueOperations(vec![operation]))?;
        *found = added.err().unwrap_or(Status::SUCCESS);
    }
    Ok(found)
}

fn value_operations_misaligned(environment: &Environment) -> Verdict {
    let graph = RawGraph::new(environment)?;
    let memory = environment.context().allocate_pinned::<u64>(4)?;
    let address = memory.device_pointer();
    for offset in 1..=3 {
        let found = operations(&graph, address.byte_add(offset), Value::U32(1))?;
        equal(&format!("32 bits at {offset}"), found, [Status::INVALID_VALUE; 2])?;
    }
    equal("64 bits at 4", operations(&graph, address.byte_add(4), Value::U64(1))?, [Status::INVALID_VALUE; 2])
}

/// In streams, the driver checks where the memory ends. In nodes, it does not.
fn value_operations_past_the_end(environment: &Environment) -> Verdict {
    let graph = RawGraph::new(environment)?;
    let memory = environment.context().allocate_zeroed::<u64>(&environment.stream()?, 2)?;
    let end = memory.device_pointer().byte_add(16);
    equal("32 bits at the end", operations(&graph, end, Value::U32(1))?, [Status::SUCCESS; 2])?;
    equal("64 bits at the end", operations(&graph, end, Value::U64(1))?, [Status::SUCCESS; 2])
}

fn value_operations_nowhere(environment: &Environment) -> Verdict {
    let graph = RawGraph::new(environment)?;
    let memory = vec![0u64; 1024];
    let pageable = DevicePointer(memory.as_ptr() as usize as u64);
    for (what, address) in
        [("nothing", DevicePointer::NULL), ("garbage", super::memory_raw::GARBAGE), ("pageable memory", pageable)]
    {
        equal(what, operations(&graph, address, Value::U32(1))?, [Status::SUCCESS; 2])?;
    }
    Ok(())
}
